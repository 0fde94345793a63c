//! Moves units of bytes from one end to the other over a network that loses, corrupts, delays, reorders and duplicates.
//!
//! A [`Sender`] cuts units into fragments, each of which fits a datagram, and a [`Receiver`] puts them together and answers with
//! [`Report`]s. Neither does I/O or reads a clock: whoever drives them hands in datagrams and times and carries out what they
//! ask for. So a test runs hours of a bad network in a second, and the same code runs over QUIC datagrams, which
//! encrypt, authenticate, and follow an end whose address changes.
//!
//! How it is meant to work, and what was not chosen, is in `docs/design/transfer.md`. In short:
//!
//! - a datagram is never repeated, a fragment is: each sending has a sequence number of its own, so that "which datagrams arrived" is a
//!   bitmap that any later report repeats ([`frame`]);
//! - the rate follows what the receiver measures of delay and delivery, and loss alone does not lower it ([`rate`]);
//! - a unit is *whole* when all of it arrived and *done* when the receiver's owner says that it need not be sent again, ever.
//!
//! Times are microseconds since any moment an end chose. The ends' clocks need not agree, only run at about the same speed.

mod epochs;
mod flights;
mod fragments;
pub mod frame;
mod paths;
pub mod quic;
pub mod rate;
mod receiver;
mod sender;
#[cfg(test)]
mod simulation;
mod trip;

pub use frame::{Data, FrameError, Report};
pub use receiver::{Receiver, Unit};
pub use sender::{Event, Poll, Sender, Statistics};

/// The longest unit.
pub const UNIT_BYTES_MAX: usize = (1 << 20) + (64 << 10);

/// Whole microseconds; what is below nothing is nothing.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it saturates, and 10^19 microseconds are enough"
)]
pub(crate) const fn whole(us: f64) -> u64 {
    us as u64
}

/// Units that a receiver grants at first, unless it trusts the sender. For each that is taken it grants two more, up to its window: who sends what is never taken fills no memory.
pub const WINDOW_FIRST: u32 = 64;

/// What both ends of a plane must agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a unit in one datagram, at least [`Shape::FRAGMENT_BYTES_MIN`].
    pub fragment_bytes: usize,
    /// Units that are on their way at once, at most.
    pub window_units: u32,
    /// Bytes of a unit, at most; no more than [`UNIT_BYTES_MAX`].
    pub unit_bytes: usize,
}

impl Shape {
    /// Below this the longest unit would have more fragments than a `u16` counts.
    pub const FRAGMENT_BYTES_MIN: usize = 64;

    /// Whether the ends can work with it.
    pub fn is_sound(&self) -> bool {
        (Self::FRAGMENT_BYTES_MIN..=UNIT_BYTES_MAX).contains(&self.fragment_bytes)
            && (1..=4_096).contains(&self.window_units)
    }

    /// Fragments of a unit of `bytes`; one for an empty unit.
    pub fn fragments(&self, bytes: usize) -> usize {
        bytes.div_ceil(self.fragment_bytes).max(1)
    }
}
