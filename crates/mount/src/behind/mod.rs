//! Answering first: small changes go into a journal and are answered at once; the tree gets them a moment later, many in one transaction.
//!
//! A file that is made, written and closed costs two transactions of the catalogue if each has to be waited for. Here they are two frames of a
//! journal ([`journal`]) in the system's cache, which the end of this process cannot undo, and what waits is seen by everybody who asks
//! this mount ([`view`]). One task hands what waits to the tree in the order it was made ([`apply`]), some ten milliseconds later, in
//! batches. This is a [`Tree`] itself (`tree.rs`), over any other: the engine here, or a client.
//!
//! **What waits.** Making a file, folder or special file with little content, saving a small file, attributes, removals and renames. What a program must be told
//! at once (a name that is free or taken, a folder that is not empty) is looked up first. Everything else has what waits applied first and goes the usual
//! way, as do names while another face locks anything in the space, and what grows near the end of the quota, where an error has to be told at `close`.
//!
//! **Numbers** of nodes and contents are reserved beforehand, so what was made can be used, and its content be the base of the next, before
//! anybody else knows of it.
//!
//! **Nothing is dropped.** What turns out to collide with what others did is kept beside it; what is refused stays in the journal, is tried
//! again, and is told to whoever closes or syncs the file next. The journal is gone through again at the next start.
//!
//! **One order.** Changes are handed over in the order they were answered, and what goes the usual way leaves a mark among them ([`journal`]): a power cut
//! takes the end of that order and leaves no mixture.

mod after;
mod apply;
mod condition;
mod defer;
mod frame;
mod fresh;
mod journal;
mod left;
mod look;
mod recover;
mod replay;
mod state;
#[cfg(test)]
pub(crate) mod tests;
mod tree;
mod view;

pub(crate) use frame::read_anything;
pub use recover::{note_owner, recover};

use crate::meter::waits_for;
use crate::under_way::Wait;
use holdfast_base::{Error, NodeId, Result, SpaceId};
use holdfast_drive::{Deferring, Tree};
use journal::Journal;
use parking_lot::Mutex;
use state::State;
use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Changes that wait at most; beyond, writers do. With 4 KiB each, some 32 MiB of memory.
const WAITING_MAX: usize = 8_192;
/// Bytes in packs that wait for their sync at most; beyond, writers do. What a power cut may take is bounded by it, and what `fsync` of another file may have
/// to wait for.
const UNSYNCED_BYTES_MAX: u64 = 256 << 20;
/// Changes that were refused and are tried again; with more, nothing is answered first any more.
const PARKED_MAX: usize = 1_024;
/// Numbers that are reserved at a time, and how few are left when more are fetched.
const NUMBERS: u32 = 8_192;
const NUMBERS_LOW: i64 = 2_048;
/// Numbers are used for so long without asking for fresh ones: a server remembers of very many only the latest to whom it gave them.
const NUMBERS_FRESH: Duration = Duration::from_mins(30);
/// How long fresh ones are waited for while there are others, and when they are asked for again.
const NUMBERS_WAIT: Duration = Duration::from_secs(1);
const NUMBERS_AGAIN: Duration = Duration::from_mins(1);
/// Room that is left for what others write meanwhile: with less, each change is asked for.
const ROOM_BYTES: u64 = 16 << 20;
/// That a name was not there is believed for so long.
const ABSENT: Duration = Duration::from_millis(200);
/// Names that were not there, remembered; at this many all are forgotten.
const ABSENT_MAX: usize = 4_096;
/// Counters of folders' changes; folders share them.
const GENERATIONS: usize = 256;

/// A tree that answers first.
pub(crate) struct Behind {
    shared: Arc<Shared>,
    applying: JoinHandle<()>,
}

struct Shared {
    inner: Arc<dyn Deferring>,
    space: SpaceId,
    state: Mutex<State>,
    /// Something waits.
    work: Notify,
    /// Somebody waits for it.
    hurry: Notify,
    /// A batch ended.
    progress: Notify,
    hurried: AtomicBool,
    /// Changes of which something else became than their programs were answered.
    otherwise: AtomicU64,
    reserving: tokio::sync::Mutex<()>,
    generations: [AtomicU64; GENERATIONS],
    /// Keeps others out of the journal's folder.
    _lock: File,
}

