//! Uploads that are continued request by request.
//!
//! A resumable upload is a staged upload ([`super::uploads`]) that belongs to no instance: its row in `upload` has the number
//! [`RESUMABLE`], so nobody gives it up with an instance, and what it waits for is its expiry. Its row in `resumable` says what it
//! is to become. What it holds follows from its content's number of blocks and from its tail (`tail`), and both change in one
//! transaction: there is no moment at which it holds anything else than it said.
//!
//! **One writer.** Whoever continues it takes a *claim*, which counts `fence` up; every change names its claim's fence and is refused
//! if another was taken since. So a writer that is cut off without knowing keeps nobody out and breaks nothing.
//!
//! **Room.** What a member declares is reserved. What the visitor of a link declares is only looked at: they could fill the space with
//! words. Theirs takes room as its bytes come, and is over the quota then, or never.
//!
//! How it ends is in [`super::resumable_end`].
//!
//! **Limits.** [`UPLOADS_PER_ACCOUNT_MAX`] unfinished ones of an account, [`UPLOADS_PER_LINK_MAX`] through a link,
//! [`UPLOADS_PER_VISIT_MAX`] of one of its visitors.

use super::blocks::append_run;
use super::codec::{rows, signed};
use super::engine::{Engine, Ops, Reading, Scope};
use super::fault::{Done, refuse};
use super::query as sql;
use super::seam::{Link, Row, Value, damaged};
use super::state::SpaceState;
use super::tree_write::missing_is_an_answer;
use super::tx::Tx;
use super::uploads::{abandon, begin, gone};
use crate::catalogue::{Missing, NewUpload};
use crate::cluster::InstanceId;
use crate::types::{NameTaken, NewResumable, Resumable, StagedRun, Tag, Tail, UploadClaim, tags_of_text, tags_to_text};
use bytes::Bytes;
use holdfast_base::limits::{UPLOADS_PER_ACCOUNT_MAX, UPLOADS_PER_LINK_MAX, UPLOADS_PER_VISIT_MAX};
use holdfast_base::{AccountId, ContentId, DrivePath, ErrorKind, NodeId, Result, SpaceId, Uid};

/// The instance of a resumable upload.
pub(super) const RESUMABLE: i64 = -1;
/// Columns of [`resumable`]. What it stores is counted in blocks, of which the last may be short, and a tail.
const COLUMNS: &str = "resumable.content_id, uid, resumable.space_id, account_id, path, length, conflict, expect_seq, modified_ms, \
    metadata, created_ms, expires_ms, node_id, node_seq, tail_bytes, coalesce(blocks, 0), coalesce(block_bytes, 0), share_id, visit_id";

