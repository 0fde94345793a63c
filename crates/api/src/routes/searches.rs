//! Saved searches, which the pages and WebDAV show as folders.

use super::search::{LIMIT, SearchBody, kind};
use super::{Failures, accounts::Wish, batches::PlaceRef};
use crate::Api;
use crate::extract::{Caller, Json, Path, Query};
use crate::problem::Failure;
use axum::extract::State;
use holdfast_base::{Error, NodeName, Result};
use holdfast_drive::{
    HITS_MAX, Location, MediaGroup, NodeKind, SavedView, SavedWish, SearchQuery, SearchToSave, Tag, WhichSearch,
};
use holdfast_meta::audit::amend;
use http::StatusCode;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::{IntoParams, ToSchema};

/// What is looked for: the fields of `GET /search`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueryBody {
    /// Words: each must be in the name, in a tag or in the name of a folder above, one of them in the name or a tag.
    #[serde(default)]
    q: String,
    /// In this space; absent is all that the caller may see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    space: Option<String>,
    /// `file` or `folder`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    /// `image`, `video`, `audio`, `pdf`, `text`, `document` or `archive`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    r#type: Option<String>,
    /// Files of so many bytes or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    min_bytes: Option<u64>,
    /// Files of so many bytes or fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_bytes: Option<u64>,
    /// Modified then or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after_ms: Option<i64>,
    /// Modified before then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before_ms: Option<i64>,
    /// Modified in the last so many days before each look; 36,525 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    within_days: Option<u32>,
    /// Tags that a hit has, all of them; 8 at most. A file that is put into the folder gets them.
    #[serde(default)]
    tags: Vec<String>,
}

impl QueryBody {
    fn new(space: Option<String>, query: SearchQuery) -> Self {
        Self {
            q: query.text,
            space,
            kind: query.kind.map(|kind| if kind == NodeKind::File { "file" } else { "folder" }.to_owned()),
            r#type: query.group.map(|group| group.name().to_owned()),
            min_bytes: query.min_bytes,
            max_bytes: query.max_bytes,
            after_ms: query.after_ms,
            before_ms: query.before_ms,
            within_days: query.within_days,
            tags: query.tags.iter().map(|tag| tag.shown().to_owned()).collect(),
        }
    }

    fn read(self) -> Result<(Option<String>, SearchQuery)> {
        let query = SearchQuery {
            text: self.q,
            kind: self.kind.as_deref().map(kind).transpose()?,
            group: self.r#type.as_deref().map(str::parse::<MediaGroup>).transpose()?,
            min_bytes: self.min_bytes,
            max_bytes: self.max_bytes,
            after_ms: self.after_ms,
            before_ms: self.before_ms,
            within_days: self.within_days,
            tags: self.tags.iter().map(|text| Tag::new(text)).collect::<Result<_>>()?,
            ..SearchQuery::default()
        };
        Ok((self.space, query))
    }
}

/// A saved search.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SavedBody {
    /// Names it.
    id: i64,
    /// What it is called.
    name: String,
    /// What is looked for.
    query: QueryBody,
    /// Where goes what is put into it; absent while that folder is in the trash, or out of the caller's sight.
    #[serde(skip_serializing_if = "Option::is_none")]
    folder: Option<FolderBody>,
    /// When it was made.
    created_ms: i64,
    /// When it was last changed.
    changed_ms: i64,
}

/// A folder.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FolderBody {
    /// Its space.
    space: String,
    /// Its path there.
    path: String,
}

impl From<SavedView> for SavedBody {
    fn from(saved: SavedView) -> Self {
        let folder = |at: Location| FolderBody { space: at.space, path: at.path.to_string() };
        Self {
            id: saved.id,
            name: saved.name.as_str().to_owned(),
            query: QueryBody::new(saved.space, saved.query),
            folder: saved.folder.map(folder),
            created_ms: saved.created_ms,
            changed_ms: saved.changed_ms,
        }
    }
}

/// My saved searches, by name.
///
/// WebDAV shows them as folders below `Saved searches`, beside the spaces.
#[utoipa::path(get, path = "/searches", tag = "search", responses((status = 200, body = Vec<SavedBody>), Failures))]
pub(crate) async fn list(State(api): State<Api>, caller: Caller) -> Result<axum::Json<Vec<SavedBody>>, Failure> {
    let saved = api.drive.saved_searches(&caller.0).await?;
    Ok(axum::Json(saved.into_iter().map(Into::into).collect()))
}

