//! The sums of each space, counted anew.

use super::Checker;
use crate::sql::fault::Done;
use crate::sql::query as sql;
use std::collections::HashMap;

/// What is summed, and the query that counts it for every space. Purged subtrees count nowhere.
const SUMS: [(&str, &str); 6] = [
    (
        "used_bytes",
        "SELECT space_id, CAST(sum(size) AS BIGINT) FROM (SELECT space_id, size FROM node \
         UNION ALL SELECT space_id, size FROM version UNION ALL SELECT space_id, -size FROM purged UNION ALL \
         SELECT version.space_id, -version.size FROM purged JOIN version ON node_id = id WHERE kind = 1) AS counted \
         GROUP BY space_id",
    ),
    (
        "version_bytes",
        "SELECT space_id, CAST(sum(size) AS BIGINT) FROM (SELECT space_id, size FROM version UNION ALL \
         SELECT version.space_id, -version.size FROM purged JOIN version ON node_id = id WHERE kind = 1) AS counted \
         GROUP BY space_id",
    ),
    ("reserved_bytes", "SELECT space_id, CAST(sum(reserved_bytes) AS BIGINT) FROM upload GROUP BY space_id"),
    ("raw_bytes", "SELECT space_id, CAST(sum(raw_bytes) AS BIGINT) FROM block GROUP BY space_id"),
    ("sealed_bytes", "SELECT space_id, CAST(sum(sealed_bytes) AS BIGINT) FROM block GROUP BY space_id"),
    ("locks", "SELECT space_id, count(*) FROM node_lock GROUP BY space_id"),
];

/// Every node below an entry of `garbage`.
const PURGED: &str = "WITH RECURSIVE purged (id, kind, space_id, size) AS ( \
    SELECT id, kind, space_id, size FROM node WHERE id IN (SELECT node_id FROM garbage) \
    UNION ALL SELECT node.id, node.kind, node.space_id, node.size FROM purged JOIN node ON parent_id = purged.id \
    WHERE purged.kind = 0) ";

pub(super) fn check(checker: &mut Checker<'_>) -> Done<()> {
    let names = "SELECT id, name FROM space ORDER BY id";
    let spaces: Vec<(i64, String)> = sql::all(checker.link, names, (), |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut wrong: Vec<Wrong<'_>> = Vec::new();
    for (column, query) in SUMS {
        let query = if query.contains("purged") { format!("{PURGED}{query}") } else { query.to_owned() };
        let counted: HashMap<i64, i64> =
            sql::all(checker.link, &query, (), |row| Ok((row.get(0)?, row.get(1)?)))?.into_iter().collect();
        let sql = format!("SELECT space_id, {column} FROM space_sum");
        let kept: HashMap<i64, i64> =
            sql::all(checker.link, &sql, (), |row| Ok((row.get(0)?, row.get(1)?)))?.into_iter().collect();
        for (space, name) in &spaces {
            let (says, is) = (kept.get(space).copied().unwrap_or(0), counted.get(space).copied().unwrap_or(0));
            if says != is {
                wrong.push((*space, name, says, is, column));
            }
        }
    }
    repair(checker, &wrong)
}

type Wrong<'n> = (i64, &'n str, i64, i64, &'n str);

fn repair(checker: &mut Checker<'_>, wrong: &[Wrong<'_>]) -> Done<()> {
    if let Some(tx) = checker.mender {
        // Constraints tie the sums to each other, so those of a space are set together.
        for &(space, ..) in wrong {
            set(tx, space, wrong)?;
        }
    }
    for &(_, name, says, is, column) in wrong {
        let repaired = checker.mender.map(|_| "set the sum right".to_owned());
        let message = format!("space {name}: {column} says {says}; counted were {is}");
        checker.found("usage-sum", message, false, repaired);
    }
    Ok(())
}

/// Sets every wrong sum of a space in one statement.
fn set(tx: &super::Tx<'_>, space: i64, wrong: &[Wrong<'_>]) -> Done<()> {
    let of_space = wrong.iter().filter(|entry| entry.0 == space);
    let list: Vec<String> = of_space.map(|(_, _, _, is, column)| format!("{column} = {is}")).collect();
    sql::put(tx, &format!("UPDATE space_sum SET {} WHERE space_id = ?1", list.join(", ")), [space])
}
