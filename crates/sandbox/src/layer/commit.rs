//! Making changes true, or forgetting them.
//!
//! A commit only ever replaces whole names: what is new is written aside, in a folder of the original's file system, synced, and renamed over the old. It can be
//! killed at any point and run again: what is done already is done once more, with the same result. Deletions come after everything else, then attributes and times of
//! folders. Only when all of it is durable are the changes taken away, and a mark says so, since half of the changes would not mean the same.

use super::changes::{Changes, Kind, is_opaque};
use super::tree::{Node, Tree, attributes, names};
use super::{COMMITTED, Change, LayerError, Lock, UPPER, failed};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Timespec, Timestamps, Uid, chownat, fchmod, fchown, fsetxattr,
    fstat, fsync, futimens, mkdirat, mknodat, openat, renameat, renameat_with, statat, symlinkat, syncfs, unlinkat,
    utimensat,
};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where new files are written before they have their names: a folder in the root of the original, while a commit runs.
const STAGE: &str = ".holdfast-commit";

/// Makes the changes true in the original, durably, and takes them away. Killed at any point, it can be run again and finishes. Says what was changed.
pub fn commit(lower: &Path, changes: &Path) -> Result<Vec<Change>, LayerError> {
    let _lock = Lock::take(changes)?;
    let mark = changes.join(COMMITTED);
    if mark.exists() {
        take_away(changes)?;
        return Ok(Vec::new());
    }
    let list = Changes::read_locked(lower, changes)?;
    let upper = changes.join(UPPER);
    if upper.exists() {
        if list.iter().any(|change| change.path.starts_with(STAGE)) {
            return Err(LayerError::Unsupported { path: upper.join(STAGE), why: "this name is the commit's own" });
        }
        let open = |path: &Path| Tree::open(path).map_err(failed("opening", path));
        Commit::new(open(lower)?, open(&upper)?, lower)?.run(&list)?;
    }
    let durable = || -> io::Result<()> {
        File::create(&mark)?.sync_all()?;
        File::open(changes)?.sync_all()
    };
    durable().map_err(failed("marking", &mark))?;
    take_away(changes)?;
    Ok(list)
}

/// Forgets the changes.
pub fn discard(changes: &Path) -> Result<(), LayerError> {
    let _lock = Lock::take(changes)?;
    take_away(changes)
}

/// Removes upper and work, and the mark last.
fn take_away(changes: &Path) -> Result<(), LayerError> {
    let remove = || -> io::Result<()> {
        let folder = Tree::open(changes)?;
        let root = folder.at(Path::new(""), OFlags::RDONLY | OFlags::DIRECTORY)?;
        for name in [UPPER, "work"] {
            remove(root.as_fd(), OsStr::new(name))?;
        }
        fsync(&root)?;
        match unlinkat(&root, COMMITTED, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(fsync(&root)?),
            Err(error) => Err(error.into()),
        }
    };
    remove().map_err(failed("removing", changes))
}

