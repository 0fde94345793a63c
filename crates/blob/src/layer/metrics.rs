//! Counts and times of every call, for Prometheus. Labels: `store` (its kind) and `op` (the operation's name).
//!
//! | metric | |
//! |---|---|
//! | `holdfast_store_calls_total` | calls that ended, well or not |
//! | `holdfast_store_call_seconds` | histogram of how long they took |
//! | `holdfast_store_bytes_total` | bytes of packs put, appended and read by calls that succeeded |
//! | `holdfast_store_calls_running` | calls running now |
//! | `holdfast_store_failures_total` | calls that failed, with a label `error` for its kind |
//!
//! The first four are looked up once, when the layer is made, because a read from the page cache takes hardly longer
//! than a look-up; so the recorder has to be installed before.

use super::{Around, Call, Operation};
use holdfast_base::{Error, Result};
use metrics::{Counter, Gauge, Histogram};
use std::time::Instant;

/// The layer.
pub struct Metrics {
    kind: &'static str,
    operations: [OfOperation; Operation::ALL.len()],
}

struct OfOperation {
    calls: Counter,
    bytes: Counter,
    seconds: Histogram,
    running: Gauge,
}

impl Metrics {
    /// A layer around a store of this kind.
    pub fn new(kind: &'static str) -> Self {
        let operations = Operation::ALL.map(|operation| {
            let op = operation.name();
            OfOperation {
                calls: metrics::counter!("holdfast_store_calls_total", "store" => kind, "op" => op),
                bytes: metrics::counter!("holdfast_store_bytes_total", "store" => kind, "op" => op),
                seconds: metrics::histogram!("holdfast_store_call_seconds", "store" => kind, "op" => op),
                running: metrics::gauge!("holdfast_store_calls_running", "store" => kind, "op" => op),
            }
        });
        Self { kind, operations }
    }

    fn count_failure(&self, operation: Operation, error: &Error) {
        // The kind's name without its fields.
        let kind = format!("{:?}", error.kind());
        let kind = kind.split(' ').next().unwrap_or_default().to_owned();
        let labels = [("store", self.kind.to_owned()), ("op", operation.name().to_owned()), ("error", kind)];
        metrics::counter!("holdfast_store_failures_total", &labels).increment(1);
    }
}

/// A call that runs; counted when it ends, also if it is abandoned.
struct Running<'a> {
    of: &'a OfOperation,
    begun: Instant,
}

impl<'a> Running<'a> {
    fn begin(of: &'a OfOperation) -> Self {
        of.running.increment(1.0);
        Self { of, begun: Instant::now() }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.of.running.decrement(1.0);
        self.of.calls.increment(1);
        self.of.seconds.record(self.begun.elapsed().as_secs_f64());
    }
}

impl Around for Metrics {
    async fn around<T, F>(&self, call: Call, mut work: impl FnMut() -> F + Send) -> Result<T>
    where
        T: Send,
        F: Future<Output = Result<T>> + Send,
    {
        let of = &self.operations[call.operation as usize];
        let running = Running::begin(of);
        let result = work().await;
        drop(running);
        match &result {
            Ok(_) => of.bytes.increment(call.bytes),
            Err(error) => self.count_failure(call.operation, error),
        }
        result
    }
}
