//! Binding and connecting sockets that have names in the file system.
//!
//! The address is the program's memory, so the call is made here, for every family: by the program's own socket, with an address that cannot
//! change any more. For addresses that are no paths, [`crate::Options::address`] decides, since rules that hold for the program alone
//! (Landlock's) do not hold for the broker.
//!
//! Limits: whoever accepts sees the broker as its peer (`SO_PEERCRED`), and a bound socket is told the broker's path as its own name. Datagram
//! sockets of this family can be given a path with each message, so they cannot be made.

use crate::broker::Address;
use crate::job::{At, Job, Outcome, Refers};
use crate::listener::Reply;
use crate::place::{Kind, magic};
use crate::sys::{self, Arg, call};
use crate::walk::Base;
use holdfast_policy::{Arguments, Operation};
use rustix::io::Errno;
use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};

/// Bytes of an address (`sockaddr_storage`).
const ADDRESS_BYTES_MAX: usize = 128;
/// Bytes of a path in an address (`sockaddr_un`).
const PATH_BYTES_MAX: usize = 108;
const FAMILY_BYTES: usize = 2;
/// The type of a socket without its flags (`SOCK_TYPE_MASK`).
const TYPE_MASK: i32 = 0xf;

/// An address: of a file, or of something else, as bytes.
enum Said {
    Path(CString),
    Other(Vec<u8>),
}

fn address(job: &Job<'_>) -> Result<Said, Errno> {
    let length = usize::try_from(job.int(2)).map_err(|_| Errno::INVAL)?;
    if length > ADDRESS_BYTES_MAX {
        return Err(Errno::INVAL);
    }
    let bytes = job.bytes(job.register(1), length)?;
    let family = bytes.get(..FAMILY_BYTES).map(|family| u16::from_ne_bytes([family[0], family[1]]));
    let is_path =
        family.map(i32::from) == Some(libc::AF_UNIX) && bytes.get(FAMILY_BYTES).is_some_and(|byte| *byte != 0);
    if !is_path {
        return Ok(Said::Other(bytes));
    }
    let path = bytes[FAMILY_BYTES..].split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(Said::Path(CString::new(path).map_err(|_| Errno::INVAL)?))
}

fn other(job: &Job<'_>, socket: &OwnedFd, bytes: &[u8]) -> Outcome {
    let family = bytes.get(..FAMILY_BYTES).map_or(0, |family| u16::from_ne_bytes([family[0], family[1]]));
    let binds = job.notice.number == libc::SYS_bind;
    if !(job.core.options.address)(&Address { binds, family, bytes }) {
        return Err(job.core.unserved());
    }
    finish(job, socket, bytes)
}

/// The same with the address of a file.
fn finish_path(job: &Job<'_>, socket: &OwnedFd, path: &[u8]) -> Outcome {
    let done = finish(job, socket, &unix(path)?)?;
    if let Some(tell) = &job.core.options.paths {
        tell();
    }
    Ok(done)
}

/// Makes the program's call with an address of ours.
fn finish(job: &Job<'_>, socket: &OwnedFd, bytes: &[u8]) -> Outcome {
    job.still_there()?;
    let number = job.notice.number;
    let length = bytes.len() as u64;
    let act = || call(number, &mut [socket.into(), Arg::In(bytes), length.into()]);
    let done = if number == libc::SYS_connect { job.core.waits.connect(job, socket, act)? } else { act()? };
    Ok(Reply::Value(done))
}

fn unix(path: &[u8]) -> Result<Vec<u8>, Errno> {
    if path.len() >= PATH_BYTES_MAX {
        return Err(Errno::NAMETOOLONG);
    }
    let family = u16::try_from(libc::AF_UNIX).map_err(|_| Errno::INVAL)?;
    Ok([&family.to_ne_bytes()[..], path, b"\0"].concat())
}

pub(crate) fn connect(job: &Job<'_>) -> Outcome {
    let socket = job.descriptor(job.int(0))?;
    match address(job)? {
        Said::Other(bytes) => other(job, &socket, &bytes),
        Said::Path(path) => {
            let object = job.existing(&At { base: Base::Cwd, path }, Refers::Followed)?;
            job.ask_of(Operation::Write, &object.kind, Arguments::default())?;
            if matches!(object.kind, Kind::Inherited(_)) {
                return Err(job.core.unserved());
            }
            finish_path(job, &socket, magic(&object.fd).to_bytes())
        }
    }
}

pub(crate) fn bind(job: &Job<'_>) -> Outcome {
    let socket = job.descriptor(job.int(0))?;
    match address(job)? {
        Said::Other(bytes) => other(job, &socket, &bytes),
        Said::Path(path) => {
            let slot = job.slot(&At { base: Base::Cwd, path })?;
            job.ask(Operation::Mknod, &slot.path, Arguments::default())?;
            sys::umask(job.target.status()?.umask);
            let folder = format!("/proc/self/fd/{}/", slot.folder.as_raw_fd());
            finish_path(job, &socket, &[folder.as_bytes(), slot.name.to_bytes()].concat())
        }
    }
}

/// `socket`, `socketpair`: by registers alone, which nobody can change. What remains is the kernel's.
pub(crate) fn make(job: &Job<'_>) -> Outcome {
    let is_message = matches!(job.int(1) & TYPE_MASK, libc::SOCK_DGRAM | libc::SOCK_RAW);
    if job.int(0) == libc::AF_UNIX && is_message {
        return Err(job.core.unserved());
    }
    Ok(Reply::Continue)
}
