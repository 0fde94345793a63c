//! What a check finds in an SQLite file alone: its structure, and foreign keys.

use crate::sql::check::Checker;
use crate::sql::fault::Done;
use crate::sql::query as sql;

/// Problems SQLite itself reports at most.
const PROBLEMS: usize = 100;

pub(super) fn check(checker: &mut Checker<'_>) -> Done<()> {
    let problems: Vec<String> = checker.rows(&format!("PRAGMA integrity_check({PROBLEMS})"), (), |row| row.get(0))?;
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
        sql::run(tx, "REINDEX", ())?;
    }
    let broken: Vec<(String, String)> =
        checker.rows("PRAGMA foreign_key_check", (), |row| Ok((row.get(0)?, row.get(2)?)))?;
    for (table, parent) in broken {
        let message = format!("a row of {table} belongs to a row of {parent} that is not there");
        checker.found("foreign-key", message, true, None);
    }
    Ok(())
}
