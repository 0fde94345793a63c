//! The vocabulary of Holdfast: ids, names, paths, errors, limits, and the seams for clock and randomness.
//!
//! Every other crate depends on this one and it depends on none of them. It does no I/O of its own: the only code here
//! that reaches the operating system is the default implementation of each seam ([`clock::SystemClock`]).

pub mod clock;
pub mod error;
pub mod id;
pub mod limits;
pub mod name;
pub mod path;
pub mod range;
pub mod size;

pub use clock::{Clock, ManualClock, SystemClock};
pub use error::{Error, ErrorKind, Result};
pub use id::{AccountId, BlockId, ContentId, NodeId, PackId, PackName, SpaceId, Uid};
pub use name::NodeName;
pub use path::DrivePath;
pub use range::ByteRange;
