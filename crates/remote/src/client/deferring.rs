//! Handing over what was answered before the server knew of it.
//!
//! A batch whose answer is lost is sent again: the catalogue knows by the journal's numbers what it has. What it did the first time it says no more, so
//! files that were made are looked at: one that is elsewhere was put aside.

use super::Remote;
use super::keys::Sealing;
use super::link::{Lost, Outcome};
use super::names::About;
use crate::wire::{Call, Handed};
use async_trait::async_trait;
use holdfast_base::{Error, ErrorKind, NodeId, NodeName, Result};
use holdfast_drive::engine::small::Sealed;
use holdfast_drive::{Applied, Batch, Deferred, Deferring, Durable, Entry, NewContent, NodeKind, Taken, Tree};
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::time::{Duration, Instant};

/// How long a refusal to change anything is told without asking again.
const REFUSED_FOR: Duration = Duration::from_secs(1);
/// How long it is believed that nothing is locked, or that something is.
const LOCKS_FOR: Duration = Duration::from_secs(1);
/// How long the server is waited for to say so.
const LOCKS_WAIT: Duration = Duration::from_secs(2);

/// Whether changes may be made, as far as was heard.
#[derive(Default)]
pub(super) struct Role(Mutex<Heard>);

#[derive(Default)]
enum Heard {
    #[default]
    Nothing,
    May,
    MayNot(Instant, ErrorKind, String),
}

impl Role {
    /// What was heard last; none if it is to be asked for. That changes may be made is believed until one is refused: what is answered first is
    /// kept until then, and a server that is away does not keep anybody from going on.
    fn known(&self) -> Option<Result<()>> {
        match &*self.0.lock() {
            Heard::May => Some(Ok(())),
            Heard::MayNot(at, kind, message) if at.elapsed() < REFUSED_FOR => {
                Some(Err(Error::new(*kind, message.clone())))
            }
            Heard::Nothing | Heard::MayNot(..) => None,
        }
    }

    /// Takes in what the server said.
    fn hear<T>(&self, said: &Result<T>) {
        match said {
            Ok(_) => *self.0.lock() = Heard::May,
            Err(error)
                if matches!(error.kind(), ErrorKind::Forbidden | ErrorKind::NotFound | ErrorKind::Unauthenticated) =>
            {
                *self.0.lock() = Heard::MayNot(Instant::now(), error.kind(), error.message().to_owned());
            }
            Err(_) => {}
        }
    }
}

/// Whether anything is locked there, as far as was heard.
#[derive(Default)]
pub(super) struct Locks(Mutex<Option<(Instant, bool)>>);

impl Locks {
    /// What was heard last, if that is believed.
    fn known(&self, is_away: bool) -> Option<bool> {
        self.0.lock().filter(|(at, _)| is_away || at.elapsed() < LOCKS_FOR).map(|(_, locks)| locks)
    }

    /// Takes in what the server said, and answers what is believed. While it says nothing, that is what it said last; a server that does not know the question
    /// does not know either what is done where nothing is locked.
    fn hear(&self, said: Option<Result<bool>>) -> bool {
        let mut heard = self.0.lock();
        let locks = match said {
            Some(Ok(locks)) => locks,
            Some(Err(error)) if error.kind() == ErrorKind::InvalidInput => true,
            _ => heard.is_none_or(|(_, locks)| locks),
        };
        *heard = Some((Instant::now(), locks));
        locks
    }
}

#[async_trait]
impl Deferring for Remote {
    async fn may_change(&self) -> Result<()> {
        if let Some(known) = self.shared.role.known() {
            return known;
        }
        let said = self.shared.link.ask(&Call::MayChange()).await;
        self.shared.role.hear(&said);
        said
    }

    async fn reserve(&self, count: u32) -> Result<Range<i64>> {
        let said = self.shared.link.ask(&Call::Reserve(self.shared.hello.space, count)).await;
        self.shared.role.hear(&said);
        let (start, end): (i64, i64) = said?;
        if start <= 0 || end <= start {
            return Err(Error::damaged("the server gave out numbers that are none"));
        }
        Ok(start..end)
    }

    fn seal_small(&self, plain: &[u8]) -> Result<Sealed> {
        Ok(self.sealing()?.seal(plain)?.map_or(Sealed::Large(None), Sealed::Small))
    }

    fn open_small(&self, content: &NewContent) -> Result<Vec<u8>> {
        self.sealing()?.open_small(content)
    }

    async fn has_locks(&self) -> Result<bool> {
        let known = self.shared.locks.known(self.shared.link.is_away());
        if let Some(known) = known {
            return Ok(known);
        }
        let asked = tokio::time::timeout(LOCKS_WAIT, self.shared.link.ask(&Call::Locks())).await;
        Ok(self.shared.locks.hear(asked.ok()))
    }

