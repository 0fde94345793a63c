//! Building the view: a small folder in memory takes the root's place, with the machine's files in one folder of it and the new root in another. Once the new root is
//! complete it takes the place, and the rest is let go of.
//!
//! Entries are copies of the machine's mounts (`open_tree`), restricted before anybody can see them, and then put in place (`move_mount`). Both ends are opened
//! without following links.

use crate::error::Step;
use crate::plan::{Build, Plan, attributes};
use crate::sys::set_mount_attributes;
use crate::wire::{Failure, Message, at, hear, in_step, tell};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, mkdirat, mknodat, openat, openat2, symlinkat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
    fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, mount_change, move_mount, open_tree,
    unmount,
};
use rustix::net::RecvFlags;
use rustix::process::{chdir, fchdir, pivot_root};
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Folders that the view is built with.
pub(crate) struct Site {
    /// The machine's root.
    old: OwnedFd,
    /// The view's.
    new: OwnedFd,
    /// What masks are copies of.
    masks: OwnedFd,
}

/// The device by which file systems are served, below the machine's root.
const SERVING: &CStr = c"dev/fuse";

/// Bytes of the folder that the view is built in: a few names.
const SITE_BYTES: &CStr = c"65536";

const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Builds the view and enters it.
pub(crate) fn view(plan: &Plan, report: BorrowedFd<'_>) -> Result<(), Failure> {
    mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).map_err(in_step(Step::Private))?;
    // While there is a `/proc` to find them in.
    super::tell_namespaces(report).map_err(in_step(Step::Private))?;
    let site = Site::new(plan.host_root).map_err(in_step(Step::Root))?;
    for (number, step) in &plan.build {
        site.step(*number, step, report)?;
    }
    site.enter().map_err(in_step(Step::Leave))
}

impl Site {
    /// Puts the machine's files aside. `/proc` is where it happens, because it was just used, so it is there.
    fn new(host_root: bool) -> Result<Self, Errno> {
        let place = memory(SITE_BYTES, c"64", c"0755", 0)?;
        attach(place.as_fd(), CWD, c"/proc")?;
        fchdir(&place)?;
        for name in [c"old", c"new", c"lower", c"changes", c"masks"] {
            mkdirat(CWD, name, Mode::from_raw_mode(0o755))?;
        }
        pivot_root(c".", c"old")?;
        chdir(c"/")?;
        let root = if host_root {
            host(c"old")?
        } else {
            memory(c"1048576", c"32768", c"0755", attributes::NO_DEVICES | attributes::NO_SETUID)?
        };
        attach(root.as_fd(), CWD, c"new")?;
        let masks = masks()?;
        attach(masks.as_fd(), CWD, c"masks")?;
        let folder = |name| openat(CWD, name, FOLDER, Mode::empty());
        Ok(Self { old: folder(c"old")?, new: folder(c"new")?, masks })
    }

    fn step(&self, number: u32, step: &Build, report: BorrowedFd<'_>) -> Result<(), Failure> {
        let place = at(Step::Place, number);
        let new = self.new.as_fd();
        match step {
            Build::Folder(path) => match mkdirat(new, path, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => Ok(()),
                Err(error) => Err(place(error)),
            },
            Build::File(path) => {
                mknodat(new, path, FileType::RegularFile, Mode::from_raw_mode(0o444), 0).map_err(place)
            }
            Build::Link { at, to } => symlinkat(to, new, at).map_err(place),
            Build::Memory { at: path, bytes, nodes, mode, set } => {
                let mount = memory(bytes, nodes, mode, *set).map_err(at(Step::Memory, number))?;
                self.put(mount.as_fd(), path, number)
            }
            Build::Bind { from, at: path, set } => {
                let mount = copy(self.old.as_fd(), from).map_err(at(Step::Find, number))?;
                set_mount_attributes(mount.as_fd(), *set, 0, true).map_err(at(Step::Restrict, number))?;
                self.put(mount.as_fd(), path, number)
            }
            Build::Mask { at: path, folder } => {
                let mount = mask(self.masks.as_fd(), *folder).map_err(at(Step::Restrict, number))?;
                self.put(mount.as_fd(), path, number)
            }
            Build::Overlay { lower, changes, at: path, set } => {
                let mount = self.overlay(lower, changes, *set).map_err(at(Step::Overlay, number))?;
                self.put(mount.as_fd(), path, number)
            }
            Build::Serve { at: path, set } => {
                let mount = self.served(number, *set, report).map_err(at(Step::Serve, number))?;
                self.put(mount.as_fd(), path, number)
            }
            Build::Proc { at: path } => {
                let mount = processes().map_err(at(Step::Proc, number))?;
                self.put(mount.as_fd(), path, number)
            }
            Build::Seal { at: path } => {
                let place = place_in(new, path).map_err(at(Step::Find, number))?;
                set_mount_attributes(place.as_fd(), attributes::READ_ONLY, 0, false).map_err(at(Step::Restrict, number))
            }
        }
    }

    fn put(&self, mount: BorrowedFd<'_>, path: &CStr, number: u32) -> Result<(), Failure> {
        put(mount, self.new.as_fd(), path, number)
    }

    /// The file system takes its folders as text with signs of its own and little room, so they are given short names first.
    fn overlay(&self, lower: &CStr, changes: &CStr, set: u64) -> Result<OwnedFd, Errno> {
        for (from, name) in [(lower, c"lower"), (changes, c"changes")] {
            attach(copy(self.old.as_fd(), from)?.as_fd(), CWD, name)?;
        }
        let made = overlay(set);
        for name in [c"lower", c"changes"] {
            unmount(name, UnmountFlags::DETACH)?;
        }
        made
    }

