//! One call that waits: what its arguments mean, and asking the judge about it.

use crate::core::{Core, locked_read};
use crate::listener::{Notice, Reply};
use crate::place::{Access, Kind, Pinned, Slot, bytes_to_path, join};
use crate::record::{Record, count};
use crate::sys;
use crate::target::Target;
use crate::walk::{Base, Found, Lost, Manner, walk};
use holdfast_policy::{Arguments, Operation, Request};
use rustix::io::Errno;
use std::cell::OnceCell;
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// What serving a call gives.
pub(crate) type Outcome = Result<Reply, Errno>;

pub(crate) struct Job<'a> {
    pub(crate) core: &'a Core,
    pub(crate) notice: Notice,
    pub(crate) target: Target,
    program: OnceCell<PathBuf>,
}

/// A path and where it begins.
pub(crate) struct At {
    pub(crate) base: Base,
    pub(crate) path: CString,
}

/// What a path refers to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refers {
    /// The file, through a symbolic link at the end.
    Followed,
    /// What has that name, a symbolic link included.
    Itself,
}

impl<'a> Job<'a> {
    pub(crate) fn new(core: &'a Core, notice: Notice) -> Self {
        Self { core, notice, target: Target { thread: notice.thread }, program: OnceCell::new() }
    }

    pub(crate) fn register(&self, argument: usize) -> u64 {
        self.notice.arguments[argument]
    }

    pub(crate) fn int(&self, argument: usize) -> i32 {
        sys::int(self.register(argument))
    }

    pub(crate) fn unsigned(&self, argument: usize) -> u32 {
        sys::unsigned(self.register(argument))
    }

    /// That what was read of the thread was its own: it has waited all the time.
    pub(crate) fn still_there(&self) -> Result<(), Errno> {
        if self.core.listener.is_waiting(self.notice.id) { Ok(()) } else { Err(Errno::SRCH) }
    }

    /// A path or name that an argument points to. That it is the waiting thread's is checked before the judge is asked about it ([`Self::program`]), and where nobody is
    /// asked, before anything is done: until then a path is only looked up.
    pub(crate) fn text(&self, argument: usize) -> Result<CString, Errno> {
        let text = self.target.text(self.register(argument))?;
        if self.program.get().is_some() {
            self.still_there()?;
        }
        Ok(text)
    }

    /// A structure that an address points to.
    pub(crate) fn read<T: Copy>(&self, address: u64) -> Result<T, Errno> {
        let mut value: T = sys::zeroed();
        self.target.bytes(address, sys::bytes_of_mut(&mut value))?;
        self.still_there()?;
        Ok(value)
    }

