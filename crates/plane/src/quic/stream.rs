//! The plane as a stream of bytes, so that whatever speaks over TCP speaks over it: HTTP/2, first of all.
//!
//! *Instead*: a unit for each message of HTTP. Messages would not wait for each other, but heads, bodies, ends and breaks would all be ours, and another
//! way into the server beside the one that has limits, timers and a log.

use super::Plane;
use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, Join};

/// Fragments of a unit, at most: 64 KiB, so that what is written soon goes, and little waits for a fragment that was lost.
const UNIT_FRAGMENTS: usize = 47;
/// What is read of the plane and the stream's user has not taken.
const IN_BYTES: usize = 256 << 10;
/// What the user wrote and is in no unit. On a slow link whatever is written next waits behind it.
const OUT_BYTES: usize = 64 << 10;

impl Plane {
    /// As a stream, which ends when the other end shuts its own down or is gone: what is spoken over it has to say where it ends, as HTTP/2 does. Dropping it, or shutting it down, sends what was written before.
    pub fn into_stream(self) -> Join<DuplexStream, DuplexStream> {
        let ((incoming, read), (written, outgoing)) = (tokio::io::duplex(IN_BYTES), tokio::io::duplex(OUT_BYTES));
        tokio::spawn(async move {
            let both = async { tokio::try_join!(outwards(&self, outgoing), inwards(&self, incoming)) };
            if let Err(error) = both.await {
                tracing::debug!(peer = %self.address(), %error, "a stream ended");
            }
        });
        tokio::io::join(read, written)
    }
}

/// Sends what is written, and an empty unit at the end.
async fn outwards(plane: &Plane, mut from: DuplexStream) -> io::Result<()> {
    loop {
        // Nothing is taken before it can be passed on.
        let room = plane.room().await.map_err(io::Error::other)?;
        let unit_bytes = plane.statistics().unit_bytes.min(UNIT_FRAGMENTS * plane.fragment_bytes());
        let mut unit = BytesMut::with_capacity(unit_bytes);
        while unit.len() < unit_bytes {
            let left = unit_bytes - unit.len();
            // What is there goes together; what is not there is not waited for.
            let more = (&mut from).take(left as u64);
            let mut more = std::pin::pin!(more);
            let read = if unit.is_empty() {
                more.read_buf(&mut unit).await?
            } else {
                match super::drive::at_hand(more.read_buf(&mut unit)) {
                    Some(read) => read?,
                    None => break,
                }
            };
            if read == 0 {
                break;
            }
        }
        let ended = unit.is_empty();
        room.send(unit.freeze());
        if ended {
            return plane.flush().await.map_err(io::Error::other);
        }
    }
}

/// Writes what comes, in its order.
async fn inwards(plane: &Plane, mut to: DuplexStream) -> io::Result<()> {
    let (mut next, mut waiting) = (0, BTreeMap::new());
    while let Some(unit) = plane.receive().await {
        waiting.insert(unit.number, unit);
        while let Some(unit) = waiting.remove(&next) {
            if unit.bytes == Bytes::new() {
                return to.shutdown().await;
            }
            to.write_all(&unit.bytes).await?;
            next += 1;
        }
    }
    Err(io::ErrorKind::ConnectionReset.into())
}
