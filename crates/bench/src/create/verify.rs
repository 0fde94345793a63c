//! What was written is there, whole, in every folder.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::Advice;

use super::client::Work;
use super::tree::{Content, PIECE_BYTES};

/// What came of a comparison.
pub(super) struct Found {
    /// Files that are as they were written.
    pub(super) good: u64,
    /// How many are not, and the first of them.
    pub(super) error: Option<String>,
}

/// Reads every file of every tree, a thread for each tree, and compares it with what was written.
pub(super) fn compare(works: &[Work], stop: &AtomicBool) -> Found {
    let (good, wrong) = (AtomicU64::new(0), Mutex::new((0_u64, None)));
    std::thread::scope(|scope| {
        for work in works {
            scope.spawn(|| {
                let (mut content, mut buffer) = (Content::new(work.seed, work.tree), vec![0; PIECE_BYTES]);
                for number in 0..work.shape.file_count() {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let path = work.shape.file(&work.root, number);
                    match same(work, &path, number, &mut content, &mut buffer) {
                        Ok(()) => {
                            good.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(why) => {
                            let mut wrong = wrong.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                            wrong.0 += 1;
                            wrong.1.get_or_insert_with(|| format!("{}: {why}", path.display()));
                        }
                    }
                }
            });
        }
    });
    let (count, first) = wrong.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Found { good: good.into_inner(), error: first.map(|first| format!("{count} files differ, such as {first}")) }
}

fn same(work: &Work, path: &Path, number: u64, content: &mut Content, buffer: &mut [u8]) -> Result<(), String> {
    let mut file = File::open(path).map_err(|error| error.to_string())?;
    let size = content.size(work.shape.sizes, number);
    let length = file.metadata().map_err(|error| error.to_string())?.len();
    if length != size {
        return Err(format!("{length} bytes instead of {size}"));
    }
    // What the kernel still has of it proves nothing. Where it cannot be told to forget, it is compared all the same.
    let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
    let (mut left, mut piece) = (size, 0);
    while left > 0 {
        let right = content.piece(number, piece, left);
        let read = &mut buffer[..right.len()];
        file.read_exact(read).map_err(|error| error.to_string())?;
        if *read != *right {
            return Err(format!("the content differs within {} bytes from {}", right.len(), size - left));
        }
        left -= right.len() as u64;
        piece += 1;
    }
    Ok(())
}

/// Lists a folder and those below it, with the attributes of each entry. Answers how many there are.
pub(super) fn list(folder: &Path, stop: &AtomicBool) -> std::io::Result<u64> {
    let mut count = 0;
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            count += 1;
            if entry.metadata()?.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    Ok(count)
}
