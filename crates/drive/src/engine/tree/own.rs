//! A mount in this process has leases as one on another machine has ([`Leases`]): what it shows is believed by the kernel, and taken back before a change of it
//! is answered.

use super::super::Engine;
use super::MountName;
use crate::{Deferring, ShownBy};
use holdfast_auth::Session;
use holdfast_base::Result;
use holdfast_meta::Change;
use holdfast_meta::leases::{Leases, Mount, TERM, Word};
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::time::{Instant, timeout};

/// Time between words that nobody waits for.
const EVERY: Duration = Duration::from_secs(1);
/// Changes that whoever listens may be behind.
const CHANGES: usize = 64;

impl Engine {
    /// A space for a mount in a process where nobody else makes changes.
    pub async fn only_tree(&self, who: Arc<Session>, space: &str) -> Result<Arc<dyn Deferring>> {
        let mut tree = self.tree_of(who, space, false, MountName { voice: 0, bonds: true, number: 0 }).await?;
        if let Some(tree) = Arc::get_mut(&mut tree) {
            tree.only = !self.shared.catalogue.is_shared();
        }
        Ok(tree)
    }

    /// The same for a mount beside which others make changes in this process: its kernel believes it until somebody else makes changes.
    pub async fn own_tree(&self, who: Arc<Session>, space: &str) -> Result<Arc<dyn Deferring>> {
        let (voice, number) = (random_number()?, random_number()?);
        let mut tree = self.tree_of(who, space, false, MountName { voice, bonds: true, number }).await?;
        let own = tree.leases().map(|(leases, mount)| Own::start(leases.clone(), mount, voice));
        if let Some(tree) = Arc::get_mut(&mut tree) {
            tree.own = own;
        }
        Ok(tree)
    }
}

/// Random, and not 0, which is nobody.
fn random_number() -> Result<u64> {
    Ok(u64::from_ne_bytes(holdfast_seal::keys::random_bytes()?) | 1)
}

/// What the mount has heard of.
pub(super) struct Own {
    mount: Mount,
    /// Under which number it makes changes.
    voice: u64,
    leases: Arc<Leases>,
    state: Mutex<State>,
    changes: broadcast::Sender<Change>,
    pub(super) shown_by: ShownBy,
}

#[derive(Default)]
struct State {
    /// Grows whenever what was shown may not be so any more.
    count: u64,
    /// Until when it may be believed.
    until: Option<Instant>,
}

impl Own {
    /// From now on, within a tokio runtime.
    pub(super) fn start(leases: Arc<Leases>, mount: Mount, voice: u64) -> Arc<Self> {
        let (state, changes, shown_by) = (Mutex::default(), broadcast::Sender::new(CHANGES), ShownBy::default());
        let own = Arc::new(Self { mount, voice, leases, state, changes, shown_by });
        tokio::spawn(listen(Arc::downgrade(&own)));
        own
    }

    pub(super) fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    pub(super) fn unchanged(&self) -> Option<u64> {
        let state = self.state.lock();
        state.until.filter(|until| Instant::now() < *until).map(|_| state.count)
    }

    /// What was shown may not be so any more.
    fn tell(&self, seq: i64) {
        self.state.lock().count += 1;
        // Nobody need listen.
        let _ = self.changes.send(Change { space: self.mount.space, since: seq, seq, by: 0 });
    }

    fn says(&self, word: Word, seq: i64) {
        let until = Instant::now() + TERM;
        if !self.leases.hear(self.mount, self.voice, word) {
            if !self.leases.has(self.mount) {
                // It is told of nothing, and has to look by itself.
                self.tell(seq);
            }
            return;
        }
        let before = self.state.lock().until.replace(until);
        if before.is_none_or(|before| before <= Instant::now()) {
            // It may have been given up.
            self.tell(seq);
        }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.leases.leave(self.mount, u64::MAX);
    }
}

/// Hears of changes for as long as the mount is there.
async fn listen(own: Weak<Own>) {
    let Some(bell) = own.upgrade().map(|own| own.leases.bell(own.mount)) else { return };
    let (mut heard, mut seq) = (0, 0);
    for number in 1.. {
        if number > 1 {
            let _ = timeout(EVERY, bell.notified()).await;
        }
        let Some(own) = own.upgrade() else { return };
        let owed = own.leases.owed(own.mount, heard);
        if let Some(owed) = &owed {
            (heard, seq) = (owed.ask, owed.seq);
            own.tell(seq);
        }
        own.shown_by.has_taken_back().await;
        own.says(Word { number, heard, forgot: owed.is_some() }, seq);
    }
}
