//! Which of what is kept goes when there is no room: S3-FIFO (Yang and others, SOSP 2023).
//!
//! What is new goes into a *small* line, a tenth of the room. At its end, what was asked for again meanwhile goes on into the *main* line, and the rest goes,
//! but its name is remembered for a while: what comes back within that goes to the main line at once. At the main line's end, what was asked for begins
//! anew, as often as it was asked for and three times at most. So whoever reads a terabyte once passes through a tenth of the room, and what is used stays.
//!
//! Pinned things are in no line and never go. Nothing here touches the disk.

use super::name::Name;
use std::collections::{HashMap, HashSet, VecDeque};

/// What is new has this share of the room.
const SMALL_SHARE: u64 = 10;
/// Questions that count.
const HITS_MAX: u8 = 3;
/// Names of what went that are remembered at least; beyond, as many as there are things.
const GONE_MIN: usize = 1_024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Small,
    Main,
    Pinned,
}

#[derive(Debug)]
struct Slot {
    bytes: u64,
    hits: u8,
    place: Place,
    /// Where it stands in its line: an earlier ticket of the same name is of something that left.
    ticket: u64,
}

/// A line, the next to go first.
#[derive(Debug, Default)]
struct Line {
    order: VecDeque<(Name, u64)>,
    bytes: u64,
    count: usize,
}

/// What is kept, without its bytes.
#[derive(Debug)]
pub(super) struct Queue {
    slots: HashMap<Name, Slot>,
    small: Line,
    main: Line,
    pinned_bytes: u64,
    gone: VecDeque<Name>,
    gone_names: HashSet<Name>,
    tickets: u64,
    small_max: u64,
}

impl Queue {
    /// An empty one for so many bytes.
    pub(super) fn new(bytes_max: u64) -> Self {
        Self {
            slots: HashMap::new(),
            small: Line::default(),
            main: Line::default(),
            pinned_bytes: 0,
            gone: VecDeque::new(),
            gone_names: HashSet::new(),
            tickets: 0,
            small_max: bytes_max / SMALL_SHARE,
        }
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.small.bytes + self.main.bytes + self.pinned_bytes
    }

