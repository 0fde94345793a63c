//! A small file is sealed while the program that wrote it is on its way to close it.
//!
//! The program is answered that it has written, and the thread that told it so seals what the file has then. Until the close comes in on another thread,
//! that is done, or nearly so, and the close has less to do: most small files are written in one piece. What is written to again was sealed in vain, and so
//! was what must be saved another way (a sync, a file that may be locked); after [`IN_VAIN_MAX`] of these, one of [`TRIED_EVERY`] files is tried, until one is
//! saved as it was sealed.

use crate::core::Core;
use holdfast_base::Result;
use holdfast_drive::engine::small::Sealed;
use holdfast_drive::{Entry, Save};
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
        Some(Place { early: self.clone(), is_sealed: false, is_used: false })
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
    is_sealed: bool,
    is_used: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.early.waiting.fetch_sub(1, Ordering::Relaxed);
        if self.is_used {
            self.early.in_vain.store(0, Ordering::Relaxed);
            return;
        }
        self.early.in_vain.fetch_add(1, Ordering::Relaxed);
        if self.is_sealed {
            metrics::counter!("holdfast_mount_sealed_in_vain_total").increment(1);
        }
    }
}

/// What a file was sealed as.
pub(crate) struct Whole {
    /// Which change of the file's content is its last ([`crate::overlay::Overlay::change`]).
    change: u64,
    sealed: Sealed,
    place: Place,
}

impl Whole {
    /// Saves it; none, and nothing is done, if that must go the usual way.
    pub(crate) async fn save(self, core: &Core, save: &Save) -> Result<Option<Entry>> {
        let Self { sealed, mut place, .. } = self;
        let saved = core.tree.save_whole(save, sealed).await;
        place.is_used = matches!(saved, Ok(Some(_)));
        saved
    }
}

/// What one file has sealed.
#[derive(Default)]
pub(crate) struct Slot(Mutex<Option<Whole>>);

impl Slot {
    /// Begins, with the last change of what the file is now, and all of it: whoever [takes](Self::take) it waits from then on.
    pub(crate) fn begin<P: AsRef<[u8]>>(&self, core: &Core, (change, plain): (u64, P)) -> Option<Turn<'_, P>> {
        // Where one is being sealed, two programs write to the file.
        let slot = self.0.try_lock()?;
        Some(Turn { slot, change, plain, place: core.early.place()? })
    }

    /// What was sealed, if the content is still what that change made it. Waits while it is being sealed, which takes less than to begin again.
    pub(crate) fn take(&self, change: u64) -> Option<Whole> {
        self.0.lock().take().filter(|whole| whole.change == change)
    }
}

/// It is about to be sealed.
pub(crate) struct Turn<'s, P> {
    slot: MutexGuard<'s, Option<Whole>>,
    change: u64,
    plain: P,
    place: Place,
}

impl<P: AsRef<[u8]>> Turn<'_, P> {
    /// Seals. What goes wrong is told by the save, which does it again.
    pub(crate) fn seal(mut self, core: &Core) {
        let Some(sealed) = core.tree.seal_whole(self.plain.as_ref()) else { return };
        metrics::counter!("holdfast_mount_sealed_ahead_total").increment(1);
        self.place.is_sealed = true;
        *self.slot = Some(Whole { change: self.change, sealed, place: self.place });
    }
}
