//! Web servers as places to pull from: a file, `web:https://example.org/data/set.h5`; a folder by its [listing pages](folder),
//! `web:https://example.org/data/`; and files by a [list](listed) of them, `web-list:` and `metalink:`.
//!
//! Where the server knows ranges, blocks are asked for side by side, each on the condition
//! that the file is still the same (`If-Range`, RFC 9110 section 13.1.5), and what an earlier try brought is not asked for again. Where it does not, the
//! answer is read from its start, and what stands already is read and thrown away. The version is the entity tag, or else the time of change and
//! the size; a server that gives neither is never resumed by another run. A sum that the server tells of a file, in an answer's head, a list or a file
//! beside it ([`digests`]), is held against what arrived.

mod answer;
pub(crate) mod client;
mod content;
pub mod digests;
mod file;
pub mod fixed;
mod folder;
mod listed;
pub mod page;
#[cfg(test)]
mod tests;

use crate::other::{KeptListings, Login};
use crate::site::{Content, Incoming, Item, Kind, Listed, Site, Version, Wanted};
use async_trait::async_trait;
use client::Client;
use file::File;
use folder::Folder;
use holdfast_base::{DrivePath, Error, ErrorKind, NodeName, Result};
use http::Uri;
use listed::Fixed;
use percent_encoding::percent_decode_str;
use std::path::Path;
use std::sync::Arc;

/// Kinds of lists, by what is before their address.
const LISTS: [&str; 2] = ["web-list", "metalink"];

/// Files of web servers.
pub struct WebSite(Box<dyn Shelf>);

/// Where files are found.
#[async_trait]
trait Shelf: Send + Sync {
    fn address(&self) -> String;
    async fn look(&self, path: &DrivePath) -> Result<Option<Item>>;
    async fn list(&self, folder: &DrivePath, after: Option<&NodeName>) -> Result<Listed>;
    async fn open(&self, path: &DrivePath, item: &Item) -> Result<Arc<dyn Content>>;
}

/// Whether an address is of a web server's files.
pub fn is_web(address: &str) -> bool {
    address.split_once(':').is_some_and(|(kind, rest)| match kind {
        "web" => rest.contains("://"),
        kind => LISTS.contains(&kind),
    })
}

impl WebSite {
    /// The site that an address means, the path in it, and whether what is in that is meant.
    pub async fn at(address: &str, login: &Login) -> Result<(Self, DrivePath, bool)> {
        let (kind, rest) = address.split_once(':').ok_or_else(|| Error::invalid(format!("{address} is no address")))?;
        if LISTS.contains(&kind) {
            let client = Client::new(login.ca.as_deref())?;
            // Signing in is for the server that has the list.
            let client = if rest.contains("://") { client.signed_in(&checked(rest)?, login)? } else { client };
            let list = Fixed::read(kind, rest, client, run()).await.map_err(|error| error.context(rest))?;
            return Ok((Self(Box::new(list)), DrivePath::root(), true));
        }
        let (url, dot) =
            rest.strip_suffix("/.").map_or((rest.to_owned(), false), |folder| (format!("{folder}/"), true));
        if url.contains('?') || !url.ends_with('/') {
            let (site, path) = Self::file(rest, login)?;
            return Ok((site, path, false));
        }
        Self::folder(&url, dot, login)
    }

    /// The file at an address; the server is not asked yet.
    pub fn file(url: &str, login: &Login) -> Result<(Self, DrivePath)> {
        let uri = checked(url)?;
        let name = last_name(uri.path().rsplit('/').next().unwrap_or_default(), url)?;
        let client = Arc::new(Client::new(login.ca.as_deref())?.signed_in(&uri, login)?);
        let path = DrivePath::from_names(vec![name.clone()])?;
        Ok((Self(Box::new(One { file: File { client, url: uri, run: run() }, name })), path))
    }

    fn folder(url: &str, dot: bool, login: &Login) -> Result<(Self, DrivePath, bool)> {
        let base = checked(url)?;
        let client = Arc::new(Client::new(login.ca.as_deref())?.signed_in(&base, login)?);
        let last = base.path().trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let name = if dot || last.is_empty() { None } else { Some(last_name(last, url)?) };
        let path = DrivePath::from_names(name.iter().cloned().collect())?;
        let (members, kept) = (name.is_none(), KeptListings::default());
        let folder = Folder { client, run: run(), base, name, kept, sides: parking_lot::Mutex::default() };
        Ok((Self(Box::new(folder)), path, members))
    }
}

/// Stands for the version of what has none, in this run.
fn run() -> Arc<str> {
    format!("{:?}", std::time::SystemTime::now()).into()
}

