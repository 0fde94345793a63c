//! A file that is open: its content as programs see it, and how that is saved.

use crate::ahead::Sealing;
use crate::attributes::now_ns;
use crate::body::{PIECE_BYTES, append, next_body, of_base, read_base, save_body};
use crate::core::Core;
use crate::meter::waits_for;
use crate::overlay::{Overlay, Part};
use crate::under_way::Wait;
use bytes::Bytes;
use holdfast_base::limits::{BLOCK_BYTES, FILE_BYTES_MAX};
use holdfast_base::{ByteRange, ContentId, Error, ErrorKind, NodeId, NodeName, Result};
use holdfast_drive::{Durable, Entry, LeftOut, NewAttributes, NewNode, NodeKind, OpenContent, Posix, Save};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Names that are tried for a file that somebody else changed, too.
const NAMES_TRIED_MAX: u32 = 1_000;

/// A file that at least one program has open.
pub(crate) struct OpenFile {
    pub(crate) id: NodeId,
    /// How many handles may write.
    pub(crate) writers: AtomicUsize,
    shown: Mutex<Shown>,
    state: tokio::sync::Mutex<State>,
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
    cached: Cached,
    /// Counts what this became otherwise: what somebody asked the drive for before that may be older.
    version: u64,
}

/// What the kernel has in its cache of a file.
#[derive(Clone, Copy, PartialEq)]
enum Cached {
    /// Perhaps pages of more than one content.
    Unknown,
    /// Pages of this content and no other; none is that of an empty file.
    Only(Option<ContentId>),
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
            shown: Mutex::new(Shown {
                entry,
                unnamed: false,
                gone: false,
                waiting: false,
                unsaved_bytes: None,
                cached: Cached::Unknown,
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

    /// Takes what another mount made of it before its lock came here, as [`Self::refresh`] does, of which it says none is false; true if the kernel may have
    /// another content in its cache.
    pub(crate) async fn refresh_for_lock(&self, core: &Core, entry: &Entry, version: u64) -> Option<bool> {
        let is_taken = self.refresh_now(core, &mut *self.lock().await, entry, version);
        let shown = self.shown.lock();
        let is_it = shown.entry.node.content == entry.node.content;
        is_taken.then(|| is_it && shown.cached != Cached::Only(entry.node.content))
    }

    /// The kernel has nothing of another content in its cache.
    pub(crate) fn is_cached(&self, content: Option<ContentId>) {
        let mut shown = self.shown.lock();
        if shown.entry.node.content == content {
            shown.cached = Cached::Only(content);
        }
    }

    /// The kernel may have what is not there, or elsewhere: it forgets that, as soon as nothing holds it.
    pub(crate) fn is_misplaced(&self, core: &Core) -> impl Future<Output = ()> + Send + use<> {
        self.shown.lock().cached = Cached::Unknown;
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
        if saved.as_ref().is_err_and(|error| error.kind() == ErrorKind::PreconditionFailed) {
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
        if let Err(error) = self.take_theirs(core, &mut state).await {
            tracing::warn!(?error, node = %self.id, "what others made of a file is not known");
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
        let body = state.overlay.body(base_size, of_blocks);
        let posix = shown.entry.attributes(&core.usual);
        let size = state.overlay.size();
        let save =
            Save { node: self.id, base: shown.entry.node.content, body, size, posix, keep: !state.kept, durable };
        let saving = || core.tree.save(save.clone(), next_body(core, &state.overlay, base.clone(), body));
        let left_out = core.tree.leaves_out();
        let saved = match waits_for(Wait::Saved, saving()).await {
            // A server that is older than this one: it takes the whole.
            Err(error) if error.kind() == ErrorKind::Unsupported && left_out && !core.tree.leaves_out() => {
                waits_for(Wait::Saved, saving()).await
            }
            saved => saved,
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
        core.knows(&entry);
        let mut shown = self.shown.lock();
        shown.version += 1;
        if shown.cached == Cached::Only(shown.entry.node.content) {
            shown.cached = Cached::Only(entry.node.content);
        }
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
            // The next try makes it again, if there is one.
            core.unmake(&beside).await;
            return Err(error);
        }
        tracing::warn!(file = %name, beside = %beside.node.name, "a file was changed elsewhere as well: both are kept");
        metrics::counter!("holdfast_mount_conflicts_total").increment(1);
        self.take_theirs(core, state).await?;
        Err(Error::new(
            ErrorKind::PreconditionFailed,
            format!("{name} was changed elsewhere: what was written here is {}", beside.node.name),
        ))
    }

    /// From now on, it is what the other made of it.
    async fn take_theirs(&self, core: &Core, state: &mut State) -> Result<()> {
        if let Some(theirs) = core.tree.entry(self.id).await? {
            self.saved(core, state, theirs, Durable::Soon);
            drop(self.is_misplaced(core));
        } else {
            state.overlay = Overlay::new(state.overlay.size(), core.room.clone());
            self.shown.lock().unsaved_bytes = None;
            self.lost_its_name();
        }
        Ok(())
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
