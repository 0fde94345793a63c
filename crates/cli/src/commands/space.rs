//! `holdfast space`: spaces, their policy and their members.
//!
//! What needs no key (listing, policy, quota) is the operator's and takes no password; what makes or wraps a space's key
//! (making a space, adding a member) is done by an account that has it.

use super::member::{self, MemberCommand};
use crate::args::{DataArg, UserArg};
use crate::local::Local;
use crate::output::{Quota, parse_quota, quota, show, table};
use clap::builder::BoolishValueParser;
use clap::{Args, Subcommand};
use holdfast_base::size::format_bytes;
use holdfast_base::{Clock, Error, SystemClock};
use holdfast_meta::{Compression, Retention, Space, SpaceChange};
use serde::Serialize;
use serde_json::json;
use std::process::ExitCode;

#[derive(Debug, Subcommand)]
pub(crate) enum SpaceCommand {
    /// Make a group space that an account owns.
    Create(CreateArgs),
    /// List all spaces.
    List(DataArg),
    /// Show one space.
    Show(NameArgs),
    /// Change compression, retention or quota of a space.
    Set(SetArgs),
    /// Remove a group space with everything in it.
    Remove(RemoveArgs),
    /// Add, remove or list members.
    #[command(subcommand)]
    Member(MemberCommand),
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Name of the space.
    name: String,
    #[command(flatten)]
    data: DataArg,
    #[command(flatten)]
    user: UserArg,
    /// Bytes it may use (10G, 1.5TB), or none.
    #[arg(long, value_name = "SIZE", value_parser = parse_quota)]
    quota: Option<Quota>,
}

#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// Name of the space.
    name: String,
    #[command(flatten)]
    data: DataArg,
}

#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// Name of the space.
    name: String,
    #[command(flatten)]
    data: DataArg,
    /// Compression of new content: none, lz4, zstd (its default level) or zstd:LEVEL (1 to 19).
    #[arg(long, value_name = "CODEC", value_parser = parse_compression)]
    compression: Option<Compression>,
    /// Bytes the space may use (10G, 1.5TB), or none.
    #[arg(long, value_name = "SIZE", value_parser = parse_quota)]
    quota: Option<Quota>,
    /// Days that old versions and trash are kept; 0 keeps nothing.
    #[arg(long, value_name = "DAYS")]
    keep_days: Option<u32>,
    /// Old versions of one file kept at most, or none for no limit.
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    keep_versions: Option<Count>,
    /// Bytes of old versions and trash kept at most, or none for no limit.
    #[arg(long, value_name = "SIZE", value_parser = parse_quota)]
    keep_bytes: Option<Quota>,
    /// Whether old versions thin out as they age (yes, as in new spaces): all of the last ten minutes are kept, then what a file was at each full
    /// ten seconds for an hour, five minutes for a day, hour for 30 days, and day. With no each is kept for --keep-days.
    #[arg(long, value_name = "YES|NO", value_parser = BoolishValueParser::new())]
    thin_versions: Option<bool>,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// Name of the space.
    name: String,
    #[command(flatten)]
    data: DataArg,
    /// Do it: the content is gone for good.
    #[arg(long)]
    yes: bool,
}

/// A count as an argument; none is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Count(Option<u32>);

fn parse_count(text: &str) -> Result<Count, String> {
    match text {
        "none" | "unlimited" => Ok(Count(None)),
        number => {
            number.parse().map(|count| Count(Some(count))).map_err(|_| format!("{text:?} is not a number or none"))
        }
    }
}

fn parse_compression(text: &str) -> Result<Compression, String> {
    match text {
        "none" => Ok(Compression::None),
        "lz4" => Ok(Compression::Lz4),
        "zstd" => Ok(Compression::default()),
        other => other
            .strip_prefix("zstd:")
            .and_then(|level| level.parse::<i8>().ok())
            .filter(|level| (1..=19).contains(level))
            .map(Compression::Zstd)
            .ok_or_else(|| format!("{text:?} is not none, lz4, zstd or zstd:LEVEL with a level from 1 to 19")),
    }
}

fn compression_text(compression: Compression) -> String {
    match compression {
        Compression::None => "none".into(),
        Compression::Lz4 => "lz4".into(),
        Compression::Zstd(level) => format!("zstd:{level}"),
    }
}

/// A space as it is printed.
#[derive(Debug, Serialize)]
struct SpaceOutput {
    name: String,
    owner: String,
    home: bool,
    used_bytes: u64,
    version_bytes: u64,
    reserved_bytes: u64,
    stored_raw_bytes: u64,
    stored_sealed_bytes: u64,
    quota_bytes: Option<u64>,
    compression: String,
    keep_days: u32,
    keep_versions: Option<u32>,
    keep_bytes: Option<u64>,
    thin_versions: bool,
    created_ms: i64,
}

