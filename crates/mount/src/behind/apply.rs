//! Handing what waits to the tree, in order, and what becomes of what it refuses.

use super::Shared;
use super::after::after;
use super::left::Left;
use super::state::{State, Trouble};
use holdfast_base::{Error, ErrorKind, NodeId, Result, SpaceId};
use holdfast_drive::{Applied, BATCH_CHANGES_MAX, Batch, Deferred, Deferring, Durable, Entry};
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
        let changes = state.take_batch(BATCH_CHANGES_MAX);
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
                let is_otherwise = answered(&mut state, change, answer);
                shared.otherwise.fetch_add(is_otherwise.into(), Ordering::Release);
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

/// Takes note of what became of a change; answers whether that is something else than its program was answered.
fn answered(state: &mut State, (number, change): (u64, Deferred), answer: Result<Applied>) -> bool {
    let node = change.node();
    let is_otherwise = !matches!(answer, Ok(Applied::Made(_) | Applied::Gone(_) | Applied::Before));
    match answer {
        Ok(applied) => {
            match &applied {
                Applied::Aside(entry) => told_aside(state, &change, entry),
                Applied::Late => tell_late(&change),
                Applied::Made(_) | Applied::Gone(_) | Applied::Before => {}
            }
            state.refused.remove(&number);
            state.view.done(&change, Some(&applied));
        }
        Err(error) if change.is_pointless(error.kind()) => {
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
            // Here it is as it was answered for as long as it is tried again.
            return false;
        }
    }
    is_otherwise
}

/// Both were kept: says so, in the log and to whoever closes or syncs the file next.
fn told_aside(state: &mut State, change: &Deferred, entry: &Entry) {
    let beside = &entry.node.name;
    metrics::counter!("holdfast_mount_conflicts_total").increment(1);
    let wanted = match change {
        Deferred::Create { new, .. } => &new.name,
        Deferred::Save { at, .. } => &at.1,
        Deferred::Rename { rename, .. } => {
            // Nothing is wrong with what is in it.
            tracing::warn!(file = %rename.to.1, %beside, "others changed the same names or folders: nothing of theirs is replaced");
            return;
        }
        Deferred::Attributes { .. } | Deferred::Unlink { .. } | Deferred::Passed { .. } => return,
    };
    tracing::warn!(file = %wanted, %beside, "a file was made or changed elsewhere as well, or its folder removed: both are kept");
    let message = format!("{wanted} was made or changed elsewhere as well: what was written here is {beside}");
    state.troubles.insert(change.node(), Trouble { kind: ErrorKind::PreconditionFailed, message });
}

/// Others were quicker: what they did stays.
fn tell_late(change: &Deferred) {
    let name = change.names().next().map(|(_, name)| name.as_str());
    tracing::warn!(node = %change.node(), name, "it was changed, moved or removed elsewhere before it was removed or renamed here: it stays as others have it");
    metrics::counter!("holdfast_mount_conflicts_total").increment(1);
}

/// Sets a refused change aside, and what must come after it.
fn park(state: &mut State, (number, change): (u64, Deferred)) {
    state.held_up.add(&change);
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
        state.held_up.clear();
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
                    Ok(Applied::Late) => tell_late(&change),
                    Ok(_) => {}
                    Err(error) if change.is_pointless(error.kind()) => {}
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
    let node = before(inner, state, Some(change.node())).await?;
    let other = before(inner, state, change.other()).await?;
    tracing::error!(node = %change.node(), %error, "a change of the last mount is refused: it stays in the journal and is tried again");
    let Some(after) = after(&change, (node, other), space) else { return Ok(()) };
    let number = state.journal.append(&change)?;
    state.view.add(&change, after);
    state.held_up.add(&change);
    state.refused.insert(number, error.message().to_owned());
    state.troubles.insert(change.node(), Trouble { kind: error.kind(), message: error.message().to_owned() });
    state.parked.push_back((number, change));
    Ok(())
}

/// A node as it is now.
async fn before(inner: &dyn Deferring, state: &State, node: Option<NodeId>) -> Result<Option<Entry>> {
    let Some(node) = node else { return Ok(None) };
    match state.view.shown(node) {
        Some(entry) => Ok(Some(entry)),
        None => inner.entry(node).await,
    }
}
