//! Letting go with time: a task that looks once a second while there is anything in the cache.

use super::Inner;
use super::table::Table;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// How often it looks; the limits it keeps are exact to this.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Looks at an empty cache before spare allocations go back to the system as well: not after every pause between two files,
/// since touching fresh memory costs time.
const LOOKS_AT_NOTHING: u32 = 10;

impl Inner {
    /// Sees to it that the task runs; called when something enters the cache, within a runtime.
    pub(super) fn watch_over(self: &Arc<Self>, table: &mut Table) {
        if !table.swept {
            table.swept = true;
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
    }
}

async fn sweep(cache: Weak<Inner>) {
    let mut nothing = 0;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(inner) = cache.upgrade() else { return };
        {
            let mut table = inner.lock();
            table.sweep(Instant::now());
            nothing = if table.is_empty() { nothing + 1 } else { 0 };
            if nothing < LOOKS_AT_NOTHING {
                continue;
            }
            table.swept = false;
        }
        inner.pool.clear();
        // It walks the allocator's heaps, which takes milliseconds.
        tokio::task::spawn_blocking(crate::care::give_memory_back);
        return;
    }
}
