//! One file or link: deciding about it, and doing that.

use super::content::same_content;
use super::file::{Move, move_file};
use super::folders::Folder;
use super::run::Run;
use crate::plan::{Decision, decide, differing};
use crate::report::{Act, Event, Progress, What};
use crate::site::{Item, Kind, Site};
use holdfast_base::{DrivePath, Error, ErrorKind, Result};
use std::sync::Arc;

/// How often it is decided anew because the destination is not what it was a moment ago.
const DECISIONS_MAX: u32 = 4;
/// Numbers that are tried for a name beside one that is taken.
const NUMBERS_MAX: u32 = 10_000;

/// A file or link that was found.
pub(super) struct Found {
    pub(super) source: Arc<dyn Site>,
    pub(super) from: DrivePath,
    pub(super) item: Item,
    pub(super) to: DrivePath,
    pub(super) there: Option<Item>,
    /// The destination's folder.
    pub(super) folder: Arc<Folder>,
}

/// What became of one.
enum Became {
    Moved(Item),
    Same,
    Skipped,
}

impl Found {
    /// Deals with it. What fails is written down.
    pub(super) async fn settle(mut self, run: &Run) {
        match self.resolve(run).await {
            Ok(()) => {}
            Err(error) => run.failed(&self.from, &error).await,
        }
        Progress::add(&run.progress.settled, 1);
        Progress::add(&run.progress.settled_bytes, self.item.size);
    }

    async fn resolve(&mut self, run: &Run) -> Result<()> {
        if self.item.kind == Kind::File {
            self.item = run.persist(&self.from, || self.source.exact(&self.from, &self.item)).await?;
        }
        let (mut there, mut decisions) = (self.there.clone(), 0);
        let became = loop {
            decisions += 1;
            let decided = match self.look_closer(run, &mut there).await {
                Ok(()) => self.decide(run, there.as_ref()).await,
                Err(error) => Err(error),
            };
            match decided {
                // Somebody else was there first, or it is there already though the answer was lost.
                Err(error) if error.kind() == ErrorKind::PreconditionFailed && decisions < DECISIONS_MAX => {
                    there = run.persist(&self.to, || run.destination.look(&self.to)).await?;
                }
                done => break done?,
            }
        };
        let counter = match &became {
            Became::Moved(item) if item.kind == Kind::File => &run.progress.files,
            Became::Moved(_) => &run.progress.links,
            Became::Same => &run.progress.same,
            Became::Skipped => &run.progress.skipped,
        };
        Progress::add(counter, 1);
        match became {
            Became::Moved(item) if run.options.delete_source => self.delete_source(run, &item).await,
            Became::Same if run.options.delete_source => self.delete_source(run, &self.item).await,
            _ => Ok(()),
        }
    }

    /// Completes what the destination has, where times will decide about it.
    async fn look_closer(&self, run: &Run, there: &mut Option<Item>) -> Result<()> {
        let Some(listed) = there.as_ref().filter(|there| (&there.kind, &self.item.kind) == (&Kind::File, &Kind::File))
        else {
            return Ok(());
        };
        if listed.size == self.item.size || run.options.update {
            *there = Some(run.persist(&self.to, || run.destination.exact(&self.to, listed)).await?);
        }
        if let Some(there) = there.as_mut().filter(|there| run.destination.is_stored_time(there))
            && there.size == self.item.size
            && there.modified_ns >= self.item.modified_ns
        {
            there.modified_ns = self.item.modified_ns;
        }
        Ok(())
    }

    async fn decide(&self, run: &Run, there: Option<&Item>) -> Result<Became> {
        let mut decision = decide(&self.item, there, &run.options);
        if let (Decision::Look, Some(there)) = (&decision, there) {
            let same = same_content(run, (&self.source, &self.from, &self.item), (&self.to, there)).await?;
            decision = if same { Decision::Same } else { differing(&self.item, there, &run.options) };
        }
        match decision {
            Decision::Move { replaces } => self.put(run, &self.to, there.filter(|_| replaces)).await,
            Decision::Beside => self.put_beside(run).await,
            Decision::Same => Ok(Became::Same),
            Decision::Look => Err(Error::internal("contents were to be compared where nothing is")),
            Decision::Skip(why) => {
                run.say(Event::Skipped(self.to.clone(), why)).await;
                Ok(Became::Skipped)
            }
            Decision::Refuse(error) => Err(error),
        }
    }

    async fn put(&self, run: &Run, to: &DrivePath, replaces: Option<&Item>) -> Result<Became> {
        self.folder.ensure(run).await?;
        let mut item = self.item.clone();
        if !run.options.dry_run {
            if let Kind::Link(text) = &self.item.kind {
                run.persist(to, || run.destination.make_link(to, text, replaces)).await?;
            } else {
                let file = Move { source: &self.source, from: &self.from, to, replaces: replaces.cloned() };
                item = move_file(run, &file, &self.item).await?;
            }
        }
        let replaces = replaces.is_some();
        let what = match &item.kind {
            Kind::Link(text) => What::Link { to: text.clone(), replaces },
            _ => What::File { bytes: item.size, replaces },
        };
        run.acted(Act { path: to.clone(), what }).await;
        Ok(Became::Moved(item))
    }

    /// Under the next name with a number that is free, or has the same already.
    async fn put_beside(&self, run: &Run) -> Result<Became> {
        let (Some(folder), Some(name)) = (self.to.parent(), self.to.name()) else {
            return Err(Error::internal("a file came without a name"));
        };
        for number in 2..NUMBERS_MAX {
            let beside = folder.join(name.numbered(number))?;
            let there = run.persist(&beside, || run.destination.look(&beside)).await?;
            match there {
                None => match self.put(run, &beside, None).await {
                    Err(error) if error.kind() == ErrorKind::PreconditionFailed => {}
                    done => return done,
                },
                Some(there) if self.is_same(run, &beside, &there).await? => return Ok(Became::Same),
                Some(_) => {}
            }
        }
        Err(Error::new(ErrorKind::AlreadyExists, format!("there are {NUMBERS_MAX} files of that name already")))
    }

    async fn is_same(&self, run: &Run, path: &DrivePath, there: &Item) -> Result<bool> {
        match decide(&self.item, Some(there), &run.options) {
            Decision::Same => Ok(true),
            Decision::Look => same_content(run, (&self.source, &self.from, &self.item), (path, there)).await,
            _ => Ok(false),
        }
    }

    /// Removes it from the source, where it must be what arrived.
    async fn delete_source(&self, run: &Run, item: &Item) -> Result<()> {
        if !run.options.dry_run {
            if item.kind != Kind::File {
                run.persist(&self.to, || run.destination.settle()).await?;
            }
            let gone = |error: Error| error.context("it arrived, and was left at the source");
            run.persist(&self.from, || self.source.remove(&self.from, item)).await.map_err(gone)?;
            Progress::add(&run.progress.deleted_source, 1);
        }
        run.acted(Act { path: self.from.clone(), what: What::DeleteSource }).await;
        Ok(())
    }
}
