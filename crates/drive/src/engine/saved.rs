//! Saved searches: places in place of rows, and who may.
//!
//! They are the account's own, as its shares are: a credential for one space sees none, one that only reads changes none.

use super::Engine;
use super::access::Entered;
use crate::{Location, SavedView, SavedWish, SearchToSave};
use holdfast_auth::Session;
use holdfast_base::{DrivePath, Error, ErrorKind, NodeId, Result};
use holdfast_meta::{NewSearch, NodeKind, Role, SavedSearch, SearchChange, WhichSearch};
use std::fmt::Write;

impl Engine {
    pub(super) async fn searches_of(&self, who: &Session) -> Result<Vec<SavedView>> {
        if !sees_saved(who) {
            return Ok(Vec::new());
        }
        let saved = self.shared.catalogue.saved_searches(who.account).await?;
        if saved.is_empty() {
            return Ok(Vec::new());
        }
        let visible = self.visible(who, None).await?;
        Ok(saved.into_iter().map(|saved| saved_view(saved, &visible)).collect())
    }

    pub(super) async fn search_of(&self, who: &Session, which: &WhichSearch) -> Result<SavedView> {
        let gone = || Error::not_found("there is no such saved search");
        if !sees_saved(who) {
            return Err(gone());
        }
        let saved = self.shared.catalogue.saved_search(who.account, which).await?.ok_or_else(gone)?;
        Ok(saved_view(saved, &self.visible(who, None).await?))
    }

    pub(super) async fn keep_search(&self, who: &Session, wanted: SearchToSave) -> Result<SavedView> {
        refuse_changes(who)?;
        self.refuse_unseen(who, wanted.space.as_deref()).await?;
        let new = NewSearch {
            account: who.account,
            name: wanted.name,
            space: wanted.space,
            query: wanted.query,
            folder: self.folder_row(who, wanted.folder.as_ref()).await?,
            now_ms: self.shared.clock.now_ms(),
        };
        let saved = self.shared.catalogue.save_search(new).await?;
        Ok(saved_view(saved, &self.visible(who, None).await?))
    }

    pub(super) async fn alter_search(&self, who: &Session, id: i64, wish: SavedWish) -> Result<SavedView> {
        refuse_changes(who)?;
        if let Some((space, _)) = &wish.query {
            self.refuse_unseen(who, space.as_deref()).await?;
        }
        let folder = match &wish.folder {
            Some(folder) => Some(self.folder_row(who, folder.as_ref()).await?),
            None => None,
        };
        let now_ms = self.shared.clock.now_ms();
        let change = SearchChange { name: wish.name, query: wish.query, folder, now_ms };
        let saved = self.shared.catalogue.change_search(who.account, id, change).await?;
        Ok(saved_view(saved, &self.visible(who, None).await?))
    }

    pub(super) async fn forget_search(&self, who: &Session, id: i64) -> Result<()> {
        refuse_changes(who)?;
        self.shared.catalogue.remove_search(who.account, id).await
    }

    /// Each change of a space counts its number up; a space more or less is told by its row, and so is another role there.
    pub(super) async fn state_of_visible(&self, who: &Session) -> Result<String> {
        let mut state = String::new();
        for entered in self.visible(who, None).await? {
            let share = entered.view.as_ref().map_or(0, |view| view.share);
            // Writing to a string cannot fail.
            let _ = write!(state, "{}.{share}.{}.{:?},", entered.space.id.0, entered.space.seq, entered.role);
        }
        Ok(state)
    }

    /// A search in what the session does not see would never find anything.
    async fn refuse_unseen(&self, who: &Session, space: Option<&str>) -> Result<()> {
        match space {
            Some(name) => self.enter(who, name, Role::Reader).await.map(drop),
            None => Ok(()),
        }
    }

    /// The row of a folder that the session may write to.
    async fn folder_row(&self, who: &Session, folder: Option<&Location>) -> Result<Option<NodeId>> {
        let Some(at) = folder else { return Ok(None) };
        let entered = self.enter(who, &at.space, Role::Editor).await?;
        let node = self.node_at(&entered, at).await?;
        if node.kind != NodeKind::Folder {
            return Err(Error::new(ErrorKind::WrongKind, format!("{at} is a file: name a folder")));
        }
        Ok(Some(node.id))
    }
}

fn sees_saved(who: &Session) -> bool {
    who.visit.is_none() && who.scope.space.is_none()
}

fn refuse_changes(who: &Session) -> Result<()> {
    if !sees_saved(who) || who.scope.read_only {
        return Err(Error::forbidden("this credential is limited: it neither saves nor changes searches"));
    }
    Ok(())
}

/// A member's own way to the folder comes first.
fn saved_view(saved: SavedSearch, visible: &[Entered]) -> SavedView {
    let at = |entered: &Entered, path| Location { space: entered.space.name.clone(), path };
    let folder = match (saved.folder, &saved.place) {
        (None, _) => {
            let home = visible.iter().find(|entered| entered.space.home && entered.space.owner == saved.account);
            home.map(|entered| at(entered, DrivePath::root()))
        }
        (Some(_), None) => None,
        (Some(_), Some((space, path))) => visible
            .iter()
            .filter(|entered| entered.space.id == *space)
            .find_map(|entered| Some(at(entered, entered.relative(path)?))),
    };
    SavedView {
        id: saved.id,
        name: saved.name,
        space: saved.space,
        query: saved.query,
        folder,
        created_ms: saved.created_ms,
        changed_ms: saved.changed_ms,
    }
}
