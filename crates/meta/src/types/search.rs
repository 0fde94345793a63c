//! Tags, and what is looked for and found.

use super::{Node, NodeKind};
use crate::words::fold_tag;
use holdfast_base::{DrivePath, Error, ErrorKind, NodeId, Result, SpaceId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The namespace of the properties that tags are kept as: named by the folded text, with the text as it was typed as value.
pub const TAG_NAMESPACE: &str = "urn:holdfast:tag";

/// Tags of one node: a list that is still read, and a few KiB.
pub const TAGS_MAX: usize = 32;
/// Bytes of a tag: a few words, which fit beside a name in a list.
pub const TAG_BYTES_MAX: usize = 64;
/// Nodes of which a tag's uses are counted; see [`TagCount::more`].
pub const TAG_COUNT_MAX: usize = 100;
/// Tags of one list for completion.
pub const TAG_LIST_MAX: usize = 100;
/// Bytes of a query: more than anybody types into a field.
pub const QUERY_BYTES_MAX: usize = 256;
/// Words of a query.
pub const QUERY_WORDS_MAX: usize = 8;
/// Hits of one page.
pub const HITS_MAX: usize = 200;
/// Hits of a saved search where it is shown as a folder, without pages: what somebody can look through, in one answer.
pub const SMART_HITS_MAX: usize = 1_000;

/// Days of a relative date: a century.
pub const WITHIN_DAYS_MAX: u32 = 36_525;
/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

/// Where a search looks: in a space, or below one folder of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchIn {
    /// The space.
    pub space: SpaceId,
    /// The folder; what is above it is neither found nor looked at.
    pub below: Option<NodeId>,
}

impl From<SpaceId> for SearchIn {
    fn from(space: SpaceId) -> Self {
        Self { space, below: None }
    }
}

/// A tag: what is shown, and its identity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag {
    folded: String,
    shown: String,
}

impl Tag {
    /// Checks a text: 1 to [`TAG_BYTES_MAX`] bytes without control characters. Blanks at the ends go, and several become one.
    pub fn new(text: &str) -> Result<Self> {
        if text.len() > TAG_BYTES_MAX {
            return Err(Error::new(ErrorKind::TooLarge, format!("a tag can have {TAG_BYTES_MAX} bytes at most")));
        }
        if text.chars().any(|char| char.is_control() || matches!(char, '\u{fffe}' | '\u{ffff}')) {
            return Err(Error::invalid("a tag cannot have control characters in it"));
        }
        let (folded, shown) = (fold_tag(text), text.split_whitespace().collect::<Vec<_>>().join(" "));
        if folded.is_empty() {
            return Err(Error::invalid("a tag cannot be empty"));
        }
        Ok(Self { folded, shown })
    }

    /// The text as it was typed.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// What makes two tags the same: without case and accents.
    pub fn folded(&self) -> &str {
        &self.folded
    }
}

/// What is done to tags of nodes. What is in both lists is added.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TagChange {
    /// Added; one that is there already is shown as it was typed now.
    pub add: Vec<Tag>,
    /// Removed; removing what is not there succeeds.
    pub remove: Vec<Tag>,
}

/// A tag in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagCount {
    /// The tag.
    pub tag: String,
    /// Nodes that have it, [`TAG_COUNT_MAX`] a space at most.
    pub count: usize,
    /// Whether more may have it.
    pub more: bool,
}

/// Files of one kind, told by the ending of their name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MediaGroup {
    /// Pictures.
    Image,
    /// Films.
    Video,
    /// Sound.
    Audio,
    /// PDF.
    Pdf,
    /// Plain text, source text, markup.
    Text,
    /// Documents of office programs, books.
    Document,
    /// Archives and compressed files.
    Archive,
}

