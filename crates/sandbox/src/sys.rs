//! System calls that neither the standard library nor rustix offers. Nothing here allocates or locks: all of it may run between fork and exec of a
//! process with many threads.

#![allow(unsafe_code)]

use rustix::io::Errno;
use std::ffi::{CStr, c_char, c_int, c_long, c_ulong, c_void};
use std::mem::zeroed;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{null, null_mut};

fn last() -> Errno {
    // SAFETY: it only reads this thread's error number.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}

fn checked(result: c_long) -> Result<c_long, Errno> {
    if result < 0 { Err(last()) } else { Ok(result) }
}

fn descriptor(result: c_long) -> Result<OwnedFd, Errno> {
    let number = RawFd::try_from(checked(result)?).map_err(|_| Errno::BADF)?;
    // SAFETY: the kernel has just made it for this call, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Both sides of a fork.
pub(crate) enum Forked {
    /// In the new process.
    Child,
    /// In the one that asked, with the new one's number and descriptor.
    Parent(i32, OwnedFd),
}

/// `struct clone_args` (clone(2)), as of Linux 5.3.
#[repr(C)]
#[derive(Default)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
}

/// Forks with these namespaces. No signal tells of the child's end: its descriptor does, and nobody else's `wait` finds it.
///
/// # Safety
/// If the process has other threads, the child may only make system calls until it executes or ends: locks that other threads held stay locked.
pub(crate) unsafe fn fork(namespaces: u64, exit_signal: i32) -> Result<Forked, Errno> {
    let mut pidfd: RawFd = -1;
    let arguments = CloneArguments {
        flags: namespaces | libc::CLONE_PIDFD as u64 | CLONE_CLEAR_SIGHAND,
        pidfd: &raw mut pidfd as u64,
        exit_signal: u64::from(exit_signal.unsigned_abs()),
        ..CloneArguments::default()
    };
    // SAFETY: the structure is of the size that is said and outlives the call; without CLONE_VM the child has a stack and memory of its own.
    let result = unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<CloneArguments>()) };
    match checked(result)? {
        0 => Ok(Forked::Child),
        // SAFETY: the kernel has written a new descriptor there.
        pid => Ok(Forked::Parent(i32::try_from(pid).unwrap_or(i32::MAX), unsafe { OwnedFd::from_raw_fd(pidfd) })),
    }
}

/// Bytes of the stack for what [`spawn`] runs: some calls deep, with buffers of some hundred bytes, and built without optimisation in tests.
const STACK_BYTES: usize = 256 * 1024;

/// Bytes of the lowest page, which nobody may touch.
const GUARD_BYTES: usize = 64 * 1024;

/// Runs something in a new process that shares this one's memory, on a stack of its own, and returns when that has executed a program or ended.
///
/// # Safety
/// It must not return, nor write to memory that this process goes on to use, and this process has one thread.
pub(crate) unsafe fn spawn<Work: Fn()>(work: &Work) -> Result<i32, Errno> {
    extern "C" fn start<Work: Fn()>(work: *mut c_void) -> c_int {
        // SAFETY: the pointer is the reference below, whose owner waits.
        (unsafe { &*work.cast::<Work>() })();
        1
    }
    let (access, kind) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK);
    // SAFETY: a new mapping at a place that the kernel chooses.
    let stack = unsafe { libc::mmap(null_mut(), STACK_BYTES + GUARD_BYTES, access, kind, -1, 0) };
    if stack == libc::MAP_FAILED {
        return Err(last());
    }
    // SAFETY: the part is of the mapping above, which nobody uses yet; the stack begins at its upper end, which is aligned to a page. What is handed over outlives
    // the other process's use of it, because this one only goes on when that has executed or ended (CLONE_VFORK).
    let pid = unsafe {
        checked(c_long::from(libc::mprotect(stack, GUARD_BYTES, libc::PROT_NONE)))?;
        let top = stack.byte_add(STACK_BYTES + GUARD_BYTES);
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        libc::clone(start::<Work>, top, flags, std::ptr::from_ref(work).cast_mut().cast())
    };
    let pid = checked(c_long::from(pid));
    // SAFETY: nobody runs on it any more.
    unsafe { libc::munmap(stack, STACK_BYTES + GUARD_BYTES) };
    pid.map(|pid| i32::try_from(pid).unwrap_or(i32::MAX))
}

