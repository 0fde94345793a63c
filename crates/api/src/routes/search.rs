//! Search.

use super::Failures;
use super::nodes::NodeBody;
use crate::Api;
use crate::extract::{Caller, Query};
use crate::problem::Failure;
use axum::extract::State;
use holdfast_base::{Error, Result};
use holdfast_drive::{FoundNode, FoundNodes, HITS_MAX, NodeKind, SearchQuery, Tag};
use serde::Serialize;
use std::str::FromStr;
use utoipa::{IntoParams, ToSchema};

/// Hits of a page if nothing else was asked for: what a list shows.
pub(super) const LIMIT: usize = 50;
/// Fields of a query string: every one of them, and as many tags as a query may have.
const FIELDS_MAX: usize = 32;

/// What is looked for.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "a description only: a field that may come several times is read by hand")]
pub(crate) struct Wanted {
    /// Words: each must be in the name, in a tag or in the name of a folder above, one of them in the name or a tag. Case and accents do not
    /// matter, and the beginning of a word suffices. 256 bytes and 8 words at most.
    q: Option<String>,
    /// In this space; absent is all that the caller may see.
    space: Option<String>,
    /// `file` or `folder`.
    kind: Option<String>,
    /// `image`, `video`, `audio`, `pdf`, `text`, `document` or `archive`.
    r#type: Option<String>,
    /// Files of so many bytes or more.
    min_bytes: Option<u64>,
    /// Files of so many bytes or fewer.
    max_bytes: Option<u64>,
    /// Modified then or later.
    after_ms: Option<i64>,
    /// Modified before then.
    before_ms: Option<i64>,
    /// Modified in the last so many days; 36,525 at most.
    within_days: Option<u32>,
    /// A tag the node must have; may come several times.
    tag: Option<Vec<String>>,
    /// Hits at most; 200 is the most.
    limit: Option<usize>,
    /// Go on where the answer before ended.
    cursor: Option<String>,
}

/// Something that was found.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HitBody {
    /// Its space.
    space: String,
    /// Its path there.
    path: String,
    /// What it is.
    node: NodeBody,
}

impl From<FoundNode> for HitBody {
    fn from(found: FoundNode) -> Self {
        let FoundNode { at, node, tags, .. } = found;
        Self { space: at.space, path: at.path.to_string(), node: NodeBody::new(node, tags) }
    }
}

/// What a search answers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SearchBody {
    /// Exact names first, then names that begin with the query, then those that have all its words, then the rest; of each, the newest first.
    /// A page may be short, or the last one empty: whoever waits is answered with what a first look finds, and later pages have the rest in
    /// the same order.
    hits: Vec<HitBody>,
    /// Whether there may be more: on the next page, or more than one search looks at.
    more: bool,
    /// The next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
    /// Whether some names or tags are not indexed yet, and so not found.
    indexing: bool,
}

/// Find files and folders by name, path and tags.
#[utoipa::path(get, path = "/search", tag = "search", params(Wanted),
    responses((status = 200, body = SearchBody), Failures))]
pub(crate) async fn search(
    State(api): State<Api>,
    caller: Caller,
    Query(fields): Query<Vec<(String, String)>>,
) -> Result<axum::Json<SearchBody>, Failure> {
    let (space, query) = read(fields)?;
    Ok(axum::Json(api.drive.search(&caller.0, space.as_deref(), &query).await?.into()))
}

impl From<FoundNodes> for SearchBody {
    fn from(answer: FoundNodes) -> Self {
        Self {
            hits: answer.found.into_iter().map(Into::into).collect(),
            more: answer.more,
            cursor: answer.next.map(|cursor| cursor.to_string()),
            indexing: answer.indexing,
        }
    }
}

fn read(fields: Vec<(String, String)>) -> Result<(Option<String>, SearchQuery)> {
    if fields.len() > FIELDS_MAX {
        return Err(Error::invalid(format!("a search has {FIELDS_MAX} fields at most")));
    }
    let (mut space, mut query) = (None, SearchQuery { limit: LIMIT, ..SearchQuery::default() });
    for (name, value) in fields {
        match name.as_str() {
            "q" => query.text = value,
            "space" => space = Some(value),
            "kind" => query.kind = Some(kind(&value)?),
            "type" => query.group = Some(value.parse()?),
            "min_bytes" => query.min_bytes = Some(number(&name, &value)?),
            "max_bytes" => query.max_bytes = Some(number(&name, &value)?),
            "after_ms" => query.after_ms = Some(number(&name, &value)?),
            "before_ms" => query.before_ms = Some(number(&name, &value)?),
            "within_days" => query.within_days = Some(number(&name, &value)?),
            "tag" => query.tags.push(Tag::new(&value)?),
            "limit" => query.limit = number::<usize>(&name, &value)?.clamp(1, HITS_MAX),
            "cursor" => query.after = Some(value.parse()?),
            _ => return Err(Error::invalid(format!("a search has no field {name:?}"))),
        }
    }
    Ok((space, query))
}

/// `file` or `folder`.
pub(super) fn kind(text: &str) -> Result<NodeKind> {
    match text {
        "file" => Ok(NodeKind::File),
        "folder" => Ok(NodeKind::Folder),
        _ => Err(Error::invalid("kind is file or folder")),
    }
}

fn number<T: FromStr>(name: &str, text: &str) -> Result<T> {
    text.parse().map_err(|_| Error::invalid(format!("{name} is a whole number")))
}
