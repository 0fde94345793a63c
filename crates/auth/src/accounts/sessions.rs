//! Sessions of browsers: a slot each, whose secret is in the browser's cookie and nowhere else.
//!
//! The row is the session: any node serves it, and removing it ends it everywhere at once. It ends by itself after a day, or after
//! thirty if its owner chose to stay signed in, and sooner when it is not used for half of that time.

use super::{Accounts, random_slot};
use crate::{Secret, Session, Token};
use holdfast_base::{AccountId, Error, ErrorKind, Result};
use holdfast_meta::{NewSlot, Slot, SlotKind};

/// A session lasts so long: 24 hours, so that a shared computer forgets.
pub const SESSION_MS: i64 = 24 * 3_600_000;

/// A session whose owner chose to stay signed in lasts so long: 30 days.
pub const SESSION_REMEMBERED_MS: i64 = 30 * SESSION_MS;

/// Sessions of one account at most; with one more, the one that was not used for longest ends.
pub const SESSIONS_PER_ACCOUNT_MAX: usize = 100;

/// A session just made.
#[derive(Debug)]
pub struct CreatedSession {
    /// Its slot.
    pub slot: Slot,
    /// What goes into the cookie.
    pub secret: Secret,
}

/// Whether a slot opens nothing any more: a session also when it was not used for half of its whole time.
pub(crate) fn has_ended(slot: &Slot, now_ms: i64) -> bool {
    let Some(expires_ms) = slot.expires_ms else { return false };
    let idle_ms = expires_ms.saturating_sub(slot.created_ms) / 2;
    let used_ms = slot.used_ms.unwrap_or(slot.created_ms);
    now_ms >= expires_ms || (slot.kind == SlotKind::Session && now_ms.saturating_sub(used_ms) >= idle_ms)
}

impl Accounts {
    /// Opens a session for somebody who has just signed in with the account's password, and the second factor if it has one, or with a
    /// passkey; `label` says where.
    pub async fn open_session(&self, who: &Session, label: String, remember: bool) -> Result<CreatedSession> {
        if who.awaits_second {
            return Err(Error::internal("a session was about to be opened without the second factor"));
        }
        if who.credential != SlotKind::Password {
            return Err(Error::forbidden("a session is opened with the account's password, not with an app token"));
        }
        self.make_room(who.account).await?;
        let now_ms = self.clock.now_ms();
        let secret = Token::generate_session()?;
        let lasts_ms = if remember { SESSION_REMEMBERED_MS } else { SESSION_MS };
        let slot = NewSlot {
            label,
            expires_ms: Some(now_ms.saturating_add(lasts_ms)),
            ..random_slot(SlotKind::Session, who.account_uid, secret.lookup(), secret.secret(), who.key())?
        };
        let slot = self.catalogue.put_slot(who.account, slot, now_ms).await?;
        Ok(CreatedSession { slot, secret: secret.text() })
    }

    /// An account's sessions that have not ended, the last used first.
    pub async fn list_sessions(&self, account: AccountId) -> Result<Vec<Slot>> {
        let now_ms = self.clock.now_ms();
        let mut slots = self.catalogue.slots(account).await?;
        slots.retain(|slot| slot.kind == SlotKind::Session && !has_ended(slot, now_ms));
        slots.sort_by_key(|slot| std::cmp::Reverse((slot.used_ms.unwrap_or(slot.created_ms), slot.id)));
        Ok(slots)
    }

    /// Ends a session, at once and everywhere. No such session of this account is `NotFound`.
    pub async fn end_session(&self, account: AccountId, slot: i64) -> Result<()> {
        // Only a session: the same call must not take away the password.
        if !self.list_sessions(account).await?.iter().any(|session| session.id == slot) {
            return Err(Error::not_found(format!("there is no session {slot}")));
        }
        self.catalogue.remove_slot(account, slot).await
    }

    /// Ends every session of an account; answers how many there were.
    pub async fn end_sessions(&self, account: AccountId) -> Result<usize> {
        let mut ended = 0;
        for session in self.list_sessions(account).await? {
            match self.catalogue.remove_slot(account, session.id).await {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                done => {
                    done?;
                    ended += 1;
                }
            }
        }
        Ok(ended)
    }

    /// Removes the rows of sessions that have ended, and of those in use as many as there are too many for one more. They are looked at
    /// once: a session that is opened meanwhile is none of them.
    async fn make_room(&self, account: AccountId) -> Result<()> {
        let now_ms = self.clock.now_ms();
        let mut sessions = self.catalogue.slots(account).await?;
        sessions.retain(|slot| slot.kind == SlotKind::Session);
        sessions.sort_by_key(|slot| {
            (has_ended(slot, now_ms), std::cmp::Reverse((slot.used_ms.unwrap_or(slot.created_ms), slot.id)))
        });
        for (at, slot) in sessions.iter().enumerate() {
            if has_ended(slot, now_ms) || at >= SESSIONS_PER_ACCOUNT_MAX - 1 {
                match self.catalogue.remove_slot(account, slot.id).await {
                    // Another sign-in of the same account tidies up, too.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    done => done?,
                }
            }
        }
        Ok(())
    }
}
