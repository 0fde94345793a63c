//! Transfers that a server runs by schedule: what ran, and what was asked for.
//!
//! Whoever runs them holds a lease, and each of its changes looks for that in its own transaction: an instance that slept through the end of its lease changes
//! nothing when it wakes. A due time is dealt with once, whoever deals with it, since the row that says so only goes forward when a run begins.
//!
//! **Limits.** [`JOB_RUNS_MAX`] runs of a job that have ended, [`JOB_WISHES_MAX`] that wait.

use super::codec::rows;
use super::engine::{Engine, Ops, Scope};
use super::fault::{Done, refuse};
use super::instances::now;
use super::query as sql;
use super::seam::{Link, Row, Value};
use super::tx::Tx;
use crate::cluster::InstanceId;
use crate::types::{JOB_RUNS_MAX, JOB_WISHES_MAX, JOBS_LEASE, JobBegin, JobEnd, JobRun, NewJobRun, WhichJobRuns};
use holdfast_base::{ErrorKind, Result};

const COLUMNS: &str =
    "id, job, cause, by_name, wish, due_ms, began_ms, ended_ms, attempt, result, done, errors, step_errors";
/// Rows of an answer that is not told how many.
const ROWS_MAX: usize = 10_000;

/// Who runs jobs: none where there is one instance only.
type Holder = Option<InstanceId>;

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn deal_with_job(&self, holder: Holder, job: &str, until_ms: i64) -> Result<()> {
        let job = job.to_owned();
        let work = move |tx: &Tx<'_>| {
            held(tx, holder)?;
            let sql = "INSERT INTO job (name, dealt_with_ms) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET dealt_with_ms = excluded.dealt_with_ms";
            sql::put(tx, sql, (job.as_str(), until_ms))
        };
        self.0.write("deal_with_job", Scope::Alone, work).await
    }

    pub(super) async fn begin_job(&self, holder: Holder, new: NewJobRun, begin: JobBegin) -> Result<i64> {
        let work = move |tx: &Tx<'_>| {
            held(tx, holder)?;
            if let Some(until) = begin.dealt_with_ms {
                let sql = "INSERT INTO job (name, dealt_with_ms) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET \
                           dealt_with_ms = excluded.dealt_with_ms WHERE job.dealt_with_ms < excluded.dealt_with_ms";
                if sql::run(tx, sql, (&new.job, until))? == 0 {
                    return refuse(ErrorKind::Conflict, "this time is dealt with already");
                }
            }
            let id = match begin.asked {
                Some(id) => {
                    let sql =
                        "UPDATE job_run SET began_ms = ?2 WHERE id = ?1 AND began_ms IS NULL AND ended_ms IS NULL";
                    if sql::run(tx, sql, (id, begin.began_ms))? == 0 {
                        return refuse(ErrorKind::Conflict, "this run was begun or taken back already");
                    }
                    id
                }
                None => insert(tx, &new, Some(begin.began_ms))?,
            };
            let sql = "DELETE FROM job_run WHERE job = ?1 AND ended_ms IS NOT NULL AND owes = 0 AND id <= \
                       (SELECT id FROM job_run WHERE job = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)";
            sql::put(tx, sql, (&new.job, rows(JOB_RUNS_MAX)))?;
            Ok(id)
        };
        self.0.write("begin_job", Scope::Alone, work).await
    }

    pub(super) async fn note_job(&self, holder: Holder, run: i64, done: &str) -> Result<()> {
        let done = done.to_owned();
        let work = move |tx: &Tx<'_>| {
            held(tx, holder)?;
            sql::put(tx, "UPDATE job_run SET done = ?2 WHERE id = ?1 AND ended_ms IS NULL", (run, done.as_str()))
        };
        self.0.write("note_job", Scope::Alone, work).await
    }

    pub(super) async fn end_job(&self, holder: Holder, run: i64, end: JobEnd) -> Result<()> {
        let work = move |tx: &Tx<'_>| {
            held(tx, holder)?;
            let sql = "UPDATE job_run SET ended_ms = ?2, result = ?3, done = ?4, errors = ?5, owes = 1, stop = 0 WHERE id = ?1 AND ended_ms IS NULL";
            sql::put(tx, sql, (run, end.ended_ms, &end.result, &end.done, &end.errors))
        };
        self.0.write("end_job", Scope::Alone, work).await
    }

    pub(super) async fn job_steps_done(&self, holder: Holder, run: i64, errors: &str) -> Result<()> {
        let errors = errors.to_owned();
        let work = move |tx: &Tx<'_>| {
            held(tx, holder)?;
            sql::put(tx, "UPDATE job_run SET owes = 0, step_errors = ?2 WHERE id = ?1", (run, errors.as_str()))
        };
        self.0.write("job_steps_done", Scope::Alone, work).await
    }

    pub(super) async fn ask_for_job(&self, new: NewJobRun) -> Result<i64> {
        let work = move |tx: &Tx<'_>| {
            tx.lock_administration()?;
            let sql = "SELECT count(*) FROM job_run WHERE job = ?1 AND began_ms IS NULL AND ended_ms IS NULL";
            let waiting: usize = sql::only(tx, sql, [&new.job], |row| row.get(0))?;
            if waiting >= JOB_WISHES_MAX {
                let what = format!("{JOB_WISHES_MAX} runs of this job wait already");
                return refuse(ErrorKind::Conflict, what);
            }
            insert(tx, &new, None)
        };
        self.0.write("ask_for_job", Scope::Administration, work).await
    }

    pub(super) async fn stop_job(&self, run: i64, end: JobEnd) -> Result<bool> {
        let work = move |tx: &Tx<'_>| {
            let sql = "UPDATE job_run SET ended_ms = ?2, result = ?3, errors = ?4 WHERE id = ?1 AND began_ms IS NULL AND ended_ms IS NULL";
            if sql::run(tx, sql, (run, end.ended_ms, &end.result, &end.errors))? == 1 {
                return Ok(true);
            }
            Ok(sql::run(tx, "UPDATE job_run SET stop = 1 WHERE id = ?1 AND ended_ms IS NULL", [run])? == 1)
        };
        self.0.write("stop_job", Scope::Administration, work).await
    }
}

