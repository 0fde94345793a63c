//! Keeping every job to its schedule, side by side.
//!
//! Each job has a task of its own ([`keep`]), which waits, runs and waits again; nothing one does holds up another but the limits of a site that both
//! use. Descriptions are read anew when that is asked for: a file that cannot be read keeps what it said before, and a run that is under way goes on with
//! what it began with. Told to stop, all runs put aside what is under way.

mod follow;
mod inbox;
mod keep;
mod perform;
mod state;

pub use perform::{Host, Wanted, perform, recover};
pub use state::{JobLock, State, default_folder};

use crate::file::{Loaded, Set};
use crate::store::RunRow;
use holdfast_base::{Error, Result};
use keep::Keeper;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

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
    /// A run ended, and its steps are done as far as they will be now.
    Ended(RunRow),
    /// A job cannot do what it should, and tries again.
    Trouble(String, Error),
}

/// A runner of all jobs of some files.
pub struct Runner {
    host: Arc<Host>,
    paths: Vec<PathBuf>,
    files: Vec<Loaded>,
    set: watch::Sender<Arc<Set>>,
    notices: mpsc::Sender<Notice>,
}

impl Runner {
    /// Reads the files, all of which must be right the first time.
    pub fn new(host: Arc<Host>, paths: Vec<PathBuf>, notices: mpsc::Sender<Notice>) -> Result<Self> {
        let files = paths.iter().map(|path| Loaded::read(path)).collect::<Result<Vec<_>>>()?;
        let set = watch::Sender::new(Arc::new(Set::of(&files)?));
        Ok(Self { host, paths, files, set, notices })
    }

    /// Runs until it is told to stop; `reload` asks for files to be read anew.
    pub async fn run(mut self, stop: watch::Receiver<bool>, mut reload: mpsc::Receiver<()>) -> Result<()> {
        let mut stopped = stop.clone();
        self.forgive_removed().await?;
        let (mut tasks, mut kept) = (JoinSet::new(), BTreeSet::new());
        self.keep_all(&mut tasks, &mut kept, &stop);
        self.say(Notice::Ready(self.names())).await;
        loop {
            tokio::select! {
                biased;
                _ = stopped.wait_for(|stop| *stop) => break,
                Some(()) = reload.recv() => {
                    let notice = match self.reload() {
                        Ok(()) => Notice::Reloaded(self.names()),
                        Err(error) => Notice::NotReloaded(error),
                    };
                    self.keep_all(&mut tasks, &mut kept, &stop);
                    self.say(notice).await;
                }
                Some(ended) = tasks.join_next() => match ended {
                    Ok(name) => {
                        kept.remove(&name);
                        // It may have been described again in between.
                        self.keep_all(&mut tasks, &mut kept, &stop);
                    }
                    Err(error) => tracing::error!(%error, "a job's task ended; its job rests until the next start"),
                },
            }
        }
        while tasks.join_next().await.is_some() {}
        Ok(())
    }

    fn keep_all(&self, tasks: &mut JoinSet<String>, kept: &mut BTreeSet<String>, stop: &watch::Receiver<bool>) {
        let set = Arc::clone(&self.set.borrow());
        for name in set.jobs.iter().filter(|(_, job)| job.text.active).map(|(name, _)| name) {
            if !kept.contains(name) {
                kept.insert(name.clone());
                let keeper = Keeper::new(
                    Arc::clone(&self.host),
                    name.clone(),
                    self.set.subscribe(),
                    stop.clone(),
                    self.notices.clone(),
                );
                tasks.spawn(keeper.keep());
            }
        }
    }

    /// Reads all files anew. Those that cannot be read keep what they said, which is told.
    fn reload(&mut self) -> Result<()> {
        let (mut files, mut wrong) = (Vec::with_capacity(self.paths.len()), None);
        for (path, known) in self.paths.iter().zip(&self.files) {
            match Loaded::read(path) {
                Ok(loaded) => files.push(loaded),
                Err(error) => {
                    files.push(known.clone());
                    wrong = wrong.or(Some(error));
                }
            }
        }
        let set = Set::of(&files)?;
        self.files = files;
        self.set.send_replace(Arc::new(set));
        wrong.map_or(Ok(()), Err)
    }

    /// Runs of jobs that nobody describes any more end, and owe nothing.
    async fn forgive_removed(&self) -> Result<()> {
        let set = Arc::clone(&self.set.borrow());
        let now_ms = self.host.clock.now_ms();
        self.host
            .store(move |store| {
                for run in store.unfinished()?.iter().filter(|run| !set.jobs.contains_key(&run.job)) {
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
        self.set.borrow().jobs.values().filter(|job| job.text.active).map(|job| job.name.clone()).collect()
    }

    async fn say(&self, notice: Notice) {
        let _ = self.notices.send(notice).await;
    }
}
