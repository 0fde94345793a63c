//! Making and changing accounts: everything that moves an account's key from one lock to another, or a space's key to a member.
//!
//! Changing a password seals the account's key once more and touches nothing else. A lost password is replaced with the recovery
//! code, or, if the operator switched it on, with the escrow key; with neither, nobody can open the account's content again, and that is
//! the point. Secrets made here are returned once and kept nowhere.
//!
//! Nothing here is limited in attempts: [`Accounts::open`] is for somebody who holds the catalogue anyway (the command line).
//! Faces let people sign in through [`crate::Authenticator`] and hand the session in. Who may administer the drive is asked by
//! the caller, too; what needs a key asks for the session that holds it.

mod codes;
mod credentials;
mod sessions;
mod shares;
mod spaces;
mod tokens;

pub use codes::NewCodes;
pub(crate) use credentials::open_recovery;
pub use credentials::{Proof, Reset};
pub(crate) use sessions::has_ended;
pub use sessions::{CreatedSession, SESSION_MS, SESSION_REMEMBERED_MS, SESSIONS_PER_ACCOUNT_MAX};
pub use shares::{
    CreatedVisit, LINK_DOWNLOADS_MAX, LINK_PASSWORD_CHARS_MIN, SHARE_LABEL_BYTES_MAX, ShareRequest, ShareWish, VISIT_MS,
};
pub(crate) use shares::{open_without_password, passing_session, proof, read_secret, visit_session, with_password};
pub use tokens::{CreatedToken, LABEL_BYTES_MAX, NewToken, TOKENS_PER_ACCOUNT_MAX};

use crate::authenticator::escrow_slot;
use crate::sites::check_new_name;
use crate::worker::Worker;
use crate::{AuthOptions, RecoveryCode, Secret, check_password, generate_password};
use holdfast_base::{AccountId, Clock, Error, Result, Uid};
use holdfast_meta::{Account, AccountChange, Catalogue, NewAccount, NewIdentity, NewSlot, Slot, SlotKind};
use holdfast_seal::keys::{Argon2Params, CredentialKind, SlotContext, random_bytes, seal_slot, wrap_space_key};
use holdfast_seal::{AccountKey, SpaceKey};
use std::sync::Arc;

/// An account to be made.
#[derive(Debug, Clone, Default)]
pub struct NewPerson {
    /// Sign-in name, and the home space's name.
    pub name: String,
    /// Its password; none makes one up.
    pub password: Option<Secret>,
    /// May administer the drive.
    pub admin: bool,
    /// Bytes its spaces may use together; none is unlimited.
    pub quota_bytes: Option<u64>,
}

/// An account just made, with what is shown once.
#[derive(Debug)]
pub struct Created {
    /// The account.
    pub account: Account,
    /// The password, if it was made up.
    pub generated_password: Option<Secret>,
    /// The recovery code.
    pub recovery_code: Secret,
}

/// Account administration.
#[derive(Clone)]
pub struct Accounts {
    pub(crate) catalogue: Arc<dyn Catalogue>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) worker: Arc<Worker>,
    escrow_public_key: Option<[u8; 32]>,
}

impl Accounts {
    /// For a command. A server uses [`crate::Authenticator::accounts`].
    pub fn new(catalogue: Arc<dyn Catalogue>, clock: Arc<dyn Clock>, options: &AuthOptions) -> Result<Self> {
        Ok(Self::with_worker(catalogue, clock, options, Arc::new(Worker::new(options)?)))
    }

    pub(crate) fn with_worker(
        catalogue: Arc<dyn Catalogue>,
        clock: Arc<dyn Clock>,
        options: &AuthOptions,
        worker: Arc<Worker>,
    ) -> Self {
        Self { catalogue, clock, worker, escrow_public_key: options.escrow_public_key }
    }

    /// Makes an account with its home space. A taken name is `AlreadyExists`, a weak password `InvalidInput`.
    pub async fn create(&self, person: NewPerson) -> Result<Created> {
        self.create_linked(person, None).await.map(|(created, _)| created)
    }

