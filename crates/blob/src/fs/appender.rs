//! A pack that grows in place.
//!
//! Appends are vectored writes at a known offset. A sync is one `fdatasync`; since the pack's folder was synced when
//! the file was created, that is enough for the bytes to be found again.
//!
//! **Concurrent syncs** of one pack queue up behind each other, and one that finds its bytes made durable meanwhile
//! answers at once: a crowd of syncs costs two calls at most. The queue is needed for truth as well as for speed: the
//! kernel reports a failed write to one `fdatasync` of an open file and then forgets it, so a second one running beside
//! the first could answer "done" for bytes that were lost. (It would gain no time either: `fdatasync` waits for every
//! page being written, also those of its neighbours.)
//!
//! **After an error** the pack is finished: every later call fails, nothing is retried. The same holds when an
//! append is abandoned half-way (its future dropped), because its bytes may still land.
//!
//! **Early writeback**: left alone, the kernel collects dirty pages for seconds and the sync at the end of a large
//! upload pays for all of them at once. So after each [`WRITEBACK_BYTES`] the disk is put to work, without waiting for
//! it.

use super::layout::{Layout, create_new, sync_folder};
use super::{blocking, failed, sys, write};
use crate::Appender;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use holdfast_base::{Error, PackName, Result};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::Mutex;

/// Bytes appended between two requests for early writeback: large enough for long sequential writes, small enough that
/// a sync never finds more than a few hundredths of a second of work. (The sync after 1 GiB, by the example
/// `store_speed` on a virtual disk of 2.7 GB/s: 1 to 18 ms mostly, and 400 ms without early writeback.)
pub const WRITEBACK_BYTES: u64 = 8 << 20;

/// Appends below this are copied to the page cache on the calling thread: the copy takes less time (10 to 30 µs) than a
/// change of thread there and back. Files of 64 KiB, whose records are a little longer, are among them.
pub const INLINE_APPEND_BYTES: u64 = 128 << 10;

/// The writer of one growing pack.
#[derive(Debug)]
pub(super) struct FsAppender {
    pack: Arc<Pack>,
    appended_bytes: u64,
    writeback_bytes: u64,
    /// An append began and did not come back.
    torn: bool,
}

/// What the appender shares with its syncs and with work on blocking threads.
#[derive(Debug)]
struct Pack {
    file: File,
    name: PackName,
    path: PathBuf,
    failed: AtomicBool,
    /// Bytes appended by calls that have ended; what a sync starting now will make durable.
    appended_bytes: AtomicU64,
    /// Bytes known to be durable. The lock is the queue of the syncs.
    durable_bytes: Arc<Mutex<u64>>,
    writeback_runs: AtomicBool,
}

impl FsAppender {
    /// Creates the file and makes its name durable.
    pub(super) fn create(layout: &Layout, name: PackName) -> Result<Self> {
        let path = layout.pack(name);
        let file = create_new(&path).map_err(|error| failed("beginning", name, &path, error))?;
        sync_folder(&layout.folder_of(name))
            .map_err(|error| failed("making durable the name of", name, &path, error))?;
        Ok(Self::of_file(file, name, path))
    }

    fn of_file(file: File, name: PackName, path: PathBuf) -> Self {
        let pack = Pack {
            file,
            name,
            path,
            failed: AtomicBool::new(false),
            appended_bytes: AtomicU64::new(0),
            durable_bytes: Arc::default(),
            writeback_runs: AtomicBool::new(false),
        };
        Self { pack: Arc::new(pack), appended_bytes: 0, writeback_bytes: 0, torn: false }
    }

    fn check_usable(&self) -> Result<()> {
        if self.torn {
            return Err(self.pack.finished("an append to it was abandoned"));
        }
        self.pack.check_usable()
    }

    /// Sends the disk what was appended since the last time, unless it is still busy with that.
    fn begin_writeback(&mut self) {
        let (start, end) = (self.writeback_bytes, self.appended_bytes);
        if end - start < WRITEBACK_BYTES || self.pack.writeback_runs.swap(true, Ordering::AcqRel) {
            return;
        }
        self.writeback_bytes = end;
        let pack = Arc::clone(&self.pack);
        // Nobody waits for this task; there is one for each appender at most, and the pack lives until it ends.
        drop(tokio::task::spawn_blocking(move || {
            if let Err(error) = sys::begin_writeback(&pack.file, start, end - start) {
                tracing::debug!(pack = %pack.name, %error, "early writeback was refused; syncs will take longer");
            }
            pack.writeback_runs.store(false, Ordering::Release);
        }));
    }
}