impl MediaGroup {
    /// Every group.
    pub const ALL: [Self; 7] =
        [Self::Image, Self::Video, Self::Audio, Self::Pdf, Self::Text, Self::Document, Self::Archive];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Video => "video",
            Self::Audio => "audio",
            Self::Pdf => "pdf",
            Self::Text => "text",
            Self::Document => "document",
            Self::Archive => "archive",
        }
    }

    const fn endings(self) -> &'static [&'static str] {
        match self {
            Self::Image => &[
                "jpg", "jpeg", "png", "gif", "webp", "svg", "heic", "heif", "avif", "jxl", "bmp", "tif", "tiff", "ico",
                "psd", "xcf", "raw", "dng", "cr2", "cr3", "nef", "arw", "orf", "rw2",
            ],
            Self::Video => {
                &["mp4", "m4v", "mkv", "webm", "mov", "avi", "wmv", "mpg", "mpeg", "ogv", "flv", "3gp", "mts", "m2ts"]
            }
            Self::Audio => {
                &["mp3", "m4a", "aac", "flac", "ogg", "oga", "opus", "wav", "wma", "aif", "aiff", "mid", "midi"]
            }
            Self::Pdf => &["pdf"],
            Self::Text => &[
                "txt", "md", "markdown", "rst", "log", "csv", "tsv", "json", "jsonl", "xml", "yaml", "yml", "toml",
                "ini", "conf", "html", "htm", "css", "js", "mjs", "ts", "tsx", "jsx", "svelte", "vue", "rs", "go",
                "py", "rb", "pl", "php", "java", "kt", "swift", "c", "h", "cc", "cpp", "hpp", "cs", "sh", "bash",
                "zsh", "ps1", "bat", "sql", "tex", "bib", "diff", "patch", "srt", "vtt",
            ],
            Self::Document => &[
                "doc", "docx", "dot", "dotx", "odt", "ott", "rtf", "pages", "xls", "xlsx", "xlsm", "ods", "numbers",
                "ppt", "pptx", "pps", "ppsx", "odp", "key", "odg", "vsd", "vsdx", "epub", "mobi", "azw3", "djvu", "ps",
            ],
            Self::Archive => &[
                "zip", "tar", "gz", "tgz", "bz2", "tbz2", "xz", "txz", "zst", "7z", "rar", "jar", "war", "deb", "rpm",
                "iso", "dmg", "cab", "lz4", "lzma", "br",
            ],
        }
    }

    /// Whether a file of this name belongs to it.
    pub fn has(self, name: &str) -> bool {
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        self.endings().iter().any(|known| known.eq_ignore_ascii_case(ending))
    }
}

impl FromStr for MediaGroup {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|group| group.name() == text).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|group| group.name()).collect();
            Error::invalid(format!("{text:?} is no type of files; there are {}", known.join(", ")))
        })
    }
}

/// What is looked for. Sizes and types are those of files: a folder has neither.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SearchQuery {
    /// Words, separated by blanks: each must be on the path, at least one in the node's own name or tags. None matches everything that
    /// the rest of the query lets through.
    pub text: String,
    /// Files or folders only.
    pub kind: Option<NodeKind>,
    /// Files of this group only.
    pub group: Option<MediaGroup>,
    /// Files of so many bytes or more.
    pub min_bytes: Option<u64>,
    /// Files of so many bytes or fewer.
    pub max_bytes: Option<u64>,
    /// Modified then or later.
    pub after_ms: Option<i64>,
    /// Modified before then.
    pub before_ms: Option<i64>,
    /// Modified in the last so many days, [`WITHIN_DAYS_MAX`] at most: a saved search means the days before each look.
    /// [`Self::at`] makes a time of it; the catalogue looks for times only.
    pub within_days: Option<u32>,
    /// Tags that the node itself must have, all of them.
    pub tags: Vec<Tag>,
    /// Hits at most, [`SMART_HITS_MAX`] at most.
    pub limit: usize,
    /// Go on after this hit.
    pub after: Option<Cursor>,
    /// Look for everything at once, whatever it takes, where a page would do for who waits for it: see [`SearchAnswer::next`].
    pub whole: bool,
}

impl SearchQuery {
    /// What it means at this time.
    #[must_use]
    pub fn at(&self, now_ms: i64) -> Self {
        let since = self.within_days.map(|days| now_ms.saturating_sub(i64::from(days).saturating_mul(DAY_MS)));
        Self { after_ms: self.after_ms.max(since), within_days: None, ..self.clone() }
    }
}

