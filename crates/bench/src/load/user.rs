//! A user: where it is in its loops, and its connections.

use std::time::Instant;

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::link::Link;

/// What a user is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Waits for a time of its own: the ramp-up or thinking.
    Waiting,
    /// Waits for a request to become due (open model).
    Idle,
    /// Waits for an answer.
    Busy,
    /// Has got it, or something went wrong, and has to be sent on.
    Ended,
    /// Has nothing more to do.
    Done,
}

/// A place for a connection to one server.
#[derive(Default)]
pub(super) struct Slot {
    pub(super) link: Option<Box<Link>>,
    /// Raised with every connection, so that an event of an old one is known for what it is.
    pub(super) generation: u32,
}

/// See the module.
pub(super) struct User {
    pub(super) phase: Phase,
    /// The request it makes or will make next.
    pub(super) step: usize,
    /// Loops to begin, the running one included; `None` without a limit.
    pub(super) loops_left: Option<u64>,
    /// When the running request was due.
    pub(super) due: Instant,
    /// When it really began.
    pub(super) begun: Instant,
    /// When something last happened on its connection.
    pub(super) moved: Instant,
    /// Whether the running request is its second try, on a new connection.
    pub(super) retried: bool,
    /// Addresses tried for the running request.
    pub(super) tried: usize,
    /// One place for each server of the plan.
    pub(super) slots: Vec<Slot>,
    /// Its own, so that its think times do not depend on what other users meet.
    pub(super) random: StdRng,
}

impl User {
    pub(super) fn new(number: u32, seed: u64, loops: Option<u64>, servers: usize, now: Instant) -> Self {
        Self {
            phase: Phase::Waiting,
            step: 0,
            loops_left: loops,
            due: now,
            begun: now,
            moved: now,
            retried: false,
            tried: 0,
            slots: (0..servers).map(|_| Slot::default()).collect(),
            random: StdRng::seed_from_u64(seed.rotate_left(32) ^ u64::from(number)),
        }
    }

    /// Goes on to the next request of the plan's `steps`; tells whether there is one, and whether it begins a loop.
    pub(super) fn go_on(&mut self, steps: usize) -> Option<bool> {
        self.step += 1;
        if self.step < steps {
            return Some(false);
        }
        self.step = 0;
        if let Some(left) = &mut self.loops_left {
            *left = left.saturating_sub(1);
        }
        (self.loops_left != Some(0)).then_some(true)
    }

    pub(super) fn close_all(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.link = None);
    }
}
