//! An upload's entries in one part after another, where its way changes in between.

use super::pool::Pool;
use super::pools::{Pools, Seat};
use super::space::Sending;
use crate::wire::Sent;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt, stream};
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{Error, Result};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Entries of an upload that parts take from.
struct Source {
    entries: tokio::sync::Mutex<BoxStream<'static, Sending>>,
    /// How many the part under way took.
    taken: AtomicU64,
    has_ended: AtomicBool,
}

/// A part: entries until its way is no longer the best.
struct Part {
    source: Arc<Source>,
    pools: Arc<Pools>,
    seat: Arc<Seat>,
    /// Where the next one goes.
    next: Arc<Mutex<Option<Seat>>>,
}

impl Part {
    async fn next(&self) -> Option<Sending> {
        let mut entries = self.source.entries.lock().await;
        tokio::select! {
            biased;
            seat = self.pools.left(&self.seat) => {
                *self.next.lock() = Some(seat);
                None
            }
            entry = entries.next() => {
                if entry.is_some() {
                    self.source.taken.fetch_add(1, Ordering::Relaxed);
                } else {
                    self.source.has_ended.store(true, Ordering::Relaxed);
                }
                entry
            }
        }
    }

    fn entries(self) -> BoxStream<'static, Sending> {
        stream::unfold(self, |part| async move { part.next().await.map(|entry| (entry, part)) }).boxed()
    }
}

/// Sends entries from this byte of an upload on; `by` sends a part, by this pool, from this byte on.
pub(super) async fn send<F: Future<Output = Result<Sent>>>(
    pools: &Arc<Pools>,
    mut offset: u64,
    entries: impl Stream<Item = Sending> + Send + 'static,
    by: impl Fn(Arc<Pool>, u64, BoxStream<'static, Sending>) -> F,
) -> Result<Sent> {
    let (entries, taken) = (tokio::sync::Mutex::new(entries.boxed()), AtomicU64::new(0));
    let source = Arc::new(Source { entries, taken, has_ended: AtomicBool::new(false) });
    let mut seat = Arc::new(pools.seat());
    loop {
        let next = Arc::new(Mutex::new(None));
        let part = Part { source: source.clone(), pools: pools.clone(), seat: seat.clone(), next: next.clone() };
        let answer = by(seat.pool.clone(), offset, part.entries()).await?;
        if source.has_ended.load(Ordering::Relaxed) || answer.waits || answer.node.is_some() {
            return Ok(answer);
        }
        // All blocks but a file's last are whole ones, and behind that nothing is left to send.
        offset += source.taken.swap(0, Ordering::Relaxed) * BLOCK_BYTES as u64;
        if answer.offset != offset {
            return Err(Error::unavailable("the server has not all that it was sent of a part"));
        }
        let other = next.lock().take();
        seat = Arc::new(other.unwrap_or_else(|| pools.seat()));
    }
}
