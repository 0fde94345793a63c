//! Receiving one block of a body: in memory while there is room for it, in the scratch file while there is not.
//!
//! A block in memory is client-bound: it is whole when the client's network has brought it. So
//!
//! - a block begins in memory if the receiving region has room; a client that was slow before leaves half of it to others;
//! - if there is none, the upload waits for [`WAIT_MAX`] (among fast clients room comes sooner), and then begins the block in
//!   the scratch file; if that has no room either, a client that was not slow waits for its turn;
//! - a block that has been filling for [`SLOW_AFTER`] while the region is crowded moves to the scratch file; this is looked at when
//!   a piece comes, and by a timer while none comes. If the scratch file has no room for it, that upload fails.

use super::budget::{Buffer, share_bytes};
use super::intake::Intake;
use super::spill::SetAside;
use super::target::Target;
use bytes::Bytes;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{BlockId, ErrorKind, Result};
use holdfast_seal::block::RECORD_PREFIX_BYTES;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// A client that needs longer than this for a block of 1 MiB is slow: keeping its block in memory gains nothing.
const SLOW_AFTER: Duration = Duration::from_secs(1);
/// How long an upload waits for memory before it goes to the disk: about what a hundred fast uploads on two cores take to
/// pass the region on.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// A block, or the beginning of one.
pub(crate) enum Received {
    /// In a buffer, behind room for a record's prefix.
    Memory(Buffer),
    /// In the scratch file.
    Aside(Box<SetAside>),
}

impl Received {
    /// Plaintext bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Memory(buffer) => buffer.bytes.len() - RECORD_PREFIX_BYTES,
            Self::Aside(aside) => aside.bytes(),
        }
    }

    pub(crate) async fn append(self, piece: Bytes) -> Result<Self> {
        match self {
            Self::Memory(mut buffer) => {
                buffer.bytes.extend_from_slice(&piece);
                Ok(Self::Memory(buffer))
            }
            Self::Aside(aside) => Ok(Self::Aside(Box::new(aside.append(piece).await?))),
        }
    }

    /// The block in a working buffer, and the id it must have if it was out of our hands.
    pub(crate) async fn into_work(self, target: &Target) -> Result<(Buffer, Option<BlockId>)> {
        match self {
            Self::Memory(mut buffer) => {
                target.shared.uploads.to_work(&mut buffer).await;
                Ok((buffer, None))
            }
            Self::Aside(aside) => {
                let (buffer, id) = aside.read_back(&target.shared.uploads, &target.shared.workers).await?;
                Ok((buffer, Some(id)))
            }
        }
    }
}

impl Target {
    /// An empty block in memory of `bytes` at most, if there is room now; a client that was slow gets none while it is scarce.
    pub(crate) fn try_begin_block(&self, bytes: usize, slow: bool) -> Option<Received> {
        let receiving = &self.shared.uploads.receiving;
        if slow && receiving.is_crowded() {
            return None;
        }
        let hold = receiving.try_take(share_bytes(bytes + RECORD_PREFIX_BYTES))?;
        Some(self.empty(bytes, hold))
    }

    /// An empty block where there is room for it: in memory within a moment, or else in the scratch file, or else in memory when
    /// it is its turn. That does come: while memory is short, a block is in it for [`SLOW_AFTER`] at most.
    pub(crate) async fn begin_block(&self, bytes: usize, slow: bool) -> Result<Received> {
        let receive = self.shared.uploads.receiving.take(share_bytes(bytes + RECORD_PREFIX_BYTES));
        if slow {
            return self.begin_aside().await.map(|aside| Received::Aside(Box::new(aside)));
        }
        let mut receive = std::pin::pin!(receive);
        if let Ok(hold) = timeout(WAIT_MAX, receive.as_mut()).await {
            return Ok(self.empty(bytes, hold));
        }
        match self.begin_aside().await {
            Ok(aside) => Ok(Received::Aside(Box::new(aside))),
            Err(error) if matches!(error.kind(), ErrorKind::NoSpace | ErrorKind::Unavailable) => {
                Ok(self.empty(bytes, receive.await))
            }
            Err(error) => Err(error),
        }
    }

    fn empty(&self, bytes: usize, hold: super::budget::Hold) -> Received {
        let mut buffer = self.shared.uploads.pool.buffer(bytes + RECORD_PREFIX_BYTES, hold);
        buffer.bytes.clear();
        buffer.bytes.resize(RECORD_PREFIX_BYTES, 0);
        Received::Memory(buffer)
    }

    async fn begin_aside(&self) -> Result<SetAside> {
        let spill = &self.shared.spill;
        // All blocks set aside may yet become whole, and the store's disk most often is theirs, too.
        self.refuse_without_room(spill.bytes_to_come() + BLOCK_BYTES as u64).await?;
        spill.begin(&self.keys).await
    }

    /// Sets a buffer aside and gives its memory back.
    pub(crate) async fn set_aside(&self, buffer: Buffer) -> Result<SetAside> {
        self.begin_aside().await?.append_buffer(buffer).await
    }

    /// Fills a block from a body, up to `most` bytes. Answers it, whether the body goes on (perhaps with nothing), and whether the client was slow.
    pub(crate) async fn fill(
        &self,
        intake: &mut Intake,
        mut block: Received,
        most: usize,
    ) -> Result<(Received, bool, bool)> {
        let begun = Instant::now();
        let mut look_at = begun + SLOW_AFTER;
        while block.bytes() < most {
            let piece = intake.piece(most - block.bytes());
            let piece = match &block {
                Received::Memory(_) => timeout_at(look_at, piece).await,
                // Nothing is to be looked at any more.
                Received::Aside(_) => Ok(piece.await),
            };
            match piece {
                Ok(Err(error)) => return Err(error),
                Ok(Ok(None)) => break,
                Ok(Ok(Some(piece))) => block = block.append(piece).await?,
                Err(_) => {}
            }
            let now = Instant::now();
            if now >= look_at {
                look_at = now + SLOW_AFTER;
                block = self.make_room(block).await?;
            }
        }
        Ok((block, !intake.has_ended(), begun.elapsed() >= SLOW_AFTER))
    }

    /// Sets a block aside that has been filling for long, if memory is scarce.
    async fn make_room(&self, block: Received) -> Result<Received> {
        match block {
            Received::Memory(buffer) if self.shared.uploads.receiving.is_crowded() => {
                Ok(Received::Aside(Box::new(self.set_aside(buffer).await?)))
            }
            block => Ok(block),
        }
    }
}
