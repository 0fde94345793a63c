//! `holdfast search`: finding files and folders, and searches that are saved ([`super::search_saved`]). Works beside a running server.

use super::search_saved::{self, SavingArgs};
use crate::args::{DataArg, UserArg};
use crate::local::Local;
use crate::output::{show, table, time};
use clap::{Args, ValueEnum};
use holdfast_auth::Session;
use holdfast_base::size::{format_bytes, parse_bytes};
use holdfast_base::{Clock, SpaceId, SystemClock};
use holdfast_meta::{HITS_MAX, Hit, MediaGroup, NodeKind, Role, SearchAnswer, SearchIn, SearchQuery, Tag};
use serde::Serialize;
use std::collections::HashMap;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// Words: each must be in the name, in a tag or in the name of a folder above, at least one of them in the name or a tag. Case and
    /// accents do not matter, and the beginning of a word suffices.
    #[arg(required_unless_present_any = ["tag", "kind", "group", "within_days", "list", "saved", "remove"])]
    words: Vec<String>,
    /// In this space only.
    #[arg(long, value_name = "SPACE")]
    space: Option<String>,
    /// Only files, or only folders.
    #[arg(long)]
    kind: Option<KindArg>,
    /// Only files of this type: image, video, audio, pdf, text, document or archive.
    #[arg(long = "type", id = "group", value_name = "TYPE")]
    group: Option<MediaGroup>,
    /// Only files of so many bytes or more, such as 10M.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    min_size: Option<u64>,
    /// Only files of so many bytes or fewer.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    max_size: Option<u64>,
    /// Only what has this tag; may be given several times.
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Hits at most.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    #[command(flatten)]
    saving: SavingArgs,
    #[command(flatten)]
    data: DataArg,
    #[command(flatten)]
    user: UserArg,
}

/// Values of `--kind`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum KindArg {
    /// Files.
    File,
    /// Folders.
    Folder,
}

impl From<KindArg> for NodeKind {
    fn from(kind: KindArg) -> Self {
        match kind {
            KindArg::File => Self::File,
            KindArg::Folder => Self::Folder,
        }
    }
}

/// What is printed.
#[derive(Debug, Serialize)]
struct SearchOutput {
    hits: Vec<HitOutput>,
    more: bool,
    indexing: bool,
}

#[derive(Debug, Serialize)]
struct HitOutput {
    space: String,
    path: String,
    kind: NodeKind,
    size_bytes: u64,
    modified_ms: i64,
    tags: Vec<String>,
}

/// Runs it.
pub(crate) async fn run(args: SearchArgs, json: bool) -> anyhow::Result<ExitCode> {
    let query = query(&args)?;
    let local = Local::open(&args.data).await?;
    let who = local.sign_in(&args.user).await?;
    let saving = &args.saving;
    if saving.list {
        search_saved::list(&local, &who, json).await?;
    } else if let Some(name) = &saving.remove {
        search_saved::remove(&local, &who, name, json).await?;
    } else if let Some(name) = &saving.save {
        search_saved::save(&local, &who, (name, saving.folder.as_deref()), (args.space.clone(), query), json).await?;
    } else if let Some(name) = &saving.saved {
        let saved = search_saved::find(&local, &who, name).await?;
        let query = SearchQuery { limit: query.limit, whole: true, ..saved.query };
        find(&local, &who, saved.space.as_deref(), &query, json).await?;
    } else {
        find(&local, &who, args.space.as_deref(), &query, json).await?;
    }
    local.close().await?;
    Ok(ExitCode::SUCCESS)
}

async fn find(
    local: &Local,
    who: &Session,
    space: Option<&str>,
    query: &SearchQuery,
    json: bool,
) -> anyhow::Result<()> {
    let spaces: Vec<(SpaceId, String)> = if let Some(name) = space {
        let (space, _) = local.space(who, name, Role::Reader).await?;
        vec![(space.id, space.name)]
    } else {
        let spaces = local.catalogue.spaces_of(who.account).await?;
        spaces.into_iter().map(|(space, _)| (space.id, space.name)).collect()
    };
    let places: Vec<SearchIn> = spaces.iter().map(|(id, _)| (*id).into()).collect();
    let answer = local.catalogue.search(&places, &query.at(SystemClock.now_ms())).await?;
    show(json, &output(answer, &spaces.into_iter().collect()), words)
}

fn query(args: &SearchArgs) -> anyhow::Result<SearchQuery> {
    Ok(SearchQuery {
        text: args.words.join(" "),
        kind: args.kind.map(Into::into),
        group: args.group,
        min_bytes: args.min_size,
        max_bytes: args.max_size,
        tags: args.tag.iter().map(|tag| Tag::new(tag)).collect::<Result<_, _>>()?,
        limit: args.limit.clamp(1, HITS_MAX),
        whole: true,
        ..SearchQuery::default()
    })
}

fn output(answer: SearchAnswer, spaces: &HashMap<SpaceId, String>) -> SearchOutput {
    let hit = |Hit { path, node, tags }: Hit| HitOutput {
        space: spaces.get(&node.space).cloned().unwrap_or_default(),
        path: path.to_string(),
        kind: node.kind,
        size_bytes: node.size,
        modified_ms: node.modified_ms,
        tags,
    };
    SearchOutput { hits: answer.hits.into_iter().map(hit).collect(), more: answer.more, indexing: answer.indexing }
}

fn words(output: &SearchOutput) -> String {
    let row = |hit: &HitOutput| {
        let slash = if hit.kind == NodeKind::Folder { "/" } else { "" };
        let size = if hit.kind == NodeKind::Folder { String::new() } else { format_bytes(hit.size_bytes) };
        vec![hit.space.clone(), format!("{}{slash}", hit.path), size, time(hit.modified_ms), hit.tags.join(", ")]
    };
    let rows: Vec<_> = output.hits.iter().map(row).collect();
    let mut text = table(&["SPACE", "PATH", "SIZE", "MODIFIED", "TAGS"], &rows);
    if output.more {
        text += "There may be more: look for a longer word, or for more words.\n";
    }
    if output.indexing {
        text += "Some names are not indexed yet; a running server does that by and by.\n";
    }
    text
}