/// Handlers of the parent are not the child's (`linux/sched.h`).
const CLONE_CLEAR_SIGHAND: u64 = 0x1_0000_0000;

/// Blocks every signal for this thread and says which were blocked before.
pub(crate) fn block_signals() -> libc::sigset_t {
    // SAFETY: sets of signals are numbers, for which zeros are valid; both pointers outlive the call.
    unsafe {
        let (mut all, mut before) = (zeroed(), zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    }
}

/// Undoes [`block_signals`].
pub(crate) fn restore_signals(before: &libc::sigset_t) {
    // SAFETY: the pointer is to a set that outlives the call.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, null_mut()) };
}

/// No signal is ignored or blocked.
pub(crate) fn default_signals() {
    for signal in 1..=64 {
        // SAFETY: no function of ours is set, and the call refuses numbers that are not its own.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: as above.
    unsafe {
        let mut none = zeroed();
        libc::sigemptyset(&raw mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, null_mut());
    }
}

/// A descriptor that tells of every signal, which must be blocked.
pub(crate) fn signal_descriptor() -> Result<OwnedFd, Errno> {
    // SAFETY: the set outlives the call.
    let result = unsafe {
        let mut all = zeroed();
        libc::sigfillset(&raw mut all);
        libc::signalfd(-1, &raw const all, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    descriptor(c_long::from(result))
}

/// The next signal that a [`signal_descriptor`] has.
pub(crate) fn next_signal(from: BorrowedFd<'_>) -> Option<i32> {
    // SAFETY: the structure is numbers only.
    let mut told: libc::signalfd_siginfo = unsafe { zeroed() };
    // SAFETY: the pointer is to as many bytes as are said.
    let read = unsafe { libc::read(from.as_raw_fd(), (&raw mut told).cast(), size_of_val(&told)) };
    (usize::try_from(read) == Ok(size_of_val(&told))).then(|| i32::try_from(told.ssi_signo).unwrap_or(0))
}

/// Sends a signal. -1 is everybody but the caller.
pub(crate) fn kill(pid: i32, signal: i32) -> Result<(), Errno> {
    // SAFETY: numbers only.
    checked(c_long::from(unsafe { libc::kill(pid, signal) })).map(|_| ())
}

/// A child that has ended, its status as of wait(2), and microseconds of processor time.
pub(crate) fn reap() -> Option<(i32, i32, u64)> {
    let mut status = 0;
    // SAFETY: numbers only.
    let mut usage: libc::rusage = unsafe { zeroed() };
    // SAFETY: both pointers outlive the call.
    let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut usage) };
    let micros = |time: libc::timeval| time.tv_sec.unsigned_abs() * 1_000_000 + time.tv_usec.unsigned_abs();
    (pid > 0).then(|| (pid, status, micros(usage.ru_utime) + micros(usage.ru_stime)))
}

/// Waits for a process that [`fork`] made without a signal, and takes its place in the process table away.
pub(crate) fn wait_for(pidfd: BorrowedFd<'_>, block: bool) -> Result<bool, Errno> {
    let options = libc::WEXITED | libc::__WALL | if block { 0 } else { libc::WNOHANG };
    loop {
        // SAFETY: the structure is numbers and a union of numbers.
        let mut info: libc::siginfo_t = unsafe { zeroed() };
        let id = pidfd.as_raw_fd().unsigned_abs();
        // SAFETY: the pointer outlives the call.
        let result = unsafe { libc::waitid(libc::P_PIDFD, id, &raw mut info, options) };
        match checked(c_long::from(result)) {
            // SAFETY: zero unless the call has set it.
            Ok(_) => return Ok(unsafe { info.si_pid() } != 0),
            Err(Errno::INTR) => {}
            // Somebody who waits for every child was faster.
            Err(Errno::CHILD) => return Ok(true),
            Err(error) => return Err(error),
        }
    }
}

/// Ends this process without running anything of its parent's.
pub(crate) fn exit(code: i32) -> ! {
    // SAFETY: it does not return.
    unsafe { libc::_exit(code) }
}

/// `struct mount_attr` (`mount_setattr`(2)): sets and clears attributes of a mount, and of those below if `recursive`.
pub(crate) fn set_mount_attributes(mount: BorrowedFd<'_>, set: u64, clear: u64, recursive: bool) -> Result<(), Errno> {
    let attributes = [set, clear, 0_u64, 0];
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the empty path and the structure outlive the call, whose size is said.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            attributes.as_ptr(),
            size_of_val(&attributes),
        )
    };
    checked(result).map(|_| ())
}

