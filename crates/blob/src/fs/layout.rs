//! Where a pack is, and making the folders it is in.

use super::failure::failed_on_store;
use holdfast_base::{PackName, Result};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Nobody but the drive's own user has business with packs, sealed or not.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// The ending of a pack's file name.
pub(super) const PACK_SUFFIX: &str = ".pack";

/// The folder of packs not yet whole.
const ASIDE_FOLDER: &str = "tmp";

/// The paths of one store.
#[derive(Debug)]
pub(super) struct Layout {
    root: PathBuf,
    aside_count: AtomicU64,
}

impl Layout {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), aside_count: AtomicU64::new(0) }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of all packs whose name starts with `first`.
    pub(super) fn folder(&self, first: u8) -> PathBuf {
        self.root.join(format!("{first:02x}"))
    }

    /// The folder of this pack.
    pub(super) fn folder_of(&self, name: PackName) -> PathBuf {
        self.folder(name.0[0])
    }

    /// The file of this pack.
    pub(super) fn pack(&self, name: PackName) -> PathBuf {
        self.root.join(format!("{:02x}/{name}{PACK_SUFFIX}", name.0[0]))
    }

    /// A path aside for writing this pack, different at each call so that two writers of one name do not meet.
    pub(super) fn aside(&self, name: PackName) -> PathBuf {
        let count = self.aside_count.fetch_add(1, Ordering::Relaxed);
        self.root.join(format!("{ASIDE_FOLDER}/{name}.{count}"))
    }

    /// Makes every folder that is missing, makes them durable, and removes leftovers.
    pub(super) fn prepare(&self) -> Result<()> {
        self.make_root().map_err(|error| failed_on_store("making its folder", &self.root, error))?;
        self.make_folders().map_err(|error| failed_on_store("making the folders in it", &self.root, error))?;
        self.remove_leftovers().map_err(|error| failed_on_store("removing what a crash left", &self.root, error))
    }

    fn make_root(&self) -> io::Result<()> {
        if self.root.is_dir() {
            return Ok(());
        }
        // A store whose own name is lost is lost, so every folder that gains a name here is synced.
        let absolute = std::path::absolute(&self.root)?;
        let missing = absolute.ancestors().take_while(|folder| !folder.is_dir()).count();
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(&absolute)?;
        absolute.ancestors().skip(1).take(missing).try_for_each(sync_folder)
    }

    fn make_folders(&self) -> io::Result<()> {
        let folders = (0..=u8::MAX).map(|first| self.folder(first));
        for folder in folders.chain([self.root.join(ASIDE_FOLDER)]) {
            match DirBuilder::new().mode(FOLDER_MODE).create(folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        // Always, since an earlier start may have been cut between making and syncing.
        sync_folder(&self.root)
    }

    fn remove_leftovers(&self) -> io::Result<()> {
        for leftover in std::fs::read_dir(self.root.join(ASIDE_FOLDER))? {
            let path = leftover?.path();
            tracing::info!(path = %path.display(), "removing a pack that was never finished");
            std::fs::remove_file(path)?;
        }
        Ok(())
    }
}

/// Creates a file that must not exist.
pub(super) fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)
}

/// Makes the names in a folder durable.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
