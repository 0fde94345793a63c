//! Datagrams that overtake each other by more than the library bears.
//!
//! QUIC lets packets overtake each other as they like; the library does not, twice over. It writes as few bytes of a packet's number as tell it from those around
//! the last that was acknowledged (RFC 9000 section 17.1). Where some overtake others, one that did is the one acknowledged, so a single byte is written, and a
//! packet that 128 others overtook is taken for one with another number and does not open. And of packets that do, those more than 128 behind the newest are thrown
//! away as possible repeats: 15 ms at 100 Mbit/s. Neither can be set. To the sender it is loss: where 16 % save a delay of 100 ms, 84 % are lost.
//!
//! Both are mended where the library hands over packets to encrypt and to open ([`Key`]), and what is on the line is QUIC as RFC 9000 has it:
//!
//! - A packet is written with four bytes of its number, whatever the library wrote. The room for them is claimed as part of the tag, and what of it is not needed
//!   are PADDING frames.
//! - Of a packet that opens and that the library will throw away, the datagrams are kept ([`datagrams`]) and go to the plane, which knows repeats by numbers of its own.
//!
//! At most [`WAITING_MAX`] of them wait; beyond, they are lost.

use bytes::{Bytes, BytesMut};
use quinn::crypto::rustls::{HandshakeData, QuicClientConfig, QuicServerConfig};
use quinn::crypto::{
    ClientConfig, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, ServerConfig, Session,
    UnsupportedVersion,
};
use quinn::{ConnectError, ConnectionId, Side};
use quinn_proto::TransportError;
use quinn_proto::transport_parameters::TransportParameters;
use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;

/// Packets so far behind the newest are thrown away by the library.
const LIBRARY_WINDOW: u64 = 129;
/// Datagrams that wait for the plane.
const WAITING_MAX: usize = 4_096;
/// Bytes of a packet's number on the line: half of 2^32 packets may overtake one.
const NUMBER_BYTES: usize = 4;

/// Settings of an end, for sessions whose packets may be late.
#[derive(Debug)]
pub(super) struct Reordered<C>(pub(super) Arc<C>);

/// What two ends agreed on, and what came too late for the library.
#[derive(Debug, Clone)]
pub(super) struct Agreed {
    pub(super) protocol: Option<Vec<u8>>,
    late: Arc<Mutex<Option<mpsc::Receiver<Bytes>>>>,
}

impl Agreed {
    /// The late datagrams, for the first who asks.
    pub(super) fn take_late(&self) -> Option<mpsc::Receiver<Bytes>> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl ClientConfig for Reordered<QuicClientConfig> {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        Ok(Box::new(Watched::new(Arc::clone(&self.0).start_session(version, server_name, params)?)))
    }
}

impl ServerConfig for Reordered<QuicServerConfig> {
    fn initial_keys(&self, version: u32, dst_cid: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        self.0.initial_keys(version, dst_cid)
    }

    fn retry_tag(&self, version: u32, orig_dst_cid: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.0.retry_tag(version, orig_dst_cid, packet)
    }

    fn start_session(self: Arc<Self>, version: u32, params: &TransportParameters) -> Box<dyn Session> {
        Box::new(Watched::new(Arc::clone(&self.0).start_session(version, params)))
    }
}

/// A session whose keys are [`Key`]s.
struct Watched {
    session: Box<dyn Session>,
    to_plane: mpsc::Sender<Bytes>,
    late: Arc<Mutex<Option<mpsc::Receiver<Bytes>>>>,
    space: Arc<Space>,
}

/// Packets that are numbered together, whatever keys open them.
struct Space {
    newest: AtomicU64,
    to_plane: mpsc::Sender<Bytes>,
}

impl Watched {
    fn new(session: Box<dyn Session>) -> Self {
        let (to_plane, late) = mpsc::channel(WAITING_MAX);
        let space = Space::new(&to_plane);
        Self { session, to_plane, late: Arc::new(Mutex::new(Some(late))), space }
    }

    fn pair(&self, keys: KeyPair<Box<dyn PacketKey>>) -> KeyPair<Box<dyn PacketKey>> {
        let key = |key| Box::new(Key { key, space: Arc::clone(&self.space) });
        KeyPair { local: key(keys.local), remote: key(keys.remote) }
    }
}

