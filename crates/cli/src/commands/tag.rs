//! `holdfast tag`: tags on files and folders. Works beside a running server.

use crate::args::{DataArg, UserArg};
use crate::local::Local;
use crate::output::{show, table};
use clap::{Args, Subcommand};
use holdfast_base::{DrivePath, Error, NodeId, SpaceId};
use holdfast_meta::{Role, TAG_LIST_MAX, TAG_NAMESPACE, Tag, TagChange};
use serde::Serialize;
use serde_json::json;
use std::process::ExitCode;

#[derive(Debug, Subcommand)]
pub(crate) enum TagCommand {
    /// Add tags to a file or folder.
    Add(ChangeArgs),
    /// Remove tags from a file or folder. Case and accents do not matter.
    Remove(ChangeArgs),
    /// List the tags of a file or folder, or those in use in a space.
    List(ListArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ChangeArgs {
    /// The space.
    space: String,
    /// The path in it.
    path: String,
    /// The tags.
    #[arg(required = true, value_name = "TAG")]
    tags: Vec<String>,
    #[command(flatten)]
    data: DataArg,
    #[command(flatten)]
    user: UserArg,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// The space.
    space: String,
    /// A path in it; without one, all tags in use in the space.
    path: Option<String>,
    /// Only tags in use that begin like this.
    #[arg(long, value_name = "TEXT", default_value = "", conflicts_with = "path")]
    prefix: String,
    #[command(flatten)]
    data: DataArg,
    #[command(flatten)]
    user: UserArg,
}

/// A tag in use, as it is listed.
#[derive(Debug, Serialize)]
struct TagOutput {
    tag: String,
    count: usize,
    more: bool,
}

/// Runs one of them.
pub(crate) async fn run(command: TagCommand, json: bool) -> anyhow::Result<ExitCode> {
    match command {
        TagCommand::Add(args) => change(&args, json, |add| TagChange { add, remove: Vec::new() }).await,
        TagCommand::Remove(args) => change(&args, json, |remove| TagChange { add: Vec::new(), remove }).await,
        TagCommand::List(args) => list(&args, json).await,
    }
}

async fn change(args: &ChangeArgs, json: bool, change: fn(Vec<Tag>) -> TagChange) -> anyhow::Result<ExitCode> {
    let tags = args.tags.iter().map(|tag| Tag::new(tag)).collect::<Result<Vec<_>, _>>()?;
    let path = DrivePath::parse(&args.path)?;
    let local = Local::open(&args.data).await?;
    let who = local.sign_in(&args.user).await?;
    let (space, _) = local.space(&who, &args.space, Role::Editor).await?;
    let guard = Local::guard(&who);
    let mut answers = local.catalogue.change_tags(space.id, std::slice::from_ref(&path), &change(tags), &guard).await?;
    let node = answers.pop().ok_or_else(|| Error::internal("the catalogue did not answer"))??;
    let tags = of_node(&local, node.id).await?;
    show(json, &json!({ "path": path.to_string(), "tags": tags }), |_| words(&path, &tags))?;
    local.close().await?;
    Ok(ExitCode::SUCCESS)
}

fn words(path: &DrivePath, tags: &[String]) -> String {
    if tags.is_empty() { format!("{path} has no tags.") } else { format!("{path}: {}", tags.join(", ")) }
}

async fn of_node(local: &Local, node: NodeId) -> anyhow::Result<Vec<String>> {
    let properties = local.catalogue.properties(&[node]).await?.into_iter().flat_map(|(_, all)| all);
    Ok(properties.filter(|property| property.namespace == TAG_NAMESPACE).map(|tag| tag.xml).collect())
}

async fn list(args: &ListArgs, json: bool) -> anyhow::Result<ExitCode> {
    let local = Local::open(&args.data).await?;
    let who = local.sign_in(&args.user).await?;
    let (space, _) = local.space(&who, &args.space, Role::Reader).await?;
    match &args.path {
        Some(path) => {
            let path = DrivePath::parse(path)?;
            let found = local.catalogue.find(space.id, &path, false).await?;
            let node = found.node(&path).map(|node| node.id);
            let node = node.ok_or_else(|| Error::not_found(format!("there is no {path} in {}", args.space)))?;
            let tags = of_node(&local, node).await?;
            show(json, &json!({ "path": path.to_string(), "tags": tags }), |_| words(&path, &tags))?;
        }
        None => in_use(&local, space.id, &args.prefix, json).await?,
    }
    local.close().await?;
    Ok(ExitCode::SUCCESS)
}

async fn in_use(local: &Local, space: SpaceId, prefix: &str, json: bool) -> anyhow::Result<()> {
    let tags = local.catalogue.tags_in_use(&[space.into()], prefix, TAG_LIST_MAX).await?;
    let tags: Vec<TagOutput> =
        tags.into_iter().map(|tag| TagOutput { tag: tag.tag, count: tag.count, more: tag.more }).collect();
    show(json, &tags, |tags| {
        let count = |tag: &TagOutput| if tag.more { format!("{} or more", tag.count) } else { tag.count.to_string() };
        let rows: Vec<_> = tags.iter().map(|tag| vec![tag.tag.clone(), count(tag)]).collect();
        table(&["TAG", "FILES AND FOLDERS"], &rows)
    })
}
