//! Trying again what failed for a passing reason, a bounded number of times.
//!
//! Only calls that are the same done twice ([`super::Operation::is_idempotent`]) and only errors that may pass by
//! themselves ([`holdfast_base::Error::is_temporary`]). Never a put, an append or a sync: after a failed sync the
//! kernel may have dropped the bytes, and a second one that succeeds would be a lie.
//!
//! Waits double from try to try and are drawn from their upper half, so that many callers that failed together do not
//! come back together. A store that says when to come back is believed, up to the longest wait.

use super::{Around, Call};
use holdfast_base::{Error, ErrorKind, Result};
use metrics::Counter;
use std::time::Duration;

/// How often and how fast to try again.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// Tries in all, the first included; at least one.
    pub tries_max: u32,
    /// The wait after the first try.
    pub first_wait: Duration,
    /// The longest wait.
    pub wait_max: Duration,
}

impl Default for Policy {
    /// Three more tries within about a third of a second: enough for a dropped connection, short enough that a person
    /// who waits for a page gets the error while still there.
    fn default() -> Self {
        Self { tries_max: 4, first_wait: Duration::from_millis(50), wait_max: Duration::from_secs(5) }
    }
}

/// The layer.
pub struct Retry {
    policy: Policy,
    retries: Counter,
}

impl Retry {
    /// A layer around a store of this kind.
    pub fn new(kind: &'static str, policy: Policy) -> Self {
        Self { policy, retries: metrics::counter!("holdfast_store_retries_total", "store" => kind) }
    }

    /// The wait after try number `tries`, from 1.
    fn wait(&self, tries: u32, error: &Error) -> Duration {
        let doubled = 2u32.saturating_pow(tries.saturating_sub(1));
        let wait = self.policy.first_wait.saturating_mul(doubled).min(self.policy.wait_max);
        let jittered = wait.mul_f64(rand::random_range(0.5..=1.0));
        match error.kind() {
            ErrorKind::TooManyRequests { retry_after_s } => {
                jittered.max(Duration::from_secs(retry_after_s.into())).min(self.policy.wait_max)
            }
            _ => jittered,
        }
    }
}

impl Retry {
    /// Calls `work` until it succeeds, fails for good, or was tried often enough. For work that is the same done twice.
    pub(crate) async fn persist<T, F>(&self, doing: &'static str, mut work: impl FnMut() -> F + Send) -> Result<T>
    where
        T: Send,
        F: Future<Output = Result<T>> + Send,
    {
        let mut tries = 1;
        loop {
            let error = match work().await {
                Err(error) if error.is_temporary() => error,
                other => return other,
            };
            if tries >= self.policy.tries_max {
                return Err(error);
            }
            let wait = self.wait(tries, &error);
            tracing::warn!(operation = doing, tries, wait_ms = wait.as_millis(), ?error, "will try again");
            self.retries.increment(1);
            tokio::time::sleep(wait).await;
            tries += 1;
        }
    }
}

impl Around for Retry {
    async fn around<T, F>(&self, call: Call, mut work: impl FnMut() -> F + Send) -> Result<T>
    where
        T: Send,
        F: Future<Output = Result<T>> + Send,
    {
        if call.operation.is_idempotent() { self.persist(call.operation.name(), work).await } else { work().await }
    }
}
