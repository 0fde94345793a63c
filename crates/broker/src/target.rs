//! The thread that waits for its answer: its memory, descriptors and attributes, by `/proc` and calls for that purpose.
//!
//! A number of a thread can be another's a moment later, so whatever is taken here counts only if the call still waits afterwards; the caller
//! checks that (`Job::still_there`).

use crate::sys::{self, Arg, call_fd};
use rustix::fs::{Mode, OFlags, open, readlink};
use rustix::io::Errno;
use std::ffi::CString;
use std::os::fd::OwnedFd;

/// Bytes of a path with the zero at its end (`PATH_MAX`), as the kernel limits it.
pub(crate) const PATH_BYTES_MAX: usize = 4096;
/// Bytes of a path that are read at first; most are shorter.
const PATH_BYTES_FIRST: usize = 256;
/// A descriptor of a thread instead of its process, `PIDFD_THREAD` (6.9 and later).
const PIDFD_THREAD: u64 = 0o200;

/// `PF_FORKNOEXEC` of `linux/sched.h`, as `/proc/PID/stat` shows it.
const FORKED_ONLY: u64 = 0x40;

/// Lines of `/proc/PID/status` that count here.
#[derive(Debug, Default)]
pub(crate) struct Status {
    pub(crate) umask: u32,
    pub(crate) process: i32,
    /// The process and the thread, in the innermost PID namespace.
    pub(crate) inner: (i32, i32),
}

#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) thread: i32,
}

impl Target {
    fn file(self, name: &str) -> String {
        format!("/proc/{}/{name}", self.thread)
    }

    /// A path or name at an address.
    pub(crate) fn text(self, address: u64) -> Result<CString, Errno> {
        self.text_of_at_most(address, PATH_BYTES_MAX, Errno::NAMETOOLONG)
    }

    /// A text that ends with a zero within so many bytes, or else `too_long`.
    pub(crate) fn text_of_at_most(self, address: u64, most: usize, too_long: Errno) -> Result<CString, Errno> {
        let mut text = vec![0; PATH_BYTES_FIRST.min(most)];
        let mut have = 0;
        loop {
            let wanted = text.len();
            let read = sys::read_memory(self.thread, address.wrapping_add(have as u64), &mut text[have..])?;
            if let Some(end) = text[have..have + read].iter().position(|byte| *byte == 0) {
                text.truncate(have + end);
                return CString::new(text).map_err(|_| Errno::INVAL);
            }
            have += read;
            if have < wanted {
                return Err(Errno::FAULT);
            }
            if have >= most {
                return Err(too_long);
            }
            text.resize(most, 0);
        }
    }

    /// Bytes at an address, all of them.
    pub(crate) fn bytes(self, address: u64, into: &mut [u8]) -> Result<(), Errno> {
        if into.is_empty() {
            return Ok(());
        }
        if sys::read_memory(self.thread, address, into)? == into.len() { Ok(()) } else { Err(Errno::FAULT) }
    }

    /// Puts bytes at an address, all of them.
    pub(crate) fn put(self, address: u64, bytes: &[u8]) -> Result<(), Errno> {
        if bytes.is_empty() {
            return Ok(());
        }
        if sys::write_memory(self.thread, address, bytes)? == bytes.len() { Ok(()) } else { Err(Errno::FAULT) }
    }

