//! How what was written to a file is saved, and what becomes of it where others changed the file as well.

use super::{OpenFile, State};
use crate::body::{is_no_longer_kept, next_body, save_body};
use crate::core::Core;
use crate::meter::waits_for;
use crate::overlay::Overlay;
use crate::under_way::Wait;
use bytes::Bytes;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{ByteRange, Error, ErrorKind, NodeName, Result};
use holdfast_drive::{Durable, Entry, LeftOut, NewNode, NodeKind, OpenContent, Save};
use std::sync::Arc;

/// Names that are tried for a file that somebody else changed, too.
const NAMES_TRIED_MAX: u32 = 1_000;

impl OpenFile {
    /// Saves what waits for it. After this, the end of this process cannot undo it; with [`Durable::Now`], nor can a power cut.
    pub(crate) async fn save(&self, core: &Core, durable: Durable) -> Result<()> {
        self.save_as(core, durable, durable == Durable::Now).await
    }

    /// Saves it for another mount, to which its lock goes: no version worth keeping, unless it is closed then.
    pub(crate) async fn save_in_passing(&self, core: &Core) -> Result<()> {
        self.save_as(core, Durable::Soon, true).await
    }

    /// Saves it when nobody writes to it any more. Whoever opened it meanwhile may have cut it off to write it anew: that is theirs to save.
    pub(crate) async fn save_if_done(&self, core: &Core) -> Result<()> {
        let state = self.lock().await;
        if self.has_writers() {
            return Ok(());
        }
        let saved = self.save_locked(core, state, Durable::Soon, false).await;
        if saved.as_ref().is_err_and(is_no_longer_kept) {
            self.give_up(core).await;
        }
        saved
    }

    /// Lets go of what was written and can never be saved, of which its program was told: whoever reads the file sees what others made of it.
    async fn give_up(&self, core: &Core) {
        let mut state = self.lock().await;
        if self.has_writers() || !state.overlay.is_changed() {
            return;
        }
        let before = self.shown().entry.node.content;
        match core.tree.entry(self.id).await {
            // Nobody changed it: whoever said that its content is gone may say otherwise at the next save.
            Ok(Some(there)) if there.node.content == before => {}
            Ok(theirs) => self.take(core, &mut state, theirs),
            Err(error) => tracing::warn!(?error, node = %self.id, "what others made of a file is not known"),
        }
    }

    async fn save_as(&self, core: &Core, durable: Durable, passing: bool) -> Result<()> {
        let state = self.lock().await;
        self.save_locked(core, state, durable, passing).await
    }

    async fn save_locked(
        &self,
        core: &Core,
        mut state: tokio::sync::MutexGuard<'_, State>,
        durable: Durable,
        passing: bool,
    ) -> Result<()> {
        let shown = self.shown();
        if shown.unnamed || !(state.overlay.is_changed() || shown.waiting) {
            state.kept &= passing;
            drop(state);
            return if durable == Durable::Now { core.settle().await } else { Ok(()) };
        }
        let started = std::time::Instant::now();
        state.settle_ahead().await?;
        // Reading the old content again while it is replaced is this task's business only.
        let base = match self.open_base(core, &mut state).await {
            Err(error) if error.kind() == ErrorKind::PreconditionFailed => {
                return self.keep_both(core, &mut state, &shown.entry, None, durable).await;
            }
            base => base?,
        };
        let (base_size, of_blocks) = match &base {
            Some(base) => (base.size(), base.grain() == Some(BLOCK_BYTES as u64)),
            None => (0, false),
        };
        let part = state.overlay.body(base_size, of_blocks);
        let posix = shown.entry.attributes(&core.usual);
        let (size, node, keep) = (state.overlay.size(), self.id, !state.kept);
        let save = |body| Save { node, base: shown.entry.node.content, body, size, posix, keep, durable };
        let saving = || {
            if core.tree.prefers_whole(size) {
                let whole = (ByteRange::whole(size), LeftOut::default());
                return core.tree.save(save(whole.0), save_body(state.overlay.clone(), base.clone(), whole));
            }
            core.tree.save(save(part), next_body(core, &state.overlay, base.clone(), part))
        };
        let left_out = core.tree.leaves_out();
        let at_once = match state.overlay.change().and_then(|change| self.early.take(change)) {
            Some(whole) if part == ByteRange::whole(size) => {
                waits_for(Wait::Saved, whole.save(core, &save(part))).await
            }
            _ => Ok(None),
        };
        let saved = match at_once.transpose() {
            Some(saved) => saved,
            None => match waits_for(Wait::Saved, saving()).await {
                // A server that is older than this one: it takes the whole.
                Err(error) if error.kind() == ErrorKind::Unsupported && left_out && !core.tree.leaves_out() => {
                    waits_for(Wait::Saved, saving()).await
                }
                saved => saved,
            },
        };
        let outcome = match saved {
            Ok(entry) => {
                self.saved(core, &mut state, entry, durable);
                state.kept = passing;
                Ok(())
            }
            Err(error) if matches!(error.kind(), ErrorKind::PreconditionFailed | ErrorKind::NotFound) => {
                self.keep_both(core, &mut state, &shown.entry, base, durable).await
            }
            Err(error) => Err(error),
        };
        core.unsettled(durable);
        metrics::histogram!("holdfast_mount_save_seconds").record(started.elapsed().as_secs_f64());
        outcome
    }

