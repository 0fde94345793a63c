//! The supervisor's side of a program in whose view gates stand.

use crate::audit::Log;
use crate::brokered::Watch;
use holdfast_base::Result;
use holdfast_broker::{Audit, Counters, Record};
use holdfast_gate::{Gate, Options};
use holdfast_policy::Policy;
use holdfast_sandbox::Running;
use rustix::process::{Signal, pidfd_send_signal};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

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
    log: Option<Arc<Log>>,
    end: Arc<End>,
    /// Whether somebody wants to see what is refused.
    watched: bool,
}

impl Gated {
    pub(crate) fn new(policy: Arc<Policy>, watch: Watch) -> Self {
        let watched = watch.is_on();
        let log = watch.log.map(|to| Arc::new(Log::new(to, &policy, "gate")));
        let end = Arc::new(End::default());
        let (kill, ended) = (end.clone(), end.clone());
        let options = Options {
            audit: log.clone().map(|log| Box::new(move |record: &Record<'_>| log.write(record)) as Audit),
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
        Self { gate: Gate::new(policy, options), log, end, watched }
    }

    /// Answers what the kernel asks about a folder.
    pub(crate) fn serve(&self, folder: &Path, device: OwnedFd) -> std::io::Result<()> {
        self.gate.serve(folder, device)
    }

    /// Ends this sandbox, and no other, if it must.
    pub(crate) fn guard(&self, running: &Running) -> Result<()> {
        self.end.of(running)
    }

    pub(crate) fn set(&self, policy: Policy) {
        let policy = Arc::new(policy);
        if let Some(log) = &self.log {
            log.follow(&policy);
        }
        self.gate.replace_judge(policy);
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.watched
    }

    pub(crate) fn unwritten(&self) -> u64 {
        self.log.as_ref().map_or(0, |log| log.unwritten())
    }

    pub(crate) fn counters(&self) -> Counters {
        self.gate.counters()
    }
}
