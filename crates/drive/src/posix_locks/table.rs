//! Who has what, of every space that this process serves; in its memory.

use super::{
    FILES_MAX, HELD_MAX, Held, Kept, LEASE, LockAnswer, LockAsk, LockKey, Patience, Ranges, SESSIONS_MAX, WAITING_MAX,
    WHOLE_MAX,
};
use holdfast_base::{AccountId, Error, ErrorKind, Result, SpaceId};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, timeout};

/// A session of an account in a space. Nobody else's number is found by guessing it.
pub(super) type SessionId = (SpaceId, AccountId, u64);
type Who = (SessionId, u64);
type File = (SpaceId, LockKey);

/// How long whoever only tries waits for a recall to be answered; then the lock counts as held.
const TRY_TIME: Duration = Duration::from_secs(3);
/// Time between two looks of those who wait, whether whom they wait for has lost its lease.
const LOOK: Duration = Duration::from_secs(1);
/// Steps that are gone when it is looked whether whoever waits would wait for itself.
const STEPS_MAX: usize = 10_000;

struct Session {
    heard: Instant,
    leased: bool,
    recalls: Vec<(LockKey, u64)>,
    /// When those were told last, if all were.
    told: Option<Instant>,
    news: Arc<Notify>,
    files: HashSet<LockKey>,
    whole: usize,
    waiting: usize,
}

struct Waiter {
    /// Never used twice: a question that is sent again has the ticket of before.
    place: u64,
    who: Who,
    ticket: u64,
    wanted: Held<Who>,
    patience: Patience,
    answer: oneshot::Sender<LockAnswer>,
}

#[derive(Default)]
struct Locked {
    /// Who decides by itself, by which number, and whether it was recalled.
    whole: Option<(SessionId, u64, bool)>,
    held: Ranges<Who>,
    queue: Vec<Waiter>,
}

#[derive(Default)]
struct State {
    sessions: HashMap<SessionId, Session>,
    files: HashMap<File, Locked>,
    /// The last number of [`LockAnswer::Whole`].
    numbers: u64,
    places: u64,
}

/// The table.
pub struct LockTable {
    state: Mutex<State>,
    /// A file that is there while sessions over the network may have locks.
    mark: Option<PathBuf>,
    is_marked: AtomicBool,
    /// Until then sessions of the process before may come back.
    grace_until: Option<Instant>,
}

impl LockTable {
    /// An empty one. If the process before ended while sessions over the network had locks, as a file says that is named here, they have their lease's time to
    /// come back, and nobody gets anything new meanwhile.
    pub fn new(mark: Option<PathBuf>) -> Self {
        let left_behind = mark.as_ref().is_some_and(|mark| mark.exists());
        let mut state = State::default();
        // Numbers go on behind those of the process before, since sessions come back with them.
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        state.numbers = u64::try_from(since.as_nanos()).unwrap_or(0);
        let grace_until = left_behind.then(|| Instant::now() + LEASE);
        Self { state: Mutex::new(state), mark, is_marked: AtomicBool::new(left_behind), grace_until }
    }

    /// See [`Locking::attach`](super::Locking::attach).
    pub fn attach(&self, id: SessionId, leased: bool, kept: Vec<Kept>) -> Result<()> {
        if kept.len() > FILES_MAX || kept.iter().any(|kept| kept.held.len() > HELD_MAX) {
            return Err(too_many("locks"));
        }
        let mut state = self.state.lock();
        state.expire();
        state.remove(id);
        if state.sessions.len() >= SESSIONS_MAX {
            return Err(too_many("mounts"));
        }
        let in_the_way = kept.iter().any(|kept| {
            state.files.get(&(id.0, kept.key)).is_some_and(|locked| {
                let conflict = |held: &Held| locked.held.conflicts(of_session(id, *held)).next().is_some();
                locked.whole.is_some()
                    || (kept.whole.is_some() && !locked.held.is_empty())
                    || kept.held.iter().any(conflict)
            })
        });
        let session = Session {
            heard: Instant::now(),
            leased,
            recalls: Vec::new(),
            told: None,
            news: Arc::default(),
            files: HashSet::new(),
            whole: kept.iter().filter(|kept| kept.whole.is_some()).count(),
            waiting: 0,
        };
        state.sessions.insert(id, session);
        if in_the_way {
            return Err(Error::conflict("another mount has locks by now that this one had"));
        }
        for Kept { key, whole, held } in kept {
            let locked = state.files.entry((id.0, key)).or_default();
            locked.whole = whole.map(|number| (id, number, false));
            for held in held {
                locked.held.set((id, held.owner), held.range, Some(held.exclusive));
            }
            state.numbers = state.numbers.max(whole.unwrap_or(0));
            state.note(id, key);
        }
        Ok(())
    }

