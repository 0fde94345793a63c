//! Where control groups can be made: which hierarchies there are, where in them this process is, and which folder of them it may divide.
//!
//! In the first version each controller has a hierarchy, and a group is made in the process's own. In the second there is one, where a group that is divided has no
//! processes of its own: so the nearest group around that is, or can be, divided takes the new one. Where somebody has handed the process's own group over to it
//! (`Delegate=` of systemd), the processes in it move to one beside first.

use super::{Group, PREFIX, Unbounded, Whole, put};
use rustix::fs::{Access, access};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Rounds of moving processes out of a group, which may start others meanwhile.
const MOVES_MAX: usize = 8;

/// How groups are spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    First,
    Second,
}

/// A tree of groups.
#[derive(Clone, Debug)]
pub(super) struct Hierarchy {
    pub(super) version: Version,
    controllers: Vec<String>,
    /// Where its root is.
    at: PathBuf,
    /// The group of this process, below it.
    own: PathBuf,
}

impl Whole {
    /// The controller that it takes; none where every group counts it.
    fn controller(self, version: Version) -> Option<&'static str> {
        match (self, version) {
            (Self::Memory, _) => Some("memory"),
            (Self::CpuTime, Version::First) => Some("cpuacct"),
            (Self::CpuTime, Version::Second) => None,
            (Self::Cpus, _) => Some("cpu"),
            (Self::Processes, _) => Some("pids"),
        }
    }
}

/// Which hierarchy takes which limits; and those that none takes.
pub(super) fn share_out(wanted: impl Iterator<Item = Whole>) -> (Vec<(Hierarchy, Vec<Whole>)>, Vec<Unbounded>) {
    let (mut placed, mut missing) = (Vec::<(Hierarchy, Vec<Whole>)>::new(), Vec::new());
    let text = |path| fs::read_to_string(path).unwrap_or_default();
    let known = hierarchies(&text("/proc/self/mountinfo"), &text("/proc/self/cgroup"));
    for limit in wanted {
        let Some(taking) = known.iter().find(|one| one.takes(limit)) else {
            let name = limit.controller(Version::First).unwrap_or_default();
            let why = format!("it takes a control group with the controller {name}, and none is mounted here");
            missing.push(Unbounded { limit, why });
            continue;
        };
        match placed.iter_mut().find(|(one, _)| one.at == taking.at) {
            Some((_, limits)) => limits.push(limit),
            None => placed.push((taking.clone(), vec![limit])),
        }
    }
    (placed, missing)
}

/// All that are mounted and have this process in them, the second version first.
fn hierarchies(mounts: &str, own: &str) -> Vec<Hierarchy> {
    let mut found = Vec::new();
    for line in mounts.lines() {
        let Some((place, kind)) = line.split_once(" - ") else { continue };
        let mut fields = place.split(' ').skip(3);
        let (Some(root), Some(at)) = (fields.next(), fields.next()) else { continue };
        let mut kind = kind.split(' ');
        let (name, options) = (kind.next(), kind.next_back().unwrap_or_default());
        let (version, controllers): (_, Vec<String>) = match name {
            Some("cgroup") => (Version::First, options.split(',').map(str::to_owned).collect()),
            Some("cgroup2") => (Version::Second, words(&Path::new(at).join("cgroup.controllers"))),
            _ => continue,
        };
        let path = own.lines().find_map(|line| {
            let (named, path) = line.split_once(':')?.1.split_once(':')?;
            let is_this = match version {
                Version::First => named.split(',').any(|one| controllers.iter().any(|known| known == one)),
                Version::Second => named.is_empty(),
            };
            is_this.then_some(path)
        });
        // A group outside of what is mounted is nowhere here.
        if let Some(own) = path.and_then(|path| Path::new(path).strip_prefix(root).ok()) {
            found.push(Hierarchy { version, controllers, at: at.into(), own: own.to_owned() });
        }
    }
    found.sort_by_key(|one| one.version == Version::First);
    found
}

