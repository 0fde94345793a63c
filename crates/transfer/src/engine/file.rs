//! One file from the source to the destination, for as long as it takes.
//!
//! A try opens the source, begins at the destination, which says what of it is there, and moves the rest. What fails in a way that may go by itself,
//! or falls silent, is begun again after a pause: what arrived is kept by the destination. A source that changed is begun anew in its new version, a
//! few times.

use super::check::Check;
use super::pump::{Broke, pump};
use super::run::{Run, Tries};
use super::shelf::Shelf;
use crate::report::{Progress, Shown};
use crate::signs::watched;
use crate::site::{Content, Incoming, Item, Kind, Site, Wanted};
use holdfast_base::{DrivePath, Error, ErrorKind, Result};
use holdfast_drive::Tag;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Versions of a source that are begun before it is said to change all the time.
const VERSIONS_MAX: u32 = 4;
/// How long the destination may take to put aside what it has, when a try is given up.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// A file to be moved.
pub(super) struct Move<'t> {
    pub(super) source: &'t Arc<dyn Site>,
    pub(super) from: &'t DrivePath,
    pub(super) to: &'t DrivePath,
    pub(super) replaces: Option<Item>,
}

/// A try of a file.
struct Try<'t> {
    shown: &'t Shown,
    /// Tells it from others, if nothing that stands is to be used.
    anew: Option<u128>,
    /// The sum of what arrived, which later tries go on with.
    check: &'t mut Option<Check>,
    /// What came and was not written, likewise.
    shelf: &'t Shelf,
}

/// How a try ended that did not succeed.
enum Ended {
    Failed(Error),
    /// The source is not what was listed.
    Changed(Error),
    /// What arrived, and what stood of it before, has not the sum that the source tells.
    Wrong(Error),
    /// What stands cannot be added up.
    Unknown,
}

/// Moves a file; returns the source's item in the version that arrived.
pub(super) async fn move_file(run: &Run, file: &Move<'_>, item: &Item) -> Result<Item> {
    let mut item = item.clone();
    let mut tries = Tries::new(run, file.to);
    let (mut versions, mut furthest, mut anew) = (1, 0, None);
    let (mut wrong, mut check, shelf) = (false, None, Shelf::default());
    loop {
        let shown = run.progress.begin(file.to, item.size);
        match attempt(run, file, &item, &mut Try { shown: &shown, anew, check: &mut check, shelf: &shelf }).await {
            Ok(()) => return Ok(item),
            // Once more with nothing of what stood: it may have been that.
            Err(Ended::Wrong(error)) if wrong => return Err(error),
            Err(Ended::Wrong(_)) => {
                shelf.clear();
                (wrong, anew) = (true, Some(now()));
            }
            Err(Ended::Unknown) => anew = Some(now()),
            Err(Ended::Changed(error)) => {
                let now = look_again(run, file).await?;
                versions += 1;
                if now.version == item.version || versions > VERSIONS_MAX {
                    let what =
                        if versions > VERSIONS_MAX { "it changes all the time" } else { "the source breaks its word" };
                    return Err(Error::new(ErrorKind::Conflict, format!("{what}: {}", error.message())));
                }
                shelf.clear();
                (item, furthest, wrong) = (now, 0, false);
                tries.progressed();
            }
            Err(Ended::Failed(error)) if error.is_temporary() => {
                let arrived = shown.arrived.load(Ordering::Relaxed);
                if arrived > furthest {
                    furthest = arrived;
                    tries.progressed();
                }
                drop(shown);
                tries.again(error).await?;
            }
            Err(Ended::Failed(error)) => return Err(error),
        }
    }
}

async fn look_again(run: &Run, file: &Move<'_>) -> Result<Item> {
    match run.persist(file.from, || file.source.look(file.from)).await? {
        Some(item) if item.kind == Kind::File => Ok(item),
        Some(_) => Err(Error::new(ErrorKind::WrongKind, "the source is no file any more")),
        None => Err(Error::not_found("it vanished from the source")),
    }
}

