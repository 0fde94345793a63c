//! Sign-in: from a credential to a [`Session`].
//!
//! A `WebDAV` client sends its credential with every request, so there are two paths:
//! 1. A credential that is cached ([`crate::cache`]) is validated by one point read: the account's generation must be what it was.
//!    Every change of credentials or state counts it up, so disabling an account, changing its password or revoking a
//!    token or session works at once, from any process. If the generation differs, the account's slots are read: a credential whose own slot is
//!    unchanged is still right, and goes on without Argon2id.
//! 2. Otherwise the credential is checked in full. An app token or session is looked up and opened. A password passes, once for all
//!    simultaneous requests ([`crate::flight`]): the limits ([`crate::attempts`]), the queue ([`crate::worker`]), the limits again (failures
//!    of those before it in the queue count), Argon2id. An unknown account goes the same way and gets the same answer.
//!
//! A password that is the first of two factors is cached as that, so that a client that goes on sending it costs little; it opens nothing.
//!
//! Failures are never cached. A right credential of a disabled account is told so; a wrong one learns nothing.

use crate::accounts::has_ended;
use crate::attempts::{AddressGroup, Limiter};
use crate::cache::{Cache, CredentialHash, Entry};
use crate::flight::Flights;
use crate::passkey::check_account;
use crate::password::PASSWORD_BYTES_MAX;
use crate::second::needs_token;
use crate::ticket::Tickets;
use crate::worker::Worker;
use crate::{Accounts, AuthOptions, Credential, Journal, Scope, Secret, Session, Token, escrow};
use holdfast_base::{Clock, Error, ErrorKind, Result, Uid};
use holdfast_meta::{Account, AuditNote, Catalogue, NewSlot, Slot, SlotKind};
use holdfast_seal::AccountKey;
use holdfast_seal::keys::{CredentialKind, SlotContext, open_slot, seal_escrow_slot};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

/// A slot's time of last use is written when it is older than this: one hour, so that reading does not write.
const TOUCH_MS: i64 = 3_600_000;

/// Longest secret of a slot that is no account's: a password, and the secret of a link before it.
const SLOT_SECRET_BYTES_MAX: usize = PASSWORD_BYTES_MAX + 64;

/// Figures for the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthStats {
    /// Argon2id computations so far, also those for unknown accounts.
    pub argon2_runs: u64,
    /// Sign-ins waiting for their turn to compute.
    pub argon2_waiting: usize,
    /// Credentials in the cache.
    pub cached: usize,
    /// Requests that found their credential in the cache.
    pub cache_hits: u64,
}

/// Turns credentials into sessions. Clones share everything.
#[derive(Clone)]
pub struct Authenticator(Arc<Inner>);

struct Inner {
    catalogue: Arc<dyn Catalogue>,
    clock: Arc<dyn Clock>,
    options: AuthOptions,
    limiter: Limiter,
    worker: Arc<Worker>,
    cache: Cache,
    flights: Flights,
    tickets: Tickets,
    journal: OnceLock<Journal>,
}

impl Authenticator {
    /// Makes one with an empty cache.
    pub fn new(catalogue: Arc<dyn Catalogue>, clock: Arc<dyn Clock>, options: AuthOptions) -> Result<Self> {
        Ok(Self(Arc::new(Inner {
            limiter: Limiter::new(catalogue.clone(), clock.clone(), options.limits),
            worker: Arc::new(Worker::new(&options)?),
            cache: Cache::new(&options)?,
            flights: Flights::new(options.argon2_waiting_max),
            tickets: Tickets::new(catalogue.clone()),
            journal: OnceLock::new(),
            catalogue,
            clock,
            options,
        })))
    }

    /// Writes down from now on who signs in and who fails to.
    pub fn keep_journal(&self, journal: Journal) {
        // Once is enough: a second journal would be of the same drive.
        let _ = self.0.journal.set(journal);
    }

    /// Account administration that shares this one's Argon2id queue.
    pub fn accounts(&self) -> Accounts {
        let inner = &self.0;
        Accounts::with_worker(inner.catalogue.clone(), inner.clock.clone(), &inner.options, inner.worker.clone())
    }

    /// Checks a credential presented by `peer` (none: not over a network). A wrong one is `Unauthenticated`, a right one of a
    /// disabled account `Forbidden`, and after too many failures any is `TooManyRequests`. A right password of an account with a second
    /// factor is `Unauthenticated`, too, and says what to use instead.
    pub async fn sign_in(&self, credential: &Credential, peer: Option<IpAddr>) -> Result<Arc<Session>> {
        let session = self.check(credential, peer).await?;
        if session.awaits_second { Err(needs_token()) } else { Ok(session) }
    }

    /// Writes down that an account's second factor was refused.
    pub(crate) fn note_second_refused(&self, name: &str, peer: Option<IpAddr>, error: &Error) {
        self.0.note_refused("signin.second", name, peer, error);
    }