impl Behind {
    /// Goes through what a mount before this left in `folder`, and begins.
    pub(crate) async fn start(inner: Arc<dyn Deferring>, folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder).map_err(|error| Error::from(error).context(folder.display()))?;
        let lock = lock(folder)?;
        let root = inner.entry(inner.root()).await?.ok_or_else(|| Error::not_found("the space has no root folder"))?;
        let (mut left, seq) = (left::left_in(folder)?, inner.seq().await?);
        left.iter_mut().try_for_each(|left| left.cut(seq))?;
        let waiting = || left.iter().flat_map(|left| &left.changes);
        if waiting().next().is_some() {
            let bytes: u64 = waiting().map(|(_, change)| left::bytes_in_blocks(change)).sum();
            tracing::info!(
                changes = waiting().count(),
                bytes,
                "what a mount before this answered is handed over first"
            );
        }
        let refused = replay::go_through(&mut left, &*inner).await?;
        if !left.is_empty() {
            inner.settle().await?;
        }
        let numbers = if inner.may_change().await.is_ok() { inner.reserve(NUMBERS).await? } else { 0..0 };
        let free_bytes = inner.room().await?.free_bytes;
        let mut state = State::new(Journal::begin(folder, journal::name_of(&numbers))?, numbers, free_bytes);
        for change in refused {
            replay::park_again(&*inner, &mut state, change, root.node.space).await?;
        }
        state.journal.sync()?;
        left.into_iter().try_for_each(left::Left::remove)?;
        inner.forget_left()?;
        let shared = Arc::new(Shared {
            inner,
            space: root.node.space,
            state: Mutex::new(state),
            work: Notify::new(),
            hurry: Notify::new(),
            progress: Notify::new(),
            hurried: AtomicBool::new(false),
            otherwise: AtomicU64::new(0),
            reserving: tokio::sync::Mutex::default(),
            generations: std::array::from_fn(|_| AtomicU64::new(0)),
            _lock: lock,
        });
        let applying = tokio::spawn(apply::run(shared.clone()));
        Ok(Self { shared, applying })
    }
}

/// A tree that answers small changes first, if it is wished; what a mount before this answered and did not hand over is in it either way.
/// The journal is in `folder`, which must be the same for a space each time.
pub async fn with_journal(tree: Arc<dyn Deferring>, folder: &Path, write_behind: bool) -> Result<Arc<dyn Tree>> {
    if write_behind {
        return Ok(Arc::new(Behind::start(tree, folder).await?));
    }
    if folder.is_dir() {
        Behind::start(tree.clone(), folder).await?;
    }
    Ok(tree)
}

impl Drop for Behind {
    fn drop(&mut self) {
        self.applying.abort();
    }
}

/// One mount a journal.
fn lock(folder: &Path) -> Result<File> {
    let path = folder.join("lock");
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(|error| Error::from(error).context(path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(Error::conflict(format!("another mount uses {} already", folder.display())))
        }
        Err(TryLockError::Error(error)) => Err(Error::from(error).context(path.display())),
    }
}

impl Shared {
    /// Waits until everything that waits now is in the tree, or was refused and parked.
    async fn flush(&self) -> Result<()> {
        let (target, failures) = {
            let state = self.state.lock();
            if state.is_idle() {
                return Ok(());
            }
            (state.journal.last(), state.failures)
        };
        loop {
            let progress = self.progress.notified();
            tokio::pin!(progress);
            progress.as_mut().enable();
            {
                let state = self.state.lock();
                if !state.waits_for(target) {
                    return Ok(());
                }
                if let Some((kind, message)) = state.failure.as_ref().filter(|_| state.failures > failures) {
                    return Err(Error::new(*kind, message.clone()));
                }
            }
            self.hurried.store(true, Ordering::Release);
            self.hurry.notify_one();
            self.work.notify_one();
            waits_for(Wait::HandedOver, progress).await;
        }
    }

