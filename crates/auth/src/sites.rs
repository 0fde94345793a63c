//! The account that serves published sites, and the passwords that open single sites.
//!
//! The *sites account* is an account like any other but for two things: it has no credential slot at all, so nobody signs in
//! to it, and its private key is a file that serving nodes hold ([`SitesKey`]). It is made a reader of each site's space and
//! of nothing else, so what its key opens is what was published. Its name is reserved: [`check_new_name`].
//!
//! A site's password opens a slot as an account's does (Argon2id, sealing a key nobody uses), and attempts at it are counted
//! and delayed by the same rules, under a name no account can have.

use crate::attempts::AddressGroup;
use crate::{Accounts, Authenticator, PASSWORD_BYTES_MAX, Scope, Secret, Session, base32};
use holdfast_base::name::check_account_name;
use holdfast_base::{Error, ErrorKind, Result, Uid};
use holdfast_meta::{NewAccount, Role};
use holdfast_seal::keys::{random_bytes, wrap_space_key};
use holdfast_seal::{AccountKey, SpaceKey};
use std::fmt;
use std::net::IpAddr;

/// Name of the sites account.
pub const SITES_ACCOUNT: &str = "_sites";

/// Checks the name of an account or space that somebody wants to make: well-formed and not reserved.
pub(crate) fn check_new_name(name: &str) -> Result<()> {
    check_account_name(name)?;
    if name == SITES_ACCOUNT {
        return Err(Error::invalid(format!("the name {name} is reserved for publishing")));
    }
    Ok(())
}

/// What stands where a slot names its account.
const NO_ACCOUNT: Uid = Uid([0; 16]);

/// How the key's text begins.
const PREFIX: &str = "hf-sites-";

/// The private key of the sites account.
pub struct SitesKey(AccountKey);

impl SitesKey {
    /// Makes a new random one.
    pub fn generate() -> Result<Self> {
        AccountKey::generate().map(|(key, _)| Self(key))
    }

    /// Reads it from text.
    pub fn parse(text: &str) -> Result<Self> {
        let text = text.trim().strip_prefix(PREFIX).ok_or_else(|| {
            Error::invalid(format!("this is not the key of the sites account: it begins with {PREFIX}"))
        })?;
        let private = base32::decode_checked(text)
            .map_err(|mistake| Error::invalid(format!("this is not the key of the sites account: {mistake}")))?;
        AccountKey::from_private(&private).map(Self)
    }

    /// It as text, for its file.
    pub fn text(&self) -> Secret {
        Secret::new(format!("{PREFIX}{}", base32::encode_checked(self.0.expose()).as_str()))
    }
}

impl fmt::Debug for SitesKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SitesKey(…)")
    }
}

impl Accounts {
    /// Opens the sites account; none before the first site was published.
    pub async fn open_sites_account(&self, key: &SitesKey) -> Result<Option<Session>> {
        let Some(account) = self.catalogue.account_by_name(SITES_ACCOUNT).await? else { return Ok(None) };
        if account.public_key != key.0.public() {
            return Err(Error::conflict(
                "this drive's sites account has another key: put the key file back that belongs to it (all nodes share one), or \
                 give the account this key with `holdfast site renew-key`",
            ));
        }
        let scope = Scope { read_only: true, space: None };
        Ok(Some(Session::new(&account, scope, key.0.clone())))
    }

