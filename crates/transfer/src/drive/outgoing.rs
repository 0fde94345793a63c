//! A file of several blocks on its way to a drive.
//!
//! ```text
//! write → hash (4 at once) → ask which are there → seal (4 at once) → the body of one request
//! ```
//! Whether the space has blocks is asked [`ASKED_AT_ONCE`] at a time, with [`ASKS`] questions under way, so that the network is not waited for; once
//! [`MISSES`] blocks running were not there, only each [`MISSES`]th is asked about, until one is.
//!
//! In memory are some [`ASKED_AT_ONCE`] × [`ASKS`] blocks of it at most.

use crate::signs::{self, Signs};
use crate::{Incoming, Item, Wanted};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{DrivePath, Error, ErrorKind, NodeId, Result, Uid};
use holdfast_drive::{Entry, Expect, NameTaken, NewAttributes, Posix};
use holdfast_remote::client::{Block, Sending, Space};
use holdfast_remote::wire::{Begin, Sent};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Blocks that are hashed, or sealed, at once.
const WORKERS: usize = 4;
/// Blocks that are asked about at once.
const ASKED_AT_ONCE: usize = 8;
/// Questions under way.
const ASKS: usize = 3;
/// Blocks running that were not there before asking seems in vain.
const MISSES: usize = 32;
/// What is set of permissions if a file can be run.
const CAN_RUN: u32 = 0o111;

/// The file.
pub(super) struct Outgoing {
    space: Space,
    wanted: Wanted,
    name_taken: NameTaken,
    begun: Sent,
    stands_at: u64,
    arrived: Arc<AtomicU64>,
    sending: Option<UnderWay>,
    /// The block that was written last. The server makes the file when it has all blocks, so the last one waits for [`Incoming::finish`].
    held: Option<Bytes>,
    /// Those of the call that waits for the request.
    signs: Arc<Mutex<Signs>>,
}

/// The request under way.
struct UnderWay {
    blocks: mpsc::Sender<Bytes>,
    request: JoinHandle<Result<Sent>>,
    /// What went wrong before the line, where the request can only end.
    trouble: Arc<Mutex<Option<Error>>>,
}

pub(super) fn modified_ms(wanted: &Wanted) -> i64 {
    wanted.modified_ns.unwrap_or_else(super::now_ns).div_euclid(super::NS_PER_MS)
}

/// What is at a path now.
pub(super) async fn finished(space: &Space, path: &DrivePath) -> Result<Option<Entry>> {
    let mut at = space.entry(space.root()).await?;
    for name in path.names() {
        let Some(folder) = at else { return Ok(None) };
        at = space.lookup(folder.node.id, name).await?;
    }
    Ok(at)
}

/// Ends a file that was made: sets what its content does not say, and answers it as it is.
pub(super) async fn made(space: &Space, node: NodeId, wanted: &Wanted) -> Result<Item> {
    let gone = || Error::new(ErrorKind::PreconditionFailed, "the file was removed when it had just been made");
    if let Some(mode) = wanted.mode.filter(|mode| mode & CAN_RUN != 0) {
        let now_ns = super::now_ns();
        let modified_ns = wanted.modified_ns.unwrap_or(now_ns);
        let usual = Posix { mode, mtime_ns: modified_ns, atime_ns: modified_ns, ctime_ns: now_ns, ..Posix::default() };
        let change = NewAttributes { mode: Some(mode & 0o777), ctime_ns: now_ns, ..NewAttributes::default() };
        return super::item(&space.set_attributes(node, change, usual).await?);
    }
    super::item(&space.entry(node).await?.ok_or_else(gone)?)
}

impl Outgoing {
    pub(super) async fn begin(space: Space, path: DrivePath, wanted: &Wanted, expect: Expect) -> Result<Self> {
        let (name_taken, expect_seq) = match expect {
            Expect::Seq(seq) => (NameTaken::Replace, Some(seq)),
            _ => (NameTaken::Fail, None),
        };
        let words = Begin {
            path,
            length: wanted.size,
            name_taken,
            expect_seq,
            modified_ms: modified_ms(wanted),
            key: wanted.key.clone(),
        };
        let begun = space.begin(words, &wanted.tags).await?;
        // One that has all, or is a file already, stands a byte before its end.
        let is_whole = begun.waits || begun.node.is_some();
        let stands_at = if is_whole { wanted.size } else { begun.offset };
        let arrived = Arc::new(AtomicU64::new(stands_at));
        Ok(Self {
            space,
            wanted: wanted.clone(),
            name_taken,
            begun,
            stands_at,
            arrived,
            sending: None,
            held: None,
            signs: Arc::default(),
        })
    }

