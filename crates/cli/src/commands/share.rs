//! `holdfast share`: folders shared with accounts, and links. Sharing hands on the space's key, so an owner of the space has to do it.

use crate::args::{DataArg, UserArg};
use crate::local::Local;
use crate::output::{show, table, time};
use crate::secret;
use clap::{Args, Subcommand, ValueEnum};
use holdfast_auth::Session;
use holdfast_auth::accounts::ShareRequest;
use holdfast_base::{Clock, DrivePath, SystemClock, Uid};
use holdfast_meta::{Access, Shared};
use serde::Serialize;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Milliseconds in a day.
const DAY_MS: i64 = 86_400_000;

#[derive(Debug, Subcommand)]
pub(crate) enum ShareCommand {
    /// Share a folder with an account. --user is an owner of the space.
    Add(AddArgs),
    /// Make a link to a folder or file and show its address. --user is an owner of the space.
    Link(LinkArgs),
    /// List what --user has shared, and what is shared with them.
    List(ListArgs),
    /// Take a share back, at once; or leave what was shared with --user.
    Revoke(RevokeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct Place {
    /// The space.
    space: String,
    /// The folder (or, for a link, the file) in it.
    path: String,
    /// Days until it ends.
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..))]
    days: Option<u32>,
    /// A note, shown in lists.
    #[arg(long, default_value = "")]
    label: String,
    #[command(flatten)]
    data: DataArg,
    #[command(flatten)]
    user: UserArg,
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    #[command(flatten)]
    place: Place,
    /// The account.
    #[arg(long, value_name = "NAME")]
    with: String,
    /// Also writing.
    #[arg(long)]
    write: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LinkArgs {
    #[command(flatten)]
    place: Place,
    /// What its visitors may do.
    #[arg(long, value_enum, default_value = "read")]
    access: AccessArg,
    /// File with a password for the link in its first line.
    #[arg(long, value_name = "FILE")]
    link_password_file: Option<PathBuf>,
    /// Downloads at most.
    #[arg(long, value_name = "NUMBER")]
    downloads: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    data: DataArg,
    #[command(flatten)]
    user: UserArg,
}

#[derive(Debug, Args)]
pub(crate) struct RevokeArgs {
    /// The share, as listed.
    id: Uid,
    #[command(flatten)]
    data: DataArg,
    #[command(flatten)]
    user: UserArg,
}

/// Values of `--access`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum AccessArg {
    /// Looking and downloading.
    Read,
    /// Also changing and uploading.
    Write,
    /// Only uploading, and seeing nothing.
    Upload,
}

impl From<AccessArg> for Access {
    fn from(access: AccessArg) -> Self {
        match access {
            AccessArg::Read => Self::Read,
            AccessArg::Write => Self::Write,
            AccessArg::Upload => Self::Upload,
        }
    }
}

/// A share as it is printed.
#[derive(Debug, Serialize)]
struct ShareOutput {
    id: String,
    by: String,
    with: Option<String>,
    space: String,
    path: Option<String>,
    access: Access,
    label: String,
    /// Of a link: its address after the host's.
    link: Option<String>,
    has_password: bool,
    expires_ms: Option<i64>,
    downloads_max: Option<u64>,
    downloads: u64,
}

impl ShareOutput {
    fn new(local: &Local, who: &Session, shared: Shared) -> Self {
        let secret = local.accounts.link_secret(who, &shared);
        let is_theirs = shared.share.account == Some(who.account);
        let Shared { share, space, place } = shared;
        let path = place.map(|(path, _)| if is_theirs { "/".to_owned() } else { path.to_string() });
        Self {
            id: share.uid.to_string(),
            by: share.by_name,
            with: share.account.map(|_| share.account_name),
            space: if is_theirs { share.name } else { space.name },
            path,
            access: share.access,
            label: share.label,
            link: secret.map(|secret| format!("/l/{}#{}", share.uid, secret.expose())),
            has_password: share.link.is_some_and(|link| link.has_password),
            expires_ms: share.expires_ms,
            downloads_max: share.downloads_max,
            downloads: share.downloads,
        }
    }

    fn row(&self) -> Vec<String> {
        vec![
            self.id.clone(),
            format!("{}{}", self.space, self.path.as_deref().unwrap_or(" (in the trash)")),
            self.with.clone().unwrap_or_else(|| "link".into()),
            format!("{:?}", self.access).to_lowercase(),
            self.expires_ms.map_or_else(|| "never".into(), time),
            self.link.clone().unwrap_or_default(),
        ]
    }
}

/// Runs one of them.
pub(crate) async fn run(command: ShareCommand, json: bool) -> anyhow::Result<ExitCode> {
    match command {
        ShareCommand::Add(args) => {
            let access = if args.write { Access::Write } else { Access::Read };
            share(args.place, Some(args.with), access, None, None, json).await
        }
        ShareCommand::Link(args) => {
            share(args.place, None, args.access.into(), args.link_password_file, args.downloads, json).await
        }
        ShareCommand::List(args) => list(&args, json).await,
        ShareCommand::Revoke(args) => {
            let local = Local::open(&args.data).await?;
            let who = local.sign_in(&args.user).await?;
            local.accounts.remove_share(&who, args.id).await?;
            show(json, &json!({ "id": args.id.to_string(), "revoked": true }), |_| {
                "It is not shared any more.".into()
            })?;
            local.close().await?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn share(
    place: Place,
    account: Option<String>,
    access: Access,
    password_file: Option<PathBuf>,
    downloads_max: Option<u64>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let path = DrivePath::parse(&place.path)?;
    let password = password_file.as_deref().map(secret::from_file).transpose()?;
    let local = Local::open(&place.data).await?;
    let who = local.sign_in(&place.user).await?;
    let expires_ms = place.days.map(|days| SystemClock.now_ms() + i64::from(days) * DAY_MS);
    let request = ShareRequest { account, access, label: place.label, password, expires_ms, downloads_max };
    let shared = local.accounts.share(&who, &place.space, &path, request).await?;
    let output = ShareOutput::new(&local, &who, shared);
    show(json, &output, |output| match (&output.link, &output.with) {
        (Some(link), _) => {
            format!("{link}\n\nPut the address of the drive before it. Whoever has all of it can open it.")
        }
        (None, with) => format!("{} is shared with {}.", place.path, with.as_deref().unwrap_or_default()),
    })?;
    local.close().await?;
    Ok(ExitCode::SUCCESS)
}

async fn list(args: &ListArgs, json: bool) -> anyhow::Result<ExitCode> {
    let local = Local::open(&args.data).await?;
    let who = local.sign_in(&args.user).await?;
    let mut all = local.accounts.shares_made(&who).await?;
    all.extend(local.accounts.shares_had(&who).await?);
    let shares: Vec<ShareOutput> = all.into_iter().map(|shared| ShareOutput::new(&local, &who, shared)).collect();
    show(json, &shares, |shares| {
        let rows: Vec<_> = shares.iter().map(ShareOutput::row).collect();
        table(&["ID", "PLACE", "WITH", "MAY", "UNTIL", "ADDRESS"], &rows)
    })?;
    local.close().await?;
    Ok(ExitCode::SUCCESS)
}
