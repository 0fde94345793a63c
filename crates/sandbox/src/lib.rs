//! A process in namespaces of its own: its view of files, what it may call, its limits.
//!
//! A [`Sandbox`] is a description; [`Sandbox::start`] makes it true and returns a [`Running`]:
//!
//! ```no_run
//! use holdfast_sandbox::{Access, Device, Sandbox};
//!
//! let mut sandbox = Sandbox::new(["/usr/bin/python3", "work.py"])
//!     .mount("/usr", Access::ReadExec)
//!     .mount("/lib64", Access::ReadExec)
//!     .mount("/home/ann/project", Access::Writable)
//!     .mount("/home/ann/project/keys", Access::Hidden);
//! sandbox.folder = "/home/ann/project".into();
//! sandbox.devices = vec![Device::Null];
//! sandbox.limits.wall_s = Some(60);
//! let outcome = sandbox.start()?.wait()?;
//! println!("{}", outcome.status);
//! # Ok::<(), holdfast_sandbox::Error>(())
//! ```
//!
//! # How
//!
//! Nobody needs to be root, and root has no power inside: the program is in a user namespace that knows one account, the caller's, without any capability.
//!
//! 1. The caller prepares every string, list and filter (`plan`), and forks once into new namespaces (`running`).
//! 2. The child builds the view from copies of mounts, each restricted before it is in its place, and leaves the machine's files behind (`child::build`). What an
//!    access allows is held by attributes of mounts, which cost nothing per call; hidden paths have an empty thing without permissions mounted on them.
//! 3. It gives up every capability, forks the program, and stays as the first process of the namespace (`child::init`): when it ends, the kernel kills all the others.
//! 4. The program's process takes its streams, limits, Landlock rules where something could pass the mounts (`landlock`), and filter of system calls (`filter`), and is executed (`child::program`).
//!
//! Whatever cannot be held is an error, and the program does not start. A running sandbox can be signalled, frozen, killed, and its view changed (`live`).
//! Copy-on-write folders are overlays, whose changes [`layer`] reads, commits or discards.
//!
//! # Limits
//!
//! * Linux 5.12 or later, and user namespaces; what else there is, [`probe()`] says. Without namespaces a smaller set of views is held (`tier`).
//! * The entries of a view are bound to what is at their paths when it starts. If somebody outside renames another file over a hidden one, the mask is gone with
//!   the old one: hide the folder around it, or use a broker.
//! * A hidden file that has another name outside of what is hidden (a hard link) is seen there.
//! * A socket or FIFO with a path in the view can be connected to, also without a network and where the view is read-only: hide the folders of those that matter, or
//!   have no UNIX sockets ([`Sandbox::no_unix_sockets`]).
//! * What the program has open stays open when the view changes.
//! * The first process is a copy of the caller's memory, which nobody inside can look at; pages are shared with the caller until one of them writes. The larger the
//!   caller's memory is, the longer the two forks take (`examples/start.rs` shows how long).
//! * What is mounted on the machine later is not in the view.

mod child;
mod count;
mod error;
mod filter;
mod group;
mod landlock;
pub mod layer;
mod limit;
mod live;
mod plan;
mod probe;
mod processes;
mod running;
mod sandbox;
mod sys;
mod tier;
mod wire;

pub use error::{Error, Step, Unheld};
pub use group::{Bounded, Unbounded, Whole, bounding};
pub use limit::{Limit, Outcome, Status};
pub use probe::{Kernel, probe};
pub use running::{Running, Serve};
pub use sandbox::{
    Access, Denied, Device, ENTRIES_MAX, Limits, Mount, Network, PATH_BYTES_MAX, Root, Sandbox, Source, Stream,
};
pub use tier::WITHOUT_NAMESPACES;
