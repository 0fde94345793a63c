//! The folder that state is in: a file of runs, and locks. One runner has it, and each run its job.

use crate::store::Sqlite;
use holdfast_base::{Error, ErrorKind, Result};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Times that a lock is asked for, and the time between.
const ASKED: u32 = 5;
const MOMENT: Duration = Duration::from_millis(20);

/// A folder of state.
#[derive(Debug, Clone)]
pub struct State(PathBuf);

/// Nobody else runs this job until it is dropped.
pub struct JobLock(#[expect(dead_code, reason = "the lock is let go of when the file is closed")] Option<File>);

impl JobLock {
    /// One that nobody else could have.
    pub(super) const OF_NOBODY_ELSE: Self = Self(None);
}

/// The folder that is used unless another is named: of the machine for root, of the user for others.
pub fn default_folder() -> Result<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Ok("/var/lib/holdfast-jobs".into());
    }
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute());
    let base = variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")));
    base.map(|base| base.join("holdfast-jobs")).ok_or_else(|| {
        Error::invalid("neither XDG_STATE_HOME nor HOME says where state is kept: name a folder with --state")
    })
}

impl State {
    /// A folder, which is made if it is not there; nobody else may look into it.
    pub fn open(path: &Path) -> Result<Self> {
        let about = |error: std::io::Error| Error::from(error).context(path.display());
        let path = std::path::absolute(path).map_err(about)?;
        DirBuilder::new().recursive(true).mode(0o700).create(path.join("locks")).map_err(about)?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The file of runs.
    pub fn store(&self) -> Result<Sqlite> {
        Sqlite::open(&self.0.join("jobs.sqlite"))
    }

    /// Becomes the one runner of this folder.
    pub fn lock(&self) -> Result<JobLock> {
        // Who asks whether there is a runner has it for a moment.
        for _ in 0..ASKED {
            if let Some(lock) = lock(&self.0.join("lock"))? {
                return Ok(lock);
            }
            std::thread::sleep(MOMENT);
        }
        let folder = self.0.display();
        Err(Error::conflict(format!("another runner has {folder}: stop it first, or name another folder with --state")))
    }

    /// Whether a runner has this folder.
    pub fn is_running(&self) -> Result<bool> {
        Ok(lock(&self.0.join("lock"))?.is_none())
    }

    /// Takes a job for a run, unless somebody else has it. Names of jobs are names of files.
    pub fn lock_job(&self, name: &str) -> Result<Option<JobLock>> {
        lock(&self.0.join("locks").join(name))
    }
}

fn lock(path: &Path) -> Result<Option<JobLock>> {
    let about = |error: rustix::io::Errno| Error::from(std::io::Error::from(error)).context(path.display());
    let file = rustix::fs::open(path, OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)
        .map_err(about)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(JobLock(Some(file.into())))),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(Error::new(ErrorKind::Unavailable, about(error).message())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_runner_and_a_job_one_run() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = State::open(&folder.path().join("a/b")).expect("opens");
        let held = state.lock().expect("locks");
        assert_eq!(state.lock().map(|_| ()).expect_err("twice").kind(), ErrorKind::Conflict);
        assert!(state.is_running().expect("asks"));
        let job = state.lock_job("j").expect("asks");
        assert!(
            job.is_some()
                && state.lock_job("j").expect("asks").is_none()
                && state.lock_job("k").expect("asks").is_some()
        );
        drop((held, job));
        assert!(!state.is_running().expect("asks") && state.lock_job("j").expect("asks").is_some());
    }
}
