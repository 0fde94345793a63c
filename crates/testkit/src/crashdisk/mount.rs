//! Mounting, and never leaving a mount behind.
//!
//! A mount is taken away by force and lazily: force aborts the connection, so that a request that
//! waits for an answer fails instead of holding its process for ever; lazy frees the path even while
//! a program still has files open. A test that was killed leaves a mount whose connection is dead;
//! each new mount first sweeps those of processes that are gone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fuser::{BackgroundSession, Filesystem, MountOption, SessionACL};
use rustix::mount::{UnmountFlags, unmount};

/// What the kernel shows as the source of our mounts, before the process id.
const SOURCE: &str = "holdfast-crashdisk-";

/// Says why crash disks cannot be mounted here, if so: tests that need one should fail with it.
pub fn supported() -> Result<(), String> {
    fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/fuse")
        .map_err(|error| format!("cannot open /dev/fuse: {error} (the FUSE module, or root?)"))?;
    if !rustix::process::geteuid().is_root() {
        return Err("mounting a crash disk needs root".to_owned());
    }
    Ok(())
}

/// Mounts `filesystem` on `dir` and serves it from background threads.
pub(crate) fn mount(filesystem: impl Filesystem, dir: &Path, threads: usize) -> io::Result<BackgroundSession> {
    supported().map_err(io::Error::other)?;
    sweep();
    let mut config = fuser::Config::default();
    config.mount_options =
        vec![MountOption::FSName(format!("{SOURCE}{}", std::process::id())), MountOption::DefaultPermissions];
    config.acl = SessionACL::All;
    config.n_threads = Some(threads.max(1));
    fuser::spawn_mount(filesystem, dir, &config)
}

/// Aborts whatever runs on the mount at `dir` and takes it away.
pub(crate) fn take_away(dir: &Path) -> io::Result<()> {
    Ok(unmount(dir, UnmountFlags::FORCE | UnmountFlags::DETACH)?)
}

/// Takes away crash disks whose process is gone.
fn sweep() {
    for (pid, dir) in mounts() {
        if is_gone(pid) {
            // Another test may sweep at the same time; then there is nothing left to do.
            take_away(&dir).ok();
        }
    }
}

/// Whether a process has ended, or only waits for a mount that it served itself.
fn is_gone(pid: u32) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        // The state follows the name, which is in brackets (proc(5)).
        Ok(stat) => stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z')),
        Err(_) => true,
    }
}

/// All crash disks of this machine: the process that serves each, and where it is mounted.
fn mounts() -> Vec<(u32, PathBuf)> {
    let Ok(table) = fs::read_to_string("/proc/self/mountinfo") else {
        return Vec::new();
    };
    table.lines().filter_map(parse_mount).collect()
}

/// Reads one line of mountinfo (proc(5)): the mount point is field 5, the source follows the type after " - ".
fn parse_mount(line: &str) -> Option<(u32, PathBuf)> {
    let (left, right) = line.split_once(" - ")?;
    let source = right.split(' ').nth(1)?;
    let pid = source.strip_prefix(SOURCE)?.parse().ok()?;
    let dir = left.split(' ').nth(4)?.replace("\\040", " ");
    Some((pid, PathBuf::from(dir)))
}
