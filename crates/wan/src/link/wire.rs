//! The rules of percentages that are true: a queue, a rate, and a wire that does the harm.

use super::{Link, Nanos};

impl Link {
    /// 1. The queue's limits; 2. a slot at the rate, which a lost packet uses as well; 3. loss; 4. whether it skips the delay, of those that are
    ///    not lost; 5. one copy, which arrives behind it; 6. one bit, of each of the two by itself.
    pub(super) fn push_wire(&mut self, now: Nanos, packet: Vec<u8>) {
        let bytes = self.bytes(&packet);
        let Some(leaves) = self.take_slot(now, bytes) else { return };
        if self.counters.loss.count(self.loss.hits()) {
            return;
        }
        let skips = self.skips_delay();
        let at = if skips { leaves } else { leaves + self.delay() };
        let doubled = self.counters.duplication.count(self.duplication.hits());
        let copy = doubled.then(|| packet.clone());
        for mut packet in std::iter::once(packet).chain(copy) {
            if self.counters.corruption.count(self.corruption.hits()) {
                self.flip(&mut packet);
            }
            self.hold(at, packet);
        }
    }

    /// The end of the packet's slot, if there is room in the queue before it.
    fn take_slot(&mut self, now: Nanos, bytes: u64) -> Option<Nanos> {
        while let Some(&(_, gone)) = self.slots.front().filter(|(end, _)| *end <= now) {
            self.waiting_bytes -= gone;
            self.slots.pop_front();
        }
        let queue = self.impairments.queue;
        let full = self.slots.len() >= queue.packets
            || queue.bytes.is_some_and(|limit| !self.slots.is_empty() && self.waiting_bytes + bytes > limit);
        if self.overflows(full, bytes) {
            return None;
        }
        let end = self.free_at.max(now) + self.slot(bytes);
        self.free_at = end;
        if end > now {
            self.slots.push_back((end, bytes));
            self.waiting_bytes += bytes;
        }
        Some(end)
    }
}
