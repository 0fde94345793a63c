//! Writing packs: sealed records from all uploads go to one open pack, and many uploads share one sync.
//!
//! One task appends; it takes all records that wait and writes them at once. A record's place is answered when it is
//! written; it counts only after [`Packer::sync`]. Syncs queue up behind the one that runs: when it is done, the first of those
//! waiting syncs for all. A full pack gets its index, a last sync, and a successor.
//!
//! The catalogue calls a pack *open* from before its first byte until no upload still has records in it that the catalogue does not
//! know: [`PackLease`]s count that. Reclaim leaves open packs alone, so what is on its way is never taken for dead.
//!
//! Where a pack is an object only at its end, its last records lie in memory until then, and with them shares of the memory for uploads,
//! which may be far larger than the records: a block that shrank keeps its buffer. Such a pack is ended before that is what uploads wait for.
//! A sync of such a pack has to end it. While [`ENDING_MAX`] are being ended for that, the next sync waits, and the pack goes on gathering: nothing is
//! added when little is written, and the more is written the more records share an object. The pack after it is begun meanwhile, so that no
//! write waits for its name (docs/design/object-stores.md has the numbers).
//!
//! After an error on a pack it takes no more records: it is given up, and its unsynced uploads fail. A failed sync is
//! never tried again, since the kernel may have dropped what it could not write.

use super::seat::Seat;
use bytes::Bytes;
use holdfast_base::{Clock, Error, PackId, PackName, Result};
use holdfast_blob::{Appender, BlobStore};
use holdfast_meta::{Catalogue, Place};
use holdfast_seal::block::{RECORD_PREFIX_BYTES, RecordHead};
use holdfast_seal::{block, pack};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::{Mutex, Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;

/// Entries a pack holds at most: keeps the index of a pack of tiny records, and its memory, at 4 MiB.
const PACK_ENTRIES_MAX: usize = 1 << 16;
/// Records that may wait to be appended, and that are appended in one write: uploads wait for their budget before that, so
/// this only smooths.
const QUEUE_RECORDS: usize = 32;
/// Packs that are being ended at once because somebody wants a sync.
const ENDING_MAX: usize = 2;

/// Writes packs. A handle on the task that does; requests survive the one who asked being cancelled.
pub(crate) struct Packer {
    requests: mpsc::Sender<Request>,
    notes: mpsc::UnboundedSender<Note>,
    ending: Semaphore,
}

/// For the task that tells the catalogue.
enum Note {
    /// Nobody writes this pack any more; it has this many bytes.
    Finished(PackId, u64),
    /// Answer when everything before this is told.
    Flush(oneshot::Sender<()>),
    /// The same, and nothing behind it is told any more.
    End(oneshot::Sender<()>),
}

enum Request {
    /// Append this record.
    Append(Record),
    /// Close the open pack (if it is this one, where one is named) and answer what was closed.
    Close { only: Option<PackId>, answer: oneshot::Sender<Result<Option<Arc<SharedPack>>>> },
    /// Write no more to the open pack, and leave its end to others.
    GiveUp,
}

/// The task's own state.
struct Writer {
    site: Arc<Site>,
    bounds: PackBounds,
    open: Option<OpenPack>,
    /// The pack after that, where packs are ended for a sync.
    next: Option<JoinHandle<Result<OpenPack>>>,
}

/// Where packs are begun.
struct Site {
    store: Arc<dyn BlobStore>,
    catalogue: Arc<dyn Catalogue>,
    clock: Arc<dyn Clock>,
    seat: Arc<Seat>,
    finished: mpsc::UnboundedSender<Note>,
}

/// When a pack is closed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PackBounds {
    /// At about this many bytes.
    pub(crate) pack_bytes: u64,
    /// When records of it that wait in memory have more than this of the memory for uploads.
    pub(crate) share_bytes: usize,
}

/// The pack that takes records.
struct OpenPack {
    shared: Arc<SharedPack>,
    entries: Vec<pack::PackEntry>,
    /// Where records end that may wait in memory, and their shares; and the sum of these.
    shares: VecDeque<(u64, usize)>,
    share_bytes: usize,
}

/// What uploads and the packer share of a pack.
struct SharedPack {
    id: PackId,
    name: PackName,
    appender: Mutex<Box<dyn Appender>>,
    sync_ends_pack: bool,
    /// Bytes appended.
    written: AtomicU64,
    /// Bytes known to be durable; the lock is held while a sync runs.
    synced: Mutex<u64>,
    failed: AtomicBool,
    /// Told when the last lease is gone.
    finished: mpsc::UnboundedSender<Note>,
}

