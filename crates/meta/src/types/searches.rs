//! Saved searches.

use super::{SearchQuery, Tag};
use holdfast_base::{AccountId, DrivePath, NodeId, NodeName, Result, SpaceId};

/// Saved searches of an account: a list that is still read.
pub const SEARCHES_MAX: usize = 100;

/// A search that an account keeps under a name, and that is shown as a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedSearch {
    /// Row.
    pub id: i64,
    /// Whose.
    pub account: AccountId,
    /// What it is called; a name that a node could have, once an account.
    pub name: NodeName,
    /// Only in what the account calls this; none is all it may see.
    pub space: Option<String>,
    /// What is looked for, without a limit and from the first hit on.
    pub query: SearchQuery,
    /// The folder that what is put into it goes to; none is the account's home.
    pub folder: Option<NodeId>,
    /// Where that is; none also while it is in the trash, or gone.
    pub place: Option<(SpaceId, DrivePath)>,
    /// When it was made.
    pub created_ms: i64,
    /// When it was last changed.
    pub changed_ms: i64,
}

/// A search to be saved.
#[derive(Debug, Clone)]
pub struct NewSearch {
    /// See [`SavedSearch::account`].
    pub account: AccountId,
    /// See [`SavedSearch::name`].
    pub name: NodeName,
    /// See [`SavedSearch::space`].
    pub space: Option<String>,
    /// See [`SavedSearch::query`].
    pub query: SearchQuery,
    /// See [`SavedSearch::folder`].
    pub folder: Option<NodeId>,
    /// When.
    pub now_ms: i64,
}

/// Fields of a saved search to be changed; none leaves a field as it is.
#[derive(Debug, Clone, Default)]
pub struct SearchChange {
    /// See [`SavedSearch::name`].
    pub name: Option<NodeName>,
    /// See [`SavedSearch::space`] and [`SavedSearch::query`], which are changed together.
    pub query: Option<(Option<String>, SearchQuery)>,
    /// See [`SavedSearch::folder`] (inner none: the home).
    pub folder: Option<Option<NodeId>>,
    /// When.
    pub now_ms: i64,
}

/// Which saved search of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhichSearch {
    /// By row.
    Id(i64),
    /// By name.
    Name(String),
}

/// Tags as one text, one a line: a tag has no line breaks.
pub(crate) fn tags_to_text(tags: &[Tag]) -> String {
    tags.iter().map(Tag::shown).collect::<Vec<_>>().join("\n")
}

/// The reverse.
pub(crate) fn tags_of_text(text: &str) -> Result<Vec<Tag>> {
    text.lines().map(Tag::new).collect()
}
