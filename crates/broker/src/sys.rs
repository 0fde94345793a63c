//! System calls that neither the standard library nor rustix offers in a safe form.

#![allow(unsafe_code)]

use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// An argument of a call that the broker makes.
pub(crate) enum Arg<'a> {
    /// A number.
    Int(u64),
    /// A descriptor of ours.
    Fd(BorrowedFd<'a>),
    /// A path or name.
    Str(&'a CStr),
    /// Memory that is read. A call that takes a length is given it by the caller as the next argument.
    In(&'a [u8]),
    /// Memory that is written.
    Out(&'a mut [u8]),
}

impl From<i32> for Arg<'_> {
    fn from(value: i32) -> Self {
        Arg::Int(signed(i64::from(value)))
    }
}

impl From<u64> for Arg<'_> {
    fn from(value: u64) -> Self {
        Arg::Int(value)
    }
}

impl<'a> From<&'a CStr> for Arg<'a> {
    fn from(value: &'a CStr) -> Self {
        Arg::Str(value)
    }
}

impl<'a> From<&'a OwnedFd> for Arg<'a> {
    fn from(value: &'a OwnedFd) -> Self {
        Arg::Fd(value.as_fd())
    }
}

/// The bits of a signed number, as a register holds it.
pub(crate) fn signed(value: i64) -> u64 {
    u64::from_ne_bytes(value.to_ne_bytes())
}

