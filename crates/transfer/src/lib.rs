//! Bulk transfer between places: what is to go where, and that it arrives whole.
//!
//! A [`Site`] is a place with files: a folder of this machine, a space of a drive, a server of another kind. The transfer
//! itself knows none of them: it compares what a source lists with what a destination lists, and moves the content of each file that differs,
//! several at a time, in blocks, from where the last try got to.
//!
//! **Whole or not at all.** A file appears at its destination under its name when all its content is there, durable, and is what the source had:
//! [`Incoming::finish`] does that, and nothing before it is seen.
//!
//! **Resumption** is the destination's knowledge, not this program's: whoever begins the same version of the same file again
//! is told how much of it is there and verified ([`Incoming::stands_at`]). So a kill, a reboot or days without a network cost what was in flight.
//!
//! **A changed source** is noticed by its [`Version`], before and after its content was read.

pub mod address;
mod dav;
pub mod drive;
mod engine;
pub mod filter;
pub mod ftp;
pub mod imap;
mod local;
mod network;
pub mod options;
pub mod other;
mod part;
mod plan;
mod report;
mod s3;
pub mod sftp;
pub mod signs;
mod site;
pub mod sum;
mod swift;
pub mod web;

pub use dav::DavSite;
pub use engine::{Job, Leg, run};
pub use filter::{Bounds, Filter, Patterns};
pub use imap::ImapSite;
pub use local::LocalSite;
pub use network::Network;
pub use options::{Options, Rename};
pub use report::{Act, Counts, Event, Failure, Progress, Report, UnderWay, What};
pub use s3::S3Site;
pub use sftp::SftpSite;
pub use site::{Content, Incoming, Item, Kind, Listed, Site, Version, Wanted};
pub use swift::SwiftSite;
pub use web::WebSite;