/// Those whose time is over, or that of what they came in through: nobody can continue them.
const EXPIRED: &str = "(expires_ms <= ?1 OR node_id IS NULL AND share_id <> 0 \
    AND EXISTS (SELECT 1 FROM share WHERE share.id = share_id AND share.expires_ms <= ?1) \
    OR node_id IS NULL AND visit_id <> 0 AND EXISTS (SELECT 1 FROM visit WHERE visit.id = visit_id AND visit.expires_ms <= ?1))";

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn begin_resumable(&self, new: NewResumable) -> Result<ContentId> {
        self.0.write("begin_resumable", Scope::Space(new.space), move |tx| begin_resumable(tx, &new)).await
    }

    pub(super) async fn claim_resumable(
        &self,
        upload: ContentId,
        stored: Option<u64>,
        now_ms: i64,
    ) -> Result<UploadClaim> {
        let space = self.space_of_resumable(upload).await?;
        let work = move |tx: &Tx<'_>| {
            tx.lock_space(space)?;
            claim(tx, upload, stored, now_ms)
        };
        self.0.write("claim_resumable", Scope::Space(space), work).await
    }

    pub(super) async fn advance_resumable(
        &self,
        claim: UploadClaim,
        run: Option<StagedRun>,
        tail: Option<Tail>,
        expires_ms: i64,
    ) -> Result<std::result::Result<(), Missing>> {
        let space = self.space_of_resumable(claim.content).await?;
        let work = move |tx: &Tx<'_>| {
            let mut state = SpaceState::load(tx, space)?;
            advance(tx, &mut state, claim, run.as_ref(), tail.as_ref(), expires_ms)?;
            state.save(tx).map(Ok)
        };
        self.0.submit("advance_resumable", Scope::Space(space), work, missing_is_an_answer).await
    }

    pub(super) async fn expire_resumables(&self, now_ms: i64, limit: usize) -> Result<usize> {
        let expired = move |link: &dyn Link| {
            let sql =
                format!("SELECT content_id, space_id FROM resumable WHERE {EXPIRED} ORDER BY expires_ms LIMIT ?2");
            let read = |row: &Row<'_>| Ok((ContentId(row.get(0)?), SpaceId(row.get(1)?)));
            sql::all(link, &sql, (now_ms, rows(limit)), read)
        };
        let expired = self.0.read(Reading::Point, expired).await?;
        let count = expired.len();
        for (upload, space) in expired {
            let work = move |tx: &Tx<'_>| {
                tx.lock_space(space)?;
                // It may have gone on meanwhile.
                let sql = format!("SELECT 1 FROM resumable WHERE content_id = ?2 AND {EXPIRED}");
                match sql::first(tx, &sql, (now_ms, upload.0), |_| Ok(()))? {
                    Some(()) => abandon(tx, upload),
                    None => Ok(()),
                }
            };
            self.0.write("expire_resumables", Scope::Space(space), work).await?;
        }
        Ok(count)
    }

    pub(super) async fn space_of_resumable(&self, upload: ContentId) -> Result<SpaceId> {
        self.0.read(Reading::Point, move |link| space_of(link, upload)).await?.ok_or_else(gone)
    }
}

/// The space of a resumable upload, which never changes.
pub(super) fn space_of(link: &dyn Link, upload: ContentId) -> Done<Option<SpaceId>> {
    let sql = "SELECT space_id FROM resumable WHERE content_id = ?1";
    sql::first(link, sql, [upload.0], |row| Ok(SpaceId(row.get(0)?)))
}

/// See [`crate::Catalogue::resumable`].
pub(super) fn find(link: &dyn Link, uid: Uid, now_ms: i64) -> Done<Option<Resumable>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM resumable LEFT JOIN content ON content.id = content_id WHERE uid = ?1 AND expires_ms > ?2"
    );
    sql::first(link, &sql, (&uid.0, now_ms), resumable)
}

/// See [`crate::Catalogue::resumables_of`].
pub(super) fn of_account(
    link: &dyn Link,
    (account, visit): (AccountId, i64),
    now_ms: i64,
    limit: usize,
) -> Done<Vec<Resumable>> {
    let columns = COLUMNS.replace("metadata", "''");
    let sql = format!(
        "SELECT {columns} FROM resumable LEFT JOIN content ON content.id = content_id \
         WHERE account_id = ?1 AND expires_ms > ?2 AND node_id IS NULL AND visit_id = ?4 ORDER BY content_id LIMIT ?3"
    );
    sql::all(link, &sql, (account.0, now_ms, rows(limit), visit), resumable)
}

/// See [`crate::Catalogue::resumable_tail`].
pub(super) fn tail(link: &dyn Link, upload: ContentId) -> Done<Option<Tail>> {
    let sql = "SELECT tail_bytes, tag, sealed FROM tail JOIN resumable ON resumable.content_id = tail.content_id \
               WHERE tail.content_id = ?1";
    sql::first(link, sql, [upload.0], |row| {
        Ok(Tail { bytes: row.get(0)?, tag: row.get(1)?, sealed: Bytes::from(row.get::<Vec<u8>>(2)?) })
    })
}

