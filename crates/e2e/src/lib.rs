//! Helpers of the tests of the whole program: real processes, real sockets, real disks, or a disk that forgets.
//!
//! | module | what it gives |
//! |---|---|
//! | [`rig`] | a drive in a temporary folder with a running server and an account |
//! | [`burst`] | clients that work at random until the server is gone, and judge what is left of their work |
//! | [`engines`] | the database and the store a drive lies on |
//! | [`objects`] | its packs, as whoever runs the store reaches them |
//! | [`closed`] | files that are made until their mount is gone, and what has to be there of them |
//! | [`cluster`] | several nodes that serve one drive |
//! | [`balancer`] | the balancers of `deploy/balancer`, running |
//! | [`browser`] | what a browser does at the API: sessions, visits of links, uploads in parts |
//! | [`authenticator`] | a passkey's other end: a key, and answers to questions |
//! | [`corpus`] | files that take every way through the program |
//! | [`disk`] | a drive on a disk that forgets |
//! | [`care`] | `check`, `reclaim` and `trash empty` as a person runs them, and what they say |
//! | [`others`] | suites of other people's clients |
//! | [`encrypted`] | object services behind TLS, with an authority of one's own |
//! | [`errands`] | people at the API who work until the server is gone, and judge what is left of it |
//! | [`filesystem`] | what any file system does, held against a folder |
//! | [`far`] | a drive at the other end of an emulated bad network, and transfers with it |
//! | [`older`] | a server that is older than the program |
//! | [`sftp`] | a server of SFTP, and transfers with it |
//! | [`locker`] | a program that locks files as it is told |
//! | [`wait`] | how long it takes until something is so |
//! | [`knob`] | sizes of tests, small by default and set by environment variables |
//!
//! The program is `HOLDFAST_BIN`, else the newest `holdfast` in `target/release`, `target/ci` and `target/debug`; a test fails if there
//! is none. The tests' figures are printed: run them with `--nocapture` to see them.

pub mod authenticator;
pub mod balancer;
pub mod browser;
pub mod burst;
pub mod care;
pub mod closed;
pub mod cluster;
pub mod confined;
pub mod corpus;
pub mod disk;
pub mod encrypted;
pub mod engines;
pub mod errands;
pub mod far;
pub mod filesystem;
pub mod knob;
pub mod locker;
pub mod mounted;
pub mod networked;
pub mod objects;
pub mod older;
pub mod others;
pub mod relay;
pub mod rig;
pub mod sftp;
pub mod wait;

/// What a test returns.
pub type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
