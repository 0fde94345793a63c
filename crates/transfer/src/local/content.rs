//! Reading a file.
//!
//! A block that lies in a hole is answered without reading it, so a sparse file of 1 TiB costs what its data do, and a look a block.

use super::failure::{blocking, failed};
use super::item;
use crate::site::{Content, Version};
use async_trait::async_trait;
use bytes::Bytes;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{ByteRange, Error, ErrorKind, Result};
use rustix::fs::{SeekFrom, fstat, seek};
use rustix::io::{Errno, pread};
use std::fs::File;
use std::sync::Arc;

/// Reads that are under way at once: one is read while the one before it is written.
const AHEAD: usize = 3;

/// A block of a hole.
static ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

/// An opened file.
#[derive(Debug)]
pub(super) struct LocalContent {
    file: Arc<File>,
    shown: Arc<str>,
    version: Version,
}

impl LocalContent {
    pub(super) fn new(file: File, shown: &str, version: Version) -> Self {
        Self { file: Arc::new(file), shown: shown.into(), version }
    }
}

#[async_trait]
impl Content for LocalContent {
    async fn read(&self, range: ByteRange) -> Result<Bytes> {
        let (file, shown) = (Arc::clone(&self.file), Arc::clone(&self.shown));
        blocking(move || read(&file, range, &shown)).await
    }

    fn grain(&self) -> u64 {
        BLOCK_BYTES as u64
    }

    fn ahead(&self) -> usize {
        AHEAD
    }

    async fn is_still(&self) -> Result<bool> {
        let (file, shown) = (Arc::clone(&self.file), Arc::clone(&self.shown));
        let now = blocking(move || {
            let stat = fstat(&*file).map_err(|errno| failed("looking at", shown, errno))?;
            Ok(item::version(&stat, false))
        });
        Ok(now.await? == self.version)
    }
}

pub(super) fn read(file: &File, range: ByteRange, shown: &str) -> Result<Bytes> {
    let length = usize::try_from(range.len()).map_err(|_| Error::internal("a read is larger than memory"))?;
    if length <= ZEROS.len() && is_hole(file, range) {
        return Ok(Bytes::from_static(&ZEROS[..length]));
    }
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        match pread(file, &mut bytes[filled..], range.start + filled as u64) {
            Ok(0) => {
                let why =
                    format!("{shown} ends at {}: it became shorter while it was read", range.start + filled as u64);
                return Err(Error::new(ErrorKind::PreconditionFailed, why));
            }
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(failed("reading", shown, errno)),
        }
    }
    Ok(bytes.into())
}

/// Whether all of a range is in a hole within the file. Where the file system cannot tell, it is not.
fn is_hole(file: &File, range: ByteRange) -> bool {
    match seek(file, SeekFrom::Data(range.start)) {
        Ok(data) => data >= range.end,
        // No data from here on, so it is a hole as far as the file goes.
        Err(Errno::NXIO) => {
            fstat(file).is_ok_and(|stat| u64::try_from(stat.st_size).is_ok_and(|size| size >= range.end))
        }
        Err(_) => false,
    }
}