    /// Bytes that an argument points to.
    pub(crate) fn bytes(&self, address: u64, length: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; length];
        self.target.bytes(address, &mut bytes)?;
        self.still_there()?;
        Ok(bytes)
    }

    /// Puts a result where the program wants it.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.still_there()?;
        self.target.put(address, bytes)
    }

    /// A path that begins at the working directory.
    pub(crate) fn at_cwd(&self, path: usize) -> Result<At, Errno> {
        Ok(At { base: Base::Cwd, path: self.text(path)? })
    }

    /// A path that begins at a folder that an argument names.
    pub(crate) fn at(&self, folder: usize, path: usize) -> Result<At, Errno> {
        Ok(At { base: Base::of(self.register(folder)), path: self.text(path)? })
    }

    /// One of the program's open files.
    pub(crate) fn descriptor(&self, number: i32) -> Result<OwnedFd, Errno> {
        let fd = self.target.descriptor(number)?;
        self.still_there()?;
        Ok(fd)
    }

    /// One of the program's open files, and how rules speak of it.
    pub(crate) fn open_file(&self, number: i32) -> Result<Pinned, Errno> {
        let fd = self.descriptor(number)?;
        let flags = rustix::fs::fcntl_getfl(&fd)?;
        let mode = flags & rustix::fs::OFlags::ACCMODE;
        let access = Access { read: mode != rustix::fs::OFlags::WRONLY, write: mode != rustix::fs::OFlags::RDONLY };
        let kind = self.core.kind_of(&fd, self.target, access)?;
        Ok(Pinned { fd, kind })
    }

    /// As [`Self::open_file`], for calls that do not take a file that is only pinned (`O_PATH`).
    pub(crate) fn open_file_itself(&self, number: i32) -> Result<Pinned, Errno> {
        let object = self.open_file(number)?;
        let is_path = rustix::fs::fcntl_getfl(&object.fd)?.contains(rustix::fs::OFlags::PATH);
        if is_path { Err(Errno::BADF) } else { Ok(object) }
    }

    /// Where a path begins; none for the root of an absolute one.
    fn base(&self, at: &At) -> Result<Option<OwnedFd>, Errno> {
        match at.base {
            _ if at.path.to_bytes().first() == Some(&b'/') => Ok(None),
            Base::Cwd => {
                let cwd = self.target.cwd()?;
                self.still_there()?;
                Ok(Some(cwd))
            }
            Base::Descriptor(number) => self.descriptor(number).map(Some),
        }
    }

    /// Walks a path and asks whether the program may know what is there.
    pub(crate) fn find(&self, at: &At, refers: Refers, resolve: u64) -> Result<Found, Errno> {
        let manner = Manner { follow: refers == Refers::Followed, resolve };
        // With restrictions of its own an absolute path can begin at the folder, too.
        let base = match at.base {
            Base::Descriptor(number) if resolve & libc::RESOLVE_IN_ROOT != 0 => Some(self.descriptor(number)?),
            Base::Cwd if resolve & libc::RESOLVE_IN_ROOT != 0 => Some(self.target.cwd()?),
            _ => self.base(at)?,
        };
        match walk(self.core, self.target, base, at.path.to_bytes(), manner) {
            Ok(Found::There(pinned)) => {
                self.ask_of(Operation::Lookup, &pinned.kind, Arguments::default())?;
                Ok(Found::There(pinned))
            }
            Ok(Found::Missing { folder, path, name, as_folder }) => {
                self.ask(Operation::Lookup, &join(&path, name.to_bytes()), Arguments::default())?;
                Ok(Found::Missing { folder, path, name, as_folder })
            }
            Err(Lost { errno, path }) => {
                if let Some(path) = path {
                    self.ask(Operation::Lookup, &path, Arguments::default())?;
                }
                Err(errno)
            }
        }
    }

    /// What is at a path.
    pub(crate) fn existing(&self, at: &At, refers: Refers) -> Result<Pinned, Errno> {
        match self.find(at, refers, 0)? {
            Found::There(pinned) => Ok(pinned),
            Found::Missing { .. } => Err(Errno::NOENT),
        }
    }

    /// What is at a path, or the open file itself where the flags allow an empty path (`AT_EMPTY_PATH`).
    pub(crate) fn object(&self, at: &At, refers: Refers, flags: i32) -> Result<Pinned, Errno> {
        if flags & libc::AT_EMPTY_PATH == 0 || !at.path.is_empty() {
            return self.existing(at, refers);
        }
        match at.base {
            Base::Descriptor(number) => self.open_file(number),
            Base::Cwd => {
                let fd = self.base(at)?.ok_or(Errno::NOENT)?;
                let kind = Kind::Named(self.core.place_of(&fd, self.target)?);
                Ok(Pinned { fd, kind })
            }
        }
    }

    /// The folder and the name at which something is made, moved or removed; whether the program may know of it is asked.
    pub(crate) fn slot(&self, at: &At) -> Result<Slot, Errno> {
        let text = at.path.to_bytes();
        let length = text.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        if text.is_empty() {
            return Err(Errno::NOENT);
        }
        let start = text[..length].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let folder = if start == 0 && text[0] != b'/' { b"." } else { &text[..start.max(1)] };
        // The slashes at the end are the kernel's to judge. Of the root there is no name.
        let name = if length == 0 { &b"."[..] } else { &text[start..] };
        let folder = At { base: at.base, path: CString::new(folder).map_err(|_| Errno::INVAL)? };
        let manner = Manner { follow: true, resolve: 0 };
        let pinned = match walk(self.core, self.target, self.base(at)?, folder.path.to_bytes(), manner) {
            Ok(Found::There(pinned)) => pinned,
            Ok(Found::Missing { path, name, .. }) => {
                self.ask(Operation::Lookup, &join(&path, name.to_bytes()), Arguments::default())?;
                return Err(Errno::NOENT);
            }
            Err(Lost { errno, path }) => {
                if let Some(path) = path {
                    self.ask(Operation::Lookup, &path, Arguments::default())?;
                }
                return Err(errno);
            }
        };
        let Kind::Named(folder) = pinned.kind else { return Err(Errno::NOTDIR) };
        let path = match &text[start.min(length)..length] {
            b"" | b"." | b".." => folder,
            name => join(&folder, name),
        };
        self.ask(Operation::Lookup, &path, Arguments::default())?;
        Ok(Slot { folder: pinned.fd, name: CString::new(name).map_err(|_| Errno::INVAL)?, path })
    }

    /// The executable that asks.
    pub(crate) fn program(&self) -> Result<&Path, Errno> {
        if let Some(program) = self.program.get() {
            return Ok(program);
        }
        let written = self.target.executable()?;
        self.still_there()?;
        Ok(self.program.get_or_init(|| self.core.program_path(&written)))
    }

    /// Asks the judge about what a rule can name, and lets the rest be.
    pub(crate) fn ask_of(&self, operation: Operation, kind: &Kind, arguments: Arguments<'_>) -> Result<(), Errno> {
        match kind {
            Kind::Named(path) => self.ask(operation, path, arguments),
            Kind::Inherited(_) | Kind::Nameless => Ok(()),
        }
    }

    /// Asks the judge, tells of it and counts it.
    pub(crate) fn ask(&self, operation: Operation, path: &Path, arguments: Arguments<'_>) -> Result<(), Errno> {
        self.ask_as(self.program()?, operation, path, arguments)
    }

    /// As [`Self::ask`], for another program than the one that runs.
    pub(crate) fn ask_as(
        &self,
        program: &Path,
        operation: Operation,
        path: &Path,
        arguments: Arguments<'_>,
    ) -> Result<(), Errno> {
        let core = self.core;
        if !core.scope.decides(operation) {
            return Ok(());
        }
        let verdict = locked_read(&core.judge).judge(&Request { program, operation, path, arguments });
        let (pid, allowed) = (self.notice.thread, verdict.allowed);
        let errno = (!allowed).then_some(libc::EACCES);
        let record = Record { pid, program, operation, path, rule: verdict.rule, allowed, errno };
        if !allowed {
            core.deny(&record);
            return Err(Errno::ACCESS);
        }
        count(&core.counting.allowed);
        if core.options.audit_allowed {
            core.tell(&record);
        }
        Ok(())
    }

    /// Whether the judge would allow it; nothing is told of this.
    pub(crate) fn would_allow(&self, operation: Operation, path: &Path) -> Result<bool, Errno> {
        let request = Request { program: self.program()?, operation, path, arguments: Arguments::default() };
        Ok(locked_read(&self.core.judge).judge(&request).allowed)
    }
}

/// A path as bytes give it.
pub(crate) fn path_of(text: &CString) -> PathBuf {
    bytes_to_path(text.to_bytes())
}
