//! Waiting for what should come soon.

use std::thread;
use std::time::{Duration, Instant};

use crate::Outcome;

/// How often it is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// How long it takes until something is so; an error if that is longer than `within`.
pub fn until(what: &str, within: Duration, mut so: impl FnMut() -> bool) -> Outcome<Duration> {
    let began = Instant::now();
    while !so() {
        if began.elapsed() > within {
            return Err(format!("within {within:?} it is not so that {what}").into());
        }
        thread::sleep(LOOK_INTERVAL);
    }
    Ok(began.elapsed())
}
