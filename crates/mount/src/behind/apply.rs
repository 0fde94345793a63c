//! Handing what waits to the tree, in order, and what becomes of what it refuses.

use super::journal::Left;
use super::view::with_attributes;
use super::{Shared, State, Trouble};
use holdfast_base::{Error, ErrorKind, NodeId, Result, SpaceId};
use holdfast_drive::{
    Applied, BATCH_CHANGES_MAX, Batch, Deferred, Deferring, Durable, Entry, NewContent, Node, NodeKind, Posix,
};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Time that changes gather: most files are made and written within it.
const GATHER: Duration = Duration::from_millis(10);
/// Time between two looks at room and numbers.
const LOOK: Duration = Duration::from_secs(1);
/// Time between two attempts at what was refused.
const AGAIN: Duration = Duration::from_secs(5);

/// Hands over what waits, until it is stopped.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut tried = Instant::now();
    loop {
        tokio::select! {
            // A drive that is never idle is looked at as well.
            biased;
            _ = looks.tick() => look(&shared, &mut tried).await,
            () = shared.work.notified() => {}
        }
        if gather(&shared).await {
            if let Err(error) = batch(&shared).await {
                tracing::warn!(?error, "what waits in the mount's journal could not be handed over; it is tried again");
                note_failure(&shared, &error);
                // Whoever waits was told.
                tokio::select! { () = shared.hurry.notified() => {}, () = tokio::time::sleep(LOOK) => {} }
            }
            // There may be more.
            shared.work.notify_one();
        }
    }
}

/// Waits for more to come with what is there; false if there is nothing.
async fn gather(shared: &Shared) -> bool {
    let waiting = shared.state.lock().queue.len();
    if waiting == 0 {
        return false;
    }
    if waiting < BATCH_CHANGES_MAX && !shared.hurried.swap(false, Ordering::AcqRel) {
        tokio::select! { () = shared.hurry.notified() => {}, () = tokio::time::sleep(GATHER) => {} }
        shared.hurried.store(false, Ordering::Release);
    }
    true
}

/// Hands over one batch.
async fn batch(shared: &Shared) -> Result<()> {
    let (changes, journal) = {
        let mut state = shared.state.lock();
        let count = state.queue.len().min(BATCH_CHANGES_MAX);
        let changes: Vec<_> = state.queue.drain(..count).collect();
        state.under_way = changes.iter().map(|(number, _)| *number).min();
        (changes, state.journal.id())
    };
    let started = Instant::now();
    let answers = shared.inner.apply(Batch { journal, changes: changes.clone() }, Durable::Soon).await;
    metrics::histogram!("holdfast_mount_batch_changes").record(changes.len() as f64);
    metrics::histogram!("holdfast_mount_batch_seconds").record(started.elapsed().as_secs_f64());
    let mut state = shared.state.lock();
    state.under_way = None;
    match answers {
        Ok(answers) if answers.len() == changes.len() => {
            state.failure = None;
            for (change, answer) in changes.into_iter().zip(answers) {
                answered(&mut state, change, answer);
            }
            drop(state);
            shared.progress.notify_waiters();
            Ok(())
        }
        other => {
            for change in changes.into_iter().rev() {
                state.queue.push_front(change);
            }
            other.and(Err(Error::internal("a batch was not answered as it was sent")))
        }
    }
}

fn note_failure(shared: &Shared, error: &Error) {
    let mut state = shared.state.lock();
    state.failure = Some((error.kind(), error.message().to_owned()));
    state.failures += 1;
    drop(state);
    shared.progress.notify_waiters();
}

