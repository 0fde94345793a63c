//! The spool: sealed blocks of files that were closed and that the server does not have yet, on this machine's disk.
//!
//! A mount that answers first names them in its journal by file, place and length, and hands them over with the change that names them. They lie here as
//! records, sealed with the space's key as anywhere else, so what is in the spool tells nobody anything. A write is in the system's cache when it
//! returns: the end of the process does not undo it, a power cut may, and then the record is not whole ([`Spool::rescue`]).
//!
//! Blocks are appended to a file until that is full or everything in it was [let go](Spooled::let_go); the file goes with the last who reads it. What is dropped without that is
//! named by a journal still, and stays for the next start, which removes what no journal named ([`Spool::forget_left`]).

use super::keys::Sealing;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use holdfast_base::limits::{BLOCK_BYTES, BLOCK_BYTES_MAX};
use holdfast_base::{BlockId, Error, ErrorKind, PackId, Result, Uid};
use holdfast_drive::engine::small::SealedBlock;
use holdfast_drive::{NewContent, Place, SaveBody, Spooled, StagedBlock, Unsynced};
use holdfast_seal::block::{RECORD_OVERHEAD_BYTES, record_is_intact};
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, spawn_blocking};

/// A file of the spool is begun anew at this size.
const FILE_BYTES: u64 = 16 << 20;
/// What the spool leaves of its disk.
const LEFT_BYTES: u64 = 64 << 20;
/// Blocks of a content that are sealed at a time.
const SEALING_MAX: usize = 4;
/// How its files are called, before their number.
const PREFIX: &str = "spool-";

/// Blocks in memory on their way into the spool, of all contents.
const BLOCKS_MAX: usize = 32;
/// Blocks that were read lately, in clear: programs read in smaller pieces.
const READ_MAX: usize = 16;

/// Blocks that wait on this machine.
pub(super) struct Spool {
    folder: PathBuf,
    sealing: Arc<Sealing>,
    space: Uid,
    room: Semaphore,
    files: Mutex<Files>,
    read: Mutex<VecDeque<(BlockId, Bytes)>>,
}

struct Files {
    /// The one that is written, and how far.
    current: Option<(Arc<SpoolFile>, u64)>,
    next: u64,
    /// All that are in use.
    known: HashMap<u64, Weak<SpoolFile>>,
}

/// A file of the spool.
struct SpoolFile {
    number: u64,
    path: PathBuf,
    file: File,
    /// A journal names something in it.
    stays: AtomicBool,
    /// Something in it was not there, or not to be read, when it was to be sent.
    has_failed: AtomicBool,
}

impl Drop for SpoolFile {
    fn drop(&mut self) {
        if self.stays.load(Ordering::Acquire) {
            return;
        }
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(file = %self.path.display(), %error, "a file of the spool that nobody needs could not be removed");
        }
    }
}

/// A content in it.
struct Kept {
    spool: Arc<Spool>,
    blocks: Vec<(BlockId, Place, Arc<SpoolFile>)>,
    is_let_go: AtomicBool,
}

impl Drop for Kept {
    fn drop(&mut self) {
        for (_, _, file) in std::mem::take(&mut self.blocks) {
            if !self.is_let_go.load(Ordering::Acquire) {
                file.stays.store(true, Ordering::Release);
            }
        }
        self.spool.end_idle();
    }
}

#[async_trait]
impl Spooled for Kept {
    async fn read(&self, index: usize, range: Range<usize>) -> Result<Vec<u8>> {
        let beyond = || Error::new(ErrorKind::RangeNotSatisfiable, "the range lies beyond the file's end");
        let (id, place, file) = self.blocks.get(index).cloned().ok_or_else(beyond)?;
        let known = self.spool.read.lock().iter().find(|(of, _)| *of == id).map(|(_, plain)| plain.clone());
        let plain = if let Some(plain) = known {
            plain
        } else {
            let spool = self.spool.clone();
            let open = move || spool.sealing.open_block(id, file.record(spool.space, id, place)?.ok_or_else(lost)?);
            let plain = blocking(open).await?;
            let mut read = self.spool.read.lock();
            read.truncate(READ_MAX - 1);
            read.push_front((id, plain.clone()));
            plain
        };
        let part = plain.get(range).map(<[u8]>::to_vec);
        part.ok_or_else(|| Error::damaged("a block has not the length that it was sealed with"))
    }

