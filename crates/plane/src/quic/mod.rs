//! The plane over QUIC datagrams (RFC 9000, RFC 9221).
//!
//! QUIC gives TLS 1.3, a handshake, and ends that change their address. Its own loss recovery and congestion control are left out of the way: all
//! that is sent after the handshake are datagrams, a window that is never full lets them go at once, and the rate is [`crate::rate`]'s. Traps of
//! the library that this goes round are in `docs/design/transfer.md`.
//!
//! **Sizes.** Ends that agree on [`LARGE`] send fragments that fill an Ethernet frame; [`SMALL`] is for paths that pass no more than IPv6
//! guarantees. Nothing is probed: under loss, probes make paths look narrower than they are.

mod drive;
mod endpoint;
mod late;
mod stream;
mod unpaced;

pub use drive::{Arrived, Closed, Plane, Settings};
pub use endpoint::{EndpointError, accept, connect, endpoint};
pub use late::datagrams;

/// Protocol of ends whose path passes UDP payloads of 1,452 bytes: Ethernet, with IPv6.
pub const LARGE: &[u8] = b"holdfast-plane/2";
/// Protocol of ends whose path passes 1,200.
pub const SMALL: &[u8] = b"holdfast-plane/2-small";
/// The same of ends that know no fillers ([`crate::frame`]).
const FIRST: [&[u8]; 2] = [b"holdfast-plane/1", b"holdfast-plane/1-small"];

/// UDP payloads that [`LARGE`] and [`SMALL`] need.
const PAYLOADS: [usize; 2] = [1_452, 1_200];
/// What QUIC adds to a datagram: first byte, connection id, number, frame, and tag (RFC 9000 section 17.3, RFC 9001 section 5.3).
const QUIC_BYTES: usize = 1 + 20 + 4 + 3 + 16;
/// UDP, IPv6 and Ethernet with its checksum, preamble left out: what the rate counts beside QUIC's.
const LINK_BYTES: usize = 8 + 40 + 18;

/// Protocols of a size (large or small), the better first.
const fn protocols(size: usize) -> [&'static [u8]; 2] {
    [[LARGE, SMALL][size], FIRST[size]]
}

/// Bytes of a unit in a datagram, and whether ends know fillers, for a protocol.
fn agreed_on(protocol: &[u8]) -> Option<(usize, bool)> {
    let size = (0..2).find(|size| protocols(*size).contains(&protocol))?;
    Some((PAYLOADS[size] - QUIC_BYTES - crate::frame::DATA_HEADER_BYTES, !FIRST.contains(&protocol)))
}
