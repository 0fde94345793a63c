//! Source and destination side by side, folder by folder, both in order of name: so what is on one side only is known without remembering either.
//!
//! In memory are the folders from the root to where the walk is, with a page of each side; deeper than [`PAGES_MAX`] the pages of those above are let
//! go of and listed again.

use super::cursor::{Ahead, Cursor};
use super::folders::Folder;
use super::lanes::{Lanes, Task};
use super::one::Found;
use super::renamed;
use super::run::Run;
use crate::filter::FolderView;
use crate::options::Links;
use crate::report::Progress;
use crate::site::{Item, Kind, Site};
use holdfast_base::{DrivePath, Error, ErrorKind, NodeName, Result};
use std::cmp::Ordering;
use std::sync::Arc;

/// Folders above the walk whose pages stay in memory.
const PAGES_MAX: usize = 32;
/// What stands in the way of something and is dealt with after the removals; more than that fails.
const PUT_OFF_MAX: usize = 10_000;

/// A place of both sides.
#[derive(Debug, Clone)]
pub(super) struct Spot {
    /// At the source.
    pub(super) from: DrivePath,
    /// At the destination.
    pub(super) to: DrivePath,
    /// Below what was named, which is what filters are held against.
    pub(super) named: DrivePath,
}

impl Spot {
    /// Something in it.
    pub(super) fn below(&self, name: &NodeName) -> Result<Self> {
        let Self { from, to, named } = self;
        Ok(Self { from: from.join(name.clone())?, to: to.join(name.clone())?, named: named.join(name.clone())? })
    }
}

/// A folder that the walk is in.
pub(super) struct Level {
    pub(super) spot: Spot,
    pub(super) source: Cursor,
    /// None if the destination has no such folder.
    pub(super) there: Option<Cursor>,
    pub(super) folder: Arc<Folder>,
}

/// What a walk has next in a folder.
pub(super) enum Next {
    /// The source has it, and perhaps the destination.
    Found(Item, Option<Item>),
    /// Only the destination has it.
    Extra(Item),
    End,
}

/// First pages of a folder of both sides that were asked for ahead.
type BothAhead = (Option<Ahead>, Option<Ahead>);

impl Level {
    /// What was asked for ahead of a member that is a folder.
    pub(super) fn ahead_of(&mut self, run: &Run, item: &Item, there: Option<&Item>) -> BothAhead {
        let folder = |item: &&Item| item.kind == Kind::Folder;
        let source = Some(item).filter(folder).and_then(|item| self.source.ahead_of(run, &item.name));
        let there = there.filter(folder).and_then(|item| self.there.as_mut()?.ahead_of(run, &item.name));
        (source, there)
    }

    /// With what was asked for ahead.
    pub(super) fn begun(self, (source, there): BothAhead) -> Self {
        let there_cursor = self.there.map(|cursor| cursor.begun(there));
        Self { source: self.source.begun(source), there: there_cursor, ..self }
    }

    /// The next in order of name. Errors say which of both could not be listed by being told of there.
    pub(super) async fn next(&mut self, run: &Run) -> Result<Next> {
        let source = self.source.peek(run).await?.map(|item| item.name.clone());
        let there = match &mut self.there {
            Some(there) => there.peek(run).await?.map(|item| item.name.clone()),
            None => None,
        };
        let order = match (&source, &there) {
            (None, None) => return Ok(Next::End),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(source), Some(there)) => source.cmp(there),
        };
        let mut take_there = || self.there.as_mut().and_then(Cursor::take);
        let next = match order {
            Ordering::Less => self.source.take().map(|item| Next::Found(item, None)),
            Ordering::Greater => take_there().map(Next::Extra),
            Ordering::Equal => {
                let there = take_there();
                self.source.take().map(|item| Next::Found(item, there))
            }
        };
        Ok(next.unwrap_or(Next::End))
    }
}

