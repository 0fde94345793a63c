//! A time limit for each call: a fixed part, and a part for the bytes it moves at the slowest rate worth waiting for.
//!
//! A call that runs out of time is abandoned, which is not the same as undone: a put may still appear, and an append's
//! bytes may still land. The back ends are made for that (a name is never used twice; an appender ends).

use super::{Around, Call};
use holdfast_base::{Error, ErrorKind, Result};
use std::time::Duration;

/// How long a call may take.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// The fixed part.
    pub base: Duration,
    /// The slowest rate, in bytes a second.
    pub bytes_per_second_min: u64,
}

impl Default for Times {
    /// A disk that spins up or resets its bus is back within 30 seconds, which is also the kernel's own limit for a
    /// disk command; below 256 KiB/s an upload through the drive would be given up by its client anyway.
    fn default() -> Self {
        Self { base: Duration::from_secs(30), bytes_per_second_min: 256 << 10 }
    }
}

/// The layer.
#[derive(Debug)]
pub struct Timeout {
    times: Times,
}

impl Timeout {
    /// A layer with these times.
    pub const fn new(times: Times) -> Self {
        Self { times }
    }

    fn limit(&self, bytes: u64) -> Duration {
        self.times.base + Duration::from_secs(bytes.div_ceil(self.times.bytes_per_second_min.max(1)))
    }
}

impl Around for Timeout {
    async fn around<T, F>(&self, call: Call, mut work: impl FnMut() -> F + Send) -> Result<T>
    where
        T: Send,
        F: Future<Output = Result<T>> + Send,
    {
        let limit = self.limit(call.bytes);
        tokio::time::timeout(limit, work()).await.unwrap_or_else(|_| {
            let seconds = limit.as_secs();
            let message = format!("the pack store did not {} within {seconds} seconds", call.operation.name());
            Err(Error::new(ErrorKind::Timeout, message))
        })
    }
}
