//! What is fetched: files that nothing can compress, known by their hashes.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use crate::data::write_keystream;
use crate::size::size_label;

/// Unit of `st_blocks` (stat(2)).
const STAT_BLOCK_BYTES: u64 = 512;
/// Room that a file system keeps for other things than content.
const SPARE_BYTES: u64 = 256 << 20;

/// The files that are fetched.
pub(crate) struct Files {
    pub(crate) folder: PathBuf,
    pub(crate) bytes: u64,
    hashes: Vec<blake3::Hash>,
}

/// How what arrived compares with what was to.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Arrived {
    /// Bytes on the disk, of whole files and of others.
    pub(crate) bytes: u64,
    /// Bytes of files that are whole and right.
    pub(crate) verified: u64,
    /// Files of the right length that have another content.
    pub(crate) wrong: Vec<String>,
}

pub(crate) fn name(index: usize) -> String {
    format!("file{index:02}.bin")
}

impl Files {
    /// Makes `count` files of `bytes` each, all different, if there is room for them and so many copies of each.
    pub(crate) fn make(folder: PathBuf, count: usize, copies: usize, bytes: u64, seed: u64) -> anyhow::Result<Self> {
        fs::create_dir_all(&folder)?;
        let room = rustix::fs::statvfs(&folder)?;
        let (room, needed) = (
            room.f_bavail.saturating_mul(room.f_frsize),
            ((1 + copies) as u64 * count as u64).saturating_mul(bytes).saturating_add(SPARE_BYTES),
        );
        ensure!(
            room >= needed,
            "{} has room for {}; {count} files of {} and their copies need {}: choose --folder, --size, --files or --scale",
            folder.display(),
            size_label(room),
            size_label(bytes),
            size_label(needed)
        );
        let make = |index: usize| {
            let path = folder.join(name(index));
            let mut file = BufWriter::with_capacity(1 << 20, File::create(&path)?);
            write_keystream(&mut file, seed.wrapping_add(index as u64), bytes)?;
            file.flush()?;
            hash(&path)
        };
        let hashes = (0..count).map(make).collect::<io::Result<_>>().context("cannot make the files to fetch")?;
        Ok(Self { folder, bytes, hashes })
    }

    /// Looks at what a tool put into `folder`, after it is on the disk.
    pub(crate) fn compare(&self, folder: &Path, count: usize) -> Arrived {
        let bytes = written(folder).min(self.bytes * count as u64);
        let mut arrived = Arrived { bytes, ..Arrived::default() };
        for (index, right) in self.hashes.iter().enumerate().take(count) {
            let path = folder.join(name(index));
            let Ok(found) = fs::metadata(&path) else { continue };
            match (found.len() == self.bytes, hash(&path)) {
                (true, Ok(found)) if found == *right => arrived.verified += self.bytes,
                (true, _) => arrived.wrong.push(name(index)),
                (false, _) => {}
            }
        }
        arrived
    }
}

/// What was written into files of this folder, whatever their names: tools give what is not finished other ones.
fn written(folder: &Path) -> u64 {
    let one = |entry: fs::DirEntry| -> io::Result<u64> {
        let file = File::open(entry.path())?;
        file.sync_all()?;
        let found = file.metadata()?;
        // Pieces may be far apart; what was not written takes no blocks.
        Ok(if found.is_file() { found.len().min(found.blocks() * STAT_BLOCK_BYTES) } else { 0 })
    };
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries.flatten().filter_map(|entry| one(entry).ok()).sum()
}

fn hash(path: &Path) -> io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    io::copy(&mut File::open(path)?, &mut hasher)?;
    Ok(hasher.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arrived_is_told_apart_from_what_did_not_and_what_is_wrong() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let files = Files::make(folder.path().join("source"), 4, 1, 100_000, 7)?;
        let to = folder.path().join("to");
        fs::create_dir(&to)?;
        for index in 0..3 {
            fs::copy(files.folder.join(name(index)), to.join(name(index)))?;
        }
        let wrong = |index: usize, change: fn(&mut Vec<u8>)| -> io::Result<()> {
            let mut content = fs::read(to.join(name(index)))?;
            change(&mut content);
            fs::write(to.join(name(index)), content)
        };
        assert_eq!(files.compare(&to, 3), Arrived { bytes: 300_000, verified: 300_000, wrong: Vec::new() });
        wrong(1, |content| content[99_999] ^= 1)?;
        wrong(2, |content| content.truncate(50_000))?;
        assert_eq!(files.compare(&to, 4), Arrived { bytes: 250_000, verified: 100_000, wrong: vec![name(1)] });
        assert_ne!(files.hashes[0], files.hashes[1]);
        Ok(())
    }

    #[test]
    fn files_that_find_no_room_are_not_begun() {
        let folder = tempfile::tempdir().expect("a folder");
        let said = Files::make(folder.path().to_owned(), 16, 1, 1 << 56, 7).err().expect("refused").to_string();
        assert!(said.contains("--folder"), "{said}");
    }
}
