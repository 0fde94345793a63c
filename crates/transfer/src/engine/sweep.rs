//! Removing at the destination what the source has not: a walk of its own, when all else is done, so that nothing has to be remembered from the first.
//!
//! A folder goes after its members, and only if all of them went. What a filter hides stays, and so does what the source has under that name though
//! it could not be moved.

use super::cursor::Cursor;
use super::folders::Folder;
use super::run::Run;
use super::walk::{Level, Next, Spot};
use crate::filter::FolderView;
use crate::report::{Act, Progress, What};
use crate::site::{Item, Kind, Site};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use holdfast_base::{DrivePath, Error, Result};
use std::collections::HashSet;
use std::sync::Arc;

/// Removals under way at once.
const REMOVALS: usize = 64;

/// A walk that removes.
pub(super) struct Sweep<'r> {
    pub(super) run: &'r Arc<Run>,
    pub(super) source: &'r Arc<dyn Site>,
    /// Places of the destination where something of another kind stands in the way.
    pub(super) put_off: &'r HashSet<DrivePath>,
}

/// A folder that only the destination has, while it is emptied.
struct Doomed {
    spot: Spot,
    item: Item,
    members: Cursor,
    /// Whether something in it stays.
    stays: bool,
}

impl Sweep<'_> {
    pub(super) async fn sweep(&self, spot: Spot) -> Result<()> {
        let run = self.run;
        let there = run.persist(&spot.to, || run.destination.look(&spot.to)).await?;
        if there.is_none_or(|there| there.kind != Kind::Folder) {
            return Ok(());
        }
        let mut levels = vec![(self.level(spot), HashSet::new())];
        while let Some((level, refused)) = levels.last_mut() {
            if run.is_stopped() {
                return Ok(());
            }
            let next = level.next(run).await;
            refused.extend(level.source.refused.drain(..).map(|(name, _)| name));
            let spot = level.spot.clone();
            match next {
                // Nothing is removed from a folder that the source could not tell whole.
                Err(error) => {
                    run.failed(&spot.to, &error).await;
                    levels.pop();
                }
                Ok(Next::End) => {
                    levels.pop();
                }
                Ok(Next::Extra(there)) => {
                    if !refused.contains(there.name.as_str()) {
                        self.remove(&spot.below(&there.name)?, there).await?;
                    }
                }
                Ok(Next::Found(item, Some(there))) => {
                    let ahead = level.ahead_of(run, &item, Some(&there));
                    let spot = spot.below(&item.name)?;
                    match (&item.kind, &there.kind) {
                        (Kind::Folder, Kind::Folder) if run.options.filter.folder(&spot.named) != FolderView::Out => {
                            levels.push((self.level(spot).begun(ahead), HashSet::new()));
                        }
                        (Kind::Folder, Kind::Folder) => {}
                        _ if self.put_off.contains(&spot.to) => self.clear(&spot, there).await?,
                        _ => {}
                    }
                }
                Ok(Next::Found(_, None)) => {}
            }
        }
        run.persist(&DrivePath::root(), || run.destination.settle()).await
    }

    fn level(&self, spot: Spot) -> Level {
        let source = Cursor::new(Arc::clone(self.source), spot.from.clone());
        let there = Some(Cursor::new(Arc::clone(&self.run.destination), spot.to.clone()));
        let folder = Folder::there(spot.to.clone(), None);
        Level { spot, source, there, folder }
    }

    /// Removes what is in the way of something that was put off, and is remembered as that.
    async fn clear(&self, spot: &Spot, item: Item) -> Result<()> {
        if self.remove(spot, item).await? {
            self.run.cleared.lock().insert(spot.to.clone());
        }
        Ok(())
    }

    /// Removes something, with all that is in it, as far as no filter hides it. Whether it is gone.
    async fn remove(&self, spot: &Spot, item: Item) -> Result<bool> {
        if item.kind == Kind::Folder {
            return self.remove_folder(spot, item).await;
        }
        Ok(self.run.options.filter.takes(&spot.named, &item) && self.remove_one(&spot.to, &item).await)
    }

    async fn remove_folder(&self, spot: &Spot, item: Item) -> Result<bool> {
        let Some(doomed) = self.doomed(spot.clone(), item) else { return Ok(false) };
        let mut folders = vec![doomed];
        while let Some(folder) = folders.last_mut() {
            if self.run.is_stopped() {
                return Ok(false);
            }
            match self.remove_members(folder).await {
                Ok(Some(inner)) => {
                    let below = folder.spot.below(&inner.name)?;
                    match self.doomed(below, inner) {
                        Some(inner) => folders.push(inner),
                        None => folder.stays = true,
                    }
                }
                ended => {
                    if let Err(error) = ended {
                        self.run.failed(&folder.spot.to, &error).await;
                        folder.stays = true;
                    }
                    let Some(folder) = folders.pop() else { break };
                    let visible = self.run.options.filter.folder(&folder.spot.named) == FolderView::In;
                    let gone = visible && !folder.stays && self.remove_one(&folder.spot.to, &folder.item).await;
                    match folders.last_mut() {
                        Some(above) => above.stays |= !gone,
                        None => return Ok(gone),
                    }
                }
            }
        }
        Ok(false)
    }

    fn doomed(&self, spot: Spot, item: Item) -> Option<Doomed> {
        if self.run.options.filter.folder(&spot.named) == FolderView::Out {
            return None;
        }
        let members = Cursor::new(Arc::clone(&self.run.destination), spot.to.clone());
        Some(Doomed { spot, item, members, stays: false })
    }

    /// Removes files and links of a folder, many at once, up to the next folder in it.
    async fn remove_members(&self, folder: &mut Doomed) -> Result<Option<Item>> {
        let mut removals = FuturesUnordered::new();
        let inner = loop {
            let Some(item) = folder.members.peek(self.run).await?.cloned() else { break None };
            folder.members.take();
            if item.kind == Kind::Folder {
                break Some(item);
            }
            let spot = folder.spot.below(&item.name)?;
            if !self.run.options.filter.takes(&spot.named, &item) {
                folder.stays = true;
                continue;
            }
            removals.push(async move { self.remove_one(&spot.to, &item).await });
            if removals.len() == REMOVALS {
                folder.stays |= removals.next().await == Some(false);
            }
        };
        while let Some(gone) = removals.next().await {
            folder.stays |= !gone;
        }
        // What the destination cannot list, it cannot remove either.
        folder.stays |= !folder.members.refused.is_empty();
        Ok(inner)
    }

    /// Whether it is gone.
    async fn remove_one(&self, path: &DrivePath, item: &Item) -> bool {
        let run = self.run;
        if !run.options.dry_run {
            let removed = run.persist(path, || run.destination.remove(path, item)).await;
            if let Err(error) = removed {
                run.failed(path, &Error::new(error.kind(), error.message()).context("removing it")).await;
                return false;
            }
            Progress::add(&run.progress.deleted, 1);
        }
        run.acted(Act { path: path.clone(), what: What::Delete }).await;
        true
    }
}