    /// Waits until there is room for a change and numbers for it. Where nothing can be handed over, that ends when the attempt under way does.
    async fn make_ready(&self) -> Result<()> {
        self.inner.may_change().await?;
        let mut failures = None;
        loop {
            let progress = self.progress.notified();
            tokio::pin!(progress);
            progress.as_mut().enable();
            let (full, left, old) = {
                let state = self.state.lock();
                if let Some((kind, message)) = &state.failure
                    && failures.is_some_and(|before| state.failures > before)
                {
                    return Err(Error::new(*kind, format!("as much waits to be handed over as can wait: {message}")));
                }
                let full = state.is_full();
                if full && failures.is_none() {
                    failures = Some(state.failures);
                }
                (full, state.numbers.end - state.numbers.start, state.are_old())
            };
            if left < 2 {
                self.reserve().await?;
            } else if old {
                self.renew().await;
            } else if full {
                self.work.notify_one();
                waits_for(Wait::Room, progress).await;
            } else {
                return Ok(());
            }
        }
    }

    /// Fetches numbers, if there are few.
    async fn reserve(&self) -> Result<()> {
        let _one = self.reserving.lock().await;
        let is_enough = |state: &State| state.numbers.end - state.numbers.start >= NUMBERS_LOW && !state.are_old();
        if is_enough(&self.state.lock()) {
            return Ok(());
        }
        let numbers = self.inner.reserve(NUMBERS).await?;
        let mut state = self.state.lock();
        let old = state.are_old();
        state.numbers_until = Instant::now() + NUMBERS_FRESH;
        if state.numbers.end == numbers.start && !old {
            state.numbers.end = numbers.end;
        } else {
            // A few numbers are lost; there are enough.
            state.numbers = numbers;
        }
        Ok(())
    }

    /// Fetches other numbers, if that is quick: those that are here will do a while longer.
    async fn renew(&self) {
        let renewed = tokio::time::timeout(NUMBERS_WAIT, self.reserve()).await;
        if !matches!(renewed, Ok(Ok(()))) {
            self.state.lock().numbers_until = Instant::now() + NUMBERS_AGAIN;
        }
    }

    fn generation(&self, folder: NodeId) -> &AtomicU64 {
        &self.generations[usize::try_from(folder.0.unsigned_abs() % GENERATIONS as u64).unwrap_or(0)]
    }

    /// Members of a folder are about to change, or just did.
    fn changes(&self, folder: NodeId) {
        self.generation(folder).fetch_add(1, Ordering::AcqRel);
    }

    /// Does something in the usual way: after everything that waits, and before what is answered from then on. `nodes` are those whose content it changes.
    async fn directly<T>(&self, nodes: &[NodeId], work: impl Future<Output = Result<T>>) -> Result<T> {
        let _direct = Direct::begin(self, nodes);
        self.flush().await?;
        self.in_order(work).await
    }

    /// Does something before what is answered from then on.
    async fn in_order<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let done = work.await;
        match self.inner.seq().await {
            Ok(Some(seq)) => self.state.lock().journal.after(seq),
            Ok(None) => {}
            // What cannot be asked for is on disk, or nothing that follows may be answered before it.
            Err(_) => self.inner.settle().await?,
        }
        done
    }

    /// Everything that was refused is told, and kept until then.
    fn trouble(&self, node: NodeId) -> Option<Error> {
        let mut state = self.state.lock();
        if state.troubles.is_empty() {
            return None;
        }
        state.troubles.remove(&node).map(|trouble| trouble.error())
    }
}

/// Content that is being changed in the usual way.
struct Direct<'s> {
    shared: &'s Shared,
    nodes: &'s [NodeId],
}

impl<'s> Direct<'s> {
    fn begin(shared: &'s Shared, nodes: &'s [NodeId]) -> Self {
        let mut state = shared.state.lock();
        for node in nodes {
            *state.direct.entry(*node).or_default() += 1;
        }
        Self { shared, nodes }
    }
}

impl Drop for Direct<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        for node in self.nodes {
            if let Some(count) = state.direct.get_mut(node) {
                *count -= 1;
                if *count == 0 {
                    state.direct.remove(node);
                }
            }
        }
    }
}

/// What stands for a name in [`State::absent`].
fn key_of(folder: NodeId, name: &str) -> u64 {
    xxh3_64_with_seed(name.as_bytes(), folder.0.unsigned_abs())
}
