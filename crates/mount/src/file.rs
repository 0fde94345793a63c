//! A file that is open: its content as programs see it, and how that is saved.

use crate::ahead::Sealing;
use crate::attributes::now_ns;
use crate::body::{PIECE_BYTES, append, of_base, read_base};
use crate::core::Core;
use crate::early::{Slot, Turn};
use crate::meter::waits_for;
use crate::overlay::{Overlay, Part};
use crate::under_way::Wait;
use holdfast_base::limits::{BLOCK_BYTES, FILE_BYTES_MAX};
use holdfast_base::{ByteRange, Error, ErrorKind, NodeId, Result};
use holdfast_drive::{Entry, NewAttributes, OpenContent, Posix};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

mod saving;
#[cfg(test)]
mod tests;

/// A file that at least one program has open.
pub(crate) struct OpenFile {
    pub(crate) id: NodeId,
    /// How many handles may write.
    pub(crate) writers: AtomicUsize,
    shown: Mutex<Shown>,
    state: tokio::sync::Mutex<State>,
    /// Held while the kernel is told to forget what it has of it.
    pub(crate) forgetting: tokio::sync::Mutex<()>,
    /// What was sealed before it is closed.
    early: Slot,
}

/// What a look at the file shows, which never waits for its content.
#[derive(Clone)]
pub(crate) struct Shown {
    /// Size and attributes as programs see them.
    pub(crate) entry: Entry,
    /// It has lost its name: what is written to it goes when it is closed.
    pub(crate) unnamed: bool,
    /// And nobody gave it one before that was so in the drive.
    pub(crate) gone: bool,
    /// Attributes wait to be saved with the content.
    waiting: bool,
    /// Pages that wait to be saved, in bytes; none if nothing waits.
    pub(crate) unsaved_bytes: Option<u64>,
    /// Counts what this became otherwise: what somebody asked the drive for before that may be older.
    version: u64,
}

pub(crate) struct State {
    pub(crate) overlay: Overlay,
    /// The content below, opened when it is needed.
    base: Option<Arc<dyn OpenContent>>,
    /// The content was saved by a sync, and the file was not closed since: it is no version worth keeping.
    pub(crate) kept: bool,
    pub(crate) sealing: Sealing,
}

impl State {
    /// Over a content of so many bytes, of which nothing is open.
    fn over(size: u64, core: &Core, kept: bool) -> Self {
        Self { overlay: Overlay::new(size, core.room.clone()), base: None, kept, sealing: Sealing::default() }
    }
}

impl OpenFile {
    pub(crate) fn new(core: &Core, entry: Entry) -> Self {
        Self {
            id: entry.number(),
            writers: AtomicUsize::new(0),
            state: tokio::sync::Mutex::new(State::over(entry.node.size, core, false)),
            forgetting: tokio::sync::Mutex::default(),
            early: Slot::default(),
            shown: Mutex::new(Shown {
                entry,
                unnamed: false,
                gone: false,
                waiting: false,
                unsaved_bytes: None,
                version: 0,
            }),
        }
    }

    /// What it looks like now.
    pub(crate) fn shown(&self) -> Shown {
        self.shown.lock().clone()
    }

    /// Which state of it whoever asks the drive about it now has seen: see [`Self::refresh`].
    pub(crate) fn version(&self) -> u64 {
        self.shown.lock().version
    }

    /// Whether it has a name and nothing waits to be saved.
    pub(crate) fn is_saved(&self) -> bool {
        let shown = self.shown.lock();
        !shown.unnamed && !shown.waiting && shown.unsaved_bytes.is_none()
    }

    /// It has another name now, this or this no more.
    pub(crate) fn renamed(&self, entry: &Entry) {
        let mut shown = self.shown.lock();
        shown.version += 1;
        (shown.entry.bond, shown.entry.node.id) = (entry.bond, entry.node.id);
        shown.entry.node.parent = entry.node.parent;
        shown.entry.node.name.clone_from(&entry.node.name);
        if let (Some(posix), Some(new)) = (&mut shown.entry.posix, entry.posix) {
            posix.ctime_ns = new.ctime_ns;
        }
    }

    /// It has no name any more.
    pub(crate) fn lost_its_name(&self) {
        let mut shown = self.shown.lock();
        shown.unnamed = true;
        if let Some(posix) = &mut shown.entry.posix {
            posix.ctime_ns = now_ns();
        }
    }