#[async_trait]
impl Appender for FsAppender {
    async fn append(&mut self, parts: Vec<Bytes>) -> Result<u64> {
        self.check_usable()?;
        let offset = self.appended_bytes;
        let bytes: u64 = parts.iter().map(|part| part.len() as u64).sum();
        if bytes < INLINE_APPEND_BYTES {
            self.pack.write(&parts, offset)?;
        } else {
            let pack = Arc::clone(&self.pack);
            self.torn = true;
            blocking(move || pack.write(&parts, offset)).await?;
            self.torn = false;
        }
        self.appended_bytes += bytes;
        self.pack.appended_bytes.store(self.appended_bytes, Ordering::Release);
        self.begin_writeback();
        Ok(offset)
    }

    fn sync(&mut self) -> BoxFuture<'static, Result<()>> {
        let usable = self.check_usable();
        let (pack, bytes) = (Arc::clone(&self.pack), self.appended_bytes);
        Box::pin(async move {
            usable?;
            pack.sync(bytes).await
        })
    }

    fn sync_ends_pack(&self) -> bool {
        false
    }
}

impl Pack {
    fn write(&self, parts: &[Bytes], offset: u64) -> Result<()> {
        write::write_parts(&self.file, parts, offset).map_err(|error| self.fail("writing", error))
    }

    /// Returns once the first `bytes` bytes are durable.
    async fn sync(self: Arc<Self>, bytes: u64) -> Result<()> {
        // The guard goes to the blocking thread, so a caller that stops waiting does not let a second call run beside
        // the first.
        let mut durable_bytes = Arc::clone(&self.durable_bytes).lock_owned().await;
        self.check_usable()?;
        if *durable_bytes >= bytes {
            return Ok(());
        }
        blocking(move || {
            let appended_bytes = self.appended_bytes.load(Ordering::Acquire);
            self.file.sync_data().map_err(|error| self.fail("syncing", error))?;
            *durable_bytes = appended_bytes;
            Ok(())
        })
        .await
    }

    fn check_usable(&self) -> Result<()> {
        if self.failed.load(Ordering::Acquire) {
            return Err(self.finished("a write or sync of it failed before"));
        }
        Ok(())
    }

    fn fail(&self, doing: &str, error: io::Error) -> Error {
        self.failed.store(true, Ordering::Release);
        failed(doing, self.name, &self.path, error)
    }

    fn finished(&self, why: &str) -> Error {
        Error::unavailable(format!("pack {} takes no more bytes: {why}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_base::ErrorKind;
    use std::fs::OpenOptions;

    const NAME: PackName = PackName([5; 16]);

    fn appender_of(path: &str) -> FsAppender {
        let file = OpenOptions::new().write(true).open(path).expect(path);
        FsAppender::of_file(file, NAME, path.into())
    }

    #[tokio::test]
    async fn a_full_disk_ends_the_pack_for_appends_of_any_size_and_for_syncs() {
        for bytes in [1, INLINE_APPEND_BYTES] {
            let part = Bytes::from(vec![0; usize::try_from(bytes).expect("fits")]);
            let mut appender = appender_of("/dev/full");
            let earlier_sync = appender.sync();
            assert_eq!(appender.append(vec![part.clone()]).await.expect_err("full").kind(), ErrorKind::NoSpace);
            assert_eq!(appender.append(vec![part]).await.expect_err("ended").kind(), ErrorKind::Unavailable);
            assert_eq!(appender.sync().await.expect_err("ended").kind(), ErrorKind::Unavailable);
            assert!(earlier_sync.await.is_err(), "a sync that starts after the failure cannot vouch for anything");
        }
    }

    #[tokio::test]
    async fn a_failed_sync_is_not_tried_again_and_ends_the_pack() {
        // Character devices take writes and refuse to be synced.
        let mut appender = appender_of("/dev/null");
        appender.append(vec![Bytes::from_static(b"x")]).await.expect("appends");
        let (first, second) = (appender.sync(), appender.sync());
        assert!(first.await.expect_err("refused").message().starts_with("syncing pack 0505"));
        assert!(second.await.expect_err("ended").message().contains("failed before"));
        assert!(appender.append(vec![Bytes::from_static(b"x")]).await.is_err());
    }

    #[tokio::test]
    async fn a_crowd_of_syncs_is_served_by_the_first() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let layout = Layout::new(folder.path());
        layout.prepare().expect("makes the folders");
        let mut appender = FsAppender::create(&layout, NAME).expect("begins");
        appender.append(vec![Bytes::from_static(b"abc")]).await.expect("appends");
        let crowd: Vec<_> = (0..8).map(|_| appender.sync()).collect();
        for sync in crowd {
            sync.await.expect("syncs");
            assert_eq!(*appender.pack.durable_bytes.lock().await, 3);
        }
    }
}
