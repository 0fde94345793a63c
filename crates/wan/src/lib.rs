//! An emulated bad network on one machine, made of nothing but a kernel with namespaces and TUN devices.
//!
//! Two network namespaces, *near* and *far*, are joined by a link in user space: each has a TUN device, and what the kernel sends into one
//! is read here, delayed, lost, damaged, doubled, put out of order and limited as [`Impairments`] say, and written into the other. Programs
//! in the namespaces use the kernel's own TCP and UDP and notice nothing but a bad network. From the bottom up:
//!
//! - `random`: a seeded generator, and the rules that decide packet by packet;
//! - [`Impairments`]: what the link does, in one direction;
//! - [`Link`]: the scheduler of one direction. It does no input or output and knows no clock: packets go in with a time and come out with a
//!   time, so the same seed gives the same bytes in a test and on a wire;
//! - [`Counters`] and [`verify`]: what the link did, and whether that is what it was asked to do;
//! - [`Host`] and [`Task`]: a namespace, and a command in it with its limits and its costs;
//! - [`Wan`]: both hosts and the threads that forward between them, and what stands before the link and can change: [`Datagrams`];
//! - [`self_test`]: floods of numbered datagrams through a real link, which show that it does what it counts.
//!
//! Needs root, or the right to make a user namespace ([`prepare`]); and `/dev/net/tun`. Nothing is left behind, whatever ends the process:
//! namespaces and devices live as long as the descriptors that hold them, and a task is the first process of a PID namespace of its own,
//! which the kernel ends with the thread that started it.
//!
//! Limits: Linux, IPv4, one device on each side, packets of at most 1500 bytes. docs/design/wan.md says why it is as it is.

mod count;
mod expect;
mod host;
mod kernel;
mod link;
mod netlink;
mod random;
mod relay;
mod selftest;
mod settings;
mod sys;
mod task;
mod wan;

pub use count::{Counters, Tally, Traffic};
pub use expect::{Mismatch, verify};
pub use host::{Host, WanError, prepare};
pub use link::{Link, Nanos};
pub use relay::Forwarded;
pub use selftest::{Finding, SelfTest, self_test};
pub use settings::{Chance, Datagrams, Impairments, Invalid, Loss, Mode, Queue};
pub use task::{Ended, Killer, Task};
pub use wan::{Direction, Wan, WanSettings};
