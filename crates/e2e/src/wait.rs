//! Waiting for what should come soon.

use std::sync::atomic::{AtomicBool, Ordering};
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

/// Says at its end that something is over, also where a test panics or returns early: scoped threads that go on until then would be waited for
/// without end.
#[derive(Debug)]
pub struct Over<'f>(pub &'f AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
