//! How far a part file can be trusted: marks in a file beside it.
//!
//! ```text
//! "holdfast marks 1"   BLAKE3 of the key (32)   two marks of 64 bytes, written in turn:
//! bytes of the part (8, little endian)   whether they were synced (8)   BLAKE3 of them if not (32)   check (16)
//! ```
//!
//! A mark is written when the server has synced what it speaks of, so it holds whatever a power cut did to the part, and a torn one is found by its check, with the other
//! one left. A server that cannot sync promises nothing: there a mark has the sum of all bytes before it, and they are read again before they count. A mark that
//! a shorter part has outlived is removed, and that synced, before anything is written.

use super::place::Place;
use super::session::Handle;
use super::wire::{Ask, Reply};
use crate::signs;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{Error, Result};

const MAGIC: &[u8; 16] = b"holdfast marks 1";
const HEAD: usize = 48;
const MARK: usize = 64;
const CHECKED: usize = 48;

/// What is known of a part from its start on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) bytes: u64,
    /// The sum of these bytes, unless they were synced.
    pub(super) sum: Option<[u8; 32]>,
}

/// The marks of a part.
pub(super) struct Marks {
    handle: Handle,
    key: [u8; 32],
    /// Which of the two is written next.
    next: usize,
}

impl Marks {
    /// Opens the marks of a part of `size` bytes, and answers what of it stands.
    pub(super) async fn open(place: &Place, path: &str, key: &str, part: &Handle, size: u64) -> Result<(Self, Stands)> {
        let key = *blake3::hash(key.as_bytes()).as_bytes();
        let (handle, length) = place.open_ours(path, true).await?;
        let mut marks = Self { handle, key, next: 0 };
        let kept = if length == 0 { Vec::new() } else { marks.read().await? };
        let ours = kept.len() == HEAD + 2 * MARK && kept[..16] == *MAGIC && kept[16..HEAD] == key;
        let mut found: Vec<(usize, Mark)> = if ours {
            let both = kept[HEAD..].chunks_exact(MARK).enumerate();
            both.filter_map(|(place, bytes)| Some((place, read_mark(bytes, &key)?))).collect()
        } else {
            Vec::new()
        };
        found.sort_by_key(|(_, mark)| std::cmp::Reverse(mark.bytes));
        let latest = found.first().map_or(0, |(_, mark)| mark.bytes);
        let mut stands = Stands { bytes: 0, hasher: blake3::Hasher::new() };
        for (at, mark) in found.into_iter().filter(|(_, mark)| mark.bytes <= size) {
            if let Some(hasher) = verify(part, &mark).await? {
                stands = Stands { bytes: mark.bytes, hasher };
                marks.next = 1 - at;
                break;
            }
        }
        if !ours || stands.bytes < latest {
            marks.begin(place).await?;
        }
        Ok((marks, stands))
    }

    /// Writes a mark down.
    pub(super) async fn add(&mut self, mark: Mark) -> Result<()> {
        let offset = (HEAD + self.next * MARK) as u64;
        let told = self.handle.session.tell(self.handle.write(offset, write_mark(&mark, &self.key).into())).await?;
        told.map_err(|status| status.error("writing", "what is known of a part"))?;
        self.next = 1 - self.next;
        Ok(())
    }

    /// Begins anew, without marks.
    async fn begin(&self, place: &Place) -> Result<()> {
        let bytes = [&MAGIC[..], &self.key, &[0; 2 * MARK]].concat().into();
        for request in [Some(self.handle.write(0, bytes)), place.session.can.sync.then(|| self.handle.sync())] {
            let Some(request) = request else { continue };
            if let Err(status) = place.session.tell(request).await? {
                return Err(place.failed("writing what is known of the part of", status).await);
            }
        }
        Ok(())
    }

    async fn read(&self) -> Result<Vec<u8>> {
        let length = u32::try_from(HEAD + 2 * MARK).unwrap_or(0);
        match self.handle.session.ask(self.handle.request(Ask::Read).u64(0).u32(length)).await? {
            Reply::Data(bytes) => Ok(bytes.to_vec()),
            // It is as good as none.
            _ => Ok(Vec::new()),
        }
    }
}

/// What of a part stands.
pub(super) struct Stands {
    pub(super) bytes: u64,
    /// Of these bytes, if they were read.
    pub(super) hasher: blake3::Hasher,
}

/// The sum as far as a mark goes, if what it speaks of is there.
async fn verify(part: &Handle, mark: &Mark) -> Result<Option<blake3::Hasher>> {
    let mut hasher = blake3::Hasher::new();
    let Some(sum) = mark.sum else { return Ok(Some(hasher)) };
    let (mut at, signs) = (0, signs::current());
    while at < mark.bytes {
        let length = u32::try_from((mark.bytes - at).min(part.session.chunk)).unwrap_or(1);
        match part.session.ask(part.request(Ask::Read).u64(at).u32(length)).await? {
            Reply::Data(bytes) if !bytes.is_empty() && bytes.len() as u64 <= u64::from(length) => {
                hasher.update(&bytes);
                at += bytes.len() as u64;
            }
            _ => return Ok(None),
        }
        signs.alive();
    }
    Ok((*hasher.finalize().as_bytes() == sum).then_some(hasher))
}

fn write_mark(mark: &Mark, key: &[u8; 32]) -> Vec<u8> {
    let synced = u64::from(mark.sum.is_none());
    let mut bytes = [&mark.bytes.to_le_bytes()[..], &synced.to_le_bytes(), &mark.sum.unwrap_or_default()].concat();
    bytes.extend_from_slice(&check(&bytes, key));
    bytes
}

fn read_mark(bytes: &[u8], key: &[u8; 32]) -> Option<Mark> {
    let (said, check_said) = bytes.split_at_checked(CHECKED)?;
    if check(said, key) != check_said {
        return None;
    }
    let (count, rest) = said.split_first_chunk::<8>()?;
    let (synced, sum) = rest.split_first_chunk::<8>()?;
    let count = u64::from_le_bytes(*count);
    let sum = if u64::from_le_bytes(*synced) == 1 { None } else { Some(sum.try_into().ok()?) };
    count.is_multiple_of(BLOCK_BYTES as u64).then_some(Mark { bytes: count, sum })
}

fn check(said: &[u8], key: &[u8; 32]) -> [u8; 16] {
    let sum = blake3::keyed_hash(key, said);
    let mut check = [0; 16];
    check.copy_from_slice(&sum.as_bytes()[..16]);
    check
}

/// The error of a mark whose work stopped.
pub(super) fn stopped(error: tokio::task::JoinError) -> Error {
    Error::internal("the work on a mark stopped before it had answered").with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_reads_back_and_one_that_was_torn_or_is_of_another_part_does_not() {
        let key = [7; 32];
        for sum in [None, Some([9; 32])] {
            let mark = Mark { bytes: 5 << 20, sum };
            let bytes = write_mark(&mark, &key);
            assert_eq!(bytes.len(), MARK);
            assert_eq!(read_mark(&bytes, &key), Some(mark));
            assert_eq!(read_mark(&bytes, &[8; 32]), None);
            for at in 0..MARK {
                let mut torn = bytes.clone();
                torn[at] ^= 1;
                assert_eq!(read_mark(&torn, &key), None, "{at}");
            }
        }
        assert_eq!(read_mark(&[0; MARK], &key), None);
    }
}