impl Drop for SharedPack {
    fn drop(&mut self) {
        if self.failed.load(Ordering::Acquire) {
            // What is in it is not known; it stays open until the next start, which seals it at the end of its sound records.
            return;
        }
        // At shutdown nobody listens any more; the next start seals the pack.
        let _ = self.finished.send(Note::Finished(self.id, self.written.load(Ordering::Acquire)));
    }
}

/// A record's place, and the promise that its pack stays open until this is dropped.
#[derive(Clone)]
pub(crate) struct PackLease {
    shared: Arc<SharedPack>,
    /// Where the record lies.
    pub(crate) place: Place,
}

impl PackLease {
    /// See [`holdfast_blob::Appender::sync_ends_pack`].
    pub(crate) fn sync_ends_pack(&self) -> bool {
        self.shared.sync_ends_pack
    }

    /// What the store calls its pack.
    pub(crate) fn pack_name(&self) -> PackName {
        self.shared.name
    }

    /// Whether a write or a sync of the pack failed: what was not durable before may be lost.
    pub(crate) fn has_failed(&self) -> bool {
        self.shared.failed.load(Ordering::Acquire)
    }
}

impl Packer {
    /// A packer that closes packs within `bounds`. Must be called within a runtime: it spawns its tasks there.
    pub(crate) fn start(
        store: Arc<dyn BlobStore>,
        catalogue: Arc<dyn Catalogue>,
        clock: Arc<dyn Clock>,
        seat: Arc<Seat>,
        bounds: PackBounds,
    ) -> Self {
        // Unbounded, but each message is a finished pack of many MiB: their number is bounded by the packs uploads hold.
        let (finished, packs) = mpsc::unbounded_channel();
        tokio::spawn(note_finished(catalogue.clone(), packs));
        let (requests, queue) = mpsc::channel(QUEUE_RECORDS);
        let notes = finished.clone();
        let site = Arc::new(Site { store, catalogue, clock, seat, finished });
        tokio::spawn(Writer { site, bounds, open: None, next: None }.run(queue));
        Self { requests, notes, ending: Semaphore::new(ENDING_MAX) }
    }

    /// Appends one record (whose head tells its block), which has `share_bytes` of the memory for uploads until it is dropped. Not
    /// durable before [`Self::sync`].
    pub(crate) async fn append(&self, record: Bytes, share_bytes: usize) -> Result<PackLease> {
        let head = block::read_record_head(&record[..RECORD_PREFIX_BYTES.min(record.len())])
            .ok_or_else(|| Error::internal("a record without a head was handed to the packer"))?;
        let (answer, answered) = oneshot::channel();
        let record = Record { bytes: record, share_bytes, head, answer };
        self.requests.send(Request::Append(record)).await.map_err(|_| stopped())?;
        answered.await.map_err(|_| stopped())?
    }

    /// Makes the records of `leases` durable.
    pub(crate) async fn sync(&self, leases: &[PackLease]) -> Result<()> {
        let mut packs: Vec<(&Arc<SharedPack>, u64)> = Vec::new();
        for lease in leases {
            let end = lease.place.offset + u64::from(lease.place.sealed_bytes);
            match packs.iter_mut().find(|(shared, _)| Arc::ptr_eq(shared, &lease.shared)) {
                Some((_, last)) => *last = end.max(*last),
                None => packs.push((&lease.shared, end)),
            }
        }
        for (shared, end) in packs {
            let mut synced = shared.synced.lock().await;
            // Whoever waits behind a sync of the same pack finds here that it was done.
            if *synced >= end {
                continue;
            }
            let mut turn = None;
            if shared.sync_ends_pack {
                turn = Some(self.ending.acquire().await.map_err(|_| stopped())?);
                self.close(Some(shared.id)).await?;
            }
            shared.sync_to(end, &mut synced).await?;
            drop(turn);
        }
        Ok(())
    }

    /// Closes the open pack, makes it durable, and waits until the catalogue knows: for a reclaim that wants everything sealed.
    pub(crate) async fn finish(&self) -> Result<()> {
        self.settle(Note::Flush).await
    }

    /// The same for a clean stop: what ends after it is no longer told to a catalogue that may be closed, and the next start seals it.
    pub(crate) async fn stop(&self) -> Result<()> {
        self.settle(Note::End).await
    }

    async fn settle(&self, note: impl FnOnce(oneshot::Sender<()>) -> Note) -> Result<()> {
        if let Some(shared) = self.close(None).await? {
            shared.sync(shared.written.load(Ordering::Acquire)).await?;
        }
        let (noted, known) = oneshot::channel();
        self.notes.send(note(noted)).map_err(|_| stopped())?;
        known.await.map_err(|_| stopped())
    }

    /// Writes no more to the open pack: this node was given up, and with it the pack.
    pub(crate) async fn give_up(&self) {
        // A packer that has stopped writes nothing either.
        let _ = self.requests.send(Request::GiveUp).await;
    }