/// A walk that finds what is to be moved.
pub(super) struct Walk<'r> {
    pub(super) run: &'r Arc<Run>,
    pub(super) source: &'r Arc<dyn Site>,
    pub(super) lanes: &'r Lanes,
    /// What has to wait for the removals; none if there are none to come.
    pub(super) put_off: Option<&'r mut Vec<Spot>>,
}

impl Walk<'_> {
    /// Walks what is at a place: what was named, whose own name no filter is held against if it is a folder.
    pub(super) async fn walk(&mut self, spot: Spot) -> Result<()> {
        let run = self.run;
        let found = run.persist(&spot.from, || self.source.look(&spot.from)).await?;
        let item =
            found.ok_or_else(|| Error::not_found(format!("there is no {} at {}", spot.from, self.source.address())))?;
        if run.options.rename.is_some() {
            return self.walk_renamed(spot, item).await;
        }
        let cleared = run.cleared.lock().contains(&spot.to);
        let there = if cleared { None } else { run.persist(&spot.to, || run.destination.look(&spot.to)).await? };
        let above = match spot.to.parent() {
            Some(above) => Some(Folder::find(run, &above).await?),
            None => None,
        };
        if item.kind == Kind::Folder {
            let named = spot.named.is_root();
            let view = if named { FolderView::In } else { run.options.filter.folder(&spot.named) };
            return match self.enter(spot, there.as_ref(), above, view).await? {
                Some(level) => self.descend(level).await,
                None => Ok(()),
            };
        }
        let above =
            above.ok_or_else(|| Error::new(ErrorKind::WrongKind, "a file cannot become the destination itself"))?;
        self.found(spot, item, there, above).await
    }

    async fn descend(&mut self, level: Level) -> Result<()> {
        let mut levels = vec![level];
        while let Some(level) = levels.last_mut() {
            if self.run.is_stopped() {
                break;
            }
            let next = level.next(self.run).await;
            let (spot, folder) = (level.spot.clone(), Arc::clone(&level.folder));
            let refused = std::mem::take(&mut level.source.refused);
            self.tell_refused(&spot, refused).await;
            match next {
                Err(error) => {
                    self.run.failed(&spot.from, &error).await;
                    levels.pop();
                }
                Ok(Next::End) => {
                    levels.pop();
                }
                Ok(Next::Extra(_)) => {}
                Ok(Next::Found(item, there)) => {
                    let name = item.name.clone();
                    let ahead = level.ahead_of(self.run, &item, there.as_ref());
                    match self
                        .member(&spot, item, there, folder)
                        .await
                        .map(|level| level.map(|level| level.begun(ahead)))
                    {
                        Ok(None) => {}
                        Ok(Some(level)) => {
                            levels.push(level);
                            let_go(&mut levels);
                        }
                        Err(error) => self.run.failed(member_of(&spot.from, name.as_str()), &error).await,
                    }
                }
            }
        }
        Ok(())
    }

    async fn member(
        &mut self,
        spot: &Spot,
        item: Item,
        there: Option<Item>,
        above: Arc<Folder>,
    ) -> Result<Option<Level>> {
        let spot = spot.below(&item.name)?;
        if item.kind == Kind::Folder {
            let view = self.run.options.filter.folder(&spot.named);
            return self.enter(spot, there.as_ref(), Some(above), view).await;
        }
        self.found(spot, item, there, above).await.map(|()| None)
    }

    async fn enter(
        &mut self,
        spot: Spot,
        there: Option<&Item>,
        above: Option<Arc<Folder>>,
        view: FolderView,
    ) -> Result<Option<Level>> {
        if self.run.options.rename.is_some() {
            return Ok((view != FolderView::Out).then(|| self.only_source(spot)));
        }
        let in_the_way = there.is_some_and(|there| there.kind != Kind::Folder);
        if view == FolderView::Out || (in_the_way && self.put_off(&spot)?) {
            return Ok(None);
        }
        if in_the_way {
            let what = "there is a file or link of that name at the destination: move or remove it first";
            return Err(Error::new(ErrorKind::WrongKind, what));
        }
        let is_there = there.is_some();
        let folder = if is_there { Folder::there } else { Folder::to_make }(spot.to.clone(), above);
        if !is_there && view == FolderView::In {
            self.lanes.give(Task::Folder(Arc::clone(&folder))).await;
        }
        let source = Cursor::new(Arc::clone(self.source), spot.from.clone());
        let there = is_there.then(|| Cursor::new(Arc::clone(&self.run.destination), spot.to.clone()));
        Ok(Some(Level { spot, source, there, folder }))
    }

    async fn found(&mut self, spot: Spot, item: Item, there: Option<Item>, folder: Arc<Folder>) -> Result<()> {
        let options = &self.run.options;
        let named = if spot.named.is_root() { last_of(&spot.from)? } else { spot.named.clone() };
        let skipped = matches!(item.kind, Kind::Link(_)) && options.links == Links::Skip;
        if skipped || !options.filter.takes(&named, &item) {
            return Ok(());
        }
        if there.as_ref().is_some_and(|there| there.kind == Kind::Folder) && self.put_off(&spot)? {
            return Ok(());
        }
        Progress::add(&self.run.progress.found, 1);
        Progress::add(&self.run.progress.found_bytes, item.size);
        let (to, there, folder) = match renamed::place(self.run, &spot, &named, &item).await {
            Ok(Some(place)) => place,
            Ok(None) => (spot.to, there, folder),
            Err(error) => return self.settled_failed(&spot.from, item.size, &error).await,
        };
        let from = spot.from;
        let source = Arc::clone(self.source);
        self.lanes.give(Task::Found(Box::new(Found { source, from, item, to, there, folder }))).await;
        Ok(())
    }

    /// Walks what was named where the destination has other paths, and is not listed beside it.
    async fn walk_renamed(&mut self, spot: Spot, item: Item) -> Result<()> {
        if item.kind == Kind::Folder {
            return self.descend(self.only_source(spot)).await;
        }
        let nowhere = Folder::there(DrivePath::root(), None);
        self.found(spot, item, None, nowhere).await
    }

    fn only_source(&self, spot: Spot) -> Level {
        let source = Cursor::new(Arc::clone(self.source), spot.from.clone());
        let folder = Folder::there(spot.to.clone(), None);
        Level { spot, source, there: None, folder }
    }

    /// Something failed before it came to a lane.
    async fn settled_failed(&self, from: &DrivePath, bytes: u64, error: &Error) -> Result<()> {
        self.run.failed(from, error).await;
        Progress::add(&self.run.progress.settled, 1);
        Progress::add(&self.run.progress.settled_bytes, bytes);
        Ok(())
    }

    /// Leaves something for after the removals, if there will be any.
    fn put_off(&mut self, spot: &Spot) -> Result<bool> {
        let Some(put_off) = &mut self.put_off else { return Ok(false) };
        if put_off.len() >= PUT_OFF_MAX {
            let what = "too much of the destination is of another kind: remove what is in the way first";
            return Err(Error::new(ErrorKind::WrongKind, what));
        }
        put_off.push(spot.clone());
        Ok(true)
    }

    async fn tell_refused(&self, spot: &Spot, refused: Vec<(String, Error)>) {
        for (name, error) in refused {
            if self.run.options.filter.takes_name(&spot.named, &name) {
                self.run.failed(member_of(&spot.from, &name), &error).await;
            }
        }
    }
}

/// Lets go of the pages of a folder far above.
fn let_go(levels: &mut [Level]) {
    let above = levels.len().checked_sub(PAGES_MAX + 1);
    if let Some(level) = above.and_then(|index| levels.get_mut(index)) {
        level.source.forget();
        level.there.iter_mut().for_each(Cursor::forget);
    }
}

fn last_of(path: &DrivePath) -> Result<DrivePath> {
    DrivePath::from_names(path.name().cloned().into_iter().collect())
}

/// A member's path for messages, whatever its name is.
fn member_of(folder: &DrivePath, name: &str) -> String {
    if folder.is_root() { format!("/{name}") } else { format!("{folder}/{name}") }
}
