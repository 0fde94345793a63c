//! Keeping every job to its schedule, side by side.
//!
//! Each job has a task of its own ([`keep`]), which waits, runs and waits again; nothing one does holds up another but the limits of a site that both
//! use. Descriptions are read anew when that is asked for: a file that cannot be read keeps what it said before, and a run that is under way goes on with
//! what it began with. Told to stop, all runs put aside what is under way.

mod follow;
mod inbox;
mod keep;
mod mailbox;
mod perform;
mod state;

pub(crate) use mailbox::check as check_mailbox;
pub use perform::{Hears, Host, Stops, Wanted, perform, recover};
pub use state::{JobLock, State, default_folder};

use crate::file::{Described, Job};
use crate::store::{RunRow, Store, Wishes};
use holdfast_base::{Error, Result};
use keep::Keeper;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

/// How often it is looked what somebody asked for.
const LOOK: Duration = Duration::from_secs(1);

/// Something that happened to the runner.
#[derive(Debug)]
pub enum Notice {
    /// It keeps these jobs.
    Ready(Vec<String>),
    /// Files were read anew.
    Reloaded(Vec<String>),
    /// They were not, or not all of them: what they said before stays.
    NotReloaded(Error),
    /// A run began.
    Began(RunRow),
    /// How far a run is; left out for whoever is too slow to hear it.
    Progress(RunRow),
    /// A run ended, and its steps are done as far as they will be now.
    Ended(RunRow),
    /// A job cannot do what it should, and tries again.
    Trouble(String, Error),
}

/// A runner of all jobs of some files.
pub struct Runner {
    host: Arc<Host>,
    described: Arc<Described>,
    notices: mpsc::Sender<Notice>,
    wishes: watch::Sender<Wishes>,
    /// Whether somebody can ask for runs.
    takes_wishes: bool,
}

impl Runner {
    /// A runner that tells of what happens.
    pub fn new(host: Arc<Host>, described: Arc<Described>, notices: mpsc::Sender<Notice>) -> Self {
        Self { host, described, notices, wishes: watch::Sender::default(), takes_wishes: false }
    }

    /// Runs until it is told to stop. Dropped, it leaves runs without an end, which the next one finds.
    pub async fn run(mut self, stop: watch::Receiver<bool>) -> Result<()> {
        let (mut stopped, mut described) = (stop.clone(), self.described.follow());
        described.mark_unchanged();
        self.forgive_removed().await?;
        self.takes_wishes = self.look_for_wishes().await?;
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut tasks, mut kept) = (JoinSet::new(), BTreeSet::new());
        self.keep_all(&mut tasks, &mut kept, &stop);
        self.say(Notice::Ready(self.names())).await;
        loop {
            tokio::select! {
                biased;
                () = is_true(&mut stopped) => break,
                Ok(()) = described.changed() => {
                    self.keep_all(&mut tasks, &mut kept, &stop);
                    self.say(Notice::Reloaded(self.names())).await;
                }
                Some(ended) = tasks.join_next() => match ended {
                    Ok(name) => {
                        kept.remove(&name);
                        // It may have been described again in between.
                        self.keep_all(&mut tasks, &mut kept, &stop);
                    }
                    Err(error) => tracing::error!(%error, "a job's task ended; its job rests until the next start"),
                },
                _ = looks.tick(), if self.takes_wishes => {
                    if let Err(error) = self.look_for_wishes().await {
                        tracing::warn!(%error, "what was asked for of jobs could not be read; it is tried again");
                    }
                }
            }
        }
        while tasks.join_next().await.is_some() {}
        Ok(())
    }

    /// Answers whether there can be any.
    async fn look_for_wishes(&self) -> Result<bool> {
        let Some(wishes) = self.host.store(Store::wishes).await? else { return Ok(false) };
        self.wishes.send_if_modified(|known| {
            let changed = *known != wishes;
            *known = wishes;
            changed
        });
        Ok(true)
    }

    fn keep_all(&self, tasks: &mut JoinSet<String>, kept: &mut BTreeSet<String>, stop: &watch::Receiver<bool>) {
        // What rests by its description can be asked for all the same.
        let is_kept = |job: &Job| job.text.active || self.takes_wishes;
        for name in self.described.now().jobs.values().filter(|job| is_kept(job)).map(|job| &job.name) {
            if !kept.contains(name) {
                kept.insert(name.clone());
                let keeper = Keeper::new(
                    Arc::clone(&self.host),
                    name.clone(),
                    self.described.follow(),
                    (stop.clone(), self.wishes.subscribe(), self.takes_wishes),
                    self.notices.clone(),
                );
                tasks.spawn(keeper.keep());
            }
        }
    }

    /// Runs of jobs that nobody describes any more end, those that were asked for too, and owe nothing.
    async fn forgive_removed(&self) -> Result<()> {
        let set = self.described.now();
        let now_ms = self.host.clock.now_ms();
        self.host
            .store(move |store| {
                let asked = store.wishes()?.unwrap_or_default().starts;
                for run in store.unfinished()?.iter().chain(&asked).filter(|run| !set.jobs.contains_key(&run.job)) {
                    store.end(run.id, now_ms, &perform::interrupted(run))?;
                }
                for run in store.owing()?.iter().filter(|run| !set.jobs.contains_key(&run.job)) {
                    store.steps_done(run.id, &["the job is described no more".into()])?;
                }
                Ok(())
            })
            .await
    }

    fn names(&self) -> Vec<String> {
        self.described.now().jobs.values().filter(|job| job.text.active).map(|job| job.name.clone()).collect()
    }

    async fn say(&self, notice: Notice) {
        let _ = self.notices.send(notice).await;
    }
}

/// Until it is; what is waited for is not held on to.
async fn is_true(value: &mut watch::Receiver<bool>) {
    let _ = value.wait_for(|value| *value).await;
}
