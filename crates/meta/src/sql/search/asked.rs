//! What is asked for: words, folded, and what else a hit must be.

use crate::types::{Node, NodeKind, QUERY_BYTES_MAX, QUERY_WORDS_MAX, SearchQuery, WITHIN_DAYS_MAX};
use crate::words::Folded;
use holdfast_base::{Error, ErrorKind, Result};

/// A query, folded.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) words: Vec<String>,
    /// All of them with one blank between.
    pub(super) phrase: String,
    pub(super) query: SearchQuery,
}

impl Asked {
    pub(super) fn new(query: &SearchQuery) -> Result<Self> {
        if query.text.len() > QUERY_BYTES_MAX {
            return Err(Error::new(ErrorKind::TooLarge, format!("a query has {QUERY_BYTES_MAX} bytes at most")));
        }
        let mut words: Vec<String> =
            query.text.split_whitespace().map(|word| Folded::new(word).text().to_owned()).collect();
        words.retain(|word| !word.is_empty());
        if words.len() > QUERY_WORDS_MAX || query.tags.len() > QUERY_WORDS_MAX {
            let message = format!("a query has {QUERY_WORDS_MAX} words and as many tags at most");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        if query.within_days.is_some_and(|days| days == 0 || days > WITHIN_DAYS_MAX) {
            return Err(Error::invalid(format!("a search goes back 1 to {WITHIN_DAYS_MAX} days")));
        }
        let phrase = words.join(" ");
        Ok(Self { words, phrase, query: query.clone() })
    }

    /// Whether nothing that can be looked for is left of what was typed.
    pub(super) fn finds_nothing(&self) -> bool {
        let bare = SearchQuery { text: String::new(), limit: 0, after: None, whole: false, ..self.query.clone() };
        self.words.is_empty() && (!self.query.text.trim().is_empty() || bare == SearchQuery::default())
    }

    /// All words, as a set of bits.
    pub(super) fn all(&self) -> u16 {
        (1 << self.words.len()) - 1
    }

    /// What names that begin with one of the words, but this one, may begin with: small, capitalized, capitals, as typed.
    pub(super) fn beginnings(&self, but: usize) -> Vec<String> {
        let known = self.words.get(but);
        let typed = self.query.text.split_whitespace().map(str::to_owned);
        let typed = typed.filter(|typed| known.is_none_or(|known| Folded::new(typed).text() != *known));
        let folded = self.words.iter().filter(|word| known != Some(*word)).flat_map(|word| {
            let mut letters = word.chars();
            let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
            [word.clone(), first + letters.as_str(), word.to_uppercase()]
        });
        let mut beginnings: Vec<String> = typed.chain(folded).collect();
        beginnings.sort_unstable();
        beginnings.dedup();
        beginnings
    }

    /// Whether the filters let a node through, but for tags.
    pub(super) fn admits(&self, node: &Node) -> bool {
        let query = &self.query;
        let of_files = query.group.is_some() || query.min_bytes.is_some() || query.max_bytes.is_some();
        query.kind.is_none_or(|kind| node.kind == kind)
            && !(of_files && node.kind != NodeKind::File)
            && query.group.is_none_or(|group| group.has(&node.name))
            && query.min_bytes.is_none_or(|bytes| node.size >= bytes)
            && query.max_bytes.is_none_or(|bytes| node.size <= bytes)
            && query.after_ms.is_none_or(|ms| node.modified_ms >= ms)
            && query.before_ms.is_none_or(|ms| node.modified_ms < ms)
    }

    /// How well a node's own name matches, if it is a hit: 0 is best.
    pub(super) fn rank(&self, node: &Node, name: &Folded, own: u16) -> u8 {
        let stem = || node.name.rsplit_once('.').is_some_and(|(stem, _)| Folded::new(stem).text() == self.phrase);
        if self.words.is_empty() {
            0
        } else if name.text().starts_with(&self.phrase) {
            u8::from(name.text() != self.phrase && !stem())
        } else if own == self.all() {
            2
        } else {
            3
        }
    }
}
