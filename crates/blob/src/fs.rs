//! Packs as files of a local file system.
//!
//! A pack `ab…` is the file `ROOT/ab/ab….pack`; 256 folders keep each of them small. All of them are made and synced
//! when the store is opened, so that later only the folder of a pack needs a sync.
//!
//! - A whole pack is written to `ROOT/tmp`, synced, renamed without replacing, and its folder synced: a reader finds
//!   all of it or nothing, and after the answer the name is as durable as the bytes.
//! - A growing pack is created in place and its folder synced before the first byte is taken, so that a sync of the
//!   file alone makes bytes durable under their name.
//! - Reads go through a bounded cache of open files, and ask the page cache first, on the calling thread: a hit costs
//!   microseconds and no change of thread. Everything that can wait for the disk runs on tokio's blocking threads.
//!
//! Limits: a store must be opened by one process at a time (whoever owns the data directory holds its lock), since
//! opening removes the leftovers of writes that never ended. Folders are made with mode 0700 and files with 0600;
//! existing ones keep theirs. Messages name the operation and the pack; the path is in the error's source, for the log
//! only.

mod appender;
mod failure;
mod layout;
mod listing;
mod open_files;
mod read;
mod sys;
#[cfg(test)]
mod tests;
mod write;

use crate::{Appender, BlobStore, PackEntry, StoreRoom};
use appender::FsAppender;
pub use appender::{INLINE_APPEND_BYTES, WRITEBACK_BYTES};
use async_trait::async_trait;
use bytes::Bytes;
use failure::{blocking, failed};
use holdfast_base::{PackName, Result};
use layout::Layout;
use open_files::OpenFiles;
use read::PageCacheReads;
use std::path::Path;
use std::sync::Arc;
pub use sys::begin_writeback;

/// Files kept open for reading. An open file costs the kernel about a kilobyte and the process one descriptor of the
/// usual soft limit of 1,024; packs being read at once are far fewer than this.
pub const OPEN_FILES_MAX: usize = 256;

/// A store of packs in a folder of the local file system.
#[derive(Debug)]
pub struct FsStore {
    layout: Arc<Layout>,
    open_files: Arc<OpenFiles>,
    page_cache: PageCacheReads,
}

impl FsStore {
    /// Opens the store in `root`, which is made if it is missing, and removes what a crash left half written. Blocks
    /// for as long as making 256 folders takes, so call it at the start and not on a request's path.
    pub fn open(root: impl AsRef<Path>) -> Result<Self> {
        let layout = Layout::new(root.as_ref());
        layout.prepare()?;
        Ok(Self {
            layout: Arc::new(layout),
            open_files: Arc::new(OpenFiles::new(OPEN_FILES_MAX)),
            page_cache: PageCacheReads::default(),
        })
    }
}

#[async_trait]
impl BlobStore for FsStore {
    fn kind(&self) -> &'static str {
        "fs"
    }

    async fn put(&self, name: PackName, parts: Vec<Bytes>) -> Result<()> {
        let layout = Arc::clone(&self.layout);
        blocking(move || write::put(&layout, name, &parts)).await
    }

    async fn append(&self, name: PackName) -> Result<Box<dyn Appender>> {
        let layout = Arc::clone(&self.layout);
        let appender = blocking(move || FsAppender::create(&layout, name)).await?;
        Ok(Box::new(appender))
    }

    async fn read(&self, name: PackName, offset: u64, len: usize, buffer: Vec<u8>) -> Result<Vec<u8>> {
        let mut target = read::Target::new(name, offset, len, buffer)?;
        if let Some(file) = self.open_files.get(name) {
            self.page_cache.fill(&file, &mut target);
            if target.is_full() {
                return Ok(target.into_buffer());
            }
        }
        let (layout, open_files) = (Arc::clone(&self.layout), Arc::clone(&self.open_files));
        blocking(move || read::fill_from_disk(&layout, &open_files, name, target)).await
    }

    async fn len(&self, name: PackName) -> Result<Option<u64>> {
        let layout = Arc::clone(&self.layout);
        blocking(move || listing::len(&layout, name)).await
    }

    async fn delete(&self, name: PackName) -> Result<()> {
        let (layout, open_files) = (Arc::clone(&self.layout), Arc::clone(&self.open_files));
        blocking(move || write::delete(&layout, &open_files, name)).await
    }

    async fn list(&self, after: Option<PackName>, limit: usize) -> Result<Vec<PackEntry>> {
        let layout = Arc::clone(&self.layout);
        blocking(move || listing::list(&layout, after, limit)).await
    }

    async fn room(&self) -> Result<Option<StoreRoom>> {
        // A microsecond from the kernel's own books: not worth another thread, and every upload asks.
        let stat = rustix::fs::statvfs(self.layout.root())
            .map_err(|error| failure::failed_on_store("asking for its free room", self.layout.root(), error.into()))?;
        Ok(Some(StoreRoom {
            total_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
            free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
        }))
    }
}
