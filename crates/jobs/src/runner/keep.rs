//! The life of one job: waiting for what makes it run, and running it.

use super::Notice;
use super::follow::{Pending, left, opens, until_over};
use super::inbox::{Inbox, Taken};
use super::mailbox::{self, Mails};
use super::perform::{Hears, Host, Stops, Wanted, perform, recover};
use crate::carry::{Ended, Outcome};
use crate::file::{Job, Set};
use crate::schedule::{Decision, Schedule, decide};
use crate::store::{RunRow, Trigger, Wishes};
use holdfast_base::{Error, ErrorKind, Result};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Longest sleep: the clock may be set meanwhile.
pub(super) const SLEEP_MAX: Duration = Duration::from_secs(30);
/// How often an inbox is looked into, and a lock that somebody else has.
const LOOK: Duration = Duration::from_secs(1);
/// After trouble with the state or the inbox.
const TROUBLE: Duration = Duration::from_secs(30);
/// How long a server of mails may take.
const MAIL_TIME: Duration = Duration::from_mins(1);
/// Runs among which it is looked whether one was begun for a mail.
const MAILS_KNOWN: u64 = 100;
/// Events of a run that wait; nobody is told of them one by one.
const EVENTS_MAX: usize = 256;

/// Keeps a job.
pub(super) struct Keeper {
    host: Arc<Host>,
    name: String,
    set: watch::Receiver<Arc<Set>>,
    stop: watch::Receiver<bool>,
    wishes: watch::Receiver<Wishes>,
    /// Whether a job that is not active is kept, for what is asked of it.
    takes_wishes: bool,
    /// Runs that were asked for, and begun, and may be asked for still by what was read last.
    begun: BTreeSet<i64>,
    notices: mpsc::Sender<Notice>,
    /// Runs that are to be, before any due time: when, and what.
    pending: Vec<Pending>,
    inbox: Option<Inbox>,
    mails: Mails,
    dealt_with: Timestamp,
    /// The one that due times were counted by.
    schedule: Option<Schedule>,
    /// Whether it was begun for the start of the runner.
    started: bool,
}

impl Keeper {
    pub(super) fn new(
        host: Arc<Host>,
        name: String,
        set: watch::Receiver<Arc<Set>>,
        (stop, wishes, takes_wishes): (watch::Receiver<bool>, watch::Receiver<Wishes>, bool),
        notices: mpsc::Sender<Notice>,
    ) -> Self {
        let dealt_with = host.now();
        Self {
            host,
            name,
            set,
            stop,
            wishes,
            takes_wishes,
            begun: BTreeSet::new(),
            notices,
            pending: Vec::new(),
            inbox: None,
            mails: Mails::default(),
            dealt_with,
            schedule: None,
            started: false,
        }
    }

    /// Until it is told to stop, or the job is described no more. Returns the job's name.
    pub(super) async fn keep(mut self) -> String {
        let mut begun = false;
        while !*self.stop.borrow() {
            let Some((set, job)) = self.described() else { break };
            let step = async {
                if !begun {
                    self.begin(&job).await?;
                }
                self.step(&set, &job).await
            };
            match step.await {
                Ok(()) => begun = true,
                Err(error) => {
                    // A run may have been left without an end.
                    begun = false;
                    let _ = self.notices.send(Notice::Trouble(self.name.clone(), error)).await;
                    self.sleep(TROUBLE).await;
                }
            }
        }
        self.name
    }

    fn described(&mut self) -> Option<(Arc<Set>, Arc<Job>)> {
        let set = Arc::clone(&self.set.borrow_and_update());
        let job = set.jobs.get(&self.name).filter(|job| job.text.active || self.takes_wishes).cloned()?;
        Some((set, job))
    }

