//! A bound on the calls a store works on at once. The rest wait in the order they came; how many is in the metric
//! `holdfast_store_calls_waiting`. An appender holds a place only while a call on it runs, so appenders cannot block
//! each other.

use super::{Around, Call};
use holdfast_base::{Error, Result};
use metrics::Gauge;
use tokio::sync::Semaphore;

/// How many calls may run at once.
#[derive(Debug, Clone, Copy)]
pub struct Concurrency {
    /// The number of calls.
    pub calls_max: usize,
}

impl Default for Concurrency {
    /// Twice what keeps a fast disk or a distant object store busy, and well below the 512 threads on which tokio
    /// runs calls that block.
    fn default() -> Self {
        Self { calls_max: 128 }
    }
}

/// The layer.
pub struct Limit {
    places: Semaphore,
    waiting: Gauge,
}

impl Limit {
    /// A layer around a store of this kind.
    pub fn new(kind: &'static str, concurrency: Concurrency) -> Self {
        let waiting = metrics::gauge!("holdfast_store_calls_waiting", "store" => kind);
        Self { places: Semaphore::new(concurrency.calls_max), waiting }
    }
}

/// Counts a call as waiting, until it runs or is abandoned.
struct Waiting<'a>(&'a Gauge);

impl<'a> Waiting<'a> {
    fn begin(gauge: &'a Gauge) -> Self {
        gauge.increment(1.0);
        Self(gauge)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

impl Around for Limit {
    async fn around<T, F>(&self, _call: Call, mut work: impl FnMut() -> F + Send) -> Result<T>
    where
        T: Send,
        F: Future<Output = Result<T>> + Send,
    {
        let place = if let Ok(place) = self.places.try_acquire() {
            Ok(place)
        } else {
            let _waiting = Waiting::begin(&self.waiting);
            self.places.acquire().await
        };
        let _place = place.map_err(|closed| Error::internal("the pack store's queue is closed").with_source(closed))?;
        work().await
    }
}
