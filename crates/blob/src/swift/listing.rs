//! Lists of a container, as JSON.

use super::SwiftObjects;
use super::call::{Call, Target};
use crate::object::{Listed, Page};
use holdfast_base::{Error, Result};
use http::{Method, StatusCode};
use serde::Deserialize;

/// A page of 1,000 objects, each with a name of up to 1,024 bytes in escapes, a hash, a time and a type, twice over.
pub(super) const LIST_BYTES_MAX: usize = 16 << 20;

/// One object of a list.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) bytes: u64,
    /// Such as `2026-01-02T03:04:05.678900`, in UTC.
    #[serde(default)]
    pub(super) last_modified: Option<String>,
}

/// Reads the answer to a GET of a container in JSON: one page, of which `limit` objects were asked for.
pub(super) fn entries(json: &[u8]) -> Result<Vec<Entry>> {
    serde_json::from_slice(json).map_err(|error| {
        let place = format!("line {}, column {}: {error}", error.line(), error.column());
        Error::damaged("the store's answer is not the list it should be").with_source(place)
    })
}

/// Reads the answer to a GET of a container in JSON. Whether there are more is not in it: a full page may be the last.
pub fn parse_list(json: &[u8], limit: usize) -> Result<Page> {
    let entries = entries(json)?;
    let more = entries.len() >= limit;
    let entries = entries.into_iter().map(|entry| Listed { key: entry.name, bytes: entry.bytes }).collect();
    Ok(Page { entries, more })
}

impl SwiftObjects {
    pub(super) async fn list(
        &self,
        target: Target<'_>,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page> {
        let json = self.list_json(target, prefix, after, limit).await?;
        parse_list(&json, limit)
    }

    pub(super) async fn list_json(
        &self,
        target: Target<'_>,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<u8>> {
        let mut call = Call::new(Method::GET, target).query("format", "json").query("limit", &limit.to_string());
        if !prefix.is_empty() {
            call = call.query("prefix", prefix);
        }
        if let Some(after) = after {
            call = call.query("marker", after);
        }
        let answer = self.swift.send(call).await?;
        match answer.status {
            StatusCode::OK => answer.text(LIST_BYTES_MAX).await,
            StatusCode::NO_CONTENT => {
                answer.finish().await?;
                Ok(b"[]".to_vec())
            }
            _ => Err(self.swift.failure(answer, target).await),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_names_and_lengths_and_a_full_page_may_have_a_successor() {
        let json =
            br#"[{"name": "a", "bytes": 3, "hash": "x", "content_type": "t", "last_modified": "2026-01-02T03:04:05.6"},
            {"name": "b", "bytes": 0}]"#;
        let page = parse_list(json, 2).expect("a list");
        assert_eq!(page.entries.iter().map(|entry| entry.bytes).collect::<Vec<_>>(), [3, 0]);
        assert!(page.more && !parse_list(json, 3).expect("a list").more);
    }

    #[test]
    fn what_is_no_list_is_not_taken_for_an_empty_one() {
        for text in ["", "{}", "null", "[{}]", "[{\"name\": \"a\", \"bytes\": -1}]", "[{\"subdir\": \"x/\"}]", "[1"] {
            assert!(parse_list(text.as_bytes(), 10).is_err(), "{text}");
        }
    }
}
