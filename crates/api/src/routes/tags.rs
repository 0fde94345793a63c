//! Tags on files and folders.

use super::Failures;
use super::batches::{Outcome, OutcomesBody, PlaceRef};
use super::nodes::NodeBody;
use crate::extract::{Caller, Json, Query};
use crate::problem::{Failure, Problem};
use crate::{Api, LIST_MAX};
use axum::extract::State;
use holdfast_base::{Error, ErrorKind, Result};
use holdfast_drive::{Location, Node, TAG_LIST_MAX, Tag, TagChange, TagCount};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// What is tagged how.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TagBody {
    /// Files and folders; 1,000 at most.
    #[schema(max_items = 1000)]
    items: Vec<PlaceRef>,
    /// Tags to add. One that is there already is shown as it is written here.
    #[serde(default)]
    add: Vec<String>,
    /// Tags to remove, in any case.
    #[serde(default)]
    remove: Vec<String>,
}

/// Tag files and folders.
///
/// An item that is refused does not stop the others. A tag has 64 bytes at most, a file or folder 32 tags.
#[utoipa::path(post, path = "/tags", tag = "tags", request_body = TagBody,
    responses((status = 200, body = OutcomesBody), Failures))]
pub(crate) async fn change(
    State(api): State<Api>,
    caller: Caller,
    Json(body): Json<TagBody>,
) -> Result<axum::Json<OutcomesBody>, Failure> {
    if body.items.len() > LIST_MAX || body.add.len() > LIST_MAX || body.remove.len() > LIST_MAX {
        let message = format!("a list has {LIST_MAX} items at most");
        return Err(Error::new(ErrorKind::TooLarge, message).into());
    }
    let tags = |texts: &[String]| texts.iter().map(|text| Tag::new(text)).collect::<Result<Vec<_>>>();
    let change = TagChange { add: tags(&body.add)?, remove: tags(&body.remove)? };
    let places: Vec<Result<Location>> = body.items.into_iter().map(PlaceRef::read).collect();
    let good: Vec<Location> = places.iter().filter_map(|place| place.as_ref().ok()).cloned().collect();
    let mut done = api.drive.change_tags(&caller.0, &good, &change).await?.into_iter();
    let answers: Vec<Result<Node>> =
        places.into_iter().map(|place| place.and_then(|_| done.next().unwrap_or_else(unanswered))).collect();
    let tagged = with_tags(&api, &caller, &answers).await?;
    let results = answers.into_iter().zip(tagged).map(|(answer, tags)| match answer {
        Ok(node) => Outcome::Node(NodeBody::new(node, tags)),
        Err(error) => Outcome::Problem(Problem::of(&error)),
    });
    Ok(axum::Json(OutcomesBody { results: results.collect() }))
}

fn unanswered() -> Result<Node> {
    Err(Error::internal("an item was not answered"))
}

/// The tags of the nodes that were changed, space by space; nothing for the others.
async fn with_tags(api: &Api, caller: &Caller, answers: &[Result<Node>]) -> Result<Vec<Vec<String>>> {
    let mut tags = vec![Vec::new(); answers.len()];
    let mut left: Vec<(usize, &Node)> =
        answers.iter().enumerate().filter_map(|(index, answer)| Some((index, answer.as_ref().ok()?))).collect();
    left.sort_by_key(|(_, node)| node.space);
    for nodes in left.chunk_by(|one, other| one.1.space == other.1.space) {
        let of_space: Vec<Node> = nodes.iter().map(|(_, node)| (*node).clone()).collect();
        for ((index, _), found) in nodes.iter().zip(api.drive.tags(&caller.0, &of_space).await?) {
            if let Some(place) = tags.get_mut(*index) {
                *place = found;
            }
        }
    }
    Ok(tags)
}

/// Which tags.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct Which {
    /// Of this space; absent is all that the caller may see.
    space: Option<String>,
    /// What they begin with, in any case.
    #[serde(default)]
    prefix: String,
    /// Tags at most; 100 is the most.
    limit: Option<usize>,
}

/// A tag in use.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TagCountBody {
    /// The tag.
    tag: String,
    /// Files and folders that have it; counted up to 100 a space.
    count: usize,
    /// Whether more may have it.
    more: bool,
}

impl From<TagCount> for TagCountBody {
    fn from(TagCount { tag, count, more }: TagCount) -> Self {
        Self { tag, count, more }
    }
}

/// Tags in use, with counts, in alphabetical order.
#[utoipa::path(get, path = "/tags", tag = "tags", params(Which),
    responses((status = 200, body = Vec<TagCountBody>), Failures))]
pub(crate) async fn list(
    State(api): State<Api>,
    caller: Caller,
    Query(which): Query<Which>,
) -> Result<axum::Json<Vec<TagCountBody>>, Failure> {
    let limit = which.limit.unwrap_or(TAG_LIST_MAX).clamp(1, TAG_LIST_MAX);
    let tags = api.drive.tags_in_use(&caller.0, which.space.as_deref(), &which.prefix, limit).await?;
    Ok(axum::Json(tags.into_iter().map(Into::into).collect()))
}