/// Closes every descriptor in a range, its ends included.
pub(crate) fn close_range(first: u32, last: u32) -> Result<(), Errno> {
    if first > last {
        return Ok(());
    }
    // SAFETY: numbers only; the callers own what is in the range, or run in a process of their own.
    checked(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) }).map(|_| ())
}

/// `prctl` with numbers.
pub(crate) fn prctl(what: c_int, value: c_ulong) -> Result<c_int, Errno> {
    // SAFETY: only requests that take numbers are made here.
    let result = unsafe { libc::prctl(what, value, 0 as c_ulong, 0 as c_ulong, 0 as c_ulong) };
    checked(c_long::from(result)).map(|value| c_int::try_from(value).unwrap_or(0))
}

/// Empties the permitted, effective and inheritable sets.
pub(crate) fn no_capabilities() -> Result<(), Errno> {
    // `_LINUX_CAPABILITY_VERSION_3`, this process; three sets of two words.
    let header = [0x2008_0522_u32, 0];
    let sets = [0_u32; 6];
    // SAFETY: both outlive the call and are of the sizes that this version says.
    checked(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) }).map(|_| ())
}

/// Sets a limit of this process, both the soft and the hard one.
pub(crate) fn limit(resource: u32, most: u64) -> Result<(), Errno> {
    // Where the two are equal, the kernel kills without the signal that says why.
    let grace = u64::from(resource == libc::RLIMIT_CPU);
    let both = [most, most.saturating_add(grace)];
    // SAFETY: the structure is two numbers and outlives the call.
    checked(unsafe { libc::syscall(libc::SYS_prlimit64, 0, resource, both.as_ptr(), null::<c_void>()) }).map(|_| ())
}

/// Installs a filter; with `listener` there is a descriptor to answer its questions through.
pub(crate) fn install_filter(program: &[libc::sock_filter], listener: bool) -> Result<Option<OwnedFd>, Errno> {
    let length = u16::try_from(program.len()).map_err(|_| Errno::INVAL)?;
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    let install = |flags: c_ulong| {
        // SAFETY: the program outlives the call, which only reads it.
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) }
    };
    if !listener {
        return checked(install(0)).map(|_| None);
    }
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    // Once somebody works on a question, only a deadly signal takes it back (Linux 5.19); older kernels do not know the flag.
    let wait_killable = 1 << 5;
    match descriptor(install(flags | wait_killable)) {
        Err(Errno::INVAL) => descriptor(install(flags)).map(Some),
        other => other.map(Some),
    }
}

/// Executes a program; returns only if that fails.
pub(crate) fn execute(path: &CStr, arguments: &[*const c_char], environment: &[*const c_char]) -> Errno {
    debug_assert!(arguments.last().is_some_and(|last| last.is_null()));
    debug_assert!(environment.last().is_some_and(|last| last.is_null()));
    // SAFETY: both lists end with a null pointer, and the strings they lead to outlive the call.
    unsafe { libc::execve(path.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    last()
}

/// Switches the loopback device of this network namespace on.
pub(crate) fn loopback_up() -> Result<(), Errno> {
    // SAFETY: numbers only.
    let socket =
        descriptor(c_long::from(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) }))?;
    // SAFETY: it is bytes, numbers and a pointer that is not used; zeros are valid for all of them.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(*b"lo") {
        *place = c_char::from_ne_bytes([byte]);
    }
    request.ifr_ifru.ifru_flags = 1; // IFF_UP
    // SAFETY: the request takes a pointer to this structure, which outlives the call.
    checked(c_long::from(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) }))
        .map(|_| ())
}

