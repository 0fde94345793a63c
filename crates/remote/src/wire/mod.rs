//! What goes over the wire: frames, calls, answers, events.
//!
//! A frame is a length of four bytes, the first the highest, and a message of that length. A message is CBOR ([`cbor`]), an array of the fields of a
//! Rust type in their order ([`values`]); an enumeration begins with its number. Nothing is optional and nothing is skipped: what changes the
//! messages changes [`VERSION`], which is in the path, so both sides know what they read.
//!
//! | request | body | answer |
//! |---|---|---|
//! | `POST /wire/v1/call?space=S` | a frame with a [`Call`]; after that of [`Call::Save`] and [`Call::SavePart`], the content, and of [`Call::Continue`] and [`Call::Lane`], sealed blocks | a frame with what the call answers; of [`Call::Record`] and [`Call::RecordRest`], the record alone |
//! | `GET /wire/v1/events?space=S` | none | frames with an [`Event`] each, until the stream has had its time |
//!
//! An error has its status, and its kind and message in a frame. Without `space`, it is the account's own. A mount names itself by a random number in
//! the header [`MOUNT`]; the stream of changes tells it of its own as [`Event::Own`].

mod call;
pub(crate) mod cbor;
mod deferred;
mod fault;
mod locking;
pub(crate) mod values;

pub(crate) use call::is_unknown;
pub use call::{Begin, Call, Event, Handed, Hello, Keys, Opened, Put, Seen, Sent};
pub use fault::{decode_fault, encode_fault};
pub(crate) use values::{Value, record};

use bytes::{BufMut, Bytes, BytesMut};
use cbor::{Reader, Writer};
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{Error, ErrorKind, Result};

/// Version of the messages.
pub const VERSION: u64 = 1;
/// Below this is the protocol.
pub const PREFIX: &str = "/wire/v1";
/// Operations.
pub const CALL: &str = "/wire/v1/call";
/// What changes.
pub const EVENTS: &str = "/wire/v1/events";
/// How long a stream of changes lasts.
pub const EVENTS_LAST: std::time::Duration = std::time::Duration::from_secs(10);
/// What messages are, as a media type.
pub const MEDIA_TYPE: &str = "application/cbor";

/// Longest message to a server: a block of content, and names and attributes beside it.
pub const CALL_BYTES_MAX: usize = BLOCK_BYTES + (256 << 10);
/// Longest answer: a thousand entries with the longest names, or a block.
pub const ANSWER_BYTES_MAX: usize = 2 << 20;
/// Header by which a mount names itself: a random number, in decimal.
pub const MOUNT: &str = "holdfast-mount";
/// Header by which a mount says that it tells what it has heard of ([`Call::Heard`]): a random number in decimal, the same for as long as it lives.
pub const BELIEVER: &str = "holdfast-believer";
/// Header by which a client says that it knows that a file may have several names: `1`. To others each name is a file.
pub const BONDS: &str = "holdfast-bonds";
/// Header by which a client numbers the connections that it makes one after the other: `LINE-NUMBER`, a random number of 128 bits for all of them in hexadecimal, and one
/// that grows in decimal. A later one takes the place of those before, on which no answer is awaited any more.
pub const LINE: &str = "holdfast-line";
/// Numbers that are given out with one call at most.
pub const NUMBERS_MAX: u32 = 8_192;
/// Members of a folder in an answer at most.
pub const LIST_MAX: usize = 1_000;
/// Nodes that are held with one call at most.
pub const HOLD_MAX: usize = 10_000;
/// Bytes of a length.
pub const LENGTH_BYTES: usize = 4;
/// Bytes before an entry in a lane.
pub const LANE_HEAD_BYTES: usize = 12;

/// What stands before an entry in a lane: its number and length, the first byte of each the highest.
pub(crate) fn lane_head(number: u64, length: usize) -> Bytes {
    let mut head = BytesMut::with_capacity(LANE_HEAD_BYTES);
    head.put_u64(number);
    head.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    head.freeze()
}

/// A message in its frame.
pub(crate) fn frame<T: Value>(message: &T) -> Bytes {
    let mut writer = Writer(vec![0; LENGTH_BYTES]);
    message.put(&mut writer);
    // Messages are far below what four bytes can say: their parts have limits.
    let length = u32::try_from(writer.0.len() - LENGTH_BYTES).unwrap_or(u32::MAX);
    writer.0[..LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
    writer.0.into()
}

/// A message without a frame.
pub(crate) fn encode<T: Value>(message: &T) -> Vec<u8> {
    let mut writer = Writer::default();
    message.put(&mut writer);
    writer.0
}

/// Reads a message that is all of `bytes`.
pub(crate) fn message<T: Value>(bytes: &[u8]) -> Result<T> {
    let mut reader = Reader(bytes);
    let value = T::get(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// Reads a frame that is all of `bytes`.
pub(crate) fn whole<T: Value>(bytes: &[u8]) -> Result<T> {
    let mut buffer = BytesMut::from(bytes);
    match split(&mut buffer, ANSWER_BYTES_MAX)? {
        Some(found) if buffer.is_empty() => message(&found),
        _ => Err(Error::invalid("a message is not as long as it says")),
    }
}

/// Takes the first frame out of what came in, if it is whole.
pub(crate) fn split(buffer: &mut BytesMut, bytes_max: usize) -> Result<Option<BytesMut>> {
    let Some(length) = buffer.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length) as usize;
    if length > bytes_max {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!("a message of {length} bytes is over the limit of {bytes_max}"),
        ));
    }
    if buffer.len() < LENGTH_BYTES + length {
        return Ok(None);
    }
    let mut found = buffer.split_to(LENGTH_BYTES + length);
    Ok(Some(found.split_off(LENGTH_BYTES)))
}

/// Reads anything a peer may send, for tests with bytes nobody meant.
#[doc(hidden)]
pub fn read_anything(bytes: &[u8]) {
    let mut buffer = BytesMut::from(bytes);
    while let Ok(Some(found)) = split(&mut buffer, CALL_BYTES_MAX) {
        if let Ok(call) = message::<Call>(&found) {
            let again = message::<Call>(&frame(&call)[LENGTH_BYTES..]);
            assert_eq!(again.ok(), Some(call), "what was read is written as it was read");
        }
        let _ = message::<Event>(&found);
        let _ = message::<Hello>(&found);
        let _ = message::<Option<bool>>(&found);
        let _ = message::<Keys>(&found);
        let _ = message::<Handed>(&found);
        let _ = message::<Sent>(&found);
        let _ = message::<Seen>(&found);
        let _ = message::<Vec<Option<holdfast_drive::Content>>>(&found);
        let _ = message::<holdfast_drive::ManifestChunk>(&found);
        let _ = message::<(holdfast_drive::posix_locks::LockAnswer, Option<holdfast_drive::Entry>)>(&found);
        let _ = message::<Vec<(holdfast_drive::posix_locks::LockKey, u64)>>(&found);
        let _ = message::<Vec<holdfast_drive::Entry>>(&found);
        let _ = decode_fault(500, &found);
    }
}

#[cfg(test)]
mod tests;
