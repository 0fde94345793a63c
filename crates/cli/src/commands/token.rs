//! `holdfast token`: app tokens, passwords for one device or program that can be taken back one by one.

use crate::args::{DataArg, UserArg};
use crate::local::Local;
use crate::output::{show, table, time};
use clap::{Args, Subcommand};
use holdfast_auth::NewToken;
use holdfast_base::{Clock, SystemClock};
use serde::Serialize;
use serde_json::json;
use std::process::ExitCode;

/// Milliseconds in a day.
const DAY_MS: i64 = 86_400_000;

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token and show it once.
    Create(CreateArgs),
    /// List an account's tokens.
    List(ListArgs),
    /// Revoke a token, at once.
    Revoke(RevokeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// What to call it: the device or program it is for.
    label: String,
    #[command(flatten)]
    data: DataArg,
    #[command(flatten)]
    user: UserArg,
    /// Only reading.
    #[arg(long)]
    read_only: bool,
    /// Only this space.
    #[arg(long, value_name = "NAME")]
    space: Option<String>,
    /// Days until it stops working.
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..))]
    days: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// The account.
    name: String,
    #[command(flatten)]
    data: DataArg,
}

#[derive(Debug, Args)]
pub(crate) struct RevokeArgs {
    /// The account.
    name: String,
    /// The token's number, as listed.
    id: i64,
    #[command(flatten)]
    data: DataArg,
}

/// A token as it is listed.
#[derive(Debug, Serialize)]
struct TokenOutput {
    id: i64,
    label: String,
    read_only: bool,
    space: Option<String>,
    created_ms: i64,
    used_ms: Option<i64>,
    expires_ms: Option<i64>,
}

impl TokenOutput {
    fn row(&self) -> Vec<String> {
        vec![
            self.id.to_string(),
            self.label.clone(),
            if self.read_only { "read only" } else { "read and write" }.into(),
            self.space.clone().unwrap_or_else(|| "all spaces".into()),
            self.used_ms.map_or_else(|| "never".into(), time),
            self.expires_ms.map_or_else(|| "never".into(), time),
        ]
    }
}

/// Runs one of them.
pub(crate) async fn run(command: TokenCommand, json: bool) -> anyhow::Result<ExitCode> {
    match command {
        TokenCommand::Create(args) => create(args, json).await,
        TokenCommand::List(args) => list(&args, json).await,
        TokenCommand::Revoke(args) => {
            let local = Local::open(&args.data).await?;
            let account = local.accounts.get(&args.name).await?;
            local.accounts.revoke_token(account.id, args.id).await?;
            show(json, &json!({ "id": args.id, "revoked": true }), |_| format!("Token {} is revoked.", args.id))?;
            local.close().await?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn create(args: CreateArgs, json: bool) -> anyhow::Result<ExitCode> {
    let local = Local::open(&args.data).await?;
    let who = local.sign_in(&args.user).await?;
    let space = match &args.space {
        Some(name) => Some(local.space(&who, name, holdfast_meta::Role::Reader).await?.0.id),
        None => None,
    };
    let expires_ms = args.days.map(|days| SystemClock.now_ms() + i64::from(days) * DAY_MS);
    let new = NewToken { label: args.label, read_only: args.read_only, space, expires_ms };
    let created = local.accounts.create_token(&who, new).await?;
    let output = json!({ "id": created.slot.id, "token": created.token.expose(), "expires_ms": expires_ms });
    show(json, &output, |_| {
        format!(
            "{}\n\nThis is shown once. Use it in the password's place, or as a Bearer token.",
            created.token.expose()
        )
    })?;
    local.close().await?;
    Ok(ExitCode::SUCCESS)
}

async fn list(args: &ListArgs, json: bool) -> anyhow::Result<ExitCode> {
    let local = Local::open(&args.data).await?;
    let account = local.accounts.get(&args.name).await?;
    let mut tokens = Vec::new();
    for slot in local.accounts.list_tokens(account.id).await? {
        let space = match slot.space {
            Some(id) => local.catalogue.space(id).await?.map(|space| space.name).or_else(|| Some("(removed)".into())),
            None => None,
        };
        tokens.push(TokenOutput {
            id: slot.id,
            label: slot.label,
            read_only: slot.read_only,
            space,
            created_ms: slot.created_ms,
            used_ms: slot.used_ms,
            expires_ms: slot.expires_ms,
        });
    }
    let heading = ["ID", "LABEL", "MAY", "WHERE", "USED", "EXPIRES"];
    show(json, &tokens, |tokens| table(&heading, &tokens.iter().map(TokenOutput::row).collect::<Vec<_>>()))?;
    local.close().await?;
    Ok(ExitCode::SUCCESS)
}
