//! Single flight: of those who want the same range at the same time, one fetches it. What it fetched can be had here until
//! it is in the log, so nobody falls between the two.

use super::entry::Key;
use bytes::Bytes;
use holdfast_base::PackName;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;

/// The fetches that are under way.
#[derive(Debug, Clone, Default)]
pub(super) struct Flights {
    flying: Arc<Mutex<BTreeMap<Key, Arc<Flight>>>>,
}

type Flight = watch::Sender<Option<Bytes>>;

/// What somebody is to do.
pub(super) enum Role {
    /// Fetch.
    Leader(Leader),
    /// Wait.
    Follower(Follower),
}

/// Fetches. When dropped without having landed, the others are told to help themselves.
pub(super) struct Leader {
    flights: Flights,
    key: Key,
    flight: Arc<Flight>,
}

/// Waits.
pub(super) struct Follower(watch::Receiver<Option<Bytes>>);

impl Flights {
    pub(super) fn join(&self, key: Key) -> Role {
        let mut flying = self.flying.lock();
        if let Some(flight) = flying.get(&key) {
            return Role::Follower(Follower(flight.subscribe()));
        }
        let flight = Arc::new(watch::Sender::new(None));
        flying.insert(key, Arc::clone(&flight));
        Role::Leader(Leader { flights: self.clone(), key, flight })
    }

    /// Lets nobody join the flights for a pack any more: it was removed.
    pub(super) fn forget(&self, name: PackName) {
        self.flying.lock().retain(|key, _| key.name != name);
    }
}

impl Leader {
    /// Whether anybody else waits at this moment.
    pub(super) fn is_awaited(&self) -> bool {
        self.flight.receiver_count() > 0
    }

    /// Hands the bytes to those who wait.
    pub(super) fn land(&self, bytes: Bytes) {
        self.flight.send_replace(Some(bytes));
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        let mut flying = self.flights.flying.lock();
        // After the pack was removed there may be another.
        if flying.get(&self.key).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight)) {
            flying.remove(&self.key);
        }
    }
}

impl Follower {
    /// The bytes, unless the leader failed.
    pub(super) async fn wait(mut self) -> Option<Bytes> {
        self.0.wait_for(Option::is_some).await.ok()?.clone()
    }
}
