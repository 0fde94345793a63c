//! `holdfast version`: old versions of a file. Works beside a running server.

use crate::args::{DataArg, UserArg};
use crate::local::Local;
use crate::output::{show, table, time};
use clap::{Args, Subcommand};
use holdfast_auth::Session;
use holdfast_base::size::format_bytes;
use holdfast_base::{DrivePath, Error};
use holdfast_meta::{NodeKind, Role, Space, Version};
use serde::Serialize;
use serde_json::json;
use std::process::ExitCode;

#[derive(Debug, Subcommand)]
pub(crate) enum VersionCommand {
    /// List a file's old versions, newest first.
    List(ListArgs),
    /// Make an old version the current one; the present content becomes an old version.
    Restore(RestoreArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// The space.
    space: String,
    /// The file's path in it.
    path: String,
    #[command(flatten)]
    data: DataArg,
    #[command(flatten)]
    user: UserArg,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The space.
    space: String,
    /// The file's path in it.
    path: String,
    /// The version, as listed.
    version: i64,
    #[command(flatten)]
    data: DataArg,
    #[command(flatten)]
    user: UserArg,
}

/// A version as it is listed.
#[derive(Debug, Serialize)]
struct VersionOutput {
    version: i64,
    size_bytes: u64,
    modified_ms: i64,
    superseded_ms: i64,
}

impl From<Version> for VersionOutput {
    fn from(version: Version) -> Self {
        Self {
            version: version.seq,
            size_bytes: version.size,
            modified_ms: version.modified_ms,
            superseded_ms: version.superseded_ms,
        }
    }
}

/// Runs one of them.
pub(crate) async fn run(command: VersionCommand, json: bool) -> anyhow::Result<ExitCode> {
    match command {
        VersionCommand::List(args) => list(&args, json).await,
        VersionCommand::Restore(args) => restore(&args, json).await,
    }
}

/// The space and path a command names, for an account that is at least `least` there.
async fn place(
    local: &Local,
    who: &Session,
    space: &str,
    path: &str,
    least: Role,
) -> anyhow::Result<(Space, DrivePath)> {
    let path = DrivePath::parse(path)?;
    let (space, _) = local.space(who, space, least).await?;
    Ok((space, path))
}

async fn list(args: &ListArgs, json: bool) -> anyhow::Result<ExitCode> {
    let local = Local::open(&args.data).await?;
    let who = local.sign_in(&args.user).await?;
    let (space, path) = place(&local, &who, &args.space, &args.path, Role::Reader).await?;
    let found = local.catalogue.find(space.id, &path, false).await?;
    let node = found.node(&path).filter(|node| node.kind == NodeKind::File);
    let node = node.ok_or_else(|| Error::not_found(format!("there is no file {path} in {}", args.space)))?;
    let versions: Vec<VersionOutput> = local.catalogue.versions(node.id).await?.into_iter().map(Into::into).collect();
    show(json, &versions, |versions| {
        let rows: Vec<_> = versions
            .iter()
            .map(|old| {
                vec![
                    old.version.to_string(),
                    format_bytes(old.size_bytes),
                    time(old.modified_ms),
                    time(old.superseded_ms),
                ]
            })
            .collect();
        table(&["VERSION", "SIZE", "MODIFIED", "SUPERSEDED"], &rows)
    })?;
    local.close().await?;
    Ok(ExitCode::SUCCESS)
}

async fn restore(args: &RestoreArgs, json: bool) -> anyhow::Result<ExitCode> {
    let local = Local::open(&args.data).await?;
    let who = local.sign_in(&args.user).await?;
    let (space, path) = place(&local, &who, &args.space, &args.path, Role::Editor).await?;
    let node = local.catalogue.restore_version(space.id, &path, args.version, &Local::guard(&who)).await?;
    let output = json!({ "path": path.to_string(), "version": node.seq, "size_bytes": node.size });
    show(json, &output, |_| format!("{path} is version {} again.", args.version))?;
    local.close().await?;
    Ok(ExitCode::SUCCESS)
}
