//! A bucket's keys as folders with members.
//!
//! A folder is what keys have in common up to a slash. Services list in byte order of keys, in which `a/` comes after `a-b`, so a folder's pages are gathered
//! and sorted by name. What is no name (two slashes in a row, `..`, control characters) is refused beside the rest; where there is
//! an object `a` and a folder `a/`, the folder is told and the object refused.

use super::bucket::{Bucket, version_of};
use super::failure::About;
use crate::other::MEMBERS_MAX;
use crate::site::{Item, Kind, Version};
use holdfast_base::limits::FILE_BYTES_MAX;
use holdfast_base::{Error, ErrorKind, NodeName, Result};
use holdfast_blob::s3::Call;
use holdfast_blob::xml::walk;
use http::{Method, StatusCode};
use std::collections::HashSet;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A page of 1,000 keys of up to 1,024 bytes each, escaped, and its markup, several times over.
pub(super) const LIST_BYTES_MAX: usize = 8 << 20;
/// Members that are told as refused; the others are not fewer for it.
const REFUSED_MAX: usize = 1_000;

/// A page of a listing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    objects: Vec<Object>,
    folders: Vec<String>,
    more: bool,
    next: Option<String>,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Object {
    key: String,
    size: Option<u64>,
    etag: Option<String>,
    modified_ns: Option<i64>,
}

/// Members of a folder, in no order.
#[derive(Debug, Default)]
pub(super) struct Members {
    pub(super) items: Vec<Item>,
    pub(super) refused: Vec<(String, Error)>,
}

impl Page {
    pub(super) const fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.folders.is_empty()
    }

    /// Whether there is something besides the object of this key.
    pub(super) fn has_other_than(&self, key: &str) -> bool {
        self.folders.iter().any(|folder| folder != key) || self.objects.iter().any(|object| object.key != key)
    }
}

fn parse(xml: &[u8]) -> Result<Page> {
    let (mut page, mut object, mut is_list) = (Page::default(), Object::default(), false);
    walk(xml, |path, text| {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        match path[..] {
            [_, "Contents", "Key"] => text.clone_into(&mut object.key),
            [_, "Contents", "Size"] => object.size = text.trim().parse().ok(),
            [_, "Contents", "ETag"] => object.etag = Some(text.trim().to_owned()),
            [_, "Contents", "LastModified"] => object.modified_ns = moment(text.trim()),
            [_, "Contents"] => page.objects.push(std::mem::take(&mut object)),
            [_, "CommonPrefixes", "Prefix"] => page.folders.push(text.to_owned()),
            [_, "IsTruncated"] => page.more = text.trim() == "true",
            [_, "NextContinuationToken"] => page.next = Some(text.to_owned()),
            [root] => is_list = root == "ListBucketResult",
            _ => {}
        }
        Ok(())
    })?;
    if is_list { Ok(page) } else { Err(Error::damaged("the service's answer is not the list it should be")) }
}

fn moment(text: &str) -> Option<i64> {
    i64::try_from(OffsetDateTime::parse(text, &Rfc3339).ok()?.unix_timestamp_nanos()).ok()
}

impl Bucket {
    /// A page of what is below a prefix, which is empty or ends in a slash.
    pub(super) async fn page(&self, prefix: &str, token: Option<&str>, most: usize) -> Result<Page> {
        let mut call = Call::new(Method::GET).query("list-type", "2").query("delimiter", "/").query("prefix", prefix);
        call = call.query("max-keys", &most.to_string());
        if let Some(token) = token {
            call = call.query("continuation-token", token);
        }
        let reply = self.send(call).await?;
        match reply.answer.status {
            StatusCode::OK => parse(&reply.text(LIST_BYTES_MAX).await?),
            _ => Err(self.failure(reply, About::Bucket).await),
        }
    }

    /// All members of a folder.
    pub(super) async fn members(&self, prefix: &str) -> Result<Members> {
        let (mut members, mut folders, mut token) = (Members::default(), HashSet::new(), None::<String>);
        loop {
            let page = self.page(prefix, token.as_deref(), 1_000).await?;
            for folder in &page.folders {
                members.folder(prefix, folder, &mut folders);
            }
            for object in &page.objects {
                members.object(prefix, object);
            }
            if members.items.len() > MEMBERS_MAX {
                return Err(Error::new(ErrorKind::TooLarge, format!("{prefix} has more than {MEMBERS_MAX} members")));
            }
            match page.next {
                _ if !page.more => break,
                Some(next) if Some(&next) != token.as_ref() && !next.is_empty() => token = Some(next),
                _ => return Err(Error::damaged("the service says that there is more of a list, and not where")),
            }
        }
        members.give_way(&folders);
        Ok(members)
    }
}

