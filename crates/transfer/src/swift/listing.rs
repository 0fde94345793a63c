//! A container's names as folders with members. Services list in byte order of names, in which `a/` comes after `a-b`, so a folder's pages are gathered
//! and sorted.

use super::container::Container;
use crate::other::MEMBERS_MAX;
use crate::site::{Item, Kind, Version};
use holdfast_base::limits::FILE_BYTES_MAX;
use holdfast_base::{Error, ErrorKind, NodeName, Result};
use holdfast_blob::swift::{Call, Target};
use http::{Method, StatusCode};
use serde::Deserialize;
use std::collections::HashSet;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Names of a page.
pub(super) const PAGE: usize = 1_000;
/// A page of names of up to 1,024 bytes in escapes, and what is told of each, twice over.
const LIST_BYTES_MAX: usize = 16 << 20;
/// Members that are told as refused.
const REFUSED_MAX: usize = 1_000;

/// One line of a list: an object, or what several have in common.
#[derive(Debug, Deserialize)]
pub(super) struct Entry {
    pub(super) name: Option<String>,
    subdir: Option<String>,
    pub(super) bytes: Option<u64>,
    pub(super) hash: Option<String>,
    /// The tag of a manifest, which is not its hash.
    slo_etag: Option<String>,
    /// Such as `2026-01-02T03:04:05.678900`, in UTC.
    last_modified: Option<String>,
}

impl Entry {
    fn place(&self) -> Option<&str> {
        self.name.as_deref().or(self.subdir.as_deref())
    }

    fn item(&self, name: NodeName) -> Result<Item> {
        let size = self.bytes.filter(|size| *size <= FILE_BYTES_MAX);
        let size = size.ok_or_else(|| Error::damaged("the service tells no size of it that can be"))?;
        let etag = self.slo_etag.as_deref().or(self.hash.as_deref()).unwrap_or_default().trim_matches('"');
        let stored = self.last_modified.as_ref().and_then(|at| OffsetDateTime::parse(&format!("{at}Z"), &Rfc3339).ok());
        let modified_ns = stored.and_then(|at| i64::try_from(at.unix_timestamp_nanos()).ok());
        Ok(Item { name, kind: Kind::File, size, modified_ns, mode: None, version: Version(etag.to_owned()) })
    }
}

/// Members of a folder, in no order.
#[derive(Debug, Default)]
pub(super) struct Members {
    pub(super) items: Vec<Item>,
    pub(super) refused: Vec<(String, Error)>,
    folders: HashSet<NodeName>,
}

/// A folder, of which nothing else is known.
pub(super) fn folder_item(name: NodeName) -> Item {
    Item { name, kind: Kind::Folder, size: 0, modified_ns: None, mode: None, version: Version(String::new()) }
}

impl Container {
    /// A page of what is below a prefix.
    pub(super) async fn page(
        &self,
        target: Target<'_>,
        prefix: &str,
        (delimited, most): (bool, usize),
        after: Option<&str>,
    ) -> Result<Vec<Entry>> {
        let mut call = Call::new(Method::GET, target).query("format", "json").query("limit", &most.to_string());
        if delimited {
            call = call.query("delimiter", "/");
        }
        if !prefix.is_empty() {
            call = call.query("prefix", prefix);
        }
        if let Some(after) = after {
            call = call.query("marker", after);
        }
        let reply = self.send(call).await?;
        match reply.answer.status {
            StatusCode::OK => serde_json::from_slice(&reply.text(LIST_BYTES_MAX).await?).map_err(|error| {
                Error::damaged("the service's answer is not the list it should be").with_source(error)
            }),
            StatusCode::NO_CONTENT => Ok(Vec::new()),
            _ => Err(self.refused(reply, false).await),
        }
    }

    /// All members of a folder.
    pub(super) async fn members(&self, prefix: &str) -> Result<Members> {
        let (mut members, mut after) = (Members::default(), None::<String>);
        loop {
            let page = self.page(Target::Container, prefix, (true, PAGE), after.as_deref()).await?;
            // A page may be short though there are more: an empty one is the end.
            let Some(last) = page.last().and_then(Entry::place).map(ToOwned::to_owned) else { break };
            if after.as_ref().is_some_and(|after| last <= *after) {
                return Err(Error::damaged("the service lists the same names again"));
            }
            for entry in &page {
                members.add(prefix, entry);
            }
            if members.items.len() > MEMBERS_MAX {
                return Err(Error::new(ErrorKind::TooLarge, format!("{prefix} has more than {MEMBERS_MAX} members")));
            }
            if page.len() < PAGE {
                break;
            }
            after = Some(last);
        }
        members.give_way();
        Ok(members)
    }
}

impl Members {
    fn refuse(&mut self, name: &str, error: Error) {
        if self.refused.len() < REFUSED_MAX {
            self.refused.push((name.chars().take(300).collect(), error));
        }
    }

    fn add(&mut self, prefix: &str, entry: &Entry) {
        let place = entry.place().unwrap_or_default();
        // The folder's own marker.
        if place == prefix && entry.name.is_some() {
            return;
        }
        let below = place.strip_prefix(prefix);
        let name = if entry.name.is_some() { below } else { below.and_then(|below| below.strip_suffix('/')) };
        let name = name.ok_or_else(|| Error::damaged("the service listed what was not asked for"));
        match name.and_then(NodeName::new) {
            Err(error) => self.refuse(place, error),
            Ok(name) if entry.name.is_none() => {
                self.folders.insert(name.clone());
                self.items.push(folder_item(name));
            }
            Ok(name) => match entry.item(name) {
                Ok(item) => self.items.push(item),
                Err(error) => self.refuse(place, error),
            },
        }
    }

    /// An object beside a folder of the same name cannot be a file anywhere else.
    fn give_way(&mut self) {
        let folders = std::mem::take(&mut self.folders);
        let hidden: Vec<Item> =
            self.items.extract_if(.., |item| item.kind == Kind::File && folders.contains(&item.name)).collect();
        for item in hidden {
            let what = "there is a folder of the same name in the container, and only one of both can be moved";
            self.refuse(item.name.as_str(), Error::new(ErrorKind::WrongKind, what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"[{"name": "p/", "bytes": 0, "hash": "x"}, {"name": "p/a", "bytes": 1, "hash": "y"},
        {"name": "p/b c", "bytes": 7, "hash": "h", "slo_etag": "\"s\"", "last_modified": "2026-01-02T03:04:05.678900"},
        {"name": "p/..", "bytes": 1}, {"name": "p/x"}, {"subdir": "p/a/"}, {"subdir": "p//"}]"#;

    #[test]
    fn a_page_becomes_members_and_what_cannot_be_one_is_refused() {
        let entries: Vec<Entry> = serde_json::from_str(LIST).expect("a list");
        let mut members = Members::default();
        for entry in &entries {
            members.add("p/", entry);
        }
        members.give_way();
        let items: Vec<_> = members.items.iter().map(|item| (item.name.as_str(), item.version.0.as_str())).collect();
        assert_eq!(items, [("b c", "s"), ("a", "")]);
        assert_eq!(members.items[0].modified_ns, Some(1_767_323_045_678_900_000));
        let refused: Vec<_> = members.refused.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(refused, ["p/..", "p/x", "p//", "a"]);
    }
}
