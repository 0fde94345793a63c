//! Folders of a web server, by their listing pages: `web:https://example.org/data/`.
//!
//! A page only gives names; what is a file is asked for its size and version, several at a time. Whether a name is a folder is told by the slash that
//! its link ends in.

use super::client::Client;
use super::file::File;
use super::{Shelf, page, shown};
use crate::other::{KeptListings, MEMBERS_MAX};
use crate::site::{Content, Item, Kind, Listed, Version};
use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use holdfast_base::{DrivePath, Error, ErrorKind, NodeName, Result};
use http::Uri;
use parking_lot::Mutex;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::collections::HashSet;
use std::sync::Arc;

/// Files that are asked for at a time, for a page of a listing.
const ASKED: usize = 16;
/// Files that are remembered to have a sum beside them.
const SIDES_MAX: usize = 100_000;
/// What needs no encoding in a path (RFC 3986 section 2.3).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A folder and all below it.
pub(super) struct Folder {
    pub(super) client: Arc<Client>,
    pub(super) run: Arc<str>,
    /// Address of the folder, which ends in a slash.
    pub(super) base: Uri,
    /// Its name, which all paths begin with; none if its members are meant.
    pub(super) name: Option<NodeName>,
    pub(super) kept: KeptListings,
    pub(super) sides: Mutex<HashSet<DrivePath>>,
}

impl Folder {
    /// Names below the folder; none for what is not in it.
    fn below<'p>(&self, path: &'p DrivePath) -> Option<&'p [NodeName]> {
        match &self.name {
            None => Some(path.names()),
            Some(name) => path.names().split_first().filter(|(first, _)| *first == name).map(|(_, rest)| rest),
        }
    }

    fn url(&self, path: &DrivePath, slash: bool) -> Result<Uri> {
        let names = self.below(path).ok_or_else(|| Error::not_found(format!("there is no {path}")))?;
        let mut url = self.base.to_string();
        for (number, name) in names.iter().enumerate() {
            url.extend(utf8_percent_encode(name.as_str(), ENCODED));
            if slash || number + 1 < names.len() {
                url.push('/');
            }
        }
        url.parse().map_err(|error| Error::invalid(format!("{path} has no address")).with_source(error))
    }

    fn file(&self, path: &DrivePath) -> Result<File> {
        Ok(File { client: Arc::clone(&self.client), url: self.url(path, false)?, run: Arc::clone(&self.run) })
    }

    /// What the page of a folder links to; none if there is no page.
    async fn links(&self, folder: &DrivePath) -> Result<Option<(page::Links, Vec<(String, Error)>)>> {
        let Some(page) = self.client.page(&self.url(folder, true)?, page::PAGE_BYTES_MAX).await? else {
            return Ok(None);
        };
        if page.is_json {
            page::json(&page.bytes).map(Some)
        } else {
            Ok(Some(page::html(&page.bytes, page.url.path())))
        }
    }

    async fn list_all(&self, folder: &DrivePath, after: Option<&NodeName>) -> Result<Listed> {
        let links = self.links(folder).await?;
        let (links, refused) = links.ok_or_else(|| Error::not_found(format!("there is no page of {folder}")))?;
        if links.len() > MEMBERS_MAX {
            return Err(Error::new(ErrorKind::TooLarge, format!("{folder} has more than {MEMBERS_MAX} members")));
        }
        let mut sides = self.sides.lock();
        for name in links.keys().filter_map(|name| name.as_str().strip_suffix(".sha256")) {
            if links.contains_key(name) && sides.len() < SIDES_MAX {
                sides.insert(folder.join(NodeName::new(name)?)?);
            }
        }
        drop(sides);
        let items = links.into_iter().map(|(name, folder)| unknown(name, folder)).collect();
        self.kept.begin(folder, after, items, refused)
    }

    /// Asks for the files among some members.
    async fn ask_for(&self, folder: &DrivePath, listed: Listed) -> Result<Listed> {
        let asked = stream::iter(listed.items).map(|item| async move {
            if item.kind == Kind::Folder {
                return Ok(Ok(item));
            }
            let file = self.file(&folder.join(item.name.clone())?)?;
            let told = match file.ask().await {
                Ok(told) => told.ok_or_else(|| Error::not_found("the page links to it, and it is not there")),
                // All of the page is asked for again.
                Err(error) if error.is_temporary() || error.kind() == ErrorKind::Unauthenticated => return Err(error),
                Err(error) => Err(error),
            };
            Ok(told.map(|told| file.item(item.name.clone(), &told)).map_err(|why| (item.name.to_string(), why)))
        });
        let mut asked = std::pin::pin!(asked.buffered(ASKED));
        let mut done = Listed { items: Vec::new(), ..listed };
        while let Some(item) = asked.next().await {
            match item? {
                Ok(item) => done.items.push(item),
                Err(why) => done.refused.push(why),
            }
            crate::signs::current().alive();
        }
        Ok(done)
    }
}

/// A member of which only the name is known.
fn unknown(name: NodeName, folder: bool) -> Item {
    let kind = if folder { Kind::Folder } else { Kind::File };
    Item { name, kind, size: 0, modified_ns: None, mode: None, version: Version(String::new()) }
}

#[async_trait]
impl Shelf for Folder {
    fn address(&self) -> String {
        shown(&self.base)
    }

    async fn look(&self, path: &DrivePath) -> Result<Option<Item>> {
        let Some(names) = self.below(path) else {
            let above = path.is_root().then(|| NodeName::new("web")).transpose()?;
            return Ok(above.map(|name| unknown(name, true)));
        };
        let (Some(name), Some(folder)) = (names.last(), path.parent()) else {
            let name = NodeName::new(self.name.as_ref().map_or("web", NodeName::as_str))?;
            return Ok(self.links(path).await?.map(|_| unknown(name, true)));
        };
        let Some((links, _)) = self.links(&folder).await? else { return Ok(None) };
        match links.get(name) {
            None => Ok(None),
            Some(true) => Ok(Some(unknown(name.clone(), true))),
            Some(false) => {
                let file = self.file(path)?;
                Ok(file.ask().await?.map(|told| file.item(name.clone(), &told)))
            }
        }
    }

    async fn list(&self, folder: &DrivePath, after: Option<&NodeName>) -> Result<Listed> {
        let mut listed = match self.kept.next(folder, after) {
            Some(listed) => listed,
            None => self.list_all(folder, after).await?,
        };
        loop {
            let more = listed.more;
            let last = listed.items.last().map(|item| item.name.clone());
            listed = self.ask_for(folder, listed).await?;
            // A page of which nothing is there is none.
            if !more || !listed.items.is_empty() {
                return Ok(listed);
            }
            let Some(next) = self.kept.next(folder, last.as_ref()) else { return Ok(Listed { more: false, ..listed }) };
            listed = Listed { refused: listed.refused.into_iter().chain(next.refused).collect(), ..next };
        }
    }

    async fn open(&self, path: &DrivePath, item: &Item) -> Result<Arc<dyn Content>> {
        let file = self.file(path)?;
        let has_side = self.sides.lock().contains(path);
        let side = if has_side { file.side().await } else { None };
        file.open(item, side).await
    }
}
