//! Memory for content, bounded: [`Region`]s that are waited for, and [`Buffer`]s that are reused.
//!
//! Every buffer that holds content of an upload or a download has a share ([`Hold`]) of a region. Uploads and downloads have regions of
//! their own, and each direction has two kinds, half of its budget each, which is what keeps slow clients from stopping fast ones:
//!
//! - *client-bound*: the share comes back when a client's network allows. Nobody waits for such a region without a limit: where
//!   it has no room, a download hands out small copies and an upload goes to the disk ([`super::spill`]);
//! - *working*: the share comes back by itself, when the disk and the processor have done their work. Whoever would go over
//!   waits, and may hold anything client-bound meanwhile, but nothing of the same region. (Where a pack is in memory until it is an
//!   object, the packer ends it before its records have more than half of the region.)
//!
//! A buffer keeps its allocation when it returns: on a virtual machine the first touch of a fresh page costs more than sealing
//! it does.

use super::cache::Cache;
use super::copies::Copies;
use super::records::Records;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_seal::block::RECORD_OVERHEAD_BYTES;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A permit's worth of bytes where whole blocks are held: small files take one, a block of 1 MiB takes 17.
pub(crate) const UNIT_BYTES: usize = 64 * 1_024;
/// Capacity a pooled buffer has: a whole record of a block, plus what zstd may need beyond it before it gives up.
pub(crate) const BUFFER_BYTES: usize = BLOCK_BYTES + RECORD_OVERHEAD_BYTES + BLOCK_BYTES / 128;

/// Buffers up to this size are allocated as large as they need be; larger ones are a pool's and have room for a block.
const UNPOOLED_BYTES_MAX: usize = BLOCK_BYTES / 2;

/// The share that a buffer for `bytes` bytes takes.
pub(crate) const fn share_bytes(bytes: usize) -> usize {
    if bytes > UNPOOLED_BYTES_MAX && bytes < BUFFER_BYTES { BUFFER_BYTES } else { bytes }
}

/// What one direction holds, for the metrics.
pub(crate) struct Meter {
    budget: &'static str,
    bytes_max: usize,
    used: AtomicUsize,
    client_bound: AtomicUsize,
}

impl Meter {
    pub(crate) fn new(budget: &'static str, bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { budget, bytes_max, used: AtomicUsize::new(0), client_bound: AtomicUsize::new(0) })
    }

    fn add(&self, bytes: usize, client_bound: bool) {
        let bound = if client_bound { bytes } else { 0 };
        let used = self.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.report(used, self.client_bound.fetch_add(bound, Ordering::Relaxed) + bound);
    }

    fn subtract(&self, bytes: usize, client_bound: bool) {
        let bound = if client_bound { bytes } else { 0 };
        let used = self.used.fetch_sub(bytes, Ordering::Relaxed).saturating_sub(bytes);
        self.report(used, self.client_bound.fetch_sub(bound, Ordering::Relaxed).saturating_sub(bound));
    }

    fn report(&self, used: usize, client_bound: usize) {
        metrics::gauge!("holdfast_memory_budget_bytes", "budget" => self.budget).set(self.bytes_max as f64);
        metrics::gauge!("holdfast_memory_budget_used_bytes", "budget" => self.budget).set(used as f64);
        metrics::gauge!("holdfast_memory_client_bound_bytes", "budget" => self.budget).set(client_bound as f64);
    }
}

/// A part of a budget. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Region {
    permits: Arc<Semaphore>,
    units: usize,
    unit_bytes: usize,
    client_bound: bool,
    meter: Arc<Meter>,
}

impl Region {
    /// A region whose shares come back by themselves; it holds one block at least.
    pub(crate) fn working(meter: &Arc<Meter>, bytes: usize) -> Self {
        Self::new(meter, bytes.max(BUFFER_BYTES), UNIT_BYTES, false)
    }

    /// A region whose shares come back when clients let them, given out in units of `unit_bytes`.
    pub(crate) fn client_bound(meter: &Arc<Meter>, bytes: usize, unit_bytes: usize) -> Self {
        Self::new(meter, bytes, unit_bytes, true)
    }

    fn new(meter: &Arc<Meter>, bytes: usize, unit_bytes: usize, client_bound: bool) -> Self {
        let units = bytes.div_ceil(unit_bytes);
        Self { permits: Arc::new(Semaphore::new(units)), units, unit_bytes, client_bound, meter: meter.clone() }
    }

