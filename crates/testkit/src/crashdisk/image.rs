//! What a disk holds: at a moment ([`Snapshot`]) and after a power cut ([`Image`]).

use std::io;
use std::path::{Path, PathBuf};

use super::config::Config;
use super::crash::crash;
use super::state::{Ino, Node, ROOT, State};

/// A disk at one moment, with everything that was not synced yet.
#[derive(Clone, Debug)]
pub struct Snapshot(pub(crate) State);

impl Snapshot {
    /// One state the disk may hold after a power cut at this moment. Equal seeds, equal images.
    pub fn crash(&self, seed: u64) -> Image {
        Image(crash(&self.0, seed))
    }

    /// The disk after a clean stop: everything as programs saw it last.
    pub fn clean(&self) -> Image {
        let mut state = self.0.clone();
        state.sync_everything();
        // A cut with nothing pending only drops what has no name.
        Image(crash(&state, 0))
    }
}

/// The content of a disk that is switched off: all of it durable.
#[derive(Clone, Debug)]
pub struct Image(pub(crate) State);

impl Image {
    /// An empty disk.
    pub fn empty(config: Config) -> Self {
        Self(State::empty(config))
    }

    /// The content of the file at `path` below the root, or `None` if there is no such file.
    pub fn read(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let ino = self.0.resolve(path.as_ref()).ok()?;
        let file = self.0.file(ino).ok()?;
        Some(file.read(0, file.size()))
    }

    /// Whether anything has this path.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.0.resolve(path.as_ref()).is_ok()
    }

    /// The paths of all files below the root, in order.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        self.walk(ROOT, Path::new(""), &mut found);
        found.sort();
        found
    }

    fn walk(&self, folder: Ino, path: &Path, found: &mut Vec<PathBuf>) {
        let Ok(folder) = self.0.folder(folder) else {
            return;
        };
        for (name, &ino) in &folder.entries {
            let path = path.join(name);
            match self.0.inode(ino).map(|inode| &inode.node) {
                Ok(Node::Folder(_)) => self.walk(ino, &path, found),
                Ok(Node::File(_)) => found.push(path),
                _ => {}
            }
        }
    }

    /// Flips the bits of `mask` in the byte at `offset` of the file at `path`, as a bad disk does.
    pub fn flip(&mut self, path: impl AsRef<Path>, offset: u64, mask: u8) -> io::Result<()> {
        let flipped = self.0.resolve(path.as_ref());
        flipped
            .and_then(|ino| self.0.flip(ino, offset, mask))
            .map_err(|error| io::Error::from_raw_os_error(error.code()))
    }

    /// The same content under other parameters (a larger capacity, another profile).
    #[must_use]
    pub fn with_config(mut self, config: Config) -> Self {
        self.0.config = config;
        self
    }
}
