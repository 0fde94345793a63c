//! Group spaces and their members: the space's key is wrapped to each member's public key.
//!
//! Limit: a member who is removed can no longer reach the space through the drive, but the space keeps its key: somebody who
//! copied that key while a member, and gets at catalogue and store besides, can read what is written later.

use super::Accounts;
use crate::Session;
use crate::sites::check_new_name;
use holdfast_base::{AccountId, Error, Result, Uid};
use holdfast_meta::{Membership, NewSpace, Role, Space};
use holdfast_seal::SpaceKey;
use holdfast_seal::keys::{random_bytes, wrap_space_key};

impl Accounts {
    /// Makes a group space that the session's account owns. A taken name is `AlreadyExists`.
    pub async fn create_space(&self, owner: &Session, name: &str, quota_bytes: Option<u64>) -> Result<Space> {
        owner.require_full()?;
        self.insert_space(name, (owner.account, &owner.key().public()), quota_bytes).await
    }

    /// Makes a group space for somebody else: the new key is wrapped to its owner alone, so that who makes it has nothing of it. For administrators.
    pub async fn create_space_for(&self, owner: &str, name: &str, quota_bytes: Option<u64>) -> Result<Space> {
        if owner == crate::SITES_ACCOUNT {
            return Err(Error::invalid("this account owns nothing: nobody signs in to it"));
        }
        let owner = self.get(owner).await?;
        self.insert_space(name, (owner.id, &owner.public_key), quota_bytes).await
    }

    async fn insert_space(
        &self,
        name: &str,
        (owner, public): (AccountId, &[u8; 32]),
        quota_bytes: Option<u64>,
    ) -> Result<Space> {
        check_new_name(name)?;
        let uid = Uid(random_bytes()?);
        let wrapped_key = wrap_space_key(public, uid, &SpaceKey::generate()?)?;
        let now_ms = self.clock.now_ms();
        let new = NewSpace { uid, name: name.to_owned(), owner, wrapped_key, quota_bytes, now_ms };
        self.catalogue.create_space(new).await
    }

    /// A space's members in name order, for any of them.
    pub async fn members(&self, who: &Session, space: &str) -> Result<Vec<Membership>> {
        let (space, _) = self.membership(who, space).await?;
        self.catalogue.members(space.id).await
    }

    /// Adds a member, or gives one another role. For owners.
    pub async fn add_member(&self, who: &Session, space: &str, account: &str, role: Role) -> Result<()> {
        let (space, own) = self.owned(who, space).await?;
        let account = self.get(account).await?;
        if space.home && role == Role::Owner && account.id != space.owner {
            return Err(Error::conflict(
                "a home space has one owner, its account: make a group space to share ownership",
            ));
        }
        if account.id == space.owner && role != Role::Owner {
            return Err(pays(&space, &account.name));
        }
        let key = who.space_key(space.uid, &own)?;
        let wrapped = wrap_space_key(&account.public_key, space.uid, &key)?;
        self.catalogue.put_member(space.id, account.id, role, wrapped).await
    }

    /// Gives a member another role. For owners; somebody who is no member is `NotFound`.
    pub async fn set_role(&self, who: &Session, space: &str, account: &str, role: Role) -> Result<()> {
        let (found, _) = self.owned(who, space).await?;
        if !self.catalogue.members(found.id).await?.iter().any(|member| member.account_name == account) {
            return Err(Error::not_found(format!("{account:?} is no member of {space:?}")));
        }
        self.add_member(who, space, account, role).await
    }

    /// Removes a member. For owners, and for a member who leaves. The last owner is `Conflict`.
    pub async fn remove_member(&self, who: &Session, space: &str, account: &str) -> Result<()> {
        let space = if account == who.name {
            who.require_full()?;
            self.membership(who, space).await?.0
        } else {
            self.owned(who, space).await?.0
        };
        let members = self.catalogue.members(space.id).await?;
        let member = members.iter().find(|member| member.account_name == account);
        let member = member.ok_or_else(|| Error::not_found(format!("{account:?} is no member of {:?}", space.name)))?;
        if member.account == space.owner {
            return Err(pays(&space, account));
        }
        self.catalogue.remove_member(space.id, member.account).await
    }

    /// The space and the session's membership in it; a space that is not the session's to see is `NotFound`.
    async fn membership(&self, who: &Session, name: &str) -> Result<(Space, Membership)> {
        match self.catalogue.space_by_name(name, who.account).await? {
            Some((space, Some(membership))) if who.scope.space.is_none_or(|only| only == space.id) => {
                Ok((space, membership))
            }
            _ => Err(Error::not_found(format!("there is no space {name:?}"))),
        }
    }

    /// The row of a space the session owns.
    pub(crate) async fn owned_space(&self, who: &Session, name: &str) -> Result<holdfast_base::SpaceId> {
        self.owned(who, name).await.map(|(space, _)| space.id)
    }

    pub(super) async fn owned(&self, who: &Session, name: &str) -> Result<(Space, Membership)> {
        let found = self.membership(who, name).await?;
        who.require_full()?;
        if found.1.role != Role::Owner {
            return Err(Error::forbidden(format!("only an owner of {name:?} can change its members")));
        }
        Ok(found)
    }
}

/// So that a space always has an owner, and one whose quota it counts against.
fn pays(space: &Space, account: &str) -> Error {
    Error::conflict(format!(
        "{account} owns {:?}, which counts against their quota, and so stays its owner",
        space.name
    ))
}
