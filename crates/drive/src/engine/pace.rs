//! How fast a reader takes what it is given, and what follows from it.
//!
//! Measured from handing out a piece until the next is asked for (and, where it is a copy, until it is gone), so only the reader's
//! own time counts and not that of fetching blocks. One figure, of the last piece: a reader that was held up once is fast
//! again a piece later.

use std::time::Duration;
use tokio::time::Instant;

/// A reader this fast (bytes a second) is handed slices of blocks: it holds a block of 1 MiB for 50 ms at most. For slower ones a copy
/// costs little beside their network.
const FAST_BYTES_PER_S: u64 = 20 << 20;
/// At this pace a block lasts for 250 ms: one block ahead hides the fetching of the next.
const STEADY_BYTES_PER_S: u64 = 4 << 20;
/// Blocks fetched ahead for a fast reader: keeps two cores busy beside the socket.
const AHEAD_BLOCKS_MAX: u64 = 4;
/// A copy lasts its reader for a quarter of a second: few enough look-ups, and little memory a reader.
const COPIES_PER_S: u64 = 4;
/// The first copy of a reader nothing is known of.
const FIRST_COPY_BYTES: usize = 64 * 1_024;

/// The pace of one reader.
#[derive(Default)]
pub(crate) struct Pace {
    given: Option<(Instant, usize)>,
    bytes_per_s: Option<u64>,
}

impl Pace {
    /// A piece is handed out.
    pub(crate) const fn gave(&mut self, bytes: usize, now: Instant) {
        self.given = Some((now, bytes));
    }

    /// The next one is asked for.
    pub(crate) fn took(&mut self, now: Instant) {
        let Some((since, bytes)) = self.given.take() else { return };
        let elapsed = now.saturating_duration_since(since).max(Duration::from_nanos(1));
        let rate = bytes as u128 * 1_000_000_000 / elapsed.as_nanos();
        self.bytes_per_s = Some(u64::try_from(rate).unwrap_or(u64::MAX));
    }

    /// Whether slices of blocks may be handed out; an unknown reader may be fast.
    pub(crate) fn is_fast(&self) -> bool {
        self.bytes_per_s.is_none_or(|rate| rate >= FAST_BYTES_PER_S)
    }

    /// Blocks to fetch ahead. None for the first piece: many readers want no second.
    pub(crate) fn ahead_blocks(&self) -> u64 {
        match self.bytes_per_s {
            Some(FAST_BYTES_PER_S..) => AHEAD_BLOCKS_MAX,
            Some(STEADY_BYTES_PER_S..) => 1,
            _ => 0,
        }
    }

    /// Bytes to copy at a time.
    pub(crate) fn copy_bytes(&self) -> usize {
        let quarter = |rate: u64| usize::try_from(rate / COPIES_PER_S).unwrap_or(usize::MAX);
        self.bytes_per_s.map_or(FIRST_COPY_BYTES, quarter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(bytes: usize, time: Duration) -> Pace {
        let (mut pace, start) = (Pace::default(), Instant::now());
        pace.gave(bytes, start);
        pace.took(start + time);
        pace
    }

    #[test]
    fn a_new_reader_may_have_slices_and_nothing_ahead() {
        let pace = Pace::default();
        assert!(pace.is_fast());
        assert_eq!((pace.ahead_blocks(), pace.copy_bytes()), (0, FIRST_COPY_BYTES));
    }

    #[test]
    fn the_faster_a_reader_the_more_it_gets() {
        let slow = after(100, Duration::from_secs(1));
        assert!(!slow.is_fast());
        assert_eq!((slow.ahead_blocks(), slow.copy_bytes()), (0, 25));
        let steady = after(1 << 20, Duration::from_millis(200));
        assert!(!steady.is_fast());
        assert_eq!((steady.ahead_blocks(), steady.copy_bytes()), (1, 5 << 18));
        let fast = after(1 << 20, Duration::ZERO);
        assert!(fast.is_fast());
        assert_eq!(fast.ahead_blocks(), AHEAD_BLOCKS_MAX);
    }

    #[test]
    fn a_reader_that_was_held_up_is_fast_again_after_one_piece() {
        let mut pace = after(100, Duration::from_secs(1));
        let now = Instant::now();
        pace.gave(1 << 16, now);
        pace.took(now + Duration::from_millis(1));
        assert!(pace.is_fast());
    }
}
