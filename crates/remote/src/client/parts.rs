//! An upload's entries in one part after another, where its way changes in between.

use super::pool::Pool;
use super::pools::Pools;
use super::space::Sending;
use crate::wire::Sent;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt, stream};
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{Error, Result};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::watch;
use tokio::time::sleep;

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
    /// Whether it is to end.
    leaves: watch::Receiver<bool>,
}

impl Part {
    async fn next(&mut self) -> Option<Sending> {
        let waits = self.pools.wait_for_source();
        let mut entries = self.source.entries.lock().await;
        tokio::select! {
            biased;
            _ = self.leaves.wait_for(|leaves| *leaves) => None,
            entry = entries.next() => {
                drop(waits);
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
        stream::unfold(self, |mut part| async move { part.next().await.map(|entry| (entry, part)) }).boxed()
    }
}

/// Sends entries from this byte of an upload on; `by` sends a part, by this pool, from this byte on. What does not leave a way in time that is no longer the best is broken
/// off there, and so is all, unless it is the server that takes its time: `behind` waits until it is the pool.
pub(super) async fn send<F: Future<Output = Result<Sent>>, B: Future<Output = ()>>(
    pools: &Arc<Pools>,
    mut offset: u64,
    entries: impl Stream<Item = Sending> + Send + 'static,
    by: impl Fn(Arc<Pool>, u64, BoxStream<'static, Sending>) -> F,
    behind: impl Fn(Arc<Pool>) -> B,
) -> Result<Sent> {
    let (entries, taken) = (tokio::sync::Mutex::new(entries.boxed()), AtomicU64::new(0));
    let source = Arc::new(Source { entries, taken, has_ended: AtomicBool::new(false) });
    let _waits = pools.wait();
    let mut seat = pools.seat();
    loop {
        let leave = watch::Sender::new(false);
        let part = Part { source: source.clone(), pools: pools.clone(), leaves: leave.subscribe() };
        let (mut sending, mut next) = (pin!(by(seat.pool.clone(), offset, part.entries())), None);
        let answer = tokio::select! {
            biased;
            answer = &mut sending => answer,
            (other, time) = pools.left(&seat) => {
                next = Some(other);
                leave.send_replace(true);
                let too_slow = async {
                    sleep(time).await;
                    behind(seat.pool.clone()).await;
                };
                tokio::select! {
                    biased;
                    answer = sending => answer,
                    () = too_slow => Err(Error::unavailable("it was too slow, and goes on by another transport")),
                }
            }
        }?;
        if source.has_ended.load(Ordering::Relaxed) || answer.waits || answer.node.is_some() {
            return Ok(answer);
        }
        // All blocks but a file's last are whole ones, and behind that nothing is left to send.
        offset += source.taken.swap(0, Ordering::Relaxed) * BLOCK_BYTES as u64;
        if answer.offset != offset {
            return Err(Error::unavailable("the server has not all that it was sent of a part"));
        }
        // It may have been found by now that the other is no better.
        seat = next.map_or_else(|| pools.seat(), |next| pools.other(&next).unwrap_or(next));
    }
}
