//! A part of an upload over several connections: lanes that take the next entry in turns, whoever has room for it ([`crate::face`] says how they are joined).

use super::pool::Pool;
use super::space::{Sending, body as body_of};
use crate::wire::{self, Call, Sent, lane_head};
use bytes::Bytes;
use futures_util::stream::FuturesUnordered;
use futures_util::{Stream, StreamExt, stream};
use holdfast_base::{Error, Result, Uid};
use std::future::pending;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Mutex, watch};

/// What is told of bytes that left.
pub(super) type Moved = Arc<dyn Fn(u64) + Send + Sync>;

/// Why a part did not arrive.
pub(super) enum Failed {
    /// As a whole.
    Part(Error),
    /// One of its lanes but the first did not.
    Lane(Error),
}

/// What lanes take from.
struct Entries {
    stream: Pin<Box<dyn Stream<Item = Sending> + Send>>,
    number: u64,
    ended: bool,
}

impl Entries {
    /// The next entry with its number; after the last, once, one without bytes.
    async fn next(&mut self) -> Option<(u64, Bytes)> {
        if self.ended {
            return None;
        }
        let entry = self.stream.next().await.map_or_else(Bytes::new, |entry| entry.entry().clone());
        self.ended = entry.is_empty();
        self.number += 1;
        Some((self.number - 1, entry))
    }
}

/// One lane.
struct Lane {
    entries: Arc<Mutex<Entries>>,
    index: usize,
    widths: watch::Receiver<usize>,
    /// Whether it still takes entries.
    open: Arc<AtomicBool>,
}

impl Lane {
    /// Its bytes, for as long as there are to be so many lanes.
    fn pieces(self) -> impl Stream<Item = Bytes> + Send {
        let taken = stream::unfold(self, |lane| async move {
            let next = if lane.index > 0 && lane.index >= *lane.widths.borrow() {
                None
            } else {
                lane.entries.lock().await.next().await
            };
            let Some((number, entry)) = next else {
                lane.open.store(false, Ordering::Relaxed);
                return None;
            };
            Some((stream::iter([lane_head(number, entry.len()), entry]), lane))
        });
        taken.flatten()
    }
}

/// Sends entries from this byte of an upload on over as many connections as there are at the time. Nothing is tried again.
pub(super) async fn send(
    pool: &Arc<Pool>,
    (upload, offset): (Uid, u64),
    entries: impl Stream<Item = Sending> + Send + 'static,
    moved: Moved,
) -> Result<Sent, Failed> {
    let part = holdfast_seal::keys::random_bytes::<8>().map(u64::from_le_bytes).map_err(Failed::Part)?;
    let entries = Arc::new(Mutex::new(Entries { stream: Box::pin(entries), number: 0, ended: false }));
    let mut widths = pool.widths();
    let mut open: Vec<Arc<AtomicBool>> = Vec::new();
    let mut others = FuturesUnordered::new();
    let body = |index: usize, open: &Arc<AtomicBool>, widths: &watch::Receiver<usize>| {
        let frame = wire::frame(&Call::Lane(upload, offset, part, index == 0));
        let lane = Lane { entries: entries.clone(), index, widths: widths.clone(), open: open.clone() };
        let moved = moved.clone();
        body_of(stream::iter([frame]).chain(lane.pieces()), move |bytes| moved(bytes))
    };
    let open_first = Arc::new(AtomicBool::new(true));
    let whole = body(0, &open_first, &widths);
    let mut first = pin!(async move { pool.at(0).stream::<Sent>(whole).await });
    open.push(open_first);
    loop {
        let wanted = if entries_ended(&entries) { 1 } else { *widths.borrow_and_update() };
        for index in 1..wanted {
            if open.get(index).is_some_and(|open| open.load(Ordering::Relaxed)) {
                continue;
            }
            let is_open = Arc::new(AtomicBool::new(true));
            let body = body(index, &is_open, &widths);
            match open.get_mut(index) {
                Some(known) => *known = is_open,
                None => open.push(is_open),
            }
            others.push(async move { pool.at(index).stream::<()>(body).await });
        }
        let failed = async {
            loop {
                match others.next().await {
                    Some(Err(error)) => return error,
                    Some(Ok(())) => {}
                    None => pending().await,
                }
            }
        };
        tokio::select! {
            biased;
            answer = &mut first => return answer.map_err(Failed::Part),
            // Without it the part is not whole.
            error = failed => return Err(Failed::Lane(error)),
            Ok(()) = widths.changed() => {}
        }
    }
}

/// Whether nothing is left for another lane; not known while one of them waits for the next.
fn entries_ended(entries: &Mutex<Entries>) -> bool {
    entries.try_lock().is_ok_and(|entries| entries.ended)
}
