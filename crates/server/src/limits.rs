//! Every limit of the listeners, by name, with its reason. `[limits]` of the configuration sets them; docs/operating/sizing.md
//! says what each costs in memory.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Longest request head (request line and headers, or an HTTP/2 header list) in bytes. Two percent-encoded paths of
/// [`holdfast_base::limits::PATH_BYTES_MAX`] (target and `Destination`) and some credentials fit.
pub const HEAD_BYTES_MAX: usize = 128 << 10;

/// Headers of one HTTP/1 request; more are 431. hyper's own figure, and what its parser keeps on the stack.
pub const HEADERS_MAX: usize = 100;

/// Largest read from a socket. hyper begins with 8 KiB a connection and doubles while reads fill the buffer, so only a
/// connection that uploads fast pays for this; larger reads than 256 KiB gained nothing measurable on loopback.
pub const READ_BYTES_MAX: usize = 256 << 10;

/// Connections of a listener that may read so much at once. Of what is read, a connection holds up to twice as much (what is taken out of the
/// buffer, and the buffer), which is in no budget: hundreds of uploads side by side would have more in it than in all budgets together.
pub const FAR_READERS_MAX: usize = 32;

/// Largest read of the others: a head must fit.
pub const NEAR_READ_BYTES_MAX: usize = HEAD_BYTES_MAX;

/// Streams one HTTP/2 connection may have open: enough for any client's parallelism, and a bound on what one peer can start.
pub const HTTP2_STREAMS_MAX: u32 = 128;

/// Bytes of one HTTP/2 stream that may be under way before we read them.
pub const HTTP2_STREAM_WINDOW_BYTES: u32 = 1 << 20;

/// The same for all streams of one HTTP/2 connection.
pub const HTTP2_CONNECTION_WINDOW_BYTES: u32 = 2 << 20;

/// Bytes of answers one HTTP/2 stream may buffer before its body is asked for more.
pub const HTTP2_SEND_BUFFER_BYTES: usize = 256 << 10;

/// The same windows for connections over the QUIC plane, which are for networks that hold much: 100 Mbit/s for 2.5 s, or with two thirds of it lost. What is
/// in them waits in the plane, whose window is as large.
pub const PLANE_STREAM_WINDOW_BYTES: u32 = 32 << 20;

/// See [`PLANE_STREAM_WINDOW_BYTES`].
pub const PLANE_CONNECTION_WINDOW_BYTES: u32 = 48 << 20;

/// Longest that a handshake of QUIC takes: at 64 % loss one in fifty takes half a minute.
pub const PLANE_HANDSHAKE_MAX: Duration = Duration::from_mins(1);

/// Handshakes of QUIC under way with one address (of IPv6, with a network of 64 bits): a client races six at once, and some share an address.
pub const PLANE_HANDSHAKES_PER_PEER: usize = 24;

/// Beyond so many connections over QUIC, who comes has to prove its address first (RFC 9000 section 8.1.2), so that nobody fills them from forged ones.
pub const PLANE_UNPROVEN_MAX: usize = 32;

/// A TLS handshake that takes longer is given up; it is a few round trips of a few KiB.
pub const TLS_HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// How much of a body nobody wants is read and dropped after an early answer, so that the client sees the answer and not a reset.
pub const LINGER_BYTES_MAX: u64 = 64 << 20;

/// For how long.
pub const LINGER_TIME_MAX: Duration = Duration::from_secs(5);

/// Rest after `accept` failed for want of file descriptors or memory, so that the loop does not spin.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Connections the kernel keeps for us until we accept them.
pub const ACCEPT_BACKLOG: i32 = 4_096;

/// File descriptors kept free for packs, database and log when connections are counted against the process's limit.
pub const DESCRIPTORS_RESERVED: u64 = 512;

/// Connections to the metrics listener.
pub const METRICS_CONNECTIONS_MAX: usize = 16;

/// The limits an operator can set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Open connections over all listeners; more are answered 503 and closed.
    pub connections_max: usize,
    /// Of those, connections over QUIC, handshakes under way included; more are refused, and clients come by TCP.
    pub quic_connections_max: usize,
    /// Requests being worked on at once; more are answered 503 with Retry-After.
    pub requests_max: usize,
    /// Seconds a client may take to send a request head (from 1 to 1.5 times this, since a timer looks at intervals).
    pub head_timeout_s: u64,
    /// Seconds a connection may be open without a request.
    pub idle_timeout_s: u64,
    /// Seconds a transfer may go without moving a byte, in either direction. Progress of any size keeps it alive.
    pub stall_timeout_s: u64,
    /// Seconds a server that is told to stop goes on serving, while `/readyz` says that it stops and connections end after their next
    /// answer: longer than a balancer takes to notice and to give up idle connections, and 0 without one.
    pub drain_delay_s: u64,
    /// Seconds that running requests get to finish when the server is told to stop.
    pub drain_timeout_s: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 16_384,
            quic_connections_max: 512,
            requests_max: 4_096,
            head_timeout_s: 15,
            idle_timeout_s: 120,
            stall_timeout_s: 60,
            drain_delay_s: 0,
            drain_timeout_s: 30,
        }
    }
}

impl Limits {
    /// See [`Self::head_timeout_s`].
    pub const fn head_timeout(&self) -> Duration {
        Duration::from_secs(self.head_timeout_s)
    }

    /// See [`Self::idle_timeout_s`].
    pub const fn idle_timeout(&self) -> Duration {
        Duration::from_secs(self.idle_timeout_s)
    }

    /// See [`Self::stall_timeout_s`].
    pub const fn stall_timeout(&self) -> Duration {
        Duration::from_secs(self.stall_timeout_s)
    }

    /// See [`Self::drain_delay_s`].
    pub const fn drain_delay(&self) -> Duration {
        Duration::from_secs(self.drain_delay_s)
    }

    /// See [`Self::drain_timeout_s`].
    pub const fn drain_timeout(&self) -> Duration {
        Duration::from_secs(self.drain_timeout_s)
    }

    /// How often a connection's timer looks: half of the shortest limit, so that a limit is kept within half of itself.
    pub fn tick(&self) -> Duration {
        let shortest = self.head_timeout().min(self.idle_timeout()).min(self.stall_timeout());
        (shortest / 2).max(Duration::from_millis(100))
    }
}
