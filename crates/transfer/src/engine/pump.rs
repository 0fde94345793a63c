//! Content from one side to the other: reads run ahead, writes are in order, and what is in memory has a bound for all files together. What was read and not
//! written when a try ends is on the [`Shelf`] for the next one.

use super::check::Check;
use super::run::{Run, permits_for};
use super::shelf::Shelf;
use crate::report::Progress;
use crate::signs;
use crate::site::{Content, Incoming};
use futures_util::StreamExt;
use futures_util::future::{Either, ready};
use futures_util::stream::FuturesOrdered;
use holdfast_base::{ByteRange, Error, ErrorKind, Result};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// Which side failed.
#[derive(Debug)]
pub(super) enum Broke {
    Source(Error),
    Destination(Error),
}

/// Moves what is missing.
pub(super) async fn pump(
    run: &Run,
    content: &dyn Content,
    incoming: &mut dyn Incoming,
    (size, check): (u64, &mut Option<Check>),
    (arrived, shelf): (&AtomicU64, &Shelf),
) -> Result<(), Broke> {
    let (start, grain) = (incoming.stands_at(), incoming.grain().max(1));
    // A read takes what the source gives best, in whole blocks of the destination.
    let step = (content.grain() / grain).max(1) * grain;
    shelf.begin_at(start);
    let (sender, mut receiver) = mpsc::channel::<u64>(1);
    let reading = async {
        let done = read(run, content, (start, size, step), (shelf, sender)).await;
        done.map_err(Broke::Source)
    };
    let writing = async {
        let signs = signs::current();
        while let Some(at) = receiver.recv().await {
            let lost = || Broke::Destination(Error::internal("a piece of a file was lost before it was written"));
            let mut bytes = shelf.get(at).ok_or_else(lost)?;
            while !bytes.is_empty() {
                let block = bytes.split_to(bytes.len().min(usize::try_from(grain).unwrap_or(usize::MAX)));
                if let Some(check) = check {
                    check.add(block.clone()).await.map_err(Broke::Destination)?;
                }
                incoming.write(block).await.map_err(Broke::Destination)?;
                signs.alive();
                let now = incoming.arrived();
                let before = arrived.swap(now, Ordering::Relaxed);
                Progress::add(&run.progress.moved_bytes, now.saturating_sub(before));
            }
            shelf.remove(at);
        }
        Ok(())
    };
    tokio::try_join!(reading, writing).map(|_| ())
}

async fn read(
    run: &Run,
    content: &dyn Content,
    (start, size, step): (u64, u64, u64),
    (shelf, to): (&Shelf, mpsc::Sender<u64>),
) -> Result<()> {
    let ahead = content.ahead().max(1);
    let (mut next, mut reads) = (start, FuturesOrdered::new());
    loop {
        while next < size && reads.len() < ahead {
            let end = match shelf.next(next) {
                Some((at, end)) if at == next => {
                    reads.push_back(Either::Left(ready(Ok(at))));
                    next = end;
                    continue;
                }
                other => other.map_or(size, |(at, _)| at),
            };
            let range = ByteRange { start: next, end: end.min(next.saturating_add(step)) };
            let Some(room) = room_for(run, range, reads.is_empty()).await? else { break };
            if let Some(rate) = &run.rate {
                // What was asked for goes on meanwhile.
                let mut turn = pin!(rate.take(range.len()));
                loop {
                    tokio::select! {
                        biased;
                        () = &mut turn => break,
                        Some(piece) = reads.next(), if !reads.is_empty() => hand_over(piece?, &to).await,
                    }
                }
            }
            reads.push_back(Either::Right(read_range(content, range, (shelf, room))));
            next = range.end;
        }
        let Some(piece) = reads.next().await else { return Ok(()) };
        hand_over(piece?, &to).await;
    }
}

/// Has a piece written, which begins at this byte.
async fn hand_over(at: u64, to: &mpsc::Sender<u64>) {
    signs::current().alive();
    if to.send(at).await.is_err() {
        // The writing side has failed, and says why.
        std::future::pending::<()>().await;
    }
}

/// Room in memory: waited for if the file has none, so that each gets on, and otherwise only taken if it is there.
async fn room_for(run: &Run, range: ByteRange, wait: bool) -> Result<Option<OwnedSemaphorePermit>> {
    let (permits, budget) = (permits_for(range.len()), Arc::clone(&run.budget));
    if !wait {
        return Ok(budget.try_acquire_many_owned(permits).ok());
    }
    let room = signs::waiting(budget.acquire_many_owned(permits)).await;
    room.map(Some).map_err(|_| Error::internal("the budget of memory was closed"))
}

/// Reads a piece and puts it on the shelf; answers where it begins.
async fn read_range(
    content: &dyn Content,
    range: ByteRange,
    (shelf, room): (&Shelf, OwnedSemaphorePermit),
) -> Result<u64> {
    let bytes = content.read(range).await?;
    match bytes.len() as u64 {
        length if length == range.len() => {
            shelf.put(range.start, bytes, room);
            Ok(range.start)
        }
        length => {
            let what = format!("the source gave {length} bytes of the {} at {}", range.len(), range.start);
            Err(Error::new(ErrorKind::PreconditionFailed, what))
        }
    }
}