fn resumable(row: &Row<'_>) -> Done<Resumable> {
    let length: u64 = row.get(5)?;
    let node = row.get::<Option<i64>>(12)?.map(NodeId).zip(row.get::<Option<i64>>(13)?);
    let (tail_bytes, blocks, block_bytes): (u64, u64, u64) = (row.get(14)?, row.get(15)?, row.get(16)?);
    Ok(Resumable {
        content: ContentId(row.get(0)?),
        uid: Uid(row.get(1)?),
        space: SpaceId(row.get(2)?),
        account: AccountId(row.get(3)?),
        share: row.get(17)?,
        visit: row.get(18)?,
        path: DrivePath::parse(&row.get::<String>(4)?)?,
        length,
        stored: if node.is_some() { length } else { stored(length, blocks, block_bytes, tail_bytes) },
        name_taken: match row.get::<i64>(6)? {
            0 => NameTaken::Fail,
            1 => NameTaken::Replace,
            2 => NameTaken::KeepBoth,
            other => return Err(damaged(format!("{other} is no rule for a taken name")).into()),
        },
        expect_seq: row.get(7)?,
        modified_ms: row.get(8)?,
        metadata: row.get(9)?,
        created_ms: row.get(10)?,
        expires_ms: row.get(11)?,
        node,
    })
}

/// Bytes in so many blocks, of which the last of all may be short, and a tail.
fn stored(length: u64, blocks: u64, block_bytes: u64, tail_bytes: u64) -> u64 {
    blocks.saturating_mul(block_bytes).min(length).saturating_add(tail_bytes)
}

const fn number(name_taken: NameTaken) -> i64 {
    match name_taken {
        NameTaken::Fail => 0,
        NameTaken::Replace => 1,
        NameTaken::KeepBoth => 2,
    }
}

fn begin_resumable(tx: &Tx<'_>, new: &NewResumable) -> Done<ContentId> {
    refuse_too_many(tx, new)?;
    let staged = NewUpload {
        space: new.space,
        instance: InstanceId(RESUMABLE),
        reserve_bytes: if new.visit == 0 { new.length } else { 0 },
        block_bytes: new.block_bytes,
        nonce: new.nonce,
        now_ms: new.now_ms,
    };
    let content = begin(tx, &staged)?;
    if new.visit != 0 {
        let mut state = SpaceState::load(tx, new.space)?;
        state.reserved = state.reserved.saturating_add(signed(new.length));
        // Refused if there is no room for it now; and not saved, so not taken either.
        state.admit(tx)?;
    }
    let sql = "INSERT INTO resumable (content_id, uid, space_id, account_id, path, length, conflict, expect_seq, modified_ms, \
               metadata, created_ms, expires_ms, fence, tail_bytes, share_id, visit_id) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, 0, 0, ?13, ?14)";
    let path = new.path.to_string();
    let number_or_none = |number: Option<i64>| number.map_or(Value::Null, Value::Integer);
    let values = [
        Value::Integer(content.0),
        Value::Blob(&new.uid.0),
        Value::Integer(new.space.0),
        Value::Integer(new.account.0),
        Value::Text(&path),
        Value::Integer(signed(new.length)),
        Value::Integer(number(new.name_taken)),
        number_or_none(new.expect_seq),
        number_or_none(new.modified_ms),
        Value::Text(&new.metadata),
        Value::Integer(new.now_ms),
        Value::Integer(new.expires_ms),
        Value::Integer(new.share),
        Value::Integer(new.visit),
    ];
    tx.put(sql, &values)?;
    if !new.tags.is_empty() {
        let sql = "INSERT INTO resumable_tags (content_id, tags) VALUES (?1, ?2)";
        sql::put(tx, sql, (content.0, tags_to_text(&new.tags)))?;
    }
    Ok(content)
}

