//! An archive of the tree, unpacked by `tar`: what people do to a new folder first.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use anyhow::{Context, ensure};

use super::client::{Work, write_tree};

/// A tree that was packed, in a temporary folder of its own.
pub(super) struct Archive(tempfile::TempDir);

impl Archive {
    /// Writes the tree of `work` beside the archive, packs it, and removes it.
    pub(super) fn make(work: &Work) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("no temporary folder for the archive")?;
        let root = folder.path().join("tree");
        std::fs::create_dir(&root)?;
        let work = Work { root: root.clone(), streams: 1, fsync: false, ..work.clone() };
        let done = write_tree(&work, &AtomicBool::new(false));
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
