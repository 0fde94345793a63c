//! Extended attributes. Reading and listing them is `getattr`, as of all attributes; setting and removing them is `xattr`.
//!
//! Limits: the kernel's. Access control lists name users by number, and the kernel would take those for the broker's; where they differ
//! from the program's, setting a list is refused with `EOPNOTSUPP`, as a file system without lists does.

use crate::job::{At, Job, Outcome};
use crate::listener::Reply;
use crate::place::{Pinned, magic};
use crate::serve::attributes::refers;
use crate::sys::{Arg, call};
use holdfast_policy::{Arguments, Operation};
use rustix::io::Errno;
use std::ffi::CString;

/// Bytes of an attribute's name with the zero at its end (`XATTR_NAME_MAX`).
const NAME_BYTES_MAX: usize = 256;
/// Bytes of a value, and of a list of names (`XATTR_SIZE_MAX`, `XATTR_LIST_MAX`).
const VALUE_BYTES_MAX: usize = 65536;
/// Whether a path may be empty, and links followed (`setxattrat(2)`).
const FLAGS: i32 = libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH;

/// What is done with an attribute; addresses and sizes are the program's.
pub(crate) enum Act {
    Get { name: u64, value: u64, size: usize },
    Set { name: u64, value: u64, size: usize, flags: u32 },
    List { list: u64, size: usize },
    Remove { name: u64 },
}

/// The four calls of 6.13 have their arguments in a structure.
#[repr(C)]
#[derive(Clone, Copy)]
struct Packed {
    value: u64,
    size: u32,
    flags: u32,
}

pub(crate) fn size(register: u64) -> usize {
    usize::try_from(register).unwrap_or(usize::MAX)
}

/// By path.
pub(crate) fn path(job: &Job<'_>, at: &At, flags: i32, act: &Act) -> Outcome {
    if flags & !FLAGS != 0 {
        return Err(Errno::INVAL);
    }
    perform(job, &job.object(at, refers(flags), flags)?, act)
}

/// The value's place of `setxattrat` and `getxattrat`.
pub(crate) fn packed(job: &Job<'_>, set: bool) -> Outcome {
    if size(job.register(5)) != size_of::<Packed>() {
        return Err(Errno::INVAL);
    }
    let Packed { value, size, flags } = job.read(job.register(4))?;
    let (name, size) = (job.register(3), usize::try_from(size).map_err(|_| Errno::TOOBIG)?);
    if !set && flags != 0 {
        return Err(Errno::INVAL);
    }
    let act = if set { Act::Set { name, value, size, flags } } else { Act::Get { name, value, size } };
    path(job, &job.at(0, 1)?, job.int(2), &act)
}

pub(crate) fn perform(job: &Job<'_>, object: &Pinned, act: &Act) -> Outcome {
    let operation = match act {
        Act::Get { .. } | Act::List { .. } => Operation::Getattr,
        Act::Set { .. } | Act::Remove { .. } => Operation::Xattr,
    };
    job.ask_of(operation, &object.kind, Arguments::default())?;
    let path = magic(&object.fd);
    match *act {
        Act::Get { name, value, size } => {
            let name = name_at(job, name)?;
            fill(job, libc::SYS_getxattr, &path, Some(&name), value, size)
        }
        Act::List { list, size } => fill(job, libc::SYS_listxattr, &path, None, list, size),
        Act::Set { name, value, size, flags } => {
            let name = name_at(job, name)?;
            if size > VALUE_BYTES_MAX {
                return Err(Errno::TOOBIG);
            }
            let value = job.bytes(value, size)?;
            if name.to_bytes().starts_with(b"system.posix_acl_") && !job.core.same_users(job.target)? {
                return Err(Errno::OPNOTSUPP);
            }
            let (size, flags) = (size as u64, u64::from(flags));
            let arguments =
                &mut [path.as_c_str().into(), name.as_c_str().into(), Arg::In(&value), size.into(), flags.into()];
            Ok(Reply::Value(call(libc::SYS_setxattr, arguments)?))
        }
        Act::Remove { name } => {
            let name = name_at(job, name)?;
            job.still_there()?;
            Ok(Reply::Value(call(libc::SYS_removexattr, &mut [path.as_c_str().into(), name.as_c_str().into()])?))
        }
    }
}

fn name_at(job: &Job<'_>, address: u64) -> Result<CString, Errno> {
    let name = job.target.text_of_at_most(address, NAME_BYTES_MAX, Errno::RANGE)?;
    job.still_there()?;
    if name.is_empty() { Err(Errno::RANGE) } else { Ok(name) }
}

/// A call that fills a buffer, or says how long it should be if it has none.
fn fill(job: &Job<'_>, number: libc::c_long, path: &CString, name: Option<&CString>, to: u64, size: usize) -> Outcome {
    let mut buffer = vec![0; size.min(VALUE_BYTES_MAX)];
    let length = buffer.len() as u64;
    let mut arguments = vec![path.as_c_str().into()];
    arguments.extend(name.map(|name| name.as_c_str().into()));
    arguments.extend([Arg::Out(&mut buffer), length.into()]);
    let filled = call(number, &mut arguments)?;
    if size > 0 {
        let filled = usize::try_from(filled).map_err(|_| Errno::IO)?;
        job.write(to, &buffer[..filled])?;
    }
    Ok(Reply::Value(filled))
}
