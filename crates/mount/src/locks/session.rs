//! What this mount and the table tell each other: that it is there, what it is to give back, and what it held when the table began anew.
//!
//! Questions hold [`Session::attached`] for reading until their answer was taken in, so what is told when the table begins anew has all of it.

use super::{Locks, save_for_others};
use crate::core::Core;
use holdfast_base::{Error, ErrorKind, Result};
use holdfast_drive::posix_locks::{LockAnswer, LockAsk, LockKey, Patience};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, RwLock};

/// How long the table waits for something to tell.
const HEAR_TIME: Duration = Duration::from_secs(4);
/// Pause after the table could not be asked.
const PAUSE: Duration = Duration::from_millis(200);
/// How often a question begins the session anew before it is an error.
const BEGUN_MAX: u32 = 5;

/// A session of the table.
pub(super) struct Session {
    lease: Option<Duration>,
    number: AtomicU64,
    /// How often the table was told of it; 0 if never.
    attached: RwLock<u64>,
    /// Until when what is held is held.
    trusted: Mutex<Option<Instant>>,
    /// There is something to be kept.
    begun: Notify,
}

impl Session {
    pub(super) fn new(lease: Option<Duration>) -> Self {
        let (trusted, begun) = (Mutex::default(), Notify::new());
        Self { lease, number: AtomicU64::new(random()), attached: RwLock::new(0), trusted, begun }
    }

    /// Whether what is held is held yet.
    pub(super) fn is_current(&self) -> bool {
        self.lease.is_none() || self.trusted.lock().is_some_and(|until| Instant::now() < until)
    }

    /// Something that was sent then was answered.
    fn trust(&self, sent: Instant) {
        let Some(lease) = self.lease else { return };
        let mut trusted = self.trusted.lock();
        *trusted = (*trusted).max(Some(sent + lease));
    }

    /// There is something to be kept from now on.
    pub(super) fn begin(&self) {
        self.begun.notify_one();
    }

    fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// Waits until what is held is held no more.
    async fn lapsed(&self) {
        while self.is_current() {
            let until = self.trusted.lock().filter(|_| self.lease.is_some());
            tokio::time::sleep_until(until.unwrap_or_else(|| Instant::now() + HEAR_TIME).into()).await;
        }
    }
}

/// Random, and not 0, which is nobody.
fn random() -> u64 {
    // Keyed with random bytes of the system.
    RandomState::new().hash_one(Instant::now()) | 1
}

fn is_unknown(error: &Error) -> bool {
    error.kind() == ErrorKind::PreconditionFailed
}

/// Asks the table, and takes in what it answers.
pub(super) async fn ask(
    core: &Arc<Core>,
    ask: LockAsk,
    take_in: impl FnOnce(LockAnswer) -> LockAnswer,
) -> Result<LockAnswer> {
    let locks = core.locking()?;
    let session = &locks.session;
    let _place = match ask.patience {
        Patience::Wait => locks.waiting.acquire().await.ok(),
        Patience::Try | Patience::Probe => None,
    };
    for _ in 0..BEGUN_MAX {
        let attached = session.attached.read().await;
        let (count, number, sent) = (*attached, session.number(), Instant::now());
        let answered = match count {
            0 => Err(Error::new(ErrorKind::PreconditionFailed, "nothing was asked yet")),
            _ => locks.service.ask(number, ask).await,
        };
        match answered {
            Ok(_) if number != session.number() => break,
            Ok(answer) => {
                session.trust(sent);
                return Ok(take_in(answer));
            }
            Err(error) if is_unknown(&error) => {
                drop(attached);
                come_back(locks, count).await?;
            }
            Err(error) => return Err(error),
        }
    }
    Err(Error::new(ErrorKind::PreconditionFailed, "this mount was away for too long, and has lost its locks"))
}

/// Takes a question back, without waiting.
pub(super) fn take_back(core: &Arc<Core>, ticket: u64) {
    let core = core.clone();
    tokio::spawn(async move {
        if let Ok(locks) = core.locking()
            && let Err(error) = locks.service.take_back(locks.session.number(), ticket).await
        {
            tracing::debug!(%error, "a question about a lock could not be taken back, and has its time");
        }
    });
}

/// The table does not know the session, which was attached so often then: tells it what is held, or that is lost.
async fn come_back(locks: &Locks, count: u64) -> Result<()> {
    let session = &locks.session;
    let mut attached = session.attached.write().await;
    if *attached != count {
        return Ok(());
    }
    if session.is_current() {
        let kept = locks.files.lock().iter().filter_map(|(key, file)| file.kept(*key)).collect();
        let sent = Instant::now();
        match locks.service.attach(session.number(), kept).await {
            Ok(()) => {
                *attached += 1;
                session.trust(sent);
                return Ok(());
            }
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            Err(error) => return Err(error),
        }
    }
    lose(locks);
    let sent = Instant::now();
    locks.service.attach(session.number(), Vec::new()).await?;
    *attached += 1;
    session.trust(sent);
    Ok(())
}

/// What is held is held no more: what was locked through a handle cannot be used through it.
fn lose(locks: &Locks) {
    locks.session.number.store(random(), Ordering::Release);
    *locks.session.trusted.lock() = None;
    let mut handles = HashSet::new();
    let mut count = 0;
    {
        let mut files = locks.files.lock();
        files.retain(|_, file| {
            count += u64::from(!file.held.is_empty());
            handles.extend(file.owners.drain().flat_map(|(_, owner)| owner.handles));
            file.held.retain(|_| false);
            file.returned = file.returned.max(file.whole.take().unwrap_or(0));
            file.busy = false;
            file.telling.clear();
            file.tell();
            !file.is_unused()
        });
        locks.known.store(files.len(), Ordering::Release);
    }
    if count > 0 {
        tracing::error!(
            files = count,
            "the server was away for too long: locks were lost, and programs that held them are told so"
        );
        metrics::counter!("holdfast_mount_locks_lost_total").increment(count);
        locks.lost.lock().extend(handles);
        locks.has_lost.store(true, Ordering::Release);
    }
}

