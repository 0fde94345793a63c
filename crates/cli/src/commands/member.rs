//! `holdfast space member`: who is in a space. Adding wraps the space's key for the new member, so an owner has to do it.

use crate::args::{DataArg, UserArg};
use crate::local::Local;
use crate::output::{show, table};
use clap::{Args, Subcommand, ValueEnum};
use holdfast_base::Error;
use holdfast_meta::Role;
use serde::Serialize;
use serde_json::json;
use std::process::ExitCode;

#[derive(Debug, Subcommand)]
pub(crate) enum MemberCommand {
    /// Add a member, or give one another role. --user is an owner of the space.
    Add(AddArgs),
    /// Remove a member. --user is an owner of the space, or the member itself.
    Remove(RemoveArgs),
    /// List the members.
    List(ListArgs),
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// The space.
    space: String,
    /// The account.
    account: String,
    /// What it may do.
    #[arg(long, value_enum, default_value = "editor")]
    role: RoleArg,
    #[command(flatten)]
    data: DataArg,
    #[command(flatten)]
    user: UserArg,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// The space.
    space: String,
    /// The account.
    account: String,
    #[command(flatten)]
    data: DataArg,
    #[command(flatten)]
    user: UserArg,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// The space.
    space: String,
    #[command(flatten)]
    data: DataArg,
}

/// Values of `--role`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum RoleArg {
    /// Reads.
    Reader,
    /// Reads and writes.
    Editor,
    /// Also changes members, empties the trash.
    Owner,
}

impl From<RoleArg> for Role {
    fn from(role: RoleArg) -> Self {
        match role {
            RoleArg::Reader => Self::Reader,
            RoleArg::Editor => Self::Editor,
            RoleArg::Owner => Self::Owner,
        }
    }
}

/// A member as it is printed.
#[derive(Debug, Serialize)]
struct MemberOutput {
    account: String,
    role: Role,
}

/// Runs one of them.
pub(crate) async fn run(command: MemberCommand, json: bool) -> anyhow::Result<ExitCode> {
    let data = match &command {
        MemberCommand::Add(args) => &args.data,
        MemberCommand::Remove(args) => &args.data,
        MemberCommand::List(args) => &args.data,
    };
    let local = Local::open(data).await?;
    match command {
        MemberCommand::Add(args) => {
            let who = local.sign_in(&args.user).await?;
            let role = args.role.into();
            local.accounts.add_member(&who, &args.space, &args.account, role).await?;
            let output = json!({ "space": args.space, "account": args.account, "role": role });
            show(json, &output, |_| format!("{} is a member of {}.", args.account, args.space))?;
        }
        MemberCommand::Remove(args) => {
            let who = local.sign_in(&args.user).await?;
            local.accounts.remove_member(&who, &args.space, &args.account).await?;
            let output = json!({ "space": args.space, "account": args.account, "removed": true });
            show(json, &output, |_| format!("{} is no longer a member of {}.", args.account, args.space))?;
        }
        MemberCommand::List(args) => list(&local, &args.space, json).await?,
    }
    local.close().await?;
    Ok(ExitCode::SUCCESS)
}

async fn list(local: &Local, name: &str, json: bool) -> anyhow::Result<()> {
    let space = local.catalogue.all_spaces().await?.into_iter().find(|space| space.name == name);
    let space = space.ok_or_else(|| Error::not_found(format!("there is no space {name:?}")))?;
    let members = local.catalogue.members(space.id).await?;
    let members: Vec<MemberOutput> =
        members.into_iter().map(|member| MemberOutput { account: member.account_name, role: member.role }).collect();
    show(json, &members, |members| {
        let rows: Vec<_> = members
            .iter()
            .map(|member| vec![member.account.clone(), format!("{:?}", member.role).to_lowercase()])
            .collect();
        table(&["ACCOUNT", "ROLE"], &rows)
    })
}