    /// Whether it lost its last name by a removal that was answered before it was made: it may have got another elsewhere just before that.
    pub(crate) fn may_have_a_name(&self) -> bool {
        let shown = self.shown.lock();
        shown.unnamed && !shown.gone
    }

    /// It has a name, if this is another node than the one that was removed. What was written meanwhile is saved with the rest.
    pub(crate) fn has_a_name(&self, before: &Entry, entry: &Entry) {
        // What is known of a server that is away may be from before the removal.
        if entry.node.id != before.node.id {
            self.shown.lock().unnamed = false;
            self.renamed(entry);
        }
    }

    /// The removal was made, and it has no name.
    pub(crate) fn has_no_name(&self) {
        self.shown.lock().gone = true;
    }

    /// Takes what somebody else made of it, unless something waits to be saved. False if it became another since [`Self::version`] was asked, which was
    /// before the drive was: then this may be older than what it is, and is not taken.
    pub(crate) fn refresh(&self, core: &Core, entry: &Entry, version: u64) -> bool {
        self.state.try_lock().map_or(true, |mut state| self.refresh_now(core, &mut state, entry, version))
    }

    fn refresh_now(&self, core: &Core, state: &mut State, entry: &Entry, version: u64) -> bool {
        let mut shown = self.shown.lock();
        if state.overlay.is_changed() || shown.waiting || shown.unnamed {
            return true;
        }
        if shown.version != version {
            return false;
        }
        if shown.entry.node.content != entry.node.content {
            *state = State::over(entry.node.size, core, false);
            shown.version += 1;
        }
        shown.entry = entry.clone();
        true
    }

    /// Takes what another mount made of it before its lock came here, as [`Self::refresh`] does.
    pub(crate) async fn refresh_for_lock(&self, core: &Core, entry: &Entry, version: u64) -> bool {
        self.refresh_now(core, &mut *self.lock().await, entry, version)
    }

    /// The kernel may have what is not there, or elsewhere: it forgets that, as soon as nothing holds it.
    pub(crate) fn is_misplaced(&self, core: &Core) -> impl Future<Output = ()> + Send + use<> {
        core.known.is_mixed(core.ino(self.id));
        core.forget_pages(self.id)
    }