    pub(crate) fn limiter(&self) -> &Limiter {
        &self.0.limiter
    }

    pub(crate) fn worker(&self) -> &Worker {
        &self.0.worker
    }

    pub(crate) fn catalogue(&self) -> &dyn Catalogue {
        &*self.0.catalogue
    }

    pub(crate) fn tickets(&self) -> &Tickets {
        &self.0.tickets
    }

    /// Who is signed in at this node, as far as it remembers.
    pub(crate) fn sessions(&self) -> Vec<Arc<Session>> {
        self.0.cache.sessions(self.0.clock.now_ms())
    }

    /// The operator's escrow public key, if escrow is switched on.
    pub fn escrow_public_key(&self) -> Option<[u8; 32]> {
        self.0.options.escrow_public_key
    }

    /// The time, as the clock of this one says.
    pub fn now_ms(&self) -> i64 {
        self.0.clock.now_ms()
    }

    /// [`Authenticator::sign_in`], where a password may be the first of two factors: see [`Session::awaits_second`].
    pub(crate) async fn check(&self, credential: &Credential, peer: Option<IpAddr>) -> Result<Arc<Session>> {
        let inner = &self.0;
        let hash = inner.cache.hash(credential);
        if let Some(session) = inner.cached(&hash).await? {
            return Ok(session);
        }
        let token = match credential {
            Credential::Cookie(secret) => {
                let session = Token::parse_session(secret.expose()).ok_or_else(wrong_session)?;
                // Not written down: its beginning was.
                return inner.check_session(hash, &session).await;
            }
            _ => Token::parse(credential.secret().expose()),
        };
        match (credential, token) {
            (Credential::Basic { name, .. }, Some(token)) => {
                inner.noted("signin.token", name, peer, inner.check_token(hash, Some(name), &token).await).await
            }
            (_, Some(token)) => {
                inner.noted("signin.token", "", peer, inner.check_token(hash, None, &token).await).await
            }
            (Credential::Basic { name, secret }, None) => {
                if secret.expose().len() > PASSWORD_BYTES_MAX {
                    return Err(wrong_password());
                }
                let (inner, name, secret, from) = (inner.clone(), name.clone(), secret.clone(), AddressGroup::of(peer));
                let check = || async move {
                    let checked = inner.check_password(hash, &name, &secret, from).await;
                    inner.noted("signin.password", &name, peer, checked).await
                };
                self.0.flights.join((hash, from), check).await
            }
            (_, None) => Err(wrong_token()),
        }
    }

    /// Opens a password slot that is no account's, with the same limits on attempts.
    pub(crate) async fn check_slot(
        &self,
        name: &str,
        uid: Uid,
        slot: &[u8],
        secret: &Secret,
        from: AddressGroup,
    ) -> Result<AccountKey> {
        let inner = &self.0;
        if secret.expose().len() > SLOT_SECRET_BYTES_MAX {
            return Err(Error::new(ErrorKind::Unauthenticated, "the password is wrong"));
        }
        inner.limiter.check(name, from).await?;
        let turn = inner.worker.turn().await?;
        inner.limiter.check(name, from).await?;
        let opened = inner.worker.open(&turn, uid, Some(slot.to_vec()), secret).await;
        if opened.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unauthenticated) {
            inner.limiter.failed(name, from).await?;
        }
        // Kept until the failure is counted: the next in the queue must see it.
        drop(turn);
        let wrong = || Error::new(ErrorKind::Unauthenticated, "the password is wrong");
        let key = opened.map_err(|error| told_as(error, wrong()))?;
        inner.limiter.succeeded(name, from).await?;
        Ok(key)
    }

    /// Whether something may be tried from there now; `TooManyRequests` if not.
    pub(crate) async fn may_try(&self, name: &str, from: AddressGroup) -> Result<()> {
        self.0.limiter.check(name, from).await
    }

    /// Counts that something was tried in vain.
    pub(crate) async fn tried_in_vain(&self, name: &str, from: AddressGroup) -> Result<()> {
        self.0.limiter.failed(name, from).await
    }

    /// Counts that something was tried and was right.
    pub(crate) async fn tried_well(&self, name: &str, from: AddressGroup) -> Result<()> {
        self.0.limiter.succeeded(name, from).await
    }

    /// Forgets cached credentials that are idle or old, and their keys with them; the server calls this every minute or so.
    pub fn sweep(&self) {
        self.0.cache.sweep(self.0.clock.now_ms());
    }

    /// Figures for the metrics.
    pub fn stats(&self) -> AuthStats {
        AuthStats {
            argon2_runs: self.0.worker.runs(),
            argon2_waiting: self.0.worker.waiting(),
            cached: self.0.cache.len(),
            cache_hits: self.0.cache.hits(),
        }
    }
}