    /// Saves it for a program that closes or syncs it: what went wrong with it after it was answered is told now, once.
    pub(crate) async fn save_and_tell(&self, core: &Core, durable: Durable) -> Result<()> {
        self.save(core, durable).await?;
        core.tree.trouble(self.id).map_or(Ok(()), Err)
    }

    pub(crate) fn saved(&self, core: &Core, state: &mut State, entry: Entry, durable: Durable) {
        let kept = durable == Durable::Now;
        *state = State::over(entry.node.size, core, kept);
        let mut shown = self.shown.lock();
        shown.version += 1;
        core.known.saved(core.ino(self.id), shown.entry.node.content, entry.node.content);
        // Names may have changed while it was saved.
        let (bond, id, parent) = (shown.entry.bond, shown.entry.node.id, shown.entry.node.parent);
        let name = std::mem::take(&mut shown.entry.node.name);
        shown.entry = entry;
        (shown.entry.bond, shown.entry.node.id) = (bond, id);
        (shown.entry.node.parent, shown.entry.node.name) = (parent, name);
        (shown.waiting, shown.unsaved_bytes) = (false, None);
    }

    /// Somebody else changed or removed the file meanwhile: what was written here goes beside it, and whoever wrote it is told.
    async fn keep_both(
        &self,
        core: &Core,
        state: &mut State,
        entry: &Entry,
        base: Option<Arc<dyn OpenContent>>,
        durable: Durable,
    ) -> Result<()> {
        let parent = entry.node.parent.ok_or_else(|| Error::internal("a file is in no folder"))?;
        let name = NodeName::new(&entry.node.name)?;
        let posix = entry.attributes(&core.usual);
        let mut made = Err(Error::conflict("no name is free"));
        for number in 2..NAMES_TRIED_MAX {
            let new = NewNode { parent, name: name.numbered(number), kind: NodeKind::File, posix };
            made = core.tree.create(new, Bytes::new(), Durable::Soon).await;
            if !made.as_ref().is_err_and(|error| error.kind() == ErrorKind::AlreadyExists) {
                break;
            }
        }
        let beside = made?;
        let size = state.overlay.size();
        let body = ByteRange::whole(size);
        let save = Save { node: beside.node.id, base: None, body, size, posix, keep: false, durable };
        let body = save_body(state.overlay.clone(), base, (body, LeftOut::default()));
        if let Err(error) = waits_for(Wait::Saved, core.tree.save(save, body)).await {
            // The next try makes it again, if there is one; what may have been saved all the same stays.
            if !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout) {
                core.unmake(&beside).await;
            }
            return Err(error);
        }
        tracing::warn!(file = %name, beside = %beside.node.name, "a file was changed elsewhere as well: both are kept");
        metrics::counter!("holdfast_mount_conflicts_total").increment(1);
        self.take(core, state, core.tree.entry(self.id).await?);
        Err(Error::new(
            ErrorKind::PreconditionFailed,
            format!("{name} was changed elsewhere: what was written here is {}", beside.node.name),
        ))
    }

    /// From now on, it is what the other made of it; without a name if there is none.
    fn take(&self, core: &Core, state: &mut State, theirs: Option<Entry>) {
        if let Some(theirs) = theirs {
            self.saved(core, state, theirs, Durable::Soon);
            drop(self.is_misplaced(core));
        } else {
            state.overlay = Overlay::new(state.overlay.size(), core.room.clone());
            self.shown.lock().unsaved_bytes = None;
            self.lost_its_name();
        }
    }
}
