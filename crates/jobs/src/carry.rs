//! One run of a job: its paths, its places in their limits, and the transfer, or transfers if its destinations are several.
//!
//! Places are opened once for each server, however many paths of it are named. What fails to open in a way that may go by itself is tried again, as a file
//! would be.

mod open;
mod outcome;
mod plan;

pub use outcome::{Done, Live, Outcome, Result as Ended, Seen, Tally};
pub use plan::Order;
pub(crate) use plan::lines;

use crate::file::{Job, Set};
use crate::limit::{Bucket, Limits};
use holdfast_base::{Error, ErrorKind, Result};
use holdfast_transfer::options::Compare;
use holdfast_transfer::{Event, Leg, Options, Progress, Report, What};
use jiff::ZonedDateTime;
use open::Opener;
use plan::Transfer;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// Events that wait to be looked at.
const EVENTS_MAX: usize = 1_024;

/// Something that happened, and to which destination.
#[derive(Debug)]
pub struct Told {
    /// The address that paths are below.
    pub destination: Arc<str>,
    /// What.
    pub event: Event,
}

/// A run that is wanted.
pub struct Run<'r> {
    /// The job.
    pub job: &'r Job,
    /// All that is described.
    pub set: &'r Set,
    /// When it is due, in the job's zone: what dates in its paths mean.
    pub due: ZonedDateTime,
    /// What of it is wanted.
    pub order: Order,
    /// Limits of sites.
    pub limits: &'r Limits,
    /// Only says what would be done.
    pub dry_run: bool,
}

impl Run<'_> {
    /// Carries it out. What happens is told to `events`, and what was done so far is in `tally`; when `stop` says so, what is under way is put aside.
    pub async fn carry_out(
        &self,
        events: &mpsc::Sender<Told>,
        tally: &Arc<Tally>,
        stop: &watch::Receiver<bool>,
    ) -> Outcome {
        match self.all(events, tally, stop).await {
            Ok(()) => tally.outcome(*stop.borrow()),
            Err(_) if *stop.borrow() => tally.outcome(true),
            Err(error) => tally.failed(&error),
        }
    }

    async fn all(&self, events: &mpsc::Sender<Told>, tally: &Arc<Tally>, stop: &watch::Receiver<bool>) -> Result<()> {
        let transfers = plan::transfers(self)?;
        let rate = self.rate();
        let mut opener = Opener::new(self, &transfers, stop.clone(), rate).await?;
        for transfer in &transfers {
            if *stop.borrow() {
                return Ok(());
            }
            let (legs, destination) = opener.open(transfer).await?;
            self.passes(transfer, (legs, destination), events, tally, stop).await?;
        }
        Ok(())
    }

    /// Moves, and looks at what was moved once more if that is asked for.
    async fn passes(
        &self,
        transfer: &Transfer,
        (legs, destination): (Vec<Leg>, Arc<dyn holdfast_transfer::Site>),
        events: &mpsc::Sender<Told>,
        tally: &Arc<Tally>,
        stop: &watch::Receiver<bool>,
    ) -> Result<()> {
        let options = plan::options(self, transfer)?;
        let verify = self.job.text.verify && !self.dry_run;
        let first = Options { delete_source: options.delete_source && !verify, ..options.clone() };
        let job =
            |options| holdfast_transfer::Job { legs: legs.clone(), destination: Arc::clone(&destination), options };
        let report = self.pass(job(first), Some(events), tally, stop).await?;
        let whole = report.0.counts.failed == 0 && !report.0.stopped;
        tally.add(&report.0);
        if !verify || !whole {
            return Ok(());
        }
        let second = Options { compare: Compare::Content, dry_run: !options.delete_source, ..options };
        let removes = second.delete_source;
        let (report, would) = self.pass(job(second), removes.then_some(events), tally, stop).await?;
        tally.verified(&report, would, removes);
        Ok(())
    }

    /// One transfer; returns its report and the files that a dry run would move.
    async fn pass(
        &self,
        job: holdfast_transfer::Job,
        events: Option<&mpsc::Sender<Told>>,
        tally: &Arc<Tally>,
        stop: &watch::Receiver<bool>,
    ) -> Result<(Report, Vec<String>)> {
        let (sender, mut told) = mpsc::channel(EVENTS_MAX);
        let progress = Arc::new(Progress::default());
        let ends = job.legs.iter().map(|leg| &leg.source).chain([&job.destination]).cloned().collect();
        tally.begin(&progress, ends);
        let at: Arc<str> = job.destination.address().into();
        let relay = async {
            let mut would = Vec::new();
            while let Some(event) = told.recv().await {
                if let Event::Would(act) = &event
                    && matches!(act.what, What::File { .. } | What::Link { .. })
                    && would.len() < outcome::ERRORS_MAX
                {
                    would.push(act.path.to_string());
                }
                if let Some(events) = events {
                    let _ = events.send(Told { destination: Arc::clone(&at), event }).await;
                }
            }
            would
        };
        let (report, would) = tokio::join!(holdfast_transfer::run(job, sender, progress, stop.clone()), relay);
        Ok((report?, would))
    }

    /// The job's own rate, by time of day.
    fn rate(&self) -> Option<Arc<Bucket>> {
        let text = &self.job.text;
        if text.rate.is_none() && text.rate_in.is_empty() {
            return None;
        }
        let (always, zone) = (text.rate.as_ref().map(|rate| rate.0), self.job.schedule.zone.clone());
        let hours: Vec<_> = text.rate_in.iter().map(|of| (*of.window, of.rate.as_ref().map(|rate| rate.0))).collect();
        let now = move || {
            let now = jiff::Timestamp::now();
            hours.iter().find(|(window, _)| window.is_open(&zone, now)).map_or(always, |(_, rate)| *rate)
        };
        Some(Arc::new(Bucket::new(Box::new(now))))
    }
}

/// Something that is wrong with a run as a whole.
fn wrong(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidInput, what)
}
