//! Transfers that a server runs: what ran, and what was asked for.

use crate::catalogue::Catalogue;
use crate::cluster::{InstanceId, NewInstance};
use crate::types::{JOB_RUNS_MAX, JOB_WISHES_MAX, JOBS_LEASE, JobBegin, JobEnd, JobRun, NewJobRun, WhichJobRuns};
use holdfast_base::{ErrorKind, Uid};
use std::sync::Arc;

type Place = Arc<dyn Catalogue>;

fn new(job: &str, due_ms: i64) -> NewJobRun {
    let text = |text: &str| text.to_owned();
    NewJobRun {
        job: text(job),
        cause: text("schedule"),
        by: text("ana"),
        wish: text("{\"x\":1}"),
        due_ms,
        attempt: 2,
        done: text("{}"),
    }
}

fn end(ended_ms: i64) -> JobEnd {
    JobEnd { ended_ms, result: "partial".into(), done: "{\"files\":3}".into(), errors: "[\"gone\"]".into() }
}

fn at(due_ms: i64) -> JobBegin {
    JobBegin { began_ms: due_ms + 1, dealt_with_ms: Some(due_ms), asked: None }
}

async fn some(catalogue: &Place, which: WhichJobRuns) -> Vec<JobRun> {
    catalogue.job_runs(which).await.expect("reads")
}

async fn ids(catalogue: &Place, which: WhichJobRuns) -> Vec<i64> {
    some(catalogue, which).await.iter().map(|run| run.id).collect()
}

pub async fn a_run_is_followed_from_its_beginning_to_the_last_of_its_steps(catalogue: &Place) {
    assert_eq!(catalogue.job_dealt_with("a").await.expect("reads"), None);
    catalogue.deal_with_job(None, "a", 5).await.expect("writes");
    let first = catalogue.begin_job(None, new("a", 10), at(10)).await.expect("begins");
    let second = catalogue.begin_job(None, new("b", 20), at(20)).await.expect("begins");
    assert!(second > first);
    assert_eq!(catalogue.job_dealt_with("a").await.expect("reads"), Some(10));
    assert_eq!(ids(catalogue, WhichJobRuns::Unfinished).await, [first, second]);
    catalogue.note_job(None, first, "{\"files\":1}").await.expect("writes");
    catalogue.end_job(None, second, end(30)).await.expect("ends");
    assert_eq!(ids(catalogue, WhichJobRuns::Unfinished).await, [first]);
    assert_eq!(ids(catalogue, WhichJobRuns::Owing).await, [second]);
    catalogue.job_steps_done(None, second, "[\"no\"]").await.expect("writes");
    assert_eq!(ids(catalogue, WhichJobRuns::Owing).await, []);
    assert_eq!(ids(catalogue, WhichJobRuns::Last).await, [first, second]);
    assert_eq!(ids(catalogue, WhichJobRuns::LastEnded).await, [second]);
    let run = some(catalogue, WhichJobRuns::One(second)).await.remove(0);
    let NewJobRun { job, cause, by, wish, due_ms, attempt, .. } = new("b", 20);
    let JobEnd { ended_ms, result, done, errors } = end(30);
    let (began_ms, ended_ms, result) = (Some(21), Some(ended_ms), Some(result));
    let step_errors = "[\"no\"]".to_owned();
    let whole = JobRun {
        id: second,
        job,
        cause,
        by,
        wish,
        due_ms,
        began_ms,
        ended_ms,
        attempt,
        result,
        done,
        errors,
        step_errors,
    };
    assert_eq!(run, whole);
    assert_eq!(some(catalogue, WhichJobRuns::One(first)).await[0].done, "{\"files\":1}");
    // What has ended stays as it is.
    catalogue.note_job(None, second, "late").await.expect("is passed over");
    catalogue.end_job(None, second, end(99)).await.expect("is passed over");
    assert_eq!(some(catalogue, WhichJobRuns::One(second)).await, [JobRun { ..whole }]);
}

pub async fn a_time_is_dealt_with_once(catalogue: &Place) {
    catalogue.begin_job(None, new("a", 10), at(10)).await.expect("begins");
    for due in [10, 9] {
        let twice = catalogue.begin_job(None, new("a", due), at(due)).await.expect_err("was dealt with");
        assert_eq!(twice.kind(), ErrorKind::Conflict);
    }
    assert_eq!(ids(catalogue, WhichJobRuns::Unfinished).await.len(), 1, "what was refused left nothing");
    catalogue.begin_job(None, new("b", 10), at(10)).await.expect("is another job");
    let again = JobBegin { began_ms: 11, ..JobBegin::default() };
    catalogue.begin_job(None, new("a", 10), again).await.expect("is another try of it");
    assert_eq!(catalogue.job_dealt_with("a").await.expect("reads"), Some(10));
}