/// A search to be saved.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSavedBody {
    /// What it is to be called: what a file could be called, once an account.
    name: String,
    /// What is looked for; not nothing.
    query: QueryBody,
    /// The folder for what is put into it; absent is the caller's home.
    #[serde(default)]
    folder: Option<PlaceRef>,
}

/// Save a search.
///
/// An account has 100 at most.
#[utoipa::path(post, path = "/searches", tag = "search", request_body = NewSavedBody,
    responses((status = 201, body = SavedBody), Failures))]
pub(crate) async fn save(
    State(api): State<Api>,
    caller: Caller,
    Json(wanted): Json<NewSavedBody>,
) -> Result<(StatusCode, axum::Json<SavedBody>), Failure> {
    amend(|note| note.object.clone_from(&wanted.name));
    let (space, query) = wanted.query.read()?;
    let folder = wanted.folder.map(PlaceRef::read).transpose()?;
    let wanted = SearchToSave { name: NodeName::new(&wanted.name)?, space, query, folder };
    let saved = api.drive.save_search(&caller.0, wanted).await?;
    Ok((StatusCode::CREATED, axum::Json(saved.into())))
}

/// Changes of a saved search; absent leaves things as they are.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedChangeBody {
    /// Its name.
    #[serde(default)]
    name: Option<String>,
    /// What is looked for, as a whole.
    #[serde(default)]
    query: Option<QueryBody>,
    /// The folder for what is put into it; null is the caller's home.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<PlaceRef>)]
    folder: Wish<Option<PlaceRef>>,
}

fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Wish<Option<PlaceRef>>, D::Error> {
    Option::<PlaceRef>::deserialize(deserializer).map(Wish::Set)
}

/// Change a saved search.
#[utoipa::path(patch, path = "/searches/{id}", tag = "search", params(("id" = i64, Path)), request_body = SavedChangeBody,
    responses((status = 200, body = SavedBody), Failures))]
pub(crate) async fn change(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    Json(wanted): Json<SavedChangeBody>,
) -> Result<axum::Json<SavedBody>, Failure> {
    let folder = match wanted.folder {
        Wish::Keep => None,
        Wish::Set(folder) => Some(folder.map(PlaceRef::read).transpose()?),
    };
    let wish = SavedWish {
        name: wanted.name.as_deref().map(NodeName::new).transpose()?,
        query: wanted.query.map(QueryBody::read).transpose()?,
        folder,
    };
    let saved = api.drive.change_search(&caller.0, search_id(&id)?, wish).await?;
    Ok(axum::Json(saved.into()))
}

/// Remove a saved search.
///
/// What it finds stays.
#[utoipa::path(delete, path = "/searches/{id}", tag = "search", params(("id" = i64, Path)),
    responses((status = 204), Failures))]
pub(crate) async fn remove(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, Failure> {
    api.drive.remove_search(&caller.0, search_id(&id)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Which page.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Page {
    /// Hits at most; 200 is the most.
    limit: Option<usize>,
    /// Go on where the answer before ended.
    cursor: Option<String>,
}

/// What a saved search finds now.
#[utoipa::path(get, path = "/searches/{id}/nodes", tag = "search", params(("id" = i64, Path), Page),
    responses((status = 200, body = SearchBody), Failures))]
pub(crate) async fn nodes(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    Query(page): Query<Page>,
) -> Result<axum::Json<SearchBody>, Failure> {
    let saved = api.drive.saved_search(&caller.0, &WhichSearch::Id(search_id(&id)?)).await?;
    let query = SearchQuery {
        limit: page.limit.unwrap_or(LIMIT).clamp(1, HITS_MAX),
        after: page.cursor.as_deref().map(str::parse).transpose()?,
        whole: true,
        ..saved.query
    };
    Ok(axum::Json(api.drive.search(&caller.0, saved.space.as_deref(), &query).await?.into()))
}

/// The id of a saved search in an address. What cannot be one is one that is not there.
fn search_id(text: &str) -> Result<i64> {
    text.parse().map_err(|_| Error::not_found("there is no such saved search"))
}
