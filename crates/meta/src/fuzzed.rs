//! What fuzz targets reach and nobody else is to: how texts become words.

use crate::words::{Folded, cut, fold_tag};

/// A text folded, and the rests of it that are indexed.
pub fn folded(text: &str) -> (String, Vec<String>) {
    let folded = Folded::new(text);
    let rests = folded.rests().map(ToOwned::to_owned).collect();
    (folded.text().to_owned(), rests)
}

/// Whether a folded word is found in a text.
pub fn has(text: &str, word: &str) -> bool {
    Folded::new(text).has(word)
}

/// As much of a folded text as is indexed.
pub fn indexed(text: &str) -> &str {
    cut(text)
}

/// A tag's identity.
pub fn tag(text: &str) -> String {
    fold_tag(text)
}
