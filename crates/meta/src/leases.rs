//! Who has been told what of a space's folders, and is to be told before others go on: leases, which are taken back.
//!
//! A mount believes what it was answered about names and attributes. So that nobody finds what was before after somebody else was told that it has changed, a
//! change is not answered before each mount that was answered about one of its folders has said that it heard of it ([`Leases::changed`], called between a commit
//! and its answer). Who was told once believes nothing of that folder until it asks again, so it is waited for once. See docs/design/leases.md.
//!
//! **Time.** A mount says each second which changes it has heard of ([`Leases::hear`]), and believes for [`TERM`] from when it *sent* the last such word that was taken;
//! here [`TERM`] counts from when that *came*, which is later. One that does not say that it heard of a change is not waited for any longer than that, and its words
//! are taken for [`PATIENCE`] more only: so a change waits for four seconds at most, and the next one not at all. Both clocks go equally fast; they
//! need not say the same.
//!
//! **Answers under way.** What is answered is read before it is written down that it was ([`Leases::grant`]), and what changed in between finds no lease. So
//! who asks takes a [mark](Leases::mark) before, and the answer waits until the mount has heard of such a change.
//!
//! **Who never says anything** would hold up every change in a folder for four seconds again and again, with nothing more than the right to read it. So the mounts of an account
//! of which one was given up twice within an hour believe nothing for a while, which grows each time: no word of any of them is taken, so those that are there end as well.
//!
//! It is in the memory of one process, and of no use where several make changes.

use crate::catalogue::{Noted, Touched};
use holdfast_base::{AccountId, NodeId, SpaceId};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

/// How long a mount believes after it sent a word that was taken.
pub const TERM: Duration = Duration::from_secs(3);
/// How long the words of a mount are taken that does not say that it heard of a change.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// Mounts that are told at most, and of an account; others believe nothing.
const MOUNTS_MAX: usize = 1_024;
const MOUNTS_OF_ACCOUNT_MAX: usize = 64;
/// How long an account's mounts believe nothing after the second time that one of them had to be given up; it doubles with each, up to the longest. What was so long ago does not count.
const SHUNNED: Duration = Duration::from_secs(10);
const SHUNNED_MAX: Duration = Duration::from_mins(10);
const REMEMBERED: Duration = Duration::from_hours(1);
/// Folders of a mount at most, twice; beyond, it has to hear of each change of the space.
const FOLDERS_MAX: usize = 8 << 10;
/// Changes that are remembered for answers under way. An answer that took longer is one that others may have overtaken.
const RECENT_MAX: usize = 1_024;
/// Changes that a mount has not heard of are kept apart in time by so much.
const GRAIN: Duration = Duration::from_millis(50);

/// Whose word it is: an account's, for a space, under a number that a mount gives itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mount {
    /// The space.
    pub space: SpaceId,
    /// The account.
    pub account: AccountId,
    /// A random number that stays.
    pub number: u64,
}

/// What a mount says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word {
    /// Grows with each.
    pub number: u64,
    /// Of all that it was asked about up to this number it has heard ([`Owed::ask`]); 0 if it was asked nothing.
    pub heard: u64,
    /// Whether it has forgotten all since it was last answered, and so believes nothing of what it was answered before the word before this came.
    pub forgot: bool,
}

/// What a mount is to say that it has heard of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owed {
    /// By which number it says so; each is greater than those before, also than those of a process before this.
    pub ask: u64,
    /// The count of the space's changes after them.
    pub seq: i64,
    /// Of which folders it is to believe nothing any more.
    pub touched: Touched,
}

/// What had changed when a question came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(u64);

/// The leases of a drive's mounts.
#[derive(Debug, Default)]
pub struct Leases {
    state: Mutex<State>,
    /// How many mounts there are, to be read without the lock.
    mounts: AtomicUsize,
}

impl State {
    /// Whether no words of an account's mounts are taken.
    fn is_shunned(&self, account: AccountId, now: Instant) -> bool {
        self.given_up.get(&account).is_some_and(|(at, times)| {
            let doublings = times.checked_sub(2);
            doublings.is_some_and(|it| now < *at + SHUNNED.saturating_mul(1 << it.min(10)).min(SHUNNED_MAX))
        })
    }

    fn forget_what_is_over(&mut self, now: Instant) {
        self.mounts.retain(|_, told| !told.is_over(now));
        self.given_up.retain(|_, (at, _)| now < *at + REMEMBERED);
    }

