//! Runs in a file of SQLite: a log that is written ahead, each change synced before it is answered.

use super::{Begin, RUNS_MAX, RunRow, Store, Trigger, Wishes};
use crate::carry::{Done, Ended, Order, Outcome};
use holdfast_base::{Error, Result};
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::path::Path;
use std::time::Duration;

/// How long another process may hold the file: `status` beside `run`.
const BUSY: Duration = Duration::from_secs(10);
/// The shape of the file.
const VERSION: i64 = 2;
const SCHEMA: &str = "
    CREATE TABLE jobs (name TEXT PRIMARY KEY NOT NULL, dealt_with_ms INTEGER NOT NULL) STRICT;
    CREATE TABLE runs (
        id INTEGER PRIMARY KEY AUTOINCREMENT, job TEXT NOT NULL, cause TEXT NOT NULL, due_ms INTEGER NOT NULL, began_ms INTEGER NOT NULL,
        ended_ms INTEGER, attempt INTEGER NOT NULL, result TEXT, done TEXT NOT NULL, errors TEXT NOT NULL, step_errors TEXT NOT NULL, owes INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX runs_of_job ON runs (job, id);
    CREATE INDEX runs_open ON runs (id) WHERE ended_ms IS NULL OR owes = 1;
";
/// Who asked is kept since the second shape.
const SECOND: &str = "ALTER TABLE runs ADD COLUMN by_name TEXT NOT NULL DEFAULT ''; PRAGMA user_version = 2;";
const COLUMNS: &str = "id, job, cause, due_ms, began_ms, ended_ms, attempt, result, done, errors, step_errors, by_name";

/// A file of runs.
pub struct Sqlite(Mutex<Connection>);

impl Sqlite {
    /// Opens the file, which is made if there is none.
    pub fn open(path: &Path) -> Result<Self> {
        let about = |error| broken(error).context(path.display());
        let mut connection = Connection::open(path).map_err(about)?;
        connection.busy_timeout(BUSY).map_err(about)?;
        connection.pragma_update(None, "journal_mode", "WAL").map_err(about)?;
        connection.pragma_update(None, "synchronous", "FULL").map_err(about)?;
        let transaction =
            connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(about)?;
        let version: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(about)?;
        match version {
            0 => transaction.execute_batch(&format!("{SCHEMA}{SECOND}")).map_err(about)?,
            1 => transaction.execute_batch(SECOND).map_err(about)?,
            VERSION => {}
            _ => return Err(Error::invalid(format!("{} is of a newer release of this program", path.display()))),
        }
        transaction.commit().map_err(about)?;
        Ok(Self(Mutex::new(connection)))
    }

    fn some(&self, rest: &str, parameters: impl rusqlite::Params) -> Result<Vec<RunRow>> {
        let connection = self.0.lock();
        let mut statement = connection.prepare_cached(&format!("SELECT {COLUMNS} FROM runs {rest}")).map_err(broken)?;
        let rows = statement.query_map(parameters, row).map_err(broken)?;
        rows.collect::<rusqlite::Result<_>>().map_err(broken)
    }
}

fn broken(error: rusqlite::Error) -> Error {
    use rusqlite::ErrorCode::{DatabaseCorrupt, DiskFull, NotADatabase, ReadOnly};
    let words = format!("the state of jobs: {error}");
    match error.sqlite_error_code() {
        Some(DiskFull) => Error::new(holdfast_base::ErrorKind::NoSpace, words),
        Some(DatabaseCorrupt | NotADatabase) => Error::damaged(words),
        Some(ReadOnly) => Error::forbidden(words),
        _ => Error::unavailable(words),
    }
    .with_source(error)
}

fn row(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    let words = |index: usize| -> rusqlite::Result<String> { row.get(index) };
    let cause = words(2)?;
    let result: Option<String> = row.get(7)?;
    Ok(RunRow {
        id: row.get(0)?,
        job: row.get(1)?,
        trigger: Trigger::of_word(&cause).ok_or(rusqlite::Error::InvalidQuery)?,
        due_ms: row.get(3)?,
        began_ms: row.get(4)?,
        ended_ms: row.get(5)?,
        attempt: row.get(6)?,
        result: result.and_then(|word| Ended::of_word(&word)),
        done: json(&words(8)?)?,
        errors: json(&words(9)?)?,
        step_errors: json(&words(10)?)?,
        order: Order::default(),
        by: words(11)?,
    })
}

fn json<T: serde::de::DeserializeOwned>(text: &str) -> rusqlite::Result<T> {
    serde_json::from_str(text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error.into()))
}