    async fn close(&self, only: Option<PackId>) -> Result<Option<Arc<SharedPack>>> {
        let (answer, answered) = oneshot::channel();
        self.requests.send(Request::Close { only, answer }).await.map_err(|_| stopped())?;
        answered.await.map_err(|_| stopped())?
    }
}

fn stopped() -> Error {
    Error::unavailable("the drive is stopping")
}

/// Tells the catalogue of packs that nobody writes any more.
async fn note_finished(catalogue: Arc<dyn Catalogue>, mut notes: mpsc::UnboundedReceiver<Note>) {
    while let Some(note) = notes.recv().await {
        match note {
            Note::Finished(id, bytes) => {
                if let Err(error) = catalogue.seal_pack(id, bytes).await {
                    tracing::warn!(pack = %id, ?error, "a finished pack could not be noted; the next start will");
                }
            }
            Note::Flush(answer) => {
                // Whoever asked may be gone.
                let _ = answer.send(());
            }
            Note::End(answer) => {
                let _ = answer.send(());
                return;
            }
        }
    }
}

impl Writer {
    async fn run(mut self, mut queue: mpsc::Receiver<Request>) {
        let mut requests = Vec::with_capacity(QUEUE_RECORDS);
        while queue.recv_many(&mut requests, QUEUE_RECORDS).await > 0 {
            let mut records = Vec::new();
            for request in requests.drain(..) {
                match request {
                    Request::Append(record) => records.push(record),
                    Request::Close { only, answer } => {
                        self.append_all(&mut records).await;
                        if only.is_none() {
                            self.drop_next().await;
                        }
                        // The one who asked may be gone; then nobody wants the answer.
                        let _ = answer.send(self.close(only).await);
                    }
                    Request::GiveUp => {
                        if let Some(open) = self.open.take() {
                            open.shared.failed.store(true, Ordering::Release);
                        }
                        self.drop_next().await;
                    }
                }
            }
            self.append_all(&mut records).await;
        }
    }

    /// Appends records in as few writes as packs allow, and answers each.
    async fn append_all(&mut self, records: &mut Vec<Record>) {
        while !records.is_empty() {
            let mut open = match self.pack_with_room(records[0].bytes.len() as u64).await {
                Ok(open) => open,
                Err(error) => return answer_all(records, &error),
            };
            let written = open.shared.written.load(Ordering::Acquire);
            let fit = self.how_many_fit(written, open.entries.len(), records);
            let mut batch: Vec<Record> = records.drain(..fit).collect();
            match open.shared.append(batch.iter().map(|record| record.bytes.clone()).collect()).await {
                Ok(offset) => {
                    open.answer(offset, batch);
                    if open.shared.sync_ends_pack && self.next.is_none() {
                        self.next = Some(tokio::spawn(self.site.clone().begin()));
                    }
                    if open.waiting_share_bytes().await <= self.bounds.share_bytes {
                        self.open = Some(open);
                    } else if let Err(error) = open.end().await {
                        tracing::error!(?error, "a pack could not be ended");
                    }
                }
                Err(error) => answer_all(&mut batch, &error),
            }
        }
    }

    fn how_many_fit(&self, written: u64, entries: usize, records: &[Record]) -> usize {
        let mut end = written;
        let fits = records.iter().take(PACK_ENTRIES_MAX - entries).take_while(|record| {
            end += record.bytes.len() as u64;
            end <= self.bounds.pack_bytes
        });
        fits.count().max(1)
    }

    /// Takes the open pack, if it has room, or a new one.
    async fn pack_with_room(&mut self, bytes: u64) -> Result<OpenPack> {
        if let Some(open) = self.open.take() {
            let written = open.shared.written.load(Ordering::Acquire);
            let room = open.entries.is_empty() || written + bytes <= self.bounds.pack_bytes;
            if room && open.entries.len() < PACK_ENTRIES_MAX && !open.shared.failed.load(Ordering::Acquire) {
                return Ok(open);
            }
            open.end().await?;
        }
        if let Some(next) = self.next.take()
            && let Ok(Ok(next)) = next.await
        {
            return Ok(next);
        }
        self.site.clone().begin().await
    }

    /// The pack that was begun ahead is not needed: there is nothing of it, and it is reclaimed like any that is dead.
    async fn drop_next(&mut self) {
        if let Some(next) = self.next.take()
            && let Ok(Ok(next)) = next.await
        {
            next.shared.failed.store(true, Ordering::Release);
            // At shutdown nobody listens any more; the next start seals the pack.
            let _ = self.site.finished.send(Note::Finished(next.shared.id, 0));
        }
    }

    async fn close(&mut self, only: Option<PackId>) -> Result<Option<Arc<SharedPack>>> {
        match self.open.take_if(|open| only.is_none_or(|id| id == open.shared.id)) {
            Some(open) => open.close().await.map(Some),
            None => Ok(None),
        }
    }
}

