//! Finding the file that a path of the program means, as the kernel would for the program, and pinning it.
//!
//! Nothing that a name leads to can be trusted to stay, so each step ends in a descriptor and the next begins at it. Most paths have no
//! symbolic link in them and take one call (`openat2` that crosses no link and does not leave the root); the others are walked name by
//! name here, with what differs between the program and the broker put right: the root, `..` at the root, `/proc/self`, and the links of
//! `/proc/PID` that lead to open files (magic links).
//!
//! Limits: as the kernel's, 40 links a walk. `protected_symlinks` of `/proc/sys/fs` is not looked at. The folders a walk goes through are
//! not asked about, only where it ends.

use crate::core::{Core, open_how};
use crate::place::{Access, Key, Kind, Pinned, file_type, join, key_of, link_text, look};
use crate::sys;
use crate::target::Target;
use rustix::fs::{AtFlags, Mode, OFlags, fstatfs, openat, statat};
use rustix::io::Errno;
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// Symbolic links that a walk may go through (`MAXSYMLINKS`).
const LINKS_MAX: u32 = 40;
/// The inode of the root of every `/proc` (`PROC_ROOT_INO`).
const PROC_ROOT: u64 = 1;

/// How a walk is to be done.
#[derive(Clone, Copy)]
pub(crate) struct Manner {
    /// Whether a symbolic link at the end is followed.
    pub(crate) follow: bool,
    /// The program's own restrictions (`openat2(2)`).
    pub(crate) resolve: u64,
}

/// Where a walk ended.
pub(crate) enum Found {
    There(Pinned),
    /// Only the last name is not there.
    Missing {
        folder: OwnedFd,
        path: PathBuf,
        name: CString,
        /// Whether it was written as a folder, with a slash at its end.
        as_folder: bool,
    },
}

/// A walk that did not end, and how far it came, if that has a name.
pub(crate) struct Lost {
    pub(crate) errno: Errno,
    pub(crate) path: Option<PathBuf>,
}

impl From<Errno> for Lost {
    fn from(errno: Errno) -> Self {
        Self { errno, path: None }
    }
}

/// Walks `path` from `base`, or else from the root of the sandbox.
pub(crate) fn walk(
    core: &Core,
    target: Target,
    base: Option<OwnedFd>,
    path: &[u8],
    manner: Manner,
) -> Result<Found, Lost> {
    if path.is_empty() {
        return Err(Errno::NOENT.into());
    }
    if let Some(base) = base.as_ref().filter(|_| path[0] != b'/') {
        // A folder outside of the sandbox leads nowhere that rules know.
        core.place_of(base, target)?;
    }
    if manner.resolve == 0
        && let Some(found) = quick(core, target, base.as_ref(), path, manner)?
    {
        return Ok(found);
    }
    Walker::new(core, target, base, path, manner)?.run()
}

/// The walk by one call, if there is no link on the way.
fn quick(
    core: &Core,
    target: Target,
    base: Option<&OwnedFd>,
    path: &[u8],
    manner: Manner,
) -> Result<Option<Found>, Errno> {
    let (base, how) = match base {
        Some(base) if path[0] != b'/' => (base, libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS),
        _ => (&core.top()?.fd, libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_SYMLINKS),
    };
    let flags = libc::O_PATH | libc::O_CLOEXEC | if manner.follow { 0 } else { libc::O_NOFOLLOW };
    let text = CString::new(path).map_err(|_| Errno::INVAL)?;
    match open_how(base, &text, flags, how) {
        Ok(fd) => {
            let kind = Kind::Named(core.place_of(&fd, target)?);
            return Ok(Some(Found::There(Pinned { fd, kind })));
        }
        Err(Errno::NOENT) => {}
        Err(_) => return Ok(None),
    }
    let slash = path.iter().rposition(|byte| *byte == b'/');
    let (folder, name) = slash.map_or((&b"."[..], path), |at| (&path[..=at], &path[at + 1..]));
    if matches!(name, b"" | b"." | b"..") {
        return Ok(None);
    }
    let folder = CString::new(folder).map_err(|_| Errno::INVAL)?;
    let name = CString::new(name).map_err(|_| Errno::INVAL)?;
    Ok(match open_how(base, &folder, libc::O_PATH | libc::O_CLOEXEC | libc::O_DIRECTORY, how) {
        Ok(folder) => {
            let path = core.place_of(&folder, target)?;
            Some(Found::Missing { folder, path, name, as_folder: false })
        }
        Err(_) => None,
    })
}

