//! A control group that counts processes, for the account root: the kernel does not hold it to `RLIMIT_NPROC`.
//!
//! The sandbox's first process moves itself there before anything else, through a file that the caller has opened. The group is removed with the sandbox; one whose
//! supervisor was killed is empty by then, and is removed when the next one is made.

use crate::error::Error;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Groups of supervisors that are gone, removed at a time: more is left to the next start.
const SWEPT_MAX: usize = 64;

const PREFIX: &str = "holdfast-";

/// A group, until it is dropped.
#[derive(Debug)]
pub(crate) struct Group {
    path: PathBuf,
    /// Who writes `0` here is in the group.
    pub(crate) door: File,
}

impl Group {
    /// A group of at most so many processes, the first one of the sandbox not counted.
    pub(crate) fn new(processes: u64) -> Result<Self, Error> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let unsupported =
            |why: String| Error::Unsupported { what: "a limit of processes for the account root".to_owned(), why };
        let above = above().ok_or_else(|| {
            unsupported(
                "it needs a control group that counts processes (the controller pids), and there is none".to_owned(),
            )
        })?;
        sweep(&above);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = above.join(format!("{PREFIX}{}-{number}", std::process::id()));
        let make = || -> std::io::Result<File> {
            fs::create_dir(&path)?;
            fs::write(path.join("pids.max"), processes.saturating_add(1).to_string())?;
            OpenOptions::new().write(true).open(path.join("cgroup.procs"))
        };
        match make() {
            Ok(door) => Ok(Self { path, door }),
            Err(why) => {
                let _ = fs::remove_dir(&path);
                Err(unsupported(format!("no control group can be made in {}: {why}", above.display())))
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // If it cannot be removed now, the next sweep does it.
        let _ = fs::remove_dir(&self.path);
    }
}

/// Where groups that count processes can be made: in this process's own group of the first version, or in the root of the second.
fn above() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mut found = None;
    for line in mounts.lines() {
        let Some((place, kind)) = line.split_once(" - ") else { continue };
        let mut fields = place.split(' ').skip(3);
        let (Some(root), Some(at)) = (fields.next(), fields.next()) else { continue };
        let mut kind = kind.split(' ');
        match (kind.next(), kind.next_back()) {
            (Some("cgroup"), Some(options)) if options.split(',').any(|option| option == "pids") => {
                let controlled = |line: &str| {
                    let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
                    controllers.split(',').any(|one| one == "pids").then(|| path.to_owned())
                };
                let path = own.lines().find_map(controlled)?;
                let inside = Path::new(&path).strip_prefix(root).ok()?.to_owned();
                return Some(Path::new(at).join(inside));
            }
            (Some("cgroup2"), _) => {
                let controls = fs::read_to_string(Path::new(at).join("cgroup.subtree_control")).unwrap_or_default();
                if controls.split_whitespace().any(|one| one == "pids") {
                    found = Some(PathBuf::from(at));
                }
            }
            _ => {}
        }
    }
    found
}

/// Whether groups can be made and count.
pub(crate) fn available() -> bool {
    above().is_some_and(|above| rustix::fs::access(&above, rustix::fs::Access::WRITE_OK).is_ok())
}

/// Removes groups whose supervisor is gone. One that is not empty refuses.
fn sweep(above: &Path) {
    let Ok(entries) = fs::read_dir(above) else { return };
    let gone = |name: &str| {
        let pid = name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok()?;
        (!Path::new("/proc").join(pid.to_string()).exists()).then_some(())
    };
    let ours = entries.flatten().filter(|entry| entry.file_name().to_str().and_then(gone).is_some());
    for entry in ours.take(SWEPT_MAX) {
        let _ = fs::remove_dir(entry.path());
    }
}
