//! How long the kernel believes what it was told of names and attributes.
//!
//! Usually a short while, which is all that a change by somebody else takes to be seen. Where the tree is told of such changes at once
//! ([`Tree::unchanged`]), the kernel may believe for [`LONG`], and what it was so told is written down here: after a change it is told to ask again about all of
//! that, whatever the change was about. Nothing else becomes of names and inodes by that: whoever stands in a folder still does, and what is mounted there stays
//! mounted. That takes Linux 6.3; to kernels before it, nothing is told for long.
//!
//! **No answer is overlooked.** Who answers takes the tree's number before it asks ([`Belief::turn`]), and what it told is written down after the answer is out,
//! with that number. A change comes before that, and then the number is another one by then; or after, and then it is written down when the change is heard of.
//! Where others wait until this mount has heard of what they change, they wait for this, too ([`Shows`]). So a name that cannot be taken back is not believed at all where others make
//! changes.
//!
//! What programs here change the kernel knows by itself: it takes nothing from an answer that was under way meanwhile. So nothing is told for long of what was known
//! before its request came: not of what an open file was when it was last looked at, nor of a page of a listing that an earlier request had read.

use crate::core::Shown;
use crate::known::Known;
use async_trait::async_trait;
use fuser::{INodeNo, Notifier};
use holdfast_drive::{Shows, Tree};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, OwnedMutexGuard};
use tokio::task::JoinSet;

/// How long names and attributes are believed that can be taken back.
const LONG: Duration = Duration::from_mins(1);
/// So many at most of both together.
const GIVEN_MAX: usize = 32 << 10;
/// How long nothing is told for long after a change by somebody else: there will be more.
const QUIET: Duration = Duration::from_secs(2);
/// How often it is looked whether the tree's number is another one, besides whenever the tree tells of a change.
const LOOK: Duration = Duration::from_millis(100);
/// Time between two looks for what is believed no more, where there is no room.
const SWEEP: Duration = Duration::from_secs(1);
/// Threads that have the kernel ask again. It waits for whatever is under way in a folder, and other folders are not to wait for that.
const THREADS: usize = 4;
/// Nor is the next change.
const WAIT: Duration = Duration::from_secs(1);

/// The kernel's message that a name is to be asked for again (`FUSE_NOTIFY_INVAL_ENTRY` of linux/fuse.h), and that nothing else is to become of it
/// (`FUSE_EXPIRE_ONLY`).
const INVAL_ENTRY: i32 = 3;
const EXPIRE_ONLY: u32 = 1;

/// A name in a folder.
type Name = (u64, OsString);

/// What the kernel is told in an answer: an inode's attributes, and perhaps what a name is.
struct Told {
    ino: INodeNo,
    born: u64,
    name: Option<Name>,
}

/// An inode whose attributes the kernel was told for long, or is about to be.
struct Inode {
    /// A number of its own: it may have been taken back since, and told again.
    born: u64,
    /// Until when it believes them; none while it is not written down.
    until: Option<Instant>,
}

struct Given {
    /// Answers that are on their way out, by the tree's number at which they were given.
    telling: HashMap<u64, usize>,
    /// The kernel is being told to ask again.
    is_expiring: bool,
    /// The tree's number at which all that is written down was told; none if it is of several.
    at: Option<u64>,
    is_written: bool,
    /// Until when it is believed.
    names: HashMap<Name, Instant>,
    inodes: HashMap<INodeNo, Inode>,
    born: u64,
    swept: Instant,
}

/// What the kernel is to ask again about.
type Overdue = (Vec<INodeNo>, Vec<Name>);

impl Given {
    fn count(&self) -> usize {
        self.names.len() + self.inodes.len()
    }
}

/// How long one mount's kernel believes.
pub(crate) struct Belief {
    tree: Arc<dyn Tree>,
    known: Arc<Known>,
    short: Duration,
    /// Whether there is [`Self::keep`].
    is_kept: bool,
    /// Whether the kernel can be told to ask again.
    can_expire: AtomicBool,
    given: Mutex<Given>,
    /// How much is given, to be read without the lock.
    count: AtomicUsize,
    quiet_until: Mutex<Option<Instant>>,
    /// Held while the kernel is told to ask again about attributes.
    expiring: Arc<tokio::sync::Mutex<()>>,
    /// There is something to be looked at.
    look: Notify,
    /// There was.
    looked: Notify,
}

/// What is told to the kernel with one answer; to be dropped when that is out.
pub(crate) struct Turn<'b> {
    belief: &'b Belief,
    /// The tree's number before it was asked; none if nothing is told for long.
    at: Option<u64>,
    told: Vec<Told>,
}