/// The version of Landlock's interface; 0 where there is none.
pub(crate) fn landlock_abi() -> u32 {
    // SAFETY: with this flag the call takes no structure.
    let result = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, null::<c_void>(), 0_usize, 1_u32) };
    u32::try_from(result).unwrap_or(0)
}

pub(crate) fn landlock_create(handled: &[u64; 3], bytes: usize) -> Result<OwnedFd, Errno> {
    // SAFETY: the structure outlives the call, and `bytes` is at most its size.
    descriptor(unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, handled.as_ptr(), bytes.min(24), 0_u32) })
}

pub(crate) fn landlock_allow_path(set: BorrowedFd<'_>, path: BorrowedFd<'_>, rights: u64) -> Result<(), Errno> {
    #[repr(C, packed)]
    struct Beneath {
        rights: u64,
        parent: i32,
    }
    let rule = Beneath { rights, parent: path.as_raw_fd() };
    // SAFETY: the structure is the one that this kind of rule takes, and outlives the call.
    checked(unsafe { libc::syscall(libc::SYS_landlock_add_rule, set.as_raw_fd(), 1, &raw const rule, 0_u32) })
        .map(|_| ())
}

pub(crate) fn landlock_allow_port(set: BorrowedFd<'_>, port: u64, rights: u64) -> Result<(), Errno> {
    let rule = [rights, port];
    // SAFETY: as above.
    checked(unsafe { libc::syscall(libc::SYS_landlock_add_rule, set.as_raw_fd(), 2, rule.as_ptr(), 0_u32) }).map(|_| ())
}

pub(crate) fn landlock_restrict(set: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: numbers only.
    checked(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, set.as_raw_fd(), 0_u32) }).map(|_| ())
}

/// This process's effective user and group.
pub(crate) fn account() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

/// How many processors work now.
pub(crate) fn processors() -> u64 {
    // SAFETY: numbers only.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1).max(1)
}

/// Nanoseconds of the clock that only goes forward.
pub(crate) fn now_ns() -> u64 {
    // SAFETY: two numbers, for which zeros are valid.
    let mut now: libc::timespec = unsafe { zeroed() };
    // SAFETY: the pointer outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Makes `place` a copy of a descriptor that stays open when a program is executed.
pub(crate) fn duplicate(from: RawFd, place: RawFd) -> Result<(), Errno> {
    // SAFETY: numbers only. The caller is the only one in its process, and owns the place.
    checked(c_long::from(unsafe { libc::dup2(from, place) })).map(|_| ())
}

/// Whether filters can ask somebody (`SECCOMP_GET_NOTIF_SIZES`).
pub(crate) fn can_notify() -> bool {
    let mut sizes = [0_u16; 3];
    // SAFETY: the structure is three numbers, and outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_NOTIF_SIZES, 0_u32, sizes.as_mut_ptr()) };
    result == 0
}

/// Whether a process is a child of this one, ended or not.
pub(crate) fn is_child(pid: i32) -> bool {
    // SAFETY: the structure is numbers and a union of numbers.
    let mut info: libc::siginfo_t = unsafe { zeroed() };
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the pointer outlives the call, which leaves the child as it is.
    pid > 0 && unsafe { libc::waitid(libc::P_PID, pid.unsigned_abs(), &raw mut info, options) } == 0
}

/// Waits for any child to end. Says whether there was one.
pub(crate) fn reap_one() -> bool {
    loop {
        // SAFETY: nothing is written.
        match checked(c_long::from(unsafe { libc::waitpid(-1, null_mut(), 0) })) {
            Ok(_) => return true,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}
