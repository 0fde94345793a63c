//! Holes, and copies that move no byte.
//!
//! A hole is what nobody wrote, or a block that is nothing but zeros, which its id says. What was written and is not saved is data, whatever it is.
//!
//! A copy names the blocks of the source again. It must begin at a block of both files, end at one or at the source's end, and lie at the target's end or
//! behind it, as the copy of a whole file does; the source must be saved. Everything else the kernel copies by reading and writing.

use crate::body::next_body;
use crate::core::Core;
use crate::errno::{Answer, Told};
use crate::file::{OpenFile, refuse_too_large};
use crate::meter::waits_for;
use crate::overlay::Span;
use crate::under_way::Wait;
use fuser::Errno;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{ByteRange, ContentId, ErrorKind, Result};
use holdfast_drive::{Durable, Entry, Posix, Save};
use std::sync::Arc;

const BLOCK: u64 = BLOCK_BYTES as u64;
/// Most that one copy can say it did: the answer has 32 bits.
const COPY_BYTES_MAX: u64 = (1 << 32) - BLOCK;

/// Blocks that are looked at to find out whether a file has holes: 4 GiB, of which the ids lie in sixteen rows. What has holes only behind that is not known
/// for it, and is found by whoever asks where they are.
const LOOKED_BLOCKS_MAX: u64 = 4_096;
/// Contents of which that is remembered; at this many all are forgotten.
const SPARSE_KNOWN_MAX: usize = 64 * 1_024;

impl OpenFile {
    /// Where data, or a hole, is next; none if there is none before the end. The end itself is a hole.
    pub(crate) async fn seek(&self, core: &Core, offset: u64, hole: bool) -> Result<Option<u64>> {
        let mut state = self.lock().await;
        let size = state.overlay.size();
        if offset >= size {
            return Ok(None);
        }
        let mut at = offset;
        while at < size {
            let (span, end) = state.overlay.span(at);
            let (is_hole, end) = match span {
                Span::Written => (false, end),
                Span::Zeros => (true, end),
                Span::Base => {
                    let block = at / BLOCK;
                    let base = self.open_base(core, &mut state).await?;
                    let is_hole = match base {
                        Some(base) => base.is_hole(block).await?,
                        None => false,
                    };
                    (is_hole, end.min((block + 1) * BLOCK))
                }
            };
            if is_hole == hole {
                return Ok(Some(at));
            }
            at = end;
        }
        Ok(hole.then_some(size))
    }

    /// Its content and size, if all of it is saved and in blocks.
    async fn saved_blocks(&self, core: &Core) -> Result<Option<(ContentId, u64)>> {
        let mut state = self.lock().await;
        if state.overlay.is_changed() {
            return Ok(None);
        }
        let base = self.open_base(core, &mut state).await?;
        Ok(base.filter(|base| base.grain() == Some(BLOCK)).map(|base| (base.id(), base.size())))
    }

    /// Puts blocks of another content at `offset`, at its end or behind it, and saves it; false if that cannot be done.
    async fn extend(&self, core: &Core, offset: u64, tail: (ContentId, ByteRange)) -> Result<bool> {
        let size = offset.saturating_add(tail.1.len());
        refuse_too_large(size)?;
        let mut state = self.lock().await;
        let shown = self.shown();
        if shown.unnamed || offset < state.overlay.size() || !offset.is_multiple_of(BLOCK) {
            return Ok(false);
        }
        state.settle_ahead().await?;
        let base = self.open_base(core, &mut state).await?;
        let (base_size, of_blocks) =
            base.as_ref().map_or((0, false), |base| (base.size(), base.grain() == Some(BLOCK)));
        let mut overlay = state.overlay.clone();
        overlay.truncate(offset)?;
        let body = overlay.body(base_size, of_blocks);
        if body.end != offset {
            return Ok(false);
        }
        let now_ns = crate::attributes::now_ns();
        let posix = Posix { mtime_ns: now_ns, ctime_ns: now_ns, ..shown.entry.attributes(&core.usual) };
        let (durable, keep) = (Durable::Soon, !state.kept);
        let save = Save { node: self.id, base: shown.entry.node.content, body, size, posix, keep, durable };
        let extending = core.tree.extend(save, next_body(core, &overlay, base, body), tail);
        match waits_for(Wait::Copied, extending).await {
            Ok(entry) => {
                self.saved(core, &mut state, entry, durable);
                // What is written before the file is closed is no version of its own.
                state.kept = true;
                core.unsettled(durable);
                Ok(true)
            }
            // Nothing was done. What is wrong with one of the files is told by whoever copies it in the usual way.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::Unsupported
                        | ErrorKind::InvalidInput
                        | ErrorKind::NotFound
                        | ErrorKind::PreconditionFailed
                ) =>
            {
                tracing::debug!(%error, "a copy has to move bytes");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

impl Core {
    /// Finds out whether a file has holes, once for each content.
    pub(crate) async fn look_for_holes(&self, entry: &Entry) {
        let Some(content) = entry.node.content.filter(|_| entry.node.size >= BLOCK) else { return };
        if self.sparse.lock().contains_key(&content) {
            return;
        }
        // What is wrong with a content is told to who reads it.
        let Ok(sparse) = self.tree.has_holes(content, LOOKED_BLOCKS_MAX).await else { return };
        let mut known = self.sparse.lock();
        if known.len() >= SPARSE_KNOWN_MAX {
            known.clear();
        }
        known.insert(content, sparse);
    }

    /// What was found out.
    pub(crate) fn is_sparse(&self, entry: &Entry) -> bool {
        entry.node.content.is_some_and(|content| self.sparse.lock().get(&content) == Some(&true))
    }

    /// Copies a part of a file to another without moving it; answers how much. `EOPNOTSUPP` has the kernel do it.
    pub(crate) async fn copy(
        &self,
        (source, from): (Arc<OpenFile>, u64),
        (target, to): (Arc<OpenFile>, u64),
        length: u64,
    ) -> Answer<u32> {
        if source.id == target.id || !from.is_multiple_of(BLOCK) || length == 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let (content, size) = source.saved_blocks(self).await.told()?.ok_or(Errno::EOPNOTSUPP)?;
        let mut end = from.saturating_add(length.min(COPY_BYTES_MAX)).min(size);
        if end < size {
            end = end / BLOCK * BLOCK;
        }
        if from >= end {
            // Nothing is copied beyond the end; less than a block in the middle of a file is for the kernel.
            return if from >= size { Ok(0) } else { Err(Errno::EOPNOTSUPP) };
        }
        let range = ByteRange { start: from, end };
        let done = target.extend(self, to, (content, range)).await.map_err(|error| crate::core::too_large(&error))?;
        if !done {
            return Err(Errno::EOPNOTSUPP);
        }
        u32::try_from(range.len()).map_err(|_| Errno::EIO)
    }
}
