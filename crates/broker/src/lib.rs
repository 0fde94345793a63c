//! Decides about system calls of a confined program and performs them on pinned files.
//!
//! The sandbox has the kernel stop the program at each call of [`calls`] and tell a listener of it (seccomp user notification). The [`Broker`] reads what
//! the call is about from the program's memory, finds the file as the kernel would for the program, *pins* it with a descriptor, asks a
//! [`Judge`](holdfast_policy::Judge) about the true path of what it has pinned, and makes the call itself on that very file. What it opens it puts into
//! the program's table of descriptors. So it does not matter what another thread does to the memory, or another process to names, between question and deed.
//!
//! Refused by the judge is `EACCES`, whether or not there is such a file; a move or link that would gain rights is `EXDEV`; what the broker does not serve,
//! or cannot find out about, is `EPERM`.
//!
//! What is asked:
//! - `lookup`, of where each path ends, or of the first name that is not there; not of the folders and links on the way;
//! - the operation itself, on the same path. Symbolic links count as what they lead to, unless the call is about the link itself;
//! - `read`, `mmap`, `write`, `truncate`, `readdir` when a file is opened for it, once: reading, writing, mapping and listing are not looked at again. What may be
//!   read and not mapped cannot be opened for reading, since a mapping can be made by nobody but the program itself. Rules that name the arguments of
//!   these calls cannot be held, see [`Options::arguments`];
//! - for descriptors, the path of what is open, or the last one it had if it is removed. What was handed over at the start
//!   ([`Options::inherited`]) and what never had a name (pipes, sockets, memory) is not asked about; to open it again by `/proc/self/fd` gives no more than
//!   the descriptor had.
//!
//! Three calls nobody can make for another process: `execve`, `chdir`, and `open` with `O_PATH`. The kernel makes them when the judge has said yes,
//! and the thread is held (`ptrace`(2)) as it comes out of the call, before its next instruction: if it runs, is in, or has something that it may not,
//! its process is killed. See `serve::held`.
//! The first program is not asked about: whoever starts the sandbox chose it.
//!
//! What it needs: Linux 5.19 or later (a call that is served must not be interrupted), `/proc` of a PID namespace above the program's, the same user
//! and group as the program, and that this user made the program's user namespace. Its threads give up their capabilities, and the permission checks are
//! those of the user without them.
//!
//! Limits:
//! - Landlock's rules hold the program and not the broker, so a view's mounts have to say what its Landlock rules say, and [`Options::address`] what
//!   they say of ports and abstract sockets. By default no address that is no path is allowed.
//! - A script that is exchanged while it is started is started by the interpreter that was asked about; and to have a file run by an interpreter or the dynamic
//!   linker is to read it.
//! - A call that is served is interrupted by nothing but what kills its process, so a handler of signals runs after it.
//! - A file system that does not answer stops one of the threads that serve for each call to it. FIFOs and sockets that wait do not, up to 64 of
//!   them; more fail with `EAGAIN`.
//! - The kernel's rules for sticky folders (`fs.protected_symlinks`, `fs.protected_regular`, `fs.protected_fifos`) do not hold for what is opened, and settings of
//!   namespaces in `/proc/sys` read as those of the broker.
//! - Local datagram sockets, handles of files (`name_to_handle_at`), requests that change attributes (`ioctl`) and calls that came with Linux 6.17
//!   are refused where they would get around a rule. The memory of processes (`/proc/PID/mem`) and `/dev/tty` cannot be
//!   opened, and `openat2` does not pin (`O_PATH`).

mod broker;
mod core;
mod error;
mod job;
mod listener;
mod place;
mod pool;
mod record;
mod scope;
mod serve;
mod sys;
mod target;
mod waits;
mod walk;

pub use broker::{Address, Addresses, Audit, Broker, Links, Options, THREADS_MAX};
pub use error::Error;
pub use record::{Counters, Record};

/// The numbers of the system calls that have to be asked about, for what this judge decides.
pub fn calls(judge: &dyn holdfast_policy::Judge) -> Vec<i64> {
    serve::table::calls(scope::Scope::of(judge))
}
