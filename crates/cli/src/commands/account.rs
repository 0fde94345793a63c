//! `holdfast account`: people and their passwords. Works beside a running server: changes count from the next request on.

use crate::args::{DataArg, UserArg};
use crate::local::Local;
use crate::output::{self, Quota, parse_quota, quota, show, table, time};
use crate::secret;
use clap::{Args, Subcommand};
use holdfast_auth::{NewPerson, Secret};
use holdfast_base::Error;
use holdfast_meta::{Account, Factors, Passkey};
use serde::Serialize;
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Days of traffic that `account show` lists.
const TRAFFIC_DAYS: usize = 30;

#[derive(Debug, Subcommand)]
pub(crate) enum AccountCommand {
    /// Make an account with its home space. The recovery code, and a password that was made up, are shown once.
    Add(AddArgs),
    /// List the accounts.
    List(DataArg),
    /// Show one account with its usage, traffic and second factors.
    Show(NameArgs),
    /// Change a password; the present one is needed.
    Passwd(PasswdArgs),
    /// Replace a forgotten password with the recovery code; a new code is shown once.
    Recover(RecoverArgs),
    /// Set how many bytes an account's spaces may use together.
    Quota(QuotaArgs),
    /// Keep an account from signing in.
    Disable(NameArgs),
    /// Let a disabled account sign in again.
    Enable(NameArgs),
    /// Make an account an administrator of the drive, or no longer.
    Admin(AdminArgs),
    /// Remove an account's second factors and passkeys, for somebody who lost theirs. It opens nothing: the password is needed as before.
    ResetFactors(NameArgs),
    /// Remove an account with its home space and everything in it.
    Remove(RemoveArgs),
}

#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// The account.
    name: String,
    #[command(flatten)]
    data: DataArg,
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Sign-in name, which is the home space's name too.
    name: String,
    #[command(flatten)]
    data: DataArg,
    /// File with the password in its first line; - is standard input.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Make up a password and show it, instead of asking.
    #[arg(long, conflicts_with = "password_file")]
    generate: bool,
    /// May administer the drive.
    #[arg(long)]
    admin: bool,
    /// Bytes its spaces may use together (10G, 1.5TB), or none.
    #[arg(long, value_name = "SIZE", value_parser = parse_quota)]
    quota: Option<Quota>,
}