    async fn seq(&self) -> Result<Option<i64>> {
        Ok(None)
    }

    async fn apply(&self, batch: Batch, durable: Durable) -> Result<Vec<Result<Applied>>> {
        let changing = self.shared.names.begin(about(&batch));
        let call = Call::Apply(self.shared.hello.space, batch.clone(), durable);
        let outcome = self.shared.link.call::<Handed>(&call, Lost::Repeat).await;
        self.shared.role.hear(&outcome.result);
        let is_certain = outcome.is_certain();
        let Outcome { result, unknown } = outcome;
        let Handed { mut answers, folders } = match result {
            Ok(handed) => handed,
            Err(error) => {
                if is_certain {
                    changing.settle(&[], &[]);
                }
                return Err(error);
            }
        };
        if answers.len() != batch.changes.len() {
            return Err(Error::damaged("the server did not answer each change"));
        }
        let as_expected = |answer| !matches!(answer, &Ok(Applied::Aside(_) | Applied::Before | Applied::Late));
        if !unknown && answers.iter().all(as_expected) {
            let made: Vec<NodeId> = answers.iter().zip(&batch.changes).filter_map(new_folder).collect();
            let (mut known, free) = learnt(&answers, &batch);
            known.extend(folders);
            changing.settle_with(&known, &made, &free);
            if known.iter().any(|entry| entry.bond.is_some()) {
                // Others linked it meanwhile: its other names changed with it.
                self.shared.names.forget();
            }
            return Ok(answers);
        }
        drop(changing);
        for (answer, (_, change)) in answers.iter_mut().zip(&batch.changes) {
            if unknown && matches!(answer, Ok(Applied::Before)) {
                self.look_aside(change, answer).await?;
            }
        }
        Ok(answers)
    }
}

impl Remote {
    fn sealing(&self) -> Result<&Sealing> {
        self.sealing.as_deref().ok_or_else(|| Error::internal("this client has no keys to seal with"))
    }

    /// Whether what was made by a batch whose answer was lost is where it was to be.
    async fn look_aside(&self, change: &Deferred, answer: &mut Result<Applied>) -> Result<()> {
        let Deferred::Create { id, new, .. } = change else { return Ok(()) };
        if let Some(entry) = self.entry(*id).await?
            && (entry.node.parent != Some(new.parent) || entry.node.name != new.name.as_str())
        {
            *answer = Ok(Applied::Aside(entry));
        }
        Ok(())
    }
}

/// What a batch is about.
fn about(batch: &Batch) -> Vec<About> {
    let changes = || batch.changes.iter().map(|(_, change)| change);
    let nodes = changes().flat_map(|change| change.folders().chain([change.node()]).chain(change.other()));
    let nodes: BTreeSet<NodeId> = nodes.collect();
    let names = changes().flat_map(Deferred::names).map(|(folder, name)| About::Name(folder, name.clone()));
    nodes.into_iter().map(About::Entry).chain(names).collect()
}

/// What is known after a batch all of which was made or refused: nodes, each as it is at the end, and names that are free then.
fn learnt(answers: &[Result<Applied>], batch: &Batch) -> (Vec<Entry>, Vec<(NodeId, NodeName)>) {
    let mut entries: HashMap<NodeId, Option<&Entry>> = HashMap::new();
    let mut free: HashSet<(NodeId, &NodeName)> = HashSet::new();
    for (answer, (_, change)) in answers.iter().zip(&batch.changes) {
        let Ok(applied) = answer else { continue };
        if let Applied::Made(entry) = applied {
            entries.insert(entry.node.id, Some(entry));
        }
        if let Some(removed) = change.removed() {
            entries.insert(removed, None);
        }
        match change {
            Deferred::Unlink { unlink, .. } => {
                free.insert((unlink.parent, &unlink.name));
            }
            Deferred::Rename { rename, other, .. } => {
                free.remove(&(rename.to.0, &rename.to.1));
                if rename.taken == Taken::Exchange {
                    // Where that is now is to be asked for.
                    entries.extend(other.map(|(other, _)| (other, None)));
                } else {
                    free.insert((rename.from.0, &rename.from.1));
                }
            }
            _ => change.names().for_each(|name| {
                free.remove(&name);
            }),
        }
    }
    let entries = entries.into_values().flatten().cloned().collect();
    (entries, free.into_iter().map(|(folder, name)| (folder, name.clone())).collect())
}

/// A folder that a change made.
fn new_folder((answer, (_, change)): (&Result<Applied>, &(u64, Deferred))) -> Option<NodeId> {
    let Deferred::Create { id, new, .. } = change else { return None };
    (answer.is_ok() && new.kind == NodeKind::Folder).then_some(*id)
}
