//! Whether the other transport is faster on this way, found out in the course of a transfer and almost for nothing.
//!
//! A slow network and one that slows down datagrams alone look the same from within QUIC, and one that loses much looks slow from within TCP. So when a transfer has read
//! for [`AFTER`], some of the blocks that it reads go by the other transport for a while, beside the rest. If both go over one link that is full,
//! as much arrives as before; if more arrives by far ([`GAIN`]), the other had room that this one has not, and is used from then on. What went by the
//! other is content, so a trial that changes nothing cost nothing but a handshake; a block that is late there is fetched by the first again.
//!
//! Where what is read ahead does not cover the time that the other takes to find its rate, nothing is tried: it would hold up the rest.
//!
//! Only reading is tried: blocks of an upload go in order, and a slow one would hold up all.

use super::pool::Pool;
use super::{Options, Plane};
use holdfast_auth::Secret;
use holdfast_base::limits::BLOCK_BYTES;
use parking_lot::RwLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

/// How long a transfer reads before the other transport is tried: whatever is over sooner gains nothing.
const AFTER: Duration = Duration::from_secs(15);
/// Between two looks at a transfer that may be worth a trial.
const LOOK: Duration = Duration::from_secs(1);
/// Looks that the rate before is of.
const LOOKS: u32 = 4;
/// The other transport finds its rate in so many round trips, or this time.
const ROUNDS: u32 = 10;
const TAKES: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(10));
/// How long it may take to answer at all.
const CONNECTS: Duration = Duration::from_secs(10);
/// Blocks under way by the other transport.
const BLOCKS: usize = 4;
/// Blocks that a reader has ahead, and so how long it can wait for one of them.
const AHEAD_BYTES: f64 = 24.0 * BLOCK_BYTES as f64;
/// What has to arrive in all for the other to be taken, as a share of what did before.
const GAIN: f64 = 1.3;

/// What a trial found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The other transport does not get through.
    Blocked,
    /// It is no faster.
    Same,
    /// It is faster, and used from now on.
    Faster,
}

/// A trial under way.
pub(super) struct Trial {
    pub(super) pool: Arc<Pool>,
    /// How long a block may take.
    pub(super) patience: Duration,
    under_way: AtomicUsize,
}

