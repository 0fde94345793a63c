//! The plane as a stream of bytes, so that whatever speaks over TCP speaks over it: HTTP/2, first of all.
//!
//! *Instead*: a unit for each message of HTTP. Messages would not wait for each other, but heads, bodies, ends and breaks would all be ours, and another
//! way into the server beside the one that has limits, timers and a log.

use super::Plane;
use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};

/// Fragments of a unit, at most: 64 KiB, so that what is written soon goes, and little waits for a fragment that was lost.
const UNIT_FRAGMENTS: usize = 47;
/// Between the stream's user and the plane, each way.
const BUFFER_BYTES: usize = 256 << 10;

impl Plane {
    /// As a stream, which ends when the other end shuts its own down or is gone: what is spoken over it has to say where it ends, as HTTP/2 does. Dropping it, or shutting it down, sends what was written before.
    pub fn into_stream(self) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(BUFFER_BYTES);
        tokio::spawn(async move {
            let (read, write) = tokio::io::split(ours);
            let both = async { tokio::try_join!(outwards(&self, read), inwards(&self, write)) };
            if let Err(error) = both.await {
                tracing::debug!(peer = %self.address(), %error, "a stream ended");
            }
        });
        theirs
    }
}

/// Sends what is written, and an empty unit at the end.
async fn outwards(plane: &Plane, mut from: ReadHalf<DuplexStream>) -> io::Result<()> {
    let unit_bytes = UNIT_FRAGMENTS * plane.fragment_bytes();
    loop {
        let mut unit = BytesMut::with_capacity(unit_bytes);
        while unit.len() < unit_bytes {
            let room = unit_bytes - unit.len();
            // What is there goes together; what is not there is not waited for.
            let more = (&mut from).take(room as u64);
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
        plane.send(unit.freeze()).await.map_err(io::Error::other)?;
        if ended {
            return plane.flush().await.map_err(io::Error::other);
        }
    }
}

/// Writes what comes, in its order.
async fn inwards(plane: &Plane, mut to: WriteHalf<DuplexStream>) -> io::Result<()> {
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
