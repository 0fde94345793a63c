//! What follows from due times for a job that is not under way.

use super::Schedule;
use jiff::{SignedDuration, Timestamp};

/// What a job does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It is begun, for this due time. Those before it that were missed are passed over.
    Begin(Timestamp),
    /// All due times up to now were missed by more than the tolerance, and are passed over: decide anew.
    Pass,
    /// There is nothing to do until then.
    Wait(Timestamp),
    /// Nothing is due any more.
    Rest,
}

/// Decides, at `now`, for a job whose due times up to `dealt_with` are dealt with. In a window that is closed nothing begins; what came due meanwhile is as
/// if it were due when the window opens.
pub fn decide(schedule: &Schedule, tolerance: SignedDuration, dealt_with: Timestamp, now: Timestamp) -> Decision {
    // Hours that begin with a closed window are made up for when it opens.
    let late_until = |due: Timestamp| -> Timestamp {
        let opened = schedule.window.filter(|window| !window.is_open(&schedule.zone, due));
        let from = opened.and_then(|window| window.opens_after(&schedule.zone, due)).unwrap_or(due);
        from.checked_add(tolerance).unwrap_or(Timestamp::MAX)
    };
    if let Some(window) = schedule.window.filter(|window| !window.is_open(&schedule.zone, now)) {
        let opens = window.opens_after(&schedule.zone, now);
        return match (opens, schedule.next_after(dealt_with)) {
            (Some(opens), Some(due)) => Decision::Wait(opens.max(due)),
            _ => Decision::Rest,
        };
    }
    match schedule.latest_between(dealt_with, now) {
        Some(due) if now <= late_until(due) => Decision::Begin(due),
        Some(_) => Decision::Pass,
        None => schedule.next_after(dealt_with.max(now)).map_or(Decision::Rest, Decision::Wait),
    }
}
