//! What follows a run, and what ends one.

use super::inbox::Taken;
use super::keep::SLEEP_MAX;
use super::mailbox::Order as Mail;
use super::perform::{Host, Wanted};
use crate::carry::Ended;
use crate::file::Job;
use crate::store::{RunRow, Trigger};
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;
use tokio::sync::watch;

/// Pauses before another try of a run, unless the job says.
const RETRY_FIRST: Duration = Duration::from_mins(1);
const RETRY_LONGEST: Duration = Duration::from_hours(1);

/// A run that is to be, when it may begin, and the order that it is of.
pub(super) struct Pending {
    pub(super) at: Timestamp,
    pub(super) wanted: Wanted,
    pub(super) taken: Option<Taken>,
    /// The mail that it is of.
    pub(super) mail: Option<Mail>,
}

impl Pending {
    /// A run that nothing but its time made.
    pub(super) fn new(at: Timestamp, wanted: Wanted) -> Self {
        Self { at, wanted, taken: None, mail: None }
    }
}

/// The next time that the job's window opens.
pub(super) fn opens(job: &Job, now: Timestamp) -> Option<Timestamp> {
    job.schedule.window.and_then(|window| window.opens_after(&job.schedule.zone, now))
}

/// The run that follows one: another try of what failed, or the rest of what was put aside or interrupted.
pub(super) fn left(job: &Job, last: &RunRow, now: Timestamp) -> Option<Pending> {
    let due = Timestamp::from_millisecond(last.due_ms).ok()?;
    let wanted = |trigger, attempt| Wanted {
        attempt,
        order: last.order.clone(),
        by: last.by.clone(),
        ..Wanted::all(trigger, due)
    };
    match last.result? {
        Ended::Succeeded | Ended::Stopped => None,
        Ended::PutAside => Some(Pending::new(now, wanted(Trigger::Resume, last.attempt))),
        Ended::Interrupted => {
            let tolerance = SignedDuration::try_from(job.tolerance()).unwrap_or(SignedDuration::MAX);
            let late = due.checked_add(tolerance).is_ok_and(|until| until < now);
            (!late).then(|| Pending::new(now, wanted(Trigger::Resume, last.attempt)))
        }
        Ended::Partial | Ended::Failed => {
            let retries = job.text.retries.as_ref().filter(|retries| last.attempt < u32::from(retries.count))?;
            let first = retries.first.as_ref().map_or(RETRY_FIRST, |age| age.0);
            let longest = retries.longest.as_ref().map_or(RETRY_LONGEST, |age| age.0);
            let pause = first.saturating_mul(1 << last.attempt.min(20)).min(longest);
            let ended = Timestamp::from_millisecond(last.ended_ms?).ok()?;
            let at = ended.checked_add(SignedDuration::try_from(pause).ok()?).ok()?;
            Some(Pending::new(at, wanted(Trigger::Retry, last.attempt + 1)))
        }
    }
}

/// Tells a run to stop when the runner is, when somebody stops the run, or when the job's window closes, if that holds for it.
pub(super) async fn until_over(
    host: &Host,
    job: &Job,
    (mut stop, mut cancel): (watch::Receiver<bool>, watch::Receiver<bool>),
    windowed: bool,
    tell: watch::Sender<bool>,
) -> std::convert::Infallible {
    let closed = async {
        let (schedule, begun) = (&job.schedule, host.now());
        let window = schedule.window.filter(|_| windowed);
        let Some(closes) = window.and_then(|window| window.closes_after(&schedule.zone, begun)) else {
            return std::future::pending().await;
        };
        while let Some(left) = Duration::try_from(closes.duration_since(host.now())).ok().filter(|left| !left.is_zero())
        {
            tokio::time::sleep(left.min(SLEEP_MAX)).await;
        }
    };
    tokio::select! {
        _ = stop.wait_for(|stop| *stop) => {}
        Ok(_) = cancel.wait_for(|cancel| *cancel) => {}
        () = closed => {}
    }
    tell.send_replace(true);
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carry::{Done, Order};
    use crate::file::{Loaded, Set};
    use crate::limit::Limits;
    use crate::runner::State;
    use holdfast_base::ManualClock;
    use std::sync::Arc;

    fn job(more: &str) -> Arc<Job> {
        let text = format!("[jobs.j]\nfrom = 'a'\nto = 'b'\ntime-zone = 'UTC'\n{more}");
        let set = Set::of(&[Loaded::parse("/j.toml".into(), &text).expect("reads")]).expect("fits");
        Arc::clone(set.job("j").expect("is there"))
    }

    fn ended(result: Ended, attempt: u32) -> RunRow {
        let (done, errors, step_errors) = (Done::default(), Vec::new(), Vec::new());
        let (result, ended_ms) = (Some(result), Some(60_000));
        RunRow {
            id: 1,
            job: "j".into(),
            trigger: Trigger::Schedule,
            due_ms: 0,
            began_ms: Some(1),
            ended_ms,
            attempt,
            result,
            done,
            errors,
            step_errors,
            order: Order::default(),
            by: String::new(),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn follows(job: &Job, last: &RunRow, now: i64) -> Option<(i64, Trigger, u32)> {
        left(job, last, at(now)).map(|next| (next.at.as_second(), next.wanted.trigger, next.wanted.attempt))
    }

    #[test]
    fn what_failed_is_tried_again_with_pauses_that_double_as_often_as_is_said() {
        let tried = job("retries = { count = 3, first = '1m', longest = '3m' }");
        for (attempt, pause) in [(0, 60), (1, 120), (2, 180)] {
            let next = follows(&tried, &ended(Ended::Partial, attempt), 61);
            assert_eq!(next, Some((60 + pause, Trigger::Retry, attempt + 1)));
        }
        assert_eq!(follows(&tried, &ended(Ended::Failed, 3), 61), None);
        assert_eq!(follows(&job(""), &ended(Ended::Failed, 0), 61), None);
        assert_eq!(follows(&tried, &ended(Ended::Succeeded, 0), 61), None);
    }

    #[test]
    fn what_was_interrupted_goes_on_within_the_tolerance_and_what_was_put_aside_always() {
        let job = job("tolerance = '2m'");
        assert_eq!(follows(&job, &ended(Ended::Interrupted, 1), 120), Some((120, Trigger::Resume, 1)));
        assert_eq!(follows(&job, &ended(Ended::Interrupted, 1), 121), None);
        assert_eq!(follows(&job, &ended(Ended::PutAside, 0), 999_999), Some((999_999, Trigger::Resume, 0)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_is_told_to_stop_when_its_window_closes_and_not_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = State::open(folder.path()).expect("opens");
        // 05:59 of the first day.
        let clock = Arc::new(ManualClock::new((6 * 3_600 - 60) * 1_000));
        let store = Arc::new(state.store().expect("opens"));
        let host =
            Host { state: Some(state), store, limits: Limits::default(), clock: Arc::<ManualClock>::clone(&clock) };
        let (_quit, quitting) = watch::channel(false);
        let (_cancel, cancelling) = watch::channel(false);
        let (tell, mut told) = watch::channel(false);
        let job = job("window = '22:00-06:00'");
        let waiting = tokio::spawn(async move { until_over(&host, &job, (quitting, cancelling), true, tell).await });
        tokio::time::sleep(Duration::from_hours(1)).await;
        assert!(!*told.borrow(), "the clock stands still");
        clock.advance(60_000);
        told.changed().await.expect("is told");
        assert!(*told.borrow());
        waiting.abort();
    }
}
