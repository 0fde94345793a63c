//! All tests of this crate from outside, in one program: linking is most of what a test program costs.

mod accounts;
mod factors;
mod federation;
mod journal;
mod keys;
mod limits;
mod secrecy;
mod sessions;
mod sign_in;
mod support;