fn answered(state: &mut State, (number, change): (u64, Deferred), answer: Result<Applied>) {
    let node = change.node();
    match answer {
        Ok(applied) => {
            if let Applied::Aside(entry) = &applied {
                told_aside(state, &change, entry);
            }
            state.refused.remove(&number);
            state.view.done(&change, Some(&applied));
        }
        Err(error) if is_pointless(&change, &error) => {
            tracing::warn!(%node, %error, "a change of attributes came too late: the file is gone");
            state.refused.remove(&number);
            state.view.done(&change, None);
        }
        Err(error) => {
            if state.refused.insert(number, error.message().to_owned()).is_none() {
                tracing::error!(%node, %error, "a change was refused after it was answered: it stays in the journal and is tried again");
                metrics::counter!("holdfast_mount_refused_total").increment(1);
                let trouble = Trouble { kind: error.kind(), message: error.message().to_owned() };
                state.troubles.entry(node).or_insert(trouble);
            }
            park(state, (number, change));
        }
    }
}

/// Whether there is nothing left that a change could be made to.
fn is_pointless(change: &Deferred, error: &Error) -> bool {
    let holds_nothing = matches!(change, Deferred::Attributes { .. } | Deferred::Unlink { .. });
    holds_nothing && matches!(error.kind(), ErrorKind::NotFound | ErrorKind::WrongKind | ErrorKind::Conflict)
}

/// Both were kept: says so, in the log and to whoever closes or syncs the file next.
fn told_aside(state: &mut State, change: &Deferred, entry: &Entry) {
    let wanted = match change {
        Deferred::Create { new, .. } => new.name.as_str(),
        Deferred::Save { at, .. } => at.1.as_str(),
        Deferred::Attributes { .. } | Deferred::Unlink { .. } => "",
    };
    let beside = &entry.node.name;
    tracing::warn!(file = wanted, %beside, "a file was made or changed elsewhere as well, or its folder removed: both are kept");
    metrics::counter!("holdfast_mount_conflicts_total").increment(1);
    let message = format!("{wanted} was made or changed elsewhere as well: what was written here is {beside}");
    state.troubles.insert(change.node(), Trouble { kind: ErrorKind::PreconditionFailed, message });
}

/// Sets a refused change aside, and what comes after it for the same node.
fn park(state: &mut State, (number, change): (u64, Deferred)) {
    state.parked_nodes.insert(change.node());
    state.parked.push_back((number, change));
    let queue = std::mem::take(&mut state.queue);
    for (number, change) in queue {
        state.line_up(number, change);
    }
}

/// Every second: room, numbers, and after a while what was refused.
async fn look(shared: &Shared, tried: &mut Instant) {
    let (left, old) = {
        let state = shared.state.lock();
        // Who writes nothing needs no other numbers.
        (state.numbers.end - state.numbers.start, state.since_bytes > 0 && state.are_old())
    };
    if (left < super::NUMBERS_LOW || old) && shared.inner.may_change().await.is_ok() {
        // Whoever needs one asks for it.
        let _ = shared.reserve().await;
    }
    let wanted = {
        let state = shared.state.lock();
        state.since_bytes > 0 || !state.parked.is_empty()
    };
    if wanted && let Ok(room) = shared.inner.room().await {
        let mut state = shared.state.lock();
        state.free_bytes = room.free_bytes;
        state.since_bytes = state.view.content_bytes();
    }
    if tried.elapsed() >= AGAIN {
        *tried = Instant::now();
        let mut state = shared.state.lock();
        for change in std::mem::take(&mut state.parked).into_iter().rev() {
            state.queue.push_front(change);
        }
        state.parked_nodes.clear();
    }
}

