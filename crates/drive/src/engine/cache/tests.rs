use super::*;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use tokio::sync::Notify;

/// Regions in units: small, so that everything is scarce. The working one has the least it may have.
const WORKING_UNITS: usize = 17;
const PINNED_UNITS: usize = 6;
/// Turns of the other tasks after which everything that can happen without time passing has happened.
const TURNS: usize = 50;

/// What blocks are opened from.
#[derive(Default)]
struct Source {
    flying: BTreeSet<u8>,
    opened: BTreeMap<u8, usize>,
    /// Blocks whose next opening may end; the value is whether well.
    gates: BTreeMap<u8, bool>,
    all_open: bool,
}

#[derive(Clone)]
struct Opening {
    block: u8,
    source: Arc<Mutex<Source>>,
    changed: Arc<Notify>,
}

struct Flying<'a>(&'a Opening);

impl Drop for Flying<'_> {
    fn drop(&mut self) {
        self.0.source.lock().expect("no panics").flying.remove(&self.0.block);
    }
}

impl Open for Opening {
    async fn open(self, mut buffer: Buffer) -> Result<(Buffer, usize)> {
        {
            let mut source = self.source.lock().expect("no panics");
            assert!(source.flying.insert(self.block), "two flights of one block");
            *source.opened.entry(self.block).or_default() += 1;
        }
        let _flying = Flying(&self);
        let good = loop {
            let changed = self.changed.notified();
            {
                let mut source = self.source.lock().expect("no panics");
                if let Some(good) = source.gates.remove(&self.block).or(source.all_open.then_some(true)) {
                    break good;
                }
            }
            changed.await;
        };
        if !good {
            return Err(Error::damaged(format!("block {}", self.block)));
        }
        buffer.bytes.clear();
        buffer.bytes.extend_from_slice(b"prefix");
        buffer.bytes.extend_from_slice(&plain(self.block));
        Ok((buffer, 6))
    }
}

fn plain(block: u8) -> Vec<u8> {
    vec![block; 10 + usize::from(block)]
}

/// Blocks take from one unit to seven; the last are too large to be pinned.
fn block_bytes(block: u8) -> usize {
    (1 + usize::from(block) % 7) * UNIT_BYTES
}

struct Rig {
    cache: Cache,
    source: Arc<Mutex<Source>>,
    changed: Arc<Notify>,
}

impl Rig {
    fn new() -> Self {
        let meter = Meter::new("test", 0);
        let cache = Cache::new(&meter, WORKING_UNITS * UNIT_BYTES, PINNED_UNITS * UNIT_BYTES);
        assert_eq!(cache.0.working.bytes(), WORKING_UNITS * UNIT_BYTES);
        Self { cache, source: Arc::default(), changed: Arc::default() }
    }

    fn opening(&self, block: u8) -> Opening {
        Opening { block, source: self.source.clone(), changed: self.changed.clone() }
    }

    fn key(block: u8) -> Key {
        (SpaceId(1), BlockId([block; 32]))
    }

    fn want(&self, block: u8) -> BoxFuture<'static, Result<Claim>> {
        self.cache.want(Self::key(block), block_bytes(block), self.opening(block)).claim().boxed()
    }

    fn ahead(&self, block: u8) {
        self.cache.ahead(Self::key(block), block_bytes(block), self.opening(block));
    }

    /// Lets the opening of a block end, that under way or the next.
    fn gate(&self, block: u8, good: bool) {
        self.source.lock().expect("no panics").gates.insert(block, good);
        self.changed.notify_waiters();
    }

    fn open_all(&self, all: bool) {
        self.source.lock().expect("no panics").all_open = all;
        self.changed.notify_waiters();
    }

    fn opened(&self, block: u8) -> usize {
        self.source.lock().expect("no panics").opened.get(&block).copied().unwrap_or(0)
    }

    async fn get(&self, block: u8) -> Claim {
        self.open_all(true);
        let claim = self.want(block).await.expect("opens");
        self.open_all(false);
        assert_eq!(claim.plain(), plain(block));
        claim
    }

    fn idle(&self) -> usize {
        self.cache.0.lock().idle_count()
    }

    fn assert_empty(&self) {
        let inner = &self.cache.0;
        assert!(inner.lock().is_empty());
        assert_eq!(inner.lock().ahead_bytes(), 0);
        assert_eq!(inner.lock().waiting, 0);
        assert_eq!(inner.working.free_bytes(), inner.working.bytes());
        assert_eq!(inner.pinned.free_bytes(), inner.pinned.bytes());
    }
}

async fn settle() {
    for _ in 0..TURNS {
        tokio::task::yield_now().await;
    }
}

