//! All tests of this crate from outside, in one program: linking is most of what a test program costs.

mod common;
mod confined;
mod corpus;
mod dav;
mod http;
mod nginx;
mod pages;
mod tls;