async fn attempt(run: &Run, file: &Move<'_>, item: &Item, this: &mut Try<'_>) -> Result<(), Ended> {
    let shown = this.shown;
    let stall = run.options.stall;
    let content = run.unless_stopped(watched(stall, file.source.open(file.from, item))).await.map_err(of_source)?;
    let wanted = wanted(file, item, &run.options.tags, this.anew);
    let begun = run.unless_stopped(watched(stall, run.destination.begin(&wanted))).await;
    let mut incoming = begun.map_err(Ended::Failed)?;
    let stands = incoming.stands_at().min(item.size);
    shown.arrived.store(stands, Ordering::Relaxed);
    if let Err(ended) = moved(run, &*content, &mut *incoming, (item.size, this)).await {
        this.shelf.put_aside(&run.kept);
        put_aside(incoming, file.to).await;
        return Err(ended);
    }
    // Even if it is told to stop now: all of it is there.
    watched(stall, incoming.finish()).await.map_err(Ended::Failed)?;
    let before = shown.arrived.swap(item.size, Ordering::Relaxed);
    Progress::add(&run.progress.moved_bytes, item.size.saturating_sub(before));
    Progress::add(&run.progress.stood_bytes, stands);
    Ok(())
}

/// Moves what is missing, and looks whether it is what the source has.
async fn moved(
    run: &Run,
    content: &dyn Content,
    incoming: &mut dyn Incoming,
    (size, this): (u64, &mut Try<'_>),
) -> Result<(), Ended> {
    let stall = run.options.stall;
    *this.check = Check::go_on(this.check.take(), content.sum());
    if let Some(check) = this.check {
        let known = watched(stall, check.be_of_what_stands(incoming));
        if !run.unless_stopped(known).await.map_err(Ended::Failed)? {
            return Err(Ended::Unknown);
        }
    }
    let moving =
        async { Ok(pump(run, content, incoming, (size, this.check), (&this.shown.arrived, this.shelf)).await) };
    match run.unless_stopped(watched(stall, moving)).await {
        Ok(Ok(())) => {}
        Ok(Err(Broke::Source(error))) => return Err(of_source(error)),
        Ok(Err(Broke::Destination(error))) | Err(error) => return Err(Ended::Failed(error)),
    }
    if !run.unless_stopped(watched(stall, content.is_still())).await.map_err(Ended::Failed)? {
        let what = "the source changed while it was read";
        return Err(Ended::Changed(Error::new(ErrorKind::PreconditionFailed, what)));
    }
    match this.check {
        Some(check) if content.sum().is_some() => check.look().await.map_err(Ended::Wrong),
        _ => Ok(()),
    }
}

async fn put_aside(incoming: Box<dyn Incoming>, path: &DrivePath) {
    if tokio::time::timeout(PAUSE_MAX, incoming.pause()).await.is_err() {
        tracing::debug!(%path, "the destination took too long to put aside what it has");
    }
}

fn of_source(error: Error) -> Ended {
    match error.kind() {
        ErrorKind::PreconditionFailed => Ended::Changed(error),
        _ => Ended::Failed(error),
    }
}

/// Tells one beginning from all others.
fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

/// What is begun anew has a key that nothing was begun under.
fn wanted(file: &Move<'_>, item: &Item, tags: &[Tag], anew: Option<u128>) -> Wanted {
    let anew = anew.map(|at| format!("\nanew {at}")).unwrap_or_default();
    Wanted {
        path: file.to.clone(),
        size: item.size,
        modified_ns: item.modified_ns,
        mode: item.mode,
        key: format!("{}\n{}\n{}{anew}", file.source.address(), file.from, item.version.0),
        replaces: file.replaces.clone(),
        tags: tags.to_vec(),
    }
}
