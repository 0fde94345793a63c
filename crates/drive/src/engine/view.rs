//! A space as it is seen through a share: the shared folder is the root, and there is nothing above or beside it.
//!
//! [`Engine::enter`] decides how a session comes in. What comes in through a share has a [`View`]; every path it names is put below the
//! share's folder ([`Entered::place`]) and every path and node it is told is cut off there ([`Engine::look`], [`Entered::relative`],
//! [`Entered::told`]). As [`DrivePath`] has no `..`, no path leads out. The folder may be moved, or the share taken back, between a look and a change:
//! so each change says what it came in through, and the catalogue tests that in the change's transaction.

use super::Engine;
use super::access::Entered;
use crate::Location;
use holdfast_auth::Session;
use holdfast_base::{DrivePath, Error, ErrorKind, NodeId, Result};
use holdfast_meta::{Access, Found, Lock, Membership, NameTaken, NodeKind, Role, SearchIn, Shared, Space, Through};

/// What the visitor of a link calls what it leads to.
pub const LINK_VIEW: &str = "link";

/// What somebody sees through a share.
#[derive(Debug, Clone)]
pub(crate) struct View {
    /// The share.
    pub(crate) share: i64,
    /// The visit of a link, 0 otherwise.
    pub(crate) visit: i64,
    /// Who shared it.
    pub(crate) by: String,
    /// What is shared.
    node: NodeId,
    /// Where it is in its space.
    base: DrivePath,
    /// Whether only uploading is allowed.
    pub(crate) uploads_only: bool,
}

impl Entered {
    /// Where in its space a path is that was named by whoever came in.
    pub(crate) fn place(&self, path: &DrivePath) -> Result<DrivePath> {
        match &self.view {
            None => Ok(path.clone()),
            Some(view) => DrivePath::from_names([view.base.names(), path.names()].concat()),
        }
    }

    /// What whoever came in calls a place in the space; none for what they do not see.
    pub(crate) fn relative(&self, path: &DrivePath) -> Option<DrivePath> {
        match &self.view {
            None => Some(path.clone()),
            Some(view) => below(&view.base, path),
        }
    }

    /// Where a search looks.
    pub(crate) fn searched(&self) -> SearchIn {
        SearchIn { space: self.space.id, below: self.view.as_ref().map(|view| view.node) }
    }

    /// What a change comes in through.
    pub(crate) fn through(&self) -> Option<Through> {
        let view = self.view.as_ref()?;
        let writes = self.role >= Role::Editor || view.uploads_only;
        Some(Through { share: view.share, space: self.space.id, base: view.base.clone(), writes })
    }

    /// An error of the catalogue in the words of whoever came in: it names no folder above what they see, nor a lock there.
    pub(crate) fn told(&self, error: Error) -> Error {
        let Some(view) = &self.view else { return error };
        let message = match error.kind() {
            ErrorKind::Locked => "this is locked".to_owned(),
            _ if view.base.is_root() => return error,
            _ => error.message().replace(&view.base.to_string(), ""),
        };
        Error::new(error.kind(), message)
    }

    /// A lock as whoever came in sees it.
    pub(crate) fn lock_seen(&self, mut lock: Lock) -> Lock {
        lock.path = self.relative(&lock.path).unwrap_or_else(DrivePath::root);
        lock
    }

    /// Refuses what is only for those who are in the space itself.
    pub(crate) fn refuse_view(&self, what: &str) -> Result<()> {
        match self.view {
            Some(_) => Err(Error::forbidden(format!(
                "{what} is for members of the space, not for whom a folder was shared with"
            ))),
            None => Ok(()),
        }
    }

    /// The rule for a taken name: who only uploads overwrites nothing and does not learn what is there.
    pub(crate) fn rule(&self, wanted: NameTaken) -> NameTaken {
        if self.uploads_only() { NameTaken::KeepBoth } else { wanted }
    }

    pub(crate) fn uploads_only(&self) -> bool {
        self.view.as_ref().is_some_and(|view| view.uploads_only)
    }
}

/// `path` as it is seen from `base`, if it is there or below.
fn below(base: &DrivePath, path: &DrivePath) -> Option<DrivePath> {
    let names = path.names().strip_prefix(base.names())?;
    DrivePath::from_names(names.to_vec()).ok()
}

