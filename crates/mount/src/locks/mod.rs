//! Locks of programs (`fcntl`, per process or per open file, and `flock`) that hold over all mounts of a space.
//!
//! The space's table ([`Locking`]) gives this mount a file *as a whole* where no other has locks of it: then a lock is some microseconds of this process ([`state`]). When another
//! mount wants one, the file is *recalled* ([`session`]): what was written is saved, the table is told which locks there are, and from then on each lock and unlock is
//! a call to it, until nobody holds any.
//!
//! **Who gets a lock sees what its holder before wrote.** What was written is saved before another mount can get the lock: when a file is recalled, and at each unlock after that. Who
//! is given a lock by the table looks at the file again, and has the kernel forget what it has of another content, before the program goes on.
//!
//! **Whose.** The kernel names owners by numbers: a process for POSIX locks, an open file for the others. Locks of a process end when it closes any descriptor of the file (`flush`), and all
//! that were taken through a handle with that (`release`).
//!
//! **Lost locks.** A mount whose server was silent for longer than the lease has lost its locks. Handles they were taken through are good for nothing any more: `EIO`, until they are closed.

mod request;
mod session;
mod state;
mod thread;

pub(crate) use session::{keep, leave};

use crate::core::Core;
use crate::errno::{Answer, Told, errno};
use crate::meter::waits_for;
use crate::under_way::Wait;
use fuser::Errno;
use holdfast_base::{ByteRange, Error, ErrorKind, NodeId, Result};
use holdfast_drive::posix_locks::{FILES_MAX, HELD_MAX, Held, LockAnswer, LockAsk, LockKey, Locking, Patience};
use parking_lot::Mutex;
use session::Session;
use state::FileLocks;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use thread::Waiting;
use tokio::sync::{Semaphore, watch};

/// One past the last byte that a lock can be of.
const END: u64 = 1 << 63;
/// Everything.
const ALL: ByteRange = ByteRange { start: 0, end: END };
/// How long the table is to think about one question. Who waits asks again.
const ASK_TIME_MS: u32 = 5_000;
/// Questions that wait at the table at a time: over the network each is a stream of the connection, of which others are left for everything else. More wait here.
const ASKED_MAX: usize = 64;

/// Locks of one mount.
pub(crate) struct Locks {
    service: Arc<dyn Locking>,
    files: Mutex<HashMap<LockKey, FileLocks>>,
    /// How many there are: without any, closing a file asks nothing.
    known: AtomicUsize,
    session: Session,
    /// Questions that wait at the table at a time.
    waiting: Semaphore,
    tickets: AtomicU64,
    lost: Mutex<HashSet<u64>>,
    has_lost: AtomicBool,
}

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker {
    pub(crate) owner: u64,
    pub(crate) process: u32,
    pub(crate) thread: u32,
    pub(crate) handle: u64,
}

/// Of which locks a request is: those of `flock` are of everything.
fn key(node: NodeId, range: ByteRange, thread: u32) -> LockKey {
    LockKey { node, flock: range == ALL && thread::is_in_flock(thread) }
}

/// What is to be done next about a lock.
enum Step {
    Done,
    Refused(Errno),
    /// Until something changes.
    Wait(watch::Receiver<()>),
    /// Another owner of this mount has it.
    WaitFor(watch::Receiver<()>),
    /// The table decides, by a question of this number; whether an exclusive lock becomes a shared one.
    Ask(u64, bool),
    /// What this mount has may be over.
    Renew,
}

impl Locks {
    pub(crate) fn new(service: Arc<dyn Locking>) -> Self {
        metrics::describe_counter!("holdfast_mount_locks_lost_total", "Files of which locks were lost with the lease");
        Self {
            session: Session::new(service.lease()),
            service,
            files: Mutex::default(),
            known: AtomicUsize::new(0),
            waiting: Semaphore::new(ASKED_MAX),
            tickets: AtomicU64::new(0),
            lost: Mutex::default(),
            has_lost: AtomicBool::new(false),
        }
    }

    /// Whether locks were lost that were taken through a handle.
    pub(crate) fn is_lost(&self, handle: u64) -> bool {
        self.has_lost.load(Ordering::Acquire) && self.lost.lock().contains(&handle)
    }