/// Removes a name and all below it, if it is there. Deep trees are taken apart from a list, not on the stack.
fn remove(folder: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    match unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    let enter = |above: BorrowedFd<'_>, name: &OsStr| -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match openat(above, name, flags, Mode::empty()) {
            // Whoever owns a folder may open it.
            Err(Errno::ACCESS) => {
                let closed = openat(
                    above,
                    name,
                    OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                    Mode::empty(),
                )?;
                let itself = format!("/proc/self/fd/{}", closed.as_raw_fd());
                fs::set_permissions(itself, PermissionsExt::from_mode(0o700))?;
                Ok(openat(above, name, flags, Mode::empty())?)
            }
            other => Ok(other?),
        }
    };
    let mut open = vec![(enter(folder, name)?, name.to_owned())];
    while let Some((at, own)) = open.last().map(|(at, own)| (at.as_fd(), own.clone())) {
        let mut below = None;
        for entry in names(at)? {
            match unlinkat(at, &entry, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::ISDIR | Errno::PERM) => {
                    below = Some((enter(at, &entry)?, entry));
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(below) = below {
            open.push(below);
            continue;
        }
        open.pop();
        let above = open.last().map_or(folder, |(at, _)| at.as_fd());
        unlinkat(above, &own, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

struct Commit {
    lower: Tree,
    upper: Tree,
    at: PathBuf,
    stage: OwnedFd,
    /// Folders with new or removed names.
    touched: BTreeSet<PathBuf>,
}

impl Commit {
    fn new(lower: Tree, upper: Tree, at: &Path) -> Result<Self, LayerError> {
        let make = || -> io::Result<OwnedFd> {
            let root = lower.at(Path::new(""), OFlags::RDONLY | OFlags::DIRECTORY)?;
            // What a killed one left behind.
            remove(root.as_fd(), OsStr::new(STAGE))?;
            mkdirat(&root, STAGE, Mode::RWXU)?;
            lower.at(Path::new(STAGE), OFlags::RDONLY | OFlags::DIRECTORY)
        };
        let stage = make().map_err(failed("making", &at.join(STAGE)))?;
        Ok(Self { lower, upper, at: at.to_owned(), stage, touched: BTreeSet::new() })
    }

    fn run(mut self, list: &[Change]) -> Result<(), LayerError> {
        let kept = list.iter().filter(|change| change.kind != Kind::Deleted);
        for change in kept.clone() {
            let done = self.apply(change);
            done.map_err(|error| self.failed(&change.path, error))?;
        }
        for change in list {
            let done = self.delete(change);
            done.map_err(|error| self.failed(&change.path, error))?;
        }
        self.sync().map_err(failed("syncing", &self.at))?;
        // From the inside out, since each changes the times of the folder around it no more.
        for change in kept.rev() {
            let done = self.folder_attributes(&change.path);
            done.map_err(|error| self.failed(&change.path, error))?;
        }
        let finish = || -> io::Result<()> {
            let root = self.lower.at(Path::new(""), OFlags::RDONLY | OFlags::DIRECTORY)?;
            remove(root.as_fd(), OsStr::new(STAGE))?;
            // What a killed commit had done is durable too.
            Ok(syncfs(&root)?)
        };
        finish().map_err(failed("syncing", &self.at))
    }

    fn failed(&self, path: &Path, error: io::Error) -> LayerError {
        let path = self.at.join(path);
        match error.kind() {
            io::ErrorKind::Unsupported => {
                LayerError::Unsupported { path, why: "sockets and devices cannot be committed" }
            }
            _ => failed("committing", &path)(error),
        }
    }

    fn apply(&mut self, change: &Change) -> io::Result<()> {
        let path = &change.path;
        let Some(new) = self.upper.node(path)? else { return Ok(()) };
        let old = self.lower.node(path)?;
        let above = path.parent().unwrap_or(Path::new("")).to_owned();
        if new.is_folder() {
            if old.as_ref().is_none_or(|old| !old.is_folder()) {
                mkdirat(&self.stage, NEW, Mode::RWXU)?;
                self.put_in_place(path)?;
                self.touched.insert(above);
            }
            self.touched.insert(path.clone());
            return Ok(());
        }
        self.write_aside(path, &new)?;
        self.put_in_place(path)?;
        self.touched.insert(above);
        Ok(())
    }

    /// Makes a copy of what is in the upper, with all of its attributes, durable, under a name in the stage.
    fn write_aside(&self, path: &Path, new: &Node) -> io::Result<()> {
        remove(self.stage.as_fd(), OsStr::new(NEW))?;
        match new.kind {
            FileType::RegularFile => {
                let from = self.upper.at(path, OFlags::RDONLY)?;
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                let to = openat(&self.stage, NEW, flags, Mode::RUSR | Mode::WUSR)?;
                let (mut from, mut to) = (File::from(from), File::from(to));
                io::copy(&mut from, &mut to)?;
                dress(to.as_fd(), from.as_fd(), new)?;
                to.sync_all()
            }
            FileType::Symlink => {
                symlinkat(&self.upper.link(path)?, &self.stage, NEW)?;
                self.dress_name(new)
            }
            FileType::Fifo => {
                mknodat(&self.stage, NEW, FileType::Fifo, Mode::from_raw_mode(new.mode), 0)?;
                self.dress_name(new)
            }
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn dress_name(&self, new: &Node) -> io::Result<()> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let now = statat(&self.stage, NEW, flags)?;
        own((now.st_uid, now.st_gid), new, |uid, gid| chownat(&self.stage, NEW, uid, gid, flags))?;
        Ok(utimensat(&self.stage, NEW, &times(new), flags)?)
    }

    /// Gives what was written aside its name. What was there comes to the stage, and is removed.
    fn put_in_place(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.lower.parent(path)?;
        let renamed = renameat(&self.stage, NEW, &folder, name);
        if !matches!(renamed, Err(Errno::ISDIR | Errno::NOTDIR | Errno::NOTEMPTY | Errno::EXIST)) {
            return Ok(renamed?);
        }
        renameat_with(&self.stage, NEW, &folder, name, RenameFlags::EXCHANGE)?;
        remove(self.stage.as_fd(), OsStr::new(NEW))
    }

    /// What is gone; and in a folder that was made again, what was in the old one.
    fn delete(&mut self, change: &Change) -> io::Result<()> {
        let path = &change.path;
        if change.kind == Kind::Deleted {
            let (folder, name) = self.lower.parent(path)?;
            self.touched.insert(path.parent().unwrap_or(Path::new("")).to_owned());
            return remove(folder.as_fd(), name);
        }
        let folder = self.upper.node(path)?.is_some_and(|node| node.is_folder());
        if !folder || change.kind != Kind::Replaced && !is_opaque(&self.upper, path)? {
            return Ok(());
        }
        let kept: BTreeSet<OsString> = self.upper.names(path)?.into_iter().collect();
        let at = self.lower.at(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        for name in names(at.as_fd())? {
            let whiteout = || -> io::Result<bool> {
                Ok(self.upper.node(&path.join(&name))?.is_some_and(|node| node.is_whiteout()))
            };
            if !kept.contains(&name) || whiteout()? {
                remove(at.as_fd(), &name)?;
            }
        }
        self.touched.insert(path.clone());
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        for path in &self.touched {
            match self.lower.at(path, OFlags::RDONLY | OFlags::DIRECTORY) {
                Ok(folder) => fsync(&folder)?,
                Err(error) if super::tree::is_missing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn folder_attributes(&self, path: &Path) -> io::Result<()> {
        let Some(new) = self.upper.node(path)?.filter(Node::is_folder) else { return Ok(()) };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let to = self.lower.at(path, flags)?;
        dress(to.as_fd(), self.upper.at(path, flags)?.as_fd(), &new)?;
        Ok(fsync(&to)?)
    }
}

/// The name in the stage.
const NEW: &str = "new";

fn times(node: &Node) -> Timestamps {
    let time = |(seconds, nanos): (i64, i64)| Timespec { tv_sec: seconds, tv_nsec: nanos };
    Timestamps { last_access: time(node.accessed), last_modification: time(node.modified) }
}

/// Changes the owner if it is another: an ordinary account may not, and need not.
fn own(
    now: (u32, u32),
    new: &Node,
    change: impl FnOnce(Option<Uid>, Option<Gid>) -> rustix::io::Result<()>,
) -> io::Result<()> {
    if now == (new.uid, new.gid) {
        return Ok(());
    }
    Ok(change(Some(Uid::from_raw(new.uid)), Some(Gid::from_raw(new.gid)))?)
}

/// Owner, permissions, extended attributes and times.
fn dress(to: BorrowedFd<'_>, from: BorrowedFd<'_>, new: &Node) -> io::Result<()> {
    let now = fstat(to)?;
    own((now.st_uid, now.st_gid), new, |uid, gid| fchown(to, uid, gid))?;
    let wanted = attributes(from)?;
    for (name, value) in &wanted {
        fsetxattr(to, name, value, rustix::fs::XattrFlags::empty())?;
    }
    for (name, _) in attributes(to)? {
        if !wanted.iter().any(|(kept, _)| *kept == name) {
            rustix::fs::fremovexattr(to, &name)?;
        }
    }
    fchmod(to, Mode::from_raw_mode(new.mode))?;
    Ok(futimens(to, &times(new))?)
}
