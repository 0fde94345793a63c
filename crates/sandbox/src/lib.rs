//! A process in namespaces of its own: its view of files, what it may call, its limits.

mod child;
mod error;
mod filter;
mod group;
mod landlock;
pub mod layer;
mod limit;
mod live;
mod plan;
mod probe;
mod running;
mod sandbox;
mod sys;
mod tier;
mod wire;

pub use error::{Error, Step, Unheld};
pub use limit::{Limit, Outcome, Status};
pub use probe::{Kernel, probe};
pub use running::Running;
pub use sandbox::{
    Access, Denied, Device, ENTRIES_MAX, Limits, Mount, Network, PATH_BYTES_MAX, Root, Sandbox, Source, Stream,
};
pub use tier::WITHOUT_NAMESPACES;