/// What is said of a share that leads nowhere.
fn gone() -> Error {
    Error::not_found("this is not shared with you: it was never shared, was taken back, has expired, or was removed")
}

impl Engine {
    /// Enters through a share, as a member of its space with what the share allows. Whether the session may use it has been looked at.
    pub(crate) fn enter_shared(&self, who: &Session, shared: Shared) -> Result<Entered> {
        let Shared { share, mut space, place } = shared;
        let now_ms = self.shared.clock.now_ms();
        let (base, _) = place.filter(|_| !share.has_expired(now_ms)).ok_or_else(gone)?;
        space.name = if who.visit.is_some() { LINK_VIEW.to_owned() } else { share.name };
        let role = match share.access {
            Access::Write if !who.scope.read_only => Role::Editor,
            Access::Read | Access::Write | Access::Upload => Role::Reader,
        };
        let membership = Membership {
            space: space.id,
            account: who.account,
            account_name: who.name.clone(),
            role,
            wrapped_key: share.wrapped_key,
        };
        let view = View {
            share: share.id,
            visit: who.visit.as_ref().map_or(0, |visit| visit.id),
            by: share.by_name,
            node: share.node,
            base,
            uploads_only: share.access == Access::Upload,
        };
        Ok(Entered { space, membership, role, view: Some(view) })
    }

    /// The link that a visit is of.
    pub(crate) async fn enter_link(&self, who: &Session, name: &str) -> Result<Entered> {
        let Some(visit) = who.visit.as_ref().filter(|_| name == LINK_VIEW) else { return Err(gone()) };
        let shared = self.shared.catalogue.share_by_id(visit.share).await?.ok_or_else(gone)?;
        if shared.share.by_disabled || shared.share.by != who.account {
            return Err(gone());
        }
        self.enter_shared(who, shared)
    }

    /// All that is shared with a session that may use it, by name. What leads nowhere is left out.
    pub(crate) async fn shared_with(&self, who: &Session) -> Result<Vec<Entered>> {
        if who.visit.is_some() {
            return Ok(vec![self.enter_link(who, LINK_VIEW).await?]);
        }
        if who.scope.space.is_some() {
            return Ok(Vec::new());
        }
        let shares = self.shared.catalogue.shares_with(who.account).await?;
        Ok(shares.into_iter().filter_map(|shared| self.enter_shared(who, shared).ok()).collect())
    }

    /// Walks a path as whoever came in sees it.
    pub(crate) async fn look(&self, entered: &Entered, path: &DrivePath, with_content: bool) -> Result<Found> {
        let Some(view) = &entered.view else {
            return self.shared.catalogue.find(entered.space.id, path, with_content).await;
        };
        let mut found = self.shared.catalogue.find(entered.space.id, &entered.place(path)?, with_content).await?;
        let above = view.base.names().len();
        if found.chain.get(above).is_none_or(|node| node.id != view.node) {
            return Err(gone());
        }
        found.chain.drain(..above);
        // As a space's root has none; a link to a file shows what it is.
        if let Some(root) = found.chain.first_mut().filter(|root| root.kind == NodeKind::Folder) {
            root.name.clear();
            root.parent = None;
        }
        Ok(found)
    }

    /// Whether a session may see nodes of this space, and through what: nothing where it is a member. The nodes come from a walk of the same session,
    /// so this only closes the gap in which a membership or share ended.
    pub(crate) async fn seen_through(&self, who: &Session, space: &Space) -> Result<Vec<Entered>> {
        if who.visit.is_none() {
            match self.enter(who, &space.name, Role::Reader).await {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                entered => return entered.map(|_| Vec::new()),
            }
        }
        let mut through = self.shared_with(who).await?;
        through.retain(|entered| entered.space.id == space.id && !entered.uploads_only());
        if through.is_empty() { Err(gone()) } else { Ok(through) }
    }

    /// Refuses an upload that only uploads to anywhere but a name in the folder itself: with folders one could find out what is there.
    pub(crate) fn refuse_deep_upload(entered: &Entered, at: &Location) -> Result<()> {
        if entered.uploads_only() && at.path.names().len() != 1 {
            return Err(Error::forbidden("here only files can be uploaded, without folders"));
        }
        Ok(())
    }
}
