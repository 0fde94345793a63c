//! How an upload that was continued request by request ends.
//!
//! The conditions it was created with are tested in the transaction that makes the file. If they do not hold, nothing changes, and
//! somebody may decide otherwise. A finished upload leaves its row for a while, so that a client which did not hear the answer can ask.

use super::chain::child;
use super::contents::take_upload;
use super::engine::{Engine, Ops, Scope};
use super::fault::{Done, refuse};
use super::query as sql;
use super::resumable::{self, Purpose, purpose};
use super::state::SpaceState;
use super::tags;
use super::tree_write::commit_file;
use super::tx::Tx;
use super::walk::walk;
use crate::catalogue::{Changed, Expect, Guard};
use crate::types::{NameTaken, NewContent, UploadClaim};
use holdfast_base::{ContentId, DrivePath, ErrorKind, Result};

/// Names beside a taken one that are tried: each is a look-up in the transaction.
const NAMES_TRIED_MAX: u32 = 1_000;

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn finish_resumable(
        &self,
        claim: UploadClaim,
        content: NewContent,
        name_taken: Option<NameTaken>,
        expires_ms: i64,
        guard: &Guard,
    ) -> Result<Changed> {
        let space = self.space_of_resumable(claim.content).await?;
        let guard = guard.clone();
        let work = move |tx: &Tx<'_>| {
            let mut state = SpaceState::load_for(tx, space, &guard)?;
            let changed = finish(tx, &mut state, claim, &content, name_taken, expires_ms, &guard)?;
            state.save(tx)?;
            Ok(changed)
        };
        self.0.write("finish_resumable", Scope::Space(space), work).await
    }
}

fn finish(
    tx: &Tx<'_>,
    state: &mut SpaceState,
    claim: UploadClaim,
    content: &NewContent,
    name_taken: Option<NameTaken>,
    expires_ms: i64,
    guard: &Guard,
) -> Done<Changed> {
    let purpose = purpose(tx, claim)?;
    // What it came in through leads elsewhere now; another folder may be where this one was.
    if guard.through.iter().any(|through| through.space == state.id && !through.base.contains(&purpose.path)) {
        return refuse(ErrorKind::Conflict, "the folder of this upload was moved meanwhile: begin it again");
    }
    let upload = claim.content;
    check_whole(content, upload, purpose.length)?;
    if !matches!(content, NewContent::Staged { .. }) {
        // What it is made of is not in the content that was staged.
        state.reserved -= take_upload(tx, state, upload)?;
        sql::put(tx, "DELETE FROM content WHERE id = ?1 AND blocks = 0", [upload.0])?;
    }
    sql::put(tx, "DELETE FROM tail WHERE content_id = ?1", [upload.0])?;
    let path = place(tx, state, &purpose, name_taken.unwrap_or(purpose.name_taken))?;
    let expect = purpose.expect_seq.filter(|_| name_taken.is_none()).map_or(Expect::Any, Expect::Seq);
    let guard = Guard { expect, ..guard.clone() };
    let changed = commit_file(tx, state, &path, content, purpose.modified_ms.unwrap_or(guard.now_ms), &guard)?;
    let changed = tags::add_to_written(tx, state, &path, changed, &resumable::tags(tx, upload)?, &guard)?;
    let sql = "UPDATE resumable SET path = ?2, node_id = ?3, node_seq = ?4, tail_bytes = 0, expires_ms = ?5 WHERE content_id = ?1";
    sql::put(tx, sql, (upload.0, path.to_string(), changed.node.id.0, changed.node.seq, expires_ms))?;
    Ok(changed)
}

/// The content must be the upload's, and have the length that was declared.
fn check_whole(content: &NewContent, upload: ContentId, length: u64) -> Done<()> {
    let whole = match content {
        NewContent::Empty => length == 0,
        NewContent::Inline { size, .. } => *size == length,
        NewContent::Staged { content, size, .. } => *content == upload && *size == length,
        NewContent::Blocks { .. } => false,
    };
    if whole { Ok(()) } else { refuse(ErrorKind::InvalidInput, "the upload is not whole") }
}

/// Where the file goes.
fn place(tx: &Tx<'_>, state: &SpaceState, purpose: &Purpose, name_taken: NameTaken) -> Done<DrivePath> {
    let path = &purpose.path;
    if name_taken == NameTaken::Replace {
        return Ok(path.clone());
    }
    let spot = walk(tx, state.id, state.root, path)?;
    let (Some(_), Some(name), Some(folder)) = (&spot.node, path.name(), path.parent()) else { return Ok(path.clone()) };
    if name_taken == NameTaken::Fail {
        return refuse(ErrorKind::AlreadyExists, format!("{path} exists already"));
    }
    let parent = spot.parent()?;
    for number in 2..NAMES_TRIED_MAX {
        let beside = name.numbered(number);
        if child(tx, parent, beside.as_str())?.is_none() {
            return Ok(folder.join(beside)?);
        }
    }
    refuse(ErrorKind::AlreadyExists, format!("{path} and the names beside it are taken"))
}