/// Fails unless this instance has the lease, which nobody takes from it before the transaction has ended.
fn held(tx: &Tx<'_>, holder: Holder) -> Done<()> {
    let Some(holder) = holder else { return Ok(()) };
    tx.lock_lease(JOBS_LEASE)?;
    let sql = format!("SELECT 1 FROM lease WHERE name = ?1 AND instance_id = ?2 AND expires_ms > {}", now(tx));
    match sql::first(tx, &sql, (JOBS_LEASE, holder.0), |_| Ok(()))? {
        Some(()) => Ok(()),
        None => refuse(ErrorKind::Unavailable, "another node runs the jobs now"),
    }
}

fn insert(tx: &Tx<'_>, new: &NewJobRun, began_ms: Option<i64>) -> Done<i64> {
    let last = || sql::only(tx, "SELECT coalesce(max(id), 0) FROM job_run", (), |row| row.get(0));
    let id = tx.new_id_after(last)?;
    let sql = "INSERT INTO job_run (id, job, cause, by_name, wish, due_ms, began_ms, attempt, done, errors, step_errors, owes, stop) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, '[]', '[]', 0, 0)";
    let NewJobRun { job, cause, by, wish, due_ms, attempt, done } = new;
    sql::put(tx, sql, (id, job, cause, by, wish, *due_ms, began_ms, *attempt, done))?;
    Ok(id)
}

/// Up to when due times of a job are dealt with.
pub(super) fn dealt_with(link: &dyn Link, job: &str) -> Done<Option<i64>> {
    sql::first(link, "SELECT dealt_with_ms FROM job WHERE name = ?1", [job], |row| row.get(0))
}

/// Runs.
pub(super) fn runs(link: &dyn Link, which: &WhichJobRuns) -> Done<Vec<JobRun>> {
    let some = |condition: &str, values: &[Value<'_>], limit: usize| {
        sql::all(link, &format!("SELECT {COLUMNS} FROM job_run WHERE {condition} LIMIT {limit}"), values, run)
    };
    let all = |condition: &str| some(condition, &[], ROWS_MAX);
    match which {
        WhichJobRuns::Asked => all("ended_ms IS NULL AND began_ms IS NULL ORDER BY id"),
        WhichJobRuns::Stopping => all("ended_ms IS NULL AND began_ms IS NOT NULL AND stop = 1 ORDER BY id"),
        WhichJobRuns::Unfinished => all("ended_ms IS NULL AND began_ms IS NOT NULL ORDER BY id"),
        WhichJobRuns::Owing => all("owes = 1 ORDER BY id"),
        WhichJobRuns::Last => all("id IN (SELECT max(id) FROM job_run GROUP BY job)"),
        WhichJobRuns::LastEnded => all("id IN (SELECT max(id) FROM job_run WHERE ended_ms IS NOT NULL GROUP BY job)"),
        WhichJobRuns::Begun { job, limit } => {
            some("job = ?1 AND began_ms IS NOT NULL ORDER BY began_ms DESC, id DESC", &[Value::Text(job)], *limit)
        }
        WhichJobRuns::One(id) => some("id = ?1", &[Value::Integer(*id)], 1),
        WhichJobRuns::Of { job, before, limit } => {
            let before = Value::Integer(before.unwrap_or(i64::MAX));
            match job {
                Some(job) => some("job = ?1 AND id < ?2 ORDER BY id DESC", &[Value::Text(job), before], *limit),
                None => some("id < ?1 ORDER BY id DESC", &[before], *limit),
            }
        }
    }
}

fn run(row: &Row<'_>) -> Done<JobRun> {
    Ok(JobRun {
        id: row.get(0)?,
        job: row.get(1)?,
        cause: row.get(2)?,
        by: row.get(3)?,
        wish: row.get(4)?,
        due_ms: row.get(5)?,
        began_ms: row.get(6)?,
        ended_ms: row.get(7)?,
        attempt: row.get(8)?,
        result: row.get(9)?,
        done: row.get(10)?,
        errors: row.get(11)?,
        step_errors: row.get(12)?,
    })
}
