//! Taking a file in.
//!
//! Content goes to a part file beside the target, several blocks of it on their way at once, and [marks](super::marks) beside it say how far it can be trusted after a kill or a
//! power cut at either end. What is there under the target's name is replaced when all of the content is synced. What has one block or less is kept in memory until it
//! is finished, and has no marks: there is nothing to resume.
//!
//! There are no locks. Two transfers of the same version of a file write the same bytes to the same places of one part, which none of them shortens; who is
//! second finds the file there.

use super::Inner;
use super::item;
use super::marks::{Mark, Marks, stopped};
use super::place::Place;
use super::session::{Handle, Waiting};
use super::wire::{Ask, Attrs};
use crate::part::PartName;
use crate::signs;
use crate::site::{Incoming, Item, Wanted};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{Error, Result};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

const GRAIN: u64 = BLOCK_BYTES as u64;
/// Blocks that are on their way at once.
const AHEAD: usize = 8;
/// Bytes after which, or time after which, what arrived is synced and marked: what a kill may cost.
const MARK_BYTES: u64 = 16 << 20;
const MARK_TIME: Duration = Duration::from_secs(5);
const NS: i64 = 1_000_000_000;

/// A file that is coming in.
pub(super) struct SftpIncoming {
    inner: Arc<Inner>,
    wanted: Wanted,
    /// Content of a file of one block.
    small: Option<Bytes>,
    /// The part of a larger one.
    part: Option<Part>,
    stands: u64,
    /// Bytes that were taken.
    taken: u64,
}

/// An opened part file.
struct Part {
    place: Place,
    name: PartName,
    handle: Arc<Handle>,
    under_way: VecDeque<Block>,
    /// Bytes from the start that the server has.
    arrived: u64,
    /// At rest, or at work.
    marks: Option<Marks>,
    marking: Option<JoinHandle<(Marks, Result<()>)>>,
    marked: (u64, Instant),
    /// Of all that was taken, where the server cannot sync.
    hasher: Option<blake3::Hasher>,
    /// The sum of what arrived, likewise.
    sum: Option<[u8; 32]>,
}

/// A block on its way.
struct Block {
    end: u64,
    answers: VecDeque<Waiting>,
    sum: Option<[u8; 32]>,
}

impl SftpIncoming {
    /// Begins, or goes on with what is there.
    pub(super) async fn begin(inner: Arc<Inner>, wanted: Wanted) -> Result<Self> {
        if wanted.size <= GRAIN {
            return Ok(Self { inner, wanted, small: None, part: None, stands: 0, taken: 0 });
        }
        let part = Part::open(&inner, &wanted).await?;
        let stands = part.arrived;
        Ok(Self { inner, wanted, small: None, part: Some(part), stands, taken: stands })
    }

    /// A file of one block, which is all there.
    async fn finish_small(&self) -> Result<Item> {
        let session = self.inner.pool.get().await?;
        let place = self.inner.place(&session, &self.wanted.path).await?;
        let name = PartName::new(&place.name, &self.wanted.key);
        self.inner.leftovers.clear(&self.wanted.path, &place, &name).await?;
        let path = place.beside(&name.part());
        let handle = place.make_ours(&path, self.wanted.mode.is_some()).await?;
        let finished = async {
            let mut writes = send_block(&handle, 0, &self.small.clone().unwrap_or_default()).await?;
            let written = complete(&self.wanted, &place, &handle, &mut writes).await?;
            // Closed before it is named, for servers that name nothing that is open.
            drop(handle);
            place.put(&path, self.wanted.replaces.as_ref()).await?;
            Ok(written)
        };
        let done: Result<Item> = finished.await;
        if done.is_err() {
            // Nothing could go on with it.
            place.unlink(&path).await;
        }
        let item = done?;
        self.inner.lead_to(&place, &self.wanted).await?;
        Ok(item)
    }
}

#[async_trait]
impl Incoming for SftpIncoming {
    fn stands_at(&self) -> u64 {
        self.stands
    }