impl Space {
    fn new(to_plane: &mpsc::Sender<Bytes>) -> Arc<Self> {
        Arc::new(Self { newest: AtomicU64::new(0), to_plane: to_plane.clone() })
    }
}

impl Session for Watched {
    fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> Keys {
        self.session.initial_keys(dst_cid, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        let data = self.session.handshake_data()?.downcast::<HandshakeData>().ok()?;
        Some(Box::new(Agreed { protocol: data.protocol, late: Arc::clone(&self.late) }))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.session.peer_identity()
    }

    /// None: what is sent before the handshake is over can be replayed.
    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.session.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.session.read_handshake(buf)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.session.transport_parameters()
    }

    /// First come the keys of the handshake, then those of the rest; each has numbers that begin anew.
    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let keys = self.session.write_handshake(buf)?;
        self.space = Space::new(&self.to_plane);
        Some(Keys { header: keys.header, packet: self.pair(keys.packet) })
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.session.next_1rtt_keys()?;
        Some(self.pair(keys))
    }

    fn is_valid_retry(&self, orig_dst_cid: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.session.is_valid_retry(orig_dst_cid, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.session.export_keying_material(output, label, context)
    }
}

/// A key that writes long numbers, and keeps what is late.
struct Key {
    key: Box<dyn PacketKey>,
    space: Arc<Space>,
}

impl PacketKey for Key {
    fn encrypt(&self, packet: u64, buf: &mut [u8], header_len: usize) {
        let header_len = lengthen(packet, buf, header_len, self.key.tag_len());
        self.key.encrypt(packet, buf, header_len);
    }

    fn decrypt(&self, packet: u64, header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        self.key.decrypt(packet, header, payload)?;
        let newest = self.space.newest.fetch_max(packet, Ordering::Relaxed);
        if newest.saturating_sub(packet) >= LIBRARY_WINDOW {
            for datagram in datagrams(payload) {
                // If too many wait, it is lost.
                let _ = self.space.to_plane.try_send(datagram);
            }
        }
        Ok(())
    }

    fn tag_len(&self) -> usize {
        self.key.tag_len() + NUMBER_BYTES - 1
    }

    fn confidentiality_limit(&self) -> u64 {
        self.key.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.key.integrity_limit()
    }
}

/// Writes a packet's number anew with all its bytes, and moves the payload behind it; how long the header is then. What was claimed beside the tag and is not needed
/// becomes PADDING, which are zeros.
fn lengthen(number: u64, packet: &mut [u8], header_len: usize, tag_len: usize) -> usize {
    // The last two bits of the first byte, in packets of either form (RFC 9000 sections 17.2 and 17.3).
    let written = usize::from(packet[0] & 3) + 1;
    let more = NUMBER_BYTES - written;
    let payload_end = packet.len() - tag_len - (NUMBER_BYTES - 1);
    packet.copy_within(header_len..payload_end, header_len + more);
    let end = packet.len() - tag_len;
    packet[payload_end + more..end].fill(0);
    let at = header_len - written;
    #[expect(clippy::cast_possible_truncation, reason = "the receiver knows the rest")]
    packet[at..at + NUMBER_BYTES].copy_from_slice(&(number as u32).to_be_bytes());
    packet[0] |= 3;
    header_len + more
}

/// The datagrams of an opened packet (RFC 9221), up to a frame of another kind than ends send beside datagrams.
pub fn datagrams(payload: &[u8]) -> Vec<Bytes> {
    let (mut found, mut rest) = (Vec::new(), payload);
    while let Some((frame, behind)) = frame(rest) {
        found.extend(frame.map(Bytes::copy_from_slice));
        rest = behind;
    }
    found
}

