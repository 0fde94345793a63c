//! Clients that work at random until the server is gone, and then judge what is left of their work.
//!
//! Each [`Worker`] is alone in its folder, so its [`Model`] knows what every answer must be and what the folder must hold. When
//! a request gets no answer, or one that says the server could not (5xx), it may or may not have been done: both are right,
//! a mixture is not. So after a crash everything a worker ever got acknowledged is judged, byte by byte.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use holdfast_testkit::http::Client;
use holdfast_testkit::model::{Failure, Generator, Model, Op, TreePath, Weights, check_either, check_tree, play};
use holdfast_testkit::rng::Prng;

use crate::Outcome;

/// Nodes a worker's tree has at most; beyond that it deletes, so that judging stays cheap however long a test runs.
const NODES_MAX: usize = 120;
/// Operations of a worker's history that are kept: some power cuts' worth.
const HISTORY: usize = 60;

/// One client in a folder of its own.
#[derive(Debug)]
pub struct Worker {
    base: String,
    model: Model,
    generator: Generator,
    /// What was asked and not answered.
    unanswered: Option<Op>,
    /// Statuses of answers that said the server could not.
    refusals: Vec<u16>,
    /// Whether the folder was made for certain.
    begun: bool,
    /// The last operations and what came of each, for whoever has to find out what went wrong.
    history: VecDeque<String>,
}

/// Several workers, and how far they are.
#[derive(Debug)]
pub struct Crew {
    workers: Vec<Worker>,
}

/// Counts answers of a running burst.
#[derive(Debug, Default)]
pub struct Progress {
    state: Mutex<Counted>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Counted {
    answers: u64,
    /// A worker has stopped, whyever.
    over: bool,
}

impl Progress {
    fn locked(&self) -> MutexGuard<'_, Counted> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, change: impl FnOnce(&mut Counted)) {
        change(&mut self.locked());
        self.changed.notify_all();
    }

    /// Waits until so many requests were answered, or a worker has stopped.
    pub fn wait_for(&self, answers: u64) {
        let waiting = |state: &mut Counted| state.answers < answers && !state.over;
        drop(self.changed.wait_while(self.locked(), waiting));
    }

    /// Requests answered so far.
    pub fn answers(&self) -> u64 {
        self.locked().answers
    }
}

/// Operations of bursts: many changes, deletes that keep trees small, no locks, whose tokens nobody would know after a crash.
fn weights() -> Weights {
    Weights { get: 5, put: 35, delete: 12, mkcol: 15, copy: 8, rename: 12, proppatch: 8, lock: 0, unlock: 0 }
}

impl Worker {
    fn new(base: String, seed: u64, max_bytes: u64) -> Self {
        let generator = Generator::new(seed, weights(), max_bytes);
        Self {
            base,
            model: Model::new(),
            generator,
            unanswered: None,
            refusals: Vec::new(),
            begun: false,
            history: VecDeque::new(),
        }
    }

    fn remember(&mut self, what: String) {
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(what);
    }

    /// Works until a request is not answered, or `enough` says so after one was.
    fn work(&mut self, client: &mut Client, progress: &Progress, enough: &impl Fn() -> bool) -> Outcome {
        if !self.begin(client)? {
            return Ok(());
        }
        while !enough() {
            let op = self.next_op();
            let played = play(client, &self.base, &mut self.model, &op);
            self.remember(format!("{op:?}: {:?}", played.as_ref().map_err(ToString::to_string)));
            match played {
                Ok(_) => progress.note(|state| state.answers += 1),
                Err(failure @ (Failure::Io(_) | Failure::Server { .. })) => {
                    if let Failure::Server { status, .. } = failure {
                        self.refusals.push(status);
                    }
                    self.unanswered = Some(op);
                    return Ok(());
                }
                Err(error) => return Err(format!("{}: {error}", self.base).into()),
            }
        }
        Ok(())
    }

    /// Makes so many requests. After one that the server says it could not do, looks which of the two happened and goes on.
    /// Returns the statuses of those.
    fn persist(&mut self, client: &mut Client, requests: u64) -> Outcome<Vec<u16>> {
        let mut refusals = Vec::new();
        for _ in 0..requests {
            if !self.begin(client)? {
                continue;
            }
            let op = self.next_op();
            match play(client, &self.base, &mut self.model, &op) {
                Ok(_) => {}
                Err(Failure::Server { status, .. }) => {
                    refusals.push(status);
                    self.unanswered = Some(op);
                    self.judge(client)?;
                }
                Err(error) => return Err(format!("{}: {error}", self.base).into()),
            }
        }
        Ok(refusals)
    }

    /// Makes the folder, unless it is there; says whether it is.
    fn begin(&mut self, client: &mut Client) -> Outcome<bool> {
        if !self.begun {
            match client.mkcol(&self.base).map(|answer| answer.status) {
                // 405: it was made by a request whose answer was lost.
                Ok(201 | 405) => self.begun = true,
                Ok(500..) | Err(_) => {}
                Ok(status) => return Err(format!("MKCOL {}: {status}", self.base).into()),
            }
        }
        Ok(self.begun)
    }