/// Tags that an upload's file is to have.
pub(super) fn tags(link: &dyn Link, upload: ContentId) -> Done<Vec<Tag>> {
    let sql = "SELECT tags FROM resumable_tags WHERE content_id = ?1";
    let text: Option<String> = sql::first(link, sql, [upload.0], |row| row.get(0))?;
    Ok(tags_of_text(&text.unwrap_or_default())?)
}

/// Refuses more unfinished uploads than there may be.
fn refuse_too_many(tx: &Tx<'_>, new: &NewResumable) -> Done<()> {
    let count = |which: &str, id: i64| -> Done<usize> {
        let sql = format!("SELECT count(*) FROM resumable WHERE {which} = ?1 AND node_id IS NULL");
        sql::only(tx, &sql, [id], |row| row.get(0))
    };
    let (whose, too_many) = if new.visit == 0 {
        ("of this account", count("visit_id = 0 AND account_id", new.account.0)? >= UPLOADS_PER_ACCOUNT_MAX)
    } else {
        let of_visit = count("visit_id", new.visit)? >= UPLOADS_PER_VISIT_MAX;
        ("through this link", of_visit || count("visit_id <> 0 AND share_id", new.share)? >= UPLOADS_PER_LINK_MAX)
    };
    if too_many {
        let kind = ErrorKind::TooManyRequests { retry_after_s: 60 };
        return refuse(kind, format!("too many uploads {whose} are unfinished: finish some, or give them up"));
    }
    Ok(())
}

fn claim(tx: &Tx<'_>, upload: ContentId, from: Option<u64>, now_ms: i64) -> Done<UploadClaim> {
    let sql = "SELECT length, fence, tail_bytes, blocks, block_bytes, nonce FROM resumable JOIN content ON content.id = content_id \
               WHERE content_id = ?1 AND expires_ms > ?2 AND node_id IS NULL";
    let found = sql::first(tx, sql, (upload.0, now_ms), |row| {
        let claim = UploadClaim {
            content: upload,
            fence: row.get::<i64>(1)? + 1,
            tail_bytes: row.get(2)?,
            blocks: row.get(3)?,
            nonce: row.get(5)?,
        };
        Ok((claim, stored(row.get(0)?, claim.blocks, row.get(4)?, claim.tail_bytes.into())))
    })?;
    let (claim, stored) = found.ok_or_else(gone)?;
    if from.is_some_and(|from| from != stored) {
        return refuse(ErrorKind::Conflict, "the upload has gone on meanwhile: ask where it stands");
    }
    sql::put(tx, "UPDATE resumable SET fence = ?2 WHERE content_id = ?1", (upload.0, claim.fence))?;
    Ok(claim)
}

/// What an upload was created for, to whoever holds the claim.
pub(super) struct Purpose {
    pub(super) path: DrivePath,
    pub(super) length: u64,
    pub(super) name_taken: NameTaken,
    pub(super) expect_seq: Option<i64>,
    pub(super) modified_ms: Option<i64>,
    /// Whether it takes room as its bytes come.
    of_visit: bool,
    blocks: u64,
    block_bytes: u64,
}

pub(super) fn purpose(tx: &Tx<'_>, claim: UploadClaim) -> Done<Purpose> {
    let sql = format!(
        "SELECT {COLUMNS}, fence FROM resumable LEFT JOIN content ON content.id = content_id \
         WHERE content_id = ?1 AND node_id IS NULL"
    );
    let found = sql::first(tx, &sql, [claim.content.0], |row| {
        let (blocks, block_bytes, fence): (u64, u64, i64) = (row.get(15)?, row.get(16)?, row.get(19)?);
        Ok((resumable(row)?, blocks, block_bytes, fence))
    })?;
    let (found, blocks, block_bytes, fence) = found.ok_or_else(gone)?;
    if fence != claim.fence {
        return refuse(ErrorKind::Conflict, "another request continues this upload");
    }
    let Resumable { path, length, name_taken, expect_seq, modified_ms, visit, .. } = found;
    Ok(Purpose { path, length, name_taken, expect_seq, modified_ms, of_visit: visit != 0, blocks, block_bytes })
}

