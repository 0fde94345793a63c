//! Changing attributes and sizes.

use crate::job::{At, Job, Outcome, Refers};
use crate::listener::Reply;
use crate::place::{Kind, Pinned, file_type, look, magic};
use crate::serve::attributes::refers;
use crate::sys::{self, Arg, bytes_of, call};
use crate::walk::Base;
use holdfast_policy::{Arguments, Operation};
use rustix::io::Errno;

const DONE: Outcome = Ok(Reply::Value(0));

/// `chmod`, `fchmodat`, `fchmodat2`.
pub(crate) fn chmod(job: &Job<'_>, at: &At, mode: u32, flags: i32) -> Outcome {
    if flags & !(libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH) != 0 {
        return Err(Errno::INVAL);
    }
    chmod_object(job, &job.object(at, refers(flags), flags)?, mode)
}

pub(crate) fn chmod_object(job: &Job<'_>, object: &Pinned, mode: u32) -> Outcome {
    let mode = mode & 0o7777;
    job.ask_of(Operation::Setattr, &object.kind, Arguments { mode: Some(mode), ..Arguments::default() })?;
    if file_type(&look(&object.fd)?) == libc::S_IFLNK {
        return Err(Errno::OPNOTSUPP);
    }
    job.still_there()?;
    let path = magic(&object.fd);
    call(libc::SYS_fchmodat, &mut [libc::AT_FDCWD.into(), path.as_c_str().into(), u64::from(mode).into()])?;
    DONE
}

/// `chown`, `lchown`, `fchownat`; users and groups are numbers of the program's user namespace.
pub(crate) fn chown(job: &Job<'_>, at: &At, user: u32, group: u32, flags: i32) -> Outcome {
    if flags & !(libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH) != 0 {
        return Err(Errno::INVAL);
    }
    chown_object(job, &job.object(at, refers(flags), flags)?, user, group)
}

pub(crate) fn chown_object(job: &Job<'_>, object: &Pinned, user: u32, group: u32) -> Outcome {
    let named = |id: u32| (id != u32::MAX).then_some(id);
    let arguments = Arguments { uid: named(user), gid: named(group), ..Arguments::default() };
    job.ask_of(Operation::Setattr, &object.kind, arguments)?;
    let (user, group) = job.core.outside(job.target, user, group)?;
    job.still_there()?;
    let (user, group) = (u64::from(user), u64::from(group));
    let flags = libc::AT_EMPTY_PATH;
    call(libc::SYS_fchownat, &mut [(&object.fd).into(), c"".into(), user.into(), group.into(), flags.into()])?;
    DONE
}

/// Times to be set: of access and of change, in seconds and nanoseconds. None means now.
pub(crate) type Times = Option<[libc::timespec; 2]>;

/// `utimensat`, whose times say themselves if one of them is now or left as it is.
pub(crate) fn times_of_specs(job: &Job<'_>, address: u64) -> Result<Times, Errno> {
    if address == 0 { Ok(None) } else { job.read(address).map(Some) }
}

/// `utimes` and `futimesat`: microseconds.
pub(crate) fn times_of_values(job: &Job<'_>, address: u64) -> Result<Times, Errno> {
    if address == 0 {
        return Ok(None);
    }
    let values: [[i64; 2]; 2] = job.read(address)?;
    let spec = |[seconds, micros]: [i64; 2]| {
        let in_range = (0..1_000_000).contains(&micros);
        in_range.then_some(libc::timespec { tv_sec: seconds, tv_nsec: micros * 1000 }).ok_or(Errno::INVAL)
    };
    Ok(Some([spec(values[0])?, spec(values[1])?]))
}

/// `utime`: seconds.
pub(crate) fn times_of_seconds(job: &Job<'_>, address: u64) -> Result<Times, Errno> {
    if address == 0 {
        return Ok(None);
    }
    let seconds: [i64; 2] = job.read(address)?;
    Ok(Some(seconds.map(|seconds| libc::timespec { tv_sec: seconds, tv_nsec: 0 })))
}

/// `utimensat` and `futimesat`, which take no path at all for an open file.
pub(crate) fn utimes_at(job: &Job<'_>, times: &Times, flags: i32) -> Outcome {
    if flags & !(libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH) != 0 {
        return Err(Errno::INVAL);
    }
    match (job.register(1), Base::of(job.register(0))) {
        (0, Base::Descriptor(number)) => utimes_object(job, &job.open_file(number)?, times),
        (0, Base::Cwd) => Err(Errno::FAULT),
        _ => utimes(job, &job.at(0, 1)?, times, flags),
    }
}

pub(crate) fn utimes(job: &Job<'_>, at: &At, times: &Times, flags: i32) -> Outcome {
    utimes_object(job, &job.object(at, refers(flags), flags)?, times)
}

