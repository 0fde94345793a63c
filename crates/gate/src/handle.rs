//! Files and folders that are open.

use crate::node::Node;
use fuser::{FileHandle, FileType};
use parking_lot::{Mutex, RwLock};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A name of a folder that is listed.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) number: u64,
    pub(crate) kind: FileType,
    pub(crate) name: OsString,
}

/// Something that a program has open.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) fd: OwnedFd,
    pub(crate) node: Arc<Node>,
    /// Whether each read and write is asked about.
    pub(crate) each_call: bool,
    /// Whether the kernel may have pages of it, to map them.
    pub(crate) pages: bool,
    /// What is in a folder, as it was when it was listed from the beginning.
    pub(crate) listed: Mutex<Vec<Entry>>,
}

/// All that is open, by number.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    open: RwLock<HashMap<u64, Arc<Open>>>,
    next: AtomicU64,
}

impl Handles {
    pub(crate) fn add(&self, open: Open) -> FileHandle {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.open.write().insert(number, Arc::new(open));
        FileHandle(number)
    }

    pub(crate) fn get(&self, handle: FileHandle) -> Result<Arc<Open>, Errno> {
        self.open.read().get(&handle.0).cloned().ok_or(Errno::BADF)
    }

    pub(crate) fn remove(&self, handle: FileHandle) {
        self.open.write().remove(&handle.0);
    }
}