    fn grain(&self) -> u64 {
        GRAIN
    }

    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        let (length, rest) = (bytes.len() as u64, self.wanted.size.saturating_sub(self.taken));
        if length != rest.min(GRAIN) {
            return Err(Error::internal(format!("a block of {length} bytes came where {} were due", rest.min(GRAIN))));
        }
        match &mut self.part {
            None => self.small = Some(bytes),
            Some(part) => part.write(self.taken, &bytes).await?,
        }
        self.taken += length;
        Ok(())
    }

    fn arrived(&self) -> u64 {
        self.part.as_ref().map_or(self.taken, |part| part.arrived)
    }

    async fn finish(mut self: Box<Self>) -> Result<Item> {
        if self.taken != self.wanted.size {
            let (taken, size) = (self.taken, self.wanted.size);
            return Err(Error::internal(format!("{taken} of {size} bytes were written when it was to be finished")));
        }
        match self.part.take() {
            None => self.finish_small().await,
            Some(part) => part.finish(&self.inner, &self.wanted).await,
        }
    }

    async fn pause(mut self: Box<Self>) {
        if let Some(mut part) = self.part.take()
            && let Err(error) = part.put_aside().await
        {
            tracing::debug!(%error, path = %self.wanted.path, "the last blocks before a pause were not kept");
        }
    }
}

impl Part {
    async fn open(inner: &Inner, wanted: &Wanted) -> Result<Self> {
        let session = inner.pool.get().await?;
        let place = inner.place(&session, &wanted.path).await?;
        place.check(wanted.replaces.as_ref()).await?;
        let name = PartName::new(&place.name, &wanted.key);
        inner.leftovers.clear(&wanted.path, &place, &name).await?;
        inner.leftovers.made(&wanted.path, &name);
        let (handle, size) = place.open_ours(&place.beside(&name.part()), wanted.mode.is_some()).await?;
        let beside = place.beside(&name.journal());
        let (marks, stands) = Marks::open(&place, &beside, &wanted.key, &handle, size.min(wanted.size)).await?;
        Ok(Self {
            place,
            name,
            handle: Arc::new(handle),
            under_way: VecDeque::new(),
            arrived: stands.bytes,
            marks: Some(marks),
            marking: None,
            marked: (stands.bytes, Instant::now()),
            hasher: (!session.can.sync).then_some(stands.hasher),
            sum: None,
        })
    }

    async fn write(&mut self, offset: u64, bytes: &Bytes) -> Result<()> {
        while self.under_way.len() >= AHEAD {
            self.take_answers().await?;
        }
        // What came already need not be waited for, and can be marked.
        while !self.under_way.is_empty()
            && let Some(taken) = self.take_answers().now_or_never()
        {
            taken?;
        }
        let answers = send_block(&self.handle, offset, bytes).await?;
        let sum = self.hasher.as_mut().map(|hasher| *hasher.update(bytes).finalize().as_bytes());
        self.under_way.push_back(Block { end: offset + bytes.len() as u64, answers, sum });
        let (marked, at) = self.marked;
        if self.arrived - marked >= MARK_BYTES || (self.arrived > marked && at.elapsed() >= MARK_TIME) {
            self.begin_mark().await?;
        }
        Ok(())
    }

    /// Waits for the answers to the oldest block. Each is taken off when it came, so whoever stops waiting loses none.
    async fn take_answers(&mut self) -> Result<()> {
        let signs = signs::current();
        let Some(block) = self.under_way.front_mut() else { return Ok(()) };
        while let Some(answer) = block.answers.front_mut() {
            let told = answer.come().await;
            block.answers.pop_front();
            if let Err(status) = told? {
                return Err(self.place.failed("writing", status).await);
            }
            signs.alive();
        }
        if let Some(block) = self.under_way.pop_front() {
            (self.arrived, self.sum) = (block.end, block.sum);
        }
        Ok(())
    }

    /// Begins to sync what arrived, and to mark it; unless that is under way.
    async fn begin_mark(&mut self) -> Result<()> {
        if self.marking.as_ref().is_some_and(|marking| !marking.is_finished()) {
            return Ok(());
        }
        self.end_mark().await?;
        // Only whole blocks can be gone on from.
        if !self.arrived.is_multiple_of(GRAIN) {
            return Ok(());
        }
        let Some(mut marks) = self.marks.take() else { return Ok(()) };
        let mark = Mark { bytes: self.arrived, sum: self.sum };
        self.marked = (self.arrived, Instant::now());
        let handle = Arc::clone(&self.handle);
        self.marking = Some(tokio::spawn(async move {
            let done = async {
                if handle.session.can.sync {
                    let told = handle.session.tell(handle.sync()).await?;
                    told.map_err(|status| status.error("syncing", "a part"))?;
                }
                marks.add(mark).await
            };
            let done = done.await;
            (marks, done)
        }));
        Ok(())
    }