fn text<T: serde::Serialize + ?Sized>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::internal("a run could not be written").with_source(error))
}

const DEAL: &str =
    "INSERT INTO jobs VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET dealt_with_ms = excluded.dealt_with_ms";

impl Store for Sqlite {
    fn dealt_with(&self, job: &str) -> Result<Option<i64>> {
        let connection = self.0.lock();
        connection
            .query_row("SELECT dealt_with_ms FROM jobs WHERE name = ?1", [job], |row| row.get(0))
            .optional()
            .map_err(broken)
    }

    fn deal_with(&self, job: &str, until_ms: i64) -> Result<()> {
        self.0.lock().execute(DEAL, params![job, until_ms]).map(|_| ()).map_err(broken)
    }

    fn begin(&self, begin: &Begin) -> Result<i64> {
        let mut connection = self.0.lock();
        let transaction = connection.transaction().map_err(broken)?;
        let Begin { job, trigger, due_ms, began_ms, attempt, dealt_with_ms, asked } = begin;
        if let Some(until) = dealt_with_ms {
            transaction.execute(DEAL, params![job, until]).map_err(broken)?;
        }
        let insert = "INSERT INTO runs (job, cause, due_ms, began_ms, attempt, done, errors, step_errors, owes, by_name) VALUES (?1, ?2, ?3, ?4, ?5, ?6, '[]', '[]', 0, ?7)";
        transaction
            .execute(insert, params![job, trigger.word(), due_ms, began_ms, attempt, text(&Done::default())?, asked.by])
            .map_err(broken)?;
        let id = transaction.last_insert_rowid();
        let oldest = "DELETE FROM runs WHERE job = ?1 AND ended_ms IS NOT NULL AND owes = 0
            AND id <= (SELECT id FROM runs WHERE job = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)";
        transaction.execute(oldest, params![job, RUNS_MAX]).map_err(broken)?;
        transaction.commit().map_err(broken)?;
        Ok(id)
    }

    fn progress(&self, id: i64, done: &Done) -> Result<()> {
        let connection = self.0.lock();
        connection
            .execute("UPDATE runs SET done = ?2 WHERE id = ?1 AND ended_ms IS NULL", params![id, text(done)?])
            .map(|_| ())
            .map_err(broken)
    }

    fn end(&self, id: i64, ended_ms: i64, outcome: &Outcome) -> Result<()> {
        let update = "UPDATE runs SET ended_ms = ?2, result = ?3, done = ?4, errors = ?5, owes = 1 WHERE id = ?1";
        let Outcome { result, done, errors, .. } = outcome;
        let parameters = params![id, ended_ms, result.word(), text(done)?, text(errors)?];
        self.0.lock().execute(update, parameters).map(|_| ()).map_err(broken)
    }

    fn steps_done(&self, id: i64, errors: &[String]) -> Result<()> {
        let update = "UPDATE runs SET owes = 0, step_errors = ?2 WHERE id = ?1";
        self.0.lock().execute(update, params![id, text(errors)?]).map(|_| ()).map_err(broken)
    }

    fn unfinished(&self) -> Result<Vec<RunRow>> {
        self.some("WHERE ended_ms IS NULL ORDER BY id", [])
    }

    fn owing(&self) -> Result<Vec<RunRow>> {
        self.some("WHERE owes = 1 ORDER BY id", [])
    }

    fn wishes(&self) -> Result<Option<Wishes>> {
        Ok(None)
    }

