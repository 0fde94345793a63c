//! Contents: the bytes of one or more file versions, kept as long as a node or a version refers to them.

use super::blocks::append_run;
use super::codec::signed;
use super::fault::{Done, Fault, refuse};
use super::query as sql;
use super::seam::{Link, Value};
use super::state::SpaceState;
use super::tx::Tx;
use crate::types::{NewContent, StagedRun};
use holdfast_base::limits::{BLOCK_BYTES_MAX, FILE_BYTES_MAX};
use holdfast_base::{ContentId, Error, ErrorKind};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A content that is about to be referred to by one node or version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bytes {
    pub(super) content: Option<ContentId>,
    pub(super) size: u64,
}

impl Bytes {
    /// No bytes at all.
    pub(super) const EMPTY: Self = Self { content: None, size: 0 };
}

/// Makes the content's row with one reference on it, which the caller's node takes.
pub(super) fn insert(tx: &Tx<'_>, space: &mut SpaceState, new: &NewContent) -> Done<Bytes> {
    match new {
        NewContent::Empty => Ok(Bytes::EMPTY),
        NewContent::Inline { .. } | NewContent::Blocks { .. } => insert_as(tx, space, new, ContentId(tx.new_id()?)),
        NewContent::Staged { content, size, tag } => finish_upload(tx, space, *content, *size, tag),
    }
}

/// The same for a content that is not staged, by a number that was reserved for it.
pub(super) fn insert_as(tx: &Tx<'_>, space: &mut SpaceState, new: &NewContent, id: ContentId) -> Done<Bytes> {
    match new {
        NewContent::Empty => Ok(Bytes::EMPTY),
        NewContent::Inline { size, nonce, tag, sealed } => {
            let row = Row { size: *size, refs: 1, block_bytes: 0, blocks: 0, nonce, tag, inline: Some(sealed) };
            insert_row(tx, space, id.0, &row)?;
            Ok(Bytes { content: Some(id), size: *size })
        }
        NewContent::Blocks { size, block_bytes, nonce, tag, runs } => {
            let blocks = append_all(tx, space, id.0, runs)?;
            check_size(*size, blocks, *block_bytes)?;
            let row = Row { size: *size, refs: 1, block_bytes: *block_bytes, blocks, nonce, tag, inline: None };
            insert_row(tx, space, id.0, &row)?;
            Ok(Bytes { content: Some(id), size: *size })
        }
        NewContent::Staged { .. } => refuse(ErrorKind::InvalidInput, "what was staged has its number already"),
    }
}

/// Appends every run. The answer to a claim that does not hold names every such claim, not only those of the first run.
fn append_all(tx: &Tx<'_>, space: &mut SpaceState, content: i64, runs: &[StagedRun]) -> Done<u64> {
    let mut blocks = 0;
    for (index, run) in runs.iter().enumerate() {
        match append_run(tx, space, content, blocks, run) {
            Ok(()) => blocks += run.blocks.len() as u64,
            Err(Fault::Missing(mut missing)) => {
                missing.0.extend(claims_that_fail(tx, space, &runs[index + 1..])?);
                return Err(Fault::Missing(missing));
            }
            Err(fault) => return Err(fault),
        }
    }
    Ok(blocks)
}

fn claims_that_fail(tx: &Tx<'_>, space: &SpaceState, runs: &[StagedRun]) -> Done<Vec<(u64, usize)>> {
    let mut missing = Vec::new();
    for run in runs {
        for (index, block) in run.blocks.iter().enumerate().filter(|(_, block)| block.written.is_none()) {
            let sql = "SELECT 1 FROM block WHERE space_id = ?1 AND id = ?2";
            if sql::first(tx, sql, (space.id.0, &block.id.0), |_| Ok(()))?.is_none() {
                missing.push((run.chunk, run.first + index));
            }
        }
    }
    Ok(missing)
}

/// The columns of a content row that differ.
pub(super) struct Row<'r> {
    pub(super) size: u64,
    pub(super) refs: i64,
    pub(super) block_bytes: u32,
    pub(super) blocks: u64,
    pub(super) nonce: &'r [u8; 16],
    pub(super) tag: &'r [u8; 16],
    pub(super) inline: Option<&'r [u8]>,
}

pub(super) fn insert_row(tx: &Tx<'_>, space: &SpaceState, id: i64, row: &Row<'_>) -> Done<()> {
    check_block_bytes(row.block_bytes)?;
    let sql = "INSERT INTO content (id, space_id, refs, size, block_bytes, blocks, nonce, tag, inline) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    let values = (
        id,
        space.id.0,
        row.refs,
        signed(row.size),
        row.block_bytes,
        signed(row.blocks),
        row.nonce,
        row.tag,
        row.inline,
    );
    sql::put(tx, sql, values)
}

fn check_block_bytes(block_bytes: u32) -> Done<()> {
    if block_bytes as usize > BLOCK_BYTES_MAX {
        return refuse(ErrorKind::TooLarge, "the blocks of this content are larger than any reader accepts");
    }
    Ok(())
}

/// A size that does not follow from the number of blocks would make a file that cannot be read.
fn check_size(size: u64, blocks: u64, block_bytes: u32) -> Done<()> {
    if size > FILE_BYTES_MAX {
        return refuse(ErrorKind::TooLarge, "the file is larger than a file can be");
    }
    if size == 0 || block_bytes == 0 || size.div_ceil(u64::from(block_bytes)) != blocks {
        return refuse(ErrorKind::InvalidInput, "the size of the content does not match its blocks");
    }
    Ok(())
}