/// What a file of the kernel lists.
fn words(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

impl Hierarchy {
    fn takes(&self, limit: Whole) -> bool {
        limit.controller(self.version).is_none_or(|name| self.controllers.iter().any(|one| one == name))
    }

    /// The folder in which a group for these limits is made.
    pub(super) fn above(&self, limits: impl Iterator<Item = Whole>) -> Result<PathBuf, String> {
        let own = self.at.join(&self.own);
        let needed: Vec<_> = limits.filter_map(|limit| limit.controller(self.version)).collect();
        if self.version == Version::First {
            return Ok(own);
        }
        let mut why = Vec::new();
        for folder in own.ancestors().take_while(|folder| folder.starts_with(&self.at)) {
            match self.divide(folder, folder == own, &needed) {
                Ok(()) => return Ok(folder.to_owned()),
                Err(error) => why.push(format!("{}: {error}", folder.display())),
            }
        }
        Err(format!(
            "no control group around this process can be divided ({}); systemd hands one over with Delegate=yes, as in `systemd-run --user --scope -p Delegate=yes holdfast run ...`",
            why.join("; ")
        ))
    }

    /// Makes sure that groups in this one have these controllers.
    fn divide(&self, folder: &Path, is_own: bool, needed: &[&str]) -> io::Result<()> {
        // Making a group in it, and moving a process from one in it to another.
        access(folder, Access::WRITE_OK)?;
        access(folder.join("cgroup.procs"), Access::WRITE_OK)?;
        let there = words(&folder.join("cgroup.controllers"));
        if let Some(missing) = needed.iter().find(|name| !there.iter().any(|one| one == *name)) {
            return Err(io::Error::other(format!("it has no controller {missing}")));
        }
        let handed_on = folder.join("cgroup.subtree_control");
        let given = words(&handed_on);
        let more: Vec<_> = needed.iter().filter(|name| !given.iter().any(|one| one == *name)).collect();
        if more.is_empty() {
            return Ok(());
        }
        // Of the root the kernel lets processes stay beside groups.
        if folder != self.at || folder.join("cgroup.type").exists() {
            let is_beside =
                folder.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()));
            if is_own && !is_beside && is_ours(folder) {
                move_beside(folder)?;
            }
            if !words(&folder.join("cgroup.procs")).is_empty() {
                return Err(io::Error::other("it has processes, so it cannot be divided"));
            }
        }
        more.iter().try_for_each(|name| put(&handed_on, &format!("+{name}")))
    }
}

/// Whether the group of this process was handed over to it: systemd says so on it (systemd.resource-control(5)); or it is an ordinary account's, and nobody else is in it.
fn is_ours(folder: &Path) -> bool {
    let says = |name: &str| rustix::fs::getxattr(folder, name, &mut [0_u8; 1]).is_ok_and(|bytes| bytes == 1);
    let account = rustix::process::geteuid();
    let alone = words(&folder.join("cgroup.procs")) == [std::process::id().to_string()];
    let owner = fs::metadata(folder).map(|found| found.uid());
    says("user.delegate")
        || says("trusted.delegate")
        || (alone && !account.is_root() && owner.is_ok_and(|owner| owner == account.as_raw()))
}

/// Moves the processes of a group into one in it, so that it can be divided. That one is held as long as this process lives.
fn move_beside(folder: &Path) -> io::Result<()> {
    static BESIDE: Mutex<Option<Group>> = Mutex::new(None);
    let mut beside = BESIDE.lock().unwrap_or_else(PoisonError::into_inner);
    let group = match beside.take() {
        Some(group) if group.path.parent() == Some(folder) => group,
        _ => Group::new(folder)?,
    };
    for _ in 0..MOVES_MAX {
        let processes = words(&folder.join("cgroup.procs"));
        if processes.is_empty() {
            break;
        }
        for process in processes {
            // It may have ended.
            let _ = put(&group.path.join("cgroup.procs"), &process);
        }
    }
    *beside = Some(group);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_of_both_versions_are_found_with_the_group_of_this_process() {
        let mounts = "\
30 24 0:26 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
31 24 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
32 24 0:28 /inside /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
33 24 0:29 / /no/such/unified rw,relatime - cgroup2 cgroup rw
34 24 0:30 / /proc rw,relatime - proc proc rw
";
        let own = "9:pids:/inside/deeper\n5:cpu,cpuacct:/a\n4:memory:/b/c\n0::/user.slice\n";
        let found = hierarchies(mounts, own);
        let told: Vec<_> = found.iter().map(|one| (one.version, one.at.join(&one.own))).collect();
        let first = |path: &str| (Version::First, PathBuf::from(path));
        assert_eq!(told[0], (Version::Second, "/no/such/unified/user.slice".into()));
        assert_eq!(
            told[1..],
            [
                first("/sys/fs/cgroup/memory/b/c"),
                first("/sys/fs/cgroup/cpu,cpuacct/a"),
                first("/sys/fs/cgroup/pids/deeper")
            ]
        );
        // Without controllers the second version counts processor time, and nothing else.
        assert!(found[0].takes(Whole::CpuTime) && !found[0].takes(Whole::Memory));
        assert!(found[2].takes(Whole::Cpus) && found[2].takes(Whole::CpuTime) && !found[2].takes(Whole::Processes));
        assert!(hierarchies(mounts, "9:pids:/elsewhere\n").is_empty(), "what is not mounted is nowhere");
    }
}
