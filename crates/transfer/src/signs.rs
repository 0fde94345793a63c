//! Signs of life: how a transfer that is slow is told from one that hangs.
//!
//! What moves a file runs under [`watched`], which ends it when nothing was heard of it for the time of a stall. Each call of a site that comes back
//! counts, and so does each [`Signs::alive`]: a site says it for every few bytes of a call that is under way, so that a block that
//! trickles in for an hour is as good as a thousand fast ones. Sites get at it with [`current`], without passing it through every call;
//! outside of a watch it does nothing.

use holdfast_base::{Error, ErrorKind, Result};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// How often within the time of a stall it is looked whether anything moved: a stall is told that much late, at most.
const LOOKS: u32 = 8;

/// How often what waits for others says that it does.
const WAIT_SIGN: Duration = Duration::from_millis(250);

/// Counts signs of life.
#[derive(Debug, Clone, Default)]
pub struct Signs(Arc<AtomicU64>);

impl Signs {
    /// Something moved.
    pub fn alive(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

tokio::task_local! {
    static SIGNS: Signs;
}

/// Those of the work that asks, to be taken along by threads and tasks that it starts.
pub fn current() -> Signs {
    SIGNS.try_with(Clone::clone).unwrap_or_default()
}

/// Waits for what others have: room, a connection, a place. That is no silence, since they give it back, or are found to hang themselves.
pub async fn waiting<T>(wait: impl Future<Output = T>) -> T {
    let signs = current();
    let mut wait = std::pin::pin!(wait);
    loop {
        tokio::select! {
            biased;
            done = &mut wait => return done,
            () = sleep(WAIT_SIGN) => signs.alive(),
        }
    }
}

/// Runs `work` until it ends, or until nothing was heard of it for `stall`, which is an error of the kind that goes by itself.
pub(crate) async fn watched<T>(stall: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
    let signs = Signs::default();
    tokio::select! {
        biased;
        done = SIGNS.scope(signs.clone(), work) => done,
        () = silence(&signs, stall) => {
            Err(Error::new(ErrorKind::Timeout, format!("nothing arrived for {} s", stall.as_secs_f32())))
        }
    }
}

async fn silence(signs: &Signs, stall: Duration) {
    let mut heard = (signs.count(), Instant::now());
    loop {
        sleep_until(Instant::now() + stall / LOOKS).await;
        let count = signs.count();
        if count != heard.0 {
            heard = (count, Instant::now());
        } else if heard.1.elapsed() >= stall {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::sleep;

    const STALL: Duration = Duration::from_mins(1);

    #[tokio::test(start_paused = true)]
    async fn what_says_that_it_lives_may_take_for_ever() {
        let work = async {
            for _ in 0..1_000 {
                sleep(STALL / 2).await;
                current().alive();
            }
            Ok(7)
        };
        assert_eq!(watched(STALL, work).await.expect("ends"), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn what_says_nothing_ends_after_the_stall_and_may_be_tried_again() {
        let begun = Instant::now();
        let error = watched(STALL, std::future::pending::<Result<()>>()).await.expect_err("stalls");
        assert!(error.is_temporary(), "{error}");
        assert!(begun.elapsed() >= STALL && begun.elapsed() <= STALL + STALL / LOOKS);
    }
}
