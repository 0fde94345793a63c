//! Whether a network loses or reorders so much that TCP leaves most of it unused.
//!
//! A near server is reached by TCP, and the kernel takes what is lost or late for congestion: at 100 Mbit/s, a millisecond and 8 % loss CUBIC has a tenth of the link. From what it counts that is
//! seen within a second, where a [trial](super::trial) would need a quarter of a minute of crawling to begin.
//!
//! On a link that is merely full, 2 to 6 % of the packets come out of order, behind those that its queue had no room for; with 2 % lost, of which TCP bears as much on a near link, it is 12 to 14 %,
//! and with 4 % and more 15 to 30 %.

use std::iter::Sum;

/// One of so many packets comes out of order.
const OUT_OF_ORDER: u64 = 8;
/// One of so many packets is sent again. On a full link it is less than one of a hundred.
const AGAIN: u64 = 25;
/// Fewer packets than that say nothing. Where a third is lost, TCP has some thirty in the first two seconds.
const ENOUGH: u64 = 16;
/// Bytes a second that the plane moves with ease, on a link of any quality: whatever TCP moves above that is not certain to be less.
const PLANE_MOVES: u64 = 32 << 20;

/// So many looks running have to find it so.
const LOOKS: u32 = 2;

/// Packets with content, as the kernel counts them (`TCP_INFO`, tcp(7)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Packets {
    pub(super) sent: u64,
    /// Of those: sent again.
    pub(super) again: u64,
    pub(super) came: u64,
    /// Of those: behind a gap.
    pub(super) out_of_order: u64,
}

impl Packets {
    /// Those since `before`. A connection that ended meanwhile takes its packets with it, and what is less than before is none.
    const fn since(self, before: Self) -> Self {
        Self {
            sent: self.sent.saturating_sub(before.sent),
            again: self.again.saturating_sub(before.again),
            came: self.came.saturating_sub(before.came),
            out_of_order: self.out_of_order.saturating_sub(before.out_of_order),
        }
    }

    const fn are_disturbed(self) -> bool {
        let comes = self.came >= ENOUGH && self.out_of_order * OUT_OF_ORDER > self.came;
        comes || (self.sent >= ENOUGH && self.again * AGAIN > self.sent)
    }
}

impl Sum for Packets {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            sent: sum.sent + one.sent,
            again: sum.again + one.again,
            came: sum.came + one.came,
            out_of_order: sum.out_of_order + one.out_of_order,
        })
    }
}

/// Looks at a transfer over TCP, again and again.
#[derive(Debug, Default)]
pub(super) struct Lossy {
    /// What there was when there were enough last.
    before: Packets,
    /// Looks running at which it was disturbed.
    disturbed: u32,
}

impl Lossy {
    /// What the kernel counts by now, and bytes a second since the last look; answers whether the plane would move more. One look is not enough: whoever begins fills the queue until it overflows.
    pub(super) fn look(&mut self, packets: Packets, rate: u64) -> bool {
        let since = packets.since(self.before);
        if since.sent.max(since.came) < ENOUGH {
            return false;
        }
        self.before = packets;
        let is_disturbed = since.are_disturbed() && rate < PLANE_MOVES;
        self.disturbed = if is_disturbed { self.disturbed + 1 } else { 0 };
        self.disturbed >= LOOKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn came(came: u64, out_of_order: u64) -> Packets {
        Packets { sent: 9, again: 9, came, out_of_order }
    }

    const fn sent(sent: u64, again: u64) -> Packets {
        Packets { sent, again, came: 9, out_of_order: 9 }
    }

    fn add(a: Packets, b: Packets) -> Packets {
        [a, b].into_iter().sum()
    }

    #[test]
    fn a_full_link_is_none_that_loses() {
        // Seen over emulated links of 100 Mbit/s: nothing lost, 4, 8 and 32 %.
        for (packets, is_lossy) in [
            (came(2_613, 168), false),
            (came(15_716, 506), false),
            (came(3_077, 476), true),
            (came(1_151, 302), true),
            (came(33, 9), true),
            (came(15, 15), false),
            (sent(9_000, 60), false),
            (sent(9_000, 800), true),
            (Packets::default(), false),
        ] {
            for (rate, is_lossy) in [(1_000_000, is_lossy), (100_000_000, false)] {
                let mut lossy = Lossy::default();
                assert!(!lossy.look(packets, rate), "it may have just begun: {packets:?}");
                assert_eq!(lossy.look(add(packets, packets), rate), is_lossy, "{packets:?} {rate}");
            }
        }
    }

    #[test]
    fn only_what_came_since_counts_once_it_is_enough() {
        let mut lossy = Lossy::default();
        // The queue overflowed once.
        assert!(!lossy.look(came(400, 160), 0));
        assert!(!lossy.look(came(10_000, 600), 0));
        assert!(!lossy.look(came(10_020, 610), 0));
        assert!(!lossy.look(came(10_030, 615), 0), "too few");
        assert!(lossy.look(came(10_040, 620), 0));
        // A connection has ended.
        assert!(!lossy.look(came(100, 50), 0));
    }
}
