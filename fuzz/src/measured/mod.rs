//! What is given to the bench: files that anybody may have made.

mod jmx;

pub use jmx::jmx;

/// A target with its name.
pub type Target = (&'static str, fn(&[u8]));

/// Every target here, by name.
pub const TARGETS: [Target; 1] = [("jmx", jmx)];
