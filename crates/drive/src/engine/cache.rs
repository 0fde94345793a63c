//! Opened blocks, shared by all who read them, in bounded memory that slow readers cannot hold.
//!
//! A reader [wants](Cache::want) a block. If it is here, it gets it; if somebody fetches it already, it waits for that (single flight);
//! else a task of its own fetches it, so that no fetch depends on whether its reader is polled. The reader then has a [`Claim`]:
//! it hands out slices of the block without a copy ([`Claim::pin`]) or copies from it and lets go.
//!
//! Memory is in two regions (see [`super::budget`]). Blocks that are fetched, claimed or idle are in the *working* region: fetches end by
//! themselves, claims last while a copy is made, idle blocks are let go as soon as somebody needs the room, those that were read
//! to their end first, then the longest unused. A block of which slices are out depends on a client and moves to the *pinned* region; if
//! that is full, there is no pin, and the reader copies. So whoever waits for room waits for disk and processor only.
//!
//! A block that was fetched for a reader is kept for it for [`GRACE`], lest it be let go before the reader takes it; a reader that does
//! not come by then has it fetched again. Blocks nobody uses go after [`IDLE_MAX`]: plaintext should not linger. Some time later
//! spare allocations go, too ([`sweep`]). Errors are handed to those who wait and not kept.

mod sweep;
mod table;

use super::budget::{Buffer, Meter, Pool, Region, UNIT_BYTES, share_bytes};
use bytes::Bytes;
use holdfast_base::{BlockId, Error, ErrorKind, Result, SpaceId};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use table::{Found, Table};
use tokio::sync::watch;

/// How long an unused block stays: readers of the same file are seldom further apart, and what was read should not stay in
/// memory for long.
const IDLE_MAX: Duration = Duration::from_secs(3);
/// How long a block is kept for a reader that waited for it: it is taken within microseconds, unless the reader is not polled.
const GRACE: Duration = Duration::from_secs(1);
/// Blocks read to their end that are kept for others who read the same file at the same time. Few: their allocations are used again
/// for the next blocks while the processor's caches still have them.
const DONE_BYTES_MAX: usize = 8 << 20;
/// Attempts to get a block that is let go before its reader comes; more mean that the runtime is ending.
const ATTEMPTS_MAX: usize = 8;

/// Which block: ids are hashes keyed for their space, so equal ids are equal content.
pub(crate) type Key = (SpaceId, BlockId);

/// How a flight ended; none while it is under way. An error in parts, for each who waits gets one.
type Landing = Option<Result<(), (ErrorKind, String)>>;

/// The cache. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Cache(Arc<Inner>);

struct Inner {
    table: Mutex<Table>,
    working: Region,
    pinned: Region,
    /// Blocks fetched ahead, in flight or not yet wanted, at most.
    ahead_bytes_max: usize,
    pool: Arc<Pool>,
}

/// An opened block.
struct Block {
    buffer: Buffer,
    start: usize,
}

impl Block {
    fn plain(&self) -> &[u8] {
        &self.buffer.bytes[self.start..]
    }
}

impl Cache {
    /// A cache whose blocks take up to `working_bytes`, and `pinned_bytes` where slices of them are out.
    pub(crate) fn new(meter: &Arc<Meter>, working_bytes: usize, pinned_bytes: usize) -> Self {
        let working = Region::working(meter, working_bytes);
        Self(Arc::new(Inner {
            table: Mutex::default(),
            // A quarter is left to those who do not know ahead what they need.
            ahead_bytes_max: working.bytes() / 4 * 3,
            working,
            pinned: Region::client_bound(meter, pinned_bytes, UNIT_BYTES),
            pool: Pool::new(working_bytes + pinned_bytes),
        }))
    }

    /// Asks for a block of at most `bytes` bytes, which `open` reads and opens into a buffer (and answers where in it the plaintext
    /// starts) if it is not here.
    pub(crate) fn want<O: Open>(&self, key: Key, bytes: usize, open: O) -> Want<O> {
        let (state, outcome) = self.0.ask(key, bytes, &open);
        metrics::counter!("holdfast_block_cache_requests_total", "outcome" => outcome).increment(1);
        Want { state, cache: self.clone(), key, bytes, open }
    }