    fn is_sound(&self) -> bool {
        self.blocks.iter().all(|(_, _, file)| !file.has_failed.load(Ordering::Acquire))
    }

    fn let_go(&self) {
        self.is_let_go.store(true, Ordering::Release);
    }
}

impl SpoolFile {
    const fn new(number: u64, path: PathBuf, file: File, stays: bool) -> Self {
        let (stays, has_failed) = (AtomicBool::new(stays), AtomicBool::new(false));
        Self { number, path, file, stays, has_failed }
    }

    /// The record of a block; none if it is not here as it was written.
    fn record(&self, space: Uid, id: BlockId, place: Place) -> Result<Option<Bytes>> {
        if place.sealed_bytes as usize > BLOCK_BYTES_MAX + RECORD_OVERHEAD_BYTES {
            return Ok(None);
        }
        let mut record = vec![0; place.sealed_bytes as usize];
        match self.file.read_exact_at(&mut record, place.offset) {
            Ok(()) => Ok(record_is_intact(space, id, &record).then(|| record.into())),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(at(error, &self.path)),
        }
    }
}

fn lost() -> Error {
    Error::damaged("the spool has lost a block of a closed file")
}

fn at(error: io::Error, path: &Path) -> Error {
    Error::from(error).context(path.display())
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = spawn_blocking(work).await;
    done.map_err(|error| Error::internal("work on the spool failed").with_source(error)).flatten()
}

impl Spool {
    /// The spool in a folder, with what a mount before this left there.
    pub(super) fn open(folder: &Path, sealing: Arc<Sealing>, space: Uid) -> Result<Self> {
        let next = numbers(folder)?.last().map_or(1, |last| last + 1);
        let files = Mutex::new(Files { current: None, next, known: HashMap::new() });
        let (room, read) = (Semaphore::new(BLOCKS_MAX), Mutex::default());
        Ok(Self { folder: folder.to_owned(), sealing, space, room, files, read })
    }