struct Walker<'a> {
    core: &'a Core,
    target: Target,
    manner: Manner,
    /// What an absolute link leads to, and what `..` does not leave.
    top: OwnedFd,
    top_key: Key,
    at: OwnedFd,
    at_key: Key,
    at_type: u32,
    /// Names that are still to come, the next one last.
    rest: Vec<Vec<u8>>,
    links: u32,
    /// What the open file may be used for, if the last step was a magic link.
    magic: Option<Access>,
}

impl<'a> Walker<'a> {
    fn new(core: &'a Core, target: Target, base: Option<OwnedFd>, path: &[u8], manner: Manner) -> Result<Self, Errno> {
        let own_root = || core.top()?.fd.try_clone().map_err(|_| Errno::MFILE);
        let base = base.map_or_else(own_root, Ok)?;
        let own = |fd: &OwnedFd| fd.try_clone().map_err(|_| Errno::MFILE);
        let absolute = path[0] == b'/';
        let confined = manner.resolve & (libc::RESOLVE_IN_ROOT | libc::RESOLVE_BENEATH) != 0;
        if absolute && manner.resolve & libc::RESOLVE_BENEATH != 0 {
            return Err(Errno::XDEV);
        }
        let top = if confined { own(&base)? } else { own_root()? };
        let at = if absolute { own(&top)? } else { base };
        let (top_at, at_at) = (look(&top)?, look(&at)?);
        let mut walker = Self {
            core,
            target,
            manner,
            top_key: key_of(&top_at),
            top,
            at,
            at_key: key_of(&at_at),
            at_type: file_type(&at_at),
            rest: Vec::new(),
            links: 0,
            magic: None,
        };
        walker.push(path);
        Ok(walker)
    }

    /// Puts the names of a path before what is still to come. A slash at the end asks for a folder, as `.` does.
    fn push(&mut self, path: &[u8]) {
        if path.ends_with(b"/") {
            self.rest.push(b".".to_vec());
        }
        let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        let names: Vec<_> = names.map(<[u8]>::to_vec).collect();
        self.rest.extend(names.into_iter().rev());
    }

    fn run(mut self) -> Result<Found, Lost> {
        while let Some(name) = self.rest.pop() {
            match name.as_slice() {
                b"." if self.at_type != libc::S_IFDIR => return Err(self.lost(Errno::NOTDIR, None)),
                b"." => {}
                b".." => self.up()?,
                _ => {
                    let only_slash = self.rest.iter().all(|name| name == b".");
                    match self.down(&name) {
                        Ok(()) => {}
                        Err(Errno::NOENT) if only_slash => {
                            let path = self.core.place_of(&self.at, self.target)?;
                            let as_folder = !self.rest.is_empty();
                            let name = CString::new(name).map_err(|_| Errno::INVAL)?;
                            return Ok(Found::Missing { folder: self.at, path, name, as_folder });
                        }
                        Err(errno) => return Err(self.lost(errno, Some(&name))),
                    }
                }
            }
        }
        let kind = match self.magic {
            Some(access) => self.core.kind_of(&self.at, self.target, access)?,
            None => Kind::Named(self.core.place_of(&self.at, self.target)?),
        };
        Ok(Found::There(Pinned { fd: self.at, kind }))
    }

    fn lost(&self, errno: Errno, name: Option<&[u8]>) -> Lost {
        let place = self.core.place_of(&self.at, self.target).ok();
        let path = place.map(|folder| name.map_or_else(|| folder.clone(), |name| join(&folder, name)));
        Lost { errno, path }
    }

