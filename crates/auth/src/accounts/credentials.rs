//! Passwords and recovery codes of accounts that exist.

use super::{Accounts, random_slot};
use crate::authenticator::wrong_password;
use crate::{EscrowKey, RecoveryCode, Scope, Secret, Session};
use holdfast_base::{Error, ErrorKind, Result};
use holdfast_meta::{Account, Slot, SlotKind};
use holdfast_seal::AccountKey;
use holdfast_seal::keys::{CredentialKind, SlotContext, open_escrow_slot, open_slot};

/// What proves that somebody may have an account's key.
#[derive(Debug, Clone, Copy)]
pub enum Proof<'a> {
    /// The account's password.
    Password(&'a Secret),
    /// The account's recovery code, as typed.
    Recovery(&'a Secret),
    /// The operator's escrow key.
    Escrow(&'a EscrowKey),
}

/// What is shown once after a password was reset.
#[derive(Debug)]
pub struct Reset {
    /// The password, if it was made up.
    pub generated_password: Option<Secret>,
    /// The new recovery code; the old one no longer works.
    pub recovery_code: Secret,
}

impl Accounts {
    /// Opens an account without a limit on attempts and without a second factor: for commands on the drive's own machine, and for proofs
    /// nobody guesses.
    /// A wrong proof and an unknown account are both `Unauthenticated`; a disabled account opens to escrow only.
    pub async fn open(&self, name: &str, proof: Proof<'_>) -> Result<Session> {
        let account = self.catalogue.account_by_name(name).await?;
        let slots = match &account {
            Some(account) => self.catalogue.slots(account.id).await?,
            None => Vec::new(),
        };
        let (account, key, kind) = match proof {
            Proof::Password(password) => self.open_with_password(account, &slots, password).await?,
            Proof::Recovery(code) => open_with_recovery_code(account, &slots, code)?,
            Proof::Escrow(escrow) => open_with_escrow(account, &slots, escrow, name)?,
        };
        if account.disabled && kind != SlotKind::Escrow {
            return Err(Error::forbidden("this account is disabled: ask an administrator"));
        }
        if key.public() != account.public_key {
            return Err(Error::damaged(
                "the account's public key does not belong to its private key: the catalogue is damaged",
            ));
        }
        Ok(Session::new(&account, Scope::default(), key).signed_in_with(kind))
    }

    /// Replaces the password. Every sign-in with the old one is void at once, and every browser's session but `keep` has ended; app
    /// tokens and the recovery code stay.
    pub async fn change_password(&self, who: &Session, new: Secret, keep: Option<i64>) -> Result<()> {
        who.require_full()?;
        let (password, _) = self.password_or_new(&who.name, Some(new)).await?;
        self.replace_password(who, &password, keep).await
    }

    /// Makes a new recovery code; the old one no longer works.
    pub async fn renew_recovery_code(&self, who: &Session) -> Result<Secret> {
        who.require_full()?;
        let code = RecoveryCode::generate()?;
        let slot = random_slot(SlotKind::Recovery, who.account_uid, "", code.secret(), who.key())?;
        self.catalogue.put_slot(who.account, slot, self.clock.now_ms()).await?;
        Ok(code.text())
    }

    /// Replaces a forgotten password (none: makes one up) and the recovery code that proved it.
    pub async fn reset_with_recovery_code(&self, name: &str, code: &Secret, new: Option<Secret>) -> Result<Reset> {
        self.reset(name, Proof::Recovery(code), new).await
    }

    /// The operator replaces a lost password (none: makes one up) and the recovery code.
    pub async fn reset_password_with_escrow(
        &self,
        name: &str,
        escrow: &EscrowKey,
        new: Option<Secret>,
    ) -> Result<Reset> {
        self.reset(name, Proof::Escrow(escrow), new).await
    }

    async fn reset(&self, name: &str, proof: Proof<'_>, new: Option<Secret>) -> Result<Reset> {
        let session = self.open(name, proof).await?;
        let (password, generated_password) = self.password_or_new(name, new).await?;
        // The password first: if the second step fails, the old code still works and can be used again.
        self.replace_password(&session, &password, None).await?;
        let recovery_code = self.renew_recovery_code(&session).await?;
        Ok(Reset { generated_password, recovery_code })
    }

    async fn replace_password(&self, who: &Session, password: &Secret, keep: Option<i64>) -> Result<()> {
        let slot = self.password_slot(who.account_uid, password, who.key()).await?;
        self.catalogue.replace_password(who.account, slot, keep, self.clock.now_ms()).await.map(|_| ())
    }

    async fn open_with_password(&self, account: Option<Account>, slots: &[Slot], password: &Secret) -> Result<Opened> {
        let account = account.ok_or_else(wrong_password)?;
        let sealed = sealed(slots, SlotKind::Password).ok_or_else(wrong_password)?.to_vec();
        let turn = self.worker.turn().await?;
        let key = self.worker.open(&turn, account.uid, Some(sealed), password).await;
        let key =
            key.map_err(|error| if error.kind() == ErrorKind::Unauthenticated { wrong_password() } else { error })?;
        Ok((account, key, SlotKind::Password))
    }
}

/// An account, its key, and what opened it.
type Opened = (Account, AccountKey, SlotKind);

fn sealed(slots: &[Slot], kind: SlotKind) -> Option<&[u8]> {
    slots.iter().find(|slot| slot.kind == kind).map(|slot| slot.sealed.as_slice())
}

fn open_with_recovery_code(account: Option<Account>, slots: &[Slot], code: &Secret) -> Result<Opened> {
    let wrong = || Error::new(ErrorKind::Unauthenticated, "the name or the recovery code is wrong");
    let code = RecoveryCode::parse(code.expose())?;
    let account = account.ok_or_else(wrong)?;
    let sealed = sealed(slots, SlotKind::Recovery).ok_or_else(wrong)?;
    let context = SlotContext { kind: CredentialKind::Recovery, account: account.uid, lookup: "" };
    let key = open_slot(context, code.secret(), sealed)
        .map_err(|error| if error.kind() == ErrorKind::Unauthenticated { wrong() } else { error })?;
    Ok((account, key, SlotKind::Recovery))
}

/// The key that a session's own account has behind its recovery code; a wrong code is `Unauthenticated`.
pub(crate) async fn open_recovery(accounts: &Accounts, who: &Session, code: &Secret) -> Result<AccountKey> {
    let wrong = || Error::new(ErrorKind::Unauthenticated, "the recovery code is wrong");
    let (account, slots) =
        (accounts.catalogue.account(who.account).await?, accounts.catalogue.slots(who.account).await?);
    // A code with a typing mistake is an attempt like any other.
    let opened = open_with_recovery_code(account, &slots, code);
    opened.map(|(_, key, _)| key).map_err(|error| if error.kind() == ErrorKind::InvalidInput { wrong() } else { error })
}

/// The operator can list the accounts anyway, so the answer says what is missing.
fn open_with_escrow(account: Option<Account>, slots: &[Slot], escrow: &EscrowKey, name: &str) -> Result<Opened> {
    let account = account.ok_or_else(|| Error::not_found(format!("there is no account {name:?}")))?;
    let sealed = sealed(slots, SlotKind::Escrow).ok_or_else(|| {
        Error::conflict(format!("{name} has no escrow slot: escrow was not switched on when its owner last signed in"))
    })?;
    let key = open_escrow_slot(escrow.key(), account.uid, sealed).map_err(|error| {
        if error.kind() == ErrorKind::Unauthenticated {
            error.context("this escrow key does not open the account")
        } else {
            error
        }
    })?;
    Ok((account, key, SlotKind::Escrow))
}
