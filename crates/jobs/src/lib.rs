//! Jobs: transfers that are described in files, and run by schedule.
//!
//! A [file](mod@file) says where from, where to, what and when; a [schedule] answers when a job is due; a [template] makes paths of dates,
//! variables and names. [`carry`] does one run of a job with the transfer crate, inside the [limits](limit) that hold for a site over all jobs. The
//! [`runner`] keeps every job to its schedule, side by side, and writes what it did to a [store], which is also where it learns after a kill what
//! it had begun; a server of a drive keeps that in the catalogue, and has a [`desk`] for administrators. [`import`] writes job files of the files of an older tool.
//!
//! docs/design/jobs.md says why it is so.

pub mod carry;
pub mod desk;
pub mod file;
pub mod import;
pub mod limit;
pub mod place;
pub mod preview;
pub mod runner;
pub mod schedule;
pub mod steps;
pub mod store;
pub mod template;

pub use file::{Job, JobFile, Set};
pub use schedule::Schedule;

/// Now, as schedules count it.
pub fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}
