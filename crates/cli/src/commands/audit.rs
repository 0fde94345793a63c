//! `holdfast audit`: the log of who did what.

use crate::args::DataArg;
use crate::local::Local;
use crate::output::{print, table, time};
use clap::Args;
use holdfast_base::{Clock, SystemClock};
use holdfast_meta::{AuditEntry, AuditQuery};
use serde_json::json;
use std::process::ExitCode;

/// Entries read at a time.
const PAGE: usize = 1_000;
const HOUR_MS: i64 = 3_600_000;

/// Options of `holdfast audit`.
#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    data: DataArg,
    /// Only what this account did.
    #[arg(long, value_name = "NAME")]
    account: Option<String>,
    /// Only actions that begin so: account, signin.password.
    #[arg(long, value_name = "ACTION")]
    action: Option<String>,
    /// Only from this address.
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,
    /// Only of the last so many hours.
    #[arg(long, value_name = "HOURS")]
    hours: Option<u32>,
    /// Entries at most, the newest first; 0 is all.
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
}

/// Runs it. As JSON it prints one object a line.
pub(crate) async fn run(args: AuditArgs, json: bool) -> anyhow::Result<ExitCode> {
    let local = Local::open(&args.data).await?;
    let from_ms = args.hours.map(|hours| SystemClock.now_ms() - i64::from(hours) * HOUR_MS);
    let mut left = if args.limit == 0 { usize::MAX } else { args.limit };
    let AuditArgs { account, action, address, .. } = args;
    let mut query = AuditQuery { account, action, address, from_ms, ..AuditQuery::default() };
    let mut rows = Vec::new();
    while left > 0 {
        query.limit = left.min(PAGE);
        let entries = local.catalogue.audit(query.clone()).await?;
        left -= entries.len();
        query.before = entries.last().map(|last| (last.note.at_ms, last.id));
        let is_last = entries.len() < query.limit;
        if json {
            for entry in &entries {
                print(&line(entry));
            }
        } else {
            rows.extend(entries.into_iter().map(row));
        }
        if is_last {
            break;
        }
    }
    local.close().await?;
    if !json {
        print(&table(&["WHEN", "WHO", "FROM", "WHAT", "ON", "RESULT"], &rows));
    }
    Ok(ExitCode::SUCCESS)
}

fn line(AuditEntry { id, note }: &AuditEntry) -> String {
    let mut value = json!(note);
    value["id"] = json!(id);
    value.to_string()
}

fn row(AuditEntry { note, .. }: AuditEntry) -> Vec<String> {
    let who = if note.account.is_empty() { "-".into() } else { note.account };
    let object = if note.detail.is_empty() { note.object } else { format!("{} ({})", note.object, note.detail) };
    vec![time(note.at_ms), who, note.address, note.action, object, note.result]
}