    /// Has a block fetched that is soon wanted, if there is room for it now.
    pub(crate) fn ahead<O: Open>(&self, key: Key, bytes: usize, open: O) {
        let inner = &self.0;
        let mut table = inner.lock();
        if table.contains(&key) || table.ahead_bytes() + share_bytes(bytes) > inner.ahead_bytes_max {
            return;
        }
        let hold = loop {
            match inner.working.try_take(share_bytes(bytes)) {
                Some(hold) => break hold,
                // Others' blocks that were fetched ahead are not given up for this.
                None if table.let_go_first(|entry| !entry.is_ahead()) => {}
                None => return,
            }
        };
        let (landed, landing) = watch::channel(None);
        let number = table.fly(key, share_bytes(bytes), landing, true);
        inner.watch_over(&mut table);
        drop(table);
        metrics::counter!("holdfast_block_cache_requests_total", "outcome" => "ahead").increment(1);
        let flight = Flight { inner: inner.clone(), key, number, landed };
        tokio::spawn(flight.run(bytes, Some(hold), open));
    }

    /// A buffer of the working region, for what is read and let go at once.
    pub(crate) async fn buffer(&self, bytes: usize) -> Buffer {
        let hold = self.0.room(share_bytes(bytes)).await;
        self.0.pool.buffer(bytes, hold)
    }

    /// Bytes that its blocks take.
    pub(crate) fn used_bytes(&self) -> usize {
        self.0.working.used_bytes() + self.0.pinned.used_bytes()
    }

    /// Lets go of everything that nobody uses.
    pub(crate) fn clear(&self) {
        let mut table = self.0.lock();
        while table.let_go_first(|_| true) {}
        self.0.pool.clear();
    }
}

/// Reads and opens a block; cloned for the rare case that it must be done again.
pub(crate) trait Open: Clone + Send + 'static {
    /// Does it.
    fn open(self, buffer: Buffer) -> impl Future<Output = Result<(Buffer, usize)>> + Send;
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Table> {
        // Nothing panics while it holds the lock; if something did, the table is still sound between two statements.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks a block up, and begins its flight if it is neither here nor on its way.
    fn ask<O: Open>(self: &Arc<Self>, key: Key, bytes: usize, open: &O) -> (State, &'static str) {
        let mut table = self.lock();
        match table.find(&key) {
            Found::Ready(block, number) => (State::Ready(Claim::new(self, key, number, block)), "hit"),
            Found::Flying(landing, number) => (State::Waiting(Interest::new(self, key, number), landing), "joined"),
            Found::Absent => {
                let (landed, landing) = watch::channel(None);
                let number = table.fly(key, share_bytes(bytes), landing.clone(), false);
                self.watch_over(&mut table);
                drop(table);
                let flight = Flight { inner: self.clone(), key, number, landed };
                tokio::spawn(flight.run(bytes, None, open.clone()));
                (State::Waiting(Interest::new(self, key, number), landing), "opened")
            }
        }
    }

    /// A buffer for a block; lets go of idle blocks for it, then waits.
    async fn room(&self, bytes: usize) -> super::budget::Hold {
        let _waiting = {
            let mut table = self.lock();
            loop {
                if let Some(hold) = self.working.try_take(bytes) {
                    return hold;
                }
                if !table.let_go_first(|_| true) {
                    break;
                }
            }
            // From here on a block that falls idle is let go at once.
            table.waiting += 1;
            Waiting(self)
        };
        self.working.take(bytes).await
    }

    /// A claim or a pin ends.
    fn release(&self, key: &Key, number: u64, pinned: bool, done: bool) {
        let mut table = self.lock();
        if table.leave(key, number, pinned, done) {
            // The last slice is back: the block is no client's any more, if the working region has room for it.
            if let Some(hold) = self.working.try_take(table.share_of(key)) {
                table.move_to(key, hold);
            }
        }
        table.settle(key);
    }
}

/// One that waits for room.
struct Waiting<'a>(&'a Inner);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
    }
}

/// The task that fetches a block.
struct Flight {
    inner: Arc<Inner>,
    key: Key,
    number: u64,
    landed: watch::Sender<Landing>,
}

impl Flight {
    async fn run<O: Open>(self, bytes: usize, hold: Option<super::budget::Hold>, open: O) {
        let hold = match hold {
            Some(hold) => hold,
            None => self.inner.room(share_bytes(bytes)).await,
        };
        if !self.inner.lock().is_wanted(&self.key, self.number) {
            return;
        }
        let opened = open.open(self.inner.pool.buffer(bytes, hold)).await;
        let landing = match opened {
            Ok((buffer, start)) if start <= buffer.bytes.len() => {
                self.land(buffer, start);
                Ok(())
            }
            Ok(_) => Err((ErrorKind::Internal, "a block's plaintext starts behind its end".to_owned())),
            Err(error) => {
                self.inner.lock().remove(&self.key, self.number);
                Err((error.kind(), error.message().to_owned()))
            }
        };
        self.landed.send_replace(Some(landing));
    }