    /// Whether anything is known of locks of a file.
    pub(crate) fn knows(&self, node: NodeId) -> bool {
        self.known.load(Ordering::Acquire) > 0 && {
            let files = self.files.lock();
            [false, true].iter().any(|flock| files.contains_key(&LockKey { node, flock: *flock }))
        }
    }

    fn with<T>(&self, key: LockKey, work: impl FnOnce(&mut FileLocks) -> T) -> Option<T> {
        let mut files = self.files.lock();
        let file = files.get_mut(&key)?;
        let done = work(file);
        if file.is_unused() {
            files.remove(&key);
            self.known.store(files.len(), Ordering::Release);
        }
        Some(done)
    }

    /// A request about a file begins.
    fn use_file(&self, key: LockKey) -> Answer<()> {
        let mut files = self.files.lock();
        if files.len() >= FILES_MAX && !files.contains_key(&key) {
            return Err(Errno::ENOLCK);
        }
        files.entry(key).or_default().users += 1;
        self.known.store(files.len(), Ordering::Release);
        drop(files);
        self.session.begin();
        Ok(())
    }

    /// What can be done about a lock now.
    fn step(&self, key: LockKey, wanted: Held, who: &Asker, wait: bool) -> Step {
        let is_current = self.session.is_current();
        let step = self.with(key, |file| {
            file.waiting.retain(|waits| *waits != wanted);
            if file.busy || file.telling.contains(&wanted.owner) {
                return Step::Wait(file.listen());
            }
            if file.held.len() >= HELD_MAX {
                return Step::Refused(Errno::ENOLCK);
            }
            if file.whole.is_none() {
                let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
                file.asking.push((ticket, wanted.owner, false));
                return Step::Ask(ticket, !wanted.exclusive && file.held.touches(wanted.owner, wanted.range));
            }
            if !is_current {
                return Step::Renew;
            }
            if file.held.conflicts(wanted).next().is_none() {
                file.take(wanted, who.process, who.handle);
                return Step::Done;
            }
            if !wait {
                return Step::Refused(Errno::EAGAIN);
            }
            if !key.flock && file.waits_for_itself(wanted) {
                return Step::Refused(Errno::EDEADLK);
            }
            file.waiting.push(wanted);
            Step::WaitFor(file.listen())
        });
        step.unwrap_or(Step::Refused(Errno::EIO))
    }
}

/// Takes a lock, waiting for it or not.
async fn lock(
    core: &Arc<Core>,
    (key, range, exclusive): (LockKey, ByteRange, bool),
    who: Asker,
    wait: bool,
) -> Answer<()> {
    let locks = core.locking().told()?;
    locks.use_file(key)?;
    let wanted = Held { owner: who.owner, range, exclusive };
    let done = lock_in_steps(core, locks, key, wanted, &who, wait).await;
    let recalled = locks.with(key, |file| {
        file.users -= 1;
        file.waiting.retain(|waits| *waits != wanted);
        file.whole.is_some_and(|number| number <= file.recalled) && !file.busy
    });
    if recalled == Some(true) {
        session::give_back_soon(core, key);
    }
    done
}

