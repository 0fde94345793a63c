//! The one table of system calls: which operations a call is, when the broker must be asked about it, and what serves it.

use super::xattr::Act;
use super::{attributes, change, files, held, names, open, sockets, xattr};
use crate::job::{Job, Outcome, Refers};
use crate::scope::Scope;
use Refers::{Followed, Itself};
use holdfast_policy::Operation;

/// A call.
pub(crate) struct Entry {
    pub(crate) number: libc::c_long,
    /// The broker is asked if any of these operations can be refused.
    pub(crate) operations: &'static [Operation],
    pub(crate) serve: fn(&Job<'_>) -> Outcome,
}

/// The numbers of all calls that must be asked about.
pub(crate) fn calls(scope: Scope) -> Vec<i64> {
    let asked = entries().filter(|entry| scope.decides_any(entry.operations));
    asked.map(|entry| entry.number).collect()
}

/// The number of a call of 6.13 for which libc has no name yet; it is the same everywhere.
const SYS_SETXATTRAT: libc::c_long = 463;
const SYS_GETXATTRAT: libc::c_long = 464;
const SYS_LISTXATTRAT: libc::c_long = 465;
const SYS_REMOVEXATTRAT: libc::c_long = 466;

/// Of 6.8 and 6.17.
const SYS_STATMOUNT: libc::c_long = 457;
const SYS_FILE_GETATTR: libc::c_long = 468;
const SYS_FILE_SETATTR: libc::c_long = 469;

const GETATTR: &[Operation] = &[Operation::Lookup, Operation::Getattr];
const GETATTR_OPEN: &[Operation] = &[Operation::Getattr];
const SETATTR: &[Operation] = &[Operation::Lookup, Operation::Setattr];
const SETATTR_OPEN: &[Operation] = &[Operation::Setattr];
const XATTR: &[Operation] = &[Operation::Lookup, Operation::Xattr];
const XATTR_OPEN: &[Operation] = &[Operation::Xattr];
const FSYNC: &[Operation] = &[Operation::Fsync];
const OPENS: &[Operation] = &[
    Operation::Lookup,
    Operation::Read,
    Operation::Write,
    Operation::Create,
    Operation::Truncate,
    Operation::Readdir,
    Operation::Mmap,
];
const MKDIR: &[Operation] = &[Operation::Lookup, Operation::Mkdir];
const MKNOD: &[Operation] = &[Operation::Lookup, Operation::Mknod, Operation::Create];
const SYMLINK: &[Operation] = &[Operation::Lookup, Operation::Symlink];
const UNLINK: &[Operation] = &[Operation::Lookup, Operation::Unlink, Operation::Rmdir];
const TRUNCATE: &[Operation] = &[Operation::Lookup, Operation::Truncate];
const EXEC: &[Operation] = &[Operation::Lookup, Operation::Exec];
/// What connecting and binding can be.
pub(crate) const SOCKETS: &[Operation] = &[Operation::Lookup, Operation::Write, Operation::Mknod];

pub(crate) fn find(number: libc::c_long) -> Option<&'static Entry> {
    [ENTRIES, OLD].into_iter().flatten().find(|entry| entry.number == number)
}

/// All entries.
pub(crate) fn entries() -> impl Iterator<Item = &'static Entry> {
    ENTRIES.iter().chain(OLD)
}

macro_rules! entry {
    ($number:expr, $operations:expr, $serve:expr) => {
        Entry { number: $number, operations: $operations, serve: $serve }
    };
}

