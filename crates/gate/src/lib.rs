//! Stands before a folder as a file system (FUSE), decides about every call in it, and makes it on pinned files.
//!
//! A sandbox has the kernel send what a program does in a folder to a device instead of doing it; a [`Gate`] reads that device, asks a
//! [`Judge`](holdfast_policy::Judge) about program, operation, path and arguments, and makes the call in the real folder. So it also decides about what a
//! *broker* cannot, because no call that a broker is asked about has it: offset and length of each read and write.
//!
//! ```text
//! gate      what is shared by the folders of one sandbox: who decides, and who is told
//!   asked     which program asks, and asking the judge about it
//!   face      the requests of the kernel
//!     node      files the kernel knows, each pinned by a descriptor
//!     handle    files and folders that are open
//!     serve     what is done: names, files, attributes
//! ```
//!
//! **Which file.** Every file that the kernel knows is pinned by a descriptor (`O_PATH`), found in its pinned folder by its last name alone and through no symbolic link:
//! those the kernel follows itself, in the program's own view. What is asked about is the true path of what is pinned. So it does not matter what somebody does to
//! names meanwhile, and nothing is reached that is not in the folder, but by folders that somebody outside has moved out while they were open or believed.
//!
//! **Which program.** The kernel says which thread asks, and it waits for the answer, so its number cannot become another's; `/proc/PID/exe` is its program. The first
//! program, and the way to it, is not asked about before it is executed: whoever starts the sandbox chose it. Whose program cannot be found out is refused. Where no
//! rule names programs and nothing is refused, nobody looks which one asks.
//!
//! **What is asked**, with the arguments that the policy's reference names:
//! - `lookup`, of each name on the way inside of the folder and of what is not there; but while nobody is refused to look anything up in it, and nobody is told of what is
//!   allowed, the kernel believes for a tenth of a second which folder a name leads to. What others do outside to a folder's name and permissions may be seen so much
//!   later; what is done inside is waited for where the kernel would not know it;
//! - the operation itself on the same path; `getattr` also of following a symbolic link, since reading it is the same request;
//! - `read` and `write` when a file is opened, once. But of a file about which rules of each call speak ([`Judge::of_each_call`](holdfast_policy::Judge::of_each_call))
//!   every read and write is asked about as well, by offset and length; opening it is allowed if some call could be. What is longer than
//!   [`PIECE_BYTES_MAX`](holdfast_policy::PIECE_BYTES_MAX), or comes from or goes to more than 250 pieces of memory, is asked about in the pieces the kernel makes of it;
//! - `mmap` when a file is opened for reading. If no program may map it, it can be read all the same: the kernel keeps no pages of it, so that a shared mapping fails
//!   (`ENODEV`) and a private one has nothing in it (`SIGBUS`). If some may and this one may not, it is not opened.
//!
//! Refused is `EACCES`; a move or link that would gain rights is `EXDEV`.
//!
//! **What the sandbox has to refuse** (`holdfast_sandbox::Denied::Unserved`): `splice`, `sendfile` and `copy_file_range`, which read pages that another call has left in
//! memory, and `statx` with `AT_STATX_DONT_SYNC`.
//!
//! **It never fails open.** Every answer is made after the question. If the process ends, the kernel ends the file system, and every call in it fails; if a thread
//! panics or the device is gone, [`Options::on_end`] is called, which is to end the sandbox.
//!
//! Limits:
//! - A name costs a descriptor while the kernel remembers it: up to the account's hard limit of open files, beyond which names are not found (`EMFILE`).
//! - Of seeking (`lseek`) no file system is told, nor of the bytes of a mapping, nor of flags as the program wrote them.
//! - What the kernel believes it believes from when the thread runs again that asked. One that is kept from running while the judge is replaced goes once through a folder that
//!   it may not look up any more, as it could by one that it has open.
//! - FIFOs and sockets are the sandbox's own: they have names in the folder, and nobody outside is at their other end. Locks hold among the sandbox's processes.
//! - Two names of one file are two files to the kernel, whose numbers differ but for the first; who maps one does not see at once what is written through the other.
//! - A file of another account shows the overflow account's number, or this account's if it may be written. Access control lists are not to be seen.
//! - `O_TMPFILE`, requests of `ioctl`, and mapping a file shared about which rules of each call speak do not work; `inotify` tells of what the sandbox itself does.
//! - `chdir` to a folder and `access(X_OK)` of it are the same question, and `getattr` is not asked of it.

mod asked;
mod face;
mod gate;
mod handle;
mod node;
mod serve;
mod sys;

pub use gate::{Ended, Gate, Options, THREADS};
