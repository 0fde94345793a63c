//! Folders of the destination that files go into, made when the first of them is: each once, those above it first, and many side by side.

use super::run::Run;
use crate::report::{Act, Progress, What};
use holdfast_base::{DrivePath, Result};
use std::sync::Arc;
use tokio::sync::OnceCell;

/// A folder of the destination.
pub(super) struct Folder {
    pub(super) path: DrivePath,
    above: Option<Arc<Folder>>,
    made: OnceCell<()>,
}

impl Folder {
    /// One that is there.
    pub(super) fn there(path: DrivePath, above: Option<Arc<Self>>) -> Arc<Self> {
        Arc::new(Self { path, above, made: OnceCell::new_with(Some(())) })
    }

    /// One that is not there yet.
    pub(super) fn to_make(path: DrivePath, above: Option<Arc<Self>>) -> Arc<Self> {
        Arc::new(Self { path, above, made: OnceCell::new() })
    }

    /// A folder about which nothing is known but that the site's root is there: those above it are asked for.
    pub(super) async fn find(run: &Run, path: &DrivePath) -> Result<Arc<Self>> {
        let mut folder = Self::there(DrivePath::root(), None);
        for name in path.names() {
            let below = folder.path.join(name.clone())?;
            folder = Self::look(run, below, folder).await?;
        }
        Ok(folder)
    }

    /// One in a folder that is known.
    pub(super) async fn look(run: &Run, path: DrivePath, above: Arc<Self>) -> Result<Arc<Self>> {
        let there = if above.is_made() { run.persist(&path, || run.destination.look(&path)).await? } else { None };
        let make = if there.is_some() { Self::there } else { Self::to_make };
        Ok(make(path, Some(above)))
    }

    /// Whether it was there, or has been made.
    pub(super) fn is_made(&self) -> bool {
        self.made.initialized()
    }

    /// Makes it, if that is not done yet.
    pub(super) async fn ensure(self: &Arc<Self>, run: &Run) -> Result<()> {
        let mut missing = Vec::new();
        let mut next = Some(self);
        while let Some(folder) = next.filter(|folder| !folder.is_made()) {
            missing.push(folder);
            next = folder.above.as_ref();
        }
        for folder in missing.into_iter().rev() {
            folder.made.get_or_try_init(|| folder.make(run)).await?;
        }
        Ok(())
    }

    async fn make(&self, run: &Run) -> Result<()> {
        if !run.options.dry_run {
            run.persist(&self.path, || run.destination.make_folder(&self.path)).await?;
            Progress::add(&run.progress.folders, 1);
        }
        run.acted(Act { path: self.path.clone(), what: What::Folder }).await;
        Ok(())
    }
}
