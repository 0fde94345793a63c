//! What is done after a run: telling a web hook, sending mail, running a command.
//!
//! Steps run one after another, each in a time limit; what fails of them is told beside the run and changes nothing of how it ended. They are owed until
//! they are done ([`Store::owing`](crate::store::Store::owing)), so a kill between may make one happen twice, and none be lost.

mod command;
mod hook;

use crate::carry::Ended;
use crate::file::said::Said;
use crate::file::{Job, Step};
use crate::store::RunRow;
use holdfast_base::{Error, Result};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;

/// How long a step may take, unless it says so.
const TIMEOUT_HOOK: Duration = Duration::from_secs(30);
const TIMEOUT_COMMAND: Duration = Duration::from_mins(10);
/// Errors of a run that are told.
const ERRORS_TOLD: usize = 20;

/// Does the steps that a job has for how a run of it ended; returns what failed. What was put aside or interrupted has not ended.
pub async fn after(job: &Job, run: &RunRow) -> Vec<String> {
    let steps = match run.result {
        Some(Ended::Succeeded) => &job.text.on_success,
        Some(Ended::Partial | Ended::Failed) => &job.text.on_failure,
        Some(Ended::PutAside | Ended::Interrupted | Ended::Stopped) | None => return Vec::new(),
    };
    let mut errors = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        if let Err(error) = one(job, run, step).await {
            tracing::warn!(job = %job.name, run = run.id, step = number + 1, %error, "a step failed");
            errors.push(format!("step {}: {}", number + 1, error.message()));
        }
    }
    errors
}

async fn one(job: &Job, run: &RunRow, step: &Step) -> Result<()> {
    let limit = |usual| step.timeout.as_ref().map_or(usual, |age| age.0);
    let told = told(run);
    if let Some(hook) = &step.notify {
        return hook::post(job.folder(), (&hook.0, step), told.to_string(), limit(TIMEOUT_HOOK)).await;
    }
    if !step.mail.is_empty() {
        let mail = job.mail.as_ref().ok_or_else(|| Error::invalid("the file says no more how mail is sent"))?;
        let to: Vec<&str> = step.mail.0.iter().map(Said::text).collect();
        let message = message(run, &to, mail.from.as_ref().map(Said::text));
        let sending = (&mail.command[..], None);
        return command::run(sending, job.folder(), &[], message.into_bytes(), limit(TIMEOUT_COMMAND)).await;
    }
    let result = run.result.map_or("", Ended::word);
    let environment = [
        ("HOLDFAST_JOB", run.job.clone()),
        ("HOLDFAST_RUN", run.id.to_string()),
        ("HOLDFAST_RESULT", result.to_owned()),
        ("HOLDFAST_FILES", run.done.files.to_string()),
        ("HOLDFAST_FAILED", run.done.failed.to_string()),
    ];
    let command = (&step.command[..], step.policy.as_deref());
    command::run(command, job.folder(), &environment, told.to_string().into_bytes(), limit(TIMEOUT_COMMAND)).await
}

/// What a hook and a command are told of a run.
pub fn told(run: &RunRow) -> Value {
    let mut run = run.clone();
    run.errors.truncate(ERRORS_TOLD);
    let time = |ms: i64| Timestamp::from_millisecond(ms).map(|at| at.to_string()).ok();
    json!({
        "job": run.job, "run": run.id, "result": run.result, "trigger": run.trigger, "attempt": run.attempt, "due": time(run.due_ms), "began": run.began_ms.and_then(time),
        "ended": run.ended_ms.and_then(time), "done": run.done, "errors": run.errors,
    })
}

