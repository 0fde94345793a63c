//! Carrying a transfer out.
//!
//! | module | what it does |
//! |---|---|
//! | `walk`, `cursor` | both sides side by side, in order of name: what is to be looked at |
//! | `lanes` | many small and a few large files at a time |
//! | `one` | decides about one file or link, and does that |
//! | `file`, `pump` | one file's content, with tries, read-ahead and bounded memory |
//! | `renamed` | where a file arrives that has another path there |
//! | `check` | what arrived against the sum that the source tells |
//! | `folders` | folders of the destination, made when something goes into them |
//! | `sweep` | what `sync` removes |
//! | `run`, `rate` | what they share: the budget of memory, the rate, failures, pauses, the order to stop |
//!
//! **Memory** does not depend on how much there is: pages of listings, 1,024 files that wait in each lane, 64 MiB of content between both sides, a thousand
//! failures for the end.

mod check;
mod content;
mod cursor;
mod file;
mod folders;
mod lanes;
mod one;
mod pump;
mod rate;
mod renamed;
mod run;
mod shelf;
mod sweep;
#[cfg(test)]
mod tests;
mod walk;

use crate::options::{Delete, IfExists, Options};
use crate::report::{Event, Progress, Report};
use crate::site::{Kind, Site};
use cursor::Cursor;
use holdfast_base::{DrivePath, Error, ErrorKind, Result};
use lanes::Lanes;
use run::Run;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use sweep::Sweep;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use walk::{Spot, Walk};

/// One source of a transfer, and where it goes.
#[derive(Clone)]
pub struct Leg {
    /// The site it is in.
    pub source: Arc<dyn Site>,
    /// Its path there.
    pub from: DrivePath,
    /// The path it has at the destination.
    pub to: DrivePath,
}

/// A transfer.
pub struct Job {
    /// What is moved.
    pub legs: Vec<Leg>,
    /// Where to.
    pub destination: Arc<dyn Site>,
    /// How.
    pub options: Options,
}

/// Carries a transfer out. What happens is told to `events`, and `progress` can be looked at meanwhile; when `stop` says so, what is under way is put aside for
/// the next time. An error is one of the whole; what failed of it is in the report.
pub async fn run(
    job: Job,
    events: mpsc::Sender<Event>,
    progress: Arc<Progress>,
    stop: watch::Receiver<bool>,
) -> Result<Report> {
    let begun = Instant::now();
    check(&job.options)?;
    if !job.options.tags.is_empty() && !job.destination.takes_tags() {
        let why = format!("files have tags in a drive: at {} there are none", job.destination.address());
        return Err(Error::invalid(why));
    }
    job.legs.iter().try_for_each(|leg| apart(leg, &*job.destination, &job.options))?;
    let run = Arc::new(Run::new(job.destination, job.options, progress, events));
    let relay = tokio::spawn(relay_stop(stop, run.stop.clone()));
    let done = carry_out(&run, &job.legs).await;
    relay.abort();
    let stopped = run.is_stopped();
    if let Some(fatal) = run.fatal.lock().take() {
        return Err(fatal);
    }
    let kept = match done {
        Ok(kept) => kept,
        Err(_) if stopped => None,
        Err(error) => return Err(error),
    };
    let failures = std::mem::take(&mut *run.failures.lock());
    let mut ends = std::iter::once(&run.destination).chain(job.legs.iter().map(|leg| &leg.source));
    let network = ends.find_map(|site| site.network());
    Ok(Report { counts: run.progress.counts(), failures, stopped, kept, took: begun.elapsed(), network })
}

/// Refuses what contradicts itself.
fn check(options: &Options) -> Result<()> {
    let deletes = options.delete != Delete::No;
    if deletes && options.if_exists == IfExists::KeepBoth {
        return Err(Error::invalid(
            "what is kept beside another would be removed at once, since the source has not got it",
        ));
    }
    if deletes && options.rename.is_some() {
        return Err(Error::invalid(
            "what is renamed cannot be told from what the source has not, and would be removed",
        ));
    }
    if deletes && options.delete_source {
        return Err(Error::invalid(
            "what is removed from the source would be removed at the destination the next time",
        ));
    }
    Ok(())
}

