//! The supervisor's side of a program in whose view gates stand.

use crate::audit::Log;
use crate::brokered::Watch;
use holdfast_base::Result;
use holdfast_broker::Counters;
use holdfast_gate::{Gate, Options};
use holdfast_policy::{Judge, Policy};
use holdfast_sandbox::Running;
use rustix::process::{Signal, pidfd_send_signal};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// What ends a sandbox. It must not keep anything of it: the sandbox's mounts, and with them the gates, are there as long as somebody has them.
#[derive(Debug, Default)]
struct End {
    process: OnceLock<OwnedFd>,
    wanted: AtomicBool,
}

impl End {
    fn now(&self) {
        self.wanted.store(true, Ordering::SeqCst);
        if let Some(process) = self.process.get() {
            // It may have ended.
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
    }

    fn of(&self, running: &Running) -> Result<()> {
        let process = running.process().try_clone_to_owned()?;
        let _ = self.process.set(process);
        if self.wanted.load(Ordering::SeqCst) {
            self.now();
        }
        Ok(())
    }
}

/// The gates of a program.
#[derive(Debug)]
pub(crate) struct Gated {
    gate: Arc<Gate>,
    log: Arc<Log>,
    end: Arc<End>,
    /// Whether somebody wants to see what is refused.
    watched: bool,
    /// Policies under which what is open may have been opened; none if they were too many to keep.
    before: Mutex<Option<Vec<Arc<Policy>>>>,
}

/// Most policies that are kept to know under which a file was opened.
const BEFORE_MAX: usize = 64;

impl Gated {
    pub(crate) fn new(policy: Arc<Policy>, watch: Watch) -> Self {
        let watched = watch.is_on();
        let log = Arc::new(Log::new(watch.log, &policy, "gate"));
        let telling = log.clone();
        let end = Arc::new(End::default());
        let (kill, ended) = (end.clone(), end.clone());
        let options = Options {
            audit: Some(Box::new(move |record| telling.write(record))),
            audit_allowed: watch.everything,
            kill_after: watch.kill_after,
            on_kill: Box::new(move || kill.now()),
            on_end: Box::new(move |why| {
                if let Some(why) = why {
                    eprintln!("holdfast: {why}");
                }
                ended.now();
            }),
        };
        let before = Mutex::new(Some(vec![policy.clone()]));
        Self { gate: Gate::new(policy, options), log, end, watched, before }
    }

    /// Answers what the kernel asks about a folder.
    pub(crate) fn serve(&self, folder: &Path, device: OwnedFd) -> std::io::Result<()> {
        self.gate.serve(folder, device)
    }

    /// Ends this sandbox, and no other, if it must.
    pub(crate) fn guard(&self, running: &Running) -> Result<()> {
        self.end.of(running)
    }

    pub(crate) fn set(&self, policy: Arc<Policy>) {
        self.log.follow(&policy);
        let mut before = self.before();
        match before.as_mut() {
            Some(kept) if kept.len() < BEFORE_MAX => kept.push(policy.clone()),
            _ => *before = None,
        }
        drop(before);
        self.gate.replace_judge(policy);
    }

    fn before(&self) -> MutexGuard<'_, Option<Vec<Arc<Policy>>>> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether each call of reading and writing a file is asked about, whenever it was opened.
    pub(crate) fn asks_each_call(&self, path: &Path) -> bool {
        self.before().as_ref().is_some_and(|kept| kept.iter().all(|policy| !policy.of_each_call(path).is_empty()))
    }

    /// Says that nothing is open any more that could not be opened under this policy.
    pub(crate) fn revoked(&self, policy: Arc<Policy>) {
        *self.before() = Some(vec![policy]);
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.watched
    }

    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    pub(crate) fn counters(&self) -> Counters {
        self.gate.counters()
    }
}