impl Site {
    async fn begin(self: Arc<Self>) -> Result<OpenPack> {
        let name = PackName(holdfast_seal::keys::random_bytes()?);
        let id = self.catalogue.open_pack(name, self.seat.id(), self.clock.now_ms()).await?;
        let appender = self.store.append(name).await?;
        let shared = Arc::new(SharedPack {
            id,
            name,
            sync_ends_pack: appender.sync_ends_pack(),
            appender: Mutex::new(appender),
            written: AtomicU64::new(0),
            synced: Mutex::new(0),
            failed: AtomicBool::new(false),
            finished: self.finished.clone(),
        });
        shared.append(vec![Bytes::copy_from_slice(&pack::header(name))]).await?;
        Ok(OpenPack { shared, entries: Vec::new(), shares: VecDeque::new(), share_bytes: 0 })
    }
}

/// A record, its share of the memory for uploads, what its head says, and who waits for its place.
struct Record {
    bytes: Bytes,
    share_bytes: usize,
    head: RecordHead,
    answer: oneshot::Sender<Result<PackLease>>,
}

fn answer_all(records: &mut Vec<Record>, error: &Error) {
    for record in records.drain(..) {
        let _ = record.answer.send(Err(Error::new(error.kind(), error.message())));
    }
}

impl OpenPack {
    /// Notes the entries of records that were appended from `offset` on and answers their places.
    fn answer(&mut self, mut offset: u64, batch: Vec<Record>) {
        for Record { bytes, share_bytes, head, answer } in batch {
            self.entries.push(pack::PackEntry {
                space: head.space,
                id: head.id,
                offset,
                record_bytes: head.record_bytes,
                raw_bytes: head.raw_bytes,
            });
            let place =
                Place { pack: self.shared.id, offset, sealed_bytes: head.record_bytes, raw_bytes: head.raw_bytes };
            offset += bytes.len() as u64;
            self.shares.push_back((offset, share_bytes));
            self.share_bytes += share_bytes;
            let _ = answer.send(Ok(PackLease { shared: self.shared.clone(), place }));
        }
    }

    /// What records that wait in memory have of the memory for uploads.
    async fn waiting_share_bytes(&mut self) -> usize {
        let waiting = self.shared.appender.lock().await.waiting_bytes();
        let gone = self.shared.written.load(Ordering::Acquire).saturating_sub(waiting);
        while let Some((_, share_bytes)) = self.shares.pop_front_if(|(end, _)| *end <= gone) {
            self.share_bytes -= share_bytes;
        }
        self.share_bytes
    }

    /// Closes it; its last sync goes on by itself.
    async fn end(self) -> Result<()> {
        let shared = self.close().await?;
        tokio::spawn(async move {
            let end = shared.written.load(Ordering::Acquire);
            if let Err(error) = shared.sync(end).await {
                tracing::error!(pack = %shared.name, ?error, "a pack could not be synced");
            }
        });
        Ok(())
    }

    /// Writes the index; the last sync is the caller's.
    async fn close(self) -> Result<Arc<SharedPack>> {
        if !self.shared.failed.load(Ordering::Acquire) {
            let index_offset = self.shared.written.load(Ordering::Acquire);
            let closing = pack::closing(self.shared.name, index_offset, &self.entries)?;
            self.shared.append(vec![Bytes::from(closing)]).await?;
        }
        Ok(self.shared)
    }
}

impl SharedPack {
    async fn append(&self, parts: Vec<Bytes>) -> Result<u64> {
        let bytes: usize = parts.iter().map(Bytes::len).sum();
        let appended = self.appender.lock().await.append(parts).await;
        let offset = appended.inspect_err(|_| self.failed.store(true, Ordering::Release))?;
        self.written.fetch_add(bytes as u64, Ordering::AcqRel);
        Ok(offset)
    }

    /// Makes the first `end` bytes durable.
    async fn sync(&self, end: u64) -> Result<()> {
        self.sync_to(end, &mut *self.synced.lock().await).await
    }

    async fn sync_to(&self, end: u64, synced: &mut u64) -> Result<()> {
        if *synced >= end {
            return Ok(());
        }
        if self.failed.load(Ordering::Acquire) {
            return Err(Error::unavailable("the pack this was written to failed; try again"));
        }
        let (ended, sync) = {
            let mut appender = self.appender.lock().await;
            (self.written.load(Ordering::Acquire), appender.sync())
        };
        let started = std::time::Instant::now();
        sync.await.inspect_err(|_| self.failed.store(true, Ordering::Release))?;
        metrics::histogram!("holdfast_pack_sync_seconds").record(started.elapsed().as_secs_f64());
        *synced = ended;
        Ok(())
    }
}
