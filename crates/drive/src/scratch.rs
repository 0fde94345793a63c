//! A scratch file for pages of content that is not saved yet: what a mount was given and has no memory for.
//!
//! Like the file for slow uploads it has no name, is encrypted under keys that lie in memory only, and goes when the process ends. Pages are
//! written and read back whole, in slots of [`PAGE_BYTES`]; each has a key of its own, and a hash that says whether the disk gave
//! back what it was given.
//!
//! Limit: the bytes it was made with; then a page is refused with `NoSpace`.

use holdfast_base::{Error, ErrorKind, Result};
use holdfast_seal::aside::AsideCipher;
use parking_lot::Mutex;
use std::fs::File;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes of a page at most.
pub const PAGE_BYTES: usize = 64 << 10;

/// The file. Cheap to clone.
#[derive(Clone)]
pub struct Scratch(Arc<Inner>);

struct Inner {
    folder: PathBuf,
    slots_max: u32,
    slots: Mutex<Slots>,
}

#[derive(Default)]
struct Slots {
    /// None while no slot is in use.
    file: Option<Arc<File>>,
    used: u32,
    /// Slots below `end` that are free.
    free: Vec<u32>,
    end: u32,
}

/// A page in the file.
pub struct ScratchPage {
    scratch: Scratch,
    file: Arc<File>,
    slot: u32,
    cipher: AsideCipher,
    bytes: usize,
    hash: blake3::Hash,
}

impl Scratch {
    /// A file of at most so many bytes in `folder`; both are made when they are needed.
    pub fn new(folder: PathBuf, bytes_max: u64) -> Self {
        let slots_max = u32::try_from(bytes_max / PAGE_BYTES as u64).unwrap_or(u32::MAX);
        Self(Arc::new(Inner { folder, slots_max, slots: Mutex::default() }))
    }

    /// Writes a page. This waits for the disk only when the system's cache is full.
    pub fn put(&self, plain: &[u8]) -> Result<ScratchPage> {
        if plain.len() > PAGE_BYTES {
            return Err(Error::internal("a page is over its limit"));
        }
        let (file, slot) = self.slot()?;
        let (cipher, hash) = (AsideCipher::new()?, blake3::hash(plain));
        let mut page = ScratchPage { scratch: self.clone(), file, slot, cipher, bytes: plain.len(), hash };
        let mut sealed = Vec::new();
        page.cipher.encrypt(plain, &mut sealed)?;
        page.file
            .write_all_at(&sealed, offset(slot))
            .map_err(|error| Error::from(error).context("content that is not saved yet could not be set aside"))?;
        Ok(page)
    }

    fn slot(&self) -> Result<(Arc<File>, u32)> {
        let mut slots = self.0.slots.lock();
        if slots.used >= self.0.slots_max {
            return Err(Error::new(ErrorKind::NoSpace, "too much is written that is not saved yet: close some files"));
        }
        let file = match &slots.file {
            Some(file) => file.clone(),
            None => slots.file.insert(Arc::new(self.make()?)).clone(),
        };
        let slot = slots.free.pop().unwrap_or(slots.end);
        slots.end = slots.end.max(slot + 1);
        slots.used += 1;
        Ok((file, slot))
    }

    fn make(&self) -> Result<File> {
        let folder = &self.0.folder;
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.and_then(|()| tempfile::tempfile_in(folder))
            .map_err(|error| Error::from(error).context(format!("no scratch file in {}", folder.display())))
    }

    /// Bytes of slots in use.
    pub fn used_bytes(&self) -> u64 {
        u64::from(self.0.slots.lock().used) * PAGE_BYTES as u64
    }
}

impl ScratchPage {
    /// Reads the page back.
    pub fn get(&self) -> Result<Vec<u8>> {
        let mut sealed = vec![0; self.bytes];
        self.file.read_exact_at(&mut sealed, offset(self.slot)).map_err(Error::from)?;
        let mut plain = Vec::with_capacity(self.bytes + 16);
        self.cipher.decrypt(&sealed, &mut plain)?;
        if blake3::hash(&plain) != self.hash {
            return Err(Error::damaged("the disk gave back other bytes than were set aside on it"));
        }
        Ok(plain)
    }
}

impl Drop for ScratchPage {
    fn drop(&mut self) {
        let mut slots = self.scratch.0.slots.lock();
        slots.used -= 1;
        slots.free.push(self.slot);
        if slots.used == 0 {
            // Closing it gives its bytes back.
            *slots = Slots::default();
        }
    }
}

fn offset(slot: u32) -> u64 {
    u64::from(slot) * PAGE_BYTES as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_back_and_slots_are_used_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let scratch = Scratch::new(folder.path().join("scratch"), 2 * PAGE_BYTES as u64);
        let (one, two) = (scratch.put(&vec![1; PAGE_BYTES]).expect("fits"), scratch.put(b"two").expect("fits"));
        assert_eq!(scratch.put(b"three").err().map(|error| error.kind()), Some(ErrorKind::NoSpace));
        assert_eq!(one.get().expect("reads"), vec![1; PAGE_BYTES]);
        drop(one);
        let three = scratch.put(b"three").expect("fits again");
        assert_eq!((two.get().expect("reads"), three.get().expect("reads")), (b"two".to_vec(), b"three".to_vec()));
        assert_eq!(scratch.used_bytes(), 2 * PAGE_BYTES as u64);
        let mut raw = vec![0; 3];
        two.file.read_exact_at(&mut raw, offset(two.slot)).expect("reads");
        assert_ne!(raw, b"two", "what lies on the disk is encrypted");
        two.file.write_all_at(b"bad", offset(two.slot)).expect("writes");
        assert_eq!(two.get().err().map(|error| error.kind()), Some(ErrorKind::Damaged));
        drop((two, three));
        assert_eq!(scratch.used_bytes(), 0);
        assert_eq!(std::fs::read_dir(folder.path().join("scratch")).expect("lists").count(), 0, "it has no name");
    }
}