async fn lock_in_steps(
    core: &Arc<Core>,
    locks: &Locks,
    key: LockKey,
    wanted: Held,
    who: &Asker,
    wait: bool,
) -> Answer<()> {
    let mut waiting = Waiting::new(who.thread);
    loop {
        if locks.is_lost(who.handle) {
            return Err(Errno::EIO);
        }
        match locks.step(key, wanted, who, wait) {
            Step::Done => return Ok(()),
            Step::Refused(error) => return Err(error),
            Step::Wait(mut changed) => {
                tokio::select! { _ = changed.changed() => {}, () = waiting.interrupted() => return Err(Errno::EINTR) }
            }
            Step::WaitFor(mut changed) => {
                let waits = waits_for(Wait::Lock, changed.changed());
                tokio::select! { _ = waits => {}, () = waiting.interrupted() => return Err(Errno::EINTR) }
            }
            Step::Renew => session::renew(core, Duration::ZERO).await.map_err(|error| refusal(&error))?,
            Step::Ask(ticket, shrinks) => {
                if shrinks && let Err(error) = save_for_others(core, key.node).await {
                    locks.with(key, |file| file.asked(ticket));
                    return Err(refusal(&error));
                }
                let patience = if wait { Patience::Wait } else { Patience::Try };
                let ask = LockAsk { key, held: wanted, patience, ticket, wait_ms: ASK_TIME_MS };
                let answered = |answer| answered(locks, &ask, who, answer);
                let mut asking = std::pin::pin!(session::ask(core, ask, answered));
                let (answer, is_interrupted) = tokio::select! {
                    answer = waits_for(Wait::Lock, asking.as_mut()) => (answer, false),
                    () = waiting.interrupted() => {
                        session::take_back(core, ticket);
                        (asking.await, true)
                    }
                };
                locks.with(key, |file| file.asked(ticket));
                match answer {
                    Ok(LockAnswer::Exact) => return look_again(core, key.node).await.map_err(|error| refusal(&error)),
                    Ok(LockAnswer::Whole(number)) => {
                        // Nobody decides here until it is known what the file is now.
                        let looked = look_again(core, key.node).await;
                        locks.with(key, |file| {
                            if file.whole == Some(number) {
                                file.busy = false;
                            }
                            file.tell();
                        });
                        looked.map_err(|error| refusal(&error))?;
                    }
                    Ok(LockAnswer::Busy(_)) => return Err(Errno::EAGAIN),
                    Ok(LockAnswer::Deadlock) => return Err(Errno::EDEADLK),
                    Ok(LockAnswer::Free | LockAnswer::Later) if is_interrupted => {
                        session::tell_soon(core, key, wanted.owner);
                        return Err(Errno::EINTR);
                    }
                    // To try is to be told within a moment.
                    Ok(LockAnswer::Later) if !wait => return Err(Errno::EAGAIN),
                    Ok(LockAnswer::Free | LockAnswer::Later) => {}
                    Err(error) => {
                        // It may have been given all the same.
                        session::tell_soon(core, key, wanted.owner);
                        return Err(refusal(&error));
                    }
                }
            }
        }
    }
}

/// Takes in what the table answered, while nobody tells it anything about the session as a whole; and says what that means. `Free` is that it has to be asked
/// or looked at again.
fn answered(locks: &Locks, ask: &LockAsk, who: &Asker, answer: LockAnswer) -> LockAnswer {
    let taken = locks.with(ask.key, |file| match answer {
        // Its owner let go of something meanwhile: perhaps of this, too.
        LockAnswer::Exact if file.asked(ask.ticket) => LockAnswer::Free,
        LockAnswer::Exact => {
            file.take(ask.held, who.process, who.handle);
            answer
        }
        // It was given back by now, or another request has been answered the same before.
        LockAnswer::Whole(number) if number <= file.returned || file.whole == Some(number) => LockAnswer::Free,
        LockAnswer::Whole(number) => {
            (file.whole, file.busy) = (Some(number), true);
            answer
        }
        _ => answer,
    });
    taken.unwrap_or(LockAnswer::Free)
}

/// Ends an owner's locks of a range.
async fn unlock(core: &Arc<Core>, key: LockKey, owner: u64, range: ByteRange) -> Answer<()> {
    let locks = core.locking().told()?;
    loop {
        let step = locks.with(key, |file| {
            if !file.held.touches(owner, range) {
                return Step::Done;
            }
            if file.busy || file.telling.contains(&owner) {
                return Step::Wait(file.listen());
            }
            if file.whole.is_none() {
                return Step::Ask(0, true);
            }
            file.drop(owner, range);
            Step::Done
        });
        match step {
            Some(Step::Wait(mut changed)) => {
                // It is told, or gone with all others.
                let _ = changed.changed().await;
            }
            Some(Step::Ask(..)) => break,
            _ => return Ok(()),
        }
    }
    // Whoever gets it next sees what was written.
    let saved = save_for_others(core, key.node).await;
    locks.with(key, |file| {
        file.drop(owner, range);
        file.tell_of(owner);
    });
    session::tell(core, key, owner).await;
    saved.map_err(|error| refusal(&error))
}