impl SpaceOutput {
    async fn of(local: &Local, space: Space) -> anyhow::Result<Self> {
        let owner = local.catalogue.account(space.owner).await?.map_or_else(String::new, |account| account.name);
        Ok(Self {
            name: space.name,
            owner,
            home: space.home,
            used_bytes: space.usage.used_bytes,
            version_bytes: space.usage.version_bytes,
            reserved_bytes: space.usage.reserved_bytes,
            stored_raw_bytes: space.usage.stored_raw_bytes,
            stored_sealed_bytes: space.usage.stored_sealed_bytes,
            quota_bytes: space.quota_bytes,
            compression: compression_text(space.compression),
            keep_days: space.retention.days,
            keep_versions: space.retention.versions_max,
            keep_bytes: space.retention.bytes_max,
            thin_versions: space.retention.thin,
            created_ms: space.created_ms,
        })
    }

    fn row(&self) -> Vec<String> {
        vec![
            self.name.clone(),
            self.owner.clone(),
            if self.home { "home" } else { "group" }.into(),
            format_bytes(self.used_bytes),
            format_bytes(self.stored_sealed_bytes),
            quota(self.quota_bytes),
            self.compression.clone(),
            format!("{} days", self.keep_days),
        ]
    }
}

const HEADING: [&str; 8] = ["NAME", "OWNER", "KIND", "USED", "STORED", "QUOTA", "COMPRESSION", "KEEPS"];

/// Runs one of them.
pub(crate) async fn run(command: SpaceCommand, json: bool) -> anyhow::Result<ExitCode> {
    match command {
        SpaceCommand::Create(args) => create(args, json).await,
        SpaceCommand::List(data) => list(&data, json).await,
        SpaceCommand::Show(args) => {
            let local = Local::open(&args.data).await?;
            let space = find(&local, &args.name).await?;
            print_one(local, space, json).await
        }
        SpaceCommand::Set(args) => set(args, json).await,
        SpaceCommand::Remove(args) => remove(args, json).await,
        SpaceCommand::Member(command) => member::run(command, json).await,
    }
}

async fn find(local: &Local, name: &str) -> anyhow::Result<Space> {
    let found = local.catalogue.all_spaces().await?.into_iter().find(|space| space.name == name);
    found.ok_or_else(|| Error::not_found(format!("there is no space {name:?}")).into())
}

async fn print_one(local: Local, space: Space, json: bool) -> anyhow::Result<ExitCode> {
    let space = SpaceOutput::of(&local, space).await?;
    show(json, &space, |space| table(&HEADING, &[space.row()]))?;
    local.close().await?;
    Ok(ExitCode::SUCCESS)
}

async fn create(args: CreateArgs, json: bool) -> anyhow::Result<ExitCode> {
    let local = Local::open(&args.data).await?;
    let who = local.sign_in(&args.user).await?;
    let space = local.accounts.create_space(&who, &args.name, args.quota.and_then(|quota| quota.0)).await?;
    print_one(local, space, json).await
}

async fn list(data: &DataArg, json: bool) -> anyhow::Result<ExitCode> {
    let local = Local::open(data).await?;
    let mut spaces = Vec::new();
    for space in local.catalogue.all_spaces().await? {
        spaces.push(SpaceOutput::of(&local, space).await?);
    }
    show(json, &spaces, |spaces| table(&HEADING, &spaces.iter().map(SpaceOutput::row).collect::<Vec<_>>()))?;
    local.close().await?;
    Ok(ExitCode::SUCCESS)
}

async fn set(args: SetArgs, json: bool) -> anyhow::Result<ExitCode> {
    let local = Local::open(&args.data).await?;
    let space = find(&local, &args.name).await?;
    let old = space.retention;
    let retention = Retention {
        days: args.keep_days.unwrap_or(old.days),
        versions_max: args.keep_versions.map_or(old.versions_max, |count| count.0),
        bytes_max: args.keep_bytes.map_or(old.bytes_max, |bytes| bytes.0),
        thin: args.thin_versions.unwrap_or(old.thin),
    };
    let change = SpaceChange {
        compression: args.compression,
        retention: (retention != old).then_some(retention),
        quota_bytes: args.quota.map(|quota| quota.0),
        owner: None,
    };
    if change == SpaceChange::default() && retention == old {
        let retention = (args.keep_days, args.keep_versions.is_some(), args.keep_bytes.is_some(), args.thin_versions);
        if retention == (None, false, false, None) {
            return Err(Error::invalid("what should change? Give --compression, --quota, --keep-days, …").into());
        }
    }
    let space = local.catalogue.change_space(space.id, change).await?;
    print_one(local, space, json).await
}

async fn remove(args: RemoveArgs, json: bool) -> anyhow::Result<ExitCode> {
    if !args.yes {
        return Err(
            Error::invalid(format!("this removes {} and everything in it for good: say --yes", args.name)).into()
        );
    }
    let local = Local::open(&args.data).await?;
    let space = find(&local, &args.name).await?;
    local.catalogue.remove_space(space.id, SystemClock.now_ms()).await?;
    show(json, &json!({ "name": args.name, "removed": true }), |_| format!("Space {} is removed.", args.name))?;
    local.close().await?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compression_reads_what_it_writes() {
        for text in ["none", "lz4", "zstd:1", "zstd:19"] {
            assert_eq!(compression_text(parse_compression(text).expect(text)), text);
        }
        assert_eq!(parse_compression("zstd"), Ok(Compression::default()));
        for bad in ["", "gzip", "zstd:0", "zstd:20", "zstd:x"] {
            assert!(parse_compression(bad).is_err(), "{bad}");
        }
    }
}
