//! HTTP over the plane: what a server answers on TCP it answers here, through the same door.
//!
//! Each message is an HTTP/1.1 one (RFC 9112) without transfer codings, cut into parts of a unit each:
//!
//! ```text
//! exchange 4 | part 4 | flags 1 | bytes          flags: 1 the last part, 2 broken off
//! ```
//!
//! Part 0 begins with the head; content follows it and in the parts after. An exchange is numbered by the client. Units arrive in any order, and are
//! put in order here; what waits counts as on its way, so the plane's window bounds it.

mod body;
mod client;
mod head;
mod parts;
mod server;

pub use body::Incoming;
pub use client::Client;
#[doc(hidden)]
pub use head::read_anything;
pub use server::serve;

use crate::quic::Closed;

/// Bytes of content in a part.
const PART_BYTES: usize = 1 << 20;
/// A head is no longer.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// Fields of a head at most.
const FIELDS_MAX: usize = 64;
/// Exchanges of a connection under way at once.
const EXCHANGES_MAX: usize = 1_024;

/// Why there is no message, or not all of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// The connection is over.
    #[error(transparent)]
    Closed(#[from] Closed),
    /// The other end broke off.
    #[error("the other end broke off")]
    Broken,
    /// The other end, or whoever sends, said what is no message.
    #[error("no message: {0}")]
    Nonsense(&'static str),
    /// The content that was to be sent failed.
    #[error("the content: {0}")]
    Content(String),
}
