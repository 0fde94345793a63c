//! Uploads under way: a content without references, whose blocks arrive in runs and whose bytes are reserved.

use super::SqliteCatalogue;
use super::blocks::append_run;
use super::codec::{pack_columns, signed};
use super::contents::{self, Row};
use super::fault::{Done, refuse};
use super::sql;
use super::state::SpaceState;
use super::tree_write::missing_is_an_answer;
use super::tx::Tx;
use crate::catalogue::{Missing, NewUpload};
use crate::types::{Pack, StagedRun};
use holdfast_base::limits::FILE_BYTES_MAX;
use holdfast_base::{ContentId, Error, ErrorKind, Result, SpaceId};

/// The tag of a content that is not whole; `seal` never makes it and never accepts it.
const NO_TAG: [u8; 16] = [0; 16];

impl SqliteCatalogue {
    pub(super) async fn begin_upload_op(&self, upload: NewUpload) -> Result<ContentId> {
        self.writer().submit("begin_upload", move |tx| begin(tx, &upload)).await
    }

    pub(super) async fn reserve_more_op(&self, upload: ContentId, bytes: u64) -> Result<()> {
        let work = move |tx: &Tx<'_>| {
            let mut state = SpaceState::load(tx, space_of(tx, upload)?)?;
            check_reservation(bytes)?;
            state.reserved += signed(bytes);
            let sql = "UPDATE upload SET reserved_bytes = reserved_bytes + ?2 WHERE content_id = ?1";
            sql::run(tx, sql, (upload.0, signed(bytes)))?;
            state.save(tx)
        };
        self.writer().submit("reserve_more", work).await
    }

    pub(super) async fn stage_op(&self, upload: ContentId, run: StagedRun) -> Result<std::result::Result<(), Missing>> {
        let work = move |tx: &Tx<'_>| {
            let mut state = SpaceState::load(tx, space_of(tx, upload)?)?;
            let blocks: u64 = sql::only(tx, "SELECT blocks FROM content WHERE id = ?1", [upload.0], |row| row.get(0))?;
            append_run(tx, &mut state, upload.0, blocks, &run)?;
            let sql = "UPDATE content SET blocks = blocks + ?2 WHERE id = ?1";
            sql::run(tx, sql, (upload.0, run.blocks.len()))?;
            state.save(tx).map(Ok)
        };
        self.writer().submit_explained("stage", work, missing_is_an_answer).await
    }

    pub(super) async fn abandon_upload_op(&self, upload: ContentId) -> Result<()> {
        let work = move |tx: &Tx<'_>| {
            space_of(tx, upload)?;
            abandon(tx, upload)
        };
        self.writer().submit("abandon_upload", work).await
    }

    pub(super) async fn recover_op(&self) -> Result<Vec<Pack>> {
        let work = |tx: &Tx<'_>| {
            let left: Vec<i64> = sql::all(tx, "SELECT content_id FROM upload", [], |row| row.get(0))?;
            for upload in left {
                abandon(tx, ContentId(upload))?;
            }
            let sql = concat!("SELECT ", pack_columns!(), " FROM pack WHERE state = 0 ORDER BY id");
            Ok(sql::all(tx, sql, [], super::codec::pack)?)
        };
        self.writer().submit("recover", work).await
    }
}

fn begin(tx: &Tx<'_>, upload: &NewUpload) -> Done<ContentId> {
    let mut state = SpaceState::load(tx, upload.space)?;
    check_reservation(upload.reserve_bytes)?;
    let id = tx.new_id();
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
    let sql = "INSERT INTO upload (content_id, space_id, reserved_bytes, created_ms) VALUES (?1, ?2, ?3, ?4)";
    sql::run(tx, sql, (id, upload.space.0, signed(upload.reserve_bytes), upload.now_ms))?;
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

fn space_of(tx: &Tx<'_>, upload: ContentId) -> Done<SpaceId> {
    let space = sql::first(tx, "SELECT space_id FROM upload WHERE content_id = ?1", [upload.0], |row| row.get(0))?;
    space.map(SpaceId).ok_or_else(|| Error::not_found("the upload is not under way any more").into())
}

/// Gives up an upload: its reservation falls now, its blocks by and by.
pub(super) fn abandon(tx: &Tx<'_>, upload: ContentId) -> Done<()> {
    let sql = "SELECT space_id, reserved_bytes FROM upload WHERE content_id = ?1";
    let row = sql::first(tx, sql, [upload.0], |row| Ok((SpaceId(row.get(0)?), row.get::<_, i64>(1)?)))?;
    let Some((space, reserved)) = row else { return Ok(()) };
    sql::run(tx, "DELETE FROM upload WHERE content_id = ?1", [upload.0])?;
    if let Some(mut state) = SpaceState::find(tx, space)? {
        state.reserved -= reserved;
        state.save(tx)?;
    }
    let blocks = sql::first(tx, "SELECT blocks FROM content WHERE id = ?1", [upload.0], |row| row.get(0))?;
    blocks.map_or(Ok(()), |blocks| contents::discard(tx, upload, blocks))
}
