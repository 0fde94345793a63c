//! A server, a mount that believes and a writer, in virtual time, over a network that delays, holds up and loses; what is tested is
//! close-to-open: nobody who opens a file after a change was answered finds what was before.
//!
//! The leases, the names and the loop that tells the server are those of the program. What stands for the rest is small: one file whose content is the number of its change, and
//! messages that arrive late, and those of the stream of changes in order.

use super::*;
use crate::client::voice::Voice;
use holdfast_base::{AccountId, ContentId, NodeId, SpaceId};
use holdfast_drive::{Change, Entry, Node, NodeKind};
use holdfast_meta::leases::{Leases, Mount, Owed, Word as Lease};
use holdfast_meta::{Noted, Touched};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep, sleep_until};

/// Files, each in a folder of its own: with the number of its folder.
const FILES: [i64; 2] = [1, 2];
const MOUNT: Mount = Mount { space: SpaceId(1), account: AccountId(1), number: 7 };
/// How long each run lasts, in virtual time.
const LASTS: Duration = Duration::from_secs(40);
/// Longest that a change may wait.
const WAITS_MAX: Duration = Duration::from_millis(4_100);

/// What is drawn.
struct Dice(Cell<u64>);

impl Dice {
    fn below(&self, end: u64) -> u64 {
        // xorshift64*, G. Marsaglia and S. Vigna.
        let mut x = self.0.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.0.set(x);
        (x.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % end
    }

    fn ms(&self, end: u64) -> Duration {
        Duration::from_millis(self.below(end))
    }
}

struct World {
    dice: Dice,
    leases: Arc<Leases>,
    names: Names,
    word: Word,
    /// The count of changes.
    seq: Cell<i64>,
    /// Of each file, the change that is on disk.
    there: [Cell<i64>; 2],
    /// Of each, the last that was answered.
    answered: [Cell<i64>; 2],
    /// Nothing arrives before this.
    cut_until: Cell<Instant>,
    /// The mount does nothing before this.
    frozen_until: Cell<Instant>,
    /// Round trip at most, without all that, in milliseconds.
    trip_ms: u64,
    found: RefCell<Found>,
}

/// What was seen.
#[derive(Debug, Default)]
struct Found {
    opens: u64,
    /// Of those, without asking.
    believed: u64,
    old: u64,
    changes: u64,
    longest: Duration,
}

impl World {
    fn entry(&self, file: usize) -> Entry {
        let node = Node {
            id: NodeId(10 + FILES[file]),
            space: SpaceId(1),
            parent: Some(NodeId(FILES[file])),
            name: "f".into(),
            kind: NodeKind::File,
            content: Some(ContentId(self.there[file].get())),
            size: 1,
            seq: self.there[file].get(),
            created_ms: 0,
            modified_ms: 0,
            has_properties: false,
        };
        Entry::new(node, None)
    }

    fn either(&self) -> usize {
        usize::from(self.dice.below(2) == 0)
    }

    /// A message takes its time.
    async fn travels(&self) {
        sleep(self.dice.ms(self.trip_ms)).await;
        sleep_until(self.cut_until.get()).await;
    }

    /// The mount takes it in.
    async fn arrives(&self) {
        self.travels().await;
        sleep_until(self.frozen_until.get()).await;
    }

    async fn ask(&self, file: usize) -> Entry {
        self.travels().await;
        let mark = self.leases.mark(MOUNT, 9);
        let entry = self.entry(file);
        sleep(self.dice.ms(5)).await;
        let wait = self.leases.grant(MOUNT, entry.node.parent, mark);
        if let Some(wait) = wait {
            wait.over().await;
        }
        self.arrives().await;
        entry
    }

    /// Opens the file, as a mount does.
    async fn open(&self, file: usize) {
        let answered = self.answered[file].get();
        sleep_until(self.frozen_until.get()).await;
        let known = self.names.entry(NodeId(10 + FILES[file])).filter(|_| !self.names.is_loose());
        let believed = known.is_some();
        let entry = if let Some(known) = known {
            known
        } else {
            let mark = self.names.mark();
            let entry = self.ask(file).await;
            self.names.learn(mark, &entry);
            entry
        };
        let mut found = self.found.borrow_mut();
        found.opens += 1;
        found.believed += u64::from(believed);
        found.old += u64::from(entry.node.seq < answered);
    }