    fn up(&mut self) -> Result<(), Lost> {
        if self.at_key == self.top_key || self.at_key == self.core.top()?.key {
            if self.manner.resolve & libc::RESOLVE_BENEATH != 0 {
                return Err(Errno::XDEV.into());
            }
            return Ok(());
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let next = openat(&self.at, c"..", flags, Mode::empty()).map_err(|errno| self.lost(errno, None))?;
        self.enter(next)?;
        Ok(())
    }

    fn down(&mut self, name: &[u8]) -> Result<(), Errno> {
        let name = CString::new(name).map_err(|_| Errno::INVAL)?;
        let next = openat(&self.at, &name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let is_link = file_type(&look(&next)?) == libc::S_IFLNK;
        if is_link && (self.manner.follow || !self.rest.is_empty()) {
            return self.follow(&next, &name);
        }
        self.magic = None;
        self.enter(next)
    }

    fn enter(&mut self, next: OwnedFd) -> Result<(), Errno> {
        let statx = look(&next)?;
        let key = key_of(&statx);
        if self.manner.resolve & libc::RESOLVE_NO_XDEV != 0 && key.mount != self.at_key.mount {
            return Err(Errno::XDEV);
        }
        (self.at, self.at_key, self.at_type) = (next, key, file_type(&statx));
        Ok(())
    }

    fn follow(&mut self, link: &OwnedFd, name: &CString) -> Result<(), Errno> {
        self.links += 1;
        if self.links > LINKS_MAX || self.manner.resolve & libc::RESOLVE_NO_SYMLINKS != 0 {
            return Err(Errno::LOOP);
        }
        let in_proc = fstatfs(link)?.f_type == libc::PROC_SUPER_MAGIC;
        let at_top_of_proc = in_proc && look(&self.at)?.stx_ino == PROC_ROOT;
        if at_top_of_proc && matches!(name.to_bytes(), b"self" | b"thread-self") {
            let (process, thread) = self.target.status()?.inner;
            let own = if name.to_bytes() == b"self" { process.to_string() } else { format!("{process}/task/{thread}") };
            self.push(own.as_bytes());
            return Ok(());
        }
        if in_proc && !at_top_of_proc {
            return self.jump(name);
        }
        let text = link_text(link)?;
        let text = text.to_bytes();
        if let Some(tell) = &self.core.options.links {
            tell(&join(&self.core.place_of(&self.at, self.target)?, name.to_bytes()));
        }
        match text.first() {
            None => return Err(Errno::NOENT),
            Some(b'/') if self.manner.resolve & libc::RESOLVE_BENEATH != 0 => return Err(Errno::XDEV),
            Some(b'/') => {
                let top = self.top.try_clone().map_err(|_| Errno::MFILE)?;
                self.enter(top)?;
            }
            Some(_) => {}
        }
        self.push(text);
        Ok(())
    }

    /// Through a link of `/proc` that is not text but leads to an open file, a folder or a program.
    fn jump(&mut self, name: &CString) -> Result<(), Errno> {
        let forbidding = libc::RESOLVE_NO_MAGICLINKS | libc::RESOLVE_IN_ROOT | libc::RESOLVE_BENEATH;
        if self.manner.resolve & forbidding != 0 {
            return Err(Errno::LOOP);
        }
        let mode = statat(&self.at, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode;
        let next = openat(&self.at, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        self.enter(next)?;
        // The permissions of the link are those of the open file (`proc_pid_fd(5)`).
        self.magic = Some(Access { read: mode & libc::S_IRUSR != 0, write: mode & libc::S_IWUSR != 0 });
        Ok(())
    }
}

/// An argument that names a folder to begin at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    Cwd,
    Descriptor(i32),
}

impl Base {
    pub(crate) fn of(register: u64) -> Self {
        match sys::int(register) {
            libc::AT_FDCWD => Base::Cwd,
            number => Base::Descriptor(number),
        }
    }
}
