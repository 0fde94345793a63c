//! The transport of a space that is used, and during a trial the other one as well.
//!
//! What is read goes block by block, so a trial takes some of them ([`Pools::place`]). Where all that a reader has ahead is on its way already and takes long, the trial fetches some of that as
//! well ([`Pools::late_place`]): otherwise a reader behind a slow transport would have nothing to try the other with. What is pushed goes in parts of an upload, each over one transport, from one byte on to another:
//! a part whose way is no longer the best ends at a whole block, and the next one begins there by another way ([`Pools::seat`]), so nothing is sent twice for that.

use super::Plane;
use super::pool::Pool;
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

/// Blocks under way by the other transport during a trial.
const BLOCKS: usize = 4;
/// Parts of uploads likewise: the others go on as they did.
const PARTS: usize = 1;

/// What was on its way when a trial began, or the transport changed, has come by then, where it is not slow.
const LATE: Duration = Duration::from_secs(3);
/// The same of what was on its way over TCP when that was left: it is what kernels hold, and not the seconds that the plane takes ahead.
const LATE_TCP: Duration = Duration::from_millis(100);
/// Between two looks for a place in a trial.
const LOOK: Duration = Duration::from_millis(100);
/// How long a part may take to leave a transport that is no longer used.
const LEAVES: Duration = Duration::from_secs(30);
/// After so long what is asked is asked by the other transport as well, during a trial.
const ASKED: Duration = Duration::from_secs(1);

/// What was found out about a transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It does not get through.
    Blocked,
    /// It is no faster than the one that is used.
    Same,
    /// It is faster, and used from now on.
    Faster,
    /// The one that was used does not get through any more; this one does, and is used from now on.
    Left,
    /// By the one that was used much is lost, which this one bears; it is used from now on.
    Lossy,
}

/// A trial under way.
pub(super) struct Trial {
    pub(super) pool: Arc<Pool>,
    /// How long a block may take.
    pub(super) patience: Duration,
    /// How long a part may take to come to it from where it is.
    leaves: Duration,
    began: Instant,
    blocks: AtomicUsize,
    parts: AtomicUsize,
}

/// A block's place in a trial.
pub(super) struct Place(Arc<Trial>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.blocks.fetch_sub(1, Ordering::Relaxed);
    }
}

impl std::ops::Deref for Place {
    type Target = Trial;

    fn deref(&self) -> &Trial {
        &self.0
    }
}

/// Where a part of an upload goes.
pub(super) struct Seat {
    pub(super) pool: Arc<Pool>,
    in_trial: Option<InTrial>,
}

/// A part's place in a trial.
struct InTrial(Arc<Trial>);