    /// Changes the file, and is answered.
    async fn change(&self, file: usize) {
        let seq = self.seq.get() + 1;
        self.seq.set(seq);
        self.there[file].set(seq);
        let touched = Touched::Folders([NodeId(FILES[file])].into());
        let change = Change { space: SpaceId(1), since: seq - 1, seq, by: 0 };
        let (began, wait) = (Instant::now(), self.leases.changed(&Noted { change, touched, maker: 0 }));
        if let Some(wait) = wait {
            wait.over().await;
        }
        self.answered[file].set(self.answered[file].get().max(seq));
        let mut found = self.found.borrow_mut();
        found.changes += 1;
        found.longest = found.longest.max(began.elapsed());
    }

    /// The stream of changes asks the mount for its word.
    async fn listen(&self) {
        let bell = self.leases.bell(MOUNT);
        let mut asked = 0;
        loop {
            if let Some(Owed { ask, touched, .. }) = self.leases.owed(MOUNT, asked) {
                asked = ask;
                self.arrives().await;
                match touched {
                    Touched::Folders(folders) => self.names.hear(Some(&Vec::from_iter(folders))),
                    Touched::All => self.names.hear(None),
                }
                self.word.hears(ask);
                self.word.is_due();
            }
            bell.notified().await;
        }
    }

    async fn speak(&self) {
        let tell = |call| async move {
            let Call::Heard(number, heard, forgot) = call else { unreachable!("somebody asks all the time") };
            sleep_until(self.frozen_until.get()).await;
            self.travels().await;
            let is_taken = self.leases.hear(MOUNT, 9, Lease { number, heard, forgot });
            self.arrives().await;
            // One of a few is lost.
            if self.dice.below(20) == 0 { Err(holdfast_base::Error::unavailable("lost")) } else { Ok(Some(is_taken)) }
        };
        tell_by((&self.word, &self.names), tell, || ()).await;
    }
}

/// One run.
fn run(seed: u64) -> Found {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    LocalSet::new().block_on(&runtime, async {
        let dice = Dice(Cell::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1));
        let trip_ms = [2, 20, 200, 900][usize::try_from(dice.below(4)).unwrap_or(0)];
        // Seldom, so that something is believed in between; often in some runs.
        let pause_ms = [5, 100, 1_500][usize::try_from(dice.below(3)).unwrap_or(0)];
        let world = Rc::new(World {
            dice,
            leases: Arc::default(),
            names: Names::new(Arc::new(Voice::new())),
            word: Word::default(),
            seq: Cell::new(0),
            there: Default::default(),
            answered: Default::default(),
            cut_until: Cell::new(Instant::now()),
            frozen_until: Cell::new(Instant::now()),
            trip_ms,
            found: RefCell::default(),
        });
        world.names.trust(true);
        let of = |world: &Rc<World>| world.clone();
        let (it, speaks) = (of(&world), of(&world));
        spawn_local(async move { it.listen().await });
        spawn_local(async move { speaks.speak().await });
        for _ in 0..3 {
            let (opens, writes) = (of(&world), of(&world));
            spawn_local(async move {
                loop {
                    opens.open(opens.either()).await;
                    sleep(opens.dice.ms(30)).await;
                }
            });
            spawn_local(async move {
                loop {
                    let file = writes.either();
                    writes.change(file).await;
                    // Whoever is told of it opens it at once.
                    writes.open(file).await;
                    sleep(writes.dice.ms(pause_ms)).await;
                }
            });
        }
        let breaks = of(&world);
        spawn_local(async move {
            loop {
                sleep(breaks.dice.ms(8_000)).await;
                let until = Instant::now() + breaks.dice.ms(7_000);
                let what = if breaks.dice.below(2) == 0 { &breaks.cut_until } else { &breaks.frozen_until };
                what.set(until);
            }
        });
        sleep(LASTS).await;
        world.found.take()
    })
}

#[test]
fn nobody_who_opens_after_a_change_was_answered_finds_what_was_before() {
    let mut all = Found::default();
    for seed in 0..300 {
        let found = run(seed);
        assert_eq!(found.old, 0, "seed {seed}: {found:?}");
        assert!(found.longest <= WAITS_MAX, "seed {seed}: {found:?}");
        all.opens += found.opens;
        all.believed += found.believed;
        all.changes += found.changes;
    }
    println!("{all:?}");
    assert!(all.changes > 10_000 && all.believed > 10_000 && all.opens - all.believed > 10_000, "{all:?}");
}

/// Another server, or one whose clock was put back, may ask by smaller numbers.
#[test]
fn what_is_heard_of_another_server_is_what_that_asks() {
    let word = Word::default();
    word.begins();
    word.hears(1_000);
    word.hears(990);
    assert_eq!(word.heard.load(Ordering::Acquire), 1_000);
    word.begins();
    word.hears(500);
    assert_eq!(word.heard.load(Ordering::Acquire), 500);
}
