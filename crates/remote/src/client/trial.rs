//! Whether the other transport is faster on this way, found out in the course of a transfer and almost for nothing; and that there is another when the one in use falls silent.
//!
//! A slow network and one that slows down datagrams alone look the same from within QUIC, and one that loses much looks slow from within TCP. So when a transfer has moved content
//! for [`AFTER`], some of it goes by the other transport for a while, beside the rest ([`Pools`]). If both go over one link that is full,
//! as much moves as before; if more does by far ([`GAIN`]), the other had room that this one has not, and is used from then on. What went by the
//! other is content, so a trial that changes nothing cost nothing but a handshake. A block that is read and late there is fetched by the first again. A push of one file alone has
//! nothing to go on beside: it goes by the other for that time, and by the first again if that was no faster.
//!
//! Where much is lost over TCP, as the kernel says ([`Lossy`]), nothing is tried: it goes on by the plane at once, which is put right by a trial if that was wrong.
//!
//! Where what is read ahead does not cover the time that the other takes to find its rate, nothing is tried: it would hold up the rest.

use super::lossy::Lossy;
use super::pool::Pool;
use super::pools::{Pools, Verdict};
use super::rescue::{self, SILENT};
use super::{Options, Plane};
use holdfast_auth::Secret;
use holdfast_base::Result;
use holdfast_base::limits::BLOCK_BYTES;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// How long content is moved before the other transport is tried: whatever is over sooner gains nothing.
const AFTER: Duration = Duration::from_secs(15);
/// A trial that changed nothing says so of its moment, in which this machine may have been busy, and networks change. So there is another when the transfer has
/// gone on for so many times as long, this long at most.
const AGAIN: (u32, Duration) = (4, Duration::from_mins(16));
/// How long a part of an upload that is on its way over TCP may take to end at a whole block, once much is lost there.
const LEAVES_LOSSY: Duration = Duration::from_secs(2);
/// Between two looks at a transfer.
const LOOK: Duration = Duration::from_secs(1);
/// Looks that the rate before is of, or of so many, if that is more: where much is lost, it comes in bursts.
const LOOKS: (usize, usize) = (8, 30);
/// After so many looks at which nothing had arrived, and nothing was waited for, it was a pause.
const PAUSE: u32 = 10;
/// The other transport finds its rate in so many round trips, or this time.
const ROUNDS: u32 = 10;
const TAKES: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(10));
/// What is judged of a trial is half of this, or of the time that the other took to find its rate.
const JUDGED: Duration = Duration::from_secs(4);
/// A part of an upload that is to be tried has such a share of the time before, within these bounds, to end at a whole block. What has not arrived by then is broken off: a transfer that crawls would
/// be over before it does, and what is lost by that grows more slowly than the time between trials.
const LEAVES: (u32, Duration, Duration) = (4, TAKES.1, Duration::from_mins(4));
/// Between two looks whether anything has come to it.
const COMES: Duration = Duration::from_millis(50);
/// Less than that is the head of a request.
const COME_BYTES: f64 = 1024.0;
/// How long it may take to answer at all.
const CONNECTS: Duration = Duration::from_secs(10);
/// Blocks that a reader has ahead, and so how long it can wait for one of them.
const AHEAD_BYTES: f64 = 24.0 * BLOCK_BYTES as f64;
/// What has to move in all for the other to be taken, as a share of what did before.
const GAIN: f64 = 1.3;
/// A transport that moves less than this share of what the first did is not waited for.
const HOPELESS: f64 = 1.0 / 16.0;

/// How a server is reached by both transports.
pub(super) struct Ways {
    /// By either.
    pub(super) options: Options,
    /// See [`Pool::new`].
    pub(super) connections: Option<usize>,
    pub(super) token: Secret,
}

/// Reaches a server by either transport.
pub(super) trait Reach: Sync {
    /// Connections on which the server has answered.
    fn connect(&self, plane: Plane) -> impl Future<Output = Result<Arc<Pool>>> + Send;
}

impl Reach for Ways {
    async fn connect(&self, plane: Plane) -> Result<Arc<Pool>> {
        let pool = Pool::new(&Options { plane, ..self.options.clone() }, self.connections, &self.token)?;
        pool.at(0).ask_hello().await?;
        pool.begin();
        Ok(pool)
    }
}

