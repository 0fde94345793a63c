//! Asking for the attributes of every file by its name: after the kernel has forgotten all names, and once more.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use super::client::Work;

/// Has the kernel forget the names and attributes it knows, of all file systems; whoever may not is told so (`drop_caches` in `proc_sys_vm(5)`).
pub(super) fn forget_names() -> std::io::Result<()> {
    std::fs::write("/proc/sys/vm/drop_caches", "2")
}

/// The files of all trees, in the order they were made in.
pub(super) fn files(works: &[Work]) -> Vec<PathBuf> {
    let of = |work: &Work| {
        let (shape, root) = (work.shape, work.root.clone());
        (0..shape.file_count()).map(move |number| shape.file(&root, number))
    };
    works.iter().flat_map(of).collect()
}

/// Asks for each of them, one after the other. Answers how many there were.
pub(super) fn all(files: &[PathBuf], stop: &AtomicBool) -> std::io::Result<u64> {
    let mut count = 0;
    for file in files.iter().take_while(|_| !stop.load(Ordering::Relaxed)) {
        file.symlink_metadata()?;
        count += 1;
    }
    Ok(count)
}