impl Members {
    fn refuse(&mut self, name: &str, error: Error) {
        if self.refused.len() < REFUSED_MAX {
            self.refused.push((name.chars().take(300).collect(), error));
        }
    }

    fn folder(&mut self, prefix: &str, key: &str, folders: &mut HashSet<NodeName>) {
        let Some(name) = key.strip_prefix(prefix).and_then(|rest| rest.strip_suffix('/')) else {
            return self.refuse(key, Error::damaged("the service listed what was not asked for"));
        };
        match NodeName::new(name) {
            Ok(name) => {
                if folders.insert(name.clone()) {
                    self.items.push(folder_item(name));
                }
            }
            Err(error) => self.refuse(key, error.context("a folder in the bucket has no name that can be carried")),
        }
    }

    fn object(&mut self, prefix: &str, object: &Object) {
        // The folder's own marker.
        if object.key == prefix {
            return;
        }
        let Some(name) = object.key.strip_prefix(prefix).filter(|name| !name.contains('/')) else {
            return self.refuse(&object.key, Error::damaged("the service listed what was not asked for"));
        };
        let size = object.size.filter(|size| *size <= FILE_BYTES_MAX);
        match (NodeName::new(name), size) {
            (Ok(name), Some(size)) => {
                let version = version_of(object.etag.as_deref(), size, object.modified_ns);
                let modified_ns = object.modified_ns;
                self.items.push(Item { name, kind: Kind::File, size, modified_ns, mode: None, version });
            }
            (Err(error), _) => self.refuse(&object.key, error),
            (_, None) => self.refuse(&object.key, Error::damaged("the service tells no size of it that can be")),
        }
    }

    /// An object beside a folder of the same name cannot be a file anywhere else.
    fn give_way(&mut self, folders: &HashSet<NodeName>) {
        let hidden = self.items.extract_if(.., |item| item.kind == Kind::File && folders.contains(&item.name));
        let hidden: Vec<Item> = hidden.collect();
        for item in hidden {
            let what = "there is a folder of the same name in the bucket, and only one of both can be moved";
            self.refuse(item.name.as_str(), Error::new(ErrorKind::WrongKind, what));
        }
    }
}

/// A folder, of which nothing else is known.
pub(super) fn folder_item(name: NodeName) -> Item {
    Item { name, kind: Kind::Folder, size: 0, modified_ns: None, mode: None, version: Version(String::new()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><Prefix>p/</Prefix><IsTruncated>true</IsTruncated>
<NextContinuationToken>t=</NextContinuationToken>
<Contents><Key>p/</Key><Size>0</Size></Contents>
<Contents><Key>p/a&amp;b</Key><Size>12</Size><ETag>&quot;x&quot;</ETag><LastModified>2026-01-02T03:04:05.678Z</LastModified></Contents>
<Contents><Key>p/a</Key><Size>1</Size></Contents><Contents><Key>p/..</Key><Size>1</Size></Contents><Contents><Key>p/big</Key></Contents>
<CommonPrefixes><Prefix>p/a/</Prefix></CommonPrefixes><CommonPrefixes><Prefix>p//</Prefix></CommonPrefixes></ListBucketResult>"#;

    #[test]
    fn a_page_has_objects_and_folders_and_where_the_next_begins() {
        let page = parse(LIST.as_bytes()).expect("a list");
        assert_eq!((page.objects.len(), page.folders.clone()), (5, vec!["p/a/".to_owned(), "p//".to_owned()]));
        assert_eq!((page.more, page.next.as_deref()), (true, Some("t=")));
        assert_eq!(page.objects[1].modified_ns, Some(1_767_323_045_678_000_000));
    }

    #[test]
    fn what_is_no_name_is_refused_beside_the_rest_and_a_file_gives_way_to_a_folder() {
        let page = parse(LIST.as_bytes()).expect("a list");
        let (mut members, mut folders) = (Members::default(), HashSet::new());
        page.folders.iter().for_each(|folder| members.folder("p/", folder, &mut folders));
        for object in &page.objects {
            members.object("p/", object);
        }
        members.give_way(&folders);
        let items: Vec<_> = members.items.iter().map(|item| (item.name.as_str(), item.kind.clone())).collect();
        assert_eq!(items, [("a", Kind::Folder), ("a&b", Kind::File)]);
        assert_eq!(members.items[1].version, Version("x".into()));
        let refused: Vec<_> = members.refused.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(refused, ["p//", "p/..", "p/big", "a"]);
    }

    #[test]
    fn what_is_no_list_is_not_taken_for_an_empty_one() {
        for text in ["", "<html></html>", "<ListBucketResult>", "{}"] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
