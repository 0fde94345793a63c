//! The index of words: every node of the tree has the rows its name and tags make, or waits to be indexed; and no row is of anything else.

use super::Checker;
use crate::sql::codec::rows;
use crate::sql::fault::Done;
use crate::sql::index::{Words, note, words_of};
use crate::sql::query as sql;
use holdfast_base::SpaceId;
use std::collections::HashMap;

/// Nodes compared at a time.
const NODES: usize = 1_000;

pub(super) fn check(checker: &mut Checker<'_>) -> Done<()> {
    orphans(checker, "word", "are words")?;
    orphans(checker, "unindexed", "is a note to index words")?;
    rows_of_nodes(checker)
}

fn orphans(checker: &mut Checker<'_>, table: &str, what: &str) -> Done<()> {
    let sql = format!(
        "SELECT DISTINCT node_id FROM {table} WHERE NOT EXISTS \
         (SELECT 1 FROM node WHERE node.id = node_id AND node.space_id = {table}.space_id)"
    );
    for node in checker.ids(&sql)? {
        let message = format!("there {what} of node {node}, which is not in that space");
        let sql = format!(
            "DELETE FROM {table} WHERE node_id = ?1 AND NOT EXISTS \
             (SELECT 1 FROM node WHERE node.id = ?1 AND node.space_id = {table}.space_id)"
        );
        checker.mend("word-orphan", message, false, &sql, [node], "removed them")?;
    }
    Ok(())
}

/// Nodes in the tree, and below what is in the trash, that do not wait.
fn rows_of_nodes(checker: &mut Checker<'_>) -> Done<()> {
    // Beyond this id nothing needs to be indexed yet.
    let end =
        sql::first(checker.link, "SELECT after_id FROM reindex", (), |row| row.get::<i64>(0))?.unwrap_or(i64::MAX);
    let mut after = 0;
    loop {
        let sql = "SELECT id, space_id, parent_id > 0 AND NOT EXISTS \
                   (SELECT 1 FROM unindexed WHERE unindexed.space_id = node.space_id AND node_id = node.id) \
                   FROM node WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT ?3";
        let page: Vec<(i64, i64, bool)> =
            sql::all(checker.link, sql, (after, end, rows(NODES)), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let Some(&(last, ..)) = page.last() else { return Ok(()) };
        let settled: Vec<(i64, i64)> = page.iter().filter(|node| node.2).map(|&(id, space, _)| (id, space)).collect();
        let mut kept = kept(checker, after, last)?;
        let mut wanted = words_of(checker.link, &settled.iter().map(|(id, _)| *id).collect::<Vec<_>>())?;
        for (node, space) in settled {
            let kept = kept.remove(&node).unwrap_or_default();
            if wanted.remove(&node).is_some_and(|wanted| wanted == kept) {
                continue;
            }
            let repaired = match checker.mender {
                Some(tx) => note(tx, SpaceId(space), node).map(|()| Some("noted it to be indexed".to_owned()))?,
                None => None,
            };
            let state = if kept.is_empty() { "is neither indexed nor waits for it" } else { "is indexed wrongly" };
            checker.found(
                "word-node",
                format!("node {node} {state}: search does not find it as it is"),
                false,
                repaired,
            );
        }
        after = last;
    }
}

/// The rows of nodes in a range of ids.
fn kept(checker: &Checker<'_>, after: i64, last: i64) -> Done<HashMap<i64, Words>> {
    let mut kept: HashMap<i64, Words> = HashMap::new();
    let sql = "SELECT node_id, place, word FROM word WHERE node_id > ?1 AND node_id <= ?2";
    checker.each(sql, (after, last), |row| {
        kept.entry(row.get(0)?).or_default().insert((row.get(1)?, row.get(2)?));
        Ok(())
    })?;
    Ok(kept)
}
