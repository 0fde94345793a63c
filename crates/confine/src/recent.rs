//! The last decisions about a confined program, for whoever asks while it runs.
//!
//! They live in the supervisor's memory and go with it: a program that is refused all the time must fill neither memory nor disk. The last [`RECORDS_MAX`] are kept, and of
//! those as many as are within [`BYTES_MAX`] as JSON, so that all of them fit in one answer. Each has a number, so a reader knows how many it has missed.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most decisions that are kept.
const RECORDS_MAX: usize = 1000;
/// Most bytes of them, as JSON. A line of the socket takes four times as many.
const BYTES_MAX: usize = 1 << 20;
/// A decision that is longer is kept with the beginning of its rule's words alone, which can be as long as a policy. Its paths are short enough.
const RECORD_BYTES_MAX: usize = 64 << 10;
/// Characters of those.
const WORDS_MAX: usize = 200;

/// A decision, as the log has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    /// When, in milliseconds since 1970.
    pub time_ms: u64,
    /// The thread that asked.
    pub pid: i32,
    /// Its executable.
    pub program: String,
    /// What it wanted.
    pub operation: String,
    /// To what.
    pub path: String,
    /// Whether it may.
    pub allowed: bool,
    /// The rule that decided; none where it was the default.
    pub rule: Option<RuleWords>,
    /// What the program is told if it may not.
    pub errno: Option<i32>,
    /// What decided.
    pub mechanism: String,
}

/// A rule by its place in the policy, from 1, and in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleWords {
    /// Its place.
    pub number: usize,
    /// Its words.
    pub text: String,
}

impl Decided {
    /// As a line of JSON, without its end.
    pub(crate) fn line(&self) -> String {
        // Of strings and numbers: there is nothing that JSON does not have.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Some of the last decisions, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) records: Vec<Decided>,
    /// How many there were before these, since the number asked for, that are not kept any more.
    pub(crate) missed: u64,
    /// The number of the next one.
    pub(crate) next: u64,
    /// Whether there will be no more.
    pub(crate) ended: bool,
}

/// The last decisions.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    kept: Mutex<Kept>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct Kept {
    records: VecDeque<(Decided, usize)>,
    bytes: usize,
    next: u64,
    ended: bool,
}

impl Recent {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a decision, which is so long as JSON.
    pub(crate) fn keep(&self, mut decided: Decided, mut bytes: usize) {
        if bytes > RECORD_BYTES_MAX {
            if let Some(rule) = &mut decided.rule {
                rule.text = rule.text.chars().take(WORDS_MAX).chain(['…']).collect();
            }
            bytes = decided.line().len();
        }
        let mut kept = self.kept();
        kept.records.push_back((decided, bytes));
        kept.bytes += bytes;
        kept.next += 1;
        while kept.records.len() > RECORDS_MAX || kept.bytes > BYTES_MAX {
            let Some((_, bytes)) = kept.records.pop_front() else { break };
            kept.bytes -= bytes;
        }
        drop(kept);
        self.news.notify_all();
    }

    /// Those that are kept, from a number on.
    pub(crate) fn since(&self, number: u64) -> Page {
        self.kept().since(number)
    }

    /// As [`Self::since`], but waits for a while until there is one, or there will be none.
    pub(crate) fn wait_since(&self, number: u64, longest: Duration) -> Page {
        let waits = |kept: &mut Kept| kept.next <= number && !kept.ended;
        let waited = self.news.wait_timeout_while(self.kept(), longest, waits);
        waited.unwrap_or_else(PoisonError::into_inner).0.since(number)
    }

    /// Says that there will be no more.
    pub(crate) fn end(&self) {
        self.kept().ended = true;
        self.news.notify_all();
    }
}

impl Kept {
    fn since(&self, number: u64) -> Page {
        let first = self.next - self.records.len() as u64;
        let skipped = usize::try_from(number.saturating_sub(first)).unwrap_or(usize::MAX);
        Page {
            records: self.records.iter().skip(skipped).map(|(decided, _)| decided.clone()).collect(),
            missed: first.saturating_sub(number),
            next: self.next,
            ended: self.ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn decided(path: &str, words: &str) -> Decided {
        Decided {
            time_ms: 1,
            pid: 2,
            program: "/bin/sh".into(),
            operation: "read".into(),
            path: path.into(),
            allowed: false,
            rule: Some(RuleWords { number: 1, text: words.into() }),
            errno: Some(13),
            mechanism: "broker".into(),
        }
    }

    fn keep(recent: &Recent, one: Decided) {
        let length = one.line().len();
        recent.keep(one, length);
    }

    #[test]
    fn the_last_are_kept_and_how_many_are_gone_is_known() {
        let recent = Recent::default();
        assert_eq!(recent.since(0), Page::default());
        for number in 0..RECORDS_MAX + 7 {
            keep(&recent, decided(&number.to_string(), "x"));
        }
        let page = recent.since(0);
        assert_eq!((page.records.len(), page.missed, page.next), (RECORDS_MAX, 7, RECORDS_MAX as u64 + 7));
        assert_eq!((page.records[0].path.as_str(), page.ended), ("7", false));
        let page = recent.since(page.next - 1);
        assert_eq!((page.records.len(), page.missed), (1, 0));
        assert!(recent.since(page.next).records.is_empty());
    }

    #[test]
    fn long_ones_and_long_words_do_not_fill_memory_nor_a_line_of_the_socket() {
        let recent = Recent::default();
        for _ in 0..RECORDS_MAX {
            // As JSON, each of these characters takes six.
            keep(&recent, decided(&"\u{1}".repeat(4095), "x"));
        }
        keep(&recent, decided("/f", &"w".repeat(1 << 20)));
        let page = recent.since(0);
        let bytes: usize = page.records.iter().map(|one| one.line().len()).sum();
        assert!(bytes <= BYTES_MAX && page.records.len() < 50 && page.missed > 900, "{bytes}");
        let last = page.records.last().and_then(|last| last.rule.clone()).expect("the last one has a rule");
        assert_eq!(last.text.chars().count(), WORDS_MAX + 1);
    }

    #[test]
    fn whoever_waits_hears_of_the_next_and_of_the_end() {
        let recent = Arc::new(Recent::default());
        let waiting = |since| {
            let recent = recent.clone();
            std::thread::spawn(move || recent.wait_since(since, Duration::from_mins(1)))
        };
        let first = waiting(0);
        keep(&recent, decided("/f", "x"));
        assert_eq!(first.join().expect("no panic").records.len(), 1);
        let second = waiting(1);
        recent.end();
        let page = second.join().expect("no panic");
        assert!(page.records.is_empty() && page.ended);
    }
}