impl Belief {
    /// For so long; and longer once it is known that the kernel [can expire](Self::can_expire) what it believes, if somebody [keeps](Self::keep) it.
    pub(crate) fn new(tree: Arc<dyn Tree>, known: Arc<Known>, short: Duration, is_kept: bool) -> Self {
        Self {
            tree,
            known,
            short,
            is_kept,
            can_expire: AtomicBool::new(false),
            given: Mutex::new(Given {
                telling: HashMap::new(),
                is_expiring: false,
                at: None,
                is_written: false,
                names: HashMap::new(),
                inodes: HashMap::new(),
                born: 0,
                swept: Instant::now(),
            }),
            count: AtomicUsize::new(0),
            quiet_until: Mutex::default(),
            expiring: Arc::default(),
            look: Notify::new(),
            looked: Notify::new(),
        }
    }

    /// How long is believed what cannot be taken back.
    pub(crate) const fn short(&self) -> Duration {
        self.short
    }

    /// The same of a name.
    pub(crate) const fn short_of_name(&self) -> Duration {
        if self.is_kept { Duration::ZERO } else { self.short }
    }

    /// The kernel can be told to ask again about names.
    pub(crate) fn can_expire(&self) {
        self.can_expire.store(self.is_kept, Ordering::Release);
    }

    /// Begins an answer, before the tree is asked.
    pub(crate) fn turn(&self) -> Turn<'_> {
        let at = if self.can_expire.load(Ordering::Acquire) && !self.is_quiet() { self.tree.unchanged() } else { None };
        Turn { belief: self, at, told: Vec::new() }
    }

    fn is_quiet(&self) -> bool {
        let mut until = self.quiet_until.lock();
        *until = until.filter(|until| *until > Instant::now());
        until.is_some()
    }

    /// Whether so much more may be told for long.
    fn has_room(&self, more: usize) -> bool {
        if self.count.load(Ordering::Acquire) + more < GIVEN_MAX {
            return true;
        }
        let (now, mut given) = (Instant::now(), self.given.lock());
        if now - given.swept > SWEEP {
            given.swept = now;
            given.names.retain(|_, until| *until > now);
            given.inodes.retain(|_, inode| inode.until.is_none_or(|until| until > now));
            self.count.store(given.count(), Ordering::Release);
        }
        given.count() + more < GIVEN_MAX
    }

    /// Writes down what was told, at a number of the tree.
    fn write_down(&self, at: u64, told: Vec<Told>) {
        let until = Instant::now() + LONG;
        let mut given = self.given.lock();
        if let Entry::Occupied(mut telling) = given.telling.entry(at) {
            *telling.get_mut() -= 1;
            if *telling.get() == 0 {
                telling.remove();
            }
        }
        let is_first = !std::mem::replace(&mut given.is_written, true);
        given.at = Some(at).filter(|_| is_first || given.at == Some(at));
        for Told { ino, born, name } in told {
            // What was taken back meanwhile, the kernel asks about again.
            if let Some(inode) = given.inodes.get_mut(&ino).filter(|inode| inode.born == born) {
                inode.until = Some(until);
            }
            given.names.extend(name.map(|name| (name, until)));
        }
        self.count.store(given.count(), Ordering::Release);
        drop(given);
        if is_first || self.tree.unchanged() != Some(at) {
            self.look.notify_one();
        }
    }

    /// What the kernel is to ask again about now.
    fn overdue(&self) -> Option<Overdue> {
        let mut given = self.given.lock();
        if !given.is_written || given.at.is_some() && given.at == self.tree.unchanged() {
            return None;
        }
        (given.is_written, given.is_expiring) = (false, true);
        *self.quiet_until.lock() = Some(Instant::now() + QUIET);
        let names = std::mem::take(&mut given.names).into_keys().collect();
        let inodes = given.inodes.extract_if(|_, inode| inode.until.is_some()).map(|(ino, _)| ino).collect();
        self.count.store(given.count(), Ordering::Release);
        Some((inodes, names))
    }

    /// Nothing of what it was told so far has the kernel ask again about this inode's attributes once this has answered: whoever calls it has it do so.
    pub(crate) async fn take_back(&self, ino: INodeNo) {
        self.given.lock().inodes.remove(&ino);
        // It may be about to.
        drop(self.expiring.lock().await);
    }

    /// Has the kernel ask again: about attributes first, for which it waits for nothing.
    async fn expire(
        &self,
        (inodes, names): Overdue,
        expiring: OwnedMutexGuard<()>,
        notifier: &Notifier,
        device: &Arc<File>,
    ) {
        let mut folders: HashMap<u64, Vec<OsString>> = HashMap::new();
        for (folder, name) in names {
            folders.entry(folder).or_default().push(name);
        }
        let mut work = JoinSet::new();
        let (notifier, known) = (notifier.clone(), self.known.clone());
        work.spawn_blocking(move || {
            for ino in inodes {
                known.is_unsure(ino);
                // What the kernel does not have any more it does not have to ask about.
                let _ = notifier.inval_inode(ino, -1, 0);
            }
            drop(expiring);
        });
        let folders = Arc::new(Mutex::new(folders.into_iter()));
        for _ in 0..THREADS {
            let (folders, device) = (folders.clone(), device.clone());
            work.spawn_blocking(move || {
                let next = || folders.lock().next();
                while let Some((folder, names)) = next() {
                    for name in names {
                        let _ = expire_name(&device, folder, &name);
                    }
                }
            });
        }
        if tokio::time::timeout(WAIT, async { while work.join_next().await.is_some() {} }).await.is_err() {
            work.detach_all();
        }
    }

    /// Has the kernel ask again about what others changed, for as long as the space is mounted. `device` is where the kernel's requests come from.
    pub(crate) async fn keep(self: Arc<Self>, notifier: Notifier, device: File) {
        let shows = Arc::downgrade(&self);
        self.tree.shown_by(shows);
        let (mut changes, device) = (self.tree.changes(), Arc::new(device));
        loop {
            let is_given = self.count.load(Ordering::Acquire) > 0;
            tokio::select! {
                change = changes.recv() => if matches!(change, Err(RecvError::Closed)) { return },
                () = self.look.notified() => {}
                () = tokio::time::sleep(LOOK), if is_given => {}
            }
            let expiring = self.expiring.clone().lock_owned().await;
            if let Some(overdue) = self.overdue() {
                self.expire(overdue, expiring, &notifier, &device).await;
                self.given.lock().is_expiring = false;
            }
            self.looked.notify_waiters();
        }
    }
}

