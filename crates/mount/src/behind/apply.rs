//! Handing what waits to the tree, in order, and what becomes of what it refuses.

use super::Shared;
use super::left::content_in_blocks;
use super::state::{State, Trouble};
use holdfast_base::{Error, ErrorKind, Result};
use holdfast_drive::{Applied, BATCH_CHANGES_MAX, Batch, Deferred, Durable, Entry, Unsynced};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Time that changes gather: most files are made and written within it.
const GATHER: Duration = Duration::from_millis(10);
/// Time between two looks at room and numbers.
const LOOK: Duration = Duration::from_secs(1);
/// Time between two attempts at what was refused, at first and in the end: content may go over a network each time.
const AGAIN: (Duration, Duration) = (Duration::from_secs(5), Duration::from_mins(1));

/// Hands over what waits, until it is stopped.
pub(super) async fn run(shared: Arc<Shared>) {
    // Who goes on while the server is away has to have heard it before.
    let _ = shared.inner.has_locks().await;
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut tried = (Instant::now(), AGAIN.0);
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
    let (mut changes, journal) = {
        let mut state = shared.state.lock();
        let changes = state.take_batch(BATCH_CHANGES_MAX, shared.inner.prepared_bytes_max());
        (changes, state.journal.id())
    };
    let started = Instant::now();
    let answers = match sync(shared, &mut changes).await {
        Ok(None) => shared.inner.apply(Batch { journal, changes: changes.clone() }, Durable::Soon).await,
        Ok(Some((at, error))) => {
            refuse(shared, changes, at, error);
            return Ok(());
        }
        Err(error) => Err(error),
    };
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

/// Makes the content of changes durable. What a failed pack had is written once more; the first change of which that is not there any more, or cannot be read, is
/// answered.
async fn sync(shared: &Shared, changes: &mut [(u64, Deferred)]) -> Result<Option<(usize, Error)>> {
    let mut contents = Vec::new();
    for (at, (number, change)) in changes.iter_mut().enumerate() {
        let Some(content) = content_in_blocks(change) else { continue };
        let unsynced = shared.state.lock().unsynced(*number).cloned();
        if let Some(unsynced) = unsynced.filter(Unsynced::is_sound) {
            contents.push(unsynced);
            continue;
        }
        let rescued = match shared.inner.rescue(content).await {
            Ok(Some(rescued)) => rescued,
            Ok(None) => {
                return Ok(Some((at, Error::damaged("the store lost what was written before it was on the disk"))));
            }
            // What else there is may well be read.
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                return Ok(Some((at, error.context("what was written cannot be read to write it once more"))));
            }
            Err(error) => return Err(error),
        };
        tracing::warn!(node = %change.node(), "what was written before a fault of the store was written once more");
        if let Deferred::Save { rewrite, .. } = change {
            rewrite.content = rescued.content().clone();
        }
        shared.state.lock().put_unsynced(*number, rescued.clone());
        contents.push(rescued);
    }
    // None at all is not even asked for: a server has no such thing.
    if !contents.is_empty() {
        shared.inner.sync(&contents).await?;
    }
    Ok(None)
}

/// The store has not what a change of a batch is about: it is refused. What is before it goes on without it, and what is about the same after it waits.
fn refuse(shared: &Shared, mut changes: Vec<(u64, Deferred)>, at: usize, error: Error) {
    let (mut state, later) = (shared.state.lock(), changes.split_off(at + 1));
    state.under_way = None;
    later.into_iter().rev().for_each(|change| state.queue.push_front(change));
    if let Some(change) = changes.pop() {
        answered(&mut state, change, Err(error));
    }
    changes.into_iter().rev().for_each(|change| state.queue.push_front(change));
    drop(state);
    shared.progress.notify_waiters();
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
            if is_otherwise {
                state.forget_what_is_not_there();
            }
            state.refused.remove(&number);
            state.let_go(number);
            state.view.done(&change, Some(&applied));
        }
        Err(error) if change.is_pointless(error.kind()) => {
            tracing::warn!(%node, %error, "a change of attributes came too late: the file is gone");
            state.refused.remove(&number);
            state.let_go(number);
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
pub(super) fn tell_late(change: &Deferred) {
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
async fn look(shared: &Shared, (tried, pause): &mut (Instant, Duration)) {
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
    if tried.elapsed() >= *pause {
        *tried = Instant::now();
        let mut state = shared.state.lock();
        *pause = if state.parked.is_empty() { AGAIN.0 } else { (2 * *pause).min(AGAIN.1) };
        for change in std::mem::take(&mut state.parked).into_iter().rev() {
            state.queue.push_front(change);
        }
        state.held_up.clear();
    }
}
