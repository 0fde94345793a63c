//! A signed-in account: who it is, what this sign-in may do, and its unlocked key, held in memory only.

use holdfast_base::{AccountId, Error, Result, SpaceId, Uid};
use holdfast_meta::{Membership, Slot, SlotKind, Visit};
use holdfast_seal::{AccountKey, BlockKeys, SpaceKey};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// What a credential is limited to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scope {
    /// Only reading.
    pub read_only: bool,
    /// Only this space.
    pub space: Option<SpaceId>,
}

/// A wrapped space key and the keys derived from it: void as soon as the wrapped form differs.
type OpenedKeys = (Vec<u8>, Arc<BlockKeys>);

/// A signed-in account.
pub struct Session {
    /// The account.
    pub account: AccountId,
    /// Its random name.
    pub account_uid: Uid,
    /// Its sign-in name.
    pub name: String,
    /// Whether it administers the drive.
    pub admin: bool,
    /// Limits of the credential used.
    pub scope: Scope,
    /// The account's generation at sign-in.
    pub generation: i64,
    /// What kind of credential was used: an app token may not change credentials or members. A passkey counts as the password.
    pub credential: SlotKind,
    /// The slot it opened, if it came in over the network.
    pub slot: Option<i64>,
    /// The visit of a link that this is: then the account is that of whoever made the link, the key is the link's, and nothing but what the
    /// link leads to is to be reached.
    pub visit: Option<Visit>,
    /// The password was right, and the account wants a second factor: nobody outside of this crate is given such a session but to
    /// prove the password.
    pub(crate) awaits_second: bool,
    key: AccountKey,
    space_keys: Mutex<HashMap<SpaceId, OpenedKeys>>,
}

impl Session {
    /// Makes a session of an account and its unlocked key.
    pub fn new(account: &holdfast_meta::Account, scope: Scope, key: AccountKey) -> Self {
        Self {
            account: account.id,
            account_uid: account.uid,
            name: account.name.clone(),
            admin: account.admin,
            scope,
            generation: account.generation,
            credential: SlotKind::Password,
            slot: None,
            visit: None,
            awaits_second: false,
            key,
            space_keys: Mutex::default(),
        }
    }

    /// Notes what kind of credential was used. A token limited to reading or to one space does not administer the drive.
    #[must_use]
    pub fn signed_in_with(mut self, credential: SlotKind) -> Self {
        self.credential = credential;
        self.admin &= self.scope == Scope::default();
        self
    }

    /// Notes which slot was opened.
    #[must_use]
    pub(crate) fn opened_by(mut self, slot: &Slot) -> Self {
        self.slot = Some(slot.id);
        self.signed_in_with(slot.kind)
    }

    /// The same account and credential, with nothing left to prove.
    #[must_use]
    pub(crate) fn whole(&self) -> Self {
        Self {
            name: self.name.clone(),
            awaits_second: false,
            visit: self.visit.clone(),
            key: self.key.clone(),
            space_keys: Mutex::default(),
            ..*self
        }
    }

    /// Refuses what needs the account's own credential: changing credentials, spaces and members.
    pub fn require_full(&self) -> Result<()> {
        if self.credential == SlotKind::Token || self.scope != Scope::default() || self.visit.is_some() {
            return Err(Error::forbidden("an app token cannot do this: sign in with the account's password"));
        }
        Ok(())
    }

    /// The slot of the browser's session that this is, if it is one.
    pub fn browser_session(&self) -> Option<i64> {
        self.slot.filter(|_| self.credential == SlotKind::Session)
    }

    /// The keys that seal the space's blocks (derived once a session: unwrapping costs a Diffie-Hellman).
    pub fn block_keys(&self, space_uid: Uid, membership: &Membership) -> Result<Arc<BlockKeys>> {
        if let Some((wrapped, keys)) = self.space_keys.lock().get(&membership.space)
            && *wrapped == membership.wrapped_key
        {
            return Ok(keys.clone());
        }
        let keys = Arc::new(BlockKeys::derive(space_uid, &self.space_key(space_uid, membership)?));
        self.space_keys.lock().insert(membership.space, (membership.wrapped_key.clone(), keys.clone()));
        Ok(keys)
    }

    /// The space's data key itself, unwrapped: for wrapping it to another member.
    pub fn space_key(&self, space_uid: Uid, membership: &Membership) -> Result<SpaceKey> {
        if membership.account != self.account {
            return Err(Error::internal("a membership of another account was used"));
        }
        self.key.unwrap_space_key(space_uid, &membership.wrapped_key)
    }

    /// The account's key, for wrapping it into another credential slot.
    pub const fn key(&self) -> &AccountKey {
        &self.key
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("name", &self.name).field("scope", &self.scope).finish_non_exhaustive()
    }
}