/// Those that every architecture has.
const ENTRIES: &[Entry] = &[
    entry!(libc::SYS_openat, OPENS, |job| {
        open::open(job, &job.at(0, 1)?, &open::How::plain(job.int(2), job.unsigned(3)))
    }),
    entry!(libc::SYS_openat2, OPENS, open::openat2),
    entry!(libc::SYS_newfstatat, GETATTR, |job| {
        let flags = job.int(3);
        attributes::stat(job, &attributes::at_or_empty(job, flags)?, attributes::refers(flags), flags, job.register(2))
    }),
    entry!(libc::SYS_fstat, GETATTR_OPEN, |job| {
        attributes::stat_object(job, &job.open_file(job.int(0))?, job.register(1))
    }),
    entry!(libc::SYS_statx, GETATTR, attributes::statx),
    entry!(libc::SYS_faccessat, GETATTR, |job| attributes::access(job, &job.at(0, 1)?, job.unsigned(2), 0)),
    entry!(libc::SYS_faccessat2, GETATTR, |job| {
        attributes::access(job, &job.at(0, 1)?, job.unsigned(2), job.int(3))
    }),
    entry!(libc::SYS_readlinkat, GETATTR, |job| {
        attributes::readlink(job, &job.at(0, 1)?, job.register(2), job.int(3))
    }),
    entry!(libc::SYS_statfs, &[Operation::Lookup, Operation::Statfs], |job| {
        attributes::statfs(job, &job.at_cwd(0)?, job.register(1))
    }),
    entry!(libc::SYS_fstatfs, &[Operation::Statfs], |job| {
        attributes::statfs_object(job, &job.open_file(job.int(0))?, job.register(1))
    }),
    entry!(
        libc::SYS_inotify_add_watch,
        &[Operation::Lookup, Operation::Getattr, Operation::Readdir],
        attributes::watch
    ),
    entry!(libc::SYS_fchmod, SETATTR_OPEN, |job| {
        change::chmod_object(job, &job.open_file_itself(job.int(0))?, job.unsigned(1))
    }),
    entry!(libc::SYS_fchmodat, SETATTR, |job| change::chmod(job, &job.at(0, 1)?, job.unsigned(2), 0)),
    entry!(libc::SYS_fchmodat2, SETATTR, |job| change::chmod(job, &job.at(0, 1)?, job.unsigned(2), job.int(3))),
    entry!(libc::SYS_fchown, SETATTR_OPEN, |job| {
        change::chown_object(job, &job.open_file_itself(job.int(0))?, job.unsigned(1), job.unsigned(2))
    }),
    entry!(libc::SYS_fchownat, SETATTR, |job| {
        change::chown(job, &job.at(0, 1)?, job.unsigned(2), job.unsigned(3), job.int(4))
    }),
    entry!(libc::SYS_utimensat, SETATTR, |job| {
        change::utimes_at(job, &change::times_of_specs(job, job.register(2))?, job.int(3))
    }),
    entry!(libc::SYS_truncate, TRUNCATE, |job| change::truncate(job, &job.at_cwd(0)?, job.register(1))),
    entry!(libc::SYS_ftruncate, &[Operation::Truncate], change::truncate_open),
    entry!(libc::SYS_fallocate, &[Operation::Truncate, Operation::Write], change::allocate),
    entry!(libc::SYS_mkdirat, MKDIR, |job| names::mkdir(job, &job.at(0, 1)?, job.unsigned(2))),
    entry!(libc::SYS_mknodat, MKNOD, |job| names::mknod(job, &job.at(0, 1)?, job.unsigned(2), job.unsigned(3))),
    entry!(libc::SYS_symlinkat, SYMLINK, |job| names::symlink(job, 0, &job.at(1, 2)?)),
    entry!(libc::SYS_linkat, &Operation::ALL, |job| { names::link(job, &job.at(0, 1)?, &job.at(2, 3)?, job.int(4)) }),
    entry!(libc::SYS_renameat2, &Operation::ALL, |job| {
        names::rename(job, &job.at(0, 1)?, &job.at(2, 3)?, job.unsigned(4))
    }),
    entry!(libc::SYS_unlinkat, UNLINK, |job| names::unlink(job, &job.at(0, 1)?, job.int(2))),
    entry!(libc::SYS_setxattr, XATTR, |job| xattr::path(job, &job.at_cwd(0)?, 0, &set(job))),
    entry!(libc::SYS_lsetxattr, XATTR, |job| xattr::path(job, &job.at_cwd(0)?, NOFOLLOW, &set(job))),
    entry!(libc::SYS_fsetxattr, XATTR_OPEN, |job| {
        xattr::perform(job, &job.open_file_itself(job.int(0))?, &set(job))
    }),
    entry!(libc::SYS_getxattr, GETATTR, |job| xattr::path(job, &job.at_cwd(0)?, 0, &get(job))),
    entry!(libc::SYS_lgetxattr, GETATTR, |job| xattr::path(job, &job.at_cwd(0)?, NOFOLLOW, &get(job))),
    entry!(libc::SYS_fgetxattr, GETATTR_OPEN, |job| {
        xattr::perform(job, &job.open_file_itself(job.int(0))?, &get(job))
    }),
    entry!(libc::SYS_listxattr, GETATTR, |job| xattr::path(job, &job.at_cwd(0)?, 0, &list(job, 1))),
    entry!(libc::SYS_llistxattr, GETATTR, |job| xattr::path(job, &job.at_cwd(0)?, NOFOLLOW, &list(job, 1))),
    entry!(libc::SYS_flistxattr, GETATTR_OPEN, |job| {
        xattr::perform(job, &job.open_file_itself(job.int(0))?, &list(job, 1))
    }),
    entry!(libc::SYS_removexattr, XATTR, |job| xattr::path(job, &job.at_cwd(0)?, 0, &remove(job, 1))),
    entry!(libc::SYS_lremovexattr, XATTR, |job| xattr::path(job, &job.at_cwd(0)?, NOFOLLOW, &remove(job, 1))),
    entry!(libc::SYS_fremovexattr, XATTR_OPEN, |job| {
        xattr::perform(job, &job.open_file_itself(job.int(0))?, &remove(job, 1))
    }),
    entry!(SYS_SETXATTRAT, XATTR, |job| xattr::packed(job, true)),
    entry!(SYS_GETXATTRAT, GETATTR, |job| xattr::packed(job, false)),
    entry!(SYS_LISTXATTRAT, GETATTR, |job| xattr::path(job, &job.at(0, 1)?, job.int(2), &list(job, 3))),
    entry!(SYS_REMOVEXATTRAT, XATTR, |job| xattr::path(job, &job.at(0, 1)?, job.int(2), &remove(job, 3))),
    entry!(libc::SYS_chdir, &[Operation::Lookup], |job| held::change_folder(job, &job.at_cwd(0)?)),
    entry!(libc::SYS_execve, EXEC, |job| held::execute(job, &job.at_cwd(0)?, 0)),
    entry!(libc::SYS_execveat, EXEC, |job| held::execute(job, &job.at(0, 1)?, job.int(4))),
    entry!(libc::SYS_connect, SOCKETS, sockets::connect),
    entry!(libc::SYS_bind, SOCKETS, sockets::bind),
    entry!(libc::SYS_socket, SOCKETS, sockets::make),
    entry!(libc::SYS_socketpair, SOCKETS, sockets::make),
    entry!(libc::SYS_ioctl, change::CONTROLS, change::control),
    // Handles and marks lead past names, and these calls are rare.
    entry!(libc::SYS_name_to_handle_at, &[Operation::Lookup], refused),
    entry!(libc::SYS_fanotify_mark, &[Operation::Lookup], refused),
    entry!(libc::SYS_msync, FSYNC, refused),
    // It can sync.
    entry!(libc::SYS_io_submit, FSYNC, refused),
    entry!(SYS_STATMOUNT, &[Operation::Statfs], refused),
    entry!(SYS_FILE_GETATTR, GETATTR, refused),
    entry!(SYS_FILE_SETATTR, SETATTR, refused),
    entry!(libc::SYS_lseek, &[Operation::Llseek], files::seek),
    entry!(libc::SYS_fsync, FSYNC, files::sync),
    entry!(libc::SYS_fdatasync, FSYNC, files::sync),
    entry!(libc::SYS_sync_file_range, FSYNC, files::sync),
    entry!(libc::SYS_syncfs, FSYNC, files::sync),
    entry!(libc::SYS_sync, FSYNC, files::sync_all),
];