    /// What an earlier start left.
    async fn begin(&mut self, job: &Job) -> Result<()> {
        let (name, now) = (self.name.clone(), self.host.now());
        let dealt_with = self
            .host
            .store(move |store| match store.dealt_with(&name)? {
                Some(known) => Ok(known),
                // What was due before anybody knew of the job was not missed.
                None => store.deal_with(&name, now.as_millisecond()).map(|()| now.as_millisecond()),
            })
            .await?;
        self.dealt_with = Timestamp::from_millisecond(dealt_with).unwrap_or(now);
        self.pending.clear();
        if let Some(_lock) = self.host.lock_job(&self.name)? {
            let last = tokio::select! {
                last = recover(&self.host, job) => last?,
                _ = self.stop.wait_for(|stop| *stop) => None,
            };
            // What an order asked for is found with the order, and what somebody tried by hand they try again.
            let ours = |last: &RunRow| {
                let failed = matches!(last.result, Some(Ended::Partial | Ended::Failed));
                last.trigger != Trigger::Inbox && !(failed && last.trigger == Trigger::Command)
            };
            self.pending.extend(last.filter(ours).and_then(|last| left(job, &last, now)));
        }
        if job.text.active && job.text.run_on_start && !std::mem::replace(&mut self.started, true) {
            let wanted = Wanted { of_schedule: true, ..Wanted::all(Trigger::Start, now) };
            self.pending.push(Pending::new(now, wanted));
        }
        Ok(())
    }

    async fn step(&mut self, set: &Arc<Set>, job: &Arc<Job>) -> Result<()> {
        let now = self.host.now();
        if self.schedule.as_ref().is_some_and(|known| *known != job.schedule) {
            // What a new schedule would have had before it was known was not missed.
            self.deal_with(now).await?;
        }
        self.schedule = Some(job.schedule.clone());
        let (schedule, tolerance) =
            (&job.schedule, SignedDuration::try_from(job.tolerance()).unwrap_or(SignedDuration::MAX));
        let is_open = schedule.window.is_none_or(|window| window.is_open(&schedule.zone, now));
        if let Some(asked) = self.asked() {
            // Somebody wants it now, whatever its hours are.
            return self.run(set, job, Pending::new(now, asked)).await;
        }
        self.look_into_inbox(job, now).await?;
        if let Err(error) = self.look_into_mailbox(set, job, now).await {
            // Its schedule goes on without it.
            let _ = self.notices.send(Notice::Trouble(self.name.clone(), error)).await;
        }
        if let Some(at) = self.pending.iter().position(|pending| is_open && pending.at <= now) {
            let pending = self.pending.remove(at);
            return self.run(set, job, pending).await;
        }
        let decision = if job.text.active { decide(schedule, tolerance, self.dealt_with, now) } else { Decision::Rest };
        match decision {
            Decision::Begin(due) => {
                let wanted = Wanted { of_schedule: true, ..Wanted::all(Trigger::Schedule, due) };
                self.run(set, job, Pending::new(now, wanted)).await
            }
            Decision::Pass => self.deal_with(now).await,
            Decision::Wait(until) => {
                let next = self.pending.iter().map(|pending| pending.at).chain([until]).min().unwrap_or(until);
                // Of what waits for a window it is the window that is waited for.
                let next = if is_open { next } else { next.max(until.min(opens(job, now).unwrap_or(until))) };
                self.rest(job, now, Some(next)).await;
                Ok(())
            }
            Decision::Rest => {
                let next = self.pending.iter().map(|pending| pending.at).min();
                let next = if is_open { next } else { opens(job, now) };
                self.rest(job, now, next).await;
                Ok(())
            }
        }
    }

    async fn deal_with(&mut self, until: Timestamp) -> Result<()> {
        let name = self.name.clone();
        self.host.store(move |store| store.deal_with(&name, until.as_millisecond())).await?;
        self.dealt_with = until;
        Ok(())
    }

    async fn rest(&mut self, job: &Job, now: Timestamp, until: Option<Timestamp>) {
        let left = until.map_or(SLEEP_MAX, |until| Duration::try_from(until.duration_since(now)).unwrap_or_default());
        let most = if job.text.inbox.is_some() { LOOK } else { SLEEP_MAX };
        // While one waits for its window, no other is looked for.
        let looks = job.text.active && self.pending.iter().all(|pending| pending.mail.is_none());
        let mailbox = job.text.mailbox.as_ref().filter(|_| looks);
        let most = mailbox.map_or(most, |mailbox| most.min(self.mails.left(mailbox)));
        // To the next millisecond, in which the clock counts.
        self.sleep(left.min(most).max(Duration::from_millis(1))).await;
    }

