//! An archive of the tree, unpacked by `tar`: what people do to a new folder first.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, ensure};

use super::client::{Work, write_tree};
use super::{Lab, rate, series, verify};
use crate::frame::Stopped;

impl Lab<'_> {
    /// Unpacks an archive beside the clients' trees.
    pub(super) fn unpack(&mut self, target: usize, root: &Path, work: &Work) {
        let (folder, stop) = (root.join("unpacked"), self.frame.stop_handle());
        let ready = self.archive.take().map_or_else(|| Archive::make(work, &stop), Ok);
        let archive = match ready.and_then(|archive| Ok(std::fs::create_dir(&folder).map(|()| archive)?)) {
            Ok(archive) => archive,
            Err(error) => return self.frame.fail("set up unpacking", target, &format!("{error:#}")),
        };
        // Without the tree's own folder.
        let entries = work.shape.folders() + work.shape.file_count() - 1;
        let info = series("unpack", "Unpacking an archive of one client's tree: tar -xzf", "entries/s");
        self.frame.measure(&info, target, work.shape.bytes(), || {
            let began = Instant::now();
            let unpacked = archive.unpack(&folder);
            let took = began.elapsed();
            match unpacked {
                _ if stop.load(Ordering::Relaxed) => Err(Stopped::Interrupted),
                Err(error) => Err(Stopped::Failed(format!("{error:#}"))),
                Ok(()) => match verify::list(&folder, &stop) {
                    Ok(seen) if seen == entries => Ok(rate(entries, took)),
                    Ok(seen) => Err(Stopped::Failed(format!("{seen} of {entries} entries were unpacked"))),
                    Err(error) => Err(Stopped::Failed(error.to_string())),
                },
            }
        });
        self.archive = Some(archive);
    }
}

/// A tree that was packed, in a temporary folder of its own.
pub(super) struct Archive(tempfile::TempDir);

impl Archive {
    /// Writes the tree of `work` beside the archive, packs it, and removes it.
    pub(super) fn make(work: &Work, stop: &AtomicBool) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("no temporary folder for the archive")?;
        let root = folder.path().join("tree");
        std::fs::create_dir(&root)?;
        let work = Work { root: root.clone(), streams: 1, fsync: false, ..work.clone() };
        let done = write_tree(&work, stop);
        ensure!(done.failed == 0, "the tree to pack could not be made: {}", done.errors.join("; "));
        let archive = Self(folder);
        // Of unpacking, gzip is to take as little as may be.
        run(Command::new("tar").args(["-c", "-I", "gzip -1", "-f"]).arg(archive.path()).arg("-C").arg(&root).arg("."))?;
        std::fs::remove_dir_all(root)?;
        Ok(archive)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("tree.tar.gz")
    }

    /// Unpacks it into a folder that is there.
    pub(super) fn unpack(&self, folder: &Path) -> anyhow::Result<()> {
        run(Command::new("tar").arg("-xzf").arg(self.path()).arg("-C").arg(folder))
    }
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let ended = command.stdin(Stdio::null()).stdout(Stdio::null()).output().context("cannot start tar")?;
    let said = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.success(), "tar: {}: {}", ended.status, said.trim().lines().last().unwrap_or_default());
    Ok(())
}