    /// The next number to be asked by.
    fn next_ask(&mut self) -> u64 {
        let micros = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_micros());
        self.asks = u64::try_from(micros).unwrap_or(0).max(self.asks + 1);
        self.asks
    }

    /// Whether one more mount may believe.
    fn has_room(&mut self, of: &Mount) -> bool {
        let of_account = self.mounts.keys().filter(|mount| mount.account == of.account).count();
        self.mounts.len() < MOUNTS_MAX && of_account < MOUNTS_OF_ACCOUNT_MAX
    }
}

#[derive(Debug, Default)]
struct State {
    mounts: HashMap<Mount, Told>,
    recent: VecDeque<Recent>,
    /// Accounts of which mounts were given up: when last, and how often.
    given_up: HashMap<AccountId, (Instant, u32)>,
    /// What rings where a mount is to be asked for its word.
    bells: HashMap<Mount, Weak<Notify>>,
    /// Counts changes.
    number: u64,
    /// The last number that a mount was asked by.
    asks: u64,
    /// Counts mounts, so that one that began anew is told from the one before.
    born: u64,
}

/// A change that an answer under way may have missed.
#[derive(Debug)]
struct Recent {
    number: u64,
    noted: Noted,
}

/// A mount that believes.
#[derive(Debug)]
struct Told {
    born: u64,
    /// By which number it makes changes ([`Noted::maker`]).
    voice: u64,
    /// Folders of which it was answered anything since its last word.
    folders: Folders,
    /// And before that, but after it had last forgotten all.
    before: Folders,
    /// The count of the space's changes after the last one.
    latest: i64,
    /// What it has to hear of, in order.
    outstanding: VecDeque<Outstanding>,
    /// The number of its last word.
    word: u64,
    /// What it said last.
    said: watch::Sender<Said>,
}

/// Changes within a [grain](GRAIN) of time.
#[derive(Debug)]
struct Outstanding {
    /// When the first was made.
    since: Instant,
    /// What may still be believed until it hears of them, as the last was asked about.
    owed: Owed,
}

/// Folders that a mount has leases of.
#[derive(Debug)]
enum Folders {
    These(HashSet<NodeId>),
    /// Too many to be counted.
    All,
}

impl Default for Folders {
    fn default() -> Self {
        Self::These(HashSet::new())
    }
}

impl Folders {
    fn add(&mut self, more: &Touched) {
        match more {
            Touched::Folders(more) => self.extend(more.iter().copied()),
            Touched::All => *self = Self::All,
        }
    }

