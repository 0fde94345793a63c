//! Test data, made once into a cache folder and stamped anew before each run.
//!
//! Two kinds: `.bin` is a key stream that nothing can compress, `.txt` is real text of this machine. The name's
//! ending says which, because some servers choose by name what to compress.
//!
//! A server may keep equal blocks once, and would then store the second run of the same file for nothing. So before
//! each run every [`STAMP_EVERY_BYTES`] of the file are stamped with 16 characters made of seed, run and position: no
//! aligned block equals one of another run, and compressibility stays what it was.

mod keystream;
mod text;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub(crate) use keystream::{small_content, write as write_keystream};
pub(crate) use text::default_sources;

use crate::size::size_label;

/// Distance of two stamps. Servers that share equal blocks use blocks of at least this size.
pub(crate) const STAMP_EVERY_BYTES: u64 = 256 * 1024;
const STAMP_BYTES: usize = 16;
/// Raised when the content made for the same description changes, so that old caches are made anew.
const FORMAT: u32 = 1;

/// What a file contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A key stream: incompressible.
    Bin,
    /// Source code and documentation found on this machine.
    Txt,
}

impl Kind {
    /// Both kinds, in the order in which they are measured.
    pub const ALL: [Self; 2] = [Self::Bin, Self::Txt];

    /// The file name's ending.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Bin => "bin",
            Self::Txt => "txt",
        }
    }

    /// The word used in titles.
    pub fn title(self) -> &'static str {
        match self {
            Self::Bin => "incompressible",
            Self::Txt => "text",
        }
    }
}

/// How a cached file was made; kept beside it, and made anew when it no longer fits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    format: u32,
    seed: u64,
    bytes: u64,
    /// Folders whose text was used, in order; empty for key streams.
    pub sources: Vec<PathBuf>,
    /// Bytes of text before it repeats from its start; all of it for key streams.
    pub distinct_bytes: u64,
    /// Bytes of generated source-like text, used where too little real text was found.
    pub synthetic_bytes: u64,
}

/// One file of test data.
#[derive(Debug)]
pub(crate) struct DataFile {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    pub(crate) bytes: u64,
    pub(crate) kind: Kind,
    pub(crate) origin: Origin,
}

/// Where test data is made and kept.
#[derive(Debug, Clone)]
pub(crate) struct DataStore {
    pub(crate) folder: PathBuf,
    pub(crate) seed: u64,
    pub(crate) sources: Vec<PathBuf>,
}

impl DataStore {
    /// Opens the file of this kind and size, making it first when it is not there.
    pub(crate) fn open(&self, kind: Kind, bytes: u64) -> io::Result<DataFile> {
        fs::create_dir_all(&self.folder)?;
        let path = self.folder.join(format!("{}.{}", size_label(bytes), kind.ending()));
        let origin_path = path.with_extension(format!("{}.json", kind.ending()));
        let origin = match self.cached(&path, &origin_path, kind, bytes) {
            Some(origin) => origin,
            None => self.make(&path, &origin_path, kind, bytes)?,
        };
        let file = OpenOptions::new().read(true).write(true).open(&path)?;
        Ok(DataFile { path, file, bytes, kind, origin })
    }

    fn cached(&self, path: &Path, origin_path: &Path, kind: Kind, bytes: u64) -> Option<Origin> {
        let origin: Origin = serde_json::from_slice(&fs::read(origin_path).ok()?).ok()?;
        let same_sources = kind == Kind::Bin || origin.sources == self.sources;
        let same = (origin.format, origin.seed, origin.bytes) == (FORMAT, self.seed, bytes) && same_sources;
        (same && fs::metadata(path).ok()?.len() == bytes).then_some(origin)
    }

    fn make(&self, path: &Path, origin_path: &Path, kind: Kind, bytes: u64) -> io::Result<Origin> {
        let _ = fs::remove_file(origin_path); // No origin beside a half-made file.
        let mut file = File::create(path)?;
        let mut origin = Origin {
            format: FORMAT,
            seed: self.seed,
            bytes,
            sources: Vec::new(),
            distinct_bytes: bytes,
            synthetic_bytes: 0,
        };
        match kind {
            Kind::Bin => keystream::write(&mut file, self.seed, bytes)?,
            Kind::Txt => {
                let made = text::write(&mut file, path, &self.sources, self.seed, bytes)?;
                origin.sources.clone_from(&self.sources);
                (origin.distinct_bytes, origin.synthetic_bytes) = (made.distinct_bytes, made.synthetic_bytes);
            }
        }
        file.sync_all()?;
        fs::write(origin_path, serde_json::to_vec_pretty(&origin)?)?;
        Ok(origin)
    }
}

