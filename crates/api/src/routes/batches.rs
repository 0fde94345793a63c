//! Moving, copying and removing many things with one request.
//!
//! Items are done one after the other, each atomically; one that fails does not stop the others, and each has its own result.

use super::Failures;
use super::nodes::{NodeBody, body_of, end_of};
use crate::extract::{Caller, Json};
use crate::problem::{Failure, Problem};
use crate::{Api, BATCH_ITEMS_MAX};
use axum::extract::State;
use holdfast_auth::Session;
use holdfast_base::limits::NAME_BYTES_MAX;
use holdfast_base::{DrivePath, Error, ErrorKind, NodeName, Result};
use holdfast_drive::{Changed, Conditions, Expect, Location, NodeKind, Transfer};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Names tried for a thing that is to be kept beside others: after so many, something is wrong with the asker.
const NAMES_TRIED_MAX: u32 = 200;

/// A place.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlaceRef {
    /// The space's name.
    space: String,
    /// The path in it, as text: names separated by slashes, not percent-encoded.
    path: String,
}

impl PlaceRef {
    pub(super) fn read(self) -> Result<Location> {
        super::location(self.space, &self.path)
    }
}

/// From where to where.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TransferItem {
    /// What.
    from: PlaceRef,
    /// Where to, its new name included.
    to: PlaceRef,
}

/// What to do if there is something at the target.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OnConflict {
    /// Leave both where they are: a 409.
    #[default]
    Fail,
    /// Replace it; what is replaced goes into the trash.
    Replace,
    /// Take another name: `name (2).ext`.
    KeepBoth,
}

/// Moves or copies.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TransfersBody {
    /// 1,000 at most.
    #[schema(max_items = 1000)]
    items: Vec<TransferItem>,
    /// What to do where there is something at the target.
    #[serde(default)]
    conflict: OnConflict,
}

/// What became of an item.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// It is here now.
    Node(NodeBody),
    /// It failed.
    Problem(Problem),
}

/// What became of every item, in order.
#[derive(Serialize, ToSchema)]
pub(crate) struct OutcomesBody {
    /// One for each item.
    pub(super) results: Vec<Outcome>,
}

/// Move or rename many.
#[utoipa::path(post, path = "/move", tag = "files", request_body = TransfersBody,
    responses((status = 200, body = OutcomesBody), Failures))]
pub(crate) async fn relocate(
    State(api): State<Api>,
    caller: Caller,
    Json(body): Json<TransfersBody>,
) -> Result<axum::Json<OutcomesBody>, Failure> {
    transfers(&api, &caller.0, body, false).await
}

/// Copy many.
#[utoipa::path(post, path = "/copy", tag = "files", request_body = TransfersBody,
    responses((status = 200, body = OutcomesBody), Failures))]
pub(crate) async fn copy(
    State(api): State<Api>,
    caller: Caller,
    Json(body): Json<TransfersBody>,
) -> Result<axum::Json<OutcomesBody>, Failure> {
    transfers(&api, &caller.0, body, true).await
}

async fn transfers(
    api: &Api,
    who: &Session,
    body: TransfersBody,
    copy: bool,
) -> Result<axum::Json<OutcomesBody>, Failure> {
    check_count(body.items.len())?;
    let mut results = Vec::with_capacity(body.items.len());
    for item in body.items {
        let done = match transfer(api, who, item, body.conflict, copy).await {
            Ok(changed) => body_of(api, who, changed.node).await,
            Err(error) => Err(error.into()),
        };
        results.push(done.map_or_else(|failure| Outcome::Problem(Problem::of(&failure.0)), Outcome::Node));
    }
    Ok(axum::Json(OutcomesBody { results }))
}

async fn transfer(api: &Api, who: &Session, item: TransferItem, conflict: OnConflict, copy: bool) -> Result<Changed> {
    let (from, to) = (item.from.read()?, item.to.read()?);
    let itself = from == to;
    if itself && !(copy && conflict == OnConflict::KeepBoth) {
        return Err(Error::conflict(format!("{from} is there already")));
    }
    if from.space == to.space && !itself {
        if from.path.contains(&to.path) {
            return Err(Error::conflict(format!("{from} cannot go into itself")));
        }
        if to.path.contains(&from.path) {
            return Err(Error::conflict(format!("{to} is the folder that {from} is in")));
        }
    }
    let overwrite = conflict == OnConflict::Replace;
    let expect = if overwrite { Expect::Any } else { Expect::Absent };
    let order = |to: Location| Transfer {
        from: from.clone(),
        to,
        copy,
        overwrite,
        deep: true,
        source_expect: Expect::Any,
        tags: Vec::new(),
    };
    let mut tries = if itself { 2 } else { 1 };
    loop {
        let place = if tries == 1 { to.clone() } else { another(api, who, &from, &to, tries).await? };
        let guard = Conditions { expect, ..Conditions::default() };
        match api.drive.relocate(who, &order(place), guard).await {
            // The only thing that was expected is that nothing is there.
            Err(error) if !overwrite && is_taken(&error) => {
                if conflict == OnConflict::Fail || tries == NAMES_TRIED_MAX {
                    return Err(Error::new(ErrorKind::AlreadyExists, format!("{to} exists already")));
                }
                tries += 1;
            }
            done => return done,
        }
    }
}