    /// Waits for room for `bytes`; more than the whole region is the whole region.
    pub(crate) async fn take(&self, bytes: usize) -> Hold {
        // An error would mean that the semaphore was closed, which nobody does.
        let permit = self.permits.clone().acquire_many_owned(self.units_of(bytes).min(self.all())).await.ok();
        self.hold(permit)
    }

    /// The same if there is room now and nobody waits for it; more than the whole region is never there.
    pub(crate) fn try_take(&self, bytes: usize) -> Option<Hold> {
        let permit = self.permits.clone().try_acquire_many_owned(self.units_of(bytes)).ok()?;
        Some(self.hold(Some(permit)))
    }

    /// Bytes that are given out.
    pub(crate) fn used_bytes(&self) -> usize {
        self.units.saturating_sub(self.permits.available_permits()) * self.unit_bytes
    }

    /// Whether less than half of it is free.
    pub(crate) fn is_crowded(&self) -> bool {
        self.permits.available_permits() < self.units / 2
    }

    /// All of it.
    pub(crate) const fn bytes(&self) -> usize {
        self.units * self.unit_bytes
    }

    /// What is free of it.
    pub(crate) fn free_bytes(&self) -> usize {
        self.permits.available_permits() * self.unit_bytes
    }

    fn all(&self) -> u32 {
        u32::try_from(self.units).unwrap_or(u32::MAX)
    }

    fn units_of(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(self.unit_bytes).max(1)).unwrap_or(u32::MAX)
    }

    fn hold(&self, permit: Option<OwnedSemaphorePermit>) -> Hold {
        let units = permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        self.meter.add(units * self.unit_bytes, self.client_bound);
        Hold { permit, region: self.clone() }
    }
}

/// A share of a region; it goes back when this is dropped.
pub(crate) struct Hold {
    permit: Option<OwnedSemaphorePermit>,
    region: Region,
}

impl Hold {
    fn bytes(&self) -> usize {
        self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits) * self.region.unit_bytes
    }

    /// Whether it comes back only when a client lets it.
    pub(crate) const fn is_client_bound(&self) -> bool {
        self.region.client_bound
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.region.meter.subtract(self.bytes(), self.region.client_bound);
    }
}

/// Allocations that wait to be used again.
pub(crate) struct Pool {
    spare: Mutex<Vec<Vec<u8>>>,
    spare_max: usize,
}

impl Pool {
    /// A pool that keeps at most half of a budget of `bytes`.
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { spare: Mutex::default(), spare_max: bytes / BUFFER_BYTES / 2 })
    }

    /// A buffer for `bytes` bytes, which `hold` pays for. Whoever had it before may have left bytes in it: a reader fills it without
    /// paying for zeros first, a writer clears it.
    pub(crate) fn buffer(self: &Arc<Self>, bytes: usize, hold: Hold) -> Buffer {
        let bytes = if bytes > UNPOOLED_BYTES_MAX { self.take() } else { Vec::with_capacity(bytes) };
        Buffer { bytes, pool: self.clone(), hold: Some(hold) }
    }

    /// Forgets what nobody uses.
    pub(crate) fn clear(&self) {
        if let Ok(mut spare) = self.spare.lock() {
            spare.clear();
        }
    }

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

/// Content in memory; gives its allocation and its share back when dropped.
pub(crate) struct Buffer {
    /// The bytes.
    pub(crate) bytes: Vec<u8>,
    pool: Arc<Pool>,
    hold: Option<Hold>,
}

impl Buffer {
    /// The same share around other bytes; the allocation before goes to whoever called.
    pub(crate) fn replace(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        std::mem::replace(&mut self.bytes, bytes)
    }

    /// The same bytes on another share; the one before goes back.
    pub(crate) fn rehold(&mut self, hold: Hold) {
        self.hold = Some(hold);
    }

    /// How much of its region it has.
    pub(crate) fn share_bytes(&self) -> usize {
        self.hold.as_ref().map_or(0, Hold::bytes)
    }

    /// Parts the bytes from their share, for somebody who keeps both together.
    pub(crate) fn take_hold(&mut self) -> Option<Hold> {
        self.hold.take()
    }

