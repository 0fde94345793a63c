//! A name that a pattern matches, to try a policy with.

use crate::index;
use std::path::PathBuf;

/// A path that a pattern of paths matches; none where that is not found at once.
pub(crate) fn sample(pattern: &str) -> Option<PathBuf> {
    let path = PathBuf::from(spelled(pattern));
    let matcher = globset::GlobSet::new([index::compile(pattern).ok()?]).ok()?;
    matcher.is_match(&path).then_some(path)
}

/// The pattern with something plain for each wildcard: `_` for `*`, `**` and `?`, the first of a class and of alternatives.
fn spelled(pattern: &str) -> String {
    let mut out = String::new();
    let mut letters = pattern.chars().peekable();
    let mut skipped = false;
    while let Some(letter) = letters.next() {
        match letter {
            '}' => skipped = false,
            ',' if pattern.contains('{') => skipped = true,
            _ if skipped => {}
            '\\' => out.extend(letters.next()),
            '*' => {
                while letters.next_if_eq(&'*').is_some() {}
                out.push('_');
            }
            '?' => out.push('_'),
            '[' => {
                let class: String = letters.by_ref().take_while(|letter| *letter != ']').collect();
                let first = class.chars().next().filter(|first| !matches!(first, '!' | '^'));
                out.push(first.unwrap_or('_'));
            }
            '{' => {}
            plain => out.push(plain),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_matched_by_its_pattern() {
        for (pattern, path) in [
            ("/a/*.log", "/a/_.log"),
            ("/a/**/b?", "/a/_/b_"),
            ("/a/[xy]/{one,two}z", "/a/x/onez"),
            ("/a/[!x]", "/a/_"),
            (r"/a/\*", "/a/*"),
        ] {
            assert_eq!(sample(pattern), Some(PathBuf::from(path)), "{pattern}");
        }
    }
}
