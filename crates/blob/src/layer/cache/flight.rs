//! Single flight: of those who want the same range at the same time, one fetches it.

use super::entry::Key;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::HashMap;
use tokio::sync::watch;

/// The fetches that are under way.
#[derive(Debug, Default)]
pub(super) struct Flights {
    flying: Mutex<HashMap<Key, watch::Sender<Option<Bytes>>>>,
}

/// What somebody is to do.
pub(super) enum Role<'a> {
    /// Fetch.
    Leader(Leader<'a>),
    /// Wait.
    Follower(Follower),
}

/// Fetches. When dropped without having landed, the others are told to help themselves.
pub(super) struct Leader<'a> {
    flights: &'a Flights,
    key: Key,
}

/// Waits.
pub(super) struct Follower(watch::Receiver<Option<Bytes>>);

impl Flights {
    pub(super) fn join(&self, key: Key) -> Role<'_> {
        let mut flying = self.flying.lock();
        if let Some(flight) = flying.get(&key) {
            return Role::Follower(Follower(flight.subscribe()));
        }
        flying.insert(key, watch::Sender::new(None));
        Role::Leader(Leader { flights: self, key })
    }
}

impl Leader<'_> {
    /// Whether anybody else waits at this moment.
    pub(super) fn is_awaited(&self) -> bool {
        self.flights.flying.lock().get(&self.key).is_some_and(|flight| flight.receiver_count() > 0)
    }

    /// Hands the bytes to those who wait.
    pub(super) fn land(&self, bytes: Bytes) {
        if let Some(flight) = self.flights.flying.lock().get(&self.key) {
            flight.send_replace(Some(bytes));
        }
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        self.flights.flying.lock().remove(&self.key);
    }
}

impl Follower {
    /// The bytes, unless the leader failed.
    pub(super) async fn wait(mut self) -> Option<Bytes> {
        self.0.wait_for(Option::is_some).await.ok()?.clone()
    }
}