/// Ends an upload: its reservation falls and its content gets its size and first reference.
fn finish_upload(tx: &Tx<'_>, space: &mut SpaceState, content: ContentId, size: u64, tag: &[u8; 16]) -> Done<Bytes> {
    let reserved = take_upload(tx, space, content)?;
    space.reserved -= reserved;
    let sql = "SELECT blocks, block_bytes FROM content WHERE id = ?1";
    let (blocks, block_bytes) = sql::only(tx, sql, [content.0], |row| Ok((row.get::<u64>(0)?, row.get(1)?)))?;
    if blocks == 0 && size == 0 {
        sql::put(tx, "DELETE FROM content WHERE id = ?1", [content.0])?;
        return Ok(Bytes::EMPTY);
    }
    check_size(size, blocks, block_bytes)?;
    sql::put(tx, "UPDATE content SET refs = 1, size = ?2, tag = ?3 WHERE id = ?1", (content.0, signed(size), tag))?;
    Ok(Bytes { content: Some(content), size })
}

/// Removes an upload's row and answers what it had reserved; `NotFound` if it is not under way in this space.
pub(super) fn take_upload(tx: &Tx<'_>, space: &SpaceState, content: ContentId) -> Done<i64> {
    let sql = "SELECT reserved_bytes FROM upload WHERE content_id = ?1 AND space_id = ?2";
    let reserved = sql::first(tx, sql, (content.0, space.id.0), |row| row.get(0))?;
    let reserved = reserved.ok_or_else(|| Error::not_found("the upload is not under way any more"))?;
    sql::put(tx, "DELETE FROM upload WHERE content_id = ?1", [content.0])?;
    Ok(reserved)
}

/// Contents of one statement of [`add_refs`].
const TOGETHER: usize = 64;

/// Takes one more reference on each (copies), as often as it is named.
pub(super) fn add_refs(tx: &Tx<'_>, contents: impl Iterator<Item = ContentId>) -> Done<()> {
    static MANY: LazyLock<String> = LazyLock::new(|| {
        let rows: Vec<String> = (0..TOGETHER)
            .map(|row| format!("(CAST(?{} AS BIGINT), CAST(?{} AS BIGINT))", 2 * row + 1, 2 * row + 2))
            .collect();
        format!(
            "WITH named (id, times) AS (VALUES {}) UPDATE content SET refs = refs + named.times FROM named \
             WHERE content.id = named.id",
            rows.join(", ")
        )
    });
    let mut named = BTreeMap::new();
    for content in contents {
        *named.entry(content.0).or_insert(0) += 1;
    }
    let named: Vec<[Value<'_>; 2]> =
        named.into_iter().map(|(id, times)| [Value::Integer(id), Value::Integer(times)]).collect();
    let (many, rest) = named.as_chunks::<TOGETHER>();
    let together = tx.run_many(&MANY, 2 * TOGETHER, many.as_flattened().as_flattened())?;
    let alone = tx.run_many("UPDATE content SET refs = refs + ?2 WHERE id = ?1", 2, rest.as_flattened())?;
    if together.iter().any(|count| *count != TOGETHER) || alone.contains(&0) {
        return Err(Error::damaged("a file's content is missing from the catalogue; run holdfast check").into());
    }
    Ok(())
}

/// Gives one reference back on each. The last one removes inline content at once and queues a manifest for release.
pub(super) fn release(tx: &Tx<'_>, contents: impl IntoIterator<Item = ContentId>) -> Done<()> {
    let ids: Vec<Value<'_>> = contents.into_iter().map(|content| Value::Integer(content.0)).collect();
    let unwanted = unchanged(tx, "UPDATE content SET refs = refs - 1 WHERE id = ?1 AND refs > 1", &ids)?;
    let large = unchanged(tx, "DELETE FROM content WHERE id = ?1 AND blocks = 0", &unwanted)?;
    for id in large {
        sql::put(tx, "UPDATE content SET refs = 0 WHERE id = ?1", [id])?;
        let sql = "INSERT INTO spent (content_id) SELECT id FROM content WHERE id = ?1 ON CONFLICT DO NOTHING";
        sql::put(tx, sql, [id])?;
    }
    Ok(())
}

/// Runs a statement for each id and answers those for which it changed nothing.
fn unchanged<'v>(tx: &Tx<'_>, sql: &str, ids: &[Value<'v>]) -> Done<Vec<Value<'v>>> {
    let counts = tx.run_many(sql, 1, ids)?;
    Ok(ids.iter().zip(counts).filter(|(_, count)| *count == 0).map(|(id, _)| *id).collect())
}

/// Removes a content nobody refers to: now, or by and by if it has a manifest.
pub(super) fn discard(tx: &Tx<'_>, content: ContentId, blocks: i64) -> Done<()> {
    if blocks == 0 {
        sql::put(tx, "DELETE FROM content WHERE id = ?1", [content.0])?;
    } else {
        sql::put(tx, "UPDATE content SET refs = 0 WHERE id = ?1", [content.0])?;
        sql::put(tx, "INSERT INTO spent (content_id) VALUES (?1) ON CONFLICT DO NOTHING", [content.0])?;
    }
    Ok(())
}
