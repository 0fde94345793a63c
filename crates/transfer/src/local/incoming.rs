//! Taking a file in.
//!
//! Content goes to a part file beside the target ([`part`](crate::part)), each block's sum to a [journal](super::journal), and what is there under the
//! target's name is replaced in one step when all of the content is on the disk. What has one block or less is kept in memory until it is
//! finished, and costs no journal: there is nothing to resume. A block of zeros is left as a hole. The part is locked while it is written, so two transfers
//! of the same file do not mix: the later one waits for the earlier.

use super::content;
use super::failure::{blocking, failed, joined};
use super::item;
use super::journal::{Journal, is_zeros, sum_of, write_full};
use super::place::Place;
use super::{Inner, sync_folder};
use crate::part::PartName;
use crate::signs::{self, Signs};
use crate::site::{Incoming, Item, Kind, Wanted};
use async_trait::async_trait;
use bytes::Bytes;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{ByteRange, Error, ErrorKind, Result};
use holdfast_blob::fs::{WRITEBACK_BYTES, begin_writeback};
use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, fchmod, fdatasync, flock, fstat, fsync,
    ftruncate, futimens, openat, statat,
};
use rustix::io::Errno;
use std::fs::File;
use std::sync::Arc;
use tokio::task::JoinHandle;

const GRAIN: u64 = BLOCK_BYTES as u64;
/// Bytes after which it is made sure that what was written is on the disk, so that a power cut takes little. It is being written from [`WRITEBACK_BYTES`] on, so that this and the sync at the end
/// find little to do.
const SYNC_BYTES: u64 = 64 << 20;
const NS: i64 = 1_000_000_000;

/// A file that is coming in.
pub(super) struct LocalIncoming {
    inner: Arc<Inner>,
    wanted: Arc<Wanted>,
    /// Content of a file of one block.
    small: Option<Bytes>,
    /// The part of a larger one.
    part: Option<Arc<Part>>,
    /// The write that is under way: one, while the next block is read.
    writing: Option<JoinHandle<Result<()>>>,
    stands: u64,
    arrived: u64,
}

/// An opened and locked part file.
#[derive(Debug)]
struct Part {
    place: Place,
    name: PartName,
    file: File,
    /// None for what has one block.
    journal: Option<Journal>,
}

impl LocalIncoming {
    /// Begins, or goes on with what is there.
    pub(super) async fn begin(inner: Arc<Inner>, wanted: Wanted) -> Result<Self> {
        let (wanted, signs) = (Arc::new(wanted), signs::current());
        let small = wanted.size <= GRAIN;
        let (part, stands) = if small {
            (None, 0)
        } else {
            let (inner, wanted) = (Arc::clone(&inner), Arc::clone(&wanted));
            let (part, stands) = blocking(move || Part::open(&inner, &wanted, Some(&signs))).await?;
            (Some(Arc::new(part)), stands)
        };
        Ok(Self { inner, wanted, small: None, part, writing: None, stands, arrived: stands })
    }

    /// Waits for the write that is under way.
    async fn settle(&mut self) -> Result<()> {
        // It stays where it is while it is waited for, so that a caller who stops waiting loses nothing.
        if let Some(writing) = &mut self.writing {
            let done = joined(writing).await;
            self.writing = None;
            done?;
        }
        Ok(())
    }
}

#[async_trait]
impl Incoming for LocalIncoming {
    fn stands_at(&self) -> u64 {
        self.stands
    }

    async fn read_back(&mut self, range: ByteRange) -> Result<Option<Bytes>> {
        let Some(part) = self.part.clone() else { return Ok(None) };
        blocking(move || content::read(&part.file, range, &part.place.shown)).await.map(Some)
    }

    fn grain(&self) -> u64 {
        GRAIN
    }

    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.settle().await?;
        let (offset, length) = (self.arrived, bytes.len() as u64);
        let rest = self.wanted.size.saturating_sub(offset);
        if length != rest.min(GRAIN) {
            return Err(Error::internal(format!("a block of {length} bytes came where {} were due", rest.min(GRAIN))));
        }
        match &self.part {
            None => self.small = Some(bytes),
            Some(part) => {
                let part = Arc::clone(part);
                self.writing = Some(tokio::task::spawn_blocking(move || part.write(offset, &bytes)));
            }
        }
        self.arrived += length;
        Ok(())
    }

    fn arrived(&self) -> u64 {
        self.arrived
    }

    async fn finish(mut self: Box<Self>) -> Result<Item> {
        self.settle().await?;
        if self.arrived != self.wanted.size {
            let (arrived, size) = (self.arrived, self.wanted.size);
            return Err(Error::internal(format!("{arrived} of {size} bytes were written when it was to be finished")));
        }
        let Self { inner, wanted, small, part, .. } = *self;
        blocking(move || {
            if let Some(part) = part {
                return part.finish(&inner, &wanted);
            }
            let (part, _) = Part::open(&inner, &wanted, None)?;
            let written = write_full(&part.file, &small.unwrap_or_default(), 0);
            // Nothing could go on with it.
            written.and_then(|()| part.finish(&inner, &wanted)).inspect_err(|_| part.remove())
        })
        .await
    }

    async fn pause(mut self: Box<Self>) {
        if let Err(error) = self.settle().await {
            tracing::debug!(%error, path = %self.wanted.path, "the last block before a pause was not kept");
        }
    }
}