/// Refuses a source that is its own destination, which `--delete-source` would remove, and one that would grow while it is walked; and, where something is
/// removed, a source that is in the way of that.
fn apart(leg: &Leg, destination: &dyn Site, options: &Options) -> Result<()> {
    let place = |site: &dyn Site, path: &DrivePath| format!("{}{path}", site.address().trim_end_matches('/'));
    let (from, to) = (place(&*leg.source, &leg.from), place(destination, &leg.to));
    let inside = |inner: &str, outer: &str| {
        inner
            .trim_end_matches('/')
            .strip_prefix(outer.trim_end_matches('/'))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if inside(&to, &from) {
        return Err(Error::invalid(format!("{from} would arrive in itself, as {to}")));
    }
    if options.delete != Delete::No && inside(&from, &to) {
        return Err(Error::invalid(format!("{from} is in {to}, and would be removed with what it has not")));
    }
    Ok(())
}

async fn relay_stop(mut asked: watch::Receiver<bool>, stop: watch::Sender<bool>) {
    if asked.wait_for(|asked| *asked).await.is_ok() {
        stop.send_replace(true);
    } else {
        // Nobody is left who could ask.
        std::future::pending::<()>().await;
    }
}

/// Returns why nothing was removed, if something was to be.
async fn carry_out(run: &Arc<Run>, legs: &[Leg]) -> Result<Option<String>> {
    let deletes = run.options.delete != Delete::No;
    if deletes {
        for leg in legs {
            refuse_empty(run, leg).await?;
        }
    }
    let mut put_off = Vec::new();
    for group in legs.chunk_by(|a, b| a.to != b.to && !a.to.is_root() && a.to.parent() == b.to.parent()) {
        let spots = group.iter().map(|leg| (&leg.source, leg.spot()));
        walk_all(run, spots, deletes.then_some(&mut put_off), legs.len() == 1).await?;
    }
    run.progress.walked.store(true, Ordering::Relaxed);
    settle(run).await?;
    if !deletes || run.is_stopped() {
        return Ok(None);
    }
    let in_the_way: HashSet<DrivePath> = put_off.iter().map(|spot: &Spot| spot.to.clone()).collect();
    let failed = run.progress.counts().failed;
    if failed > 0 && run.options.delete != Delete::Anyway {
        return Ok(Some(format!("{failed} failed before, and only a whole success lets anything be removed")));
    }
    for leg in legs {
        refuse_empty(run, leg).await?;
        Sweep { run, source: &leg.source, put_off: &in_the_way }.sweep(leg.spot()).await?;
    }
    if let ([leg], false) = (legs, put_off.is_empty()) {
        walk_all(run, put_off.into_iter().map(|spot| (&leg.source, spot)), None, false).await?;
        settle(run).await?;
    }
    Ok(None)
}

/// Moves sources that do not meet at the destination, beside each other.
async fn walk_all<'l>(
    run: &Arc<Run>,
    spots: impl Iterator<Item = (&'l Arc<dyn Site>, Spot)>,
    mut put_off: Option<&mut Vec<Spot>>,
    alone: bool,
) -> Result<()> {
    let lanes = Lanes::start(run);
    let mut walked = Ok(());
    for (source, spot) in spots {
        let from = spot.from.clone();
        let walk = Walk { run, source, lanes: &lanes, put_off: put_off.as_deref_mut() };
        if let Err(error) = { walk }.walk(spot).await {
            // What there is nothing else beside is the whole.
            if alone {
                walked = Err(error);
            } else {
                run.failed(from, &error).await;
            }
        }
    }
    lanes.finish().await;
    walked
}

async fn settle(run: &Run) -> Result<()> {
    if run.options.dry_run || run.is_stopped() {
        return Ok(());
    }
    run.persist(&DrivePath::root(), || run.destination.settle()).await
}

/// A source with nothing in it is more often one that is not mounted than one that was emptied.
async fn refuse_empty(run: &Run, leg: &Leg) -> Result<()> {
    let found = run.persist(&leg.from, || leg.source.look(&leg.from)).await?;
    match found {
        Some(item) if item.kind == Kind::Folder => {}
        Some(_) => return Err(Error::new(ErrorKind::WrongKind, "only what is missing in a folder can be removed")),
        None => return Err(Error::not_found(format!("there is no {} in {}", leg.from, leg.source.address()))),
    }
    if run.options.delete_if_empty {
        return Ok(());
    }
    let mut members = Cursor::new(Arc::clone(&leg.source), leg.from.clone());
    if members.peek(run).await?.is_none() && members.refused.is_empty() {
        let what = "the source is empty, so everything at the destination would be removed: say --delete-empty if that is meant";
        return Err(Error::new(ErrorKind::Conflict, what));
    }
    Ok(())
}

impl Leg {
    fn spot(&self) -> Spot {
        Spot { from: self.from.clone(), to: self.to.clone(), named: DrivePath::root() }
    }
}