    /// The request that takes blocks.
    fn start(&self) -> UnderWay {
        let (blocks, written) = mpsc::channel(WORKERS);
        let trouble = Arc::new(Mutex::new(None));
        let entries = entries(self.space.clone(), written);
        let (told, arrived) = (trouble.clone(), self.arrived.clone());
        // An error ends the body; what was sent before counts.
        let sound = entries.scan((), move |(), entry| {
            let entry = entry.map(|(entry, bytes)| {
                arrived.fetch_add(bytes, Ordering::Relaxed);
                entry
            });
            let sound = entry.map_err(|error| *told.lock() = Some(error)).ok();
            async move { sound }
        });
        let (space, upload, offset) = (self.space.clone(), self.begun.upload, self.begun.offset);
        let signs = self.signs.clone();
        let moved = move || signs.lock().alive();
        let request = tokio::spawn(async move { space.send(upload, offset, sound, moved).await });
        UnderWay { blocks, request, trouble }
    }

    /// Gives a block to the request.
    async fn hand_over(&mut self, block: Bytes) -> Result<()> {
        *self.signs.lock() = signs::current();
        let sending = match self.sending.take() {
            Some(sending) => sending,
            None => self.start(),
        };
        if sending.blocks.send(block).await.is_ok() {
            self.sending = Some(sending);
            return Ok(());
        }
        Self::end(sending).await?;
        Err(Error::unavailable("the server took a file for whole before it was"))
    }

    /// How the request ended.
    async fn end(sending: UnderWay) -> Result<Sent> {
        drop(sending.blocks);
        let ended = sending.request.await.map_err(|error| Error::internal("a task was lost").with_source(error))?;
        if let Some(trouble) = sending.trouble.lock().take() {
            return Err(trouble);
        }
        // The server stands elsewhere than it did, or lost a block that was not sent: whoever tries again asks first.
        ended.map_err(|error| match error.kind() {
            ErrorKind::Conflict => Error::unavailable(error.message()),
            _ => error,
        })
    }
}

/// Blocks as they go over the line, each with the bytes of the file that it stands for.
fn entries(space: Space, written: mpsc::Receiver<Bytes>) -> impl Stream<Item = Result<(Sending, u64)>> + Send {
    let written = stream::unfold(written, |mut written| async { written.recv().await.map(|plain| (plain, written)) });
    let misses = Arc::new(AtomicUsize::new(0));
    let (identify, ask, seal) = (space.clone(), space.clone(), space);
    let blocks = written.map(move |plain| {
        let space = identify.clone();
        async move { space.identify(plain).await }
    });
    let asked = blocks.buffered(WORKERS).ready_chunks(ASKED_AT_ONCE).map(move |blocks| {
        let (space, misses) = (ask.clone(), misses.clone());
        async move { look(&space, blocks.into_iter().collect::<Result<Vec<_>>>()?, &misses).await }
    });
    let each = asked.buffered(ASKS).map_ok(|looked| stream::iter(looked.into_iter().map(Ok))).try_flatten();
    let sealed = each.map(move |looked: Result<(Block, bool)>| {
        let space = seal.clone();
        async move {
            let (block, has) = looked?;
            let bytes = block.plain.len() as u64;
            let entry = if has { Sending::held(block.id) } else { space.seal(block).await? };
            Ok((entry, bytes))
        }
    });
    sealed.buffered(WORKERS)
}

/// Which of some blocks the space has.
async fn look(space: &Space, blocks: Vec<Block>, misses: &AtomicUsize) -> Result<Vec<(Block, bool)>> {
    let before = misses.fetch_add(blocks.len(), Ordering::Relaxed);
    if before >= MISSES && before / MISSES == (before + blocks.len()) / MISSES {
        return Ok(blocks.into_iter().map(|block| (block, false)).collect());
    }
    let has = space.has_blocks(blocks.iter().map(|block| block.id).collect()).await?;
    if has.contains(&true) {
        misses.store(0, Ordering::Relaxed);
    }
    Ok(blocks.into_iter().zip(has).collect())
}

#[async_trait]
impl Incoming for Outgoing {
    fn stands_at(&self) -> u64 {
        self.stands_at
    }

    fn grain(&self) -> u64 {
        BLOCK_BYTES as u64
    }

    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        match self.held.replace(bytes) {
            Some(before) => self.hand_over(before).await,
            None => Ok(()),
        }
    }

    fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    async fn finish(mut self: Box<Self>) -> Result<Item> {
        if let Some(last) = self.held.take() {
            self.hand_over(last).await?;
        }
        let sent = match self.sending.take() {
            Some(sending) => Self::end(sending).await?,
            None => self.begun.clone(),
        };
        let upload: Uid = sent.upload;
        let sent = match sent {
            Sent { node: None, waits: true, .. } => self.space.finish(upload, self.name_taken).await?,
            sent => sent,
        };
        match sent.node {
            Some((node, _)) => made(&self.space, node, &self.wanted).await,
            None => Err(Error::unavailable(format!("the server has {} of {} bytes", sent.offset, self.wanted.size))),
        }
    }

    async fn pause(mut self: Box<Self>) {
        // What is on its way may still arrive; the server keeps what does.
        if let Some(sending) = self.sending.take() {
            sending.request.abort();
        }
    }
}
