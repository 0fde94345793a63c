//! Members of a folder, one after another, a page of them in memory.
//!
//! Listing a folder far away takes a round trip, and a walk lists one after another; so the first pages of the next few folders in a page are asked for
//! ahead, [`AHEAD_MAX`] in a folder and [`super::run::LISTINGS`] in all.

use super::run::Run;
use crate::signs::watched;
use crate::site::{Item, Kind, Listed, Site};
use holdfast_base::{DrivePath, Error, NodeName, Result};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;

/// Folders of a page that are listed before the walk comes to them.
const AHEAD_MAX: usize = 16;

/// A first page that was asked for ahead, and its room.
pub(super) struct Ahead {
    name: NodeName,
    page: JoinHandle<Result<Listed>>,
    _room: OwnedSemaphorePermit,
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.page.abort();
    }
}

/// A place in a folder's listing.
pub(super) struct Cursor {
    site: Arc<dyn Site>,
    path: DrivePath,
    page: VecDeque<Item>,
    last: Option<NodeName>,
    more: bool,
    /// The first page, if it was asked for ahead.
    first: Option<Ahead>,
    /// First pages of folders that come next.
    ahead: VecDeque<Ahead>,
    /// What could not be listed, and was not told of yet.
    pub(super) refused: Vec<(String, Error)>,
}

impl Cursor {
    pub(super) fn new(site: Arc<dyn Site>, path: DrivePath) -> Self {
        let (page, ahead) = (VecDeque::new(), VecDeque::new());
        Self { site, path, page, last: None, more: true, first: None, ahead, refused: Vec::new() }
    }

    /// With what was asked for ahead by the cursor of the folder above.
    pub(super) fn begun(self, first: Option<Ahead>) -> Self {
        Self { first, ..self }
    }

    /// The next member; it stays the next one until it is [taken](Self::take).
    pub(super) async fn peek(&mut self, run: &Run) -> Result<Option<&Item>> {
        if self.page.is_empty() && self.more {
            self.turn(run).await?;
        }
        Ok(self.page.front())
    }

    pub(super) fn take(&mut self) -> Option<Item> {
        let item = self.page.pop_front()?;
        self.last = Some(item.name.clone());
        Some(item)
    }

    /// Lets go of the page, which is listed again when it is needed.
    pub(super) fn forget(&mut self) {
        self.ahead.clear();
        if !self.page.is_empty() {
            self.page = VecDeque::new();
            self.more = true;
        }
    }

    /// What was asked for ahead of a member that is a folder. More is asked for in its place.
    pub(super) fn ahead_of(&mut self, run: &Run, name: &NodeName) -> Option<Ahead> {
        while self.ahead.front().is_some_and(|ahead| ahead.name < *name) {
            self.ahead.pop_front();
        }
        let found =
            if self.ahead.front().is_some_and(|ahead| ahead.name == *name) { self.ahead.pop_front() } else { None };
        self.look_ahead(run);
        found
    }

    fn look_ahead(&mut self, run: &Run) {
        let asked = self.ahead.back().map(|ahead| ahead.name.clone());
        let coming = self.page.iter().filter(|item| item.kind == Kind::Folder);
        let coming = coming.filter(|item| asked.as_ref().is_none_or(|asked| item.name > *asked));
        for item in coming.take(AHEAD_MAX.saturating_sub(self.ahead.len())) {
            let (Ok(path), Ok(room)) =
                (self.path.join(item.name.clone()), Arc::clone(&run.listings).try_acquire_owned())
            else {
                return;
            };
            let (site, stall) = (Arc::clone(&self.site), run.options.stall);
            let page = tokio::spawn(async move { watched(stall, site.list(&path, None)).await });
            self.ahead.push_back(Ahead { name: item.name.clone(), page, _room: room });
        }
    }

    async fn turn(&mut self, run: &Run) -> Result<()> {
        let listed = match self.first.take() {
            Some(mut first) => {
                let page = async { (&mut first.page).await.map_err(|_| Error::unavailable("it was not listed")) };
                match run.unless_stopped(page).await? {
                    Ok(listed) => listed,
                    // As if it had not been asked for.
                    Err(_) => self.list(run).await?,
                }
            }
            None => self.list(run).await?,
        };
        let mut last = self.last.as_ref();
        for item in &listed.items {
            if last.is_some_and(|last| *last >= item.name) {
                let what = format!("{} lists its members out of order: {} comes late", self.path, item.name);
                return Err(Error::damaged(what));
            }
            last = Some(&item.name);
        }
        if listed.items.is_empty() && listed.more {
            return Err(Error::damaged(format!("{} lists nothing and says that there is more", self.path)));
        }
        self.refused.extend(listed.refused);
        (self.page, self.more) = (listed.items.into(), listed.more);
        self.look_ahead(run);
        Ok(())
    }

    async fn list(&self, run: &Run) -> Result<Listed> {
        run.persist(&self.path, || self.site.list(&self.path, self.last.as_ref())).await
    }
}
