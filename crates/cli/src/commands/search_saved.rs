//! `holdfast search --save` and what belongs to it: searches that an account keeps, and that pages and WebDAV show as folders.

use crate::local::Local;
use crate::output::{show, table};
use clap::Args;
use holdfast_auth::Session;
use holdfast_base::{Clock, DrivePath, Error, NodeId, NodeName, Result, SystemClock};
use holdfast_meta::{NewSearch, NodeKind, Role, SavedSearch, SearchQuery, WhichSearch};
use serde::Serialize;
use serde_json::json;
use std::fmt::Write;

#[derive(Debug, Args)]
pub(crate) struct SavingArgs {
    /// Save the search under this name instead: it is then shown as a folder by the pages and over WebDAV.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["list", "saved", "remove"])]
    pub(crate) save: Option<String>,
    /// The folder, as SPACE/PATH, for what is put into it; --user's home if not given.
    #[arg(long, value_name = "SPACE/PATH", requires = "save")]
    pub(crate) folder: Option<String>,
    /// List the saved searches.
    #[arg(long, conflicts_with_all = ["words", "saved", "remove"])]
    pub(crate) list: bool,
    /// Find what this saved search finds now.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["words", "remove"])]
    pub(crate) saved: Option<String>,
    /// Remove a saved search; what it finds stays.
    #[arg(long, value_name = "NAME", conflicts_with = "words")]
    pub(crate) remove: Option<String>,
}

/// A saved search as it is printed.
#[derive(Debug, Serialize)]
struct SavedOutput {
    name: String,
    space: Option<String>,
    words: String,
    kind: Option<NodeKind>,
    r#type: Option<&'static str>,
    min_bytes: Option<u64>,
    max_bytes: Option<u64>,
    after_ms: Option<i64>,
    before_ms: Option<i64>,
    within_days: Option<u32>,
    tags: Vec<String>,
    /// Where goes what is put into it: a path in its space; none is the home.
    folder: Option<String>,
}

impl From<SavedSearch> for SavedOutput {
    fn from(saved: SavedSearch) -> Self {
        let gone = || "(gone)".to_owned();
        let folder = saved.folder.map(|_| saved.place.map_or_else(gone, |(_, path)| path.to_string()));
        Self {
            name: saved.name.as_str().to_owned(),
            space: saved.space,
            words: saved.query.text,
            kind: saved.query.kind,
            r#type: saved.query.group.map(holdfast_meta::MediaGroup::name),
            min_bytes: saved.query.min_bytes,
            max_bytes: saved.query.max_bytes,
            after_ms: saved.query.after_ms,
            before_ms: saved.query.before_ms,
            within_days: saved.query.within_days,
            tags: saved.query.tags.iter().map(|tag| tag.shown().to_owned()).collect(),
            folder,
        }
    }
}

impl SavedOutput {
    fn row(&self) -> Vec<String> {
        let mut filters = String::new();
        // Writing to a string cannot fail.
        let mut add = |name: &str, value: Option<String>| {
            let _ = value.map(|value| write!(filters, "{name} {value}  "));
        };
        add("in", self.space.clone());
        add("kind", self.kind.map(|kind| format!("{kind:?}").to_lowercase()));
        add("type", self.r#type.map(str::to_owned));
        add("from", self.min_bytes.map(holdfast_base::size::format_bytes));
        add("to", self.max_bytes.map(holdfast_base::size::format_bytes));
        add("since", self.after_ms.map(crate::output::time));
        add("before", self.before_ms.map(crate::output::time));
        add("within", self.within_days.map(|days| format!("{days} days")));
        let folder = self.folder.clone().unwrap_or_else(|| "(home)".into());
        vec![self.name.clone(), self.words.clone(), self.tags.join(", "), filters.trim_end().to_owned(), folder]
    }
}

/// Lists an account's saved searches.
pub(crate) async fn list(local: &Local, who: &Session, json: bool) -> anyhow::Result<()> {
    let saved = local.catalogue.saved_searches(who.account).await?;
    let saved: Vec<SavedOutput> = saved.into_iter().map(Into::into).collect();
    show(json, &saved, |saved| {
        table(&["NAME", "WORDS", "TAGS", "FILTERS", "FOLDER"], &saved.iter().map(SavedOutput::row).collect::<Vec<_>>())
    })
}

/// One of them.
pub(crate) async fn find(local: &Local, who: &Session, name: &str) -> Result<SavedSearch> {
    let found = local.catalogue.saved_search(who.account, &WhichSearch::Name(name.to_owned())).await?;
    found.ok_or_else(|| Error::not_found(format!("{} has no saved search {name:?}", who.name)))
}

/// Saves a search under a name, with the folder for what is put into it.
pub(crate) async fn save(
    local: &Local,
    who: &Session,
    (name, folder): (&str, Option<&str>),
    (space, query): (Option<String>, SearchQuery),
    json: bool,
) -> anyhow::Result<()> {
    if let Some(space) = &space {
        local.space(who, space, Role::Reader).await?;
    }
    let folder = match folder {
        Some(text) => Some(folder_row(local, who, text).await?),
        None => None,
    };
    let query = SearchQuery { limit: 0, ..query };
    let now_ms = SystemClock.now_ms();
    let new = NewSearch { account: who.account, name: NodeName::new(name)?, space, query, folder, now_ms };
    let saved = SavedOutput::from(local.catalogue.save_search(new).await?);
    show(json, &saved, |saved| format!("The search {:?} is saved.", saved.name))
}

/// Removes one.
pub(crate) async fn remove(local: &Local, who: &Session, name: &str, json: bool) -> anyhow::Result<()> {
    let saved = find(local, who, name).await?;
    local.catalogue.remove_search(who.account, saved.id).await?;
    show(json, &json!({ "name": name, "removed": true }), |_| format!("The search {name:?} is not saved any more."))
}

/// The folder of this name: a space's, a slash, and a path in it.
async fn folder_row(local: &Local, who: &Session, text: &str) -> Result<NodeId> {
    let (space, path) = text.split_once('/').unwrap_or((text, ""));
    let (space, _) = local.space(who, space, Role::Editor).await?;
    let path = DrivePath::parse(path)?;
    let found = local.catalogue.find(space.id, &path, false).await?;
    let node = found.node(&path).filter(|node| node.kind == NodeKind::Folder);
    node.map(|node| node.id).ok_or_else(|| Error::not_found(format!("there is no folder {text}")))
}
