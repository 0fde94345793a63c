//! Asking for the attributes of every file by its name: after the kernel has forgotten all names, and once more.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::client::Work;
use super::{Lab, rate, series};
use crate::frame::Stopped;
use crate::report::SeriesInfo;

impl Lab<'_> {
    /// Asks for every file by its name, twice.
    pub(super) fn stat(&mut self, target: usize, works: &[Work]) {
        let (files, stop) = (files_of(works), self.frame.stop_handle());
        let cold =
            series("stat.cold", "Attributes of every file by its name, of which the kernel knows none", "files/s");
        let warm = series("stat.warm", "The same once more", "files/s");
        match forget_names() {
            Ok(()) => self.ask(&cold, target, &files, &stop),
            Err(error) => self.frame.warn(format!("{} is left out: /proc/sys/vm/drop_caches: {error}", cold.id)),
        }
        self.ask(&warm, target, &files, &stop);
    }

    fn ask(&mut self, info: &SeriesInfo, target: usize, files: &[PathBuf], stop: &AtomicBool) {
        self.frame.measure(info, target, 0, || {
            let began = Instant::now();
            let count = ask_for_all(files, stop).map_err(|error| Stopped::Failed(error.to_string()))?;
            if stop.load(Ordering::Relaxed) { Err(Stopped::Interrupted) } else { Ok(rate(count, began.elapsed())) }
        });
    }
}

/// Has the kernel forget the names and attributes it knows, of all file systems; whoever may not is told so (`drop_caches` in `proc_sys_vm(5)`).
fn forget_names() -> std::io::Result<()> {
    std::fs::write("/proc/sys/vm/drop_caches", "2")
}

/// The files of all trees, in the order they were made in.
fn files_of(works: &[Work]) -> Vec<PathBuf> {
    let of = |work: &Work| {
        let (shape, root) = (work.shape, work.root.clone());
        (0..shape.file_count()).map(move |number| shape.file(&root, number))
    };
    works.iter().flat_map(of).collect()
}

/// Asks for each of them, one after the other. Answers how many there were.
fn ask_for_all(files: &[PathBuf], stop: &AtomicBool) -> std::io::Result<u64> {
    let mut count = 0;
    for file in files.iter().take_while(|_| !stop.load(Ordering::Relaxed)) {
        file.symlink_metadata()?;
        count += 1;
    }
    Ok(count)
}