#[derive(Debug, Clone)]
enum Step {
    Want(u8),
    Ahead(u8),
    Gate(u8, bool),
    Poll(usize),
    GiveUp(usize),
    Pin(usize),
    LetGo(usize, bool),
    Unpin(usize),
    Pass(u64),
    Clear,
    /// All flights end, all claims are let go: then every reader has its block, whatever is pinned.
    Everybody,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_u8..12).prop_map(Step::Want),
        2 => (0_u8..12).prop_map(Step::Ahead),
        4 => (0_u8..12, prop::bool::weighted(0.9)).prop_map(|(block, good)| Step::Gate(block, good)),
        4 => any::<usize>().prop_map(Step::Poll),
        1 => any::<usize>().prop_map(Step::GiveUp),
        3 => any::<usize>().prop_map(Step::Pin),
        3 => (any::<usize>(), any::<bool>()).prop_map(|(which, done)| Step::LetGo(which, done)),
        2 => any::<usize>().prop_map(Step::Unpin),
        1 => (0_u64..5).prop_map(Step::Pass),
        1 => Just(Step::Clear),
        1 => Just(Step::Everybody),
    ]
}

/// Readers at random.
struct Play {
    rig: Rig,
    wants: Vec<(u8, BoxFuture<'static, Result<Claim>>)>,
    claims: Vec<(u8, Claim)>,
    pins: Vec<(u8, Bytes)>,
}

fn pick<T>(all: &mut Vec<T>, which: usize) -> Option<T> {
    (!all.is_empty()).then(|| all.swap_remove(which % all.len()))
}

impl Play {
    fn poll(&mut self, which: usize) {
        let Some((block, mut want)) = pick(&mut self.wants, which) else { return };
        match want.as_mut().now_or_never() {
            None => self.wants.push((block, want)),
            Some(Ok(claim)) => {
                assert_eq!(claim.plain(), plain(block));
                self.claims.push((block, claim));
            }
            Some(Err(error)) => assert_eq!(error.message(), format!("block {block}")),
        }
    }

