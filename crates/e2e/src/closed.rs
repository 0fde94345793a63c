//! Files that are made, written and closed until their mount is gone, and what has to be there of them afterwards.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use holdfast_testkit::rng::Prng;

use crate::Outcome;

/// What a file has that was written with this seed.
pub fn content(seed: u64) -> Vec<u8> {
    let mut random = Prng::new(seed);
    let length = [0, 1, 700, 4_096, 4_096, 9_000, 100_000][usize::try_from(random.below(7)).unwrap_or(0)];
    let mut bytes = vec![0; length];
    random.fill(&mut bytes);
    bytes
}

/// Writes files in folders of its own until the mount of this device is gone; answers those that were closed.
pub fn write_until_it_ends(at: &Path, mounted: u64, round: u64, writer: u64) -> BTreeMap<String, u64> {
    let mut closed = BTreeMap::new();
    for number in 0_u64.. {
        let (folder, seed) = (format!("{round}-{writer}-{}", number / 50), (round << 40) | (writer << 32) | number);
        if number % 50 == 0 && fs::create_dir(at.join(&folder)).is_err() {
            return closed;
        }
        let name = format!("{folder}/{number}");
        let written = write_one(&at.join(&name), mounted, &content(seed), number % 16 == 7);
        if written.is_err() {
            return closed;
        }
        closed.insert(name.clone(), seed);
        if number % 16 == 3 {
            let other = format!("{name}-renamed");
            closed.remove(&name);
            if fs::rename(at.join(&name), at.join(&other)).is_err() {
                return closed;
            }
            closed.insert(other, seed);
        }
    }
    closed
}

/// Makes, writes and closes a file of the device that was mounted; not all are synced, but some.
fn write_one(path: &Path, mounted: u64, bytes: &[u8], synced: bool) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    if file.metadata()?.dev() != mounted {
        // The folder below, where nothing is mounted any more.
        return Err(std::io::Error::other("the mount is gone"));
    }
    file.write_all(bytes)?;
    if synced {
        file.sync_all()?;
    }
    close(file)
}

/// Closes a file and says what came of it.
#[expect(unsafe_code, reason = "the standard library does not say what close answered")]
pub fn close(file: File) -> std::io::Result<()> {
    use std::os::fd::IntoRawFd;
    let number = file.into_raw_fd();
    // SAFETY: the number was this file's alone and is used no more.
    let closed = unsafe { libc::close(number) };
    if closed == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// The round in which a folder, or a file in it, was made.
fn round_of(name: &str) -> Outcome<u64> {
    Ok(name.split_once('-').ok_or_else(|| format!("{name} is nobody's"))?.0.parse()?)
}

/// Rounds whose files are read again in each of those that follow.
const READ_AGAIN: u64 = 3;
/// In so many rounds at first all are, and then in each of this number.
const READ_ALL: u64 = 30;

/// From which round on files are read in this one: of hundreds of rounds, all of them each time would take longer than all else.
pub fn since(round: u64) -> u64 {
    if round < READ_ALL || round.is_multiple_of(READ_ALL) { 0 } else { round.saturating_sub(READ_AGAIN) }
}

/// Every file is there with its bytes, and what is there besides is empty or whole, as far as it was made in this round or later.
pub fn check(at: &Path, closed: &BTreeMap<String, u64>, since: u64) -> Outcome {
    for (name, seed) in closed {
        if round_of(name)? < since {
            continue;
        }
        let path = at.join(name);
        let found = fs::read(&path).map_err(|error| format!("{name}: {error}"))?;
        assert!(found == content(*seed), "{name} has {} bytes and is not whole", found.len());
    }
    for folder in fs::read_dir(at)? {
        let folder = folder?;
        assert!(!folder.file_name().to_string_lossy().contains("(2)"), "{folder:?} was made twice");
        if round_of(&folder.file_name().to_string_lossy())? < since {
            continue;
        }
        for file in fs::read_dir(folder.path())? {
            let file = file?;
            let name = format!("{}/{}", folder.file_name().to_string_lossy(), file.file_name().to_string_lossy());
            assert!(!name.contains('('), "{name} was made twice");
            if closed.contains_key(&name) {
                continue;
            }
            let (start, number) = name.split_once('/').ok_or("a folder")?;
            let (round, writer): (_, u64) = (round_of(start)?, start.split('-').nth(1).ok_or("a writer")?.parse()?);
            let number: u64 = number.trim_end_matches("-renamed").parse()?;
            let found = fs::read(file.path())?;
            assert!(
                found.is_empty() || found == content((round << 40) | (writer << 32) | number),
                "{name} is no whole file"
            );
        }
    }
    Ok(())
}