    fn land(&self, mut buffer: Buffer, start: usize) {
        let hold = buffer.take_hold();
        let mut table = self.inner.lock();
        table.land(&self.key, self.number, Arc::new(Block { buffer, start }), hold);
        table.settle(&self.key);
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        // A flight that ended before its landing (nobody wants it, the runtime ends) must not keep others waiting.
        self.inner.lock().remove_flying(&self.key, self.number);
    }
}

/// A block asked for.
pub(crate) struct Want<O> {
    state: State,
    cache: Cache,
    key: Key,
    bytes: usize,
    open: O,
}

enum State {
    Ready(Claim),
    Waiting(Interest, watch::Receiver<Landing>),
}

impl<O: Open> Want<O> {
    /// Waits until it is here.
    pub(crate) async fn claim(self) -> Result<Claim> {
        let Self { mut state, cache, key, bytes, open } = self;
        for _ in 0..ATTEMPTS_MAX {
            let (interest, mut landing) = match state {
                State::Ready(claim) => return Ok(claim),
                State::Waiting(interest, landing) => (interest, landing),
            };
            // An error here is a flight that ended without a landing; then the block is asked for again.
            let landed = landing.wait_for(Option::is_some).await.map_or(None, |landing| landing.clone());
            match landed {
                Some(Err((kind, message))) => return Err(Error::new(kind, message)),
                Some(Ok(())) => {
                    if let Some(claim) = interest.claim() {
                        return Ok(claim);
                    }
                }
                None => drop(interest),
            }
            state = cache.0.ask(key, bytes, &open).0;
        }
        Err(Error::unavailable("a block could not be had; try again"))
    }
}

/// A reader that waits for a flight.
struct Interest {
    inner: Arc<Inner>,
    key: Key,
    number: u64,
}

impl Interest {
    fn new(inner: &Arc<Inner>, key: Key, number: u64) -> Self {
        Self { inner: inner.clone(), key, number }
    }

    /// The landed block, unless it was let go because this came too late.
    fn claim(self) -> Option<Claim> {
        let block = self.inner.lock().enter(&self.key, self.number)?;
        Some(Claim::new(&self.inner, self.key, self.number, block))
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        let mut table = self.inner.lock();
        table.lose_interest(&self.key, self.number);
        table.settle(&self.key);
    }
}

/// A block in use. Held for moments only: until a slice is pinned or a copy made.
pub(crate) struct Claim {
    inner: Arc<Inner>,
    key: Key,
    number: u64,
    /// None once it is passed on.
    block: Option<Arc<Block>>,
    pinned: bool,
    done: bool,
}

impl Claim {
    fn new(inner: &Arc<Inner>, key: Key, number: u64, block: Arc<Block>) -> Self {
        Self { inner: inner.clone(), key, number, block: Some(block), pinned: false, done: false }
    }

    /// The plaintext.
    pub(crate) fn plain(&self) -> &[u8] {
        self.block.as_ref().map_or(&[], |block| block.plain())
    }

    /// Notes that the block was read to its end: it is among the first to be let go.
    pub(crate) const fn done(&mut self) {
        self.done = true;
    }

    /// A slice of the plaintext without a copy, if there is room in the pinned region.
    pub(crate) fn pin(mut self, range: Range<usize>) -> std::result::Result<Bytes, Self> {
        let mut table = self.inner.lock();
        let hold = if table.is_pinned(&self.key) {
            None
        } else if let Some(hold) = self.inner.pinned.try_take(table.share_of(&self.key)) {
            Some(hold)
        } else {
            drop(table);
            return Err(self);
        };
        table.pin(&self.key, hold);
        drop(table);
        self.pinned = true;
        Ok(Bytes::from_owner(self).slice(range))
    }
}

impl AsRef<[u8]> for Claim {
    fn as_ref(&self) -> &[u8] {
        self.plain()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // First the bytes, then the share that pays for them.
        self.block = None;
        self.inner.release(&self.key, self.number, self.pinned, self.done);
    }
}

#[cfg(test)]
mod tests;
