//! What `holdfast job` says, in words and in JSON.

use super::transfer_words::time_words;
use crate::output::{plain, table, time};
use holdfast_base::size::format_bytes;
use holdfast_jobs::file::{Job, Set};
use holdfast_jobs::preview::next_times;
use holdfast_jobs::runner::Notice;
use holdfast_jobs::store::RunRow;
use serde_json::{Value, json};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

/// Errors of a run that are shown to a person.
const ERRORS_SHOWN: usize = 3;

/// A job, its last run, and whether somebody has it.
pub(super) type Row<'r> = (&'r Arc<Job>, Option<RunRow>, bool);

fn next(job: &Job) -> Option<String> {
    let due = next_times(job, holdfast_jobs::now()).into_iter().next().filter(|_| job.text.active);
    due.map(|due| due.to_string())
}

fn sources(job: &Job) -> Vec<String> {
    job.text.from.0.iter().map(|from| from.text().to_owned()).collect()
}

pub(super) fn list_json(set: &Set) -> Value {
    let jobs = set.jobs.values().map(|job| {
        json!({
            "job": job.name, "active": job.text.active, "from": sources(job), "to": job.text.to.text(), "when": job.when(), "next": next(job),
            "file": job.file.display().to_string(), "line": job.line,
        })
    });
    jobs.collect()
}

pub(super) fn list_words(set: &Set) -> String {
    let rows = set.jobs.values().map(|job| {
        let next = if job.text.active { next(job).unwrap_or_default() } else { "not active".into() };
        vec![job.name.clone(), sources(job).join(" "), job.text.to.text().to_owned(), job.when(), next]
    });
    table(&["JOB", "FROM", "TO", "WHEN", "NEXT"], &rows.collect::<Vec<_>>())
}

/// What a job does.
fn state(row: &Row<'_>) -> &'static str {
    match row {
        (_, Some(RunRow { ended_ms: None, .. }), true) => "under way",
        (_, Some(RunRow { ended_ms: None, .. }), false) => "was killed",
        (_, _, true) => "steps",
        (job, ..) if !job.text.active => "not active",
        _ => "waits",
    }
}

pub(super) fn state_json(running: bool, rows: &[Row<'_>]) -> Value {
    let jobs = rows.iter().map(|row| json!({ "job": row.0.name, "state": state(row), "next": next(row.0), "last": row.1.as_ref().map(run_json) }));
    json!({ "running": running, "jobs": jobs.collect::<Value>() })
}

pub(super) fn state_words(running: bool, rows: &[Row<'_>]) -> String {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            let last = row.1.as_ref().map(|run| match run.result {
                Some(result) => format!("{} {}", result.word(), run.ended_ms.map_or_else(String::new, time)),
                None => format!("began {}, {}", run.began_ms.map_or_else(String::new, time), progress_words(run)),
            });
            vec![row.0.name.clone(), state(row).to_owned(), next(row.0).unwrap_or_default(), last.unwrap_or_default()]
        })
        .collect();
    let runner = if running { "The runner is running." } else { "No runner is running." };
    format!("{runner}\n{}", table(&["JOB", "STATE", "NEXT", "LAST"], &rows))
}

pub(super) fn run_json(run: &RunRow) -> Value {
    json!({
        "job": run.job, "run": run.id, "trigger": run.trigger, "attempt": run.attempt, "due": time(run.due_ms), "began": run.began_ms.map(time),
        "ended": run.ended_ms.map(time), "result": run.result, "done": run.done, "errors": run.errors, "step_errors": run.step_errors,
    })
}

/// What a run did, and by which network.
fn moved(run: &RunRow) -> String {
    let done = &run.done;
    let mut words = vec![format!("{} files, {}, {} failed", done.files, format_bytes(done.moved_bytes), done.failed)];
    words.extend((done.retries > 0).then(|| format!("{} retries", done.retries)));
    words.extend(done.network.map(|network| network.to_string()));
    words.join(", ")
}

