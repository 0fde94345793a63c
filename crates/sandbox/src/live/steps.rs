//! The process that makes the changes. Between its fork and its end it only makes system calls.

use crate::child::build::{copy, mask, masks, place_in};
use crate::error::{Error, Step as Stage};
use crate::sys::{self, Forked, set_mount_attributes};
use crate::wire::{Failure, Message, at, hear, pair, tell};
use rustix::fs::{CWD, Mode, OFlags, open};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, MoveMountFlags, UnmountFlags, mount_change, move_mount, unmount};
use rustix::net::RecvFlags;
use rustix::process::chdir;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// One change of the mounts. Paths are relative to the root of the view.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A mask on top.
    Cover { at: CString, folder: bool },
    /// The mask away.
    Uncover { at: CString },
    /// Attributes of the mount that is there.
    Set { at: CString, set: u64, clear: u64 },
    /// A copy of what is there on top, with attributes.
    Copy { at: CString, set: u64 },
}

impl Step {
    pub(super) fn adds(&self) -> bool {
        matches!(self, Step::Cover { .. } | Step::Copy { .. })
    }
}

/// Makes groups of changes in the order given. Says how many groups were made, and why the next was not.
pub(super) fn apply(namespaces: &[OwnedFd; 2], groups: &[&[Step]]) -> Result<(usize, Option<Errno>), Error> {
    let in_step = |why: Errno| Error::Step { step: Stage::Namespaces, path: None, why: why.into() };
    let (mine, theirs) = pair().map_err(in_step)?;
    let before = sys::block_signals();
    // SAFETY: the child only makes system calls until it ends.
    #[allow(unsafe_code)]
    let forked = unsafe { sys::fork(0, 0) };
    if let Ok(Forked::Child) = forked {
        let failure = run(namespaces, groups, theirs.as_fd()).err();
        if let Some(failure) = failure {
            let _ = tell(theirs.as_fd(), Message::Failed(failure), &[]);
        }
        sys::exit(0);
    }
    sys::restore_signals(&before);
    let Forked::Parent(_, process) = forked.map_err(in_step)? else { unreachable!("the child never returns") };
    drop(theirs);
    let heard = hear(mine.as_fd(), RecvFlags::empty());
    let _ = sys::wait_for(process.as_fd(), true);
    match heard.map_err(in_step)? {
        Some((Message::Done(_), _)) => Ok((groups.len(), None)),
        Some((Message::Failed(failure), _)) if failure.step == Stage::Restrict => {
            Ok((usize::try_from(failure.entry).unwrap_or(0), Some(failure.errno)))
        }
        Some((Message::Failed(failure), _)) => {
            Err(Error::Step { step: failure.step, path: None, why: failure.errno.into() })
        }
        _ => Err(Error::Ended),
    }
}

fn run(namespaces: &[OwnedFd; 2], groups: &[&[Step]], told: BorrowedFd<'_>) -> Result<(), Failure> {
    let [user, mount] = namespaces;
    // Masks are made in a copy of the machine's mounts that belongs to the sandbox's account namespace, since mounts can only be copied where one is.
    let covers = groups.iter().flat_map(|group| group.iter()).any(|step| matches!(step, Step::Cover { .. }));
    move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User)).map_err(at(Stage::Namespaces, 0))?;
    let masks = if covers { Some(Masks::new().map_err(at(Stage::Namespaces, 0))?) } else { None };
    for (group, number) in groups.iter().zip(0..) {
        for step in *group {
            one(step, masks.as_ref(), mount.as_fd()).map_err(at(Stage::Restrict, number))?;
        }
    }
    let _ = tell(told, Message::Done(0), &[]);
    Ok(())
}

/// A folder in memory with what masks are copies of, and the namespace of mounts that it is in.
struct Masks {
    namespace: OwnedFd,
    folder: OwnedFd,
}

impl Masks {
    fn new() -> Result<Self, Errno> {
        // SAFETY: nobody shares descriptors with this process, which has one thread.
        #[allow(unsafe_code)]
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }?;
        mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
        let namespace = open(c"/proc/self/ns/mnt", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let folder = masks()?;
        move_mount(&folder, c"", CWD, c"/proc", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
        Ok(Self { namespace, folder })
    }

    fn mask(&self, folder: bool) -> Result<OwnedFd, Errno> {
        enter(self.namespace.as_fd())?;
        mask(self.folder.as_fd(), folder)
    }
}

fn enter(mounts: BorrowedFd<'_>) -> Result<(), Errno> {
    move_into_link_name_space(mounts, Some(LinkNameSpaceType::Mount))
}

/// One step, in the sandbox's mounts.
fn one(step: &Step, masks: Option<&Masks>, mounts: BorrowedFd<'_>) -> Result<(), Errno> {
    let made = match (step, masks) {
        (Step::Cover { folder, .. }, Some(masks)) => Some(masks.mask(*folder)?),
        _ => None,
    };
    enter(mounts)?;
    let root = open(c"/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    match step {
        Step::Cover { at, .. } => put(made.ok_or(Errno::INVAL)?.as_fd(), root.as_fd(), at),
        Step::Uncover { at } => {
            let place = place_in(root.as_fd(), at)?;
            // Only what nobody may look at is a mask: an outside rename may have dropped it.
            if rustix::fs::fstat(&place)?.st_mode & 0o777 != 0 {
                return Err(Errno::STALE);
            }
            drop(place);
            chdir(c"/")?;
            unmount(at.as_c_str(), UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
        }
        Step::Set { at, set, clear } => {
            let place = place_in(root.as_fd(), at)?;
            match set_mount_attributes(place.as_fd(), *set, *clear, false) {
                // The machine's own restriction of this mount cannot be taken away; it stays.
                Err(Errno::PERM) if *clear != 0 => set_mount_attributes(place.as_fd(), *set, 0, false),
                other => other,
            }
        }
        Step::Copy { at, set } => {
            let made = copy(root.as_fd(), at)?;
            set_mount_attributes(made.as_fd(), *set, 0, true)?;
            put(made.as_fd(), root.as_fd(), at)
        }
    }
}

fn put(mount: BorrowedFd<'_>, root: BorrowedFd<'_>, path: &CStr) -> Result<(), Errno> {
    let place = place_in(root, path)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mount, c"", &place, c"", flags)
}
