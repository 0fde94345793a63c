//! Handing over what was answered before the server knew of it.
//!
//! A batch whose answer is lost is sent again: the catalogue knows by the journal's numbers what it has. What it did the first time it says no more, so
//! files that were made are looked at: one that is elsewhere was put aside.

use super::keys::Sealing;
use super::link::{Lost, Outcome};
use super::moved::Moved;
use super::names::About;
use super::spool::{self, Spool};
use super::{REPEATED_BYTES_MAX, Remote};
use crate::wire::{self, Call, Handed};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{BlockId, ByteRange, Error, ErrorKind, NodeId, NodeName, Result};
use holdfast_drive::engine::small::{Sealed, SealedBlock};
use holdfast_drive::{
    Applied, Batch, Deferred, Deferring, Durable, Entry, NewContent, NodeKind, Place, Prepared, Save, SaveBody, Taken,
    Tree, Unsynced,
};
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
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
        self.sealing()?.seal(plain)
    }

    fn open_small(&self, content: &NewContent) -> Result<Vec<u8>> {
        self.sealing()?.open_small(content)
    }

    fn prepared_bytes_max(&self) -> u64 {
        if self.spool.is_some() { REPEATED_BYTES_MAX } else { 0 }
    }

    fn is_away(&self) -> bool {
        self.shared.link.is_away()
    }

    fn has_room(&self) -> bool {
        self.spool.as_ref().is_some_and(|spool| spool.has_room())
    }

    async fn prepare(&self, save: &Save, body: SaveBody) -> Result<Prepared> {
        self.spool()?.put(save.size, body).await.map(Prepared::spooled)
    }

    async fn prepare_block(&self, block: SealedBlock) -> Result<Option<Prepared>> {
        self.spool()?.put_block(block).await.map(Prepared::spooled).map(Some)
    }

    async fn save_prepared(&self, save: Save, prepared: Prepared) -> Result<Entry> {
        let spooled = prepared.unsynced().ok_or_else(|| Error::internal("only a spool is saved from here"))?;
        let kept = spooled.clone();
        let pieces = (0..save.size).step_by(BLOCK_BYTES).map(move |start| (kept.clone(), start));
        let stream = stream::iter(pieces).then(async |(kept, start)| {
            let range = ByteRange { start, end: kept.size().min(start + BLOCK_BYTES as u64) };
            kept.read(range).await.map(Bytes::from)
        });
        let saved = self.save(save, stream.boxed().into()).await;
        spooled.let_go();
        saved
    }

    async fn sync(&self, _contents: &[Unsynced]) -> Result<()> {
        // The server syncs what comes to it before it answers.
        Ok(())
    }

    async fn rescue(&self, content: &NewContent) -> Result<Option<Unsynced>> {
        self.spool()?.rescue(content).await
    }

    fn forget_left(&self) -> Result<()> {
        self.spool.as_ref().map_or(Ok(()), |spool| spool.forget_left())
    }

    async fn answered(&self, journal: [u8; 16], numbers: Vec<u64>) -> Result<Vec<bool>> {
        self.shared.link.ask(&Call::Answered(self.shared.hello.space, journal, numbers)).await
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
        let outcome = self.send_batch(&batch, durable).await;
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
    async fn send_batch(&self, batch: &Batch, durable: Durable) -> Outcome<Handed> {
        let space = self.shared.hello.space;
        let contents = batch.changes.iter().filter_map(|(_, change)| content_of(change));
        let places: Vec<(BlockId, Place)> = contents.flat_map(spool::places).collect();
        let spool = match self.spool() {
            Ok(spool) if !places.is_empty() => spool,
            Err(error) if !places.is_empty() => return Outcome { result: Err(error), unknown: false },
            _ => return self.shared.link.call(&Call::Apply(space, batch.clone(), durable), Lost::Repeat).await,
        };
        let bytes = places.iter().map(|(_, place)| u64::from(place.sealed_bytes)).sum();
        // What was answered goes from the spool: by then it is on the server's disk, and not in its memory alone.
        let frame = wire::frame(&Call::ApplyWith(space, batch.clone(), Durable::Now));
        let (moved, unread) = (Moved::new(), Arc::new(Mutex::default()));
        let body = || {
            let records = spool.records(places.clone(), unread.clone());
            unread.lock().is_none().then(|| moved.body(frame.clone(), records))
        };
        let sent = self.shared.link.send_moving((bytes, &moved), body).await;
        match unread.lock().take() {
            // It is not the connection that broke.
            Some(error) => Outcome { result: Err(error), ..sent },
            None => sent,
        }
    }

    fn spool(&self) -> Result<&Arc<Spool>> {
        let none = "files wait here that the server does not take: it is older than this program";
        self.spool.as_ref().ok_or_else(|| Error::new(ErrorKind::Unsupported, none))
    }

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

/// The content that a change gives.
const fn content_of(change: &Deferred) -> Option<&NewContent> {
    match change {
        Deferred::Create { new, .. } => Some(&new.content),
        Deferred::Save { rewrite, .. } => Some(&rewrite.content),
        Deferred::Attributes { .. } | Deferred::Unlink { .. } | Deferred::Rename { .. } | Deferred::Passed { .. } => {
            None
        }
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
