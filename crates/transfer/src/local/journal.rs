//! The journal of a part file: whose content it is, and the sum of each block that was written to it.
//!
//! ```text
//! "holdfast part 1\n"   length of the key (4 bytes, little endian)   key   then 32 bytes of BLAKE3 for each block of 1 MiB
//! ```
//!
//! Neither file is trusted, nor that one was written before the other: on resumption the part is read again, and what stands is the blocks from its start
//! whose sum is in the journal. So neither needs a sync for the sake of resumption, whatever a power cut leaves of them.

use super::failure::failed;
use crate::signs::Signs;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{Error, Result};
use rustix::fs::ftruncate;
use rustix::io::{Errno, pread, pwrite};
use std::fs::File;
use std::sync::LazyLock;

const MAGIC: &[u8] = b"holdfast part 1\n";
/// Longest key: an address, a path and a version of any site are below it.
const KEY_BYTES_MAX: usize = 1 << 20;
const SUM_BYTES: usize = 32;
/// Sums that are read at a time.
const SUMS_AT_ONCE: usize = 4_096;

/// The sum of a block of zeros.
static ZERO_SUM: LazyLock<blake3::Hash> = LazyLock::new(|| blake3::hash(&[0; BLOCK_BYTES]));

/// Whether there is nothing but zeros.
pub(super) fn is_zeros(bytes: &[u8]) -> bool {
    let (chunks, rest) = bytes.as_chunks::<64>();
    chunks.iter().all(|chunk| *chunk == [0; 64]) && rest.iter().all(|byte| *byte == 0)
}

/// The sum of a block.
pub(super) fn sum_of(block: &[u8], zeros: bool) -> blake3::Hash {
    if zeros && block.len() == BLOCK_BYTES { *ZERO_SUM } else { blake3::hash(block) }
}

/// An opened journal.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    /// Bytes of its head.
    head: u64,
}

impl Journal {
    /// Goes on with what is there, or begins it anew; returns it with the bytes of `part` that stand.
    pub(super) fn open(file: File, key: &str, part: &File, size: u64, signs: &Signs) -> Result<(Self, u64)> {
        let head = head_of(key)?;
        let journal = Self { file, head: head.len() as u64 };
        let mut there = vec![0; head.len()];
        let stands = if read_full(&journal.file, &mut there, 0)? == head.len() && there == head {
            journal.verify(part, size, signs)?
        } else {
            ftruncate(&journal.file, 0).map_err(|errno| failed("beginning", "the journal", errno))?;
            write_full(&journal.file, &head, 0)?;
            0
        };
        ftruncate(&journal.file, journal.place_of(stands)).map_err(|errno| failed("cutting", "the journal", errno))?;
        Ok((journal, stands))
    }

    /// Writes down the sum of the block at `offset`.
    pub(super) fn add(&self, offset: u64, sum: &blake3::Hash) -> Result<()> {
        write_full(&self.file, sum.as_bytes(), self.place_of(offset))
    }

    fn place_of(&self, offset: u64) -> u64 {
        self.head + offset.div_ceil(BLOCK_BYTES as u64) * SUM_BYTES as u64
    }

    /// Bytes from the part's start whose blocks have the sums written down.
    fn verify(&self, part: &File, size: u64, signs: &Signs) -> Result<u64> {
        let (mut block, mut sums) = (vec![0; BLOCK_BYTES], vec![0; SUMS_AT_ONCE * SUM_BYTES]);
        let mut stands = 0;
        while stands < size {
            let read = read_full(&self.file, &mut sums, self.place_of(stands))?;
            let (known, _) = sums[..read].as_chunks::<SUM_BYTES>();
            if known.is_empty() {
                break;
            }
            for sum in known {
                let length = BLOCK_BYTES.min(usize::try_from(size - stands).unwrap_or(BLOCK_BYTES));
                let block = &mut block[..length];
                if length == 0 || read_full(part, block, stands)? < length {
                    return Ok(stands);
                }
                if sum_of(block, is_zeros(block)) != blake3::Hash::from_bytes(*sum) {
                    return Ok(stands);
                }
                signs.alive();
                stands += length as u64;
            }
        }
        Ok(stands)
    }
}

fn head_of(key: &str) -> Result<Vec<u8>> {
    let length = u32::try_from(key.len()).ok().filter(|_| key.len() <= KEY_BYTES_MAX);
    let length = length.ok_or_else(|| Error::invalid("the key of a transfer is too long"))?;
    Ok([MAGIC, &length.to_le_bytes(), key.as_bytes()].concat())
}

/// Fills `bytes` from an offset as far as the file goes.
fn read_full(file: &File, bytes: &mut [u8], offset: u64) -> Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match pread(file, &mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(failed("reading", "what was kept of an earlier try", errno)),
        }
    }
    Ok(filled)
}

/// Writes all of `bytes` at an offset.
pub(super) fn write_full(file: &File, mut bytes: &[u8], mut offset: u64) -> Result<()> {
    while !bytes.is_empty() {
        match pwrite(file, bytes, offset) {
            Ok(0) => return Err(failed("writing", "a part of the file", Errno::IO)),
            Ok(count) => {
                bytes = &bytes[count..];
                offset += count as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(failed("writing", "a part of the file", errno)),
        }
    }
    Ok(())
}
