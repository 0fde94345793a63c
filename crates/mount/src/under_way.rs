//! What is under way: a table of places that operations take and leave without a lock.
//!
//! An operation takes a place, first the one its thread had last, writes what it is, and gives it back at its end. Whoever looks reads a place and then
//! whether it is still the same operation's; if not, that one has ended, and is left out. So nobody ever waits for anybody, and begin and end cost some
//! stores to memory that is nearly always this core's already.

use crate::meter::Kind;
use std::cell::Cell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::time::{Duration, Instant};

/// Places. There are as many operations under way as threads of the kernel's wait for one; of more than these, the number is told only.
const PLACES: usize = 512;
/// Places between those that two threads look at first.
const PLACES_APART: usize = 8;
/// Bytes of a name that are kept of an operation under way: the longest there is, and more in words.
const NAME_BYTES_MAX: usize = 255;
const NAME_WORDS: usize = NAME_BYTES_MAX.div_ceil(8);
/// What a place's version is a multiple of when it is free; being written it is one more, told two more.
const FREE: u64 = 4;
const WRITTEN: u64 = 1;
const TOLD: u64 = 2;

macro_rules! waits {
    ($($name:ident $text:literal)*) => {
        /// What an operation may wait for in the depths.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Wait { None, $($name),* }

        impl Wait {
            const ALL: &[(Self, Option<&'static str>)] = &[(Self::None, None), $((Self::$name, Some($text))),*];
        }
    };
}

waits! {
    SameFile "another operation on the same file"
    Saved "the content to be saved"
    Sealed "blocks to be sealed"
    Read "the content to be read"
    Copied "the copy to be saved"
    HandedOver "the journal to be handed over"
    Room "room in the journal"
    Lock "a lock"
    Forgotten "the kernel to forget what the file was"
}

/// A place. Its size keeps two from sharing a line of the cache.
#[repr(align(128))]
struct Place {
    version: AtomicU64,
    kind: AtomicU8,
    waits_for: AtomicU8,
    name_bytes: AtomicU8,
    has_name: AtomicU8,
    process: AtomicU32,
    inode: AtomicU64,
    since_ns: AtomicU64,
    name: [AtomicU64; NAME_WORDS],
}

/// An operation, as it was when it was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Running {
    pub(crate) kind: Kind,
    pub(crate) inode: u64,
    pub(crate) name: Option<String>,
    pub(crate) process: u32,
    /// How long it has been under way.
    pub(crate) since: Duration,
    pub(crate) waits_for: Option<&'static str>,
}

/// The table.
pub(crate) struct Table {
    began: Instant,
    places: Box<[Place]>,
    /// Operations that found no place.
    others: AtomicU64,
    /// Threads that took a place.
    threads: AtomicUsize,
}

/// A place in the table, or none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken(Option<u32>);

thread_local! {
    /// The place that this thread had last.
    static LAST: Cell<usize> = const { Cell::new(usize::MAX) };
}

impl Table {
    pub(crate) fn new() -> Self {
        let place = |_| Place {
            version: AtomicU64::new(0),
            kind: AtomicU8::new(0),
            waits_for: AtomicU8::new(0),
            name_bytes: AtomicU8::new(0),
            has_name: AtomicU8::new(0),
            process: AtomicU32::new(0),
            inode: AtomicU64::new(0),
            since_ns: AtomicU64::new(0),
            name: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        Self {
            began: Instant::now(),
            places: (0..PLACES).map(place).collect(),
            others: AtomicU64::new(0),
            threads: AtomicUsize::new(0),
        }
    }

    /// An operation begins.
    pub(crate) fn take(&self, kind: Kind, process: u32, inode: u64, name: Option<&OsStr>, now: Instant) -> Taken {
        let Some(at) = self.free() else {
            self.others.fetch_add(1, Ordering::Relaxed);
            return Taken(None);
        };
        // Whoever reads what follows sees that it is being written.
        fence(Ordering::Release);
        let place = &self.places[at];
        place.kind.store(kind as u8, Ordering::Relaxed);
        place.waits_for.store(Wait::None as u8, Ordering::Relaxed);
        place.process.store(process, Ordering::Relaxed);
        place.inode.store(inode, Ordering::Relaxed);
        let since = now.saturating_duration_since(self.began);
        place.since_ns.store(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        place.has_name.store(name.is_some().into(), Ordering::Relaxed);
        let bytes = name.map_or(&[][..], |name| name.as_bytes());
        let bytes = &bytes[..bytes.len().min(NAME_BYTES_MAX)];
        place.name_bytes.store(u8::try_from(bytes.len()).unwrap_or(0), Ordering::Relaxed);
        for (word, bytes) in place.name.iter().zip(bytes.chunks(8)) {
            let mut value = [0; 8];
            value[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(value), Ordering::Relaxed);
        }
        place.version.fetch_add(TOLD - WRITTEN, Ordering::Release);
        Taken(u32::try_from(at).ok())
    }

    /// A place of which the version says now that it is being written.
    fn free(&self) -> Option<usize> {
        let mut first = LAST.get();
        if first == usize::MAX {
            // Threads begin apart from each other.
            first = self.threads.fetch_add(1, Ordering::Relaxed) * PLACES_APART;
        }
        let found = (0..PLACES).map(|step| (first + step) % PLACES).find(|at| {
            let version = &self.places[*at].version;
            let seen = version.load(Ordering::Relaxed);
            seen.is_multiple_of(FREE)
                && version.compare_exchange(seen, seen + WRITTEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
        })?;
        LAST.set(found);
        Some(found)
    }

    /// It has ended.
    pub(crate) fn give(&self, Taken(at): Taken) {
        match at {
            Some(at) => {
                self.places[at as usize].version.fetch_add(FREE - TOLD, Ordering::Release);
            }
            None => {
                self.others.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// It waits, or goes on; answers what it waited for before.
    pub(crate) fn waits_for(&self, Taken(at): Taken, wait: Wait) -> Wait {
        let Some(at) = at else { return Wait::None };
        let before = self.places[at as usize].waits_for.swap(wait as u8, Ordering::Relaxed);
        Wait::of(before)
    }

    /// How many operations are under way, and those that have a place.
    pub(crate) fn look(&self) -> (u64, Vec<Running>) {
        let now = self.began.elapsed();
        let found: Vec<Running> = self.places.iter().filter_map(|place| place.read(now)).collect();
        (found.len() as u64 + self.others.load(Ordering::Relaxed), found)
    }
}

impl Wait {
    fn of(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).map_or(Self::None, |(wait, _)| *wait)
    }

    fn text(self) -> Option<&'static str> {
        Self::ALL[usize::from(self as u8)].1
    }
}

impl Place {
    fn read(&self, now: Duration) -> Option<Running> {
        let version = self.version.load(Ordering::Acquire);
        if version % FREE != TOLD {
            return None;
        }
        let kind = Kind::of(self.kind.load(Ordering::Relaxed))?;
        let bytes: Vec<u8> = self.name.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
        let length = usize::from(self.name_bytes.load(Ordering::Relaxed)).min(NAME_BYTES_MAX);
        let name = String::from_utf8_lossy(&bytes[..length]).into_owned();
        let since = Duration::from_nanos(self.since_ns.load(Ordering::Relaxed));
        let running = Running {
            kind,
            inode: self.inode.load(Ordering::Relaxed),
            name: (self.has_name.load(Ordering::Relaxed) != 0).then_some(name),
            process: self.process.load(Ordering::Relaxed),
            since: now.saturating_sub(since),
            waits_for: Wait::of(self.waits_for.load(Ordering::Relaxed)).text(),
        };
        fence(Ordering::Acquire);
        (self.version.load(Ordering::Relaxed) == version).then_some(running)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_there_are_places_for_are_counted_and_each_place_is_used_again() {
        let table = Table::new();
        let take = |inode| table.take(Kind::Read, 1, inode, Some(OsStr::new("näme")), Instant::now());
        let taken: Vec<Taken> = (0..PLACES as u64 + 3).map(take).collect();
        let (count, told) = table.look();
        assert_eq!((count, told.len()), (PLACES as u64 + 3, PLACES));
        assert!(told.iter().all(|running| running.name.as_deref() == Some("näme")));
        for taken in taken {
            table.give(taken);
        }
        assert_eq!(table.look().0, 0);
        let long = "x".repeat(300);
        let again = table.take(Kind::Lookup, 2, 7, Some(long.as_ref()), Instant::now());
        let told = table.look().1;
        assert_eq!((told[0].name.as_ref().map(String::len), told[0].inode), (Some(NAME_BYTES_MAX), 7));
        table.give(again);
    }

    /// Ends the threads, whatever becomes of the test.
    struct End<'e>(&'e std::sync::atomic::AtomicBool);

    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn whoever_looks_meanwhile_never_sees_a_mixture_of_two() {
        let table = Table::new();
        let ended = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (table, ended) = (&table, &ended);
                scope.spawn(move || {
                    let mut number = thread;
                    while !ended.load(Ordering::Relaxed) {
                        number += 4;
                        let name = format!("{number}-{}", "y".repeat(usize::try_from(number % 100).expect("small")));
                        let process = u32::try_from(number % 1_000).expect("small");
                        let name = Some(OsStr::new(&name));
                        let taken = table.take(Kind::Write, process, number, name, Instant::now());
                        std::thread::yield_now();
                        table.give(taken);
                    }
                });
            }
            let mut seen = 0;
            let _end = End(&ended);
            while seen < 1_000 {
                for running in table.look().1 {
                    let name = format!(
                        "{}-{}",
                        running.inode,
                        "y".repeat(usize::try_from(running.inode % 100).expect("small"))
                    );
                    assert_eq!((running.name, u64::from(running.process)), (Some(name), running.inode % 1_000));
                    seen += 1;
                }
            }
        });
        assert_eq!(table.look().0, 0);
    }
}
