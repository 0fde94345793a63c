//! Moving packs from one store to another, while the drive is in use.
//!
//! 1. The drive is started with a [`Migrating`] store: it writes to the new one, reads from the new one and falls back to
//!    the old, and removes from both. From then on the old store only shrinks.
//! 2. [`migrate`] copies what is in the old store and not in the new.
//! 3. The drive is started with the new store alone. The old one is left as it is, for its owner to remove.
//!
//! **Verified**: a copied pack is read back from the new store, and its length and BLAKE3 must be those of what was read
//! from the old. **Resumable**: packs appear whole, so a pack that is there with the right length was verified or was cut
//! off between copy and verification; [`MigrateOptions::verify_present`] reads those too. **Bounded**: memory is
//! [`MigrateOptions::packs_at_once`] times a pack of at most [`PUT_BYTES_MAX`], or a piece of a larger one.
//!
//! **Removals meanwhile**: the layer removes from the old store first, and the copy looks at the old store last. So
//! either the removal finds the copy, or the copy finds the removal and takes itself back.

mod copy;
mod migrating;
#[cfg(test)]
mod tests;

pub use copy::PUT_BYTES_MAX;
pub use migrating::Migrating;

use crate::{BlobStore, PackEntry};
use copy::Copied;
use futures_util::{StreamExt, stream};
use holdfast_base::{PackName, Result};

/// Packs listed at once.
const PAGE: usize = 512;

/// How to migrate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MigrateOptions {
    /// Packs copied side by side.
    pub packs_at_once: usize,
    /// Whether packs that are in the new store already, with the right length, are compared too.
    pub verify_present: bool,
}

impl Default for MigrateOptions {
    /// Two: one reads while the other writes.
    fn default() -> Self {
        Self { packs_at_once: 2, verify_present: false }
    }
}

/// How far it has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Packs copied and verified.
    pub copied: u64,
    /// Bytes of those.
    pub copied_bytes: u64,
    /// Packs that were there already.
    pub present: u64,
    /// Packs that were removed while they were copied.
    pub removed: u64,
    /// The last pack of the page under way, in name order: how much of the space of names is done.
    pub up_to: Option<PackName>,
}

/// Copies every pack of `from` that is not in `to`, and calls `tell` after each. Ends with the first error; what was copied
/// until then stays, and the next run goes on from there.
pub async fn migrate(
    from: &dyn BlobStore,
    to: &dyn BlobStore,
    options: MigrateOptions,
    mut tell: impl FnMut(&Progress),
) -> Result<Progress> {
    let mut progress = Progress::default();
    loop {
        let page = from.list(progress.up_to, PAGE).await?;
        let Some(last) = page.last() else { return Ok(progress) };
        let last = last.name;
        let copies = page.iter().map(|pack: &PackEntry| copy::copy(from, to, *pack, options.verify_present));
        let mut copies = stream::iter(copies).buffer_unordered(options.packs_at_once.max(1));
        while let Some(copied) = copies.next().await {
            match copied? {
                Copied::Now(bytes) => {
                    progress.copied += 1;
                    progress.copied_bytes += bytes;
                }
                Copied::Before => progress.present += 1,
                Copied::Removed => progress.removed += 1,
            }
            tell(&progress);
        }
        progress.up_to = Some(last);
    }
}
