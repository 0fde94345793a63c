//! Properties: which are live, what a PROPFIND asks of each node, and how an answer is written.
//!
//! Live properties are those of RFC 4918 section 15, the two of RFC 4331, and, only when named, what ownCloud's clients and
//! rclone read (`oc:`). All but `displayname` are protected: `displayname` is the node's name until a client sets it.
//! What is neither is dead, and is written as the client wrote it.

mod live;
mod locks;
mod plan;
mod render;

pub(crate) use live::is_protected;
pub(crate) use locks::push_active_lock;
pub(crate) use plan::Plan;
pub(crate) use render::{Facts, Quota, Renderer, Saved};