pub async fn what_is_asked_for_is_begun_once_or_taken_back(catalogue: &Place) {
    let mut asked = Vec::new();
    for due in 0..JOB_WISHES_MAX {
        asked.push(catalogue.ask_for_job(new("a", i64::try_from(due).expect("fits"))).await.expect("asks"));
    }
    let more = catalogue.ask_for_job(new("a", 99)).await.expect_err("is too much");
    assert_eq!(more.kind(), ErrorKind::Conflict);
    assert_eq!(ids(catalogue, WhichJobRuns::Asked).await, asked);
    let begin = |id| JobBegin { began_ms: 50, dealt_with_ms: None, asked: Some(id) };
    let first = catalogue.begin_job(None, new("a", 0), begin(asked[0])).await.expect("begins");
    assert_eq!(first, asked[0]);
    let twice = catalogue.begin_job(None, new("a", 0), begin(asked[0])).await.expect_err("is under way");
    assert_eq!(twice.kind(), ErrorKind::Conflict);
    // What was asked for first may begin last.
    let latest = |limit| WhichJobRuns::Begun { job: "a".into(), limit };
    let later = catalogue.begin_job(None, new("a", 40), at(40)).await.expect("begins");
    assert_eq!(ids(catalogue, latest(9)).await, [asked[0], later]);
    assert_eq!(ids(catalogue, latest(1)).await, [asked[0]]);
    catalogue.end_job(None, later, end(45)).await.expect("ends");
    catalogue.job_steps_done(None, later, "[]").await.expect("writes");
    assert!(catalogue.stop_job(asked[1], end(60)).await.expect("stops"));
    let gone = catalogue.begin_job(None, new("a", 0), begin(asked[1])).await.expect_err("was taken back");
    assert_eq!(gone.kind(), ErrorKind::Conflict);
    assert_eq!(ids(catalogue, WhichJobRuns::Asked).await, asked[2..]);
    assert_eq!(ids(catalogue, WhichJobRuns::Owing).await, [], "what never began owes nothing");
    // What is under way is told to end, and ends when whoever runs it says so.
    assert!(catalogue.stop_job(asked[0], end(60)).await.expect("stops"));
    assert_eq!(ids(catalogue, WhichJobRuns::Stopping).await, [asked[0]]);
    assert_eq!(ids(catalogue, WhichJobRuns::Unfinished).await, [asked[0]]);
    catalogue.end_job(None, asked[0], end(70)).await.expect("ends");
    assert_eq!(ids(catalogue, WhichJobRuns::Stopping).await, []);
    assert!(!catalogue.stop_job(asked[0], end(80)).await.expect("looks"), "it has ended");
    assert!(!catalogue.stop_job(i64::MAX, end(80)).await.expect("looks"), "there is none");
}

pub async fn the_history_of_a_job_is_bounded_and_comes_in_pages(catalogue: &Place) {
    let open = catalogue.begin_job(None, new("a", 0), at(0)).await.expect("begins");
    for due in 1..=i64::try_from(JOB_RUNS_MAX).expect("fits") + 5 {
        let id = catalogue.begin_job(None, new("a", due), at(due)).await.expect("begins");
        catalogue.end_job(None, id, end(due)).await.expect("ends");
        catalogue.job_steps_done(None, id, "[]").await.expect("writes");
    }
    let page = |before| WhichJobRuns::Of { job: Some("a".into()), before, limit: 400 };
    let (mut before, mut all) = (None, Vec::new());
    loop {
        let found = ids(catalogue, page(before)).await;
        let Some(last) = found.last() else { break };
        before = Some(*last);
        all.extend(found);
    }
    assert!(all.is_sorted_by(|one, next| one > next) && all.last() == Some(&open), "an open one is kept");
    assert!(all.len() <= JOB_RUNS_MAX + 2, "{}", all.len());
    assert_eq!(ids(catalogue, WhichJobRuns::Of { job: None, before: None, limit: 1 }).await, all[..1]);
    assert_eq!(ids(catalogue, WhichJobRuns::Of { job: Some("b".into()), before: None, limit: 1 }).await, []);
}

pub async fn who_lost_the_lease_changes_nothing(catalogue: &Place) {
    let join = |number| NewInstance { uid: Uid([number; 16]), name: number.to_string(), version: "1".into() };
    let one = catalogue.join(join(1)).await.expect("joins").id;
    let refused = async |holder: InstanceId| {
        let holder = Some(holder);
        let errors = [
            catalogue.deal_with_job(holder, "a", 99).await.err(),
            catalogue.begin_job(holder, new("a", 99), at(99)).await.err(),
            catalogue.note_job(holder, 1, "x").await.err(),
            catalogue.end_job(holder, 1, end(99)).await.err(),
            catalogue.job_steps_done(holder, 1, "x").await.err(),
        ];
        errors.iter().all(|error| error.as_ref().is_some_and(|error| error.kind() == ErrorKind::Unavailable))
    };
    assert!(refused(one).await, "it has no lease");
    assert!(catalogue.take_lease(JOBS_LEASE, one, 60_000).await.expect("takes").is_some());
    catalogue.begin_job(Some(one), new("a", 10), at(10)).await.expect("begins");
    assert!(catalogue.take_lease(JOBS_LEASE, one, 0).await.expect("gives back").is_some());
    assert!(refused(one).await, "the lease has ended");
    assert_eq!(catalogue.job_dealt_with("a").await.expect("reads"), Some(10));
}
