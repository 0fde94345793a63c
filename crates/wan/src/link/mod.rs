//! The scheduler of one direction: packets in with a time, packets out with a time.
//!
//! It has no clock and does no input or output. Its caller offers packets as they come ([`Link::push`]), takes those that are due
//! ([`Link::pop`]), and sleeps until the next one is ([`Link::next_due`]). Times are nanoseconds since any moment, and do not run backwards.
//! What happens is decided when a packet is offered, by generators that only the seed and the order of packets move, so a sequence of
//! offers has one outcome. `netem` and `wire` are the two sets of rules ([`Mode`]).
//!
//! The rate is a clock of slots, not a bucket of tokens: a packet's slot begins where the last one's ends, so time that was not used is
//! gone and there is no burst to begin with.
//!
//! Limits: the queue's, and [`HELD_BYTES_MAX`] for everything that is on its way.

mod netem;
#[cfg(test)]
mod tests;
mod wire;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::count::Counters;
use crate::random::{Correlated, Random, Rule};
use crate::settings::{Impairments, Invalid, Mode};

/// Nanoseconds since any moment.
pub type Nanos = u64;

/// What may be on its way at once: 2 s at 1 Gbit/s.
const HELD_BYTES_MAX: u64 = 256 << 20;

/// A packet on its way. Earlier ones come first, and of those of one time the one that was offered first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Nanos,
    order: u64,
    packet: Vec<u8>,
}

/// One direction of a link.
#[derive(Debug)]
pub struct Link {
    impairments: Impairments,
    counters: Counters,
    loss: Rule,
    corruption: Rule,
    duplication: Rule,
    reordering: Rule,
    jitter: Correlated,
    /// Which bit is flipped.
    bits: Random,
    delayed: BinaryHeap<Reverse<Due>>,
    order: u64,
    held_bytes: u64,
    /// Netem's: packets that go before all others, the last one first.
    fronts: VecDeque<Vec<u8>>,
    /// Netem's: the latest time at which anything leaves.
    latest: Nanos,
    /// Packets since the last that skipped the delay.
    since_reordered: u32,
    /// The wire's: when what waits has its slot behind it, and its bytes.
    slots: VecDeque<(Nanos, u64)>,
    waiting_bytes: u64,
    /// The wire's: when the last slot ends.
    free_at: Nanos,
}

impl Link {
    /// A link with nothing on it.
    pub fn new(impairments: Impairments, seed: u64) -> Result<Self, Invalid> {
        impairments.check()?;
        let mode = impairments.mode;
        let random = |purpose| Random::new(seed, purpose);
        Ok(Self {
            impairments,
            counters: Counters::default(),
            loss: Rule::of_loss(impairments.loss, mode, random(1)),
            corruption: Rule::new(impairments.corruption, mode, random(2)),
            duplication: Rule::new(impairments.duplication, mode, random(3)),
            reordering: Rule::new(impairments.reordering, mode, random(4)),
            jitter: Correlated::new(impairments.jitter_correlation, random(5)),
            bits: random(6),
            delayed: BinaryHeap::new(),
            order: 0,
            held_bytes: 0,
            fronts: VecDeque::new(),
            latest: 0,
            since_reordered: 0,
            slots: VecDeque::new(),
            waiting_bytes: 0,
            free_at: 0,
        })
    }

    /// Offers a packet that arrives `now`.
    pub fn push(&mut self, now: Nanos, packet: Vec<u8>) {
        let bytes = self.bytes(&packet);
        self.counters.offered.count(bytes);
        match self.impairments.mode {
            Mode::Netem => self.push_netem(now, packet, true),
            Mode::True => self.push_wire(now, packet),
        }
    }

    /// The next packet that is to leave by `now`.
    pub fn pop(&mut self, now: Nanos) -> Option<Vec<u8>> {
        let packet = match self.fronts.pop_front() {
            Some(packet) => packet,
            None if self.next_due()? <= now => self.delayed.pop()?.0.packet,
            None => return None,
        };
        let bytes = self.bytes(&packet);
        self.held_bytes -= bytes;
        self.counters.delivered.count(bytes);
        Some(packet)
    }

    /// When the next packet leaves; in the past if one waits to be taken.
    pub fn next_due(&self) -> Option<Nanos> {
        if self.fronts.is_empty() { self.delayed.peek().map(|Reverse(due)| due.at) } else { Some(0) }
    }

    /// Packets that are on their way.
    pub fn held(&self) -> usize {
        self.fronts.len() + self.delayed.len()
    }

    /// What it did so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What it is.
    pub fn impairments(&self) -> &Impairments {
        &self.impairments
    }

    /// What a packet takes on the link.
    fn bytes(&self, packet: &[u8]) -> u64 {
        packet.len() as u64 + u64::from(self.impairments.overhead_bytes)
    }

    /// How long a packet takes at the rate.
    fn slot(&self, bytes: u64) -> Nanos {
        let nanos = |rate: u64| u128::from(bytes) * 1_000_000_000 / u128::from(rate);
        self.impairments.rate.map_or(0, |rate| Nanos::try_from(nanos(rate)).unwrap_or(Nanos::MAX / 4))
    }

    /// The delay of the next packet, jitter included: even from the delay less the jitter up to just below the delay and the jitter.
    fn delay(&mut self) -> Nanos {
        let nanos = |duration: std::time::Duration| Nanos::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX / 4);
        let (delay, jitter) = (nanos(self.impairments.delay), nanos(self.impairments.jitter));
        if jitter == 0 {
            return delay;
        }
        (delay + u64::from(self.jitter.next()) % (2 * jitter)).saturating_sub(jitter)
    }

    /// Whether the next packet skips the delay. Inside the gap the generator is not asked.
    fn skips_delay(&mut self) -> bool {
        if self.impairments.reordering.probability <= 0.0 {
            return false;
        }
        let asked = self.since_reordered >= self.impairments.gap - 1;
        let hit = asked && self.counters.reordering.count(self.reordering.hits());
        self.since_reordered = if hit { 0 } else { self.since_reordered.saturating_add(1) };
        hit
    }

    /// Flips exactly one bit.
    fn flip(&mut self, packet: &mut [u8]) {
        let Some(bits) = u32::try_from(packet.len() * 8).ok().filter(|&bits| bits > 0) else { return };
        let bit = self.bits.below(bits);
        packet[bit as usize / 8] ^= 1 << (bit % 8);
    }

    /// Whether there is no room for more; counts what finds none.
    fn overflows(&mut self, full: bool, bytes: u64) -> bool {
        let full = full || self.held_bytes + bytes > HELD_BYTES_MAX;
        if full {
            self.counters.overflowed.count(bytes);
        }
        full
    }

    fn hold(&mut self, at: Nanos, packet: Vec<u8>) {
        self.held_bytes += self.bytes(&packet);
        self.delayed.push(Reverse(Due { at, order: self.order, packet }));
        self.order += 1;
    }
}