impl std::fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Authenticator").field(&self.stats()).finish()
    }
}

impl Inner {
    /// Writes down what became of a credential that was really looked at. The name of somebody who failed is written only if there is such
    /// an account: what is typed into the field of the name may be a password.
    async fn noted(
        &self,
        action: &str,
        name: &str,
        peer: Option<IpAddr>,
        checked: Result<Arc<Session>>,
    ) -> Result<Arc<Session>> {
        let Some(journal) = self.journal.get() else { return checked };
        match &checked {
            Ok(session) => journal.add(journal.note(&session.name, peer, action)),
            Err(error) if matches!(error.kind(), ErrorKind::Unauthenticated | ErrorKind::Forbidden) => {
                let known = matches!(self.catalogue.account_by_name(name).await, Ok(Some(_)));
                self.note_refused(action, if known { name } else { "" }, peer, error);
            }
            Err(_) => {}
        }
        checked
    }

    fn note_refused(&self, action: &str, name: &str, peer: Option<IpAddr>, error: &Error) {
        if let Some(journal) = self.journal.get() {
            let note = journal.note(name, peer, action);
            journal.add(AuditNote { result: error.kind().status().to_string(), ..note });
        }
    }

    /// The session of a cached credential, if it is still right.
    async fn cached(&self, hash: &CredentialHash) -> Result<Option<Arc<Session>>> {
        let Some(entry) = self.cache.get(hash, self.clock.now_ms()) else { return Ok(None) };
        let account = self.catalogue.account(entry.session.account).await?;
        let session = match account.filter(|account| !account.disabled) {
            Some(account) if account.generation == entry.session.generation => Some(entry.session.clone()),
            Some(account) => self.revalidate(hash, &entry, &account).await?,
            None => {
                self.cache.remove(hash, &entry);
                None
            }
        };
        let now_ms = self.clock.now_ms();
        if session.is_some() && entry.is_to_be_touched(now_ms, TOUCH_MS) {
            self.touch(entry.slot, now_ms).await;
        }
        Ok(session)
    }

    /// Notes that a slot was used. Not worth refusing anybody.
    async fn touch(&self, slot: i64, now_ms: i64) {
        if let Err(error) = self.catalogue.touch_slot(slot, now_ms).await {
            tracing::warn!(?error, "the time of a credential's last use was not written");
        }
    }

    /// Something about the account changed. If it was not this credential's slot, the session is made anew, without Argon2id.
    async fn revalidate(
        &self,
        hash: &CredentialHash,
        entry: &Arc<Entry>,
        account: &Account,
    ) -> Result<Option<Arc<Session>>> {
        let slots = self.catalogue.slots(account.id).await?;
        let same = |slot: &Slot| slot.id == entry.slot && slot.kind == entry.kind && slot.sealed == entry.sealed;
        let Some(slot) = slots.into_iter().find(same).filter(|slot| !self.has_expired(slot)) else {
            self.cache.remove(hash, entry);
            return Ok(None);
        };
        let session = Arc::new(self.session_of(account, &slot, entry.session.key().clone()).await?);
        self.cache.put(*hash, Arc::new(Entry::new(session.clone(), slot, entry.checked_ms)));
        Ok(Some(session))
    }

    async fn check_token(&self, hash: CredentialHash, name: Option<&str>, token: &Token) -> Result<Arc<Session>> {
        let found = self.catalogue.slot_by_lookup(SlotKind::Token, token.lookup()).await?;
        let (account, slot) =
            found.filter(|(account, _)| name.is_none_or(|name| name == account.name)).ok_or_else(wrong_token)?;
        let context = SlotContext { kind: CredentialKind::Token, account: account.uid, lookup: token.lookup() };
        let key = open_slot(context, token.secret(), &slot.sealed).map_err(|error| told_as(error, wrong_token()))?;
        if self.has_expired(&slot) {
            return Err(Error::new(ErrorKind::Unauthenticated, "this app token has expired: make a new one"));
        }
        self.admit(hash, &account, slot, key).await
    }

    async fn check_session(&self, hash: CredentialHash, secret: &Token) -> Result<Arc<Session>> {
        let found = self.catalogue.slot_by_lookup(SlotKind::Session, secret.lookup()).await?;
        let (account, slot) = found.ok_or_else(wrong_session)?;
        let context = SlotContext { kind: CredentialKind::Session, account: account.uid, lookup: secret.lookup() };
        let key = open_slot(context, secret.secret(), &slot.sealed).map_err(|error| told_as(error, wrong_session()))?;
        if self.has_expired(&slot) {
            return Err(wrong_session());
        }
        self.admit(hash, &account, slot, key).await
    }