/// How far a run is that is under way.
pub(super) fn progress_words(run: &RunRow) -> String {
    let Some(live) = run.done.live.as_ref().filter(|_| run.ended_ms.is_none()) else { return moved(run) };
    let mut words = vec![
        format!("{} of {} files", run.done.files + run.done.links + run.done.same, run.done.found),
        format!("{} of {}", format_bytes(live.settled_bytes), format_bytes(live.found_bytes)),
        format!("{}/s", format_bytes(live.rate)),
    ];
    words.extend(live.left_s.map(|left_s| format!("{} left", time_words(Duration::from_secs(left_s)))));
    words.extend(run.done.network.map(|network| network.to_string()));
    let troubles =
        [(run.done.retries, "retries"), (run.done.failed, "failed")].into_iter().filter(|(count, _)| *count > 0);
    words.extend(troubles.map(|(count, what)| format!("{count} {what}")));
    words.join(", ")
}

pub(super) fn history_words(runs: &[RunRow]) -> String {
    let rows: Vec<_> = runs
        .iter()
        .map(|run| {
            let result = run.result.map_or("", |result| result.word());
            let ended = run.ended_ms.map_or_else(String::new, time);
            vec![
                run.id.to_string(),
                run.job.clone(),
                run.trigger.word().to_owned(),
                run.began_ms.map_or_else(String::new, time),
                ended,
                result.to_owned(),
                moved(run),
            ]
        })
        .collect();
    let mut text = table(&["RUN", "JOB", "WHY", "BEGAN", "ENDED", "RESULT", "DONE"], &rows);
    for run in runs {
        for error in run.errors.iter().chain(&run.step_errors).take(ERRORS_SHOWN) {
            let _ = writeln!(text, "{}: {}", run.id, plain(error));
        }
    }
    text
}

pub(super) fn ended_words(run: &RunRow) -> String {
    let result = run.result.map_or("is under way", |result| result.word());
    let mut text =
        format!("{} run {}: {result}: {}, {} were there already.", run.job, run.id, moved(run), run.done.same);
    for error in run.errors.iter().chain(&run.step_errors).take(ERRORS_SHOWN) {
        let _ = write!(text, "\n  {}", plain(error));
    }
    text
}

pub(super) fn notice_words(notice: &Notice) -> String {
    match notice {
        Notice::Ready(jobs) => format!("Keeping {} jobs: {}", jobs.len(), jobs.join(", ")),
        Notice::Reloaded(jobs) => format!("Read anew; keeping {} jobs: {}", jobs.len(), jobs.join(", ")),
        Notice::NotReloaded(error) => {
            format!("Not all could be read anew, and what was said before stays: {}", plain(error.message()))
        }
        Notice::Began(run) => format!("{} run {}: began ({})", run.job, run.id, run.trigger.word()),
        Notice::Progress(run) => format!("{} run {}: {}", run.job, run.id, progress_words(run)),
        Notice::Ended(run) => ended_words(run),
        Notice::Trouble(job, error) => format!("{job}: {}; trying again", plain(error.message())),
    }
}

pub(super) fn notice_json(notice: &Notice) -> Value {
    let named = |event: &str, run: &RunRow| {
        let mut value = run_json(run);
        value["event"] = event.into();
        value
    };
    match notice {
        Notice::Ready(jobs) => json!({ "event": "ready", "jobs": jobs }),
        Notice::Reloaded(jobs) => json!({ "event": "reloaded", "jobs": jobs }),
        Notice::NotReloaded(error) => json!({ "event": "not-reloaded", "message": error.message() }),
        Notice::Began(run) => named("began", run),
        Notice::Progress(run) => named("progress", run),
        Notice::Ended(run) => named("ended", run),
        Notice::Trouble(job, error) => json!({ "event": "trouble", "job": job, "message": error.message() }),
    }
}
