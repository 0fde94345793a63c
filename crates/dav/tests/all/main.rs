//! All tests of this crate from outside, in one program: linking is most of what a test program costs.

mod files;
mod hostile;
mod locks;
mod properties;
mod rig;
mod smart;
mod tree;
