//! The index of a snapshot: every route with its content, and what else serving needs. One file, never changed.

use crate::layout::ObjectId;
use holdfast_base::NodeId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A snapshot, without its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// Format.
    pub version: u32,
    /// Its name.
    pub id: String,
    /// When it was made.
    pub made_ms: i64,
    /// By which account.
    pub by: String,
    /// From which folder.
    pub from: String,
    /// What they said.
    #[serde(default)]
    pub note: String,
    /// Title of the site.
    #[serde(default)]
    pub title: String,
    /// Every file by its path, which begins with a slash and is not percent-encoded.
    pub routes: BTreeMap<String, Route>,
    /// Redirects, first match first.
    #[serde(default)]
    pub redirects: Vec<Redirect>,
    /// Headers of paths, later ones win.
    #[serde(default)]
    pub headers: Vec<HeaderRule>,
    /// The page for what is not there.
    #[serde(default)]
    pub not_found: Option<String>,
    /// What is searched, as JSON.
    #[serde(default)]
    pub search: Option<ObjectId>,
    /// Which source became which content: what did not change is not read again.
    #[serde(default)]
    pub sources: BTreeMap<String, Source>,
}

/// A content under a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The content as it is.
    pub object: ObjectId,
    /// Its size.
    pub bytes: u64,
    /// When a snapshot had other content here for the last time.
    pub modified_ms: i64,
    /// `Content-Type`.
    pub kind: String,
    /// The same content, compressed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub encodings: Vec<Encoded>,
    /// A listing made because the folder has no page of its own; served only if the settings say so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub listing: bool,
}

/// A compressed form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Encoded {
    /// `gzip` or `zstd`.
    pub encoding: String,
    /// The compressed content.
    pub object: ObjectId,
    /// Its size.
    pub bytes: u64,
}

/// A redirect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redirect {
    /// Path; with `*` at its end, everything below.
    pub from: String,
    /// Path or URL; with `*` at its end, what the star of `from` stood for is put there.
    pub to: String,
    /// 301, 302, 303, 307 or 308.
    #[serde(default = "moved")]
    pub status: u16,
}

const fn moved() -> u16 {
    308
}

/// A header for paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeaderRule {
    /// Path; with `*` at its end, everything below; `*.css` is every path with this end.
    pub path: String,
    /// The header.
    pub name: String,
    /// Its value; empty removes it.
    pub value: String,
}

/// A source file as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Its node.
    pub node: NodeId,
    /// The space's count at its last change.
    pub seq: i64,
    /// Its content here.
    pub object: ObjectId,
}

impl Index {
    /// Every content it needs.
    pub fn objects(&self) -> impl Iterator<Item = ObjectId> {
        let of_route = |route: &Route| {
            let encoded: Vec<ObjectId> = route.encodings.iter().map(|encoded| encoded.object).collect();
            std::iter::once(route.object).chain(encoded)
        };
        let routes: Vec<ObjectId> = self.routes.values().flat_map(of_route).collect();
        routes.into_iter().chain(self.search)
    }
}

/// Whether a rule's pattern covers a path.
pub(crate) fn covers(pattern: &str, path: &str) -> bool {
    if let Some(end) = pattern.strip_prefix('*') {
        return path.ends_with(end);
    }
    match pattern.strip_suffix('*') {
        Some(start) => path.starts_with(start),
        None => path == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_cover_a_path_a_beginning_or_an_end() {
        assert!(covers("/a", "/a") && !covers("/a", "/a/b"));
        assert!(covers("/a/*", "/a/b") && !covers("/a/*", "/b"));
        assert!(covers("*.css", "/x/y.css") && !covers("*.css", "/x.css.txt"));
        assert!(covers("*", "/anything"));
    }
}
