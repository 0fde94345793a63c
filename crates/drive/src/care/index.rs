//! Indexing names and tags for search, behind those who write them.

use super::heart;
use crate::engine::Engine;
use holdfast_base::Result;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Looks now and then whether anything waits, until it is aborted.
pub(super) async fn keep_indexed(engine: Engine, every: Duration) {
    loop {
        sleep(every).await;
        let done = match engine.catalogue().words_wait().await {
            Ok(false) => continue,
            Ok(true) => heart::under_lease(&engine, "index", index_all(&engine)).await,
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            tracing::warn!(?error, "names could not be indexed for search; it is tried again");
        }
    }
}

/// Indexes everything that waits, resting as long as it works: writers have at least half of the catalogue's time.
async fn index_all(engine: &Engine) -> Result<()> {
    loop {
        let began = Instant::now();
        if !engine.catalogue().index_words().await? {
            return Ok(());
        }
        sleep(began.elapsed()).await;
    }
}
