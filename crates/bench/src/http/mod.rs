//! An HTTP/1.1 client made for load generation.
//!
//! The parts that know the protocol do no input or output ([`parse_head`], [`BodyReader`]) and serve two drivers: the blocking
//! [`Connection`] here, and the event loop of `load`, where one thread drives many connections.
//!
//! One thread drives one [`Connection`]: write the head, send the body (from a slice, or with `sendfile` straight
//! from the page cache), read the answer into one reused buffer and hand its pieces to a closure. There is no pool,
//! no redirect, no decompression and no cookie: a benchmark must know exactly which bytes crossed the wire.
//!
//! Time is bounded twice: a request fails when no byte moves for `stall`, or when it is not finished after `total`.
//! Sockets wake at least every [`TICK`], so an interrupt is noticed without a signal having to break a system call.
//! Answers are bounded too: [`MAX_HEADERS`] headers within one buffer, and a chunk-size line of 1 KiB.

mod body;
mod connection;
mod endpoint;
mod error;
mod head;
mod stream;
#[cfg(test)]
mod tests;
mod tls;

pub(crate) use body::{BodyReader, Framing, Piece};
pub(crate) use connection::{Answer, Body, Connection, Request};
pub(crate) use endpoint::{Endpoint, Limits};
pub(crate) use error::HttpError;
pub(crate) use head::parse as parse_head;
pub(crate) use stream::{Stream, is_tick};
pub(crate) use tls::Trust;

use std::time::Duration;

/// Longest sleep in one system call: the delay with which a deadline or an interrupt is noticed.
pub(crate) const TICK: Duration = Duration::from_millis(250);
/// Headers accepted in one answer; servers in the field send about a dozen.
pub(crate) const MAX_HEADERS: usize = 96;
/// Read buffer: large enough that a system call moves many segments, small enough to stay in the L2 cache.
pub(crate) const BUFFER_BYTES: usize = 256 * 1024;