#[derive(Debug, Args)]
pub(crate) struct PasswdArgs {
    /// The account.
    name: String,
    #[command(flatten)]
    data: DataArg,
    /// File with the present password.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// File with the new password.
    #[arg(long, value_name = "FILE")]
    new_password_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RecoverArgs {
    /// The account.
    name: String,
    #[command(flatten)]
    data: DataArg,
    /// File with the recovery code.
    #[arg(long, value_name = "FILE")]
    code_file: Option<PathBuf>,
    /// File with the new password; without it, and without a terminal, one is made up and shown.
    #[arg(long, value_name = "FILE")]
    new_password_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct QuotaArgs {
    /// The account.
    name: String,
    /// Bytes (10G, 1.5TB), or none.
    #[arg(value_name = "SIZE", value_parser = parse_quota)]
    quota: Quota,
    #[command(flatten)]
    data: DataArg,
}

#[derive(Debug, Args)]
pub(crate) struct AdminArgs {
    /// The account.
    name: String,
    /// true or false.
    #[arg(action = clap::ArgAction::Set)]
    admin: bool,
    #[command(flatten)]
    data: DataArg,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// The account.
    name: String,
    #[command(flatten)]
    data: DataArg,
    /// Do it: the home space's content is gone for good.
    #[arg(long)]
    yes: bool,
}

/// An account as it is printed.
#[derive(Debug, Serialize)]
struct AccountOutput {
    name: String,
    admin: bool,
    disabled: bool,
    quota_bytes: Option<u64>,
    used_bytes: u64,
    created_ms: i64,
}

impl AccountOutput {
    async fn of(local: &Local, account: Account) -> anyhow::Result<Self> {
        let used_bytes = local.catalogue.account_used_bytes(account.id).await?;
        Ok(Self {
            name: account.name,
            admin: account.admin,
            disabled: account.disabled,
            quota_bytes: account.quota_bytes,
            used_bytes,
            created_ms: account.created_ms,
        })
    }

    fn row(&self) -> Vec<String> {
        let state = if self.disabled { "disabled" } else { "active" };
        let role = if self.admin { "administrator" } else { "" };
        let used = holdfast_base::size::format_bytes(self.used_bytes);
        vec![self.name.clone(), state.into(), used, quota(self.quota_bytes), time(self.created_ms), role.into()]
    }
}

const HEADING: [&str; 6] = ["NAME", "STATE", "USED", "QUOTA", "MADE", ""];

/// Runs one of them.
pub(crate) async fn run(command: AccountCommand, json: bool) -> anyhow::Result<ExitCode> {
    match command {
        AccountCommand::Add(args) => add(args, json).await,
        AccountCommand::List(data) => list(&data, json).await,
        AccountCommand::Show(args) => show_one(&args, json).await,
        AccountCommand::Passwd(args) => passwd(args, json).await,
        AccountCommand::Recover(args) => recover(args, json).await,
        AccountCommand::Quota(args) => {
            let local = Local::open(&args.data).await?;
            let account = local.accounts.set_quota(&args.name, args.quota.0).await?;
            changed(local, account, json).await
        }
        AccountCommand::Disable(args) => {
            let local = Local::open(&args.data).await?;
            let account = local.accounts.disable(&args.name).await?;
            changed(local, account, json).await
        }
        AccountCommand::Enable(args) => {
            let local = Local::open(&args.data).await?;
            let account = local.accounts.enable(&args.name).await?;
            changed(local, account, json).await
        }
        AccountCommand::Admin(args) => {
            let local = Local::open(&args.data).await?;
            let account = local.accounts.set_admin(&args.name, args.admin).await?;
            changed(local, account, json).await
        }
        AccountCommand::ResetFactors(args) => reset_factors(&args, json).await,
        AccountCommand::Remove(args) => remove(args, json).await,
    }
}

async fn changed(local: Local, account: Account, json: bool) -> anyhow::Result<ExitCode> {
    let account = AccountOutput::of(&local, account).await?;
    show(json, &account, |account| table(&HEADING, &[account.row()]))?;
    local.close().await?;
    Ok(ExitCode::SUCCESS)
}

async fn add(args: AddArgs, json: bool) -> anyhow::Result<ExitCode> {
    let password = match &args.password_file {
        Some(file) => Some(secret::from_file(file)?),
        None if args.generate || !secret::can_ask() => None,
        None => Some(secret::ask_new(&args.name)?),
    };
    let local = Local::open_or_init(&args.data).await?;
    let person =
        NewPerson { name: args.name, password, admin: args.admin, quota_bytes: args.quota.and_then(|quota| quota.0) };
    let created = local.accounts.create(person).await?;
    let generated = created.generated_password.as_ref().map(Secret::expose);
    let output = json!({ "name": created.account.name, "admin": created.account.admin, "password": generated,
        "recovery_code": created.recovery_code.expose() });
    show(json, &output, |_| {
        let mut text =
            format!("Account {} is made. What follows is shown once: write it down now.\n\n", created.account.name);
        if let Some(password) = generated {
            let _ = writeln!(text, "  password       {password}");
        }
        let _ = writeln!(text, "  recovery code  {}", created.recovery_code.expose());
        text
    })?;
    local.close().await?;
    Ok(ExitCode::SUCCESS)
}

async fn list(data: &DataArg, json: bool) -> anyhow::Result<ExitCode> {
    let local = Local::open(data).await?;
    let mut accounts = Vec::new();
    for account in local.accounts.list().await? {
        accounts.push(AccountOutput::of(&local, account).await?);
    }
    show(json, &accounts, |accounts| table(&HEADING, &accounts.iter().map(AccountOutput::row).collect::<Vec<_>>()))?;
    local.close().await?;
    Ok(ExitCode::SUCCESS)
}

async fn show_one(args: &NameArgs, json: bool) -> anyhow::Result<ExitCode> {
    let local = Local::open(&args.data).await?;
    let account = local.accounts.get(&args.name).await?;
    let traffic = local.catalogue.traffic(account.id, TRAFFIC_DAYS).await?;
    let factors = local.accounts.factors(account.id).await?;
    let account = AccountOutput::of(&local, account).await?;
    if json {
        let days: Vec<_> = traffic
            .iter()
            .map(|(day, sum)| json!({"day": day, "requests": sum.requests, "bytes_in": sum.bytes_in, "bytes_out": sum.bytes_out}))
            .collect();
        output::print(&serde_json::to_string_pretty(&json!({ "account": account, "traffic": days,
            "factors": { "second_factor": factors.needs_second(), "codes": factors.totp.is_some(), "passkeys": passkeys(&factors) } }))?);
    } else {
        let rows: Vec<Vec<String>> = traffic
            .into_iter()
            .map(|(day, sum)| {
                let bytes = holdfast_base::size::format_bytes;
                vec![day, sum.requests.to_string(), bytes(sum.bytes_in), bytes(sum.bytes_out)]
            })
            .collect();
        output::print(&format!(
            "{}\n{}\n{}",
            table(&HEADING, &[account.row()]),
            factors_text(&factors),
            table(&["DAY", "REQUESTS", "IN", "OUT"], &rows)
        ));
    }
    local.close().await?;
    Ok(ExitCode::SUCCESS)
}

fn passkeys(factors: &Factors) -> Vec<serde_json::Value> {
    let one = |passkey: &Passkey| json!({ "label": passkey.label, "alone": passkey.sealed.is_some(), "used_ms": passkey.used_ms });
    factors.passkeys.iter().map(one).collect()
}

fn factors_text(factors: &Factors) -> String {
    let codes = factors.totp.iter().map(|_| "one-time codes".to_owned());
    let passkey = |passkey: &Passkey| {
        let use_of = if passkey.sealed.is_some() { "signs in alone" } else { "second factor" };
        format!("passkey {:?} ({use_of})", passkey.label)
    };
    let all: Vec<String> = codes.chain(factors.passkeys.iter().map(passkey)).collect();
    if all.is_empty() {
        "Signs in with the password.\n".into()
    } else {
        format!("Besides the password: {}.\n", all.join(", "))
    }
}

async fn reset_factors(args: &NameArgs, json: bool) -> anyhow::Result<ExitCode> {
    let local = Local::open(&args.data).await?;
    local.accounts.reset_factors(&args.name).await?;
    show(json, &json!({ "name": args.name, "reset": true }), |_| {
        format!("{} signs in with the password alone again, and should set up a second factor anew.", args.name)
    })?;
    local.close().await?;
    Ok(ExitCode::SUCCESS)
}

async fn passwd(args: PasswdArgs, json: bool) -> anyhow::Result<ExitCode> {
    let local = Local::open(&args.data).await?;
    let user = UserArg { user: args.name.clone(), password_file: args.password_file };
    let who = local.sign_in(&user).await?;
    let new = match &args.new_password_file {
        Some(file) => secret::from_file(file)?,
        None => secret::ask_new(&args.name)?,
    };
    local.accounts.change_password(&who, new, None).await?;
    show(json, &json!({ "name": args.name, "changed": true }), |_| "The password is changed.".into())?;
    local.close().await?;
    Ok(ExitCode::SUCCESS)
}

async fn recover(args: RecoverArgs, json: bool) -> anyhow::Result<ExitCode> {
    let code = match &args.code_file {
        Some(file) => secret::from_file(file)?,
        None => secret::ask("Recovery code: ")?,
    };
    let new = match &args.new_password_file {
        Some(file) => Some(secret::from_file(file)?),
        None if secret::can_ask() => Some(secret::ask_new(&args.name)?),
        None => None,
    };
    let local = Local::open(&args.data).await?;
    let reset = local.accounts.reset_with_recovery_code(&args.name, &code, new).await?;
    let generated = reset.generated_password.as_ref().map(Secret::expose);
    let output = json!({ "name": args.name, "password": generated, "recovery_code": reset.recovery_code.expose() });
    show(json, &output, |_| {
        let made_up = generated.map_or_else(String::new, |password| format!("  password       {password}\n"));
        format!(
            "The password is replaced. The old recovery code is void; this is the new one, shown once:\n\n{made_up}  recovery code  {}\n",
            reset.recovery_code.expose()
        )
    })?;
    local.close().await?;
    Ok(ExitCode::SUCCESS)
}

async fn remove(args: RemoveArgs, json: bool) -> anyhow::Result<ExitCode> {
    if !args.yes {
        let message = format!("this removes {} and everything in its home space for good: say --yes", args.name);
        return Err(Error::invalid(message).into());
    }
    let local = Local::open(&args.data).await?;
    local.accounts.remove(&args.name).await?;
    show(json, &json!({ "name": args.name, "removed": true }), |_| format!("Account {} is removed.", args.name))?;
    local.close().await?;
    Ok(ExitCode::SUCCESS)
}