    /// One operation on its content at a time.
    pub(crate) async fn lock(&self) -> tokio::sync::MutexGuard<'_, State> {
        match self.state.try_lock() {
            Ok(state) => state,
            Err(_) => waits_for(Wait::SameFile, self.state.lock()).await,
        }
    }

    /// Reads; less at the file's end.
    pub(crate) async fn read(&self, core: &Core, offset: u64, length: u64) -> Result<Vec<u8>> {
        let mut state = self.lock().await;
        let end = offset.saturating_add(length).min(state.overlay.size());
        if offset >= end {
            return Ok(Vec::new());
        }
        let parts = state.overlay.parts(ByteRange { start: offset, end })?;
        let base = if parts.iter().any(|part| matches!(part, Part::Base(_))) {
            self.open_base(core, &mut state).await?
        } else {
            None
        };
        drop(state);
        let mut parts = parts;
        if let [Part::Base(range)] = parts.as_slice() {
            return read_base(base.as_ref(), *range).await;
        }
        let mut out = Vec::with_capacity(usize::try_from(end - offset).unwrap_or(0));
        for part in parts.drain(..) {
            append(&mut out, base.as_ref(), part).await?;
        }
        Ok(out)
    }

    /// Writes, at its end unless an offset is said; answers where. With `clear`, privileges of a program go.
    pub(crate) async fn write(&self, core: &Core, offset: Option<u64>, data: &[u8], clear: bool) -> Result<u64> {
        let mut state = self.lock().await;
        let offset = offset.unwrap_or_else(|| state.overlay.size());
        refuse_too_large(offset.saturating_add(data.len() as u64))?;
        self.fill(core, &mut state, offset, data.len() as u64).await?;
        state.overlay.write(offset, data)?;
        state.seal_behind(core, offset, offset + data.len() as u64).await;
        self.show_change(core, &state, clear);
        Ok(offset)
    }

    /// Begins to seal what it is now, if that is small.
    pub(crate) fn seal_early(&self, core: &Core) -> Option<Turn<'_, impl AsRef<[u8]> + use<>>> {
        let state = self.state.try_lock().ok()?;
        self.early.begin(core, (state.overlay.change()?, state.overlay.whole()?))
    }

    /// Fetches what the pages of a write lack.
    async fn fill(&self, core: &Core, state: &mut State, offset: u64, length: u64) -> Result<()> {
        state.take_back(ByteRange { start: offset, end: offset.saturating_add(length) }).await?;
        let wanted = state.overlay.wants(offset, length);
        if wanted.is_empty() {
            return Ok(());
        }
        let base = self.open_base(core, state).await?;
        for (page, range) in wanted {
            let bytes = read_base(base.as_ref(), range).await?;
            state.overlay.fill(page, bytes);
        }
        Ok(())
    }

    /// Cuts it off or lengthens it.
    pub(crate) async fn truncate(&self, core: &Core, size: u64, clear: bool) -> Result<()> {
        refuse_too_large(size)?;
        let mut state = self.lock().await;
        if size < state.overlay.size() && !size.is_multiple_of(PIECE_BYTES) {
            state.take_back(ByteRange { start: size, end: size + 1 }).await?;
        }
        state.overlay.truncate(size)?;
        self.show_change(core, &state, clear);
        Ok(())
    }

    /// Writes zeros, piece by piece.
    pub(crate) async fn zero(&self, core: &Core, range: ByteRange, keep_size: bool) -> Result<()> {
        refuse_too_large(range.end)?;
        let mut state = self.lock().await;
        let end = if keep_size { range.end.min(state.overlay.size()) } else { range.end };
        // Beyond its end a file is zero by being longer.
        let written_end = end.min(state.overlay.size());
        let zeros = vec![0; BLOCK_BYTES];
        let mut at = range.start;
        while at < written_end {
            let length = (written_end - at).min(PIECE_BYTES);
            self.fill(core, &mut state, at, length).await?;
            state.overlay.write(at, &zeros[..usize::try_from(length).unwrap_or(0)])?;
            at += length;
        }
        if end > state.overlay.size() {
            state.overlay.truncate(end)?;
        }
        self.show_change(core, &state, false);
        Ok(())
    }

    fn show_change(&self, core: &Core, state: &State, clear: bool) {
        let mut shown = self.shown.lock();
        shown.unsaved_bytes = state.overlay.is_changed().then(|| state.overlay.written_bytes());
        shown.entry.node.size = state.overlay.size();
        let now_ns = now_ns();
        let mut posix = shown.entry.attributes(&core.usual);
        (posix.mtime_ns, posix.ctime_ns) = (now_ns, now_ns);
        if clear {
            posix.mode = crate::attributes::without_privileges(posix.mode);
        }
        shown.entry.node.modified_ms = now_ns.div_euclid(1_000_000);
        shown.entry.posix = Some(posix);
    }

    /// Changes attributes: with the content, if that waits to be saved, or at once.
    pub(crate) async fn set_attributes(&self, core: &Core, change: NewAttributes) -> Result<()> {
        let state = self.lock().await;
        {
            let mut shown = self.shown.lock();
            if state.overlay.is_changed() || shown.unnamed {
                let posix = change.of(shown.entry.attributes(&core.usual));
                shown.entry.node.modified_ms = posix.mtime_ns.div_euclid(1_000_000);
                shown.entry.posix = Some(posix);
                shown.waiting = true;
                return Ok(());
            }
        }
        let entry = core.set_attributes_now(self.id, change).await?;
        let mut shown = self.shown.lock();
        shown.entry = entry;
        shown.version += 1;
        Ok(())
    }

    /// Another attribute changed, in the drive.
    pub(crate) fn takes_attributes(&self, entry: &Entry) {
        let mut shown = self.shown.lock();
        shown.version += 1;
        shown.entry.bond = entry.bond;
        if let Some(new) = entry.posix {
            let old = shown.entry.posix.unwrap_or(new);
            shown.entry.posix = Some(Posix { xattrs: new.xattrs, ctime_ns: new.ctime_ns, ..old });
        }
    }

    pub(crate) async fn open_base(&self, core: &Core, state: &mut State) -> Result<Option<Arc<dyn OpenContent>>> {
        if state.base.is_none()
            && let Some(content) = self.shown().entry.node.content
        {
            state.base = Some(core.tree.open(content).await.map_err(of_base)?);
        }
        Ok(state.base.clone())
    }

    /// Whether somebody may write to it.
    pub(crate) fn has_writers(&self) -> bool {
        self.writers.load(Ordering::Acquire) > 0
    }
}

pub(crate) fn refuse_too_large(size: u64) -> Result<()> {
    if size > FILE_BYTES_MAX {
        return Err(Error::new(ErrorKind::TooLarge, format!("a file can have {FILE_BYTES_MAX} bytes at most")));
    }
    Ok(())
}