    /// What has to be taken back so that these are: all, of those that are too many to be counted.
    fn with<'t>(&self, touched: &'t Touched) -> &'t Touched {
        if matches!(self, Self::All) { &Touched::All } else { touched }
    }

    fn extend(&mut self, more: impl IntoIterator<Item = NodeId>) {
        let Self::These(folders) = self else { return };
        folders.extend(more);
        if folders.len() > FOLDERS_MAX {
            *self = Self::All;
        }
    }

    fn take_in(&mut self, other: Self) {
        match other {
            Self::These(folders) => self.extend(folders),
            Self::All => *self = Self::All,
        }
    }

    fn has_any(&self, touched: &Touched) -> bool {
        match (self, touched) {
            (Self::All, _) => true,
            (Self::These(folders), Touched::All) => !folders.is_empty(),
            (Self::These(folders), Touched::Folders(touched)) => touched.iter().any(|folder| folders.contains(folder)),
        }
    }

    fn take_back(&mut self, touched: &Touched) {
        match (self, touched) {
            (Self::These(folders), Touched::Folders(touched)) => folders.retain(|folder| !touched.contains(folder)),
            (all, _) => *all = Self::default(),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Said {
    /// Up to which of its asks it has heard of all.
    heard: u64,
    /// When its last word came that was taken.
    taken: Instant,
}

impl Told {
    fn new(born: u64, voice: u64, now: Instant) -> Self {
        Self {
            born,
            voice,
            folders: Folders::default(),
            before: Folders::default(),
            latest: 0,
            outstanding: VecDeque::new(),
            word: 0,
            said: watch::Sender::new(Said { heard: 0, taken: now }),
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        now >= self.said.borrow().taken + TERM
    }

    /// It has to hear of a change.
    fn owes(&mut self, owed: Owed, now: Instant, bell: Option<&Weak<Notify>>) {
        if let Some(bell) = bell.and_then(Weak::upgrade) {
            bell.notify_one();
        }
        match self.outstanding.back_mut() {
            Some(last) if now < last.since + GRAIN => last.owed.take_in(&owed),
            _ => self.outstanding.push_back(Outstanding { since: now, owed }),
        }
    }

    /// By which number it was asked last of what it has to hear of before it believes nothing of these folders.
    fn asked_of(&self, touched: &Touched) -> Option<u64> {
        self.outstanding.iter().rev().map(|it| &it.owed).find(|owed| owed.touched.meets(touched)).map(|owed| owed.ask)
    }
}

impl Owed {
    fn take_in(&mut self, later: &Self) {
        (self.ask, self.seq) = (later.ask, later.seq.max(self.seq));
        self.touched.join(&later.touched);
    }
}

/// A change that is heard of by all who have to, once this is [over](Self::over).
#[derive(Debug)]
#[must_use]
pub struct Wait {
    leases: Arc<Leases>,
    mounts: Vec<Waited>,
}

/// Of whom.
#[derive(Debug)]
struct Waited {
    mount: Mount,
    born: u64,
    /// What it has to hear of.
    ask: u64,
    said: watch::Receiver<Said>,
}

impl Wait {
    /// Waits until every mount that this is about has heard of the change, or believes nothing any more.
    pub async fn over(self) {
        for Waited { mount, born, ask, mut said } in self.mounts {
            loop {
                let now = *said.borrow_and_update();
                if now.heard >= ask {
                    break;
                }
                tokio::select! {
                    told = said.changed() => if told.is_err() { break },
                    () = sleep_until(now.taken + TERM) => {
                        self.leases.give_up(mount, born);
                        break;
                    }
                }
            }
        }
    }
}

impl Leases {
    /// A mount, which makes changes under the number `voice`, says what it has heard of. Answers whether that was taken: then it may believe for [`TERM`] from when it sent
    /// it. What was under way for so long that a later word came before it is not.
    pub fn hear(&self, mount: Mount, voice: u64, Word { number, heard, forgot }: Word) -> bool {
        let now = Instant::now();
        let mut state = self.state.lock();
        let is_shunned = state.is_shunned(mount.account, now);
        if state.mounts.get(&mount).is_none_or(|told| told.is_over(now)) {
            state.forget_what_is_over(now);
            if is_shunned || !state.has_room(&mount) {
                return false;
            }
            state.born += 1;
            let told = Told { word: number, ..Told::new(state.born, voice, now) };
            state.mounts.insert(mount, told);
            self.count(&state);
            return true;
        }
        let Some(told) = state.mounts.get_mut(&mount) else { return false };
        if number <= told.word {
            return false;
        }
        (told.voice, told.word) = (voice, number);
        let since = std::mem::take(&mut told.folders);
        if forgot {
            told.before = since;
        } else {
            told.before.take_in(since);
        }
        while told.outstanding.front().is_some_and(|it| it.owed.ask <= heard) {
            told.outstanding.pop_front();
        }
        let is_taken = !is_shunned && told.outstanding.front().is_none_or(|owed| now < owed.since + PATIENCE);
        told.said.send_modify(|said| {
            said.heard = said.heard.max(heard);
            if is_taken {
                said.taken = now;
            }
        });
        is_taken
    }

    /// A mount believes nothing any more. What was under way for so long that a later word came before it is not taken.
    pub fn leave(&self, mount: Mount, number: u64) {
        let mut state = self.state.lock();
        if state.mounts.get(&mount).is_some_and(|told| told.word < number) {
            state.mounts.remove(&mount);
            self.count(&state);
        }
    }

    fn give_up(&self, mount: Mount, born: u64) {
        let mut state = self.state.lock();
        if state.mounts.get(&mount).is_some_and(|told| told.born == born && told.is_over(Instant::now())) {
            metrics::counter!("holdfast_leases_given_up_total").increment(1);
            tracing::info!(?mount, "a mount did not say that it heard of a change, and is not waited for any longer");
            state.mounts.remove(&mount);
            let given_up = state.given_up.entry(mount.account).or_insert((Instant::now(), 0));
            *given_up = (Instant::now(), given_up.1.saturating_add(1));
            self.count(&state);
        }
    }

    /// Forgets mounts that ended without a word, which is called now and then: nothing else looks while nothing is mounted.
    pub fn sweep(&self) {
        let mut state = self.state.lock();
        state.forget_what_is_over(Instant::now());
        self.count(&state);
    }

    fn count(&self, state: &State) {
        self.mounts.store(state.mounts.len(), Ordering::Release);
        metrics::gauge!("holdfast_leases_mounts").set(state.mounts.len() as f64);
    }

    /// To be taken before what a mount is to be answered is read, or what it asks for under the number `voice` is changed.
    pub fn mark(&self, mount: Mount, voice: u64) -> Mark {
        let mut state = self.state.lock();
        if let Some(told) = state.mounts.get_mut(&mount) {
            told.voice = voice;
        }
        Mark(state.number)
    }

    /// A mount is about to be answered about these folders. What changed in them since the mark by somebody else, it has to hear of before that.
    pub fn grant(
        self: &Arc<Self>,
        mount: Mount,
        folders: impl IntoIterator<Item = NodeId>,
        Mark(since): Mark,
    ) -> Option<Wait> {
        let now = Instant::now();
        let mut state = self.state.lock();
        let ask = state.next_ask();
        let State { mounts, recent, number, bells, .. } = &mut *state;
        // Who does not say what it heard of believes nothing.
        let told = mounts.get_mut(&mount).filter(|told| !told.is_over(now))?;
        let mut asked = Touched::default();
        asked.add(folders);
        let missed = recent.iter().rev().take_while(|recent| recent.number > since).filter(|recent| {
            let Noted { change, touched, maker } = &recent.noted;
            change.space == mount.space && (*maker == 0 || *maker != told.voice) && touched.meets(&asked)
        });
        let mut missed = missed.map(|recent| recent.noted.change.seq).max();
        if *number - since > RECENT_MAX as u64 {
            // Which they were is not known any more.
            missed = Some(told.latest);
        }
        told.folders.add(&asked);
        told.owes(Owed { ask, seq: missed?, touched: asked }, now, bells.get(&mount));
        let mounts = vec![Waited { mount, born: told.born, ask, said: told.said.subscribe() }];
        Some(Wait { leases: self.clone(), mounts })
    }

    /// A change is on disk, and nobody was told of it yet. Answers what is to be waited for before it is answered.
    pub fn changed(self: &Arc<Self>, noted: &Noted) -> Option<Wait> {
        if self.mounts.load(Ordering::Acquire) == 0 {
            return None;
        }
        let now = Instant::now();
        let mut state = self.state.lock();
        let ask = state.next_ask();
        let State { mounts, recent, number, bells, .. } = &mut *state;
        *number += 1;
        if recent.len() >= RECENT_MAX {
            recent.pop_front();
        }
        recent.push_back(Recent { number: *number, noted: noted.clone() });
        let Noted { change, touched, maker } = noted;
        let mut waits = Vec::new();
        for (mount, told) in mounts.iter_mut().filter(|(mount, _)| mount.space == change.space) {
            told.latest = change.seq;
            let is_own = change.by != 0 && change.by == told.voice;
            if is_own || told.is_over(now) {
                continue;
            }
            let ask = if told.folders.has_any(touched) || told.before.has_any(touched) {
                let touched = told.before.with(told.folders.with(touched));
                told.folders.take_back(touched);
                told.before.take_back(touched);
                told.owes(Owed { ask, seq: change.seq, touched: touched.clone() }, now, bells.get(mount));
                ask
            } else if let Some(ask) = told.asked_of(touched) {
                // It was told, and may not have heard yet.
                ask
            } else {
                continue;
            };
            if *maker != 0 && *maker == told.voice {
                // It has to look again, and has the answer to know that by.
                continue;
            }
            waits.push(Waited { mount: *mount, born: told.born, ask, said: told.said.subscribe() });
        }
        drop(state);
        if waits.is_empty() {
            return None;
        }
        metrics::counter!("holdfast_leases_recalled_total").increment(waits.len() as u64);
        Some(Wait { leases: self.clone(), mounts: waits })
    }

    /// Rings when a mount is to be asked for its word, for as long as it is kept.
    pub fn bell(&self, mount: Mount) -> Arc<Notify> {
        let mut state = self.state.lock();
        state.bells.retain(|_, bell| bell.strong_count() > 0);
        if let Some(bell) = state.bells.get(&mount).and_then(Weak::upgrade) {
            return bell;
        }
        let bell = Arc::default();
        state.bells.insert(mount, Arc::downgrade(&bell));
        bell
    }

    /// All that others wait for a mount to say that it has heard of, if it was asked about some of it after this number.
    pub fn owed(&self, mount: Mount, after: u64) -> Option<Owed> {
        let state = self.state.lock();
        let outstanding = &state.mounts.get(&mount)?.outstanding;
        let mut all = outstanding.back().filter(|last| last.owed.ask > after)?.owed.clone();
        for earlier in outstanding.iter().rev().skip(1) {
            all.seq = all.seq.max(earlier.owed.seq);
            all.touched.join(&earlier.owed.touched);
        }
        Some(all)
    }

    /// Whether a mount hears of what it was answered about.
    pub fn has(&self, mount: Mount) -> bool {
        self.state.lock().mounts.get(&mount).is_some_and(|told| !told.is_over(Instant::now()))
    }
}

#[cfg(test)]
mod tests;
