//! The local engine: a [`Drive`](crate::Drive) over a catalogue and a store.
//!
//! ```text
//! write:  body ─ blocks ─ hash ─ (known?) ─ compress ─ encrypt ─ pack ─ sync ─ one catalogue transaction
//! read:   walk ─ manifest ─ places ─ store ─ decrypt ─ decompress ─ body
//! ```
//! [`upload`] and [`read`] are the two pipelines, [`packer`] shares packs and syncs between uploads, [`budget`] bounds the memory of
//! both, [`workers`] are the threads that compute, [`access`] decides who may. [`faces`] implements the trait with
//! them, [`finding`] its tags and search, [`resume`] what is continued request by request. [`receive`] and [`spill`], [`stream`], [`cache`], [`copies`] and [`pace`] keep slow clients from stopping fast ones
//! (docs/design/slow-clients.md). Care for what is stored (check, reclaim, backup) is in [`crate::care`].

mod access;
pub(crate) mod ahead;
mod budget;
mod cache;
mod copies;
mod faces;
pub mod far;
mod finding;
mod intake;
mod locking;
mod opened;
mod pace;
mod packer;
mod patch;
mod read;
mod receive;
mod records;
mod resume;
mod resume_part;
mod resume_sealed;
mod saved;
pub mod sealed;
mod seat;
pub mod small;
mod spill;
mod store;
mod stream;
mod target;
mod transfer;
mod tree;
pub(crate) mod unsynced;
mod upload;
mod upload_runs;
mod view;
mod workers;

use crate::posix_locks::LockTable;
use ahead::Waiting;
use budget::{Downloads, Uploads};
use holdfast_base::{Clock, Result, Uid};
use holdfast_blob::BlobStore;
pub use holdfast_meta::leases::{Owed, TERM as BELIEF_TERM, Word};
use holdfast_meta::{Catalogue, InstanceId, NewInstance, Pack};
pub(crate) use packer::PackLease;
use packer::{PackBounds, Packer};
use parking_lot::Mutex;
use seat::Seat;
use spill::Spill;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::Semaphore;
pub use tree::{Believer, MountName};
pub use view::LINK_VIEW;
use workers::Workers;

/// How the engine is set up. Every bound on memory and size is here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineOptions {
    /// Packs are closed at about this many bytes: large enough that a store holds few objects, small enough that reclaiming one
    /// is a short job.
    pub pack_bytes: u64,
    /// Content of uploads in memory at most.
    pub upload_bytes: usize,
    /// Content of downloads in memory at most.
    pub download_bytes: usize,
    /// Threads that hash, compress and cipher.
    pub workers: usize,
    /// Folder for the scratch file that takes slow uploads; made when it is needed. What is in the file is encrypted and has no name.
    pub scratch_folder: PathBuf,
    /// File that says to the next process that mounts on other machines may have locks; see [`LockTable::new`].
    pub locks_mark: Option<PathBuf>,
    /// Journals of mounts wait that may name blocks in packs which an earlier process left open: these stay open until [`Engine::seal_left`], or for the
    /// next start.
    pub keep_left: bool,
    /// Who serves.
    pub instance: NewInstance,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            pack_bytes: 64 << 20,
            upload_bytes: 48 << 20,
            download_bytes: 48 << 20,
            workers: std::thread::available_parallelism().map_or(2, std::num::NonZero::get),
            scratch_folder: std::env::temp_dir(),
            locks_mark: None,
            keep_left: false,
            instance: NewInstance {
                uid: Uid([0; Uid::BYTES]),
                name: "here".into(),
                version: env!("CARGO_PKG_VERSION").into(),
            },
        }
    }
}

/// What all parts of the engine, and the tasks they spawn, share.
pub(crate) struct Shared {
    pub(crate) catalogue: Arc<dyn Catalogue>,
    pub(crate) store: Arc<dyn BlobStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) seat: Arc<Seat>,
    /// Packs that processes before this one left open.
    left: Mutex<Vec<Pack>>,
    pub(crate) packer: Packer,
    /// See [`EngineOptions::pack_bytes`].
    pub(crate) pack_bytes: u64,
    pub(crate) workers: Workers,
    pub(crate) uploads: Uploads,
    pub(crate) downloads: Downloads,
    /// Blocks that wait for their save.
    ahead: Waiting,
    pub(crate) spill: Spill,
    /// Copies between spaces: see [`transfer`].
    pub(crate) copies: Semaphore,
    /// Locks of mounts.
    pub(crate) locks: LockTable,
}

/// The local engine. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    pub(crate) shared: Arc<Shared>,
}

impl Engine {
    /// Starts the engine, within a tokio runtime. The caller holds the data directory to itself: what an earlier process on it left
    /// half-done is given up here.
    pub async fn start(
        catalogue: Arc<dyn Catalogue>,
        store: Arc<dyn BlobStore>,
        clock: Arc<dyn Clock>,
        options: EngineOptions,
    ) -> Result<Self> {
        let (seat, left) = Seat::take(options.instance, &*catalogue).await?;
        let seat = Arc::new(seat);
        let uploads = Uploads::new(options.upload_bytes);
        // Half of it is left for whoever waits.
        let bounds = PackBounds { pack_bytes: options.pack_bytes, share_bytes: uploads.working.bytes() / 2 };
        let shared = Shared {
            packer: Packer::start(store.clone(), catalogue.clone(), clock.clone(), seat.clone(), bounds),
            seat,
            left: Mutex::new(left),
            pack_bytes: options.pack_bytes,
            workers: Workers::start(options.workers)?,
            uploads,
            downloads: Downloads::new(options.download_bytes),
            ahead: Waiting::default(),
            spill: Spill::new(options.scratch_folder),
            copies: Semaphore::new(transfer::COPIES_AT_ONCE),
            locks: LockTable::new(options.locks_mark),
            catalogue,
            store,
            clock,
        };
        let engine = Self { shared: Arc::new(shared) };
        if !options.keep_left {
            engine.seal_left().await?;
        }
        Ok(engine)
    }

    /// Seals what processes before this one left open: nothing in it is to be found any more but what the catalogue knows.
    pub async fn seal_left(&self) -> Result<()> {
        let left = std::mem::take(&mut *self.shared.left.lock());
        seat::seal_left(left, &*self.shared.catalogue, &*self.shared.store).await
    }

    /// Closes the open pack and leaves; for a clean stop, after the last request.
    pub async fn stop(&self) -> Result<()> {
        self.shared.locks.stop();
        self.shared.packer.stop().await?;
        // Everything is durable. An instance that could not leave is given up like one that was killed.
        if let Err(error) = self.shared.catalogue.leave(self.instance()).await {
            tracing::warn!(?error, "the catalogue could not be told that this node has stopped");
        }
        Ok(())
    }

    /// This process's number among those that serve the drive.
    pub fn instance(&self) -> InstanceId {
        self.shared.seat.id()
    }

    /// Forgets opened blocks that nobody reads, and gives memory that nobody uses back to the system.
    pub fn give_memory_back(&self) {
        self.shared.downloads.cache.clear();
        self.shared.uploads.pool.clear();
        crate::care::give_memory_back();
    }

    /// The catalogue beneath.
    pub fn catalogue(&self) -> &Arc<dyn Catalogue> {
        &self.shared.catalogue
    }

    /// The store beneath.
    pub fn store(&self) -> &Arc<dyn BlobStore> {
        &self.shared.store
    }
}
