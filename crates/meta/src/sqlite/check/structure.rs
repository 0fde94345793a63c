//! The database's own structure, foreign keys, and the id counter.

use super::Checker;
use crate::sqlite::fault::Done;

/// Problems SQLite itself reports at most.
const PROBLEMS: usize = 100;

pub(super) fn check(checker: &mut Checker<'_>) -> Done<()> {
    let problems: Vec<String> = checker.rows(&format!("PRAGMA integrity_check({PROBLEMS})"), [], |row| row.get(0))?;
    let problems: Vec<String> = problems.into_iter().filter(|problem| problem != "ok").collect();
    let indexes = problems.iter().any(|problem| problem.contains("index"));
    for problem in problems {
        let in_index = problem.contains("index");
        let repaired = (in_index && checker.mender.is_some()).then(|| "rebuilt the indexes".to_owned());
        // A broken constraint is a broken sum, which is found and set right below.
        let loss = !in_index && !problem.contains("CHECK constraint");
        let message = format!("the database's structure is damaged: {problem}");
        checker.found("database-structure", message, loss, repaired);
    }
    if let Some(tx) = checker.mender.filter(|_| indexes) {
        tx.execute_batch("REINDEX")?;
    }
    let broken: Vec<(String, String)> =
        checker.rows("PRAGMA foreign_key_check", [], |row| Ok((row.get(0)?, row.get(2)?)))?;
    for (table, parent) in broken {
        checker.found(
            "foreign-key",
            format!("a row of {table} belongs to a row of {parent} that is not there"),
            true,
            None,
        );
    }
    counter(checker)
}

/// The counter must be past every id in use.
fn counter(checker: &mut Checker<'_>) -> Done<()> {
    let next = checker.next_id()?;
    let sql = "SELECT coalesce(max(id), 0) FROM (SELECT max(id) AS id FROM node UNION ALL SELECT max(id) FROM content \
               UNION ALL SELECT max(id) FROM account UNION ALL SELECT max(id) FROM space UNION ALL SELECT max(id) FROM slot \
               UNION ALL SELECT max(id) FROM trash UNION ALL SELECT max(id) FROM pack UNION ALL SELECT max(id) FROM node_lock)";
    let highest = checker.ids(sql)?.first().copied().unwrap_or(0);
    if next <= highest {
        let repaired = checker.mender.map(|tx| {
            tx.skip_ids_to(highest + 1);
            format!("set it past {highest}")
        });
        checker.found(
            "id-counter",
            format!("the id counter stands at {next}, but {highest} is in use"),
            false,
            repaired,
        );
    }
    Ok(())
}
