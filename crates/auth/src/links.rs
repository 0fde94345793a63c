//! Opening links: from a secret, and perhaps a password, to a visit; and from a visit's secret to a session.
//!
//! Whoever cannot show a link's secret is told the same whether there is such a link or not, and is slowed like somebody who guesses passwords.
//! With the right secret the answers say what is the matter: that it has expired, that a password is needed, that it is wrong.
//!
//! A visit is looked up anew with every request, so that taking a link back ends it at once and on every node. That costs two or three point reads
//! and opening a slot of a random secret.

use crate::accounts::{
    CreatedVisit, open_without_password, passing_session, proof, read_secret, visit_session, with_password,
};
use crate::attempts::AddressGroup;
use crate::password::PASSWORD_BYTES_MAX;
use crate::token::Token;
use crate::{Authenticator, Secret, Session};
use holdfast_base::{Error, ErrorKind, Result, Uid};
use holdfast_meta::Shared;
use holdfast_seal::AccountKey;
use std::net::IpAddr;
use std::sync::Arc;

/// What a link that cannot be opened yet says when it has a password and none was sent.
pub const PASSWORD_NEEDED: &str = "this link needs a password";

impl Authenticator {
    /// Opens a link for somebody who shows its secret, and its password if it has one.
    pub async fn open_link(
        &self,
        id: Uid,
        secret: &Secret,
        password: Option<&Secret>,
        peer: Option<IpAddr>,
    ) -> Result<CreatedVisit> {
        let (shared, key) = self.unlock_link(id, secret, password, peer).await?;
        self.accounts().begin_visit(shared, &key).await
    }

    /// A session for one request of a program that shows a link's secret with it. Nothing is written, but where downloads are counted: there each
    /// such request is a visit of its own. A link with a password is opened by a visit only.
    pub async fn pass_link(&self, id: Uid, secret: &Secret, peer: Option<IpAddr>) -> Result<Arc<Session>> {
        let (shared, key) = self.unlock_link(id, secret, None, peer).await?;
        if shared.share.downloads_max.is_some() {
            let visit = self.accounts().begin_visit(shared, &key).await?;
            return self.visit(id, &visit.secret).await;
        }
        let gone = || Error::new(ErrorKind::Unauthenticated, "there is no such link");
        let account = self.catalogue().account(shared.share.by).await?.ok_or_else(gone)?;
        Ok(Arc::new(passing_session(&account, &shared, key)))
    }

    async fn unlock_link(
        &self,
        id: Uid,
        secret: &Secret,
        password: Option<&Secret>,
        peer: Option<IpAddr>,
    ) -> Result<(Shared, AccountKey)> {
        let (name, from) = (format!(".link/{id}"), AddressGroup::of(peer));
        self.may_try(&name, from).await?;
        let found = self.catalogue().share(id).await?;
        let shown = read_secret(secret.expose());
        let lock = found.as_ref().and_then(|shared| shared.share.link.clone());
        let (Some(shared), Some(lock), Some(shown)) = (found, lock, shown) else {
            return self.no_link(&name, from).await;
        };
        // Hashes: nothing can be learned from how long comparing them takes.
        if proof(&shown) != lock.proof {
            return self.no_link(&name, from).await;
        }
        self.refuse_closed(&shared)?;
        let key = match (lock.has_password, password) {
            (false, _) => open_without_password(id, &shown, &lock.sealed)?,
            (true, None) => return Err(Error::new(ErrorKind::Unauthenticated, PASSWORD_NEEDED)),
            (true, Some(password)) => {
                if password.expose().len() > PASSWORD_BYTES_MAX {
                    return Err(Error::new(ErrorKind::Unauthenticated, "the password is wrong"));
                }
                self.check_slot(&name, id, &lock.sealed, &with_password(&shown, password), from).await?
            }
        };
        Ok((shared, key))
    }

    /// The session of a visit of this link. One that has ended, with its link or before, is `Unauthenticated`.
    pub async fn visit(&self, link: Uid, secret: &Secret) -> Result<Arc<Session>> {
        let over = || Error::new(ErrorKind::Unauthenticated, "the visit of this link is over: open the link again");
        let secret = Token::parse_visit(secret.expose()).ok_or_else(over)?;
        let (visit, shared) = self.catalogue().visit(secret.lookup()).await?.ok_or_else(over)?;
        if shared.share.uid != link || visit.expires_ms <= self.now_ms() || self.refuse_closed(&shared).is_err() {
            return Err(over());
        }
        let account = self.catalogue().account(shared.share.by).await?.ok_or_else(over)?;
        let session = visit_session(&account, visit, &shared, &secret).map_err(|error| match error.kind() {
            ErrorKind::Unauthenticated => over(),
            _ => error,
        })?;
        Ok(Arc::new(session))
    }

    fn refuse_closed(&self, shared: &Shared) -> Result<()> {
        if shared.share.has_expired(self.now_ms()) {
            return Err(Error::forbidden("this link has expired"));
        }
        if shared.share.by_disabled || shared.place.is_none() {
            return Err(Error::forbidden("what this link led to is not there any more"));
        }
        Ok(())
    }

    async fn no_link<T>(&self, name: &str, from: AddressGroup) -> Result<T> {
        self.tried_in_vain(name, from).await?;
        Err(Error::not_found("there is no such link: it was taken back, or its address is not complete"))
    }
}
