//! What is wrong with a policy's text, and where.

use std::fmt;

/// More mistakes than this are not listed: whoever has so many wants to see the first.
pub const MISTAKES_MAX: usize = 100;

/// How many known words an unknown one is compared with and shown: more than any list of ours has.
const KNOWN_MAX: usize = 30;

/// Something wrong at a place of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The name of the text: a file's path, as it was given.
    pub file: String,
    /// The line, from 1; 0 where the whole text is meant.
    pub line: usize,
    /// The character in the line, from 1; 0 where the whole line is meant.
    pub column: usize,
    /// What is wrong, and what would be right.
    pub text: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.column) {
            (0, _) => write!(out, "{}: {}", self.file, self.text),
            (line, 0) => write!(out, "{}:{line}: {}", self.file, self.text),
            (line, column) => write!(out, "{}:{line}:{column}: {}", self.file, self.text),
        }
    }
}

/// Why a text is no policy: everything that is wrong with it, in order of the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Mistakes(pub Vec<Mistake>);

impl Mistakes {
    /// One mistake of a whole text.
    pub fn whole(file: &str, text: impl Into<String>) -> Self {
        Self(vec![Mistake { file: file.to_owned(), line: 0, column: 0, text: text.into() }])
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        out.write_str(&lines.join("\n"))
    }
}

/// The known word that an unknown one is most like, if it is like one at all.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Two letters in three may be wrong at most; Jaro-Winkler finds what is cut short, which an edit distance does not.
    let close = |known: &str| strsim::jaro_winkler(&word.to_lowercase(), known);
    let best = known.into_iter().map(|known| (close(known), known)).filter(|(close, _)| *close > 0.75);
    best.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, known)| known)
}

/// What to say of an unknown word: what it is not, and what may have been meant.
pub fn unknown<'a>(kind: &str, word: &str, known: impl IntoIterator<Item = &'a str, IntoIter: Clone>) -> String {
    let word: String = word.chars().take(60).collect();
    // Roles are the policy's own words, and there may be many.
    let known = known.into_iter().take(KNOWN_MAX);
    if let Some(near) = nearest(&word, known.clone()) {
        return format!("{word:?} is no {kind}; did you mean {near:?}?");
    }
    let all: Vec<_> = known.collect();
    format!("{word:?} is no {kind}; known are {}", all.join(", "))
}

/// Where lines of a text begin, to say where something is.
pub struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    /// Lines of a text.
    pub fn new(text: &'a str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, starts }
    }

    /// Where a line begins, counted from 1.
    pub(crate) fn start(&self, line: usize) -> usize {
        self.starts.get(line.saturating_sub(1)).copied().unwrap_or(self.text.len())
    }

    /// Line and column of a byte, from 1.
    pub fn place(&self, at: usize) -> (usize, usize) {
        let line = self.starts.partition_point(|start| *start <= at);
        let start = self.starts[line - 1];
        let column = self.text.get(start..at).map_or(1, |before| before.chars().count() + 1);
        (line, column)
    }
}