    async fn play(&mut self, step: Step) {
        match step {
            Step::Want(block) => self.wants.push((block, self.rig.want(block))),
            Step::Ahead(block) => self.rig.ahead(block),
            Step::Gate(block, good) => self.rig.gate(block, good),
            Step::Poll(which) => self.poll(which),
            Step::GiveUp(which) => drop(pick(&mut self.wants, which)),
            Step::Pin(which) => {
                let Some((block, claim)) = pick(&mut self.claims, which) else { return };
                match claim.pin(1..3) {
                    Ok(slice) => self.pins.push((block, slice)),
                    Err(claim) => self.claims.push((block, claim)),
                }
            }
            Step::LetGo(which, done) => {
                if let Some((_, mut claim)) = pick(&mut self.claims, which).filter(|_| !done) {
                    claim.done();
                }
            }
            Step::Unpin(which) => drop(pick(&mut self.pins, which)),
            Step::Pass(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
            Step::Clear => self.rig.cache.clear(),
            Step::Everybody => self.everybody().await,
        }
        settle().await;
        for (block, slice) in &self.pins {
            assert_eq!(slice[..], [*block; 2]);
        }
    }

    async fn everybody(&mut self) {
        self.claims.clear();
        self.rig.open_all(true);
        let mut turns = 0;
        while !self.wants.is_empty() {
            for which in (0..self.wants.len()).rev() {
                self.poll(which);
                self.claims.clear();
            }
            settle().await;
            turns += 1;
            // One that is not polled for long is not there here: nobody needs the grace.
            assert!(turns < 1_000, "{} readers wait in vain beside {} slices", self.wants.len(), self.pins.len());
        }
        self.rig.open_all(false);
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn whatever_readers_do_bytes_are_right_memory_comes_back_and_nobody_waits_for_a_slice(
        steps in prop::collection::vec(step(), 1..120),
    ) {
        runtime().block_on(async {
            let mut play = Play { rig: Rig::new(), wants: Vec::new(), claims: Vec::new(), pins: Vec::new() };
            for step in steps {
                play.play(step).await;
            }
            play.everybody().await;
            play.pins.clear();
            play.rig.open_all(true);
            settle().await;
            tokio::time::sleep(IDLE_MAX * 2).await;
            play.rig.assert_empty();
        });
    }
}

#[tokio::test(start_paused = true)]
async fn many_who_want_a_block_at_once_open_it_once() {
    let rig = Rig::new();
    let wants: Vec<_> = (0..10).map(|_| rig.want(1)).collect();
    settle().await;
    rig.gate(1, true);
    for want in wants {
        assert_eq!(want.await.expect("opens").plain(), plain(1));
    }
    assert_eq!(rig.opened(1), 1);
    drop(rig.get(1).await);
    assert_eq!(rig.opened(1), 1, "it is still here");
}

#[tokio::test(start_paused = true)]
async fn an_error_is_told_to_all_who_wait_and_not_kept() {
    let rig = Rig::new();
    let wants: Vec<_> = (0..3).map(|_| rig.want(1)).collect();
    rig.gate(1, false);
    for want in wants {
        assert_eq!(want.await.err().expect("fails").kind(), ErrorKind::Damaged);
    }
    drop(rig.get(1).await);
    assert_eq!(rig.opened(1), 2);
}

#[tokio::test(start_paused = true)]
async fn slices_are_bounded_and_a_block_of_which_one_is_out_gives_more() {
    let rig = Rig::new();
    let mut slices = Vec::new();
    let refused = loop {
        // Block 0 and every seventh after it has one unit.
        match rig.get(u8::try_from(slices.len() * 7).expect("few")).await.pin(0..1) {
            Ok(slice) => slices.push(slice),
            Err(claim) => break claim,
        }
    };
    assert_eq!(slices.len(), PINNED_UNITS);
    assert_eq!(refused.plain(), plain(7 * 6), "what is refused a slice can be copied from");
    let again = rig.get(0).await.pin(0..2);
    assert!(again.is_ok(), "its block is in that region already");
    let free = rig.cache.0.working.free_bytes();
    assert!(free >= (WORKING_UNITS - 1) * UNIT_BYTES, "slices take no room from those who fetch: {free}");
}

#[tokio::test(start_paused = true)]
async fn blocks_read_to_their_end_go_first_then_the_longest_unused() {
    let rig = Rig::new();
    for block in [0, 7, 14, 21] {
        let mut claim = rig.get(block).await;
        if block == 14 {
            claim.done();
        }
    }
    assert_eq!(rig.idle(), 4);
    let still = || {
        let here = |block: &u8| rig.cache.0.lock().contains(&Rig::key(*block));
        [0, 7, 14, 21].into_iter().filter(here).collect::<Vec<_>>()
    };
    // 17 units hold three of these four and two of seven units each.
    let two = (rig.get(6).await, rig.get(13).await);
    assert_eq!(still(), [0, 7, 21]);
    let third = rig.get(28).await;
    assert_eq!(still(), [7, 21]);
    drop((two, third));
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_does_not_come_for_its_block_delays_others_for_a_moment_only() {
    let rig = Rig::new();
    rig.open_all(true);
    let mut late: Vec<_> = [6, 13].into_iter().map(|block| (block, rig.want(block))).collect();
    settle().await;
    let begun = tokio::time::Instant::now();
    drop(rig.want(20).await.expect("opens"));
    assert!(begun.elapsed() <= GRACE * 2);
    for (block, want) in &mut late {
        assert_eq!(want.await.expect("is opened again").plain(), plain(*block));
    }
}

#[tokio::test(start_paused = true)]
async fn a_flight_nobody_wants_any_more_gives_its_turn_away() {
    let rig = Rig::new();
    let held = (rig.get(6).await, rig.get(13).await);
    let (given_up, mut wanted) = (rig.want(20), rig.want(27));
    settle().await;
    drop(given_up);
    assert!(wanted.as_mut().now_or_never().is_none());
    rig.open_all(true);
    drop(held);
    drop(wanted.await.expect("opens"));
    assert_eq!((rig.opened(20), rig.opened(27)), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn what_is_fetched_ahead_is_bounded_and_gives_way() {
    let rig = Rig::new();
    rig.open_all(true);
    for block in 0..12 {
        rig.ahead(block);
    }
    settle().await;
    let ahead = rig.cache.0.lock().ahead_bytes();
    assert!(ahead > 0 && ahead <= WORKING_UNITS * UNIT_BYTES / 4 * 3, "{ahead}");
    assert_eq!(rig.opened(0), 1);
    drop(rig.get(0).await);
    assert_eq!(rig.opened(0), 1, "it was there");
    let all = (rig.get(6).await, rig.get(13).await);
    drop(all);
    tokio::time::sleep(IDLE_MAX * 2).await;
    rig.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_cache_in_which_nothing_happens_is_empty_and_the_task_that_sweeps_it_ends() {
    let rig = Rig::new();
    drop(rig.get(1).await);
    assert_eq!(rig.idle(), 1);
    tokio::time::sleep(IDLE_MAX * 2).await;
    assert_eq!(rig.idle(), 0);
    assert!(rig.cache.0.lock().swept);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(!rig.cache.0.lock().swept);
    drop(rig.get(1).await);
    rig.cache.clear();
    rig.assert_empty();
}
