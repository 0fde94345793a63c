//! Who may do what: from a session and a space's name to the space, the role, and its keys.

use super::Engine;
use super::view::View;
use crate::{Conditions, SpaceView};
use holdfast_auth::Session;
use holdfast_base::{DrivePath, Error, ErrorKind, Result};
use holdfast_meta::{Expect, Found, Guard, Membership, NodeKind, Role, Space, Usage};
use holdfast_seal::BlockKeys;
use std::sync::Arc;

/// A space a session has entered.
pub(crate) struct Entered {
    /// The space; its name is that by which it was entered.
    pub(crate) space: Space,
    pub(crate) membership: Membership,
    pub(crate) role: Role,
    /// What is seen of it, if it was entered through a share.
    pub(crate) view: Option<View>,
}

impl Entered {
    /// The keys of the space's blocks.
    pub(crate) fn keys(&self, who: &Session) -> Result<Arc<BlockKeys>> {
        who.block_keys(self.space.uid, &self.membership)
    }
}

impl Engine {
    /// Enters a space, or a folder shared with the session, or says why not. To whom may not see it, a space does not exist.
    pub(crate) async fn enter(&self, who: &Session, name: &str, need: Role) -> Result<Entered> {
        let entered = self.enter_any(who, name).await?;
        if entered.uploads_only() {
            return Err(Error::forbidden("here you can upload files and nothing else"));
        }
        if entered.role < need {
            return Err(Error::forbidden(refusal(who, &entered, name)));
        }
        Ok(entered)
    }

    /// Enters to upload a file.
    pub(crate) async fn enter_to_upload(&self, who: &Session, name: &str) -> Result<Entered> {
        let entered = self.enter_any(who, name).await?;
        if entered.role < Role::Editor && !entered.uploads_only() {
            return Err(Error::forbidden(refusal(who, &entered, name)));
        }
        Ok(entered)
    }

    async fn enter_any(&self, who: &Session, name: &str) -> Result<Entered> {
        if who.visit.is_some() {
            return self.enter_link(who, name).await;
        }
        let unseen = || Error::not_found(format!("there is no space {name:?}, or you are not a member of it"));
        if let Some((space, Some(membership))) = self.shared.catalogue.space_by_name(name, who.account).await? {
            if who.scope.space.is_some_and(|only| only != space.id) {
                return Err(unseen());
            }
            let role = effective_role(who, &membership);
            return Ok(Entered { space, membership, role, view: None });
        }
        // A space's name has no blank and a share's always one, so neither stands in the other's way.
        let shared = match who.scope.space {
            None => self.shared.catalogue.share_by_name(who.account, name).await?,
            Some(_) => None,
        };
        self.enter_shared(who, shared.ok_or_else(unseen)?)
    }

    pub(crate) fn guard(&self, who: &Session, entered: &Entered, conditions: Conditions) -> Guard {
        let Conditions { expect, tokens } = conditions;
        let through = entered.through().into_iter().collect();
        Guard { account: who.account, expect, tokens, through, now_ms: self.shared.clock.now_ms(), mount: 0 }
    }

    /// Refuses a write that is bound to fail before its body is read. The commit tests all of this again, in its transaction.
    pub(crate) async fn refuse_early(
        &self,
        who: &Session,
        entered: &Entered,
        found: &Found,
        path: &DrivePath,
        conditions: &Conditions,
    ) -> Result<()> {
        if found.chain.len() < path.names().len() {
            return Err(Error::conflict(format!("the folder of {path} does not exist")));
        }
        let node = found.node(path);
        if found.chain[path.names().len().saturating_sub(1)].kind != NodeKind::Folder {
            return Err(Error::conflict(format!("the parent of {path} is not a folder")));
        }
        if path.is_root() || node.is_some_and(|node| node.kind == NodeKind::Folder) {
            return Err(Error::new(ErrorKind::WrongKind, format!("{path} is a folder")));
        }
        let holds = match conditions.expect {
            Expect::Any => true,
            Expect::Absent => node.is_none(),
            Expect::Present => node.is_some(),
            Expect::Seq(seq) => node.is_some_and(|node| node.seq == seq),
        };
        if !holds {
            return Err(Error::new(ErrorKind::PreconditionFailed, format!("{path} is not as the request expects it")));
        }
        self.refuse_locked(who, entered, found, path, conditions).await
    }

    async fn refuse_locked(
        &self,
        who: &Session,
        entered: &Entered,
        found: &Found,
        path: &DrivePath,
        conditions: &Conditions,
    ) -> Result<()> {
        let ids: Vec<_> = found.chain.iter().map(|node| node.id).collect();
        let locks = self.shared.catalogue.locks_on(entered.space.id, &ids, self.shared.clock.now_ms()).await?;
        let end = found.node(path).map(|node| node.id);
        let covering = locks.iter().filter(|lock| lock.deep || Some(lock.node) == end);
        let mut blocked = false;
        for lock in covering {
            if lock.account == who.account && conditions.tokens.contains(&lock.token) {
                return Ok(());
            }
            blocked = true;
        }
        if blocked { Err(Error::new(ErrorKind::Locked, format!("{path} is locked"))) } else { Ok(()) }
    }

    /// The space as the session sees it.
    pub(crate) async fn view(&self, entered: &Entered) -> Result<SpaceView> {
        let Entered { space, role, .. } = entered;
        let found = self.look(entered, &DrivePath::root(), false).await?;
        let root = found.chain.into_iter().next().ok_or_else(|| Error::damaged("a space has no root folder"))?;
        Ok(SpaceView {
            name: space.name.clone(),
            home: space.home && entered.view.is_none(),
            shared_by: entered.view.as_ref().map(|view| view.by.clone()),
            role: *role,
            usage: if entered.view.is_none() { space.usage } else { Usage::default() },
            available_bytes: self.available_bytes(space).await?,
            compression: space.compression,
            retention: space.retention,
            root,
        })
    }

    /// What may still be written: the least of the space's quota, its owner's, and (if a quota is set at all) the store's room.
    async fn available_bytes(&self, space: &Space) -> Result<Option<u64>> {
        let used = space.usage.used_bytes + space.usage.reserved_bytes;
        let of_space = space.quota_bytes.map(|quota| quota.saturating_sub(used));
        let owner = self.shared.catalogue.account(space.owner).await?.and_then(|owner| owner.quota_bytes);
        let of_owner = match owner {
            Some(quota) => Some(quota.saturating_sub(self.shared.catalogue.account_used_bytes(space.owner).await?)),
            None => None,
        };
        let room = self.shared.store.room().await?.map(|room| room.free_bytes);
        Ok([of_space, of_owner, room].into_iter().flatten().min())
    }
}

/// The membership's role, lowered by a read-only credential.
pub(crate) fn effective_role(who: &Session, membership: &Membership) -> Role {
    if who.scope.read_only { Role::Reader } else { membership.role }
}

fn refusal(who: &Session, entered: &Entered, space: &str) -> String {
    match entered.role {
        Role::Reader if entered.view.is_some() && !who.scope.read_only => {
            format!("{space:?} was shared for reading only")
        }
        Role::Reader if who.scope.read_only => {
            format!("this credential may only read; writing to {space:?} is refused")
        }
        Role::Reader => format!("you are a reader of {space:?}; writing needs the role of an editor"),
        _ => format!("only owners of {space:?} may do this"),
    }
}
