//! `holdfast bench dav`: WebDAV servers measured side by side.
//!
//! Every workload is measured run by run: run 1 of every target, then run 2 of every target, and so on, each run
//! beginning with another target, so that a disk or host that slows down with time slows all of them. Before each
//! timed run the client writes back what is dirty (`sync`) and warms memory, alike for all; a server that answered
//! before its data was on disk does not leave that work to the next one.
//!
//! Workloads that create many files come before those that delete many, because ext4 creates slowly for a minute
//! after deletes. The files of all runs of one workload live side by side.
//!
//! Each answer's status and length are checked; content is compared once per target and file kind, outside the timed
//! part. A run with any failure gives no figure, is counted, and makes [`Report::failed`] true.
//!
//! Only the given URLs are contacted. Everything is made in one new folder per target, `bench-XXXXXXXX`, which is
//! deleted at the end, also after an error or an interrupt.

mod args;
mod bay;
mod first_byte;
mod lab;
mod listing;
mod options;
mod ranges;
mod remove;
mod session;
mod small;
mod transfer;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;

pub use crate::target::TargetSpec;
pub use args::DavArgs;
pub use options::{DavOptions, Workload};

use crate::frame::Handlers;
use crate::report::Report;
use lab::Lab;

/// Runs the chosen workloads against all targets.
///
/// Fails only for what makes measuring pointless (no target, unusable test data); what goes wrong with a target is
/// in the report, and [`Report::failed`] tells.
pub fn run(options: &DavOptions) -> anyhow::Result<Report> {
    options.check()?;
    let stop = Arc::new(AtomicBool::new(false));
    let handlers = Handlers::install(&stop).context("cannot install the signal handlers")?;
    let mut lab = Lab::new(options, stop)?;
    lab.set_up();
    let measured = run_workloads(&mut lab);
    lab.clean_up();
    drop(handlers);
    measured?;
    Ok(lab.into_report())
}

fn run_workloads(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    transfer::run(lab)?;
    first_byte::run(lab);
    ranges::run(lab)?;
    listing::run(lab);
    small::run(lab);
    Ok(())
}