/// Looks after the transport of a space until it is dropped: looks for the other when the one in use falls silent, leaves TCP where much is lost unless something is `known` of the server, and
/// tries the other when a transfer is long, later if something is known.
pub(super) async fn keep(pools: Weak<Pools>, ways: impl Reach, known: bool) {
    let mut after = if known { later(AFTER) } else { AFTER };
    let (mut course, mut lossy) = (Course::default(), (!known).then(Lossy::default));
    loop {
        let mut is_lossy = false;
        for looks in 1..=2_u64 {
            sleep(LOOK / 2).await;
            let Some(all) = pools.upgrade() else { return };
            let rate = all.arrived().saturating_sub(course.arrived) * 2 / looks;
            is_lossy = lossy.as_mut().is_some_and(|lossy| lossy.look(all.used().packets(), rate));
            if is_lossy {
                break;
            }
        }
        let Some(all) = pools.upgrade() else { return };
        let (arrived, waits) = (all.arrived(), all.is_waiting());
        let is_silent = all.used().silence().is_some_and(|silence| silence >= SILENT);
        drop(all);
        if is_silent {
            // What is found may be no more than a way round for a while.
            if rescue::choose_again(&pools, &ways).await.is_some() {
                after = AFTER;
            }
            course = Course::default();
        } else if is_lossy {
            leave_lossy(&pools, &ways).await;
            (course, lossy) = (Course::default(), None);
        } else if let Some(before) = course.look(Instant::now(), (arrived, waits), after) {
            // Nothing more is to be done where it ends early.
            let _ = try_other(&pools, &ways, (before, after)).await;
            (course, lossy, after) = (Course::default(), None, later(after));
        }
    }
}

/// Goes on by the plane of QUIC, if that gets through. What has come over TCP is kept.
async fn leave_lossy(pools: &Weak<Pools>, ways: &impl Reach) {
    let reached = timeout(CONNECTS, ways.connect(Plane::Quic)).await;
    let Some(pools) = pools.upgrade() else { return };
    let Ok(Ok(pool)) = reached else {
        tracing::info!("much is lost over TCP, and the plane of QUIC does not answer");
        return pools.tell(Plane::Quic, Verdict::Blocked);
    };
    tracing::info!("much is lost over TCP: it goes on by the plane of QUIC");
    let left = pools.switch(pool);
    pools.tell(Plane::Quic, Verdict::Lossy);
    tokio::spawn(async move {
        sleep(LEAVES_LOSSY).await;
        left.give_up();
    });
}

fn later(after: Duration) -> Duration {
    (AGAIN.0 * after).min(AGAIN.1)
}

/// How a transfer went lately.
#[derive(Default)]
struct Course {
    /// Since when it goes without a pause.
    since: Option<Instant>,
    /// Looks at which nothing had arrived that nobody waited for, up to now.
    still: u32,
    arrived: u64,
    /// Bytes of the last looks.
    last: VecDeque<u64>,
}

impl Course {
    /// What arrived so far, and whether any content waits for the transport now; answers bytes a second of a transfer that has been going for so long. Where much is lost a connection over TCP may
    /// bring nothing for a minute: as long as it is waited for, that is no pause.
    fn look(&mut self, now: Instant, (arrived, waits): (u64, bool), after: Duration) -> Option<f64> {
        let bytes = arrived.saturating_sub(std::mem::replace(&mut self.arrived, arrived));
        let is_still = bytes == 0 && !waits;
        self.still = if is_still { self.still + 1 } else { 0 };
        if self.still >= PAUSE || (is_still && self.since.is_none()) {
            (self.since, self.last) = (None, VecDeque::new());
            return None;
        }
        let since = *self.since.get_or_insert(now);
        self.last.push_front(bytes);
        self.last.truncate(LOOKS.1);
        let is_long = now - since >= after && self.last.len() >= LOOKS.0;
        // What comes in bursts is not judged by the silence between them.
        let rate = |looks: usize| {
            let looks = looks.min(self.last.len());
            self.last.iter().take(looks).sum::<u64>() as f64 / (LOOK.as_secs_f64() * looks as f64)
        };
        is_long.then(|| rate(LOOKS.0).max(rate(LOOKS.1)))
    }
}

