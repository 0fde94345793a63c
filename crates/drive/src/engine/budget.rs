//! Memory for content, bounded: a [`Budget`] that is waited for, and [`Buffer`]s that are reused.
//!
//! Every buffer that holds content of an upload or a download is taken from a budget, one for each direction so that slow readers
//! cannot stop writers. Whoever would go over waits; whoever holds gives back by dropping. Nobody may wait while holding what
//! only they themselves can give back, or all of them wait for each other: an upload stages the plaintext it holds before it
//! waits, a download takes its buffers in the order of its blocks. A buffer keeps its allocation
//! when it returns: on a virtual machine the first touch of a fresh page costs more than sealing it does.

use holdfast_base::limits::BLOCK_BYTES;
use holdfast_seal::block::RECORD_OVERHEAD_BYTES;
use std::sync::{Arc, Mutex};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A permit's worth of bytes: small files take one, a block of 1 MiB takes 17.
const UNIT_BYTES: usize = 64 * 1_024;
/// Capacity a pooled buffer has: a whole record of a block, plus what zstd may need beyond it before it gives up.
pub(crate) const BUFFER_BYTES: usize = BLOCK_BYTES + RECORD_OVERHEAD_BYTES + BLOCK_BYTES / 128;

/// Bytes of content that may be in memory at once.
#[derive(Clone)]
pub(crate) struct Budget {
    permits: Arc<Semaphore>,
    units: usize,
    pool: Arc<Pool>,
    name: &'static str,
}

/// Buffers that wait to be used again.
struct Pool {
    spare: Mutex<Vec<Vec<u8>>>,
    spare_max: usize,
}

impl Budget {
    /// A budget of `bytes`, of which `spare_max` block buffers at most are kept when nobody uses them.
    pub(crate) fn new(name: &'static str, bytes: usize, spare_max: usize) -> Self {
        let units = bytes / UNIT_BYTES;
        let pool = Pool { spare: Mutex::default(), spare_max };
        Self { permits: Arc::new(Semaphore::new(units)), units, pool: Arc::new(pool), name }
    }

    /// Waits for room for `bytes` (at most one block) and hands out a buffer for them. Whoever had it before may have left bytes in it:
    /// a reader fills it without paying for zeros first, a writer clears it.
    pub(crate) async fn take(&self, bytes: usize) -> Buffer {
        let permit = self.permits.clone().acquire_many_owned(self.units_of(bytes)).await.ok();
        self.buffer(bytes, permit)
    }

    /// The same if there is room now.
    pub(crate) fn try_take(&self, bytes: usize) -> Option<Buffer> {
        let permit = self.permits.clone().try_acquire_many_owned(self.units_of(bytes)).ok()?;
        Some(self.buffer(bytes, Some(permit)))
    }

    fn units_of(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT_BYTES).clamp(1, self.units)).unwrap_or(u32::MAX)
    }

    fn buffer(&self, bytes: usize, permit: Option<OwnedSemaphorePermit>) -> Buffer {
        self.report();
        let bytes = if bytes > UNIT_BYTES { self.pool.take() } else { Vec::with_capacity(bytes) };
        Buffer { bytes, pool: self.pool.clone(), permit }
    }

    fn report(&self) {
        let used = (self.units - self.permits.available_permits()) * UNIT_BYTES;
        metrics::gauge!("holdfast_memory_budget_used_bytes", "budget" => self.name).set(used as f64);
        metrics::gauge!("holdfast_memory_budget_bytes", "budget" => self.name).set((self.units * UNIT_BYTES) as f64);
    }
}

impl Pool {
    fn take(&self) -> Vec<u8> {
        let spare = self.spare.lock().ok().and_then(|mut spare| spare.pop());
        spare.unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES))
    }

    fn give(&self, bytes: Vec<u8>) {
        if bytes.capacity() < BLOCK_BYTES || bytes.capacity() > 2 * BUFFER_BYTES {
            return;
        }
        if let Ok(mut spare) = self.spare.lock()
            && spare.len() < self.spare_max
        {
            spare.push(bytes);
        }
    }
}

/// Content in memory; gives its allocation and its share of the budget back when dropped.
pub(crate) struct Buffer {
    /// The bytes.
    pub(crate) bytes: Vec<u8>,
    pool: Arc<Pool>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Buffer {
    /// The same share of the budget around other bytes; the allocation before goes to whoever called.
    pub(crate) fn replace(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        std::mem::replace(&mut self.bytes, bytes)
    }

    /// The bytes from `start` on, as [`bytes::Bytes`] that give everything back when the last of them is dropped.
    pub(crate) fn into_bytes(self, range: std::ops::Range<usize>) -> bytes::Bytes {
        bytes::Bytes::from_owner(self).slice(range)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.pool.give(std::mem::take(&mut self.bytes));
        self.permit.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn whoever_would_go_over_the_budget_waits_until_another_gives_back() {
        let budget = Budget::new("test", 4 * UNIT_BYTES, 1);
        let first = budget.take(3 * UNIT_BYTES).await;
        let mut second = Box::pin(budget.take(2 * UNIT_BYTES));
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        assert!(second.now_or_never().is_some());
    }

    #[tokio::test]
    async fn bytes_handed_out_hold_their_share_until_the_last_is_dropped() {
        let budget = Budget::new("test", UNIT_BYTES, 1);
        let mut buffer = budget.take(10).await;
        buffer.bytes.extend_from_slice(b"0123456789");
        let bytes = buffer.into_bytes(2..5);
        assert_eq!(bytes, "234"[..]);
        assert!(budget.take(1).now_or_never().is_none());
        drop(bytes);
        assert!(budget.take(1).now_or_never().is_some());
    }
}