/// A block's place in a trial.
pub(super) struct Place(Arc<Trial>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl std::ops::Deref for Place {
    type Target = Trial;

    fn deref(&self) -> &Trial {
        &self.0
    }
}

/// The pools of a space: the one that is used, and during a trial the other.
pub(super) struct Pools {
    used: RwLock<Arc<Pool>>,
    trial: RwLock<Option<Arc<Trial>>>,
    /// Bytes of records that were read, by whichever transport.
    read: AtomicU64,
    verdict: watch::Sender<Option<(Plane, Verdict)>>,
}

impl Pools {
    pub(super) fn new(pool: Arc<Pool>) -> Arc<Self> {
        let (used, trial) = (RwLock::new(pool), RwLock::default());
        Arc::new(Self { used, trial, read: AtomicU64::new(0), verdict: watch::Sender::new(None) })
    }

    /// The one that is used.
    pub(super) fn used(&self) -> Arc<Pool> {
        self.used.read().clone()
    }

    /// What was found out about the other transport, which is named.
    pub(super) fn verdict(&self) -> watch::Receiver<Option<(Plane, Verdict)>> {
        self.verdict.subscribe()
    }

    /// Some of a record came.
    pub(super) fn read(&self, bytes: u64) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A place for a block in a trial, if there is a trial with room.
    pub(super) fn place(&self) -> Option<Place> {
        let trial = self.trial.read().clone()?;
        let place = Place(trial.clone());
        (trial.under_way.fetch_add(1, Ordering::Relaxed) < BLOCKS).then_some(place)
    }

    /// Bytes that come within a time.
    async fn seen_in(this: &Weak<Self>, time: Duration) -> Option<u64> {
        let before = this.upgrade()?.read.load(Ordering::Relaxed);
        sleep(time).await;
        Some(this.upgrade()?.read.load(Ordering::Relaxed) - before)
    }
}

/// Waits until a trial is worth it, and tries the other transport; `other` says how that is reached. Nothing is done if the pools are dropped meanwhile.
pub(super) async fn try_other(pools: Weak<Pools>, other: Options, token: Secret) -> Option<()> {
    let before = worth_it(&pools).await?;
    let rtt = pools.upgrade()?.used().network().map(|network| network.rtt).unwrap_or_default();
    let takes = (rtt * ROUNDS).clamp(TAKES.0, TAKES.1);
    if takes.as_secs_f64() * before > AHEAD_BYTES && takes > TAKES.0 {
        tracing::debug!(?takes, before, "the other transport is not tried: it would hold this one up");
        return None;
    }
    let (plane, found) = (other.plane, run(&pools, (&other, &token), before, takes).await?);
    tracing::info!(?plane, ?found, "the other transport was tried");
    pools.upgrade()?.verdict.send_replace(Some((plane, found)));
    Some(())
}

/// Bytes a second of a transfer that has been reading for a while.
async fn worth_it(pools: &Weak<Pools>) -> Option<f64> {
    let mut began = Instant::now();
    let mut last = Vec::new();
    loop {
        let bytes = Pools::seen_in(pools, LOOK).await?;
        if bytes == 0 {
            (began, last) = (Instant::now(), Vec::new());
            continue;
        }
        last.push(bytes);
        if began.elapsed() >= AFTER && last.len() >= LOOKS as usize {
            let lately: u64 = last.iter().rev().take(LOOKS as usize).sum();
            return Some(lately as f64 / (LOOK * LOOKS).as_secs_f64());
        }
    }
}

async fn run(
    pools: &Weak<Pools>,
    (other, token): (&Options, &Secret),
    before: f64,
    takes: Duration,
) -> Option<Verdict> {
    let pool = Pool::new(other, None, token).ok()?;
    let connected = timeout(CONNECTS, pool.at(0).ask_hello()).await;
    if !matches!(connected, Ok(Ok(()))) {
        return Some(Verdict::Blocked);
    }
    let patience = takes.max(Duration::from_secs_f64((2.0 * BLOCK_BYTES as f64 / before).min(TAKES.1.as_secs_f64())));
    let trial = Arc::new(Trial { pool: pool.clone(), patience, under_way: AtomicUsize::new(0) });
    *pools.upgrade()?.trial.write() = Some(trial);
    // It finds its rate, and then it is looked what comes in all, and what by it.
    Pools::seen_in(pools, takes).await?;
    let began = pool.bytes();
    let time = takes.max(LOOK * LOOKS) / 2;
    let all = Pools::seen_in(pools, time).await? as f64 / time.as_secs_f64();
    let by_it = (pool.bytes() - began) as f64 / time.as_secs_f64();
    let pools = pools.upgrade()?;
    *pools.trial.write() = None;
    tracing::debug!(before, all, by_it, "what came during the trial of the other transport");
    let found = judge(before, all, by_it);
    if found == Verdict::Faster {
        *pools.used.write() = pool;
    }
    Some(found)
}

/// `before` came by the first alone; during the trial `all` did, and of that so much by the other.
fn judge(before: f64, all: f64, by_other: f64) -> Verdict {
    if all > GAIN * before && by_other > all / 2.0 { Verdict::Faster } else { Verdict::Same }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_transport_is_faster_only_where_more_comes_in_all() {
        for (before, all, by_other, found) in [
            // Both share a link that is full.
            (10.0, 10.0, 6.0, Verdict::Same),
            (10.0, 10.5, 9.0, Verdict::Same),
            // It adds a little of its own, and would be slower alone.
            (10.0, 14.0, 4.0, Verdict::Same),
            // It brings nothing, where much is lost.
            (10.0, 9.0, 0.1, Verdict::Same),
            // Datagrams are slowed down, and TCP is not.
            (1.0, 9.0, 8.5, Verdict::Faster),
        ] {
            assert_eq!(judge(before, all, by_other), found, "{before} {all} {by_other}");
        }
    }
}
