//! Locks: each on a node that lives, with all its ancestors listed.

use super::Checker;
use crate::sql::fault::Done;
use crate::sql::query as sql;
use crate::sql::subtree::{Home, home_of};

pub(super) fn check(checker: &mut Checker<'_>) -> Done<()> {
    let sql = "SELECT id, node_id FROM node_lock";
    let locks: Vec<(i64, i64)> = sql::all(checker.link, sql, (), |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (lock, node) in locks {
        if home_of(checker.link, node)? != Home::Live {
            let message = format!("there is a lock on node {node}, which is not in the tree");
            end(checker, lock, "lock-orphan", message, "removed it")?;
            continue;
        }
        let sql = "WITH RECURSIVE above (id) AS ( \
                       SELECT parent_id FROM node WHERE id = ?1 AND parent_id > 0 \
                       UNION ALL SELECT parent_id FROM above JOIN node USING (id) WHERE parent_id > 0) \
                   SELECT (SELECT count(*) FROM above) <> (SELECT count(*) FROM lock_above WHERE lock_id = ?2) \
                       OR EXISTS (SELECT id FROM above EXCEPT SELECT ancestor_id FROM lock_above WHERE lock_id = ?2)";
        if sql::only(checker.link, sql, (node, lock), |row| row.get(0))? {
            let message = format!("the lock on node {node} does not cover the folders it should");
            end(checker, lock, "lock-above", message, "removed the lock")?;
        }
    }
    Ok(())
}

/// Removes a lock and counts it out of its space.
fn end(checker: &mut Checker<'_>, lock: i64, code: &str, message: String, what: &str) -> Done<()> {
    if let Some(tx) = checker.mender {
        let sql = "UPDATE space_sum SET locks = CASE WHEN locks > 0 THEN locks - 1 ELSE 0 END \
                   WHERE space_id = (SELECT space_id FROM node_lock WHERE id = ?1)";
        sql::put(tx, sql, [lock])?;
    }
    checker.mend(code, message, false, "DELETE FROM node_lock WHERE id = ?1", [lock], what)
}
