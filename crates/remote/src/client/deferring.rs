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
use holdfast_base::{Error, ErrorKind, NodeId, Result};
use holdfast_drive::{Applied, Batch, Deferred, Deferring, Durable, Entry, NewContent, NodeKind, Tree};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::ops::Range;
use std::time::{Duration, Instant};

/// How long a refusal to change anything is told without asking again.
const REFUSED_FOR: Duration = Duration::from_secs(1);

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

    fn seal_small(&self, plain: &[u8]) -> Result<Option<NewContent>> {
        self.sealing()?.seal(plain)
    }

    fn open_small(&self, content: &NewContent) -> Result<Vec<u8>> {
        self.sealing()?.open_small(content)
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
        if !unknown && answers.iter().all(|answer| !matches!(answer, Ok(Applied::Aside(_) | Applied::Before))) {
            let made: Vec<NodeId> = answers.iter().zip(&batch.changes).filter_map(new_folder).collect();
            let known: Vec<Entry> = answers.iter().filter_map(entry_of).cloned().chain(folders).collect();
            changing.settle(&known, &made);
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
        self.sealing.as_ref().ok_or_else(|| Error::internal("this client has no keys to seal with"))
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
    let folders: BTreeSet<NodeId> = batch.changes.iter().filter_map(|(_, change)| change.folder()).collect();
    let mut about: Vec<About> = folders.into_iter().map(About::Entry).collect();
    for (_, change) in &batch.changes {
        about.push(About::Entry(change.node()));
        match change {
            Deferred::Create { new, .. } => about.push(About::Name(new.parent, new.name.clone())),
            Deferred::Unlink { unlink, .. } => about.push(About::Name(unlink.parent, unlink.name.clone())),
            Deferred::Save { .. } | Deferred::Attributes { .. } => {}
        }
    }
    about
}

fn entry_of(answer: &Result<Applied>) -> Option<&Entry> {
    match answer {
        Ok(Applied::Made(entry)) => Some(entry),
        _ => None,
    }
}

/// A folder that a change made.
fn new_folder((answer, (_, change)): (&Result<Applied>, &(u64, Deferred))) -> Option<NodeId> {
    let Deferred::Create { id, new, .. } = change else { return None };
    (answer.is_ok() && new.kind == NodeKind::Folder).then_some(*id)
}
