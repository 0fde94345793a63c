//! The one place where password slots are opened and sealed: Argon2id on the blocking pool, few at once, few in waiting.
//!
//! Memory is bounded by [`argon2_at_once`](crate::AuthOptions::argon2_at_once) times the cost in a slot, waiting by
//! [`argon2_waiting_max`](crate::AuthOptions::argon2_waiting_max). A [`Turn`] is the right to one computation at a time; an attempt
//! keeps its turn until its failure is counted, so parallel guesses cannot slip past the limit together.

use crate::{AuthOptions, Secret};
use holdfast_base::{Error, ErrorKind, Result, Uid};
use holdfast_seal::AccountKey;
use holdfast_seal::keys::{Argon2Params, CredentialKind, SlotContext, open_slot, seal_slot};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tokio::sync::{Semaphore, SemaphorePermit};

/// What somebody is told who finds the waiting room full: about the time it takes to empty.
const RETRY_AFTER_S: u32 = 5;

/// The right to compute.
pub(crate) struct Turn<'a>(#[allow(dead_code, reason = "held for its drop")] SemaphorePermit<'a>);

pub(crate) struct Worker {
    params: Argon2Params,
    turns: Semaphore,
    waiting: AtomicUsize,
    waiting_max: usize,
    runs: Arc<AtomicU64>,
    /// Sealed and thrown away when there is no slot to open, so that an unknown account takes as long as a wrong password.
    decoy: AccountKey,
}

impl Worker {
    pub(crate) fn new(options: &AuthOptions) -> Result<Self> {
        Ok(Self {
            params: options.argon2,
            turns: Semaphore::new(options.argon2_at_once.max(1)),
            waiting: AtomicUsize::new(0),
            waiting_max: options.argon2_waiting_max,
            runs: Arc::default(),
            decoy: AccountKey::generate()?.0,
        })
    }

    /// Waits for a turn; a full waiting room is `TooManyRequests`.
    pub(crate) async fn turn(&self) -> Result<Turn<'_>> {
        let _place = Place::take(&self.waiting, self.waiting_max)?;
        let permit = self.turns.acquire().await.map_err(|_| Error::unavailable("the server is stopping"))?;
        Ok(Turn(permit))
    }

    /// Opens a password slot, or without one fails in the same time.
    pub(crate) async fn open(
        &self,
        _: &Turn<'_>,
        account: Uid,
        slot: Option<Vec<u8>>,
        secret: &Secret,
    ) -> Result<AccountKey> {
        let (secret, params, decoy) = (secret.clone(), self.params, self.decoy.clone());
        self.compute(move || {
            if let Some(slot) = slot {
                return open_slot(password_of(account), secret.expose().as_bytes(), &slot);
            }
            seal_slot(password_of(account), secret.expose().as_bytes(), &decoy, params)?;
            Err(Error::new(ErrorKind::Unauthenticated, "there is no such account"))
        })
        .await
    }

    /// Seals an account's key for a password.
    pub(crate) async fn seal(&self, _: &Turn<'_>, account: Uid, secret: &Secret, key: &AccountKey) -> Result<Vec<u8>> {
        let (secret, params, key) = (secret.clone(), self.params, key.clone());
        self.compute(move || seal_slot(password_of(account), secret.expose().as_bytes(), &key, params)).await
    }

    /// Argon2id computations so far.
    pub(crate) fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }

    /// Sign-ins waiting for their turn.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    async fn compute<T: Send + 'static>(&self, work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        let done = tokio::task::spawn_blocking(work).await;
        done.map_err(|error| Error::internal("the password computation failed").with_source(error))?
    }
}

const fn password_of(account: Uid) -> SlotContext<'static> {
    SlotContext { kind: CredentialKind::Password, account, lookup: "" }
}

/// A place in the waiting room, given back when dropped.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(waiting: &'a AtomicUsize, most: usize) -> Result<Self> {
        let taken = Self(waiting);
        if waiting.fetch_add(1, Ordering::Relaxed) >= most {
            return Err(crowded());
        }
        Ok(taken)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Too many sign-ins are waiting.
pub(crate) fn crowded() -> Error {
    Error::new(
        ErrorKind::TooManyRequests { retry_after_s: RETRY_AFTER_S },
        format!("too many people are signing in at this moment: try again in {RETRY_AFTER_S} s"),
    )
}
