//! What a job would do: when it runs next.

use crate::file::Job;
use jiff::{Timestamp, ZonedDateTime};

/// Due times that are shown.
pub const SHOWN: usize = 10;

/// The next times a job begins, if nothing holds it up: due times outside of its window are those at which that opens.
pub fn next_times(job: &Job, now: Timestamp) -> Vec<ZonedDateTime> {
    let schedule = &job.schedule;
    let begins = |due: Timestamp| match schedule.window.filter(|window| !window.is_open(&schedule.zone, due)) {
        Some(window) => window.opens_after(&schedule.zone, due),
        None => Some(due),
    };
    let next = |after: &Timestamp| schedule.next_after(*after).and_then(begins);
    let times = std::iter::successors(next(&now), next);
    times.take(SHOWN).map(|at| at.to_zoned_datetime(schedule.zone.clone())).collect()
}