impl Part {
    /// Opens the part of a file; with a journal, if `signs` are given, which are told of what is verified.
    fn open(inner: &Inner, wanted: &Wanted, signs: Option<&Signs>) -> Result<(Self, u64)> {
        let place = Place::of(&inner.root, &wanted.path)?;
        place.check(wanted.replaces.as_ref())?;
        let name = PartName::new(&place.name, &wanted.key);
        inner.leftovers.clear(&wanted.path, &place.folder, &name)?;
        let file = open_locked(&place, &name)?;
        let Some(signs) = signs else {
            ftruncate(&file, 0).map_err(|errno| failed("beginning", &place.shown, errno))?;
            return Ok((Self { place, name, file, journal: None }, 0));
        };
        inner.leftovers.made(&wanted.path, &name);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let journal = openat(&place.folder, name.journal(), flags, Mode::RUSR | Mode::WUSR)
            .map_err(|errno| failed("making the journal of", &place.shown, errno))?;
        let (journal, stands) = Journal::open(journal.into(), &wanted.key, &file, wanted.size, signs)
            .map_err(|error| error.context(&place.shown))?;
        ftruncate(&file, stands).map_err(|errno| failed("cutting the part of", &place.shown, errno))?;
        Ok((Self { place, name, file, journal: Some(journal) }, stands))
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let end = offset + bytes.len() as u64;
        let zeros = is_zeros(bytes);
        let written = if zeros {
            ftruncate(&self.file, end).map_err(|errno| failed("writing", "a part of the file", errno))
        } else {
            write_full(&self.file, bytes, offset)
        };
        let shown = &self.place.shown;
        written.map_err(|error| error.context(shown))?;
        if let Some(journal) = &self.journal {
            journal.add(offset, &sum_of(bytes, zeros)).map_err(|error| error.context(shown))?;
        }
        let whole = end - end % WRITEBACK_BYTES;
        if whole > offset
            && let Err(error) = begin_writeback(&self.file, whole - WRITEBACK_BYTES, WRITEBACK_BYTES)
        {
            tracing::debug!(%error, path = shown, "early writeback was refused; syncs will take longer");
        }
        if end / SYNC_BYTES > offset / SYNC_BYTES {
            fdatasync(&self.file).map_err(|errno| failed("syncing", shown, errno))?;
        }
        Ok(())
    }

    /// Makes it durable and gives it its name.
    fn finish(&self, inner: &Inner, wanted: &Wanted) -> Result<Item> {
        let shown = &self.place.shown;
        let doing = |what: &'static str| move |errno| failed(what, shown, errno);
        let mode = wanted.mode.map_or(inner.usual_mode, |mode| mode & 0o777);
        fchmod(&self.file, Mode::from_raw_mode(mode)).map_err(doing("setting the mode of"))?;
        if let Some(modified_ns) = wanted.modified_ns {
            futimens(&self.file, &times(modified_ns)).map_err(doing("setting the time of"))?;
        }
        fsync(&self.file).map_err(doing("syncing"))?;
        self.place.put(&self.name.part(), wanted.replaces.as_ref())?;
        sync_folder(&self.place.folder).map_err(doing("syncing the folder of"))?;
        inner.durable.lead_to(&inner.root, &wanted.path.parent().unwrap_or_default())?;
        if self.journal.is_some() {
            self.place.unlink(&self.name.journal());
        }
        let stat = fstat(&self.file).map_err(doing("looking at"))?;
        Ok(item::of(self.place.name.clone(), Kind::File, &stat))
    }

    fn remove(&self) {
        self.place.unlink(&self.name.part());
    }
}

/// Opens a part file, and waits for nobody: who has it is writing it.
fn open_locked(place: &Place, name: &PartName) -> Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    loop {
        let file: File = openat(&place.folder, name.part(), flags, Mode::RUSR | Mode::WUSR)
            .map_err(|errno| failed("making a part file for", &place.shown, errno))?
            .into();
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let what = format!("another transfer is writing {}", place.shown);
                return Err(Error::new(ErrorKind::Unavailable, what));
            }
            // Some file systems have no locks; there two transfers of one file must not run at once.
            Err(error) => tracing::debug!(%error, path = place.shown, "a part file could not be locked"),
        }
        // Whoever had it before may have finished it, and then this is the target itself.
        let mine = fstat(&file).map_err(|errno| failed("looking at", &place.shown, errno))?;
        match statat(&place.folder, name.part(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(there) if (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino) => return Ok(file),
            _ => {}
        }
    }
}

fn times(modified_ns: i64) -> Timestamps {
    let last_modification = Timespec { tv_sec: modified_ns.div_euclid(NS), tv_nsec: modified_ns.rem_euclid(NS) };
    Timestamps { last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }, last_modification }
}
