//! `holdfast site`: what was published, and what becomes of it.

use super::publish::{SettingsArgs, parse_time};
use super::publish_call::{CallArgs, segment, with_api};
use crate::args::DataArg;
use crate::local::Local;
use crate::output::{show, table, time};
use clap::{Args, Subcommand};
use holdfast_base::Error;
use holdfast_base::size::format_bytes;
use http::Method;
use serde_json::{Value, json};
use std::process::ExitCode;

#[derive(Debug, Subcommand)]
pub(crate) enum SiteCommand {
    /// List the account's sites.
    List(CallArgs),
    /// Show a site: address, access, snapshots.
    Show(NameArgs),
    /// Show what was done to a site, by whom and when.
    History(NameArgs),
    /// Make an earlier snapshot live again, now or at a time.
    Rollback(RollBackArgs),
    /// Make a link that shows a snapshot, live or not, for a day to whoever has it.
    Preview(PreviewArgs),
    /// Take a site off; its snapshots stay.
    Unpublish(UnpublishArgs),
    /// Remove a site with all its snapshots.
    Remove(RemoveArgs),
    /// Change where a site is served and who may read it.
    Set(SetArgs),
    /// Make a new key for the account that serves sites, because the old one is lost or known. Needs no server running; sites
    /// are served again as their owners publish them again.
    RenewKey(RenewKeyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// Name of the site.
    name: String,
    #[command(flatten)]
    call: CallArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RollBackArgs {
    /// Name of the site.
    name: String,
    /// The snapshot; without one, the snapshot before the live one.
    snapshot: Option<String>,
    /// Go live at this time (RFC 3339) rather than now.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    at: Option<i64>,
    /// Why, for the history.
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
    #[command(flatten)]
    call: CallArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PreviewArgs {
    /// Name of the site.
    name: String,
    /// The snapshot; without one, the newest.
    snapshot: Option<String>,
    #[command(flatten)]
    call: CallArgs,
}

#[derive(Debug, Args)]
pub(crate) struct UnpublishArgs {
    /// Name of the site.
    name: String,
    /// Why, for the history.
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
    #[command(flatten)]
    call: CallArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// Name of the site.
    name: String,
    /// Do it: the snapshots are gone for good.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    call: CallArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// Name of the site.
    name: String,
    #[command(flatten)]
    settings: SettingsArgs,
    /// Sign every visitor out, and void every preview link.
    #[arg(long)]
    sign_out: bool,
    #[command(flatten)]
    call: CallArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RenewKeyArgs {
    /// Do it: until their owners publish again, no site is served.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    data: DataArg,
}

/// Runs one of them.
pub(crate) async fn run(command: SiteCommand, json: bool) -> anyhow::Result<ExitCode> {
    match command {
        SiteCommand::List(call) => list(&call, json).await?,
        SiteCommand::Show(args) => show_one(&args, json).await?,
        SiteCommand::History(args) => history(&args, json).await?,
        SiteCommand::Rollback(args) => {
            let body = json!({ "snapshot": args.snapshot, "at_ms": args.at, "note": args.note });
            change(&args.call, Method::POST, &args.name, "/rollback", &body, json).await?;
        }
        SiteCommand::Preview(args) => preview(&args, json).await?,
        SiteCommand::Unpublish(args) => {
            change(&args.call, Method::POST, &args.name, "/unpublish", &json!({ "note": args.note }), json).await?;
        }
        SiteCommand::Remove(args) => remove(&args, json).await?,
        SiteCommand::RenewKey(args) => renew_key(&args, json).await?,
        SiteCommand::Set(args) => {
            let mut body = args.settings.body()?;
            if args.sign_out {
                body["sign_out"] = json!(true);
            }
            change(&args.call, Method::PATCH, &args.name, "", &body, json).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn target(name: &str, rest: &str) -> String {
    format!("/sites/{}{rest}", segment(name))
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) if text.is_empty() => "-".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "-".into(),
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

fn moment(value: &Value) -> String {
    value.as_i64().map_or_else(|| "-".into(), time)
}

const HEADING: [&str; 6] = ["NAME", "HOSTS", "PATH", "ACCESS", "LIVE", "USED"];

fn row(site: &Value) -> Vec<String> {
    let used = format_bytes(site["used_bytes"].as_u64().unwrap_or_default());
    let mut row: Vec<String> = ["name", "hosts", "path", "access", "live"].iter().map(|key| text(&site[key])).collect();
    row.push(used);
    row
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

async fn list(call: &CallArgs, json: bool) -> anyhow::Result<()> {
    let sites = with_api(call, async |api| Ok(api.call(Method::GET, "/sites", None).await?)).await?;
    show(json, &sites, |sites| table(&HEADING, &items(sites).map(row).collect::<Vec<_>>()))
}

async fn show_one(args: &NameArgs, json: bool) -> anyhow::Result<()> {
    let (site, snapshots) = with_api(&args.call, async |api| {
        let site = api.call(Method::GET, &target(&args.name, ""), None).await?;
        Ok((site, api.call(Method::GET, &target(&args.name, "/snapshots"), None).await?))
    })
    .await?;
    let both = json!({ "site": site, "snapshots": snapshots });
    show(json, &both, |both| {
        let rows: Vec<Vec<String>> = items(&both["snapshots"])
            .map(|one| {
                let live = if one["live"] == true { "live" } else { "" };
                let name = text(&one["name"]);
                vec![
                    name,
                    live.into(),
                    moment(&one["made_ms"]),
                    text(&one["by"]),
                    text(&one["files"]),
                    text(&one["note"]),
                ]
            })
            .collect();
        let next = match both["site"]["next_ms"].as_i64() {
            Some(at_ms) => format!("{} goes live {}\n", text(&both["site"]["next"]), time(at_ms)),
            None => String::new(),
        };
        let snapshots = table(&["SNAPSHOT", "", "MADE", "BY", "FILES", "NOTE"], &rows);
        format!("{}{next}\n{snapshots}", table(&HEADING, &[row(&both["site"])]))
    })
}

async fn history(args: &NameArgs, json: bool) -> anyhow::Result<()> {
    let target = target(&args.name, "/history");
    let entries = with_api(&args.call, async |api| Ok(api.call(Method::GET, &target, None).await?)).await?;
    show(json, &entries, |entries| {
        let rows: Vec<Vec<String>> = items(entries)
            .map(|one| {
                let mut row = vec![moment(&one["at_ms"])];
                row.extend(["by", "action", "snapshot", "from"].iter().map(|key| text(&one[key])));
                row.extend([moment(&one["live_ms"]), text(&one["note"])]);
                row
            })
            .collect();
        table(&["WHEN", "BY", "ACTION", "SNAPSHOT", "FROM", "LIVE FROM", "NOTE"], &rows)
    })
}

async fn preview(args: &PreviewArgs, json: bool) -> anyhow::Result<()> {
    let (target, body) = (target(&args.name, "/preview"), json!({ "snapshot": args.snapshot }));
    let link = with_api(&args.call, async |api| Ok(api.call(Method::POST, &target, Some(&body)).await?)).await?;
    show(json, &link, |link| {
        format!("{}\nWhoever has this link sees the snapshot until {}.", text(&link["url"]), moment(&link["ends_ms"]))
    })
}

async fn change(
    call: &CallArgs,
    method: Method,
    name: &str,
    rest: &str,
    body: &Value,
    json: bool,
) -> anyhow::Result<()> {
    let target = target(name, rest);
    let site = with_api(call, async |api| Ok(api.call(method, &target, Some(body)).await?)).await?;
    show(json, &site, |site| table(&HEADING, &[row(site)]))
}

async fn renew_key(args: &RenewKeyArgs, json: bool) -> anyhow::Result<()> {
    if !args.yes {
        return Err(Error::invalid("until their owners publish again, no site is served: say --yes").into());
    }
    let local = Local::open(&args.data).await?;
    // A running server holds the old key.
    let lock = local.directory.lock()?;
    holdfast_server::sites::renew_key(&local.directory, &local.accounts).await?;
    drop(lock);
    local.close().await?;
    show(json, &json!({ "renewed": true }), |_| {
        "The sites account has a new key. Have every site published again by one of its owners.".into()
    })
}

async fn remove(args: &RemoveArgs, json: bool) -> anyhow::Result<()> {
    if !args.yes {
        let what = format!("this removes the site {} with all its snapshots for good: say --yes", args.name);
        return Err(Error::invalid(what).into());
    }
    let target = target(&args.name, "");
    with_api(&args.call, async |api| Ok(api.call(Method::DELETE, &target, None).await?)).await?;
    show(json, &json!({ "name": args.name, "removed": true }), |_| format!("Site {} is removed.", args.name))
}