    /// See [`Locking::ask`](super::Locking::ask).
    pub async fn ask(&self, id: SessionId, ask: LockAsk) -> Result<LockAnswer> {
        let wait = Duration::from_millis(u64::from(ask.wait_ms));
        let until = Instant::now() + if ask.patience == Patience::Wait { wait } else { wait.min(TRY_TIME) };
        if ask.held.range.start >= ask.held.range.end {
            return Err(Error::invalid("a lock is of a byte at least"));
        }
        if self.state.lock().hear(id)? {
            self.leave_mark()?;
        }
        if let Some(grace) = self.grace_until.filter(|grace| *grace > Instant::now()) {
            sleep((grace - Instant::now()).min(wait)).await;
            if grace > Instant::now() {
                return Ok(LockAnswer::Later);
            }
        }
        let (queued, mut answered) = {
            let mut state = self.state.lock();
            let (place, answered) = state.enqueue(id, ask)?;
            state.decide((id.0, ask.key));
            (Queued { table: self, file: (id.0, ask.key), place }, answered)
        };
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if let Ok(answer) = timeout(left.min(LOOK), &mut answered).await {
                // It is taken away with its session.
                return answer.or_else(|_| self.state.lock().hear(id).map(|_| LockAnswer::Later));
            }
            self.state.lock().expire();
            if Instant::now() >= until {
                drop(queued);
                let over = if ask.patience == Patience::Wait { LockAnswer::Later } else { LockAnswer::Busy(None) };
                // It may have been answered this moment.
                return Ok(answered.try_recv().unwrap_or(over));
            }
        }
    }

    /// See [`Locking::take_back`](super::Locking::take_back).
    pub fn take_back(&self, id: SessionId, ticket: u64) -> Result<()> {
        let mut state = self.state.lock();
        state.hear(id)?;
        let is_it = |waiter: &Waiter| waiter.who.0 == id && waiter.ticket == ticket;
        let found = state
            .files
            .iter()
            .find_map(|(file, locked)| Some((*file, locked.queue.iter().find(|waiter| is_it(waiter))?.place)));
        if let Some((file, place)) = found
            && let Some(waiter) = state.unqueue(file, place)
        {
            // Whoever asked may be gone.
            let _ = waiter.answer.send(LockAnswer::Later);
        }
        Ok(())
    }

    /// See [`Locking::leave_only`](super::Locking::leave_only).
    pub fn leave_only(&self, id: SessionId, key: LockKey, owner: u64, left: &[Held]) -> Result<()> {
        let mut state = self.state.lock();
        state.hear(id)?;
        if let Some(locked) = state.files.get_mut(&(id.0, key)) {
            let left: Vec<_> = left.iter().map(|held| of_session(id, Held { owner, ..*held })).collect();
            locked.held.leave_only((id, owner), &left);
        }
        state.note(id, key);
        state.decide((id.0, key));
        Ok(())
    }

    /// See [`Locking::yield_whole`](super::Locking::yield_whole).
    pub fn yield_whole(&self, id: SessionId, key: LockKey, number: u64, held: &[Held]) -> Result<()> {
        if held.len() > HELD_MAX {
            return Err(too_many("locks of one file"));
        }
        let mut state = self.state.lock();
        state.hear(id)?;
        if let Some(session) = state.sessions.get_mut(&id) {
            session.recalls.retain(|(of, told)| *of != key || *told > number);
        }
        if let Some(locked) = state.files.get_mut(&(id.0, key))
            && locked.whole.is_some_and(|(by, given, _)| by == id && given == number)
        {
            locked.whole = None;
            for held in held {
                locked.held.set((id, held.owner), held.range, Some(held.exclusive));
            }
            if let Some(session) = state.sessions.get_mut(&id) {
                session.whole = session.whole.saturating_sub(1);
            }
        }
        state.note(id, key);
        state.decide((id.0, key));
        Ok(())
    }

    /// See [`Locking::recalls`](super::Locking::recalls).
    pub async fn recalls(&self, id: SessionId, wait: Duration) -> Result<Vec<(LockKey, u64)>> {
        let until = Instant::now() + wait;
        loop {
            let (news, again) = {
                let mut state = self.state.lock();
                state.hear(id)?;
                let session = state.sessions.get_mut(&id).ok_or_else(unknown)?;
                let again = session.told.map_or_else(Instant::now, |told| told + LOOK);
                if !session.recalls.is_empty() && again <= Instant::now() {
                    session.told = Some(Instant::now());
                    return Ok(session.recalls.clone());
                }
                (session.news.clone(), if session.recalls.is_empty() { until } else { again.min(until) })
            };
            // A word that comes before this waits is kept for it.
            let left = again.saturating_duration_since(Instant::now());
            if timeout(left, news.notified()).await.is_err() && Instant::now() >= until {
                self.state.lock().hear(id)?;
                return Ok(Vec::new());
            }
        }
    }

    /// See [`Locking::leave`](super::Locking::leave).
    pub fn leave(&self, id: SessionId) {
        self.state.lock().remove(id);
    }

    /// Sessions over the network may have locks from now on, and come back with them after the end of this process.
    fn leave_mark(&self) -> Result<()> {
        let Some(mark) = self.mark.as_ref().filter(|_| !self.is_marked.swap(true, Ordering::AcqRel)) else {
            return Ok(());
        };
        let made = std::fs::File::create(mark).and_then(|file| file.sync_all()).and_then(|()| match mark.parent() {
            Some(folder) => std::fs::File::open(folder)?.sync_all(),
            None => Ok(()),
        });
        made.map_err(|error| {
            self.is_marked.store(false, Ordering::Release);
            Error::from(error).context(mark.display())
        })
    }

    /// This process ends in good order: the next need not wait for sessions that have nothing.
    pub fn stop(&self) {
        let has_any = self.state.lock().sessions.values().any(|session| session.leased && !session.files.is_empty());
        if let Some(mark) = self.mark.as_ref().filter(|_| !has_any && self.is_marked.load(Ordering::Acquire)) {
            // Otherwise the next process waits in vain.
            let _ = std::fs::remove_file(mark);
        }
    }
}

