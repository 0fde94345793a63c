//! `holdfast trash`: what was deleted and can come back. Works beside a running server.

use crate::args::{DataArg, UserArg};
use crate::local::Local;
use crate::output::{show, table, time};
use clap::{Args, Subcommand};
use holdfast_base::DrivePath;
use holdfast_base::size::format_bytes;
use holdfast_meta::{NodeKind, Role, TrashEntry};
use serde::Serialize;
use serde_json::json;
use std::process::ExitCode;

/// Entries asked of the catalogue at a time.
const PAGE: usize = 1_000;

#[derive(Debug, Subcommand)]
pub(crate) enum TrashCommand {
    /// List what is in a space's trash, newest first.
    List(ListArgs),
    /// Put an entry back, where it was or elsewhere.
    Restore(RestoreArgs),
    /// Remove one entry, or all, for good. For owners of the space.
    Empty(EmptyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// The space.
    space: String,
    #[command(flatten)]
    data: DataArg,
    #[command(flatten)]
    user: UserArg,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The space.
    space: String,
    /// The entry, as listed.
    entry: i64,
    /// Path to put it at instead.
    #[arg(long, value_name = "PATH")]
    to: Option<String>,
    #[command(flatten)]
    data: DataArg,
    #[command(flatten)]
    user: UserArg,
}

#[derive(Debug, Args)]
pub(crate) struct EmptyArgs {
    /// The space.
    space: String,
    /// Only this entry, as listed.
    entry: Option<i64>,
    #[command(flatten)]
    data: DataArg,
    #[command(flatten)]
    user: UserArg,
}

/// An entry as it is listed.
#[derive(Debug, Serialize)]
struct TrashOutput {
    entry: i64,
    kind: NodeKind,
    path: String,
    size_bytes: u64,
    nodes: u64,
    deleted_ms: i64,
}

impl From<TrashEntry> for TrashOutput {
    fn from(entry: TrashEntry) -> Self {
        Self {
            entry: entry.id,
            kind: entry.kind,
            path: entry.path,
            size_bytes: entry.bytes,
            nodes: entry.nodes,
            deleted_ms: entry.deleted_ms,
        }
    }
}

/// Runs one of them.
pub(crate) async fn run(command: TrashCommand, json: bool) -> anyhow::Result<ExitCode> {
    match command {
        TrashCommand::List(args) => list(&args, json).await,
        TrashCommand::Restore(args) => restore(&args, json).await,
        TrashCommand::Empty(args) => empty(&args, json).await,
    }
}

async fn list(args: &ListArgs, json: bool) -> anyhow::Result<ExitCode> {
    let local = Local::open(&args.data).await?;
    let who = local.sign_in(&args.user).await?;
    let (space, _) = local.space(&who, &args.space, Role::Reader).await?;
    let mut entries: Vec<TrashOutput> = Vec::new();
    loop {
        let before = entries.last().map(|last| last.entry);
        let page = local.catalogue.trash(space.id, before, PAGE).await?;
        let more = page.len() == PAGE;
        entries.extend(page.into_iter().map(Into::into));
        if !more {
            break;
        }
    }
    show(json, &entries, |entries| {
        let rows: Vec<_> = entries
            .iter()
            .map(|entry| {
                let size = format_bytes(entry.size_bytes);
                vec![entry.entry.to_string(), time(entry.deleted_ms), size, entry.nodes.to_string(), entry.path.clone()]
            })
            .collect();
        table(&["ENTRY", "DELETED", "SIZE", "NODES", "PATH"], &rows)
    })?;
    local.close().await?;
    Ok(ExitCode::SUCCESS)
}

async fn restore(args: &RestoreArgs, json: bool) -> anyhow::Result<ExitCode> {
    let to = args.to.as_deref().map(DrivePath::parse).transpose()?;
    let local = Local::open(&args.data).await?;
    let who = local.sign_in(&args.user).await?;
    let (space, _) = local.space(&who, &args.space, Role::Editor).await?;
    let node = local.catalogue.restore_trash(space.id, args.entry, to.as_ref(), &Local::guard(&who)).await?;
    show(json, &json!({ "entry": args.entry, "name": node.name }), |_| format!("{} is back.", node.name))?;
    local.close().await?;
    Ok(ExitCode::SUCCESS)
}

async fn empty(args: &EmptyArgs, json: bool) -> anyhow::Result<ExitCode> {
    let local = Local::open(&args.data).await?;
    let who = local.sign_in(&args.user).await?;
    let (space, _) = local.space(&who, &args.space, Role::Owner).await?;
    let freed_bytes = local.catalogue.purge_trash(space.id, args.entry).await?;
    show(json, &json!({ "freed_bytes": freed_bytes }), |_| {
        format!("{} no longer count. The disk gets them back with the next reclaim.", format_bytes(freed_bytes))
    })?;
    local.close().await?;
    Ok(ExitCode::SUCCESS)
}