fn is_taken(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::PreconditionFailed)
}

/// The place of the `number`th of its name.
async fn another(api: &Api, who: &Session, from: &Location, to: &Location, number: u32) -> Result<Location> {
    let is_file = end_of(&api.drive.walk(who, from).await?, from)?.kind == NodeKind::File;
    let root = || Error::forbidden("a space's root cannot be replaced");
    let (name, parent) = (to.path.name().ok_or_else(root)?, to.path.parent().unwrap_or(DrivePath::root()));
    let name = NodeName::new(&numbered(name.as_str(), number, is_file))?;
    Ok(Location { space: to.space.clone(), path: parent.join(name)? })
}

/// `name (2).ext`; a folder's dots are no endings. What would be too long is cut before the number.
pub(super) fn numbered(name: &str, number: u32, is_file: bool) -> String {
    let dot = name.rfind('.').filter(|&at| is_file && at > 0 && name.len() - at <= NAME_BYTES_MAX / 2);
    let (stem, ending) = name.split_at(dot.unwrap_or(name.len()));
    let number = format!(" ({number})");
    let room = NAME_BYTES_MAX.saturating_sub(number.len() + ending.len());
    let cut = (0..=room.min(stem.len())).rev().find(|&at| stem.is_char_boundary(at)).unwrap_or(0);
    format!("{}{number}{ending}", &stem[..cut])
}

/// What is to go.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemovalsBody {
    /// 1,000 at most.
    #[schema(max_items = 1000)]
    items: Vec<PlaceRef>,
}

/// What became of an item.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Removed {
    /// The trash entry it is now, for putting it back; null in a space that keeps nothing.
    Trash(Option<i64>),
    /// It failed.
    Problem(Problem),
}

/// What became of every item, in order.
#[derive(Serialize, ToSchema)]
pub(crate) struct RemovedBody {
    /// One for each item.
    results: Vec<Removed>,
}

/// Remove many, into the trash.
#[utoipa::path(post, path = "/remove", tag = "files", request_body = RemovalsBody,
    responses((status = 200, body = RemovedBody), Failures))]
pub(crate) async fn remove(
    State(api): State<Api>,
    caller: Caller,
    Json(body): Json<RemovalsBody>,
) -> Result<axum::Json<RemovedBody>, Failure> {
    check_count(body.items.len())?;
    let mut results = Vec::with_capacity(body.items.len());
    for item in body.items {
        let done = match item.read() {
            Ok(at) => api.drive.remove(&caller.0, &at, Conditions::default()).await,
            Err(error) => Err(error),
        };
        results.push(done.map_or_else(|error| Removed::Problem(Problem::of(&error)), Removed::Trash));
    }
    Ok(axum::Json(RemovedBody { results }))
}

pub(super) fn check_count(items: usize) -> Result<()> {
    if items > BATCH_ITEMS_MAX {
        let message = format!("a batch has {BATCH_ITEMS_MAX} items at most, this one {items}");
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_thing_of_a_name_has_its_number_before_the_ending() {
        assert_eq!(numbered("a.tar.gz", 2, true), "a.tar (2).gz");
        assert_eq!(numbered(".profile", 3, true), ".profile (3)");
        assert_eq!(numbered("v1.2", 2, false), "v1.2 (2)");
        let long = numbered(&format!("{}.txt", "é".repeat(125)), 10, true);
        assert!(long.len() <= NAME_BYTES_MAX && long.ends_with("é (10).txt"), "{long}");
        assert!(NodeName::new(&numbered(&format!(".{}", "x".repeat(254)), 200, true)).is_ok());
        assert!(NodeName::new(&numbered(&format!("x.{}", "é".repeat(126)), 200, true)).is_ok());
    }
}