    /// Whether its share comes back only when a client lets it.
    pub(crate) fn is_client_bound(&self) -> bool {
        self.hold.as_ref().is_some_and(Hold::is_client_bound)
    }

    /// A range of the bytes, as [`bytes::Bytes`] that give everything back when the last of them is dropped.
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
        // The allocation first: whoever gets the share finds it in the pool.
        self.pool.give(std::mem::take(&mut self.bytes));
        self.hold.take();
    }
}

/// The memory of uploads.
pub(crate) struct Uploads {
    /// Blocks that bodies fill, and blocks kept until their upload is committed.
    pub(crate) receiving: Region,
    /// Blocks that are sealed and written.
    pub(crate) working: Region,
    /// Their allocations.
    pub(crate) pool: Arc<Pool>,
}

impl Uploads {
    /// A budget of `bytes`.
    pub(crate) fn new(bytes: usize) -> Self {
        let meter = Meter::new("uploads", bytes);
        Self {
            receiving: Region::client_bound(&meter, bytes / 2, UNIT_BYTES),
            working: Region::working(&meter, bytes / 2),
            pool: Pool::new(bytes),
        }
    }

    /// Moves a buffer to the working half; waits for room there.
    pub(crate) async fn to_work(&self, buffer: &mut Buffer) {
        if buffer.is_client_bound() {
            let hold = self.working.take(share_bytes(buffer.bytes.capacity())).await;
            buffer.rehold(hold);
        }
    }
}

/// The memory of downloads.
pub(crate) struct Downloads {
    /// Opened blocks: half of the budget to work in, a quarter for those of which slices are out.
    pub(crate) cache: Cache,
    /// Copies for slow readers: the last quarter.
    pub(crate) copies: Arc<Copies>,
    /// Whole records on their way to clients that open them by themselves: a quarter on top.
    pub(crate) records: Arc<Records>,
}

impl Downloads {
    /// A budget of `bytes`.
    pub(crate) fn new(bytes: usize) -> Self {
        let meter = Meter::new("downloads", bytes);
        Self {
            cache: Cache::new(&meter, bytes / 2, bytes / 4),
            copies: Copies::new(&meter, bytes / 4),
            records: Records::new(bytes / 4),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn region(units: usize) -> (Region, Arc<Meter>) {
        let meter = Meter::new("test", units * UNIT_BYTES);
        (Region::client_bound(&meter, units * UNIT_BYTES, UNIT_BYTES), meter)
    }

    #[tokio::test]
    async fn whoever_would_go_over_a_region_waits_until_another_gives_back() {
        let (region, meter) = region(4);
        let first = region.take(3 * UNIT_BYTES).await;
        assert!(region.is_crowded());
        let mut second = Box::pin(region.take(2 * UNIT_BYTES));
        assert!(second.as_mut().now_or_never().is_none());
        assert!(region.try_take(2 * UNIT_BYTES).is_none());
        drop(first);
        assert!(second.now_or_never().is_some());
        assert_eq!(meter.client_bound.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn bytes_handed_out_hold_their_share_until_the_last_is_dropped() {
        let (region, meter) = region(1);
        let mut buffer = Pool::new(0).buffer(10, region.take(10).await);
        buffer.bytes.extend_from_slice(b"0123456789");
        let bytes = buffer.into_bytes(2..5);
        assert_eq!(bytes, "234"[..]);
        assert!(region.try_take(1).is_none());
        assert_eq!(meter.client_bound.load(Ordering::Relaxed), UNIT_BYTES);
        drop(bytes);
        assert!(region.try_take(1).is_some());
    }

    #[tokio::test]
    async fn a_buffer_that_goes_to_work_makes_room_for_the_next_client() {
        let uploads = Uploads::new(4 * BUFFER_BYTES);
        let hold = uploads.receiving.try_take(BLOCK_BYTES).expect("has room");
        let mut buffer = uploads.pool.buffer(BLOCK_BYTES, hold);
        buffer.bytes.resize(BLOCK_BYTES, 1);
        uploads.to_work(&mut buffer).await;
        assert_eq!(uploads.receiving.free_bytes(), uploads.receiving.bytes());
        assert!(uploads.working.free_bytes() < uploads.working.bytes());
        drop(buffer);
        assert_eq!(uploads.working.free_bytes(), uploads.working.bytes());
    }
}
