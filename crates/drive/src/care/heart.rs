//! What a node of several does besides serving: it says that it is there, gives up those that are not, and takes leases for jobs.

use crate::engine::Engine;
use holdfast_base::{Error, Result};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often a node says that it is there.
const BEAT_EVERY: Duration = Duration::from_secs(5);
/// Not seen for this long, a node is given up. Longer than a database takes to fail over.
const GIVE_UP_AFTER: Duration = Duration::from_secs(30);
/// How long a lease lasts that is not renewed.
const LEASE: Duration = Duration::from_secs(30);

/// Beats until it is aborted.
pub(super) async fn beat(engine: Engine) {
    // Since when beats arrive. Whoever could not reach the database must not give up others who could not either: they get as much
    // time to come back as this one takes to trust itself.
    let mut steady = Instant::now();
    loop {
        let started = Instant::now();
        if let Err(error) = engine.beat().await {
            tracing::warn!(?error, "the other nodes could not be told that this one is there");
            steady = Instant::now();
        } else if started.elapsed() >= BEAT_EVERY {
            steady = Instant::now();
        } else if steady.elapsed() >= GIVE_UP_AFTER
            && let Err(error) = engine.give_up_others(GIVE_UP_AFTER).await
        {
            tracing::warn!(?error, "what nodes that are gone left behind could not be cleared; it is tried again");
        }
        sleep(BEAT_EVERY).await;
    }
}

/// Does `work` if this node gets the lease `name`, and none if another has it. The lease is renewed meanwhile; when that fails, the work
/// is dropped where it waits, so it must be made of steps that may end between any two.
pub async fn under_lease<T>(
    engine: &Engine,
    name: &'static str,
    work: impl Future<Output = Result<T>>,
) -> Result<Option<T>> {
    let catalogue = engine.catalogue();
    if !catalogue.is_shared() {
        return work.await.map(Some);
    }
    let take = |time: Duration| {
        let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        catalogue.take_lease(name, engine.instance(), milliseconds)
    };
    if take(LEASE).await?.is_none() {
        return Ok(None);
    }
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => {
                // For the next one, who need not wait; if this fails, it lapses.
                let _ = take(Duration::ZERO).await;
                return done.map(Some);
            }
            () = sleep(LEASE / 3) => {
                if take(LEASE).await?.is_none() {
                    return Err(Error::unavailable(format!("another node has taken over: {name}")));
                }
            }
        }
    }
}