    /// Waits for a mark that is being written. One that could not be is not needed: there will be others, or the end.
    async fn end_mark(&mut self) -> Result<()> {
        let Some(marking) = &mut self.marking else { return Ok(()) };
        let ended = marking.await;
        self.marking = None;
        let (marks, done) = ended.map_err(stopped)?;
        self.marks = Some(marks);
        match done {
            Err(error) if error.is_temporary() => Err(error),
            Err(error) => {
                tracing::debug!(%error, path = self.place.path(), "a part was not marked");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Keeps what is under way, too.
    async fn put_aside(&mut self) -> Result<()> {
        while !self.under_way.is_empty() {
            self.take_answers().await?;
        }
        self.end_mark().await?;
        if self.arrived > self.marked.0 {
            self.begin_mark().await?;
            self.end_mark().await?;
        }
        Ok(())
    }

    async fn finish(mut self, inner: &Inner, wanted: &Wanted) -> Result<Item> {
        while self.under_way.len() > 1 {
            self.take_answers().await?;
        }
        self.end_mark().await?;
        let mut last = self.under_way.pop_front().map(|block| block.answers).unwrap_or_default();
        let Self { place, name, handle, marks, .. } = self;
        let item = complete(wanted, &place, &handle, &mut last).await?;
        // Closed before they are named and removed, for servers that do neither with what is open.
        drop((handle, marks));
        place.put(&place.beside(&name.part()), wanted.replaces.as_ref()).await?;
        inner.lead_to(&place, wanted).await?;
        place.unlink(&place.beside(&name.journal())).await;
        Ok(item)
    }
}

impl Inner {
    /// Makes the entry of a file durable, and those that lead to it.
    async fn lead_to(&self, place: &Place, wanted: &Wanted) -> Result<()> {
        let folder = wanted.path.parent().unwrap_or_default();
        self.durable.changed(&place.session, &self.root, &folder).await?;
        self.durable.lead_into(&place.session, &self.root, &folder).await
    }
}

/// Sends a block in as many requests as it takes.
async fn send_block(handle: &Handle, offset: u64, bytes: &Bytes) -> Result<VecDeque<Waiting>> {
    let chunk = usize::try_from(handle.session.chunk).unwrap_or(BLOCK_BYTES);
    let mut answers = VecDeque::new();
    for at in (0..bytes.len()).step_by(chunk) {
        let piece = bytes.slice(at..bytes.len().min(at + chunk));
        answers.push_back(handle.session.send(handle.write(offset + at as u64, piece)).await?);
    }
    Ok(answers)
}

/// Size, permissions and time of a file whose content was sent, and all of it synced.
async fn complete(wanted: &Wanted, place: &Place, handle: &Handle, writes: &mut VecDeque<Waiting>) -> Result<Item> {
    let (session, signs) = (&place.session, signs::current());
    for write in writes.iter_mut() {
        if let Err(status) = write.come().await? {
            return Err(place.failed("writing", status).await);
        }
        signs.alive();
    }
    let modified_s = wanted.modified_ns.and_then(|ns| u32::try_from(ns.div_euclid(NS)).ok());
    let attrs = Attrs { size: Some(wanted.size), permissions: wanted.mode.map(|mode| mode & 0o777), modified_s };
    let set = session.send(handle.request(Ask::SetHandle).attrs(&attrs)).await?;
    // The server goes by order for one file; what it answers says whether it did.
    let synced = if session.can.sync { Some(session.send(handle.sync()).await?) } else { None };
    let looked = session.send(handle.request(Ask::LookAtHandle)).await?;
    match set.told().await? {
        // There are servers that set nothing.
        Err(status) if status.code == super::wire::code::UNSUPPORTED => {
            tracing::debug!(?status, path = place.path(), "the server sets neither time nor permissions");
        }
        Err(status) => return Err(place.failed("setting time and permissions of", status).await),
        Ok(()) => {}
    }
    signs.alive();
    if let Some(Err(status)) = match synced {
        Some(synced) => Some(synced.told().await?),
        None => None,
    } {
        return Err(place.failed("syncing", status).await);
    }
    let there = looked.attrs().await?.map_err(|status| status.error("looking at", place.path()))?;
    if there.size != Some(wanted.size) {
        return Err(Error::unavailable(format!("{}: the server has another size of it", place.path())));
    }
    item::plain(place.name.clone(), &there)
}
