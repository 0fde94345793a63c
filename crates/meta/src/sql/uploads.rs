//! Uploads under way: a content without references, whose blocks arrive in runs and whose bytes are reserved.

use super::blocks::append_run;
use super::codec::signed;
use super::contents::{self, Row};
use super::engine::{Engine, Ops, Reading, Scope};
use super::fault::{Done, Fault, refuse};
use super::query as sql;
use super::resumable;
use super::seam::Link;
use super::state::SpaceState;
use super::tree_write::missing_is_an_answer;
use super::tx::Tx;
use crate::catalogue::{Missing, NewUpload};
use crate::types::StagedRun;
use holdfast_base::limits::FILE_BYTES_MAX;
use holdfast_base::{ContentId, Error, ErrorKind, Result, SpaceId};

/// The tag of a content that is not whole; `seal` never makes it and never accepts it.
const NO_TAG: [u8; 16] = [0; 16];

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn begin_upload(&self, upload: NewUpload) -> Result<ContentId> {
        self.0.write("begin_upload", Scope::Space(upload.space), move |tx| begin(tx, &upload)).await
    }

    pub(super) async fn reserve_more(&self, upload: ContentId, bytes: u64) -> Result<()> {
        let space = self.space_of(upload).await?;
        let work = move |tx: &Tx<'_>| {
            let mut state = SpaceState::load(tx, space)?;
            still_there(tx, upload)?;
            check_reservation(bytes)?;
            state.reserved += signed(bytes);
            let sql = "UPDATE upload SET reserved_bytes = reserved_bytes + ?2 WHERE content_id = ?1";
            sql::put(tx, sql, (upload.0, signed(bytes)))?;
            state.save(tx)
        };
        self.0.write("reserve_more", Scope::Space(space), work).await
    }

    pub(super) async fn stage(&self, upload: ContentId, run: StagedRun) -> Result<std::result::Result<(), Missing>> {
        let space = self.space_of(upload).await?;
        let work = move |tx: &Tx<'_>| {
            let mut state = SpaceState::load(tx, space)?;
            still_there(tx, upload)?;
            let blocks: u64 = sql::only(tx, "SELECT blocks FROM content WHERE id = ?1", [upload.0], |row| row.get(0))?;
            append_run(tx, &mut state, upload.0, blocks, &run)?;
            let sql = "UPDATE content SET blocks = blocks + ?2 WHERE id = ?1";
            sql::put(tx, sql, (upload.0, super::codec::rows(run.blocks.len())))?;
            state.save(tx).map(Ok)
        };
        self.0.submit("stage", Scope::Space(space), work, missing_is_an_answer).await
    }

    pub(super) async fn abandon_upload(&self, upload: ContentId) -> Result<()> {
        let find = move |link: &dyn Link| match space_of(link, upload) {
            Ok(space) => Ok(Some(space)),
            Err(Fault::Refused(_)) => resumable::space_of(link, upload),
            Err(fault) => Err(fault),
        };
        let space = self.0.read(Reading::Point, find).await?.ok_or_else(gone)?;
        let work = move |tx: &Tx<'_>| {
            tx.lock_space(space)?;
            if resumable::space_of(tx, upload)?.is_none() {
                still_there(tx, upload)?;
            }
            abandon(tx, upload)
        };
        self.0.write("abandon_upload", Scope::Space(space), work).await
    }

    async fn space_of(&self, upload: ContentId) -> Result<SpaceId> {
        self.0.read(Reading::Point, move |link| space_of(link, upload)).await
    }
}

pub(super) fn begin(tx: &Tx<'_>, upload: &NewUpload) -> Done<ContentId> {
    let mut state = SpaceState::load(tx, upload.space)?;
    check_reservation(upload.reserve_bytes)?;
    let id = tx.new_id()?;
    let row = Row {
        size: 0,
        refs: 0,
        block_bytes: upload.block_bytes,
        blocks: 0,
        nonce: &upload.nonce,
        tag: &NO_TAG,
        inline: None,
    };
    contents::insert_row(tx, &state, id, &row)?;
    let sql = "INSERT INTO upload (content_id, space_id, reserved_bytes, created_ms, instance_id) VALUES (?1, ?2, ?3, ?4, ?5)";
    sql::put(tx, sql, (id, upload.space.0, signed(upload.reserve_bytes), upload.now_ms, upload.instance.0))?;
    state.reserved += signed(upload.reserve_bytes);
    state.save(tx)?;
    Ok(ContentId(id))
}

/// A declared length of petabytes must not become a sum that cannot be added to.
fn check_reservation(bytes: u64) -> Done<()> {
    if bytes > FILE_BYTES_MAX {
        return refuse(ErrorKind::TooLarge, "the upload is larger than a file can be");
    }
    Ok(())
}

/// The space of an upload, which never changes.
fn space_of(link: &dyn Link, upload: ContentId) -> Done<SpaceId> {
    let space = sql::first(link, "SELECT space_id FROM upload WHERE content_id = ?1", [upload.0], |row| row.get(0))?;
    space.map(SpaceId).ok_or_else(|| gone().into())
}

pub(super) fn gone() -> Error {
    Error::not_found("the upload is not under way any more")
}

/// What was found before the space was locked may be gone after.
fn still_there(tx: &Tx<'_>, upload: ContentId) -> Done<()> {
    space_of(tx, upload).map(drop)
}

/// Gives up an upload: its reservation falls now, its blocks by and by.
pub(super) fn abandon(tx: &Tx<'_>, upload: ContentId) -> Done<()> {
    resumable::forget(tx, upload)?;
    let sql = "SELECT space_id, reserved_bytes FROM upload WHERE content_id = ?1";
    let row = sql::first(tx, sql, [upload.0], |row| Ok((SpaceId(row.get(0)?), row.get::<i64>(1)?)))?;
    let Some((space, reserved)) = row else { return Ok(()) };
    sql::put(tx, "DELETE FROM upload WHERE content_id = ?1", [upload.0])?;
    if let Some(mut state) = SpaceState::find(tx, space)? {
        state.reserved -= reserved;
        state.save(tx)?;
    }
    let blocks = sql::first(tx, "SELECT blocks FROM content WHERE id = ?1", [upload.0], |row| row.get(0))?;
    blocks.map_or(Ok(()), |blocks| contents::discard(tx, upload, blocks))
}
