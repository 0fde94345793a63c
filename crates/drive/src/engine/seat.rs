//! This process among those that serve the drive.
//!
//! It joins when it starts, says every few seconds that it is there ([`Engine::beat`]), and leaves when it stops. One that
//! was given up, because it could not say so for too long, joins again under another number; what it had under way fails, and
//! its open pack is left to whoever gave it up.

use super::Engine;
use crate::care::frame::{self, Frame};
use holdfast_base::{ErrorKind, Result};
use holdfast_blob::BlobStore;
use holdfast_meta::{Catalogue, InstanceId, NewInstance, Pack};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Who this is.
pub(crate) struct Seat {
    new: NewInstance,
    id: AtomicI64,
    /// Where it listens, separated by blanks.
    addresses: Mutex<String>,
}

impl Seat {
    /// Joins, and seals what those who are gone left open.
    pub(crate) async fn take(new: NewInstance, catalogue: &dyn Catalogue, store: &dyn BlobStore) -> Result<Self> {
        let joined = catalogue.join(new.clone()).await?;
        seal_left(joined.left, catalogue, store).await?;
        Ok(Self { new, id: AtomicI64::new(joined.id.0), addresses: Mutex::default() })
    }

    /// The number of now.
    pub(crate) fn id(&self) -> InstanceId {
        InstanceId(self.id.load(Ordering::Acquire))
    }
}

impl Engine {
    /// Notes where the server listens, for [`Catalogue::cluster`].
    pub async fn listens_on(&self, addresses: &[String]) -> Result<()> {
        *self.shared.seat.addresses.lock().unwrap_or_else(PoisonError::into_inner) = addresses.join(" ");
        self.beat().await
    }

    /// Says that this instance is there; one that was given up joins again.
    pub(crate) async fn beat(&self) -> Result<()> {
        let shared = &self.shared;
        let addresses = shared.seat.addresses.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if shared.catalogue.beat(shared.seat.id(), &addresses).await? {
            return Ok(());
        }
        tracing::warn!("this node was not heard of for too long and was given up: it joins again");
        metrics::counter!("holdfast_instance_rejoined_total").increment(1);
        let joined = shared.catalogue.join(shared.seat.new.clone()).await?;
        shared.seat.id.store(joined.id.0, Ordering::Release);
        shared.packer.give_up().await;
        seal_left(joined.left, &*shared.catalogue, &*shared.store).await
    }

    /// Gives up the instances that were not seen for this long, and what any left behind.
    pub(crate) async fn give_up_others(&self, unseen: Duration) -> Result<()> {
        let unseen_ms = u64::try_from(unseen.as_millis()).unwrap_or(u64::MAX);
        let left = self.shared.catalogue.give_up(unseen_ms).await?;
        seal_left(left, &*self.shared.catalogue, &*self.shared.store).await
    }
}

/// Seals packs as they lie in the store: whatever of them no file refers to is reclaimed like any dead block.
async fn seal_left(packs: Vec<Pack>, catalogue: &dyn Catalogue, store: &dyn BlobStore) -> Result<()> {
    for pack in packs {
        let bytes = store.len(pack.name).await?.unwrap_or(0);
        // Where its records end, unless it was closed and only the catalogue did not hear of it.
        let sealed_bytes = match frame::look(store, pack.name, bytes).await? {
            Frame::Closed | Frame::Headless(_) => bytes,
            Frame::Open { records_end } => records_end.max(pack.live_bytes).min(bytes),
        };
        tracing::info!(pack = %pack.name, bytes, sealed_bytes, "a pack was left open; it is sealed as it is");
        match catalogue.seal_pack(pack.id, sealed_bytes).await {
            // Two nodes looked; the other's was sealed, found dead and deleted meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            sealed => sealed?,
        }
    }
    Ok(())
}