impl Belief {
    /// Whether the kernel believes nothing for long that was so before the tree's number of now.
    fn is_of_now(&self) -> bool {
        let given = self.given.lock();
        let now = self.tree.unchanged();
        let is_now = |at: &u64| Some(*at) == now;
        !given.is_expiring
            && given.telling.keys().all(is_now)
            && (!given.is_written || given.at.as_ref().is_some_and(is_now))
    }
}

#[async_trait]
impl Shows for Belief {
    async fn has_taken_back(&self) {
        loop {
            let looked = self.looked.notified();
            if self.is_of_now() {
                return;
            }
            looked.await;
        }
    }
}

impl Turn<'_> {
    fn told(&mut self, shown: &Shown, name: Option<(INodeNo, &OsStr)>) -> Duration {
        if shown.open || self.at.is_none() || !self.belief.has_room(self.told.len()) {
            return self.belief.short;
        }
        let name = name.map(|(folder, name)| (folder.0, name.to_owned()));
        let ino = shown.attributes.ino;
        let mut given = self.belief.given.lock();
        if let Some(at) = self.at.filter(|_| self.told.is_empty()) {
            *given.telling.entry(at).or_default() += 1;
        }
        given.born += 1;
        let born = given.born;
        let born = given.inodes.entry(ino).or_insert(Inode { born, until: None }).born;
        self.told.push(Told { ino, born, name });
        LONG
    }

    /// How long attributes are believed, and that a name in a folder is this.
    pub(crate) fn name(&mut self, folder: INodeNo, name: &OsStr, shown: &Shown) -> (Duration, Duration) {
        match self.told(shown, Some((folder, name))) {
            LONG => (LONG, LONG),
            short => (short, self.belief.short_of_name()),
        }
    }

    /// The same of a member that was asked for at another number of the tree, or of none. There is one time for both.
    pub(crate) fn member(&mut self, asked: Option<u64>, name: (INodeNo, &OsStr), shown: &Shown) -> Duration {
        let believed = if asked == self.at { self.told(shown, Some(name)) } else { self.belief.short };
        if believed == LONG { LONG } else { self.belief.short_of_name() }
    }

    /// How long an inode's attributes are believed.
    pub(crate) fn attributes(&mut self, shown: &Shown) -> Duration {
        self.told(shown, None)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(at) = self.at.filter(|_| !self.told.is_empty()) {
            self.belief.write_down(at, std::mem::take(&mut self.told));
        }
    }
}

/// The kernel is to ask again what a name is; nothing else becomes of it.
fn expire_name(mut device: &File, folder: u64, name: &OsStr) -> io::Result<()> {
    let name = name.as_bytes();
    let length = u32::try_from(name.len()).map_err(io::Error::other)?;
    // `fuse_out_header`: length, code, a request's number, of which this has none; then `fuse_notify_inval_entry_out`, and the name with its end.
    let mut head = [0; 32];
    head[0..4].copy_from_slice(&(32 + length + 1).to_ne_bytes());
    head[4..8].copy_from_slice(&INVAL_ENTRY.to_ne_bytes());
    head[16..24].copy_from_slice(&folder.to_ne_bytes());
    head[24..28].copy_from_slice(&length.to_ne_bytes());
    head[28..32].copy_from_slice(&EXPIRE_ONLY.to_ne_bytes());
    device.write_vectored(&[IoSlice::new(&head), IoSlice::new(name), IoSlice::new(&[0])]).map(drop)
}

#[cfg(test)]
mod tests;