impl Drop for InTrial {
    fn drop(&mut self) {
        self.0.parts.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts for as long as it is kept.
pub(super) struct Counted<'p>(&'p AtomicIsize, isize);

impl<'p> Counted<'p> {
    fn new(count: &'p AtomicIsize, by: isize) -> Self {
        count.fetch_add(by, Ordering::Relaxed);
        Self(count, by)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

/// The pools of a space.
pub(super) struct Pools {
    used: RwLock<Arc<Pool>>,
    trial: RwLock<Option<Arc<Trial>>>,
    /// One of the two has changed.
    changed: watch::Sender<()>,
    /// Bytes of content that were moved, by whichever transport.
    moved: AtomicU64,
    /// Pieces of work that wait for a transport, at this moment.
    waiting: AtomicIsize,
    verdict: watch::Sender<Option<(Plane, Verdict)>>,
}

impl Pools {
    pub(super) fn new(pool: Arc<Pool>) -> Arc<Self> {
        Arc::new(Self {
            used: RwLock::new(pool),
            trial: RwLock::default(),
            changed: watch::Sender::new(()),
            moved: AtomicU64::new(0),
            waiting: AtomicIsize::new(0),
            verdict: watch::Sender::new(None),
        })
    }

    /// The one that is used.
    pub(super) fn used(&self) -> Arc<Pool> {
        self.used.read().clone()
    }

    /// Uses another from now on, and answers the one that was.
    pub(super) fn switch(&self, pool: Arc<Pool>) -> Arc<Pool> {
        let before = std::mem::replace(&mut *self.used.write(), pool);
        self.changed.send_replace(());
        before
    }

    /// What was found out about a transport, which is named.
    pub(super) fn verdict(&self) -> watch::Receiver<Option<(Plane, Verdict)>> {
        self.verdict.subscribe()
    }

    pub(super) fn tell(&self, plane: Plane, verdict: Verdict) {
        self.verdict.send_replace(Some((plane, verdict)));
    }

    /// Some content was moved.
    pub(super) fn count(&self, bytes: u64) {
        self.moved.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that were moved so far.
    pub(super) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// Bytes of these that arrived, as far as it is known.
    pub(super) fn arrived(&self) -> u64 {
        self.moved().saturating_sub(self.used().queued())
    }

    /// Content waits for a transport, as long as this is kept.
    pub(super) fn wait(&self) -> Counted<'_> {
        Counted::new(&self.waiting, 1)
    }

    /// As long as this is kept, content that [waits](Self::wait) does so for its source.
    pub(super) fn wait_for_source(&self) -> Counted<'_> {
        Counted::new(&self.waiting, -1)
    }

    /// Whether any content waits for a transport.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Some of what is moved goes by this one as well, until [`Self::end_trial`]: blocks may take `patience` there, and a part `leaves` to come.
    pub(super) fn begin_trial(&self, pool: Arc<Pool>, patience: Duration, leaves: Duration) {
        let (began, blocks, parts) = (Instant::now(), AtomicUsize::new(0), AtomicUsize::new(0));
        let trial = Trial { pool, patience, leaves, began, blocks, parts };
        *self.trial.write() = Some(Arc::new(trial));
        self.changed.send_replace(());
    }

    pub(super) fn end_trial(&self) {
        *self.trial.write() = None;
        self.changed.send_replace(());
    }

    /// A place for a block in a trial, if there is a trial with room.
    pub(super) fn place(&self) -> Option<Place> {
        let trial = self.trial.read().clone()?;
        let place = Place(trial.clone());
        (trial.blocks.fetch_add(1, Ordering::Relaxed) < BLOCKS).then_some(place)
    }

    /// Waits for a place for a block that has been on its way by the usual transport since before a trial began.
    pub(super) async fn late_place(&self) -> Place {
        let mut changed = self.changed.subscribe();
        loop {
            let began = self.trial.read().as_ref().map(|trial| trial.began);
            match began {
                Some(began) if began.elapsed() >= LATE => match self.place() {
                    Some(place) => return place,
                    None => sleep(LOOK).await,
                },
                Some(began) => sleep_until(began + LATE).await,
                None => {
                    // Its sender is here.
                    let _ = changed.changed().await;
                }
            }
        }
    }

    /// Waits for a trial in which to ask what was asked by the usual transport a while ago, and answers by which.
    pub(super) async fn also_asked(&self) -> Arc<Pool> {
        sleep(ASKED).await;
        let mut changed = self.changed.subscribe();
        loop {
            if let Some(trial) = self.trial.read().as_ref() {
                return trial.pool.clone();
            }
            // Its sender is here.
            let _ = changed.changed().await;
        }
    }

    /// Waits until another pool than this one has been used for a while.
    pub(super) async fn long_left(&self, pool: &Arc<Pool>) {
        let mut changed = self.changed.subscribe();
        while Arc::ptr_eq(&self.used.read(), pool) {
            // Its sender is here.
            let _ = changed.changed().await;
        }
        sleep(if pool.plane() == Plane::Tcp { LATE_TCP } else { LATE }).await;
    }

    /// Where a part that begins now goes.
    pub(super) fn seat(&self) -> Seat {
        self.seat_in_trial().unwrap_or_else(|| Seat { pool: self.used(), in_trial: None })
    }

    fn seat_in_trial(&self) -> Option<Seat> {
        let trial = self.trial.read().clone()?;
        let place = InTrial(trial.clone());
        let has_room = trial.parts.fetch_add(1, Ordering::Relaxed) < PARTS;
        has_room.then(|| Seat { pool: trial.pool.clone(), in_trial: Some(place) })
    }

    /// Waits until a part had better go on by another way, and answers which, and how long it may take to leave the one it goes by.
    pub(super) async fn left(&self, seat: &Seat) -> (Seat, Duration) {
        let mut changed = self.changed.subscribe();
        loop {
            if let Some(other) = self.other(seat) {
                let leaves = other.in_trial.as_ref().map_or(LEAVES, |InTrial(trial)| trial.leaves);
                return (other, leaves);
            }
            // Its sender is here.
            let _ = changed.changed().await;
        }
    }

    /// The better way of a part than this one, if there is one.
    pub(super) fn other(&self, seat: &Seat) -> Option<Seat> {
        let is_tried = self.trial.read().as_ref().is_some_and(|trial| Arc::ptr_eq(&trial.pool, &seat.pool));
        if is_tried {
            return None;
        }
        let is_used = Arc::ptr_eq(&self.used.read(), &seat.pool);
        self.seat_in_trial().or_else(|| (!is_used).then(|| self.seat()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Options;
    use super::*;
    use futures_util::FutureExt;
    use holdfast_auth::Secret;

    fn pool() -> Arc<Pool> {
        let options = Options::new("http://127.0.0.1:1".parse().expect("an address"));
        Pool::new(&options, Some(1), &Secret::new("hf_nobody")).expect("a pool")
    }

    fn is(seat: &Seat, pool: &Arc<Pool>) -> bool {
        Arc::ptr_eq(&seat.pool, pool)
    }

    #[tokio::test]
    async fn one_part_goes_by_the_other_way_during_a_trial_and_all_do_when_it_is_faster() {
        let (usual, other) = (pool(), pool());
        let pools = Pools::new(usual.clone());
        let (one, two) = (pools.seat(), pools.seat());
        assert!(is(&one, &usual) && pools.left(&one).now_or_never().is_none());
        pools.begin_trial(other.clone(), Duration::from_secs(2), Duration::from_secs(5));
        let (moved, time) = pools.left(&one).now_or_never().expect("it is wanted in the trial");
        assert_eq!(time, Duration::from_secs(5));
        assert!(is(&moved, &other) && pools.left(&moved).now_or_never().is_none());
        assert!(pools.left(&two).now_or_never().is_none(), "one is enough");
        assert!(is(&pools.seat(), &usual), "also of those that begin");
        // It ended with its file, and the next that begins takes its place.
        drop(moved);
        let moved = pools.seat();
        assert!(is(&moved, &other));
        // No faster: it comes back.
        pools.end_trial();
        let (back, _) = pools.left(&moved).now_or_never().expect("the trial is over");
        assert!(is(&back, &usual) && pools.left(&back).now_or_never().is_none());
        drop((moved, back));
        // Faster: it stays, and the rest comes.
        pools.begin_trial(other.clone(), Duration::from_secs(2), Duration::from_secs(5));
        let (tried, _) = pools.left(&one).now_or_never().expect("it is wanted in the trial");
        pools.switch(other.clone());
        pools.end_trial();
        assert!(is(&tried, &other) && pools.left(&tried).now_or_never().is_none());
        assert!(is(&pools.left(&two).now_or_never().expect("it is faster there").0, &other));
        assert!(is(&pools.seat(), &other));
    }

    #[tokio::test]
    async fn who_waits_for_a_pool_that_is_given_up_is_told() {
        let pool = pool();
        assert_eq!(pool.unless_given_up(std::future::ready(7)).await, Some(7));
        let waiting = tokio::spawn({
            let pool = pool.clone();
            async move { pool.unless_given_up(std::future::pending::<()>()).await }
        });
        tokio::task::yield_now().await;
        pool.give_up();
        assert_eq!(waiting.await.expect("no panic"), None);
        assert_eq!(pool.unless_given_up(std::future::pending::<()>()).await, None, "also later");
    }
}