    fn runs(&self, job: Option<&str>, limit: u64) -> Result<Vec<RunRow>> {
        match job {
            Some(job) => self.some("WHERE job = ?1 ORDER BY id DESC LIMIT ?2", params![job, limit]),
            None => self.some("ORDER BY id DESC LIMIT ?1", params![limit]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Asked;

    fn begin(job: &str, due_ms: i64) -> Begin {
        Begin {
            job: job.into(),
            trigger: Trigger::Schedule,
            due_ms,
            began_ms: due_ms + 1,
            attempt: 0,
            dealt_with_ms: Some(due_ms),
            asked: Asked::default(),
        }
    }

    fn ended() -> Outcome {
        let done = Done { files: 3, ..Done::default() };
        Outcome { result: Ended::Partial, done, errors: vec!["/a: gone".into()], exit_code: 74 }
    }

    #[test]
    fn what_was_begun_and_what_is_owed_is_found_again_after_the_file_was_closed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("jobs.sqlite");
        let (killed, told) = {
            let store = Sqlite::open(&path).expect("opens");
            assert_eq!(store.dealt_with("a").expect("reads"), None);
            let killed = store.begin(&begin("a", 10)).expect("writes");
            let told = store.begin(&begin("b", 20)).expect("writes");
            store.progress(killed, &Done { files: 1, ..Done::default() }).expect("writes");
            store.end(told, 30, &ended()).expect("writes");
            (killed, told)
        };
        let store = Sqlite::open(&path).expect("opens");
        assert_eq!(store.dealt_with("a").expect("reads"), Some(10));
        let open = store.unfinished().expect("reads");
        assert_eq!((open.len(), open[0].id, open[0].done.files), (1, killed, 1));
        let owing = store.owing().expect("reads");
        assert_eq!((owing.len(), owing[0].id, owing[0].result), (1, told, Some(Ended::Partial)));
        store.steps_done(told, &["no".into()]).expect("writes");
        assert!(store.owing().expect("reads").is_empty());
        assert_eq!(store.runs(Some("b"), 9).expect("reads")[0].step_errors, ["no"]);
        assert_eq!(store.runs(None, 1).expect("reads")[0].job, "b", "the latest first");
    }

    #[test]
    fn the_history_of_a_job_is_bounded_and_loses_nothing_that_is_open() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Sqlite::open(&folder.path().join("s")).expect("opens");
        let open = store.begin(&begin("a", 0)).expect("writes");
        store.0.lock().pragma_update(None, "synchronous", "OFF").expect("sets");
        for due in 1..1_100 {
            let id = store.begin(&begin("a", due)).expect("writes");
            store.end(id, due + 5, &ended()).expect("writes");
            store.steps_done(id, &[]).expect("writes");
        }
        let kept = store.runs(Some("a"), u64::from(u32::MAX)).expect("reads");
        assert!(kept.len() <= 1_002 && kept.iter().any(|run| run.id == open), "{}", kept.len());
    }

    #[test]
    fn a_file_of_the_first_shape_is_taken_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s");
        let store = Sqlite::open(&path).expect("opens");
        store.begin(&begin("a", 10)).expect("writes");
        let back = "ALTER TABLE runs DROP COLUMN by_name; PRAGMA user_version = 1";
        store.0.lock().execute_batch(back).expect("writes");
        drop(store);
        let store = Sqlite::open(&path).expect("opens");
        let asked = Asked { by: "ann 1/2".into(), ..Asked::default() };
        store.begin(&Begin { asked, ..begin("a", 20) }).expect("writes");
        let by: Vec<_> = store.runs(Some("a"), 9).expect("reads").into_iter().map(|run| run.by).collect();
        assert_eq!(by, ["ann 1/2", ""]);
    }

    #[test]
    fn a_file_that_is_none_is_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s");
        std::fs::write(&path, vec![7; 8_192]).expect("writes");
        assert_eq!(Sqlite::open(&path).map(|_| ()).expect_err("no database").kind(), holdfast_base::ErrorKind::Damaged);
    }
}