/// Tries the other transport beside one that moved `before` bytes a second for `long`. Nothing is done if the pools are dropped meanwhile, or the first falls silent.
async fn try_other(pools: &Weak<Pools>, ways: &impl Reach, (before, long): (f64, Duration)) -> Option<()> {
    let used = pools.upgrade()?.used();
    let plane = if used.plane() == Plane::Quic { Plane::Tcp } else { Plane::Quic };
    let rtt = used.network().map(|network| network.rtt).unwrap_or_default();
    drop(used);
    let takes = (rtt * ROUNDS).clamp(TAKES.0, TAKES.1);
    if takes.as_secs_f64() * before > AHEAD_BYTES && takes > TAKES.0 {
        tracing::debug!(?takes, before, "the other transport is not tried: it would hold this one up");
        return None;
    }
    let leaves = (long / LEAVES.0).clamp(LEAVES.1, LEAVES.2);
    let found = run(pools, (plane, ways), before, (takes, leaves)).await?;
    tracing::info!(?plane, ?found, "the other transport was tried");
    pools.upgrade()?.tell(plane, found);
    Some(())
}

async fn run(
    pools: &Weak<Pools>,
    (plane, ways): (Plane, &impl Reach),
    before: f64,
    (takes, leaves): (Duration, Duration),
) -> Option<Verdict> {
    let Ok(Ok(pool)) = timeout(CONNECTS, ways.connect(plane)).await else {
        return Some(Verdict::Blocked);
    };
    // Also where nothing came, what brings nothing is hopeless.
    let before = before.max(1.0);
    let a_block = (2.0 * BLOCK_BYTES as f64 / before).min(TAKES.1.as_secs_f64());
    let patience = takes.max(Duration::from_secs_f64(a_block));
    pools.upgrade()?.begin_trial(pool.clone(), patience, leaves);
    // A part of an upload comes to it when what it has on its way by the first has arrived, or was broken off. Then it finds its rate, and then it is looked what moves in all, and what by it.
    let enough = (HOPELESS * before).max(COME_BYTES);
    let comes = async {
        while (pool.bytes() as f64) < enough {
            sleep(COMES).await;
        }
    };
    // Whoever falls silent meanwhile is left, which is not for a trial to do.
    let falls_silent = async {
        while pools.upgrade().is_some_and(|all| all.used().silence().is_none_or(|silence| silence < SILENT)) {
            sleep(LOOK).await;
        }
    };
    let has_come = tokio::select! {
        come = timeout(leaves + TAKES.1, comes) => come.is_ok(),
        () = falls_silent => {
            pools.upgrade()?.end_trial();
            pool.give_up();
            return None;
        }
    };
    sleep(if has_come { takes } else { Duration::ZERO }).await;
    let mut found = Verdict::Same;
    let is_hopeless = |bytes: u64, time: Duration| (bytes as f64) < HOPELESS * before * time.as_secs_f64();
    let mut hopeless = is_hopeless(pool.bytes(), takes);
    if !hopeless {
        // What it was only given counts for neither.
        let look = || Some([pools.upgrade()?.arrived().saturating_sub(pool.queued()), pool.bytes()]);
        let (began, time) = (look()?, takes.max(JUDGED) / 2);
        sleep(time).await;
        let now = look()?;
        let [all, by_it] = [0, 1].map(|index| now[index].saturating_sub(began[index]));
        hopeless = is_hopeless(by_it, time);
        let (all, by_it) = (all as f64 / time.as_secs_f64(), by_it as f64 / time.as_secs_f64());
        tracing::debug!(before, all, by_it, "what moved during the trial of the other transport");
        found = judge(before, all, by_it);
    }
    let pools = pools.upgrade()?;
    if found == Verdict::Faster {
        pools.switch(pool);
        pools.end_trial();
    } else {
        pools.end_trial();
        // What is on its way there ends there if it comes soon, or half as fast as it would by the first: several blocks may be.
        let enough = before * patience.as_secs_f64() / 2.0;
        tokio::spawn(async move {
            let mut came = pool.bytes();
            loop {
                sleep(if hopeless { Duration::ZERO } else { patience }).await;
                let now = pool.bytes();
                if hopeless || ((now - came) as f64) < enough {
                    break;
                }
                came = now;
            }
            pool.give_up();
        });
    }
    Some(found)
}

/// `before` moved by the first alone; during the trial `all` did, and of that so much by the other.
fn judge(before: f64, all: f64, by_other: f64) -> Verdict {
    if all > GAIN * before && by_other > all / 2.0 { Verdict::Faster } else { Verdict::Same }
}

#[cfg(test)]
mod tests;