    /// The same with an identity of a provider, as one; answers the account's key, too.
    pub(crate) async fn create_linked(
        &self,
        person: NewPerson,
        identity: Option<NewIdentity>,
    ) -> Result<(Created, AccountKey)> {
        check_new_name(&person.name)?;
        let (password, generated_password) = self.password_or_new(&person.name, person.password).await?;
        let recovery_code = RecoveryCode::generate()?;
        let (uid, home_uid) = (Uid(random_bytes()?), Uid(random_bytes()?));
        let (key, public_key) = AccountKey::generate()?;
        let mut slots = vec![
            self.password_slot(uid, &password, &key).await?,
            random_slot(SlotKind::Recovery, uid, "", recovery_code.secret(), &key)?,
        ];
        if let Some(escrow) = &self.escrow_public_key {
            slots.push(escrow_slot(escrow, uid, &key)?);
        }
        let new = NewAccount {
            uid,
            name: person.name,
            admin: person.admin,
            public_key,
            quota_bytes: person.quota_bytes,
            slots,
            home_uid,
            home_wrapped_key: wrap_space_key(&public_key, home_uid, &SpaceKey::generate()?)?,
            now_ms: self.clock.now_ms(),
        };
        let account = match identity {
            Some(identity) => self.catalogue.create_linked_account(new, identity).await?,
            None => self.catalogue.create_account(new).await?,
        };
        Ok((Created { account, generated_password, recovery_code: recovery_code.text() }, key))
    }

    /// All accounts in name order.
    pub async fn list(&self) -> Result<Vec<Account>> {
        self.catalogue.accounts().await
    }

    /// An account by name; none is `NotFound`.
    pub async fn get(&self, name: &str) -> Result<Account> {
        let account = self.catalogue.account_by_name(name).await?;
        account.ok_or_else(|| Error::not_found(format!("there is no account {name:?}")))
    }

    /// An account's slots of every kind.
    pub async fn credentials(&self, account: AccountId) -> Result<Vec<Slot>> {
        self.catalogue.slots(account).await
    }

    /// Sets how many bytes an account's spaces may use together; none is unlimited.
    pub async fn set_quota(&self, name: &str, quota_bytes: Option<u64>) -> Result<Account> {
        self.change(name, AccountChange { quota_bytes: Some(quota_bytes), ..AccountChange::default() }).await
    }

    /// Makes an account an administrator of the drive, or no longer.
    pub async fn set_admin(&self, name: &str, admin: bool) -> Result<Account> {
        self.change(name, AccountChange { admin: Some(admin), ..AccountChange::default() }).await
    }

    /// Keeps an account from signing in, at once and everywhere.
    pub async fn disable(&self, name: &str) -> Result<Account> {
        self.change(name, AccountChange { disabled: Some(true), ..AccountChange::default() }).await
    }

    /// Lets a disabled account sign in again.
    pub async fn enable(&self, name: &str) -> Result<Account> {
        self.change(name, AccountChange { disabled: Some(false), ..AccountChange::default() }).await
    }

    /// Removes an account with the spaces it owns. A group space it owns that has other members is `Conflict`.
    pub async fn remove(&self, name: &str) -> Result<()> {
        let account = self.get(name).await?;
        self.catalogue.remove_account(account.id, self.clock.now_ms()).await
    }

    async fn change(&self, name: &str, change: AccountChange) -> Result<Account> {
        let account = self.get(name).await?;
        self.catalogue.change_account(account.id, change).await
    }

    /// Checks a chosen password, or makes one up; the second is then what to show.
    async fn password_or_new(&self, name: &str, chosen: Option<Secret>) -> Result<(Secret, Option<Secret>)> {
        let Some(chosen) = chosen else {
            let generated = generate_password()?;
            return Ok((generated.clone(), Some(generated)));
        };
        // zxcvbn takes milliseconds for a long password: not on the threads that serve.
        let (name, password) = (name.to_owned(), chosen.clone());
        let checked = tokio::task::spawn_blocking(move || check_password(&name, password.expose())).await;
        checked.map_err(|error| Error::internal("the password check failed").with_source(error))??;
        Ok((chosen, None))
    }

    async fn password_slot(&self, account: Uid, password: &Secret, key: &AccountKey) -> Result<NewSlot> {
        let turn = self.worker.turn().await?;
        let sealed = self.worker.seal(&turn, account, password, key).await?;
        Ok(new_slot(SlotKind::Password, "", sealed))
    }
}

impl std::fmt::Debug for Accounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Accounts").field("escrow", &self.escrow_public_key.is_some()).finish_non_exhaustive()
    }
}

/// A slot for a secret that was made here: a token, a session or a recovery code.
fn random_slot(kind: SlotKind, account: Uid, lookup: &str, secret: &[u8], key: &AccountKey) -> Result<NewSlot> {
    let credential = match kind {
        SlotKind::Token => CredentialKind::Token,
        SlotKind::Session => CredentialKind::Session,
        _ => CredentialKind::Recovery,
    };
    let context = SlotContext { kind: credential, account, lookup };
    Ok(new_slot(kind, lookup, seal_slot(context, secret, key, Argon2Params::default())?))
}

fn new_slot(kind: SlotKind, lookup: &str, sealed: Vec<u8>) -> NewSlot {
    NewSlot {
        kind,
        lookup: lookup.into(),
        label: String::new(),
        read_only: false,
        space: None,
        sealed,
        expires_ms: None,
    }
}