    /// The next run that somebody asked for.
    fn asked(&mut self) -> Option<Wanted> {
        let wishes = self.wishes.borrow_and_update();
        let ours = || wishes.starts.iter().filter(|run| run.job == self.name);
        self.begun.retain(|begun| ours().any(|run| run.id == *begun));
        let run = ours().find(|run| !self.begun.contains(&run.id))?;
        let due = Timestamp::from_millisecond(run.due_ms).unwrap_or_else(|_| self.host.now());
        let (order, by, asked) = (run.order.clone(), run.by.clone(), Some(run.id));
        self.begun.insert(run.id);
        Some(Wanted { order, by, asked, ..Wanted::all(run.trigger, due) })
    }

    /// Sleeps, unless it is told to stop, jobs are described anew, or something is asked for.
    async fn sleep(&mut self, time: Duration) {
        let mut set = self.set.clone();
        tokio::select! {
            _ = self.stop.wait_for(|stop| *stop) => {}
            _ = set.changed() => {}
            Ok(()) = self.wishes.changed() => {}
            () = tokio::time::sleep(time) => {}
        }
    }

    async fn look_into_inbox(&mut self, job: &Job, now: Timestamp) -> Result<()> {
        let Some(folder) = job.text.inbox.as_ref().filter(|_| job.text.active) else {
            self.inbox = None;
            return Ok(());
        };
        if self.pending.iter().any(|pending| pending.taken.is_some()) {
            // One after another.
            return Ok(());
        }
        let folder = job.folder().join(folder);
        let mut inbox = match self.inbox.take() {
            Some(inbox) if inbox.folder() == folder => inbox,
            _ => Inbox::new(folder),
        };
        let looked = tokio::task::spawn_blocking(move || {
            let taken = inbox.take();
            (inbox, taken)
        });
        let (inbox, taken) =
            looked.await.map_err(|error| Error::internal("the inbox could not be looked into").with_source(error))?;
        self.inbox = Some(inbox);
        if let Some((taken, order)) = taken? {
            let wanted = Wanted { order, ..Wanted::all(Trigger::Inbox, now) };
            self.pending.push(Pending { taken: Some(taken), ..Pending::new(now, wanted) });
        }
        Ok(())
    }

    async fn look_into_mailbox(&mut self, set: &Set, job: &Job, now: Timestamp) -> Result<()> {
        let Some(mailbox) = job.text.mailbox.as_ref().filter(|_| job.text.active) else { return Ok(()) };
        if self.pending.iter().any(|pending| pending.mail.is_some()) {
            // One after another.
            return Ok(());
        }
        let found = tokio::select! {
            found = self.mails.look(set, job, mailbox) => found?,
            _ = self.stop.wait_for(|stop| *stop) => None,
            () = tokio::time::sleep(MAIL_TIME) => return Err(Error::unavailable("the mailbox does not answer")),
        };
        let Some(mail) = found else { return Ok(()) };
        let (name, by) = (self.name.clone(), mail.by.clone());
        let runs = self.host.store(move |store| store.runs(Some(&name), MAILS_KNOWN)).await?;
        if runs.iter().any(|run| run.by == by) {
            // It was begun for this mail, and ended before that was marked.
            return mailbox::seen(set, job, mailbox, &mail).await;
        }
        let wanted = Wanted { by, ..Wanted::all(Trigger::Mail, now) };
        self.pending.push(Pending { mail: Some(mail), ..Pending::new(now, wanted) });
        Ok(())
    }

