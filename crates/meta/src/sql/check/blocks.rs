//! Blocks: referred to as often as they say, each in a pack, and no two in the same place.
//!
//! References are counted in a map over a range of block ids (ids are evenly spread, being hashes), one pass over all
//! manifests for each range.

use super::Checker;
use crate::sql::fault::Done;
use crate::sql::query as sql;
use crate::sql::seam::Value;
use holdfast_base::BlockId;
use std::collections::HashMap;

/// Blocks counted in one pass: some 40 MiB of map.
const PASS_BLOCKS: i64 = 512 << 10;

/// Passes at most: ranges are cut at the first byte of the id.
const PASSES_MAX: i64 = 256;

type Key = (i64, [u8; BlockId::BYTES]);

pub(super) fn check(checker: &mut Checker<'_>) -> Done<()> {
    let total = checker.ids("SELECT count(*) FROM block")?.first().copied().unwrap_or(0);
    let passes = (total / PASS_BLOCKS + 1).min(PASSES_MAX);
    for pass in 0..passes {
        let cut = |at: i64| u16::try_from(at * PASSES_MAX / passes).unwrap_or(u16::MAX);
        references(checker, cut(pass)..cut(pass + 1))?;
    }
    places(checker)
}

fn references(checker: &mut Checker<'_>, range: std::ops::Range<u16>) -> Done<()> {
    let mut counts: HashMap<Key, u32> = HashMap::new();
    let sql = "SELECT space_id, manifest.blocks FROM manifest JOIN content ON id = content_id";
    checker.each(sql, (), |row| {
        let space = row.get(0)?;
        let Value::Blob(blocks) = row.value(1)? else { return Ok(()) };
        let (ids, _) = blocks.as_chunks::<{ BlockId::BYTES }>();
        for id in ids.iter().filter(|id| range.contains(&u16::from(id[0]))) {
            *counts.entry((space, *id)).or_default() += 1;
        }
        Ok(())
    })?;
    let mut wrong: Vec<(Key, i64, u32)> = Vec::new();
    checker.each("SELECT space_id, id, refs FROM block", (), |row| {
        let key: Key = (row.get(0)?, row.get(1)?);
        if range.contains(&u16::from(key.1[0])) {
            let (refs, counted) = (row.get(2)?, counts.remove(&key).unwrap_or(0));
            if refs != i64::from(counted) {
                wrong.push((key, refs, counted));
            }
        }
        Ok(())
    })?;
    for ((space, id), refs, counted) in wrong {
        let name = BlockId(id);
        if counted == 0 {
            let sql = "DELETE FROM block WHERE space_id = ?1 AND id = ?2";
            let message = format!("block {name} of space {space} belongs to no file");
            checker.mend("block-orphan", message, false, sql, (space, id), "removed it")?;
        } else {
            let sql = "UPDATE block SET refs = ?3 WHERE space_id = ?1 AND id = ?2";
            let message = format!("block {name} of space {space} counts {refs} references; there are {counted}");
            checker.mend("block-refs", message, false, sql, (space, id, counted), "set the count right")?;
        }
    }
    let mut lost: Vec<(Key, u32)> = counts.into_iter().collect();
    lost.sort_unstable();
    for ((space, id), count) in lost.into_iter().take(super::FINDINGS_MAX) {
        let name = BlockId(id);
        let message = format!("block {name} of space {space} is missing; {count} places of files need it");
        checker.found("block-missing", message, true, None);
    }
    Ok(())
}

/// Packs of blocks exist and are not dead, and blocks do not overlap.
fn places(checker: &mut Checker<'_>) -> Done<()> {
    let sql = "SELECT DISTINCT pack_id FROM block WHERE NOT EXISTS (SELECT 1 FROM pack WHERE pack.id = pack_id)";
    for pack in checker.ids(sql)? {
        checker.found("block-pack", format!("blocks lie in pack {pack}, which does not exist"), true, None);
    }
    let sql = "SELECT id FROM pack WHERE state = 2 AND EXISTS (SELECT 1 FROM block WHERE pack_id = pack.id)";
    for pack in checker.ids(sql)? {
        let sql = "UPDATE pack SET state = 1 WHERE id = ?1";
        let message = format!("pack {pack} is marked dead, but blocks lie in it");
        checker.mend("pack-dead", message, false, sql, [pack], "marked it sealed")?;
    }
    let mut last = (i64::MIN, 0i64);
    let mut overlaps = Vec::new();
    checker.each("SELECT pack_id, \"offset\", sealed_bytes FROM block ORDER BY pack_id, \"offset\"", (), |row| {
        let (pack, offset, bytes): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if pack == last.0 && offset < last.1 && overlaps.len() < super::FINDINGS_MAX {
            overlaps.push((pack, offset));
        }
        last = (pack, offset.saturating_add(bytes));
        Ok(())
    })?;
    for (pack, offset) in overlaps {
        checker.found("block-overlap", format!("two blocks share bytes of pack {pack} at {offset}"), true, None);
    }
    live_bytes(checker)
}

fn live_bytes(checker: &mut Checker<'_>) -> Done<()> {
    let sql = "SELECT id, live_bytes, counted FROM (SELECT pack.id, live_bytes, CAST(coalesce( \
                   (SELECT sum(sealed_bytes) FROM block WHERE pack_id = pack.id), 0) AS BIGINT) AS counted FROM pack) AS sums \
               WHERE live_bytes <> counted";
    let wrong: Vec<(i64, i64, i64)> = checker.rows(sql, (), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    for (pack, says, counted) in wrong {
        let repaired = match checker.mender {
            Some(tx) => {
                sql::put(tx, "UPDATE pack SET live_bytes = ?2 WHERE id = ?1", (pack, counted))?;
                Some("set the sum right".to_owned())
            }
            None => None,
        };
        let message = format!("pack {pack} says {says} of its bytes are live; there are {counted}");
        checker.found("pack-live", message, false, repaired);
    }
    Ok(())
}