/// Hands over what mounts before this left, with `apply`. Answers what was refused; the rest is not on disk yet.
pub(super) async fn go_through<F>(left: &[Left], apply: impl Fn(Batch) -> F) -> Result<Vec<(Deferred, Error)>>
where
    F: Future<Output = Result<Vec<Result<Applied>>>>,
{
    let mut refused = Vec::new();
    let mut changes = 0;
    for journal in left {
        let mut rest: VecDeque<&(u64, Deferred)> = journal.changes.iter().collect();
        while !rest.is_empty() {
            let count = rest.len().min(BATCH_CHANGES_MAX);
            let some: Vec<(u64, Deferred)> = rest.drain(..count).cloned().collect();
            changes += some.len();
            let batch = Batch { journal: journal.id, changes: some.clone() };
            let answers = apply(batch).await;
            let answers =
                answers.map_err(|error| error.context("what the last mount answered, and did not hand over"))?;
            for ((_, change), answer) in some.into_iter().zip(answers) {
                match answer {
                    Ok(Applied::Aside(entry)) => {
                        tracing::warn!(beside = %entry.node.name, "what was written before the last end of the mount is kept beside another file");
                    }
                    Ok(_) => {}
                    Err(error) if is_pointless(&change, &error) => {}
                    Err(error) => refused.push((change, error)),
                }
            }
        }
    }
    if changes > 0 {
        tracing::debug!(changes, refused = refused.len(), "the journal of the last mount was gone through");
    }
    Ok(refused)
}

/// Takes a change that was refused when the last journal was gone through into this one.
pub(super) async fn park_again(
    inner: &dyn Deferring,
    state: &mut State,
    (change, error): (Deferred, Error),
    space: SpaceId,
) -> Result<()> {
    let there = match state.view.entry(change.node()) {
        Some(entry) => Some(entry.clone()),
        None => inner.entry(change.node()).await?,
    };
    tracing::error!(node = %change.node(), %error, "a change of the last mount is refused: it stays in the journal and is tried again");
    let Some(entry) = after(&change, there, space) else { return Ok(()) };
    let number = state.journal.append(&change)?;
    state.view.add(&change, entry);
    state.parked_nodes.insert(change.node());
    state.refused.insert(number, error.message().to_owned());
    state.troubles.insert(change.node(), Trouble { kind: error.kind(), message: error.message().to_owned() });
    state.parked.push_back((number, change));
    Ok(())
}

/// What a node is after a change; none if there is nothing it could be made to.
pub(super) fn after(change: &Deferred, there: Option<Entry>, space: SpaceId) -> Option<Entry> {
    match change {
        Deferred::Create { id, new, content_id } => {
            let (content, size) = match &new.content {
                NewContent::Inline { size, .. } => (Some(*content_id), *size),
                _ => (None, 0),
            };
            let node = Node {
                id: *id,
                space,
                parent: Some(new.parent),
                name: new.name.as_str().to_owned(),
                kind: new.kind,
                content,
                size,
                seq: 0,
                created_ms: new.posix.ctime_ns.div_euclid(1_000_000),
                modified_ms: new.posix.mtime_ns.div_euclid(1_000_000),
                has_properties: false,
            };
            Some(Entry { node, posix: Some(new.posix) })
        }
        Deferred::Save { rewrite, content_id, at } => {
            let mut entry = there.unwrap_or_else(|| lost(rewrite.node, space, at));
            (entry.node.content, entry.node.size) = match &rewrite.content {
                NewContent::Inline { size, .. } => (Some(*content_id), *size),
                _ => (None, 0),
            };
            let xattrs = entry.posix.map_or(0, |posix| posix.xattrs);
            let special = holdfast_drive::Special::None;
            Some(with_attributes(entry, Posix { xattrs, special, ..rewrite.posix }))
        }
        Deferred::Attributes { change, usual, .. } => {
            let entry = there?;
            let posix = change.of(entry.attributes(usual));
            Some(with_attributes(entry, posix))
        }
        Deferred::Unlink { .. } => there,
    }
}

/// A file that the catalogue does not have any more.
fn lost(id: NodeId, space: SpaceId, at: &(NodeId, holdfast_base::NodeName)) -> Entry {
    let node = Node {
        id,
        space,
        parent: Some(at.0),
        name: at.1.as_str().to_owned(),
        kind: NodeKind::File,
        content: None,
        size: 0,
        seq: 0,
        created_ms: 0,
        modified_ms: 0,
        has_properties: false,
    };
    Entry { node, posix: None }
}