    pub(super) const fn pinned_bytes(&self) -> u64 {
        self.pinned_bytes
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether it is kept, and pinned.
    pub(super) fn find(&self, name: Name) -> Option<bool> {
        self.slots.get(&name).map(|slot| slot.place == Place::Pinned)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = (Name, bool)> {
        self.slots.iter().map(|(name, slot)| (*name, slot.place == Place::Pinned))
    }

    /// It was asked for.
    pub(super) fn hit(&mut self, name: Name) {
        if let Some(slot) = self.slots.get_mut(&name) {
            slot.hits = (slot.hits + 1).min(HITS_MAX);
        }
    }

    /// It is kept from now on, or again with other bytes. What was found on the disk was kept before, and is no newcomer.
    pub(super) fn add(&mut self, name: Name, bytes: u64, pinned: bool, found: bool) {
        let was = self.slots.remove(&name).inspect(|slot| self.leave(slot));
        let returns = self.gone_names.remove(&name);
        let was_main = was.as_ref().is_some_and(|slot| slot.place == Place::Main);
        let place = if pinned || was.as_ref().is_some_and(|slot| slot.place == Place::Pinned) {
            Place::Pinned
        } else if was_main || returns || found {
            Place::Main
        } else {
            Place::Small
        };
        self.enter(name, bytes, was.map_or(0, |slot| slot.hits), place);
    }

    /// It is not kept any more.
    pub(super) fn remove(&mut self, name: Name) {
        if let Some(slot) = self.slots.remove(&name) {
            self.leave(&slot);
        }
    }

    /// Whether it may go from now on. Answers whether that is new.
    pub(super) fn pin(&mut self, name: Name, pinned: bool) -> bool {
        let Some(slot) = self.slots.get(&name) else { return false };
        if (slot.place == Place::Pinned) == pinned {
            return false;
        }
        let (bytes, hits) = (slot.bytes, slot.hits);
        self.remove(name);
        self.enter(name, bytes, hits, if pinned { Place::Pinned } else { Place::Main });
        true
    }

    /// What goes next, if anything may.
    pub(super) fn next_out(&mut self) -> Option<Name> {
        loop {
            let from_small = self.small.count > 0 && (self.small.bytes > self.small_max || self.main.count == 0);
            let place = if from_small { Place::Small } else { Place::Main };
            let (name, ticket) = self.line(place)?.order.pop_front()?;
            let Some(slot) = self.slots.get(&name).filter(|slot| slot.ticket == ticket) else { continue };
            let (bytes, hits) = (slot.bytes, slot.hits);
            self.remove(name);
            match place {
                Place::Small if hits > 0 => self.enter(name, bytes, 0, Place::Main),
                Place::Main if hits > 0 => self.enter(name, bytes, hits - 1, Place::Main),
                Place::Small => {
                    self.remember(name);
                    return Some(name);
                }
                Place::Main | Place::Pinned => return Some(name),
            }
        }
    }

    fn line(&mut self, place: Place) -> Option<&mut Line> {
        match place {
            Place::Small => Some(&mut self.small),
            Place::Main => Some(&mut self.main),
            Place::Pinned => None,
        }
    }

    fn enter(&mut self, name: Name, bytes: u64, hits: u8, place: Place) {
        self.tickets += 1;
        let ticket = self.tickets;
        self.slots.insert(name, Slot { bytes, hits, place, ticket });
        let Some(line) = self.line(place) else {
            self.pinned_bytes += bytes;
            return;
        };
        line.bytes += bytes;
        line.count += 1;
        line.order.push_back((name, ticket));
        // What left from the middle is still in the order.
        if line.order.len() > 2 * line.count + GONE_MIN {
            self.tidy(place);
        }
    }

    fn leave(&mut self, slot: &Slot) {
        let bytes = slot.bytes;
        match self.line(slot.place) {
            Some(line) => {
                line.bytes -= bytes;
                line.count -= 1;
            }
            None => self.pinned_bytes -= bytes,
        }
    }

    fn tidy(&mut self, place: Place) {
        let slots = &self.slots;
        let line = match place {
            Place::Small => &mut self.small,
            Place::Main => &mut self.main,
            Place::Pinned => return,
        };
        line.order.retain(|(name, ticket)| slots.get(name).is_some_and(|slot| slot.ticket == *ticket));
    }

    fn remember(&mut self, name: Name) {
        if self.gone_names.insert(name) {
            self.gone.push_back(name);
        }
        while self.gone.len() > self.slots.len().max(GONE_MIN) {
            if let Some(oldest) = self.gone.pop_front() {
                self.gone_names.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_base::NodeId;
    use proptest::prelude::*;

    const MAX: u64 = 1_000;

    fn name(number: i64) -> Name {
        Name::Folder(NodeId(number))
    }

    /// Keeps something of ten bytes, as the cache does.
    fn keep(queue: &mut Queue, number: i64) {
        while queue.bytes() + 10 > MAX {
            queue.next_out().expect("something may go");
        }
        queue.add(name(number), 10, false, false);
    }

    fn ask(queue: &mut Queue, number: i64) -> bool {
        let is_there = queue.find(name(number)).is_some();
        if is_there {
            queue.hit(name(number));
        } else {
            keep(queue, number);
        }
        is_there
    }

    #[test]
    fn what_is_used_survives_whoever_reads_everything_once() {
        let mut queue = Queue::new(MAX);
        for _ in 0..3 {
            (0..50).for_each(|number| _ = ask(&mut queue, number));
        }
        for round in 0..20 {
            (0..500).for_each(|number| _ = ask(&mut queue, 1_000 + round * 500 + number));
            let hits = (0..50).filter(|number| ask(&mut queue, *number)).count();
            assert_eq!(hits, 50, "round {round}");
        }
        assert!(queue.bytes() <= MAX);
    }

    #[test]
    fn what_comes_back_soon_after_it_went_stays_longer() {
        let mut queue = Queue::new(MAX);
        (0..150).for_each(|number| _ = ask(&mut queue, number));
        assert!(queue.find(name(0)).is_none());
        ask(&mut queue, 0);
        (1_000..1_095).for_each(|number| _ = ask(&mut queue, number));
        assert!(queue.find(name(0)).is_some(), "it is in the main line");
    }

    #[test]
    fn what_is_pinned_never_goes_and_what_is_let_go_may() {
        let mut queue = Queue::new(MAX);
        (0..50).for_each(|number| keep(&mut queue, number));
        (0..10).for_each(|number| assert!(queue.pin(name(number), true)));
        assert!(!queue.pin(name(0), true), "it is pinned already");
        (100..1_000).for_each(|number| keep(&mut queue, number));
        assert!((0..10).all(|number| queue.find(name(number)) == Some(true)));
        assert_eq!(queue.pinned_bytes(), 100);
        assert!((0..10).all(|number| queue.pin(name(number), false)));
        while queue.next_out().is_some() {}
        assert_eq!((queue.bytes(), queue.len(), queue.pinned_bytes()), (0, 0, 0));
    }

    proptest! {
        #[test]
        fn sums_are_those_of_what_is_kept(steps in prop::collection::vec((0..5_u8, 0..40_i64, 1..90_u64), 0..400)) {
            let mut queue = Queue::new(MAX);
            for (step, number, bytes) in steps {
                match step {
                    0 => queue.add(name(number), bytes, number % 7 == 0, number % 3 == 0),
                    1 => queue.hit(name(number)),
                    2 => queue.remove(name(number)),
                    3 => drop(queue.pin(name(number), bytes % 2 == 0)),
                    _ => drop(queue.next_out()),
                }
                let of = |place| queue.slots.values().filter(|slot| slot.place == place).map(|slot| slot.bytes).sum::<u64>();
                prop_assert_eq!(queue.small.bytes, of(Place::Small));
                prop_assert_eq!(queue.main.bytes, of(Place::Main));
                prop_assert_eq!(queue.pinned_bytes, of(Place::Pinned));
                let live = |line: &Line| {
                    line.order.iter().filter(|(name, ticket)| queue.slots.get(name).is_some_and(|slot| slot.ticket == *ticket)).count()
                };
                prop_assert_eq!(queue.small.count, live(&queue.small));
                prop_assert_eq!(queue.main.count, live(&queue.main));
                prop_assert_eq!(queue.gone.len() >= queue.gone_names.len(), true);
            }
        }
    }
}
