//! Locks: each on a node that lives, with all its ancestors listed.

use super::Checker;
use crate::sqlite::fault::Done;
use crate::sqlite::sql;
use crate::sqlite::subtree::{Home, home_of};

pub(super) fn check(checker: &mut Checker<'_>) -> Done<()> {
    let connection = checker.connection;
    let locks: Vec<(i64, i64)> =
        sql::all(connection, "SELECT id, node_id FROM node_lock", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (lock, node) in locks {
        if home_of(connection, node)? != Home::Live {
            let message = format!("there is a lock on node {node}, which is not in the tree");
            checker.mend("lock-orphan", message, false, "DELETE FROM node_lock WHERE id = ?1", [lock], "removed it")?;
            continue;
        }
        let sql = "WITH RECURSIVE above (id) AS ( \
                       SELECT parent_id FROM node WHERE id = ?1 AND parent_id > 0 \
                       UNION ALL SELECT parent_id FROM above JOIN node USING (id) WHERE parent_id > 0) \
                   SELECT (SELECT count(*) FROM above) <> (SELECT count(*) FROM lock_above WHERE lock_id = ?2) \
                       OR EXISTS (SELECT id FROM above EXCEPT SELECT ancestor_id FROM lock_above WHERE lock_id = ?2)";
        if sql::only(connection, sql, (node, lock), |row| row.get(0))? {
            let message = format!("the lock on node {node} does not cover the folders it should");
            checker.mend(
                "lock-above",
                message,
                false,
                "DELETE FROM node_lock WHERE id = ?1",
                [lock],
                "removed the lock",
            )?;
        }
    }
    Ok(())
}