    async fn check_password(
        &self,
        hash: CredentialHash,
        name: &str,
        secret: &Secret,
        from: AddressGroup,
    ) -> Result<Arc<Session>> {
        // A check that ended between this request's look into the cache and its own turn has left its outcome there.
        if let Some(session) = self.cached(&hash).await? {
            return Ok(session);
        }
        self.limiter.check(name, from).await?;
        let turn = self.worker.turn().await?;
        self.limiter.check(name, from).await?;
        let account = self.catalogue.account_by_name(name).await?;
        let slots = match &account {
            Some(account) => self.catalogue.slots(account.id).await?,
            None => Vec::new(),
        };
        let slot = slots.iter().find(|slot| slot.kind == SlotKind::Password).cloned();
        let uid = account.as_ref().map_or(Uid([0; 16]), |account| account.uid);
        let sealed = slot.as_ref().map(|slot| slot.sealed.clone());
        let opened = self.worker.open(&turn, uid, sealed, secret).await;
        if opened.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unauthenticated) {
            self.limiter.failed(name, from).await?;
        }
        // The turn is kept until the failure is counted: the next in the queue must see it.
        drop(turn);
        let key = opened.map_err(|error| told_as(error, wrong_password()))?;
        let (Some(account), Some(slot)) = (account, slot) else { return Err(wrong_password()) };
        let session = self.admit(hash, &account, slot, key).await?;
        // With a second factor missing it is no success yet.
        if !session.awaits_second {
            self.limiter.succeeded(name, from).await?;
        }
        self.keep_escrow(&session, &slots).await;
        Ok(session)
    }

    /// The credential is right: may the account come in? If so, remembers it.
    async fn admit(
        &self,
        hash: CredentialHash,
        account: &Account,
        slot: Slot,
        key: AccountKey,
    ) -> Result<Arc<Session>> {
        check_account(account, &key.public())?;
        let now_ms = self.clock.now_ms();
        let session = Arc::new(self.session_of(account, &slot, key).await?);
        let entry = Arc::new(Entry::new(session.clone(), slot, now_ms));
        if entry.is_to_be_touched(now_ms, TOUCH_MS) {
            self.touch(entry.slot, now_ms).await;
        }
        self.cache.put(hash, entry);
        Ok(session)
    }

    /// Gives an account its escrow slot if the operator switched escrow on, or made a new escrow key, after it was made.
    async fn keep_escrow(&self, session: &Session, slots: &[Slot]) {
        let Some(public) = self.options.escrow_public_key else { return };
        let label = escrow::label(&public);
        if slots.iter().any(|slot| slot.kind == SlotKind::Escrow && slot.label == label) {
            return;
        }
        let kept = match escrow_slot(&public, session.account_uid, session.key()) {
            Ok(slot) => self.catalogue.put_slot(session.account, slot, self.clock.now_ms()).await.map(|_| ()),
            Err(error) => Err(error),
        };
        if let Err(error) = kept {
            tracing::warn!(?error, account = session.name, "no escrow slot was made");
        }
    }

    /// Whether a second factor is wanted is asked when the credential is checked and when the account changed.
    async fn session_of(&self, account: &Account, slot: &Slot, key: AccountKey) -> Result<Session> {
        let mut session = session_of(account, slot, key);
        session.awaits_second =
            slot.kind == SlotKind::Password && self.catalogue.factors(account.id).await?.needs_second();
        Ok(session)
    }

    fn has_expired(&self, slot: &Slot) -> bool {
        has_ended(slot, self.clock.now_ms())
    }
}

/// The slot that the operator's escrow key opens.
pub(crate) fn escrow_slot(public: &[u8; 32], account: Uid, key: &AccountKey) -> Result<NewSlot> {
    Ok(NewSlot {
        kind: SlotKind::Escrow,
        lookup: String::new(),
        label: escrow::label(public),
        read_only: false,
        space: None,
        sealed: seal_escrow_slot(public, account, key)?,
        expires_ms: None,
    })
}

pub(crate) fn session_of(account: &Account, slot: &Slot, key: AccountKey) -> Session {
    let scope = Scope { read_only: slot.read_only, space: slot.space };
    Session::new(account, scope, key).opened_by(slot)
}

/// What the world is told: a wrong secret as `wrong` in words that do not say what was wrong, other failures as they are.
fn told_as(error: Error, wrong: Error) -> Error {
    if error.kind() == ErrorKind::Unauthenticated { wrong } else { error }
}

pub(crate) fn wrong_password() -> Error {
    Error::new(ErrorKind::Unauthenticated, "the name or the password is wrong")
}

fn wrong_session() -> Error {
    Error::new(ErrorKind::Unauthenticated, "the session has ended: sign in again")
}

fn wrong_token() -> Error {
    Error::new(ErrorKind::Unauthenticated, "the app token is wrong, was revoked, or belongs to another account")
}