/// Those that newer architectures have no more.
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[Entry] =
    &[entry!(libc::SYS_renameat, &Operation::ALL, |job| { names::rename(job, &job.at(0, 1)?, &job.at(2, 3)?, 0) })];
#[cfg(target_arch = "x86_64")]
const OLD: &[Entry] = &[
    entry!(libc::SYS_open, OPENS, |job| {
        open::open(job, &job.at_cwd(0)?, &open::How::plain(job.int(1), job.unsigned(2)))
    }),
    entry!(libc::SYS_ustat, &[Operation::Statfs], refused),
    entry!(libc::SYS_uselib, &[Operation::Exec], refused),
    entry!(libc::SYS_creat, OPENS, |job| {
        let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
        open::open(job, &job.at_cwd(0)?, &open::How::plain(flags, job.unsigned(1)))
    }),
    entry!(libc::SYS_stat, GETATTR, |job| attributes::stat(job, &job.at_cwd(0)?, Followed, 0, job.register(1))),
    entry!(libc::SYS_lstat, GETATTR, |job| attributes::stat(job, &job.at_cwd(0)?, Itself, 0, job.register(1))),
    entry!(libc::SYS_access, GETATTR, |job| attributes::access(job, &job.at_cwd(0)?, job.unsigned(1), 0)),
    entry!(libc::SYS_readlink, GETATTR, |job| {
        let at = job.at_cwd(0)?;
        if at.path.is_empty() {
            return Err(rustix::io::Errno::NOENT);
        }
        attributes::readlink(job, &at, job.register(1), job.int(2))
    }),
    entry!(libc::SYS_chmod, SETATTR, |job| change::chmod(job, &job.at_cwd(0)?, job.unsigned(1), 0)),
    entry!(libc::SYS_chown, SETATTR, |job| {
        change::chown(job, &job.at_cwd(0)?, job.unsigned(1), job.unsigned(2), 0)
    }),
    entry!(libc::SYS_lchown, SETATTR, |job| {
        change::chown(job, &job.at_cwd(0)?, job.unsigned(1), job.unsigned(2), NOFOLLOW)
    }),
    entry!(libc::SYS_utime, SETATTR, |job| {
        change::utimes(job, &job.at_cwd(0)?, &change::times_of_seconds(job, job.register(1))?, 0)
    }),
    entry!(libc::SYS_utimes, SETATTR, |job| {
        change::utimes(job, &job.at_cwd(0)?, &change::times_of_values(job, job.register(1))?, 0)
    }),
    entry!(libc::SYS_futimesat, SETATTR, |job| {
        change::utimes_at(job, &change::times_of_values(job, job.register(2))?, 0)
    }),
    entry!(libc::SYS_mkdir, MKDIR, |job| names::mkdir(job, &job.at_cwd(0)?, job.unsigned(1))),
    entry!(libc::SYS_mknod, MKNOD, |job| names::mknod(job, &job.at_cwd(0)?, job.unsigned(1), job.unsigned(2))),
    entry!(libc::SYS_symlink, SYMLINK, |job| names::symlink(job, 0, &job.at_cwd(1)?)),
    entry!(libc::SYS_link, &Operation::ALL, |job| names::link(job, &job.at_cwd(0)?, &job.at_cwd(1)?, 0)),
    entry!(libc::SYS_rename, &Operation::ALL, |job| names::rename(job, &job.at_cwd(0)?, &job.at_cwd(1)?, 0)),
    entry!(libc::SYS_renameat, &Operation::ALL, |job| names::rename(job, &job.at(0, 1)?, &job.at(2, 3)?, 0)),
    entry!(libc::SYS_unlink, UNLINK, |job| names::unlink(job, &job.at_cwd(0)?, 0)),
    entry!(libc::SYS_rmdir, UNLINK, |job| names::unlink(job, &job.at_cwd(0)?, libc::AT_REMOVEDIR)),
];

/// What the broker does not do for anybody.
fn refused(job: &Job<'_>) -> Outcome {
    Err(job.core.unserved())
}

const NOFOLLOW: i32 = libc::AT_SYMLINK_NOFOLLOW;

fn set(job: &Job<'_>) -> Act {
    let (name, value, flags) = (job.register(1), job.register(2), job.unsigned(4));
    Act::Set { name, value, size: xattr::size(job.register(3)), flags }
}

fn get(job: &Job<'_>) -> Act {
    Act::Get { name: job.register(1), value: job.register(2), size: xattr::size(job.register(3)) }
}

fn list(job: &Job<'_>, first: usize) -> Act {
    Act::List { list: job.register(first), size: xattr::size(job.register(first + 1)) }
}

fn remove(job: &Job<'_>, name: usize) -> Act {
    Act::Remove { name: job.register(name) }
}