/// A message of mail (RFC 5322). All that is not ASCII is in its body, which says so.
fn message(run: &RunRow, to: &[&str], from: Option<&str>) -> String {
    let result = run.result.map_or("", Ended::word);
    let mut text = String::new();
    if let Some(from) = from {
        let _ = writeln!(text, "From: {from}");
    }
    let _ = writeln!(text, "To: {}", to.join(", "));
    let _ = writeln!(text, "Subject: holdfast job {}: {result}", run.job);
    text.push_str("Auto-Submitted: auto-generated\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n");
    let done = &run.done;
    let _ = writeln!(text, "{} files and {} links arrived, {} bytes.", done.files, done.links, done.moved_bytes);
    let _ = writeln!(text, "{} were there already, {} were left out, {} failed.", done.same, done.skipped, done.failed);
    let _ = writeln!(text, "{} were removed at the destination, {} at the source.", done.deleted, done.deleted_source);
    if done.retries > 0 {
        let _ = writeln!(text, "{} tries were repeated.", done.retries);
    }
    if let Some(network) = done.network {
        let _ = writeln!(text, "The network at the end: {network}.");
    }
    for error in run.errors.iter().take(ERRORS_TOLD) {
        // One line each, of a length that mail can have.
        let line: String = error.chars().map(|c| if c.is_control() { ' ' } else { c }).take(800).collect();
        let _ = writeln!(text, "\n{line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carry::Done;
    use crate::file::{Loaded, Set};
    use crate::store::Trigger;
    use std::path::Path;
    use std::sync::Arc;

    fn run(result: Ended) -> RunRow {
        let (errors, done) = (vec!["/a\nBcc: x@y: gone".into()], Done { files: 2, ..Done::default() });
        RunRow {
            id: 7,
            job: "j".into(),
            trigger: Trigger::Schedule,
            due_ms: 0,
            began_ms: Some(0),
            ended_ms: Some(1),
            attempt: 0,
            result: Some(result),
            done,
            errors,
            step_errors: Vec::new(),
            order: crate::carry::Order::default(),
            by: String::new(),
        }
    }

    fn job(folder: &Path, steps: &str) -> Arc<Job> {
        let text = format!(
            "[mail]\ncommand = ['/bin/sh', '-c', 'cat > mail']\nfrom = 'a@example.org'\n[jobs.j]\nfrom = 'a'\nto = 'b'\n{steps}"
        );
        let loaded = Loaded::parse(folder.join("j.toml"), &text).expect("reads");
        Arc::clone(Set::of(&[loaded]).expect("fits").job("j").expect("is there"))
    }

    #[tokio::test]
    async fn commands_are_told_of_the_run_and_what_they_say_when_they_fail_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let steps = "on-success = [{ command = ['/bin/sh', '-c', 'echo $HOLDFAST_JOB $HOLDFAST_RESULT > said; cat > told; test -z \"$SECRET_OF_RUNNER\"'] },
            { command = ['/bin/sh', '-c', 'echo it is broken; exit 3'] }, { command = ['/no/such/program'] }]";
        let errors = after(&job(folder.path(), steps), &run(Ended::Succeeded)).await;
        assert_eq!(errors.len(), 2, "{errors:?}");
        assert!(
            errors[0].starts_with("step 2") && errors[0].contains("it is broken") && errors[0].contains('3'),
            "{errors:?}"
        );
        assert_eq!(std::fs::read_to_string(folder.path().join("said")).expect("is there"), "j succeeded\n");
        let told: Value =
            serde_json::from_slice(&std::fs::read(folder.path().join("told")).expect("is there")).expect("is JSON");
        assert_eq!((told["run"].as_i64(), told["done"]["files"].as_u64()), (Some(7), Some(2)));
    }

    #[tokio::test]
    async fn a_command_that_hangs_is_ended_with_all_that_it_started_and_one_that_talks_is_not_kept_in_memory() {
        let folder = tempfile::tempdir().expect("a folder");
        let steps =
            "on-failure = [{ command = ['/bin/sh', '-c', 'sleep 1000 & echo $! > child; wait'], timeout = '1s' },
            { command = ['/bin/sh', '-c', 'head -c 100000000 /dev/zero; exit 1'] }]";
        let errors = after(&job(folder.path(), steps), &run(Ended::Failed)).await;
        assert!(errors[0].contains("took longer than 1 s"), "{errors:?}");
        assert!(errors[1].len() < 10_000, "{}", errors[1].len());
        let child = std::fs::read_to_string(folder.path().join("child")).expect("is there");
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", child.trim())).ok();
        // It is gone, or waits for whoever takes over orphans to notice.
        while state().is_some_and(|state| !state.contains(") Z ")) {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn mail_has_the_result_and_no_name_of_a_file_adds_a_line_to_its_head() {
        let folder = tempfile::tempdir().expect("a folder");
        let errors = after(
            &job(folder.path(), "on-failure = [{ mail = ['ops@example.org', 'b@example.org'] }]"),
            &run(Ended::Partial),
        )
        .await;
        assert_eq!(errors, Vec::<String>::new());
        let mail = std::fs::read_to_string(folder.path().join("mail")).expect("is there");
        assert!(mail.contains("To: ops@example.org, b@example.org\nSubject: holdfast job j: partial\n"), "{mail}");
        assert!(!mail.lines().any(|line| line.starts_with("Bcc")), "{mail}");
    }

    #[tokio::test]
    async fn what_was_put_aside_has_not_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let job = job(folder.path(), "on-failure = [{ command = ['/no/such/program'] }]");
        assert_eq!(after(&job, &run(Ended::PutAside)).await, Vec::<String>::new());
    }
}