fn utimes_object(job: &Job<'_>, object: &Pinned, times: &Times) -> Outcome {
    job.ask_of(Operation::Setattr, &object.kind, Arguments::default())?;
    job.still_there()?;
    let times = times.as_ref().map_or(Arg::Int(0), |times| Arg::In(bytes_of(times)));
    let path = magic(&object.fd);
    call(libc::SYS_utimensat, &mut [libc::AT_FDCWD.into(), path.as_c_str().into(), times, Arg::Int(0)])?;
    DONE
}

/// `truncate`.
pub(crate) fn truncate(job: &Job<'_>, at: &At, size: u64) -> Outcome {
    let object = job.existing(at, Refers::Followed)?;
    if matches!(object.kind, Kind::Inherited(access) if !access.write) {
        // What was handed over to be read is not more by its name.
        return Err(job.core.unserved());
    }
    ask_size(job, &object, size)?;
    let path = magic(&object.fd);
    call(libc::SYS_truncate, &mut [path.as_c_str().into(), size.into()])?;
    DONE
}

/// `ftruncate`.
pub(crate) fn truncate_open(job: &Job<'_>) -> Outcome {
    let (object, size) = (job.open_file(job.int(0))?, job.register(1));
    ask_size(job, &object, size)?;
    call(libc::SYS_ftruncate, &mut [(&object.fd).into(), size.into()])?;
    DONE
}

/// Whether it may, and whether the program's own limit lets it (`RLIMIT_FSIZE`), since the kernel would look at the broker's.
fn ask_size(job: &Job<'_>, object: &Pinned, size: u64) -> Result<(), Errno> {
    job.ask_of(Operation::Truncate, &object.kind, Arguments { size: Some(size), ..Arguments::default() })?;
    let is_above = size > sys::file_limit(job.target.thread)?;
    job.still_there()?;
    // A negative size is the kernel's to refuse.
    if is_above && i64::try_from(size).is_ok() { Err(Errno::FBIG) } else { Ok(()) }
}

/// `fallocate`: where it may change the size that is asked; that it may write was asked when the file was opened.
pub(crate) fn allocate(job: &Job<'_>) -> Outcome {
    let object = job.open_file(job.int(0))?;
    let (mode, offset, length) = (job.int(1), job.register(2), job.register(3));
    let writes = Arguments {
        length: Some(length),
        offset: Some(i64::from_ne_bytes(offset.to_ne_bytes())),
        ..Arguments::default()
    };
    job.ask_of(Operation::Write, &object.kind, writes)?;
    if mode & libc::FALLOC_FL_KEEP_SIZE == 0 {
        ask_size(job, &object, offset.saturating_add(length))?;
    }
    job.still_there()?;
    let mode = sys::signed(i64::from(mode));
    call(libc::SYS_fallocate, &mut [(&object.fd).into(), mode.into(), offset.into(), length.into()])?;
    DONE
}

/// Types of requests (`_IOC_TYPE`): of many file systems, of their versions, of btrfs and for sharing blocks.
const OF_FILES: u32 = 0x66;
const OF_VERSIONS: u32 = 0x76;
const OF_BTRFS: u32 = 0x94;
/// Whether a request takes something (`_IOC_WRITE`).
const TAKES: u32 = 1 << 30;
/// `FS_IOC_FIEMAP`, which only tells; `FICLONE`, `FICLONERANGE` and `FIDEDUPERANGE`, which need a file that is open for writing.
const HARMLESS: [u32; 4] = [0xc020_660b, 0x4004_9409, 0x4020_940d, 0xc018_9436];
/// `FS_IOC_FSSETXATTR` and `FS_IOC_SET_ENCRYPTION_POLICY`.
const HARMFUL: [u32; 2] = [0x401c_5820, 0x800c_6613];

/// Operations that requests to a file system can come to, of files that need not be open for writing.
pub(crate) const CONTROLS: &[Operation] =
    &[Operation::Setattr, Operation::Create, Operation::Mkdir, Operation::Rmdir, Operation::Unlink];

/// `ioctl`: by the request's number alone, which nobody can change. What is refused sets attributes, or makes and removes subvolumes.
pub(crate) fn control(job: &Job<'_>) -> Outcome {
    let request = job.unsigned(1);
    let changes = match request >> 8 & 0xff {
        OF_FILES | OF_VERSIONS => request & TAKES != 0,
        OF_BTRFS => true,
        _ => false,
    };
    let refused = HARMFUL.contains(&request) || changes && !HARMLESS.contains(&request);
    if refused { Err(job.core.unserved()) } else { Ok(Reply::Continue) }
}
