//! `holdfast push`, `pull` and `sync`: files between places, as the transfer crate moves them.

use super::block_on;
use super::transfer_args::{MoveArgs, SharedArgs, SyncArgs};
use super::transfer_show::Show;
use holdfast_base::Error;
use holdfast_transfer::address::{self, Place};
use holdfast_transfer::options::Delete;
use holdfast_transfer::{Job, Leg, Options, Progress, Report};
use std::process::ExitCode;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};

/// Some of it failed and the rest is done (`EX_IOERR` of sysexits(3)).
const PARTIAL: u8 = 74;
/// As a shell says of a program that a signal ended.
const INTERRUPTED: u8 = 130;
const TERMINATED: u8 = 143;
/// Events that wait to be shown: a terminal that is stopped holds the transfer up, and no memory fills.
const EVENTS_MAX: usize = 1_024;

/// `push` and `pull`, which differ in what people call the other end.
pub(crate) fn push(args: &MoveArgs, json: bool) -> anyhow::Result<ExitCode> {
    block_on(async {
        let options = Options { delete_source: args.delete_source, ..args.shared.options()? };
        let access = args.shared.access()?;
        let (from, to) = args.places()?;
        let mut sources = Vec::with_capacity(from.len());
        for source in from {
            sources.push(address::source_of(source, &access).await?);
        }
        let destination = address::destination_of(to, &access).await?;
        let legs = address::legs(sources, &destination)?;
        transfer(Job { legs, destination: destination.site, options }, json, &args.shared).await
    })
}

/// `sync`.
pub(crate) fn sync(args: &SyncArgs, json: bool) -> anyhow::Result<ExitCode> {
    let delete = match (args.delete, args.delete_anyway) {
        (_, true) => Delete::Anyway,
        (true, false) => Delete::AfterSuccess,
        (false, false) if args.delete_empty => {
            return Err(Error::invalid("--delete-empty says how far --delete goes, which is not there").into());
        }
        (false, false) => Delete::No,
    };
    block_on(async {
        let options = Options { delete, delete_if_empty: args.delete_empty, ..args.shared.options()? };
        let access = args.shared.access()?;
        let source = address::source_of(&args.source, &access).await?;
        address::must_be_folder(&source).await?;
        let Place { site, path, .. } = address::destination_of(&args.destination, &access).await?;
        let leg = Leg { source: source.site, from: source.path, to: path };
        transfer(Job { legs: vec![leg], destination: site, options }, json, &args.shared).await
    })
}

async fn transfer(job: Job, json: bool, shared: &SharedArgs) -> anyhow::Result<ExitCode> {
    let signals = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let (stop, stopping) = watch::channel(false);
    let (events, told) = mpsc::channel(EVENTS_MAX);
    let progress = Arc::new(Progress::default());
    let asked = tokio::spawn(listen(signals, stop));
    let dry_run = job.options.dry_run;
    let sites = std::iter::once(&job.destination).chain(job.legs.iter().map(|leg| &leg.source)).cloned().collect();
    let show = Show::new(json, shared.quiet, dry_run, sites, shared.metrics());
    let shown = tokio::spawn(show.follow(told, Arc::clone(&progress)));
    let done = holdfast_transfer::run(job, events, progress, stopping).await;
    let mut show = shown.await?;
    let report = done?;
    show.end(&report);
    if report.stopped {
        // What is fatal was told above, so it was a signal.
        return Ok(ExitCode::from(asked.await?));
    }
    Ok(if is_whole(&report) { ExitCode::SUCCESS } else { ExitCode::from(PARTIAL) })
}

fn is_whole(report: &Report) -> bool {
    report.counts.failed == 0 && report.kept.is_none()
}

/// The first signal puts aside what is under way, and is the exit code; a second one ends at once.
pub(super) async fn listen((mut interrupt, mut terminate): (Signal, Signal), stop: watch::Sender<bool>) -> u8 {
    let code = tokio::select! {
        _ = interrupt.recv() => INTERRUPTED,
        _ = terminate.recv() => TERMINATED,
    };
    stop.send_replace(true);
    tokio::spawn(async move {
        tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
        std::process::exit(i32::from(code));
    });
    code
}