    /// Its working directory, pinned.
    pub(crate) fn cwd(self) -> Result<OwnedFd, Errno> {
        open(self.file("cwd"), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    }

    /// Its root folder, pinned.
    pub(crate) fn root(self) -> Result<OwnedFd, Errno> {
        open(self.file("root"), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    }

    /// Its executable, as the kernel writes it for us.
    pub(crate) fn executable(self) -> Result<CString, Errno> {
        readlink(self.file("exe"), Vec::with_capacity(PATH_BYTES_FIRST))
    }

    /// Its executable, pinned.
    pub(crate) fn pinned_executable(self) -> Result<OwnedFd, Errno> {
        open(self.file("exe"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
    }

    /// The file behind one of its descriptors: the very open file, so that its offset is shared.
    pub(crate) fn descriptor(self, number: i32) -> Result<OwnedFd, Errno> {
        let number = u64::try_from(number).map_err(|_| Errno::BADF)?;
        let thread = u64::try_from(self.thread).map_err(|_| Errno::SRCH)?;
        let open = |flags| call_fd(libc::SYS_pidfd_open, &mut [Arg::Int(thread), Arg::Int(flags)]);
        let process = match open(PIDFD_THREAD) {
            // The filter sees to it that the threads of a process share their descriptors.
            Err(Errno::INVAL) => {
                let process = u64::try_from(self.status()?.process).map_err(|_| Errno::SRCH)?;
                call_fd(libc::SYS_pidfd_open, &mut [Arg::Int(process), Arg::Int(0)])?
            }
            other => other?,
        };
        call_fd(libc::SYS_pidfd_getfd, &mut [Arg::from(&process), Arg::Int(number), Arg::Int(0)])
    }

    /// Its effective user and group: they own its folder in `/proc`.
    pub(crate) fn identity(self) -> Result<(u32, u32), Errno> {
        let stat = rustix::fs::stat(self.file(""))?;
        Ok((stat.st_uid, stat.st_gid))
    }

    pub(crate) fn status(self) -> Result<Status, Errno> {
        let text = std::fs::read_to_string(self.file("status")).map_err(|error| errno_of(&error))?;
        let mut status = Status::default();
        for line in text.lines() {
            let Some((name, value)) = line.split_once(':') else { continue };
            let (first, last) = (value.split_whitespace().next(), value.split_whitespace().next_back());
            let number = |text: Option<&str>| text.and_then(|text| text.parse().ok()).ok_or(Errno::IO);
            match name {
                "Umask" => status.umask = u32::from_str_radix(value.trim(), 8).map_err(|_| Errno::IO)?,
                "Tgid" => status.process = number(first)?,
                "NStgid" => status.inner.0 = number(last)?,
                "NSpid" => status.inner.1 = number(last)?,
                _ => {}
            }
        }
        Ok(status)
    }

    /// Whether it has executed no program since it was forked (`PF_FORKNOEXEC`).
    pub(crate) fn never_executed(self) -> Result<bool, Errno> {
        let text = std::fs::read_to_string(self.file("stat")).map_err(|error| errno_of(&error))?;
        // The name before may contain anything; what follows is numbers. Flags are the 9th field, the 7th behind the name.
        let (_, rest) = text.rsplit_once(')').ok_or(Errno::IO)?;
        let flags = rest.split_whitespace().nth(6).and_then(|field| field.parse::<u64>().ok()).ok_or(Errno::IO)?;
        Ok(flags & FORKED_ONLY != 0)
    }

    /// The numbers of the mounts in its namespace.
    pub(crate) fn mounts(self) -> Result<Vec<u64>, Errno> {
        let text = std::fs::read(self.file("mountinfo")).map_err(|error| errno_of(&error))?;
        let first = |line: &[u8]| std::str::from_utf8(line.split(|byte| *byte == b' ').next()?).ok()?.parse().ok();
        Ok(text.split(|byte| *byte == b'\n').filter_map(first).collect())
    }

    /// One of the maps of its user namespace: first inside, first outside, how many.
    pub(crate) fn map(self, name: &str) -> Result<Vec<(u32, u32, u32)>, Errno> {
        let text = std::fs::read_to_string(self.file(name)).map_err(|error| errno_of(&error))?;
        let line = |line: &str| {
            let mut numbers = line.split_whitespace().map(|number| number.parse().ok());
            Some((numbers.next()??, numbers.next()??, numbers.next()??))
        };
        Ok(text.lines().filter_map(line).collect())
    }
}

pub(crate) fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
