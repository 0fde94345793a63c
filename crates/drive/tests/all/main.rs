//! All tests of this crate from outside, in one program: linking is most of what a test program costs.

mod ahead;
mod backup;
mod common;
mod faults;
mod finding;
mod pipelines;
mod resuming;
mod unsynced;