    /// Whether the disk has room for more: the journal lies there as well, and what has none can still go to the server at once.
    pub(super) fn has_room(&self) -> bool {
        let found = rustix::fs::statvfs(&self.folder);
        found.is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) >= LEFT_BYTES)
    }

    /// Seals and writes a whole content.
    pub(super) async fn put(self: &Arc<Self>, size: u64, body: SaveBody) -> Result<Unsynced> {
        let needed = usize::try_from(size.div_ceil(BLOCK_BYTES as u64)).unwrap_or(usize::MAX).min(SEALING_MAX + 1);
        let room = self.room.acquire_many(u32::try_from(needed).unwrap_or(1)).await;
        let _room = room.map_err(|_| Error::internal("nobody closes this"))?;
        let (mut sealing, mut blocks) = (VecDeque::new(), Vec::new());
        let mut done = self.seal(size, body, (&mut sealing, &mut blocks)).await;
        // Those on their way are waited for in any case.
        for one in sealing {
            match ended(one).await {
                Ok(block) => blocks.push(block),
                Err(error) => done = done.and(Err(error)),
            }
        }
        if let Err(error) = done {
            drop(blocks);
            self.end_idle();
            return Err(error);
        }
        self.keep(size, blocks)
    }

    async fn seal(
        self: &Arc<Self>,
        size: u64,
        SaveBody { mut stream, left_out, .. }: SaveBody,
        (sealing, blocks): (&mut VecDeque<JoinHandle<Result<Written>>>, &mut Vec<Written>),
    ) -> Result<()> {
        let other = || Error::invalid("the content is not as long as it was said to be");
        let mut rest = Bytes::new();
        for index in 0..size.div_ceil(BLOCK_BYTES as u64) {
            let bytes = (size - index * BLOCK_BYTES as u64).min(BLOCK_BYTES as u64);
            let bytes = usize::try_from(bytes).unwrap_or(BLOCK_BYTES);
            let mut block = Vec::with_capacity(bytes);
            if left_out.zeros.iter().any(|range| range.contains(&index)) {
                block.resize(bytes, 0);
            }
            while block.len() < bytes {
                if rest.is_empty() {
                    rest = stream.next().await.ok_or_else(other)??;
                }
                block.extend_from_slice(&rest.split_to(rest.len().min(bytes - block.len())));
            }
            self.begin(sealing, blocks, block).await?;
        }
        while rest.is_empty() {
            let Some(piece) = stream.next().await else { return Ok(()) };
            rest = piece?;
        }
        Err(other())
    }

    /// Begins to seal a block; waits for the first of those before it if there are too many.
    async fn begin(
        self: &Arc<Self>,
        sealing: &mut VecDeque<JoinHandle<Result<Written>>>,
        blocks: &mut Vec<Written>,
        plain: Vec<u8>,
    ) -> Result<()> {
        if sealing.len() == SEALING_MAX
            && let Some(first) = sealing.pop_front()
        {
            blocks.push(ended(first).await?);
        }
        let spool = self.clone();
        sealing.push_back(spawn_blocking(move || {
            let id = spool.sealing.id(&plain);
            let record = spool.sealing.seal_block(id, &plain)?;
            spool.append(id, &record, plain.len() as u64)
        }));
        Ok(())
    }

    /// Writes a content of one block that is sealed.
    pub(super) async fn put_block(self: &Arc<Self>, SealedBlock { id, size, record }: SealedBlock) -> Result<Unsynced> {
        let spool = self.clone();
        let written = blocking(move || spool.append(id, &record, size)).await?;
        self.keep(size, vec![written])
    }

    fn append(&self, id: BlockId, record: &[u8], plain_bytes: u64) -> Result<Written> {
        let sealed_bytes = u32::try_from(record.len()).map_err(|_| Error::internal("a record is too long"))?;
        let raw_bytes = u32::try_from(plain_bytes).map_err(|_| Error::internal("a block is too long"))?;
        let (file, offset) = self.claim(u64::from(sealed_bytes))?;
        file.file.write_all_at(record, offset).map_err(|error| at(error, &file.path))?;
        let place = Place { pack: PackId(file.number.cast_signed()), offset, sealed_bytes, raw_bytes };
        Ok((StagedBlock { id, written: Some(place) }, file))
    }

    /// Where so many bytes may be written.
    fn claim(&self, bytes: u64) -> Result<(Arc<SpoolFile>, u64)> {
        let mut files = self.files.lock();
        files.current.take_if(|(_, written)| *written >= FILE_BYTES);
        if files.current.is_none() {
            let (number, path) = (files.next, self.path(files.next));
            let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
            let file = match file {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
                    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)
                }
                file => file,
            };
            let file = file.map_err(|error| at(error, &path))?;
            let file = Arc::new(SpoolFile::new(number, path, file, false));
            files.next += 1;
            files.known.retain(|_, file| file.strong_count() > 0);
            files.known.insert(number, Arc::downgrade(&file));
            files.current = Some((file, 0));
        }
        let (file, written) = files.current.as_mut().ok_or_else(|| Error::internal("the spool has no file"))?;
        *written += bytes;
        Ok((file.clone(), *written - bytes))
    }

    /// Lets go of a file of which nothing is needed any more.
    fn end_idle(&self) {
        self.files.lock().current.take_if(|(file, _)| Arc::strong_count(file) == 1);
    }

    fn keep(self: &Arc<Self>, size: u64, blocks: Vec<Written>) -> Result<Unsynced> {
        let (staged, files): (Vec<StagedBlock>, Vec<_>) = blocks.into_iter().unzip();
        self.unsynced(self.sealing.content(size, staged)?, files)
    }

    fn unsynced(self: &Arc<Self>, content: NewContent, files: Vec<Arc<SpoolFile>>) -> Result<Unsynced> {
        let blocks = places(&content).zip(files).map(|((id, place), file)| (id, place, file)).collect();
        let kept = Kept { spool: self.clone(), blocks, is_let_go: AtomicBool::new(false) };
        Unsynced::spooled(content, Arc::new(kept))
            .ok_or_else(|| Error::internal("a content without blocks is not spooled"))
    }

    /// The record of a block that is to be sent. If it is not there, what is in its file is [looked at](Self::rescue) before it is sent again.
    async fn record(&self, (id, place): (BlockId, Place)) -> Result<Bytes> {
        let (file, space) = (self.file(place)?.ok_or_else(lost)?, self.space);
        blocking(move || {
            let record = file.record(space, id, place).and_then(|record| record.ok_or_else(lost));
            record.inspect_err(|_| file.has_failed.store(true, Ordering::Release))
        })
        .await
    }

    /// The records at these places, as entries. Why one cannot be read is noted.
    pub(super) fn records(
        self: &Arc<Self>,
        places: Vec<(BlockId, Place)>,
        unread: Arc<Mutex<Option<Error>>>,
    ) -> impl Stream<Item = Result<Bytes>> + Send + use<> {
        let spool = self.clone();
        let records = stream::iter(places).then(move |place| {
            let (spool, unread) = (spool.clone(), unread.clone());
            async move {
                spool.record(place).await.map_err(|error| {
                    let told = Error::new(error.kind(), error.message());
                    *unread.lock() = Some(error);
                    told
                })
            }
        });
        records.flat_map(|record| {
            let pieces: Vec<Result<Bytes>> = match record {
                Ok(record) => {
                    let length = u32::try_from(record.len()).unwrap_or(u32::MAX).to_be_bytes();
                    vec![Ok(Bytes::copy_from_slice(&length)), Ok(record)]
                }
                Err(error) => vec![Err(error)],
            };
            stream::iter(pieces)
        })
    }

    fn file(&self, place: Place) -> Result<Option<Arc<SpoolFile>>> {
        let mut files = self.files.lock();
        let number = place.pack.0.cast_unsigned();
        if let Some(file) = files.known.get(&number).and_then(Weak::upgrade) {
            return Ok(Some(file));
        }
        let path = self.path(number);
        match File::open(&path) {
            // What a mount before this left stays until it is known to be of no use.
            Ok(file) => {
                let file = Arc::new(SpoolFile::new(number, path, file, true));
                files.known.insert(number, Arc::downgrade(&file));
                Ok(Some(file))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(at(error, &path)),
        }
    }

    /// A content that a journal names; none if it is not here as it was written.
    pub(super) async fn rescue(self: &Arc<Self>, content: &NewContent) -> Result<Option<Unsynced>> {
        let (spool, content) = (self.clone(), content.clone());
        blocking(move || {
            let mut files = Vec::new();
            for (id, place) in places(&content) {
                let Some(file) = spool.file(place)? else { return Ok(None) };
                if file.record(spool.space, id, place)?.is_none() {
                    return Ok(None);
                }
                files.push(file);
            }
            spool.unsynced(content, files).map(Some)
        })
        .await
    }

    /// Removes what was left here and nobody keeps. What is kept goes when it is let go.
    pub(super) fn forget_left(&self) -> Result<()> {
        let files = self.files.lock();
        for number in numbers(&self.folder)? {
            match files.known.get(&number).and_then(Weak::upgrade) {
                Some(file) => file.stays.store(false, Ordering::Release),
                None => fs::remove_file(self.path(number))?,
            }
        }
        Ok(())
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{PREFIX}{number:010}"))
    }
}

/// A block and the file that it is in.
type Written = (StagedBlock, Arc<SpoolFile>);

async fn ended(sealing: JoinHandle<Result<Written>>) -> Result<Written> {
    sealing.await.map_err(|error| Error::internal("sealing a block failed").with_source(error)).flatten()
}

/// Blocks of a content, and where they are.
pub(super) fn places(content: &NewContent) -> impl Iterator<Item = (BlockId, Place)> {
    let runs = match content {
        NewContent::Blocks { runs, .. } => runs.as_slice(),
        _ => &[],
    };
    runs.iter().flat_map(|run| &run.blocks).filter_map(|block| block.written.map(|place| (block.id, place)))
}

/// Numbers of the files in a folder, in order.
fn numbers(folder: &Path) -> Result<Vec<u64>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| at(error, folder))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        found.extend(
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|number| number.parse::<u64>().ok()),
        );
    }
    found.sort_unstable();
    Ok(found)
}
