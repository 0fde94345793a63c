//! App tokens: made by their owner, shown once, listed and revoked.

use super::{Accounts, random_slot};
use crate::{Secret, Session, Token};
use holdfast_base::{AccountId, Error, ErrorKind, Result, SpaceId};
use holdfast_meta::{NewSlot, Slot, SlotKind};

/// Tokens of one account at most: one a device with room to spare; sign-in and listing stay cheap.
pub const TOKENS_PER_ACCOUNT_MAX: usize = 200;

/// Longest label, in bytes.
pub const LABEL_BYTES_MAX: usize = 100;

/// A token to be made.
#[derive(Debug, Clone, Default)]
pub struct NewToken {
    /// What the owner calls it.
    pub label: String,
    /// Only reading.
    pub read_only: bool,
    /// Only this space.
    pub space: Option<SpaceId>,
    /// When it stops working; none is never.
    pub expires_ms: Option<i64>,
}

/// A token just made.
#[derive(Debug)]
pub struct CreatedToken {
    /// Its slot.
    pub slot: Slot,
    /// The token, shown once.
    pub token: Secret,
}

impl Accounts {
    /// Makes a token for the session's account. A token cannot make another.
    pub async fn create_token(&self, who: &Session, new: NewToken) -> Result<CreatedToken> {
        who.require_full()?;
        self.check_new_token(who, &new).await?;
        let token = Token::generate()?;
        let slot = NewSlot {
            label: new.label,
            read_only: new.read_only,
            space: new.space,
            expires_ms: new.expires_ms,
            ..random_slot(SlotKind::Token, who.account_uid, token.lookup(), token.secret(), who.key())?
        };
        let slot = self.catalogue.put_slot(who.account, slot, self.clock.now_ms()).await?;
        Ok(CreatedToken { slot, token: token.text() })
    }

    /// An account's tokens, oldest first.
    pub async fn list_tokens(&self, account: AccountId) -> Result<Vec<Slot>> {
        let mut slots = self.catalogue.slots(account).await?;
        slots.retain(|slot| slot.kind == SlotKind::Token);
        slots.sort_by_key(|slot| (slot.created_ms, slot.id));
        Ok(slots)
    }

    /// Revokes a token, at once and everywhere. No such token of this account is `NotFound`.
    pub async fn revoke_token(&self, account: AccountId, slot: i64) -> Result<()> {
        // Only a token: the same call must not take away the password.
        if !self.list_tokens(account).await?.iter().any(|token| token.id == slot) {
            return Err(Error::not_found(format!("there is no app token {slot}")));
        }
        self.catalogue.remove_slot(account, slot).await
    }

    async fn check_new_token(&self, who: &Session, new: &NewToken) -> Result<()> {
        if new.label.len() > LABEL_BYTES_MAX || new.label.chars().any(char::is_control) {
            return Err(Error::invalid(format!(
                "a token's label has {LABEL_BYTES_MAX} bytes at most and no control characters"
            )));
        }
        if new.expires_ms.is_some_and(|expires_ms| expires_ms <= self.clock.now_ms()) {
            return Err(Error::invalid("the token's last moment is in the past"));
        }
        if let Some(space) = new.space
            && !self.catalogue.spaces_of(who.account).await?.iter().any(|(own, _)| own.id == space)
        {
            return Err(Error::not_found("the space the token is for is none of yours"));
        }
        if self.list_tokens(who.account).await?.len() >= TOKENS_PER_ACCOUNT_MAX {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("an account has {TOKENS_PER_ACCOUNT_MAX} app tokens at most: revoke those no longer used"),
            ));
        }
        Ok(())
    }
}