/// Where a list of hits goes on: the last hit's place in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// Whether a first look does not find it.
    pub(crate) late: bool,
    /// How good a hit it is; 0 is best.
    pub(crate) rank: u8,
    /// Greater for older ones.
    pub(crate) age: i64,
    /// Its node, negative: later ones first.
    pub(crate) node: i64,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}.{}", u8::from(self.late), self.rank, self.age, self.node)
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || Error::invalid("this is no cursor of a search");
        let mut parts = text.splitn(4, '.');
        let mut part = || parts.next().ok_or_else(bad);
        let (late, rank, age, node) = (part()?, part()?, part()?, part()?);
        Ok(Self {
            late: late.parse::<u8>().map_err(|_| bad())? > 0,
            rank: rank.parse().map_err(|_| bad())?,
            age: age.parse().map_err(|_| bad())?,
            node: node.parse().map_err(|_| bad())?,
        })
    }
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// Where, in its space.
    pub path: DrivePath,
    /// The node, with its space.
    pub node: Node,
    /// Its tags, in the order of their folded text.
    pub tags: Vec<String>,
}

/// What a search answers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SearchAnswer {
    /// Exact names first, then names that begin with the query, names and tags with all words, and the rest; of each, the newest first.
    /// What only a thorough look finds comes after, in the same order.
    pub hits: Vec<Hit>,
    /// Where the list goes on, if more was found, or a thorough look might find more: a page may be short, and the last one empty.
    pub next: Option<Cursor>,
    /// Whether there may be more than was found: work for one query is bounded.
    pub more: bool,
    /// Whether some names or tags are not indexed yet.
    pub indexing: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_short_text_and_the_same_in_any_case() {
        let tag = Tag::new("  Été   2024 ").expect("a good tag");
        assert_eq!((tag.shown(), tag.folded()), ("Été 2024", "ete 2024"));
        for bad in ["", "  ", "\u{301}", "a\nb", "\u{ffff}", &"x".repeat(65)] {
            assert!(Tag::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn days_are_counted_from_when_one_looks_and_other_bounds_hold_too() {
        let query = |after_ms, within_days| SearchQuery { after_ms, within_days, ..SearchQuery::default() };
        let now = 100 * DAY_MS;
        assert_eq!(query(None, None).at(now), query(None, None));
        assert_eq!(query(None, Some(7)).at(now), query(Some(93 * DAY_MS), None));
        assert_eq!(query(None, Some(7)).at(now + 5), query(Some(93 * DAY_MS + 5), None));
        assert_eq!(query(Some(95 * DAY_MS), Some(7)).at(now), query(Some(95 * DAY_MS), None), "the later one");
        assert_eq!(query(None, Some(u32::MAX)).at(i64::MIN), query(Some(i64::MIN), None));
    }

    #[test]
    fn a_cursor_survives_its_text() {
        let cursor = Cursor { late: true, rank: 3, age: -17, node: -4 };
        assert_eq!(cursor.to_string().parse::<Cursor>().expect("parses"), cursor);
        for bad in ["", "1", "0.1.2", "0.1.2.x", "0.300.1.1", "1.2.3.4.5", "x.1.1.1"] {
            assert!(bad.parse::<Cursor>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_type_is_told_by_the_ending_of_the_name() {
        assert!(MediaGroup::Image.has("a.b.JPG") && MediaGroup::Pdf.has(".pdf") && !MediaGroup::Image.has("jpg"));
        for group in MediaGroup::ALL {
            assert_eq!(group.name().parse::<MediaGroup>().expect("parses"), group);
        }
        let mut endings: Vec<&str> = MediaGroup::ALL.into_iter().flat_map(MediaGroup::endings).copied().collect();
        let all = endings.len();
        endings.sort_unstable();
        endings.dedup();
        assert_eq!(endings.len(), all, "an ending is of one group");
    }
}