    /// Opens the sites account, which is made if there is none.
    pub async fn make_sites_account(&self, key: &SitesKey) -> Result<Session> {
        if let Some(session) = self.open_sites_account(key).await? {
            return Ok(session);
        }
        let (uid, home_uid) = (Uid(random_bytes()?), Uid(random_bytes()?));
        let public_key = key.0.public();
        let new = NewAccount {
            uid,
            name: SITES_ACCOUNT.to_owned(),
            admin: false,
            public_key,
            quota_bytes: Some(0),
            slots: Vec::new(),
            home_uid,
            home_wrapped_key: wrap_space_key(&public_key, home_uid, &SpaceKey::generate()?)?,
            now_ms: self.clock.now_ms(),
        };
        match self.catalogue.create_account(new).await {
            Ok(_) => {}
            // Another node was faster.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let made = self.open_sites_account(key).await?;
        made.ok_or_else(|| Error::internal("the sites account vanished while it was made"))
    }

    /// Gives the sites account another key, because its own is lost or known to somebody: it is made anew, a member of nothing. Sites
    /// are served again once their owners let it in, which publishing does.
    pub async fn renew_sites_account(&self, key: &SitesKey) -> Result<()> {
        if let Some(account) = self.catalogue.account_by_name(SITES_ACCOUNT).await? {
            self.catalogue.remove_account(account.id, self.clock.now_ms()).await?;
        }
        self.make_sites_account(key).await.map(|_| ())
    }

    /// Whether the sites account may read a space of the session.
    pub async fn sites_may_read(&self, who: &Session, space: &str) -> Result<bool> {
        let members = self.members(who, space).await?;
        Ok(members.iter().any(|member| member.account_name == SITES_ACCOUNT))
    }

    /// Lets the sites account read a space. For owners.
    pub async fn let_sites_read(&self, owner: &Session, space: &str) -> Result<()> {
        self.add_member(owner, space, SITES_ACCOUNT, Role::Reader).await
    }

    /// Removes a group space with everything in it. For owners.
    pub async fn remove_space(&self, owner: &Session, name: &str) -> Result<()> {
        check_account_name(name)?;
        let space = self.owned_space(owner, name).await?;
        self.catalogue.remove_space(space, self.clock.now_ms()).await
    }

    /// Whether an account may read a space, by the catalogue's present state; an unknown or disabled account may not.
    pub async fn may_read(&self, account: &str, space: &str) -> Result<bool> {
        let Some(account) = self.catalogue.account_by_name(account).await? else { return Ok(false) };
        if account.disabled {
            return Ok(false);
        }
        let found = self.catalogue.space_by_name(space, account.id).await?;
        Ok(found.is_some_and(|(_, membership)| membership.is_some()))
    }

    /// Seals the slot that a site's password opens. It is bound to no site: who can move it can read what it guards.
    pub async fn seal_site_password(&self, password: &Secret) -> Result<Vec<u8>> {
        let turn = self.worker.turn().await?;
        self.worker.seal(&turn, NO_ACCOUNT, password, &AccountKey::generate()?.0).await
    }
}

impl Authenticator {
    /// Checks a site's password sent from `peer`. A wrong one is `Unauthenticated`, and after too many failures any is
    /// `TooManyRequests`.
    pub async fn check_site_password(
        &self,
        site: Uid,
        slot: &[u8],
        password: &Secret,
        peer: Option<IpAddr>,
    ) -> Result<()> {
        let (name, from) = (format!(".site/{site}"), AddressGroup::of(peer));
        if password.expose().len() > PASSWORD_BYTES_MAX {
            return Err(Error::new(ErrorKind::Unauthenticated, "the password is wrong"));
        }
        self.check_slot(&name, NO_ACCOUNT, slot, password, from).await.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_reads_back_and_is_not_printed_or_taken_for_another_kind() {
        let key = SitesKey::generate().expect("generates");
        let again = SitesKey::parse(&format!(" {}\n", key.text().expose())).expect("parses");
        assert_eq!(again.0.public(), key.0.public());
        assert!(SitesKey::parse(&key.text().expose()[PREFIX.len()..]).is_err());
        assert!(!format!("{key:?}").contains(&key.text().expose()[12..]));
    }

    #[test]
    fn nobody_can_make_an_account_of_the_reserved_name() {
        assert!(check_new_name(SITES_ACCOUNT).is_err() && check_account_name(SITES_ACCOUNT).is_ok());
    }
}