/// The first frame, and what is behind it: the content of a datagram, or nothing of one that is passed over.
fn frame(from: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let mut rest = from;
    let numbers = match number(&mut rest)? {
        // PADDING, PING, IMMEDIATE_ACK.
        0x00 | 0x01 | 0x1f => 0,
        // ACK: newest, delay, ranges, the first range; then gap and length of each, and three counts of marks.
        kind @ (0x02 | 0x03) => {
            let (_newest, _delay) = (number(&mut rest)?, number(&mut rest)?);
            let ranges = number(&mut rest)?;
            ranges.checked_mul(2)?.checked_add(if kind == 0x03 { 4 } else { 1 })?
        }
        // ACK_FREQUENCY.
        0xaf => 4,
        0x30 => return Some((Some(rest), &[])),
        0x31 => {
            let length = usize::try_from(number(&mut rest)?).ok()?;
            let (content, behind) = rest.split_at_checked(length)?;
            return Some((Some(content), behind));
        }
        _ => return None,
    };
    for _ in 0..numbers {
        number(&mut rest)?;
    }
    Some((None, rest))
}

/// A number of 1 to 8 bytes (RFC 9000 section 16).
fn number(from: &mut &[u8]) -> Option<u64> {
    let first = *from.first()?;
    let (bytes, rest) = from.split_at_checked(1 << (first >> 6))?;
    *from = rest;
    Some(bytes[1..].iter().fold(u64::from(first & 0x3f), |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TAG: usize = 16;

    /// A packet as the library hands it over: flags, a connection's id, a number in so many bytes, payload, and room.
    fn packet(number: u64, number_bytes: usize, payload: &[u8]) -> (Vec<u8>, usize) {
        let flags = 0x40 | u8::try_from(number_bytes - 1).expect("small");
        let mut packet = vec![flags, 9, 9, 9, 9, 9, 9, 9, 9];
        packet.extend_from_slice(&number.to_be_bytes()[8 - number_bytes..]);
        let header_len = packet.len();
        packet.extend_from_slice(payload);
        packet.resize(packet.len() + TAG + NUMBER_BYTES - 1, 0xee);
        (packet, header_len)
    }

    #[test]
    fn whatever_was_written_of_a_number_becomes_four_bytes_and_the_rest_padding() {
        for number_bytes in 1..=4 {
            let (mut packet, header_len) = packet(0x0102_0304_0506, number_bytes, b"payload");
            let len = packet.len();
            let header_len = lengthen(0x0102_0304_0506, &mut packet, header_len, TAG);
            assert_eq!((header_len, packet.len()), (13, len));
            assert_eq!(packet[..13], [0x43, 9, 9, 9, 9, 9, 9, 9, 9, 3, 4, 5, 6]);
            assert_eq!(packet[13..20], *b"payload");
            assert!(packet[20..len - TAG].iter().all(|byte| *byte == 0), "{packet:?}");
            assert_eq!(len - TAG - 20, number_bytes - 1);
        }
    }

    #[test]
    fn datagrams_are_found_between_what_else_ends_send() {
        let ack = [0x02, 0x40, 200, 0x05, 0x01, 0x03, 0x00, 0x02];
        let marked = [0x03, 0x07, 0x00, 0x00, 0x01, 0x01, 0x02, 0x03];
        let frequency = [0x40, 0xaf, 0x01, 0x02, 0x03, 0x04];
        let payload =
            [&ack[..], &[0x01], &frequency, &[0x31, 3], b"one", &marked, &[0x31, 0x40, 3], b"two", &[0, 0, 0]].concat();
        assert_eq!(datagrams(&payload), ["one", "two"]);
        assert_eq!(datagrams(b"\x1f\x30to the end"), ["to the end"]);
        assert_eq!(datagrams(b"\x31\x03one\x06\x00\x03abc\x31\x03two"), ["one"], "up to a frame that is not known");
        for cut in [&b"\x31\x04one"[..], b"\x02\x07", b"\x02\x07\x00\xff\xff\xff\xff\xff\xff\xff\xff\x00", b"\xc0", b""]
        {
            assert!(datagrams(cut).is_empty(), "{cut:?}");
        }
    }

    proptest! {
        #[test]
        fn of_any_bytes_no_more_is_found_than_there_is(payload: Vec<u8>) {
            let found: usize = datagrams(&payload).iter().map(Bytes::len).sum();
            prop_assert!(found <= payload.len());
        }
    }
}