fn unknown() -> Error {
    Error::new(
        ErrorKind::PreconditionFailed,
        "this mount has no locks here: it was silent for too long, or the server began anew",
    )
}

fn too_many(what: &str) -> Error {
    Error::new(ErrorKind::NoSpace, format!("there are too many {what}"))
}

const fn of_session(id: SessionId, held: Held) -> Held<Who> {
    Held { owner: (id, held.owner), range: held.range, exclusive: held.exclusive }
}

impl State {
    /// A session says something. Answers whether it comes over the network.
    fn hear(&mut self, id: SessionId) -> Result<bool> {
        let session = self.sessions.get_mut(&id).ok_or_else(unknown)?;
        if session.leased && session.heard.elapsed() >= LEASE {
            self.remove(id);
            return Err(unknown());
        }
        session.heard = Instant::now();
        Ok(session.leased)
    }

    /// A session has something of a file, or may have nothing of it any more.
    fn note(&mut self, id: SessionId, key: LockKey) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let has = self.files.get(&(id.0, key)).is_some_and(|locked| {
            locked.whole.is_some_and(|(by, ..)| by == id)
                || locked.held.all().iter().any(|held| held.owner.0 == id)
                || locked.queue.iter().any(|waiter| waiter.who.0 == id)
        });
        if has {
            session.files.insert(key);
        } else {
            session.files.remove(&key);
        }
    }

    /// Sessions that were silent for too long have nothing.
    fn expire(&mut self) {
        let gone = self.sessions.iter().filter(|(_, session)| session.leased && session.heard.elapsed() >= LEASE);
        for id in gone.map(|(id, _)| *id).collect::<Vec<_>>() {
            tracing::warn!(account = %id.1, "a mount was silent for longer than its lease, and has lost its locks");
            self.remove(id);
        }
    }

    fn remove(&mut self, id: SessionId) {
        let Some(session) = self.sessions.remove(&id) else { return };
        for key in session.files {
            let file = (id.0, key);
            if let Some(locked) = self.files.get_mut(&file) {
                locked.held.retain(|who| who.0 != id);
                locked.queue.retain(|waiter| waiter.who.0 != id);
                locked.whole = locked.whole.filter(|(by, ..)| *by != id);
            }
            self.decide(file);
        }
    }

    fn enqueue(&mut self, id: SessionId, ask: LockAsk) -> Result<(u64, oneshot::Receiver<LockAnswer>)> {
        let session = self.sessions.get_mut(&id).ok_or_else(unknown)?;
        if session.files.len() >= FILES_MAX && !session.files.contains(&ask.key) {
            return Err(too_many("locked files"));
        }
        if session.waiting >= WAITING_MAX {
            return Err(too_many("locks to be waited for"));
        }
        let locked = self.files.entry((id.0, ask.key)).or_default();
        if locked.held.len() >= HELD_MAX {
            return Err(too_many("locks of one file"));
        }
        session.waiting += 1;
        self.places += 1;
        let place = self.places;
        let (answer, answered) = oneshot::channel();
        let (who, wanted) = ((id, ask.held.owner), of_session(id, ask.held));
        locked.queue.push(Waiter { place, who, ticket: ask.ticket, wanted, patience: ask.patience, answer });
        self.note(id, ask.key);
        Ok((place, answered))
    }

    /// Takes a waiter out of its queue, if it is there yet.
    fn unqueue(&mut self, file: File, place: u64) -> Option<Waiter> {
        let queue = &mut self.files.get_mut(&file)?.queue;
        let at = queue.iter().position(|waiter| waiter.place == place)?;
        let waiter = queue.remove(at);
        self.left_queue(waiter.who.0);
        self.note(waiter.who.0, file.1);
        self.tidy(file);
        Some(waiter)
    }

    fn left_queue(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.waiting = session.waiting.saturating_sub(1);
        }
    }

    fn tidy(&mut self, file: File) {
        if self.files.get(&file).is_some_and(|it| it.whole.is_none() && it.held.is_empty() && it.queue.is_empty()) {
            self.files.remove(&file);
        }
        metrics::gauge!("holdfast_locked_files").set(self.files.len() as f64);
    }

    /// Answers whoever can be answered by now, in the order they came.
    fn decide(&mut self, file: File) {
        let mut at = 0;
        let mut touched = Vec::new();
        while let Some(waiter) = self.files.get(&file).and_then(|locked| locked.queue.get(at)) {
            let (who, wanted, patience) = (waiter.who, waiter.wanted, waiter.patience);
            let Some(answer) = self.answer(file, who, wanted, patience) else {
                at += 1;
                continue;
            };
            let Some(locked) = self.files.get_mut(&file) else { break };
            let waiter = locked.queue.remove(at);
            self.left_queue(who.0);
            touched.push(who.0);
            // Whoever asked and is gone asks again, or lets go of it.
            let _ = waiter.answer.send(answer);
        }
        for id in touched {
            self.note(id, file.1);
        }
        self.end_deadlocks(file);
        self.tidy(file);
    }

    /// What a waiter can be told, and what it takes with that; none if it has to wait.
    fn answer(&mut self, file: File, who: Who, wanted: Held<Who>, patience: Patience) -> Option<LockAnswer> {
        let locked = self.files.get_mut(&file)?;
        if let Some((by, number, recalled)) = &mut locked.whole {
            if *by == who.0 {
                return Some(LockAnswer::Whole(*number));
            }
            if !std::mem::replace(recalled, true)
                && let Some(session) = self.sessions.get_mut(by)
            {
                session.recalls.push((file.1, *number));
                session.told = None;
                session.news.notify_one();
            }
            return None;
        }
        let in_the_way = locked.held.conflicts(wanted).next();
        match (in_the_way, patience) {
            (None, Patience::Probe) => Some(LockAnswer::Free),
            (None, _) => {
                let alone = locked.held.is_empty() && locked.queue.len() == 1;
                let session = self.sessions.get_mut(&who.0)?;
                if alone && session.whole < WHOLE_MAX {
                    session.whole += 1;
                    self.numbers += 1;
                    locked.whole = Some((who.0, self.numbers, false));
                    return Some(LockAnswer::Whole(self.numbers));
                }
                locked.held.set(who, wanted.range, Some(wanted.exclusive));
                Some(LockAnswer::Exact)
            }
            (Some(held), Patience::Try | Patience::Probe) => {
                let Held { owner, range, exclusive } = held;
                Some(LockAnswer::Busy(Some(Held { owner: owner.1, range, exclusive })))
            }
            (Some(_), Patience::Wait) => None,
        }
    }

    /// Of those who wait for each other, tells who came last.
    fn end_deadlocks(&mut self, file: File) {
        if file.1.flock {
            return;
        }
        loop {
            let found = self.files.get(&file).and_then(|locked| {
                let mut waiting = locked.queue.iter().rev().filter(|waiter| waiter.patience == Patience::Wait);
                waiting.find(|waiter| self.waits_for_itself(file, waiter.wanted)).map(|waiter| waiter.place)
            });
            let Some(waiter) = found.and_then(|place| self.unqueue(file, place)) else { return };
            // Whoever asked may be gone.
            let _ = waiter.answer.send(LockAnswer::Deadlock);
        }
    }

    /// Whether those whom a lock would wait for wait for its owner, directly or through others.
    fn waits_for_itself(&self, file: File, wanted: Held<Who>) -> bool {
        let waiting: Vec<(File, Held<Who>)> = self
            .files
            .iter()
            .filter(|(of, _)| of.0 == file.0 && !of.1.flock)
            .flat_map(|(of, locked)| locked.queue.iter().map(|waiter| (*of, waiter)))
            .filter(|(_, waiter)| waiter.patience == Patience::Wait)
            .map(|(of, waiter)| (of, waiter.wanted))
            .collect();
        let holders = |of: &File, wanted: Held<Who>| {
            self.files.get(of).into_iter().flat_map(move |locked| locked.held.conflicts(wanted)).map(|held| held.owner)
        };
        let mut next: Vec<Who> = holders(&file, wanted).collect();
        let mut seen = HashSet::new();
        let mut steps = 0;
        while let Some(who) = next.pop() {
            steps += 1;
            if who == wanted.owner {
                return true;
            }
            if steps > STEPS_MAX || !seen.insert(who) {
                continue;
            }
            for (of, waits) in waiting.iter().filter(|(_, waits)| waits.owner == who) {
                next.extend(holders(of, *waits));
            }
        }
        false
    }
}

/// A question that waits: gone with whoever asked it.
struct Queued<'t> {
    table: &'t LockTable,
    file: File,
    place: u64,
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        let mut state = self.table.state.lock();
        if state.unqueue(self.file, self.place).is_some() {
            state.decide(self.file);
        }
    }
}
