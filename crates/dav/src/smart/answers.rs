//! What searches found a moment ago.
//!
//! A client that shows a smart folder asks for the folder and then for each file in it, and every one of those requests needs what the search finds.
//! An answer is kept under the account, the search as it was last changed, and the state of all that the account sees
//! ([`Drive::state_of_all`](holdfast_drive::Drive::state_of_all)), which another change makes another one: so a kept answer is what a
//! search would find now, on any node. Requests at the same moment wait for one search.
//!
//! **Limits.** [`ANSWERS_MAX`] answers, each of [`SMART_HITS_MAX`](holdfast_drive::SMART_HITS_MAX) hits at most: some 16 MiB. One is kept for
//! [`KEPT_MS`], because relative dates and the ends of shares move on although nothing changes. None is kept while names wait for the index.

use super::Shown;
use holdfast_base::{AccountId, Result};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// Folders that are looked through at the same time, on one node.
const ANSWERS_MAX: usize = 16;
/// Longer than a client takes to ask for what it has just listed, and too short for anybody to notice a date moving on.
const KEPT_MS: i64 = 10_000;

/// What an answer is the answer to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) account: AccountId,
    pub(crate) search: i64,
    pub(crate) changed_ms: i64,
    pub(crate) state: String,
}

/// Hits, and whether the index was up to date.
type Looked = (Arc<[Shown]>, bool);

struct Kept {
    question: Question,
    until_ms: i64,
    answer: Arc<OnceCell<Looked>>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Answers(Mutex<Vec<Kept>>);

impl Answers {
    /// The answer that is kept, or what `look` finds.
    pub(super) async fn get<L>(&self, question: Question, now_ms: i64, look: L) -> Result<Arc<[Shown]>>
    where
        L: Future<Output = Result<Looked>>,
    {
        let answer = self.place(&question, now_ms);
        let known = answer.initialized();
        metrics::counter!("holdfast_smart_folder_looks_total", "answer" => if known { "kept" } else { "searched" })
            .increment(1);
        let (hits, settled) = answer.get_or_try_init(|| look).await?.clone();
        if !settled {
            self.0.lock().retain(|kept| !Arc::ptr_eq(&kept.answer, &answer));
        }
        Ok(hits)
    }

    fn place(&self, question: &Question, now_ms: i64) -> Arc<OnceCell<Looked>> {
        let mut all = self.0.lock();
        // A clock that was set back keeps nothing longer.
        all.retain(|kept| kept.until_ms > now_ms && kept.until_ms <= now_ms + KEPT_MS);
        if let Some(kept) = all.iter().find(|kept| kept.question == *question) {
            return Arc::clone(&kept.answer);
        }
        if all.len() == ANSWERS_MAX {
            all.remove(0);
        }
        let answer = Arc::default();
        all.push(Kept { question: question.clone(), until_ms: now_ms + KEPT_MS, answer: Arc::clone(&answer) });
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_base::{Error, ErrorKind};
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Default)]
    struct Searches {
        answers: Answers,
        made: AtomicUsize,
    }

    fn question(search: i64, state: &str) -> Question {
        Question { account: AccountId(1), search, changed_ms: 5, state: state.into() }
    }

    impl Searches {
        async fn ask(&self, question: Question, now_ms: i64, settled: bool) -> usize {
            let look = async {
                tokio::task::yield_now().await;
                self.made.fetch_add(1, Ordering::Relaxed);
                Ok((Arc::from([]), settled))
            };
            self.answers.get(question, now_ms, look).await.expect("answers");
            self.made.load(Ordering::Relaxed)
        }
    }

    #[tokio::test]
    async fn one_search_answers_until_something_changes_or_time_is_over() {
        let searches = Searches::default();
        assert_eq!(searches.ask(question(1, "a"), 0, true).await, 1);
        assert_eq!(searches.ask(question(1, "a"), KEPT_MS - 1, true).await, 1, "kept");
        assert_eq!(searches.ask(question(1, "b"), 1, true).await, 2, "another state");
        assert_eq!(searches.ask(Question { changed_ms: 6, ..question(1, "a") }, 1, true).await, 3, "another search");
        assert_eq!(searches.ask(Question { account: AccountId(2), ..question(1, "a") }, 1, true).await, 4);
        assert_eq!(searches.ask(question(1, "a"), KEPT_MS, true).await, 5, "too old");
        assert_eq!(searches.ask(question(1, "a"), -1, true).await, 6, "from the future");
    }

    #[tokio::test]
    async fn requests_at_the_same_moment_wait_for_one_search() {
        let searches = Searches::default();
        let ask = || searches.ask(question(1, "a"), 0, true);
        assert_eq!(tokio::join!(ask(), ask(), ask()), (1, 1, 1));
    }

    #[tokio::test]
    async fn what_failed_or_was_not_indexed_is_not_kept() {
        let searches = Searches::default();
        let fails = async { Err(Error::unavailable("away")) };
        let failed = searches.answers.get(question(1, "a"), 0, fails).await;
        assert!(failed.is_err_and(|error| error.kind() == ErrorKind::Unavailable));
        assert_eq!(searches.ask(question(1, "a"), 0, false).await, 1);
        assert_eq!(searches.ask(question(1, "a"), 0, true).await, 2);
        assert_eq!(searches.ask(question(1, "a"), 0, true).await, 2);
    }

    #[tokio::test]
    async fn there_are_so_many_of_them() {
        let searches = Searches::default();
        let many = i64::try_from(ANSWERS_MAX).expect("few");
        for search in 0..=many {
            searches.ask(question(search, "a"), 0, true).await;
        }
        assert_eq!(searches.answers.0.lock().len(), ANSWERS_MAX);
        let made = searches.made.load(Ordering::Relaxed);
        assert_eq!(searches.ask(question(many, "a"), 0, true).await, made);
        assert_eq!(searches.ask(question(0, "a"), 0, true).await, made + 1, "the oldest went");
    }
}
