//! Telling the server what was heard of, without which nothing is believed for sure: the client's end of the leases ([`holdfast_drive::engine::Believer`]).
//!
//! Each second, and at once where others wait for it, this mount says up to which number it has heard of all that it was asked about. It may believe what it knows for [`TERM`] from when
//! it *sent* such a word that the server took. If that is over before the next one was taken, the server may have given it up: then what was known before is forgotten
//! first. A server that nobody's word makes wait (it is older than that, or one of several nodes) says so, and then files are asked about whenever they are opened.

use super::Shared;
use super::names::{Names, Say, Until};
use crate::wire::{self, Call};
use holdfast_base::Result;
use holdfast_drive::ShownBy;
use holdfast_drive::engine::BELIEF_TERM as TERM;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex, Notify};
use tokio::time::{sleep, timeout};

/// Time between words that nobody waits for.
const EVERY: Duration = Duration::from_secs(1);
/// Longest that the end waits for the server.
const LEAVE: Duration = Duration::from_secs(1);

/// What is to be told.
#[derive(Default)]
pub(super) struct Word {
    /// Up to which number all was heard of that the server asked about.
    heard: AtomicU64,
    now: Notify,
    /// Who may have to take something back before that.
    pub(super) shown_by: ShownBy,
    /// Whether there is nothing to be told any more. Held while anything is.
    is_over: Mutex<bool>,
}

impl Word {
    /// All that was known is forgotten, and the server may be another, which has asked nothing yet.
    pub(super) fn begins(&self) {
        self.heard.store(0, Ordering::Release);
    }

    /// What the server asked about with this number is forgotten.
    pub(super) fn hears(&self, ask: u64) {
        self.heard.fetch_max(ask, Ordering::AcqRel);
    }

    /// It is to be told at once.
    pub(super) fn is_due(&self) {
        self.now.notify_one();
    }
}

/// Tells the server for as long as this mount believes anything.
pub(super) async fn speak(shared: Arc<Shared>) {
    let tell = |word: Call| {
        let shared = &shared;
        async move { shared.link.ask_once(&word).await }
    };
    let ticks = async {
        loop {
            shared.link.is_awake();
            sleep(EVERY).await;
        }
    };
    tokio::select! {
        () = tell_by((&shared.word, &shared.names), tell, || shared.begin_anew()) => {}
        never = ticks => never,
    }
}

/// The same by this, which answers what the server does. When it takes the mount's word after a while in which it may have taken none, all may be otherwise.
async fn tell_by<F>((word, names): (&Word, &Names), tell: impl Fn(Call) -> F, is_otherwise: impl Fn())
where
    F: Future<Output = Result<Option<bool>>>,
{
    for number in 1.. {
        let _ = timeout(EVERY, word.now.notified()).await;
        let is_over = word.is_over.lock().await;
        if *is_over {
            return;
        }
        let heard = word.heard.load(Ordering::Acquire);
        word.shown_by.has_taken_back().await;
        let until = Until::after(TERM);
        let said = match names.begin_word() {
            Say::Nothing => continue,
            Say::Heard(forgot) => tell(Call::Heard(number, heard, forgot)),
            Say::Forgot => {
                let _ = timeout(TERM, tell(Call::Forgot(number))).await;
                continue;
            }
        };
        // Nothing would come of an answer that took so long.
        match timeout(TERM, said).await {
            Ok(Ok(Some(is_taken))) => {
                if names.end_word(is_taken.then_some(until)) {
                    is_otherwise();
                }
            }
            Ok(Ok(None)) => is_not_asked(names),
            Ok(Err(error)) if wire::is_unknown(&error) => is_not_asked(names),
            Ok(Err(error)) => tracing::debug!(%error, "the server was not told what was heard of"),
            Err(_) => {}
        }
    }
}

fn is_not_asked(names: &Names) {
    if names.is_not_asked() {
        tracing::info!(
            "the server answers changes before this mount has heard of them: it is asked whenever a file is opened"
        );
    }
}

impl Shared {
    /// Nothing is believed any more, and the server is told so.
    pub(super) async fn leave(&self) {
        let left = timeout(LEAVE, async {
            *self.word.is_over.lock().await = true;
            self.names.trust(false);
            self.link.ask_once::<Option<bool>>(&Call::Forgot(u64::MAX)).await
        });
        let left = left.await.is_ok_and(|left| left.is_ok());
        tracing::debug!(left, "nobody waits for this mount any more");
    }
}

#[cfg(test)]
mod tests;