impl DataFile {
    /// Makes this file's content that of `run`, and reads it all, so that it is in the page cache.
    pub(crate) fn stamp(&self, run: u64) -> io::Result<()> {
        let mut position = 0;
        while position + STAMP_BYTES as u64 <= self.bytes {
            let mixed = mix(self.origin.seed ^ mix(run + 1) ^ mix(position ^ self.bytes));
            self.file.write_all_at(format!("{mixed:016x}").as_bytes(), position)?;
            position += STAMP_EVERY_BYTES;
        }
        self.load()
    }

    /// Reads the file once without looking at it.
    fn load(&self) -> io::Result<()> {
        let mut buffer = vec![0_u8; 1 << 20];
        let mut reader = File::open(&self.path)?;
        while reader.read(&mut buffer)? > 0 {}
        Ok(())
    }

    /// Compares `bytes` with the file's content from `offset` on; `Err` names the first difference.
    pub(crate) fn compare(&self, offset: u64, bytes: &[u8]) -> Result<(), String> {
        let mut piece = vec![0_u8; bytes.len()];
        self.file.read_exact_at(&mut piece, offset).map_err(|error| format!("{}: {error}", self.path.display()))?;
        if piece == bytes {
            return Ok(());
        }
        let at = piece.iter().zip(bytes).position(|(one, other)| one != other).unwrap_or(0);
        Err(format!("differs from what was sent at byte {}", offset + at as u64))
    }
}

/// `SplitMix64`'s finaliser: spreads every input bit over the output (Steele, Lea, Flood: "Fast splittable
/// pseudorandom number generators", OOPSLA 2014).
pub(crate) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(folder: &Path) -> DataStore {
        DataStore { folder: folder.to_owned(), seed: 7, sources: Vec::new() }
    }

    #[test]
    fn data_is_made_once_and_then_found_again() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let store = store(folder.path());
        for kind in Kind::ALL {
            let first = store.open(kind, 1 << 20)?;
            assert_eq!(first.file.metadata()?.len(), 1 << 20);
            let made = first.file.metadata()?.modified()?;
            assert_eq!(store.open(kind, 1 << 20)?.file.metadata()?.modified()?, made);
        }
        Ok(())
    }

    #[test]
    fn another_seed_makes_the_data_anew() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let read = |seed| -> io::Result<Vec<u8>> {
            let data = DataStore { seed, ..store(folder.path()) }.open(Kind::Bin, 4096)?;
            fs::read(&data.path)
        };
        let (seven, eight) = (read(7)?, read(8)?);
        assert_ne!(seven, eight);
        assert_eq!(read(7)?, seven);
        Ok(())
    }

    #[test]
    fn each_run_differs_in_every_aligned_block() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let data = store(folder.path()).open(Kind::Txt, 3 * STAMP_EVERY_BYTES)?;
        let content = |run| -> io::Result<Vec<u8>> {
            data.stamp(run)?;
            fs::read(&data.path)
        };
        let (one, two) = (content(0)?, content(1)?);
        let block = usize::try_from(STAMP_EVERY_BYTES).expect("a small constant");
        for (one, two) in one.chunks(block).zip(two.chunks(block)) {
            assert_ne!(one, two);
            assert_eq!(one[STAMP_BYTES..], two[STAMP_BYTES..]);
        }
        assert_eq!(content(0)?, one);
        Ok(())
    }

    #[test]
    fn a_changed_byte_is_found_with_its_position() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let data = store(folder.path()).open(Kind::Bin, 8192)?;
        let mut content = fs::read(&data.path)?;
        assert_eq!(data.compare(100, &content[100..200]), Ok(()));
        content[150] ^= 1;
        assert_eq!(data.compare(100, &content[100..200]), Err("differs from what was sent at byte 150".to_owned()));
        assert!(data.compare(8000, &content[..4096]).is_err(), "beyond the end");
        Ok(())
    }
}