    /// The device must be opened here, since the kernel takes it for file systems of this account namespace only if somebody in it did. The caller makes the file system: the numbers
    /// of processes that it is told are then those of the caller's namespace. It serves when it has answered. Nobody here keeps the device: if the caller ends, nobody serves, and every call
    /// fails.
    fn served(&self, number: u32, set: u64, report: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
        let device = openat(&self.old, SERVING, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let file_system = fsopen(c"fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
        tell(report, Message::Serve(number), &[device.as_fd(), file_system.as_fd()])?;
        drop(device);
        match hear(report, RecvFlags::empty())? {
            Some((Message::Done(0), _)) => {}
            Some((Message::Done(errno), _)) => return Err(Errno::from_raw_os_error(errno)),
            _ => return Err(Errno::PROTO),
        }
        let mount = fsmount(&file_system, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
        set_mount_attributes(mount.as_fd(), set, 0, false)?;
        // Until it has asked, the kernel takes the folder for one of nobody in this account namespace, in which nobody may write.
        rustix::fs::fstat(&mount)?;
        Ok(mount)
    }

    /// Enters the new root. The old one is then mounted on top of it, and let go of.
    fn enter(self) -> Result<(), Errno> {
        fchdir(&self.new)?;
        pivot_root(c".", c".")?;
        unmount(c".", UnmountFlags::DETACH)?;
        chdir(c"/")
    }
}

/// Whether there are overlays in a namespace like this one, whose mounts are then not as they were.
pub(crate) fn has_overlay() -> Result<bool, Failure> {
    let prepare = || -> Result<(), Errno> {
        mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
        let site = Site::new(false)?;
        for path in [c"/changes/upper", c"/changes/work"] {
            mkdirat(CWD, path, Mode::RWXU)?;
        }
        drop(site);
        Ok(())
    };
    prepare().map_err(in_step(Step::Root))?;
    Ok(overlay(0).is_ok())
}

fn overlay(set: u64) -> Result<OwnedFd, Errno> {
    let options = [(c"lowerdir", c"/lower"), (c"upperdir", c"/changes/upper"), (c"workdir", c"/changes/work")];
    let file_system = fsopen(c"overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, value) in options {
        fsconfig_set_string(&file_system, name, value)?;
    }
    fsconfig_set_flag(&file_system, c"userxattr")?;
    mounted(&file_system, set)
}

fn mounted(file_system: &OwnedFd, set: u64) -> Result<OwnedFd, Errno> {
    fsconfig_create(file_system)?;
    let mount = fsmount(file_system, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    if set != 0 {
        set_mount_attributes(mount.as_fd(), set, 0, false)?;
    }
    Ok(mount)
}

/// A folder in memory.
pub(crate) fn memory(bytes: &CStr, nodes: &CStr, mode: &CStr, set: u64) -> Result<OwnedFd, Errno> {
    let file_system = fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, value) in [(c"size", bytes), (c"nr_inodes", nodes), (c"mode", mode)] {
        fsconfig_set_string(&file_system, name, value)?;
    }
    mounted(&file_system, set)
}

/// The processes of this namespace. Read-only: what the account root writes there is the machine's.
fn processes() -> Result<OwnedFd, Errno> {
    let file_system = fsopen(c"proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&file_system)?;
    let flags = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    fsmount(&file_system, FsMountFlags::FSMOUNT_CLOEXEC, flags)
}

/// All of the machine's files, without its devices.
fn host(root: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let mount = open_tree(CWD, root, flags)?;
    set_mount_attributes(mount.as_fd(), attributes::NO_DEVICES | attributes::NO_SETUID, 0, true)?;
    Ok(mount)
}

/// A copy of what is mounted at a path, and below it.
pub(crate) fn copy(root: BorrowedFd<'_>, path: &CStr) -> Result<OwnedFd, Errno> {
    let found = place_in(root, path)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(&found, c"", flags)
}

/// An empty folder and an empty file that nobody may look at. Read-only, so that their owner cannot change that.
pub(crate) fn masks() -> Result<OwnedFd, Errno> {
    let folder = memory(SITE_BYTES, c"64", c"0755", 0)?;
    mkdirat(&folder, c"folder", Mode::empty())?;
    mknodat(&folder, c"file", FileType::RegularFile, Mode::empty(), 0)?;
    let nothing = attributes::READ_ONLY | attributes::NO_EXECUTE | attributes::NO_SETUID | attributes::NO_DEVICES;
    set_mount_attributes(folder.as_fd(), nothing, 0, false)?;
    Ok(folder)
}

/// A copy of one of [`masks`], which must be mounted somewhere in this namespace.
pub(crate) fn mask(masks: BorrowedFd<'_>, folder: bool) -> Result<OwnedFd, Errno> {
    let name = if folder { c"folder" } else { c"file" };
    open_tree(masks, name, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC)
}

/// Opens a path below a root, without following anything.
pub(crate) fn place_in(root: BorrowedFd<'_>, path: &CStr) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::BENEATH;
    loop {
        match openat2(root, path, OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty(), resolve) {
            // Something was moved meanwhile (openat2(2)).
            Err(Errno::AGAIN) => {}
            other => return other,
        }
    }
}

/// Puts a mount in its place below a root.
pub(crate) fn put(mount: BorrowedFd<'_>, root: BorrowedFd<'_>, path: &CStr, number: u32) -> Result<(), Failure> {
    let place = place_in(root, path).map_err(at(Step::Place, number))?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mount, c"", &place, c"", flags).map_err(at(Step::Mount, number))
}

fn attach(mount: BorrowedFd<'_>, root: BorrowedFd<'_>, path: &CStr) -> Result<(), Errno> {
    move_mount(mount, c"", root, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}
