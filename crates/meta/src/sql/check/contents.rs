//! Contents: referred to as often as they say, of the size their files say, and none that nothing wants.
//!
//! References are counted in a vector over a range of ids, one pass over nodes and versions for each range.

use super::Checker;
use crate::sql::fault::Done;
use crate::sql::query as sql;
use crate::sql::uploads::abandon;
use holdfast_base::ContentId;
use std::ops::Range;

/// Ids counted in one pass: 32 MiB of counters.
const PASS_IDS: i64 = 8 << 20;

pub(super) fn check(checker: &mut Checker<'_>) -> Done<()> {
    let end = checker.ids_end()?;
    let mut start = 0;
    while start < end {
        references(checker, start..start.saturating_add(PASS_IDS).min(end))?;
        start = start.saturating_add(PASS_IDS);
    }
    sizes(checker)?;
    uploads(checker)
}

/// A content whose count is wrong.
struct Wrong {
    id: i64,
    refs: i64,
    counted: u32,
    blocks: i64,
    upload: bool,
    spent: bool,
}

fn references(checker: &mut Checker<'_>, range: Range<i64>) -> Done<()> {
    let place = |id: i64| usize::try_from(id - range.start).unwrap_or(usize::MAX);
    let mut counts = vec![0u32; place(range.end)];
    let sql = "SELECT content_id FROM node WHERE content_id >= ?1 AND content_id < ?2 \
               UNION ALL SELECT content_id FROM version WHERE content_id >= ?1 AND content_id < ?2";
    checker.each(sql, (range.start, range.end), |row| {
        if let Some(count) = counts.get_mut(place(row.get(0)?)) {
            *count = count.saturating_add(1);
        }
        Ok(())
    })?;
    let mut wrong = Vec::new();
    let sql = "SELECT id, refs, blocks, EXISTS (SELECT 1 FROM upload WHERE content_id = id), \
               EXISTS (SELECT 1 FROM spent WHERE content_id = id) FROM content WHERE id >= ?1 AND id < ?2";
    checker.each(sql, (range.start, range.end), |row| {
        let (id, refs): (i64, i64) = (row.get(0)?, row.get(1)?);
        let counted = counts.get_mut(place(id)).map_or(0, std::mem::take);
        let (upload, spent): (bool, bool) = (row.get(3)?, row.get(4)?);
        let wanted = counted > 0 || upload || spent;
        if refs != i64::from(counted) || !wanted || (spent && counted > 0) {
            wrong.push(Wrong { id, refs, counted, blocks: row.get(2)?, upload, spent });
        }
        Ok(())
    })?;
    for content in wrong {
        repair(checker, &content)?;
    }
    let missing = counts.iter().zip(range).filter(|(count, _)| **count > 0).map(|(_, id)| id);
    for id in missing.take(super::FINDINGS_MAX) {
        lost(checker, id)?;
    }
    Ok(())
}

fn repair(checker: &mut Checker<'_>, content: &Wrong) -> Done<()> {
    let Wrong { id, refs, counted, .. } = *content;
    let (code, message) = if refs == 0 && counted == 0 {
        ("content-orphan", format!("content {id} belongs to no file"))
    } else {
        ("content-refs", format!("content {id} counts {refs} references; there are {counted}"))
    };
    let Some(tx) = checker.mender else {
        checker.found(code, message, false, None);
        return Ok(());
    };
    sql::put(tx, "UPDATE content SET refs = ?2 WHERE id = ?1", (id, counted))?;
    let mut repaired = format!("set the count to {counted}");
    if counted > 0 && content.spent {
        sql::put(tx, "DELETE FROM spent WHERE content_id = ?1", [id])?;
    }
    if counted == 0 && !content.upload {
        if content.blocks == 0 {
            sql::put(tx, "DELETE FROM content WHERE id = ?1", [id])?;
        } else {
            sql::put(tx, "INSERT INTO spent (content_id) VALUES (?1) ON CONFLICT DO NOTHING", [id])?;
        }
        "removed it".clone_into(&mut repaired);
    }
    checker.found(code, message, false, Some(repaired));
    Ok(())
}

