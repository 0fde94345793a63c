//! A small file is sealed while the program that wrote it is on its way to close it.
//!
//! The program is answered that it has written, and the thread that told it so seals what the file has then. Until the close comes in on another thread,
//! that is done, or nearly so, and the close has less to do: most small files are written in one piece. What is written to again was sealed in vain;
//! after [`IN_VAIN_MAX`] of these, one of [`TRIED_EVERY`] files is tried, until one is closed as it was sealed.

use crate::core::Core;
use holdfast_drive::NewContent;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Files that are sealed and not closed, at most: their content is in no budget.
pub(crate) const WAITING_MAX: usize = 64;
pub(crate) const IN_VAIN_MAX: usize = 8;
pub(crate) const TRIED_EVERY: usize = 32;

/// Of all files of a mount.
#[derive(Default)]
pub(crate) struct Early {
    waiting: AtomicUsize,
    /// How many were sealed in vain, or not at all for that, since one was not.
    in_vain: AtomicUsize,
}

impl Early {
    /// A place for one that is sealed, if that is worth a try.
    fn place(self: &Arc<Self>) -> Option<Place> {
        let in_vain = self.in_vain.load(Ordering::Relaxed);
        if in_vain >= IN_VAIN_MAX && !self.in_vain.fetch_add(1, Ordering::Relaxed).is_multiple_of(TRIED_EVERY) {
            return None;
        }
        let one_more = |waiting| (waiting < WAITING_MAX).then_some(waiting + 1);
        self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        Some(Place { early: self.clone(), used: false })
    }
}

#[cfg(test)]
impl Early {
    /// How many were sealed in vain since one was not.
    pub(crate) fn in_vain(&self) -> usize {
        self.in_vain.load(Ordering::Relaxed)
    }
}

struct Place {
    early: Arc<Early>,
    used: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.early.waiting.fetch_sub(1, Ordering::Relaxed);
        if !self.used {
            self.early.in_vain.fetch_add(1, Ordering::Relaxed);
            metrics::counter!("holdfast_mount_sealed_in_vain_total").increment(1);
        }
    }
}

struct Sealed {
    /// Which change of the file's content is its last ([`crate::overlay::Overlay::change`]).
    change: u64,
    content: NewContent,
    place: Place,
}

/// What one file has sealed.
#[derive(Default)]
pub(crate) struct Slot(Mutex<Option<Sealed>>);

impl Slot {
    /// Begins, with what the file is now: whoever [takes](Self::take) waits from then on. `plain` is asked for the last change and the whole content.
    pub(crate) fn begin<P: AsRef<[u8]>>(
        &self,
        core: &Core,
        plain: impl FnOnce() -> Option<(u64, P)>,
    ) -> Option<Turn<'_, P>> {
        let (change, plain) = plain()?;
        // Where one is being sealed, two programs write to the file.
        let slot = self.0.try_lock()?;
        Some(Turn { slot, change, plain, place: core.early.place()? })
    }

    /// What was sealed, if the content is still what that change made it. Waits while it is being sealed, which takes less than to begin again.
    pub(crate) fn take(&self, change: u64) -> Option<NewContent> {
        let mut sealed = self.0.lock().take().filter(|sealed| sealed.change == change)?;
        sealed.place.used = true;
        sealed.place.early.in_vain.store(0, Ordering::Relaxed);
        Some(sealed.content)
    }
}

/// It is about to be sealed.
pub(crate) struct Turn<'s, P> {
    slot: MutexGuard<'s, Option<Sealed>>,
    change: u64,
    plain: P,
    place: Place,
}

impl<P: AsRef<[u8]>> Turn<'_, P> {
    /// Seals. What goes wrong is told by the save, which does it again.
    pub(crate) fn seal(mut self, core: &Core) {
        let Some(content) = core.tree.seal_whole(self.plain.as_ref()) else { return };
        metrics::counter!("holdfast_mount_sealed_ahead_total").increment(1);
        *self.slot = Some(Sealed { change: self.change, content, place: self.place });
    }
}
