//! Word of changes, from what changes sites to what serves them in the same process.
//!
//! Whoever published waits until it is served ([`Changes::tell`]), so that a visit right after sees it; on other nodes it takes
//! until their next look.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// How long a change waits to be served. A large snapshot that takes longer to load is served when it is loaded.
const SERVED_WITHIN: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    news: Notify,
    /// Changes so far.
    told: AtomicU64,
    /// How many of them a look has seen.
    seen: watch::Sender<u64>,
    /// Whether anybody looks at all: a command without a server does not.
    looking: AtomicBool,
}

impl Changes {
    /// Tells of a change, and waits until it is served.
    pub(crate) async fn tell(&self) {
        let mine = self.told.fetch_add(1, Ordering::SeqCst) + 1;
        self.news.notify_one();
        if self.looking.load(Ordering::SeqCst) {
            let mut seen = self.seen.subscribe();
            let _ = tokio::time::timeout(SERVED_WITHIN, seen.wait_for(|seen| *seen >= mine)).await;
        }
    }

    /// A look begins: it will see this many changes.
    pub(crate) fn look(&self) -> u64 {
        self.looking.store(true, Ordering::SeqCst);
        self.told.load(Ordering::SeqCst)
    }

    /// The look is over.
    pub(crate) fn looked(&self, saw: u64) {
        self.seen.send_replace(saw);
    }

    /// Waits for news, or until it is time to look whatever there is.
    pub(crate) async fn news(&self, within: Duration) {
        let _ = tokio::time::timeout(within, self.news.notified()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn a_change_waits_for_the_look_that_sees_it_and_for_none_if_nobody_looks() {
        let began = Instant::now();
        let changes = Arc::new(Changes::default());
        changes.tell().await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        let early = changes.look();
        let telling = tokio::spawn({
            let changes = changes.clone();
            async move { changes.tell().await }
        });
        tokio::task::yield_now().await;
        changes.looked(early);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(!telling.is_finished(), "that look had begun before");
        changes.news(Duration::from_secs(9)).await;
        changes.looked(changes.look());
        telling.await.expect("told");
        assert!(began.elapsed() < SERVED_WITHIN);
        changes.tell().await;
        assert!(began.elapsed() >= SERVED_WITHIN, "a look that hangs keeps nobody for ever");
    }
}
