//! Functions against the real kernel: stores on disk, sandboxes, pools.

mod calls;
mod host;
mod many;
mod store;
mod support;
