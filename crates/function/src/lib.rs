//! Functions: a folder with a manifest and a program, deployed once and called often, each call in a sandbox of its own.
//!
//! ```text
//! host      functions in a process that stays: bounded concurrency, instances that are started ahead of their calls
//!   pool      the instances of one version, and who waits for one
//! alone     a single call, in a process that ends with it
//!   call      one call: input handed over, output and log taken in, limits held
//!     instance  a program that was started under its policy, with pipes for streams
//! record    what is kept of calls
//! store     versions of functions on disk: deployed, switched to, removed
//!   manifest  what a folder says about itself (`function.toml`)
//! ```
//!
//! **A call** has its input on the program's standard input and gives what the program writes to standard output; standard error is its log. Another exit code than 0
//! is a failure. Nothing is shared between calls: each has a process tree, a view of files, a network of its own, and all of it is gone before the call is told.
//!
//! **Warm** is an instance whose sandbox is built and whose program has started already, and waits in its first read of standard input. It is used once, and
//! another is started in its place.
//!
//! **Limits.** Whatever comes from outside has one, named beside it. What cannot be held of a policy here is told when it is deployed, and nothing starts under it. This crate knows nothing of HTTP; who may call a function ([`Manifest::invoke`]) is asked by the face.

mod alone;
mod call;
mod code;
mod host;
mod id;
mod instance;
mod manifest;
mod name;
mod pool;
mod record;
mod store;

pub use alone::invoke_alone;
pub use call::{Call, End, Reached};
pub use code::{FOLDER, Held};
pub use host::{CALLS_MAX, Host, State};
pub use id::Id;
pub use manifest::{Limits, MANIFEST, Manifest};
pub use name::Name;
pub use record::{BYTES_MAX as RECORD_BYTES_MAX, COUNT_MAX as RECORDS_MAX, Record, Records};
pub use store::{Deployed, Function, Listed, Step, Store};
