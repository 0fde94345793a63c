//! Files and folders: what is at a place, what is in a folder, and new folders.

use super::{Failures, Refusals};
use crate::extract::{At, Caller, Query};
use crate::problem::Failure;
use crate::{Api, FOLDER_MAX};
use axum::extract::State;
use holdfast_auth::Session;
use holdfast_base::{Error, ErrorKind, NodeName};
use holdfast_drive::{Conditions, Location, Node, NodeKind, Role, Walk};
use holdfast_http::mime_of_name;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A file or folder.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NodeBody {
    /// Names it for good: renames and moves do not change it.
    id: i64,
    /// Its name; a space's root has an empty one.
    name: String,
    /// `file` or `folder`.
    #[schema(value_type = String)]
    kind: NodeKind,
    /// Size; 0 for folders.
    size_bytes: u64,
    /// When it was made.
    created_ms: i64,
    /// Modification time.
    modified_ms: i64,
    /// Its entity tag, quotes included. Of a file it changes with content, name and properties.
    etag: String,
    /// A file's type by its name; empty for folders.
    #[serde(rename = "type")]
    media_type: &'static str,
    /// Its tags.
    tags: Vec<String>,
}

impl NodeBody {
    /// A node with its tags.
    pub(crate) fn new(node: Node, tags: Vec<String>) -> Self {
        Self {
            id: node.id.0,
            kind: node.kind,
            size_bytes: node.size,
            created_ms: node.created_ms,
            modified_ms: node.modified_ms,
            etag: node.entity_tag(),
            media_type: if node.kind == NodeKind::File { mime_of_name(&node.name).0 } else { "" },
            name: node.name,
            tags,
        }
    }
}

/// Nodes of one space as they are answered: a page at a time, so that their tags are looked up at once.
pub(crate) async fn bodies_of(api: &Api, who: &Session, nodes: Vec<Node>) -> Result<Vec<NodeBody>, Failure> {
    let tags = api.drive.tags(who, &nodes).await?;
    Ok(nodes.into_iter().zip(tags).map(|(node, tags)| NodeBody::new(node, tags)).collect())
}

/// One node as it is answered.
pub(crate) async fn body_of(api: &Api, who: &Session, node: Node) -> Result<NodeBody, Failure> {
    let one = bodies_of(api, who, vec![node]).await?.pop();
    one.ok_or_else(|| Failure(Error::internal("a node has no answer")))
}

/// What is at a place.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PlaceBody {
    /// It.
    #[serde(flatten)]
    node: NodeBody,
    /// Its space.
    space: String,
    /// Its path there, beginning with a slash.
    path: String,
    /// The caller's role in the space: `reader`, `editor` or `owner`.
    #[schema(value_type = String)]
    role: Role,
    /// Old versions it has.
    versions: usize,
}

/// What is at this place?
///
/// The path has any number of segments, each percent-encoded; without one it is the space's root.
#[utoipa::path(get, path = "/nodes/{space}/{path}", tag = "files", params(("space" = String, Path), ("path" = String, Path)),
    responses((status = 200, body = PlaceBody), Failures))]
pub(crate) async fn show(State(api): State<Api>, caller: Caller, At(at): At) -> Result<axum::Json<PlaceBody>, Failure> {
    let walk = api.drive.walk(&caller.0, &at).await?;
    let node = end_of(&walk, &at)?.clone();
    let versions = match node.kind {
        NodeKind::File => api.drive.versions(&caller.0, &at).await?.len(),
        NodeKind::Folder => 0,
    };
    let node = body_of(&api, &caller.0, node).await?;
    Ok(axum::Json(PlaceBody { node, space: at.space, path: at.path.to_string(), role: walk.role, versions }))
}

/// The node a walk was for.
pub(super) fn end_of<'a>(walk: &'a Walk, at: &Location) -> Result<&'a Node, Error> {
    walk.node().ok_or_else(|| Error::not_found(format!("{at} does not exist")))
}

/// Which part of a folder.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct Page {
    /// Only members whose names come after this one: `next` of the page before.
    after: Option<String>,
    /// Members at most; 10,000 is the most.
    limit: Option<usize>,
}

/// A folder with a page of its members.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FolderBody {
    /// The folder.
    folder: NodeBody,
    /// The caller's role in the space: `reader`, `editor` or `owner`.
    #[schema(value_type = String)]
    role: Role,
    /// Members in byte order of name.
    entries: Vec<NodeBody>,
    /// What to ask for as `after` to get the next page; absent if this is the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// What is in this folder?
///
/// The path has any number of segments, each percent-encoded; without one it is the space's root.
#[utoipa::path(get, path = "/folders/{space}/{path}", tag = "files",
    params(("space" = String, Path), ("path" = String, Path), Page), responses((status = 200, body = FolderBody), Failures))]
pub(crate) async fn list(
    State(api): State<Api>,
    caller: Caller,
    At(at): At,
    Query(page): Query<Page>,
) -> Result<axum::Json<FolderBody>, Failure> {
    let limit = page.limit.unwrap_or(FOLDER_MAX);
    if !(1..=FOLDER_MAX).contains(&limit) {
        return Err(Error::invalid(format!("limit is from 1 to {FOLDER_MAX}")).into());
    }
    let after = page.after.as_deref().map(NodeName::new).transpose()?;
    let walk = api.drive.walk(&caller.0, &at).await?;
    let folder = end_of(&walk, &at)?.clone();
    if folder.kind != NodeKind::Folder {
        return Err(Error::new(ErrorKind::WrongKind, format!("{at} is a file")).into());
    }
    let mut members = api.drive.list(&caller.0, &folder, after.as_ref(), limit + 1).await?;
    let more = members.len() > limit;
    members.truncate(limit);
    let next = members.last().filter(|_| more).map(|last| last.name.clone());
    let folder = body_of(&api, &caller.0, folder).await?;
    let entries = bodies_of(&api, &caller.0, members).await?;
    Ok(axum::Json(FolderBody { folder, role: walk.role, entries, next }))
}

/// Make a folder.
///
/// The folder it is to be in has to be there (409), and nothing of its name in it (409).
#[utoipa::path(post, path = "/folders/{space}/{path}", tag = "files",
    params(("space" = String, Path), ("path" = String, Path)),
    responses((status = 201, body = NodeBody), Failures, Refusals))]
pub(crate) async fn make(
    State(api): State<Api>,
    caller: Caller,
    At(at): At,
) -> Result<(StatusCode, axum::Json<NodeBody>), Failure> {
    let made = api.drive.make_folder(&caller.0, &at, Conditions::default()).await?;
    Ok((StatusCode::CREATED, axum::Json(body_of(&api, &caller.0, made).await?)))
}