/// Says that the mount is there, and hears what it is to give back.
pub(super) async fn renew(core: &Arc<Core>, wait: Duration) -> Result<()> {
    let locks = core.locking()?;
    let session = &locks.session;
    let (count, number, sent) = (*session.attached.read().await, session.number(), Instant::now());
    match locks.service.recalls(number, wait).await {
        Ok(recalls) => {
            if number == session.number() {
                session.trust(sent);
            }
            for (key, number) in recalls {
                recalled(core, locks, key, number);
            }
            Ok(())
        }
        Err(error) if is_unknown(&error) => come_back(locks, count).await,
        Err(error) => Err(error),
    }
}

/// Keeps what is held, for as long as it is mounted.
pub(crate) async fn keep(core: Arc<Core>) {
    let Ok(locks) = core.locking() else { return };
    loop {
        if locks.known.load(Ordering::Acquire) == 0 {
            // Nothing can be lost; who asks next begins with a look.
            *locks.session.trusted.lock() = None;
            locks.session.begun.notified().await;
            continue;
        }
        tokio::select! {
            renewed = renew(&core, HEAR_TIME) => if let Err(error) = renewed {
                tracing::debug!(%error, "the table of locks could not be asked");
                tokio::time::sleep(PAUSE).await;
            },
            () = locks.session.lapsed(), if locks.session.trusted.lock().is_some() => lose(locks),
        }
    }
}

/// The table wants a file back.
fn recalled(core: &Arc<Core>, locks: &Locks, key: LockKey, number: u64) {
    let given = locks.with(key, |file| {
        file.recalled = file.recalled.max(number);
        if file.whole.is_some() { file.whole == Some(number) && !file.busy } else { false }
    });
    match given {
        Some(true) => give_back_soon(core, key),
        // It is being given back, or its answer is on its way to here.
        Some(false) => {}
        // Whoever asked for it is gone.
        None => {
            let core = core.clone();
            tokio::spawn(async move {
                if let Ok(locks) = core.locking() {
                    let _ = locks.service.yield_whole(locks.session.number(), key, number, Vec::new()).await;
                }
            });
        }
    }
}

/// Gives a file back, without waiting.
pub(super) fn give_back_soon(core: &Arc<Core>, key: LockKey) {
    let core = core.clone();
    tokio::spawn(async move { give_back(&core, key).await });
}

/// Saves what was written to a file, tells the table which locks there are, and leaves the rest to it.
async fn give_back(core: &Arc<Core>, key: LockKey) {
    let Ok(locks) = core.locking() else { return };
    let begun = locks.with(key, |file| {
        let number = file.whole.filter(|_| !file.busy)?;
        file.busy = true;
        Some(number)
    });
    let Some(Some(number)) = begun else { return };
    if let Err(error) = save_for_others(core, key.node).await {
        tracing::warn!(?error, node = %key.node, "what was written to a locked file could not be saved before another mount locks it");
    }
    let is_ours = |file: &mut super::FileLocks| (file.whole == Some(number)).then(|| file.held.all().to_vec());
    while let Some(Some(held)) = locks.with(key, is_ours) {
        let count = *locks.session.attached.read().await;
        match locks.service.yield_whole(locks.session.number(), key, number, held).await {
            Ok(()) => break,
            Err(error) if is_unknown(&error) => {
                let _ = come_back(locks, count).await;
            }
            Err(error) => tracing::debug!(%error, "a locked file could not be given back, and is again"),
        }
        tokio::time::sleep(PAUSE).await;
    }
    locks.with(key, |file| {
        if file.whole == Some(number) {
            (file.whole, file.busy) = (None, false);
            file.returned = file.returned.max(number);
        }
        file.tell();
    });
}

/// Tells the table what an owner has left, until it knows or everything is lost.
pub(super) async fn tell(core: &Arc<Core>, key: LockKey, owner: u64) {
    let Ok(locks) = core.locking() else { return };
    let left = |file: &mut super::FileLocks| file.telling.contains(&owner).then(|| file.held.of(owner));
    while let Some(Some(left)) = locks.with(key, left) {
        let count = *locks.session.attached.read().await;
        match locks.service.leave_only(locks.session.number(), key, owner, left).await {
            Ok(()) => break,
            Err(error) if is_unknown(&error) => {
                // It is told there what is held now.
                if come_back(locks, count).await.is_ok() {
                    break;
                }
            }
            Err(error) => tracing::debug!(%error, "the table of locks could not be told, and is again"),
        }
        tokio::time::sleep(PAUSE).await;
    }
    locks.with(key, |file| {
        file.telling.retain(|other| *other != owner);
        file.tell();
    });
}

/// The same without waiting, after a question whose answer is missing.
pub(super) fn tell_soon(core: &Arc<Core>, key: LockKey, owner: u64) {
    if let Ok(locks) = core.locking()
        && locks.with(key, |file| file.tell_of(owner)).is_some()
    {
        let core = core.clone();
        tokio::spawn(async move { tell(&core, key, owner).await });
    }
}

/// Ends the session: others need not wait for its lease.
pub(crate) async fn leave(core: &Core) {
    if let Ok(locks) = core.locking()
        && *locks.session.attached.read().await > 0
    {
        let left = tokio::time::timeout(HEAR_TIME, locks.service.leave(locks.session.number())).await;
        tracing::debug!(left = left.is_ok_and(|left| left.is_ok()), "locks of this mount ended");
    }
}
