//! The kernel's rules, in the kernel's order (`netem_enqueue` in `net/sched/sch_netem.c` of Linux 6.18).

use super::{Link, Nanos};

impl Link {
    /// 1. Whether it is doubled; 2. whether it is lost, which takes one of the two, so both together are one normal packet; 3. the copy is made
    ///    before harm, and goes through everything but doubling by itself; 4. one bit; 5. the limit; 6. whether it goes to the front at once; else
    ///    7. the delay and 8. the rate, whose next slot begins where the last packet that waits leaves.
    pub(super) fn push_netem(&mut self, now: Nanos, mut packet: Vec<u8>, may_double: bool) {
        let bytes = self.bytes(&packet);
        let doubled = may_double && self.counters.duplication.count(self.duplication.hits());
        let lost = self.counters.loss.count(self.loss.hits());
        if lost && !doubled {
            return;
        }
        let copy = (doubled && !lost).then(|| packet.clone());
        if self.counters.corruption.count(self.corruption.hits()) {
            self.flip(&mut packet);
        }
        if self.overflows(self.delayed.len() >= self.impairments.queue.packets, bytes) {
            // The copy, if there is one, finds no room either.
            if copy.is_some() {
                self.counters.overflowed.count(bytes);
            }
            return;
        }
        if let Some(copy) = copy {
            self.push_netem(now, copy, false);
        }
        if self.skips_delay() {
            self.held_bytes += bytes;
            self.fronts.push_front(packet);
        } else {
            let at = self.leaves(now, bytes);
            self.hold(at, packet);
        }
    }

    fn leaves(&mut self, now: Nanos, bytes: u64) -> Nanos {
        let delay = self.delay();
        let at = match self.impairments.rate {
            None => now + delay,
            // The delay counts from now, but no slot begins before the last one ends.
            Some(_) if self.delayed.is_empty() => now + delay + self.slot(bytes),
            Some(_) => self.latest.max(now + delay) + self.slot(bytes),
        };
        self.latest = if self.delayed.is_empty() { at } else { self.latest.max(at) };
        at
    }
}
