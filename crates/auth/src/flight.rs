//! One check for many simultaneous requests: a client that opens eight connections at once sends the same credential eight times.
//!
//! The first request starts the check as a task of its own (it goes on if that client leaves); the others wait for its outcome,
//! be it good or bad. Requests join only if they come from the same address, so that each address's failures are its own.

use crate::Session;
use crate::attempts::AddressGroup;
use crate::cache::CredentialHash;
use crate::worker::crowded;
use holdfast_base::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::Future;
use std::sync::Arc;
use tokio::sync::watch;

/// What is checked: a credential from an address.
pub(crate) type FlightKey = (CredentialHash, AddressGroup);

/// An outcome that many can be told: [`Error`] without its cause, which is logged once.
type Outcome = Result<Arc<Session>, (ErrorKind, String)>;

type Listener = watch::Receiver<Option<Outcome>>;

pub(crate) struct Flights {
    under_way: Arc<Mutex<HashMap<FlightKey, Listener>>>,
    most: usize,
    most_per_address: usize,
}

impl Flights {
    /// At most `most` different checks at once, half of them from one address.
    pub(crate) fn new(most: usize) -> Self {
        Self { under_way: Arc::default(), most, most_per_address: most.div_ceil(2) }
    }

    /// Joins the check of `key` that is under way, or starts `check`. Too many checks under way is `TooManyRequests`.
    pub(crate) async fn join<F>(&self, key: FlightKey, check: impl FnOnce() -> F + Send) -> Result<Arc<Session>>
    where
        F: Future<Output = Result<Arc<Session>>> + Send + 'static,
    {
        let mut listener = self.listen(key, check)?;
        let outcome = listener.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone());
        match outcome {
            Some(Ok(session)) => Ok(session),
            Some(Err((kind, message))) => Err(Error::new(kind, message)),
            None => Err(Error::internal("the sign-in was interrupted")),
        }
    }

    fn listen<F>(&self, key: FlightKey, check: impl FnOnce() -> F) -> Result<Listener>
    where
        F: Future<Output = Result<Arc<Session>>> + Send + 'static,
    {
        let mut flights = self.under_way.lock();
        let full = flights.len() >= self.most
            || flights.keys().filter(|(_, address)| *address == key.1).count() >= self.most_per_address;
        match flights.entry(key) {
            Entry::Occupied(flight) => Ok(flight.get().clone()),
            Entry::Vacant(_) if full => Err(crowded()),
            Entry::Vacant(place) => {
                let (teller, listener) = watch::channel(None);
                place.insert(listener.clone());
                let landing = Landing { flights: self.under_way.clone(), key };
                let check = check();
                tokio::spawn(async move {
                    let outcome = check.await;
                    // Off the list before the outcome is told: who comes later finds it in the cache or asks anew.
                    drop(landing);
                    teller.send_replace(Some(outcome.map_err(|error| tellable(&error))));
                });
                Ok(listener)
            }
        }
    }
}

fn tellable(error: &Error) -> (ErrorKind, String) {
    if matches!(error.kind(), ErrorKind::Internal | ErrorKind::Damaged | ErrorKind::Unavailable) {
        tracing::error!(?error, "sign-in failed");
    }
    (error.kind(), error.message().to_owned())
}

/// Takes a check off the list, also when it panics.
struct Landing {
    flights: Arc<Mutex<HashMap<FlightKey, Listener>>>,
    key: FlightKey,
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.flights.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    async fn refuse() -> Result<Arc<Session>> {
        Err(Error::not_found("refused"))
    }

    #[tokio::test]
    async fn a_check_under_way_is_joined_and_others_are_bounded() {
        let flights = Arc::new(Flights::new(2));
        let (here, there) = (AddressGroup::of(None), AddressGroup::of(Some([192, 0, 2, 1].into())));
        let first = flights.listen(([1; 32], here), pending).expect("first");
        let joined = flights.listen(([1; 32], here), || async { panic!("not run") }).expect("joins");
        assert!(first.same_channel(&joined));
        assert!(flights.listen(([2; 32], here), pending).is_err(), "half of the places are one address's at most");
        flights.listen(([2; 32], there), pending).expect("another address");
        assert!(flights.listen(([3; 32], there), pending).is_err(), "full");
    }

    #[tokio::test]
    async fn a_check_that_fails_or_panics_makes_room() {
        let flights = Flights::new(1);
        let key = ([1; 32], AddressGroup::of(None));
        assert_eq!(flights.join(key, refuse).await.expect_err("refused").message(), "refused");
        let panics = flights.join(key, || async { panic!("on purpose") }).await;
        assert_eq!(panics.expect_err("interrupted").kind(), ErrorKind::Internal);
        assert_eq!(flights.join(key, refuse).await.expect_err("refused").message(), "refused");
    }
}