/// A file whose content is not there.
fn lost(checker: &mut Checker<'_>, id: i64) -> Done<()> {
    let nodes: Vec<(i64, String)> =
        checker.rows("SELECT id, name FROM node WHERE content_id = ?1 LIMIT 3", [id], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    let names: Vec<String> = nodes.iter().map(|(node, name)| format!("{name:?} (node {node})")).collect();
    let whose = if names.is_empty() { "old versions".to_owned() } else { names.join(", ") };
    checker.found("content-missing", format!("content {id} is missing; it belongs to {whose}"), true, None);
    Ok(())
}

fn sizes(checker: &mut Checker<'_>) -> Done<()> {
    let sql = "SELECT node.id, node.size, content.size FROM node JOIN content ON content.id = content_id \
               WHERE node.size <> content.size \
               UNION ALL SELECT id, size, 0 FROM node WHERE content_id IS NULL AND size <> 0";
    let wrong: Vec<(i64, i64, i64)> = checker.rows(sql, (), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    for (node, says, is) in wrong {
        let sql = "UPDATE node SET size = ?2 WHERE id = ?1";
        let message = format!("node {node} says it has {says} bytes; its content has {is}");
        checker.mend("node-size", message, false, sql, (node, is), "took the content's size")?;
    }
    let sql = "SELECT node_id, seq, version.size, content.size FROM version JOIN content ON content.id = content_id \
               WHERE version.size <> content.size";
    let wrong: Vec<(i64, i64, i64, i64)> =
        checker.rows(sql, (), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    for (node, seq, says, is) in wrong {
        let sql = "UPDATE version SET size = ?3 WHERE node_id = ?1 AND seq = ?2";
        let message = format!("version {seq} of node {node} says it has {says} bytes; its content has {is}");
        checker.mend("version-size", message, false, sql, (node, seq, is), "took the content's size")?;
    }
    Ok(())
}

fn uploads(checker: &mut Checker<'_>) -> Done<()> {
    let sql = "SELECT content_id FROM upload WHERE NOT EXISTS (SELECT 1 FROM content WHERE id = content_id)";
    for upload in checker.ids(sql)? {
        let sql = "DELETE FROM upload WHERE content_id = ?1";
        let message = format!("upload {upload} has no content");
        checker.mend("upload-orphan", message, false, sql, [upload], "gave it up")?;
    }
    let sql = "SELECT content_id FROM upload WHERE instance_id = -1 \
               AND NOT EXISTS (SELECT 1 FROM resumable WHERE resumable.content_id = upload.content_id)";
    for upload in checker.ids(sql)? {
        let message = format!("upload {upload} can be continued by nobody");
        give_up(checker, "upload-orphan", message, upload)?;
    }
    resumables(checker)
}

/// Resumable uploads have what they say, and nothing has what is none.
fn resumables(checker: &mut Checker<'_>) -> Done<()> {
    let sql = "SELECT content_id FROM resumable WHERE node_id IS NULL \
               AND NOT EXISTS (SELECT 1 FROM upload WHERE upload.content_id = resumable.content_id)";
    for upload in checker.ids(sql)? {
        let message = format!("resumable upload {upload} is not under way and not finished");
        give_up(checker, "resumable-orphan", message, upload)?;
    }
    let sql = "SELECT content_id FROM tail \
               WHERE NOT EXISTS (SELECT 1 FROM resumable WHERE resumable.content_id = tail.content_id AND tail_bytes > 0)";
    for upload in checker.ids(sql)? {
        let sql = "DELETE FROM tail WHERE content_id = ?1";
        let message = format!("a tail belongs to upload {upload}, which has none");
        checker.mend("tail-orphan", message, false, sql, [upload], "removed it")?;
    }
    let sql = "SELECT content_id FROM resumable WHERE tail_bytes > 0 \
               AND NOT EXISTS (SELECT 1 FROM tail WHERE tail.content_id = resumable.content_id)";
    for upload in checker.ids(sql)? {
        let message = format!("resumable upload {upload} has lost what came after its last full block");
        checker.found("tail-missing", message, true, None);
    }
    Ok(())
}

fn give_up(checker: &mut Checker<'_>, code: &str, message: String, upload: i64) -> Done<()> {
    let repaired = match checker.mender {
        Some(tx) => {
            abandon(tx, ContentId(upload))?;
            Some("gave it up".to_owned())
        }
        None => None,
    };
    checker.found(code, message, false, repaired);
    Ok(())
}