    async fn run(&mut self, set: &Arc<Set>, job: &Arc<Job>, pending: Pending) -> Result<()> {
        let Some(_lock) = self.host.lock_job(&self.name)? else {
            // Somebody started it by hand.
            self.pending.push(pending);
            self.sleep(LOOK).await;
            return Ok(());
        };
        let Pending { wanted, taken, mail, .. } = pending;
        let (quit, (stop, stopping), (cancel, cancelled)) =
            (self.stop.clone(), watch::channel(false), watch::channel(false));
        let (began_id, mut id) = watch::channel(None);
        let (events, mut told) = mpsc::channel(EVENTS_MAX);
        let notices = self.notices.clone();
        let began = async move |row: RunRow| {
            began_id.send_replace(Some(row.id));
            if let (Some(mail), Some(mailbox)) = (&mail, &job.text.mailbox) {
                // What is not marked is known by its number when it is looked at again.
                let marked = tokio::time::timeout(MAIL_TIME, mailbox::seen(set, job, mailbox, mail)).await;
                if !matches!(marked, Ok(Ok(()))) {
                    tracing::warn!(job = %job.name, ?marked, "the mail that started it could not be marked as seen");
                }
            }
            let _ = notices.send(Notice::Began(row)).await;
        };
        let teller = self.notices.clone();
        let progress = move |row| drop(teller.try_send(Notice::Progress(row)));
        let hears = Hears { events: &events, began, progress: &progress };
        let stops = Stops { stop: &stopping, quit: &quit, cancel: &cancelled };
        let windowed = wanted.trigger != Trigger::Api;
        let performed = tokio::select! {
            performed = Box::pin(perform(&self.host, set, job, &wanted, hears, &stops)) => performed,
            never = async { loop { while told.recv().await.is_some() {} } } => never,
            never = until_over(&self.host, job, (self.stop.clone(), cancelled.clone()), windowed, stop) => match never {},
            never = until_cancelled(&mut id, self.wishes.clone(), cancel) => match never {},
        };
        let (row, outcome) = match performed {
            // What was asked for was taken back meanwhile.
            Err(error) if wanted.asked.is_some() && error.kind() == ErrorKind::Conflict => return Ok(()),
            Err(error) => {
                // What was not begun is asked for still.
                self.begun.retain(|begun| Some(*begun) != wanted.asked);
                return Err(error);
            }
            Ok(performed) => performed,
        };
        if wanted.of_schedule {
            self.dealt_with = self.dealt_with.max(wanted.due);
        }
        self.after(job, wanted, taken, &row, &outcome).await?;
        let _ = self.notices.send(Notice::Ended(row)).await;
        Ok(())
    }

    /// What follows from how a run ended: it goes on when the window opens, is tried again, or its order is done.
    async fn after(
        &mut self,
        job: &Job,
        wanted: Wanted,
        taken: Option<Taken>,
        row: &RunRow,
        outcome: &Outcome,
    ) -> Result<()> {
        let now = self.host.now();
        if let Some(next) = left(job, row, now) {
            let trigger = if taken.is_some() { Trigger::Inbox } else { next.wanted.trigger };
            let wanted = Wanted { trigger, order: wanted.order, by: wanted.by, ..next.wanted };
            self.pending.push(Pending { taken, ..Pending::new(next.at, wanted) });
            return Ok(());
        }
        if outcome.result == Ended::Succeeded {
            // What failed before is done now.
            self.pending.retain(|pending| pending.taken.is_some() || pending.wanted.trigger != Trigger::Retry);
        }
        let Some(taken) = taken else { return Ok(()) };
        let (whole, errors) = (outcome.result == Ended::Succeeded, outcome.errors.clone());
        let moved = tokio::task::spawn_blocking(move || taken.finish(whole, &errors)).await;
        moved.map_err(|error| Error::internal("an order could not be put away").with_source(error))?
    }
}

/// Tells a run, once it has a number, that somebody stopped it.
async fn until_cancelled(
    id: &mut watch::Receiver<Option<i64>>,
    mut wishes: watch::Receiver<Wishes>,
    tell: watch::Sender<bool>,
) -> std::convert::Infallible {
    let began = id.wait_for(Option::is_some).await.map(|id| *id);
    if let Ok(Some(id)) = began
        && wishes.wait_for(|wishes| wishes.stops.contains(&id)).await.is_ok()
    {
        tell.send_replace(true);
    }
    std::future::pending().await
}
