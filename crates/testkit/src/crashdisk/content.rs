//! Operations on content, the room it takes, and syncs.

use std::time::SystemTime;

use fuser::Errno;

use super::config::Profile;
use super::file::{FileData, PAGE_BYTES};
use super::journal::synced_by;
use super::state::{Ino, Node, State};

impl State {
    /// Writes to a file; `ENOSPC` when its new pages do not fit.
    pub(crate) fn write(&mut self, ino: Ino, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let end =
            offset.checked_add(data.len() as u64).filter(|&end| i64::try_from(end).is_ok()).ok_or(Errno::EFBIG)?;
        self.resize(
            ino,
            |file| file.pages_missing(offset, end - offset),
            |file| {
                file.write(offset, data);
            },
        )
    }

    pub(crate) fn set_size(&mut self, ino: Ino, size: u64) -> Result<(), Errno> {
        self.resize(ino, |_| 0, |file| file.set_size(size))
    }

    /// Gives a range real pages.
    pub(crate) fn allocate(&mut self, ino: Ino, range: std::ops::Range<u64>, keep_size: bool) -> Result<(), Errno> {
        let len = range.end - range.start;
        self.resize(
            ino,
            |file| file.pages_missing(range.start, len),
            |file| {
                file.allocate(range.start, range.end, keep_size);
            },
        )
    }

    /// Makes a range read as zeros.
    pub(crate) fn zero(&mut self, ino: Ino, range: std::ops::Range<u64>) -> Result<(), Errno> {
        self.resize(ino, |_| 0, |file| file.zero(range.start, range.end))
    }

    fn resize(
        &mut self,
        ino: Ino,
        needed: impl Fn(&FileData) -> u64,
        change: impl FnOnce(&mut FileData),
    ) -> Result<(), Errno> {
        let free = self.free_pages();
        let file = self.file_mut(ino)?;
        if needed(file) > free {
            return Err(Errno::ENOSPC);
        }
        let before = file.page_count();
        change(file);
        let after = file.page_count();
        self.used_pages = self.used_pages + after - before;
        let now = SystemTime::now();
        let inode = self.inode_mut(ino)?;
        (inode.modified, inode.changed) = (now, now);
        Ok(())
    }

    pub(crate) fn total_pages(&self) -> u64 {
        self.config.capacity_bytes / PAGE_BYTES
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_pages * PAGE_BYTES
    }

    pub(crate) fn free_pages(&self) -> u64 {
        self.total_pages().saturating_sub(self.used_pages)
    }

    /// `fsync` or `fdatasync` of a file.
    pub(crate) fn sync_file(&mut self, ino: Ino, data_only: bool) -> Result<(), Errno> {
        let file = self.file_mut(ino)?;
        let writes_metadata = !data_only || file.size_is_dirty();
        file.sync();
        if writes_metadata && self.config.profile == Profile::Ext4Like {
            self.commit(|pending| vec![true; pending.len()]);
        }
        Ok(())
    }

    /// A sync of a file that failed.
    pub(crate) fn fail_sync(&mut self, ino: Ino) {
        if !self.config.failed_sync_drops_dirty {
            return;
        }
        if let Ok(file) = self.file_mut(ino) {
            file.drop_dirty();
        }
    }

    /// `fsync` of a folder.
    pub(crate) fn sync_folder(&mut self, ino: Ino) -> Result<(), Errno> {
        self.folder(ino)?;
        let everything = self.config.profile == Profile::Ext4Like;
        self.commit(|pending| if everything { vec![true; pending.len()] } else { synced_by(pending, ino) });
        Ok(())
    }

    /// Every content and every name becomes durable, as after a clean stop.
    pub(crate) fn sync_everything(&mut self) {
        for inode in self.inodes.values_mut() {
            if let Node::File(file) = &mut inode.node {
                file.sync_current();
            }
        }
        self.commit(|pending| vec![true; pending.len()]);
    }

    pub(crate) fn flip(&mut self, ino: Ino, offset: u64, mask: u8) -> Result<(), Errno> {
        let file = self.file_mut(ino)?;
        let before = file.page_count();
        if !file.flip(offset, mask) {
            return Err(Errno::EINVAL);
        }
        let after = file.page_count();
        self.used_pages = self.used_pages + after - before;
        Ok(())
    }
}