/// The low half of a register as the `int` the kernel takes it for.
pub(crate) fn int(register: u64) -> i32 {
    let bytes = register.to_le_bytes();
    i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// The low half of a register as the `unsigned int` the kernel takes it for.
pub(crate) fn unsigned(register: u64) -> u32 {
    let bytes = register.to_le_bytes();
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// Makes a system call on files. The broker repeats so many of the program's calls with other arguments that one function for all of
/// them is less to get wrong than eighty.
pub(crate) fn call(number: libc::c_long, arguments: &mut [Arg<'_>]) -> Result<i64, Errno> {
    let mut raw = [0_u64; 6];
    for (place, argument) in raw.iter_mut().zip(arguments) {
        *place = match argument {
            Arg::Int(value) => *value,
            Arg::Fd(fd) => signed(i64::from(fd.as_raw_fd())),
            Arg::Str(text) => text.as_ptr().expose_provenance() as u64,
            Arg::In(bytes) => bytes.as_ptr().expose_provenance() as u64,
            Arg::Out(bytes) => bytes.as_mut_ptr().expose_provenance() as u64,
        };
    }
    // SAFETY: the calls made here act on files and on memory that is named by their arguments alone; that memory is borrowed for the
    // length of this call, strings end with a zero, and each caller gives the true length beside a buffer.
    let result = unsafe { libc::syscall(number, raw[0], raw[1], raw[2], raw[3], raw[4], raw[5]) };
    if result < 0 { Err(last()) } else { Ok(result) }
}

/// As [`call`], for calls that give a descriptor.
pub(crate) fn call_fd(number: libc::c_long, arguments: &mut [Arg<'_>]) -> Result<OwnedFd, Errno> {
    let fd = i32::try_from(call(number, arguments)?).map_err(|_| Errno::BADF)?;
    // SAFETY: the kernel has just made it and nobody else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// What the last failed call of this thread said.
pub(crate) fn last() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// A page of memory, beyond which a neighbour may not be mapped.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Copies from or to another process. Gives the number of bytes, which is less than asked for where memory is not mapped.
fn transfer(pid: i32, number: libc::c_long, ours: *mut u8, length: usize, theirs: u64) -> Result<usize, Errno> {
    let local = libc::iovec { iov_base: ours.cast(), iov_len: length };
    let mut remote = Vec::with_capacity(length / 4096 + 2);
    let (mut at, end) = (theirs, theirs.checked_add(length as u64).ok_or(Errno::FAULT)?);
    // The kernel transfers whole vectors only, so one that ends before a hole must end with its page.
    while at < end {
        let next = end.min((at / PAGE_BYTES + 1) * PAGE_BYTES);
        let iov_len = usize::try_from(next - at).map_err(|_| Errno::FAULT)?;
        let iov_base = std::ptr::without_provenance_mut(usize::try_from(at).map_err(|_| Errno::FAULT)?);
        remote.push(libc::iovec { iov_base, iov_len });
        at = next;
    }
    // SAFETY: the local vector is the caller's buffer, and nothing else of ours is touched; the remote ones are only looked at by the kernel.
    let count =
        unsafe { libc::syscall(number, i64::from(pid), &raw const local, 1_u64, remote.as_ptr(), remote.len(), 0_u64) };
    usize::try_from(count).map_err(|_| last())
}

/// Vectors that one transfer may have (`UIO_MAXIOV`), in pages.
const TRANSFER_BYTES_MAX: usize = 1023 * 4096;

/// Reads another process's memory.
pub(crate) fn read_memory(pid: i32, from: u64, into: &mut [u8]) -> Result<usize, Errno> {
    let length = into.len().min(TRANSFER_BYTES_MAX);
    transfer(pid, libc::SYS_process_vm_readv, into.as_mut_ptr(), length, from)
}

/// Writes another process's memory.
pub(crate) fn write_memory(pid: i32, to: u64, bytes: &[u8]) -> Result<usize, Errno> {
    let length = bytes.len().min(TRANSFER_BYTES_MAX);
    // The kernel only reads the local side of this call.
    transfer(pid, libc::SYS_process_vm_writev, bytes.as_ptr().cast_mut(), length, to)
}

/// The bits of permission that new files of the calling thread do not get. Threads share them unless they have given that up.
pub(crate) fn umask(mask: u32) {
    // SAFETY: the call takes a number.
    let _ = unsafe { libc::umask(mask) };
}

/// Gives the calling thread a working directory and a umask of its own, and takes its capabilities away for good. No signal is handled by it, and none of those
/// that its calls can cause (a limit of the size of files) ends the process.
pub(crate) fn settle_thread() -> Result<(), Errno> {
    let mut every: libc::sigset_t = zeroed();
    // SAFETY: the set outlives both calls.
    unsafe {
        libc::sigfillset(&raw mut every);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const every, std::ptr::null_mut());
    }
    // SAFETY: descriptors stay shared, which is all that memory safety asks for.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::FS) }?;
    let none = rustix::thread::CapabilitySet::empty();
    let sets = rustix::thread::CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets)
}

/// The largest file that another process may make.
pub(crate) fn file_limit(pid: i32) -> Result<u64, Errno> {
    let mut both = [0_u64; 2];
    let (pid, resource) = (i64::from(pid), u64::from(libc::RLIMIT_FSIZE));
    // SAFETY: nothing is set, and what is written is two numbers, to memory that outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_prlimit64, pid, resource, 0_u64, both.as_mut_ptr()) };
    if result < 0 { Err(last()) } else { Ok(both[0]) }
}

/// The calling thread's effective user and group.
pub(crate) fn identity() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

/// A structure of numbers as bytes, to be sent or filled.
pub(crate) fn bytes_of<T: Copy>(value: &T) -> &[u8] {
    // SAFETY: used for the kernel's structures without padding or with padding that was zeroed when they were made.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// As [`bytes_of`], to be written.
pub(crate) fn bytes_of_mut<T: Copy>(value: &mut T) -> &mut [u8] {
    // SAFETY: used for the kernel's structures of numbers, for which any bytes are valid.
    unsafe { std::slice::from_raw_parts_mut(std::ptr::from_mut(value).cast(), size_of::<T>()) }
}

/// A structure of numbers that is all zeros.
pub(crate) fn zeroed<T: Copy>() -> T {
    // SAFETY: used for the kernel's structures of numbers, for which zeros are valid.
    unsafe { std::mem::zeroed() }
}

/// A thread of another process that is seized by this one (`ptrace(2)`): it stops when it has executed a program or comes out of the call it is in, and is killed
/// if this thread ends. All of this must be called by one thread.
pub(crate) struct Traced(i32);

/// The set of general registers (`NT_PRSTATUS`), more than any architecture here has of them, and the place of the one with a call's result.
const NT_PRSTATUS: u64 = 1;
const REGISTERS_MAX: usize = 64;
#[cfg(target_arch = "x86_64")]
const RESULT_REGISTER: usize = 10;
#[cfg(target_arch = "aarch64")]
const RESULT_REGISTER: usize = 0;

/// Why a seized thread stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It runs another program.
    Executed,
    /// It comes out of its call.
    Returned,
}

impl Traced {
    pub(crate) fn seize(thread: i32) -> Result<Self, Errno> {
        let options = libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACEEXEC;
        ptrace(libc::PTRACE_SEIZE, thread, u64::from(options.unsigned_abs()))?;
        let traced = Self(thread);
        match ptrace(libc::PTRACE_INTERRUPT, thread, 0) {
            Ok(()) => Ok(traced),
            Err(errno) => {
                traced.let_go();
                Err(errno)
            }
        }
    }

    pub(crate) fn thread(&self) -> i32 {
        self.0
    }

    /// Waits until it stops. `None` if it has ended.
    pub(crate) fn wait(&mut self) -> Option<Stop> {
        loop {
            let mut status = 0;
            // A thread that executes changes its number, so it is waited for as the only one that this thread of ours traces.
            // SAFETY: the pointer outlives the call.
            let thread = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
            match thread {
                -1 if last() == Errno::INTR => {}
                -1 => return None,
                _ if !libc::WIFSTOPPED(status) => return None,
                _ => {
                    self.0 = thread;
                    let executed = status >> 16 == libc::PTRACE_EVENT_EXEC;
                    return Some(if executed { Stop::Executed } else { Stop::Returned });
                }
            }
        }
    }

    /// What the call that it comes out of returns.
    pub(crate) fn returned(&self) -> Result<i64, Errno> {
        let mut registers = [0_u64; REGISTERS_MAX];
        let into = libc::iovec { iov_base: registers.as_mut_ptr().cast(), iov_len: size_of_val(&registers) };
        // SAFETY: the kernel writes at most as many bytes as the vector says, to memory that outlives the call.
        let result = unsafe {
            let (request, set) = (u64::from(libc::PTRACE_GETREGSET), NT_PRSTATUS);
            libc::syscall(libc::SYS_ptrace, request, i64::from(self.0), set, &raw const into)
        };
        if result < 0 { Err(last()) } else { Ok(i64::from_ne_bytes(registers[RESULT_REGISTER].to_ne_bytes())) }
    }

    /// Lets it go on by itself.
    pub(crate) fn let_go(self) {
        // One that has not stopped cannot be let go before it does.
        if ptrace(libc::PTRACE_DETACH, self.0, 0).is_err() {
            let mut waiting = Self(self.0);
            if waiting.wait().is_some() {
                let _ = ptrace(libc::PTRACE_DETACH, waiting.0, 0);
            }
        }
    }
}

fn ptrace(request: libc::c_uint, thread: i32, data: u64) -> Result<(), Errno> {
    // SAFETY: the requests made here take numbers and touch no memory of ours.
    let result = unsafe { libc::syscall(libc::SYS_ptrace, u64::from(request), i64::from(thread), 0_u64, data) };
    if result < 0 { Err(last()) } else { Ok(()) }
}

/// The version of the kernel.
pub(crate) fn kernel() -> (u32, u32) {
    let name = rustix::system::uname();
    let mut numbers = name.release().to_bytes().split(|byte| !byte.is_ascii_digit());
    let mut number = || std::str::from_utf8(numbers.next()?).ok()?.parse().ok();
    (number().unwrap_or(0), number().unwrap_or(0))
}
