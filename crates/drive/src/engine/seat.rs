//! This process among those that serve the drive.
//!
//! It joins when it starts, says every few seconds that it is there ([`Engine::beat`]), and leaves when it stops. One that
//! was given up, because it could not say so for too long, joins again under another number; what it had under way fails, and
//! its open pack is left to whoever gave it up.
//!
//! Whoever joins takes the place of the one that was there before on the same data directory. One that finds its place taken while it
//! runs is on a copy of another one's directory (a cloned machine): it goes on under a name of its own, so that the two do
//! not put each other out for ever.

use super::Engine;
use crate::care::frame::{self, Frame};
use holdfast_base::{ErrorKind, Result, Uid};
use holdfast_blob::BlobStore;
use holdfast_meta::{Catalogue, InstanceId, NewInstance, Pack};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Who this is.
pub(crate) struct Seat {
    id: AtomicI64,
    told: Mutex<Told>,
}

/// What it says of itself.
struct Told {
    new: NewInstance,
    /// Where it listens, separated by blanks.
    addresses: String,
}

impl Seat {
    /// Joins; answers the packs that those who are gone left open as well.
    pub(crate) async fn take(new: NewInstance, catalogue: &dyn Catalogue) -> Result<(Self, Vec<Pack>)> {
        let joined = catalogue.join(new.clone()).await?;
        let told = Told { new, addresses: String::new() };
        Ok((Self { id: AtomicI64::new(joined.id.0), told: Mutex::new(told) }, joined.left))
    }

    /// The number of now.
    pub(crate) fn id(&self) -> InstanceId {
        InstanceId(self.id.load(Ordering::Acquire))
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As what it joins again.
    async fn again(&self, catalogue: &dyn Catalogue) -> Result<NewInstance> {
        let new = self.told().new.clone();
        if catalogue.cluster().await?.instances.iter().all(|other| other.uid != new.uid) {
            tracing::warn!("this node was not heard of for too long and was given up: it joins again");
            return Ok(new);
        }
        tracing::error!(
            "another node runs on a copy of this node's data directory: give each node a directory of its own. Until then this one \
             goes on under another name"
        );
        let new = NewInstance { uid: Uid(holdfast_seal::keys::random_bytes()?), ..new };
        self.told().new = new.clone();
        Ok(new)
    }
}

impl Engine {
    /// Notes where the server listens, for [`Catalogue::cluster`].
    pub async fn listens_on(&self, addresses: &[String]) -> Result<()> {
        self.shared.seat.told().addresses = addresses.join(" ");
        self.beat().await
    }

    /// Says that this instance is there; one that was given up joins again.
    pub(crate) async fn beat(&self) -> Result<()> {
        let shared = &self.shared;
        let addresses = shared.seat.told().addresses.clone();
        if shared.catalogue.beat(shared.seat.id(), &addresses).await? {
            return Ok(());
        }
        metrics::counter!("holdfast_instance_rejoined_total").increment(1);
        let joined = shared.catalogue.join(shared.seat.again(&*shared.catalogue).await?).await?;
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
pub(super) async fn seal_left(packs: Vec<Pack>, catalogue: &dyn Catalogue, store: &dyn BlobStore) -> Result<()> {
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