/// Who is in the way of a lock: its range, whether it is exclusive, and its process, 0 on another machine.
async fn test(
    core: &Arc<Core>,
    (key, range, exclusive): (LockKey, ByteRange, bool),
    owner: u64,
) -> Answer<Option<(Held, u32)>> {
    let locks = core.locking().told()?;
    let wanted = Held { owner, range, exclusive };
    let here = locks.with(key, |file| {
        let found = file.held.conflicts(wanted).next();
        let found = found.map(|held| (held, file.owners.get(&held.owner).map_or(0, |owner| owner.process)));
        (found, file.whole.is_some())
    });
    match here {
        Some((Some(found), _)) => return Ok(Some(found)),
        Some((None, true)) if locks.session.is_current() => return Ok(None),
        _ => {}
    }
    let ticket = locks.tickets.fetch_add(1, Ordering::Relaxed);
    let ask = LockAsk { key, held: wanted, patience: Patience::Probe, ticket, wait_ms: ASK_TIME_MS };
    match session::ask(core, ask, |answer| answer).await {
        Ok(LockAnswer::Busy(Some(held))) => Ok(Some((held, 0))),
        // Whoever has it does not say which part.
        Ok(LockAnswer::Busy(None)) => Ok(Some((Held { owner: 0, range, exclusive: true }, 0))),
        Ok(_) => Ok(None),
        Err(error) => Err(refusal(&error)),
    }
}

/// A handle is closed: locks that were taken through it end.
pub(crate) async fn closed(core: &Arc<Core>, node: NodeId, handle: u64) {
    let Ok(locks) = core.locking() else { return };
    if locks.has_lost.load(Ordering::Acquire) {
        let mut lost = locks.lost.lock();
        lost.remove(&handle);
        locks.has_lost.store(!lost.is_empty(), Ordering::Release);
    }
    for flock in [false, true] {
        let key = LockKey { node, flock };
        let through = |file: &mut FileLocks| -> Vec<u64> {
            file.owners.iter().filter(|(_, owner)| owner.handles.contains(&handle)).map(|(owner, _)| *owner).collect()
        };
        for owner in locks.with(key, through).unwrap_or_default() {
            if let Err(error) = unlock(core, key, owner, ALL).await {
                tracing::warn!(?error, node = %node, "what was written under a lock could not be saved when that ended");
            }
        }
    }
}

/// Nobody has a file open any more: others need not ask for it back.
pub(crate) fn unused(core: &Arc<Core>, node: NodeId) {
    let Ok(locks) = core.locking() else { return };
    if locks.knows(node) {
        for flock in [false, true] {
            let key = LockKey { node, flock };
            if locks.with(key, |file| file.whole.is_some() && file.users == 0) == Some(true) {
                session::give_back_soon(core, key);
            }
        }
    }
}

/// A process closes a descriptor: its POSIX locks of the file end.
async fn flushed(core: &Arc<Core>, node: NodeId, owner: u64) -> Answer<()> {
    unlock(core, LockKey { node, flock: false }, owner, ALL).await
}

/// Saves what was written to a file, so that whoever locks it next sees it.
async fn save_for_others(core: &Arc<Core>, node: NodeId) -> Result<()> {
    if let Some(file) = core.files.get(node) {
        file.save_in_passing(core).await?;
    }
    core.tree.hand_over().await
}

/// Looks what a file is now, and has the kernel forget what it has of another content.
async fn look_again(core: &Arc<Core>, node: NodeId) -> Result<()> {
    let Some(file) = core.files.get(node) else { return Ok(()) };
    loop {
        let version = file.version();
        let Some(entry) = core.tree.entry(node).await? else { return Ok(()) };
        if file.refresh_for_lock(core, &entry, version).await {
            core.has_only(&file).await;
            return Ok(());
        }
    }
}

/// What a program is told of a table that says no.
fn refusal(error: &Error) -> Errno {
    match error.kind() {
        ErrorKind::NoSpace | ErrorKind::TooLarge | ErrorKind::Unsupported => Errno::ENOLCK,
        ErrorKind::PreconditionFailed | ErrorKind::Conflict => Errno::EIO,
        _ => errno(error),
    }
}