fn advance(
    tx: &Tx<'_>,
    state: &mut SpaceState,
    claim: UploadClaim,
    run: Option<&StagedRun>,
    tail: Option<&Tail>,
    expires_ms: i64,
) -> Done<()> {
    let Purpose { length, of_visit, blocks, block_bytes, .. } = purpose(tx, claim)?;
    let upload = claim.content.0;
    let added = run.map_or(0, |run| run.blocks.len() as u64);
    let tail_bytes = tail.map_or(0, |tail| u64::from(tail.bytes));
    // The last block may be short, and only of the whole.
    let (in_blocks, all) = ((blocks + added).saturating_mul(block_bytes), length.div_ceil(block_bytes.max(1)));
    if blocks + added > all || tail_bytes > block_bytes || in_blocks.min(length) + tail_bytes > length {
        return refuse(ErrorKind::InvalidInput, "the upload would be longer than it was declared");
    }
    if of_visit {
        take_room(tx, state, upload, in_blocks.min(length) + tail_bytes)?;
    }
    if let Some(run) = run {
        append_run(tx, state, upload, blocks, run)?;
        sql::put(tx, "UPDATE content SET blocks = blocks + ?2 WHERE id = ?1", (upload, signed(added)))?;
    }
    if let Some(tail) = tail {
        let sql = "INSERT INTO tail (content_id, tag, sealed) VALUES (?1, ?2, ?3) \
                   ON CONFLICT (content_id) DO UPDATE SET tag = excluded.tag, sealed = excluded.sealed";
        sql::put(tx, sql, (upload, &tail.tag, &tail.sealed[..]))?;
    } else {
        sql::put(tx, "DELETE FROM tail WHERE content_id = ?1", [upload])?;
    }
    let sql = "UPDATE resumable SET tail_bytes = ?2, expires_ms = ?3 WHERE content_id = ?1";
    sql::put(tx, sql, (upload, signed(tail_bytes), expires_ms))
}

/// Reserves what an upload holds, which the caller's `save` tests.
fn take_room(tx: &Tx<'_>, state: &mut SpaceState, upload: i64, bytes: u64) -> Done<()> {
    let reserved: i64 =
        sql::only(tx, "SELECT reserved_bytes FROM upload WHERE content_id = ?1", [upload], |row| row.get(0))?;
    let more = signed(bytes).saturating_sub(reserved).max(0);
    state.reserved += more;
    sql::put(tx, "UPDATE upload SET reserved_bytes = reserved_bytes + ?2 WHERE content_id = ?1", (upload, more))
}

/// Forgets what makes an upload a resumable one.
pub(super) fn forget(tx: &Tx<'_>, upload: ContentId) -> Done<()> {
    sql::put(tx, "DELETE FROM tail WHERE content_id = ?1", [upload.0])?;
    sql::put(tx, "DELETE FROM resumable_tags WHERE content_id = ?1", [upload.0])?;
    sql::put(tx, "DELETE FROM resumable WHERE content_id = ?1", [upload.0])
}

/// Gives up all uploads of an account, to all spaces or to one.
pub(super) fn abandon_all(tx: &Tx<'_>, of: Option<SpaceId>, account: AccountId) -> Done<()> {
    let sql = "SELECT space_id, content_id FROM resumable WHERE account_id = ?1 ORDER BY space_id, content_id";
    let all: Vec<(i64, i64)> = sql::all(tx, sql, [account.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (space, upload) in all.into_iter().filter(|(space, _)| of.is_none_or(|of| of.0 == *space)) {
        tx.lock_space(SpaceId(space))?;
        abandon(tx, ContentId(upload))?;
    }
    Ok(())
}