    fn next_op(&mut self) -> Op {
        if self.model.nodes().count() > NODES_MAX {
            let largest = self.model.nodes().map(|(path, _)| path).filter(|path| path.depth() == 1);
            let below = |path: &TreePath| self.model.nodes().filter(|(other, _)| other.is_within(path)).count();
            if let Some(path) = largest.max_by_key(|path| below(path)).cloned() {
                return Op::Delete { path, tokens: false };
            }
        }
        self.generator.next_op(&self.model)
    }

    /// Compares everything with the model; what was not answered may have been done or not.
    fn judge(&mut self, client: &mut Client) -> Outcome {
        if !self.begun {
            return Ok(());
        }
        let judged = self.compare(client);
        let history = || self.history.iter().map(String::as_str).collect::<Vec<_>>().join("\n");
        judged.map_err(|error| format!("{}: {error}; before that:\n{}", self.base, history()))?;
        self.remember("judged".to_owned());
        Ok(())
    }

    fn compare(&mut self, client: &mut Client) -> Result<(), Failure> {
        match self.unanswered.take() {
            None => check_tree(client, &self.base, &self.model),
            Some(op) => {
                let after = self.model.predict(&op).failure.is_empty().then(|| self.model.after(&op));
                let before = std::mem::take(&mut self.model);
                let after = after.unwrap_or_else(|| before.clone());
                self.model = check_either(client, &self.base, before, after)?;
                Ok(())
            }
        }
    }
}

impl Crew {
    /// Workers in folders of `home`, by seed: all but one with files up to some blocks, one with files up to `large_bytes`.
    pub fn new(seed: u64, count: usize, home: &str, large_bytes: u64) -> Self {
        let mut rng = Prng::new(seed);
        let worker = |number| {
            let max_bytes = if number == 0 { large_bytes } else { 3 << 20 };
            Worker::new(format!("{home}/worker{number}"), rng.next_u64(), max_bytes)
        };
        Self { workers: (0..count).map(worker).collect() }
    }

    /// All work at once until `enough` or the server is gone, while `disturb` runs beside them. Returns the number of requests
    /// that were answered.
    pub fn work(
        &mut self,
        client: &Client,
        enough: impl Fn(&Progress) -> bool + Sync,
        disturb: impl FnOnce(&Progress) -> Outcome,
    ) -> Outcome<u64> {
        self.work_on(std::slice::from_ref(client), enough, disturb)
    }

    /// The same over several nodes, each worker at one of them.
    pub fn work_on(
        &mut self,
        clients: &[Client],
        enough: impl Fn(&Progress) -> bool + Sync,
        disturb: impl FnOnce(&Progress) -> Outcome,
    ) -> Outcome<u64> {
        let progress = Progress::default();
        let (progress, enough) = (&progress, &enough);
        thread::scope(|scope| {
            let threads: Vec<_> = self
                .workers
                .iter_mut()
                .zip(clients.iter().cycle())
                .map(|(worker, client)| {
                    let mut client = client.clone();
                    scope.spawn(move || {
                        let outcome = worker.work(&mut client, progress, &|| enough(progress));
                        progress.note(|state| state.over = true);
                        outcome
                    })
                })
                .collect();
            let disturbed = disturb(progress);
            for thread in threads {
                thread.join().map_err(|_| "a worker panicked")??;
            }
            disturbed
        })?;
        Ok(progress.answers())
    }

    /// What was asked last and not answered, or with 5xx, of each worker that met that; and what it asked before.
    pub fn unanswered(&self) -> Vec<String> {
        let met = self.workers.iter().filter(|worker| worker.unanswered.is_some());
        let last = |worker: &Worker| worker.history.iter().rev().take(2).cloned().collect::<Vec<_>>();
        met.map(|worker| format!("{}: {:?}", worker.base, last(worker))).collect()
    }

    /// Statuses of all answers until now that said the server could not.
    pub fn refusals(&self) -> Vec<u16> {
        self.workers.iter().flat_map(|worker| worker.refusals.iter().copied()).collect()
    }

    /// One after the other makes so many requests, whatever the server could not do. Returns the statuses (5xx) of what it could
    /// not; that was done or not, never half.
    pub fn persist(&mut self, client: &mut Client, requests: u64) -> Outcome<Vec<u16>> {
        let mut refusals = Vec::new();
        for worker in &mut self.workers {
            refusals.extend(worker.persist(client, requests)?);
        }
        Ok(refusals)
    }

    /// All judge at once.
    pub fn judge(&mut self, client: &Client) -> Outcome {
        thread::scope(|scope| {
            let threads: Vec<_> = self
                .workers
                .iter_mut()
                .map(|worker| {
                    let mut client = client.clone();
                    scope.spawn(move || worker.judge(&mut client))
                })
                .collect();
            for thread in threads {
                thread.join().map_err(|_| "a judge panicked")??;
            }
            Ok(())
        })
    }
}