fn checked(url: &str) -> Result<Uri> {
    let uri: Uri = url.parse().map_err(|_| Error::invalid(format!("{url} is no address")))?;
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(Error::invalid("an address cannot have a name or password in it: others see command lines"));
    }
    fixed::web_address(url)
        .ok_or_else(|| Error::invalid(format!("{url} must begin with https:// or http:// and a host")))
}

fn last_name(last: &str, url: &str) -> Result<NodeName> {
    let decoded = percent_decode_str(last).decode_utf8().map_err(|_| Error::invalid(format!("{last} is not UTF-8")))?;
    NodeName::new(&decoded).map_err(|error| error.context(format!("the last part of {url} is to be a name")))
}

/// A list's text, and its address if it came from a server.
async fn read_list(client: &Client, at: &str) -> Result<(Vec<u8>, Option<Uri>)> {
    if at.contains("://") {
        let page = client.page(&checked(at)?, fixed::LIST_BYTES_MAX).await?;
        let page = page.ok_or_else(|| Error::not_found("the list is not there"))?;
        return Ok((page.bytes, Some(page.url)));
    }
    let path = Path::new(at).to_owned();
    let read = tokio::task::spawn_blocking(move || {
        use std::io::Read;
        let mut text = Vec::new();
        std::fs::File::open(path)?.take(fixed::LIST_BYTES_MAX as u64 + 1).read_to_end(&mut text)?;
        std::io::Result::Ok(text)
    });
    let text = read.await.map_err(|error| Error::internal("a thread was lost").with_source(error))??;
    if text.len() > fixed::LIST_BYTES_MAX {
        return Err(Error::new(ErrorKind::TooLarge, format!("the list has more than {} bytes", fixed::LIST_BYTES_MAX)));
    }
    Ok((text, None))
}

/// An address without what may open it: queries may hold that.
fn shown(url: &Uri) -> String {
    let (scheme, host) = (url.scheme_str().unwrap_or_default(), url.authority().map_or("", |host| host.as_str()));
    format!("{scheme}://{host}{}", url.path().rsplit_once('/').map_or("", |(folder, _)| folder))
}

/// One file.
struct One {
    file: File,
    name: NodeName,
}

impl One {
    fn is_file(&self, path: &DrivePath) -> bool {
        matches!(path.names(), [name] if *name == self.name)
    }
}

#[async_trait]
impl Shelf for One {
    fn address(&self) -> String {
        shown(&self.file.url)
    }

    async fn look(&self, path: &DrivePath) -> Result<Option<Item>> {
        if path.is_root() {
            let (name, version) = (NodeName::new("web")?, Version(String::new()));
            return Ok(Some(Item { name, kind: Kind::Folder, size: 0, modified_ns: None, mode: None, version }));
        }
        if !self.is_file(path) {
            return Ok(None);
        }
        Ok(self.file.ask().await?.map(|told| self.file.item(self.name.clone(), &told)))
    }

    async fn list(&self, folder: &DrivePath, after: Option<&NodeName>) -> Result<Listed> {
        if !folder.is_root() {
            return Err(Error::not_found("there are no folders in the address of a file"));
        }
        if after.is_some() {
            return Ok(Listed::default());
        }
        let told = self.file.ask().await?;
        let items = told.map(|told| self.file.item(self.name.clone(), &told)).into_iter().collect();
        Ok(Listed { items, ..Listed::default() })
    }

    async fn open(&self, path: &DrivePath, item: &Item) -> Result<Arc<dyn Content>> {
        if !self.is_file(path) {
            return Err(Error::not_found(format!("{path} is not there")));
        }
        let side = self.file.side().await;
        self.file.clone().open(item, side).await
    }
}

fn source_only() -> Error {
    Error::new(ErrorKind::Unsupported, "files can be pulled from a web server, and not pushed to it")
}

#[async_trait]
impl Site for WebSite {
    fn address(&self) -> String {
        self.0.address()
    }

    async fn look(&self, path: &DrivePath) -> Result<Option<Item>> {
        self.0.look(path).await
    }

    async fn list(&self, folder: &DrivePath, after: Option<&NodeName>) -> Result<Listed> {
        self.0.list(folder, after).await
    }

    async fn open(&self, path: &DrivePath, item: &Item) -> Result<Arc<dyn Content>> {
        self.0.open(path, item).await
    }

    async fn make_folder(&self, _path: &DrivePath) -> Result<()> {
        Err(source_only())
    }

    async fn make_link(&self, _path: &DrivePath, _to: &str, _replaces: Option<&Item>) -> Result<()> {
        Err(source_only())
    }

    async fn begin(&self, _wanted: &Wanted) -> Result<Box<dyn Incoming>> {
        Err(source_only())
    }

    async fn remove(&self, _path: &DrivePath, _item: &Item) -> Result<()> {
        Err(source_only())
    }

    async fn settle(&self) -> Result<()> {
        Ok(())
    }
}
