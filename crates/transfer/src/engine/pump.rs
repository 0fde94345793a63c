//! Content from one side to the other: reads run ahead, writes are in order, and what is in memory has a bound for all files together.

use super::check::Check;
use super::run::{PERMIT_BYTES, Run};
use crate::report::Progress;
use crate::signs;
use crate::site::{Content, Incoming};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use holdfast_base::{ByteRange, Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// A piece of content, and the room it takes.
type Piece = (Bytes, OwnedSemaphorePermit);

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
    arrived: &AtomicU64,
) -> Result<(), Broke> {
    let (start, grain) = (incoming.stands_at(), incoming.grain().max(1));
    // A read takes what the source gives best, in whole blocks of the destination.
    let step = (content.grain() / grain).max(1) * grain;
    let (sender, mut receiver) = mpsc::channel::<Piece>(1);
    let reading = async {
        let done = read(run, content, (start, size, step), sender).await;
        done.map_err(Broke::Source)
    };
    let writing = async {
        let signs = signs::current();
        while let Some((mut bytes, _room)) = receiver.recv().await {
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
        }
        Ok(())
    };
    tokio::try_join!(reading, writing).map(|_| ())
}

async fn read(
    run: &Run,
    content: &dyn Content,
    (start, size, step): (u64, u64, u64),
    to: mpsc::Sender<Piece>,
) -> Result<()> {
    let (signs, ahead) = (signs::current(), content.ahead().max(1));
    let (mut next, mut reads) = (start, FuturesOrdered::new());
    loop {
        while next < size && reads.len() < ahead {
            let range = ByteRange { start: next, end: size.min(next.saturating_add(step)) };
            let Some(room) = room_for(run, range, reads.is_empty()).await? else { break };
            if let Some(rate) = &run.rate {
                rate.take(range.len()).await;
            }
            reads.push_back(read_range(content, range, room));
            next = range.end;
        }
        let Some(piece) = reads.next().await else { return Ok(()) };
        signs.alive();
        if to.send(piece?).await.is_err() {
            // The writing side has failed, and says why.
            return std::future::pending().await;
        }
    }
}

/// Room in memory: waited for if the file has none, so that each gets on, and otherwise only taken if it is there.
async fn room_for(run: &Run, range: ByteRange, wait: bool) -> Result<Option<OwnedSemaphorePermit>> {
    let permits = u32::try_from(range.len().div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX).min(super::run::PERMITS);
    let budget = Arc::clone(&run.budget);
    if !wait {
        return Ok(budget.try_acquire_many_owned(permits).ok());
    }
    let room = signs::waiting(budget.acquire_many_owned(permits)).await;
    room.map(Some).map_err(|_| Error::internal("the budget of memory was closed"))
}

async fn read_range(content: &dyn Content, range: ByteRange, room: OwnedSemaphorePermit) -> Result<Piece> {
    let bytes = content.read(range).await?;
    match bytes.len() as u64 {
        length if length == range.len() => Ok((bytes, room)),
        length => {
            let what = format!("the source gave {length} bytes of the {} at {}", range.len(), range.start);
            Err(Error::new(ErrorKind::PreconditionFailed, what))
        }
    }
}
