//! A WebDAV server as a place with files: `dav:https://HOST/PATH` (RFC 4918).
//!
//! | what | how |
//! |---|---|
//! | listings | `PROPFIND` of depth 1, sorted by name |
//! | times | `X-OC-Mtime`, where the server takes it with a PUT; else as a property of our own, which is believed as long as the file has the entity tag it was kept with; else the server's own |
//! | reading | parts side by side; each must be of the entity tag that was listed |
//! | taking in | a PUT under a part's name, and a MOVE over the target on the condition that it is what was listed. What breaks off begins anew |
//! | signing in | Basic or Digest, over https or on this machine |
//! | links, permissions | there are none |
//!
//! Parts of transfers that ended are hidden, as everywhere, and removed when the file they are of is begun again.

mod call;
mod content;
mod digest;
mod listing;
mod outgoing;
#[cfg(test)]
mod tests;

use crate::other::{KeptListings, Login, SiteUrl};
use crate::part::{PartName, is_part};
use crate::site::{Content, Incoming, Item, Kind, Listed, Site, Wanted};
use async_trait::async_trait;
use call::{Call, Server, encoded, refused};
use content::FileContent;
use holdfast_base::{DrivePath, Error, ErrorKind, NodeName, Result};
use http::StatusCode;
use listing::{Told, etag_of, is_stored_time};
use outgoing::Outgoing;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Folders whose parts of earlier transfers are remembered, and parts of each.
const PARTS_MAX: usize = 1_000;
/// Acknowledgements are short.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// A folder of a WebDAV server.
pub struct DavSite {
    inner: Arc<Inner>,
    kept: KeptListings,
    /// Where it begins on the server.
    root: DrivePath,
}

struct Inner {
    server: Server,
    /// Parts that were listed in folders.
    parts: Mutex<HashMap<DrivePath, Vec<String>>>,
}

impl DavSite {
    /// The site and path of a source: the site begins above it.
    pub fn source(url: &SiteUrl, login: &Login) -> Result<(Self, DrivePath)> {
        let (root, path) = match (url.path.parent(), url.path.name()) {
            (Some(above), Some(name)) if !url.members => (above, DrivePath::from_names(vec![name.clone()])?),
            _ => (url.path.clone(), DrivePath::root()),
        };
        Ok((Self::at(url, login, root)?, path))
    }

    /// The site and path of a destination: the site begins at the lowest folder that is there.
    pub async fn destination(url: &SiteUrl, login: &Login) -> Result<(Self, DrivePath)> {
        let mut site = Self::at(url, login, url.path.clone())?;
        let mut missing = Vec::new();
        while site.inner.server.look(&site.root).await?.is_none() {
            let (Some(above), Some(name)) = (site.root.parent(), site.root.name().cloned()) else {
                return Err(Error::not_found(format!("{} has no folders", url.origin())));
            };
            missing.push(name);
            site.root = above;
        }
        missing.reverse();
        Ok((site, DrivePath::from_names(missing)?))
    }

    fn at(url: &SiteUrl, login: &Login, root: DrivePath) -> Result<Self> {
        let inner = Arc::new(Inner { server: Server::new(url, login)?, parts: Mutex::default() });
        Ok(Self { inner, kept: KeptListings::default(), root })
    }

    /// Where something is on the server.
    fn there(&self, path: &DrivePath) -> Result<DrivePath> {
        let names = self.root.names().iter().chain(path.names()).cloned();
        DrivePath::from_names(names.collect())
    }

    fn item(path: &DrivePath, told: &Told) -> Result<Item> {
        told.item(path.name().cloned().map_or_else(|| NodeName::new("folder"), Ok)?)
    }
}

impl Inner {
    /// Removes parts of other versions of a target, as far as they were seen.
    async fn remove_stale(&self, folder: &DrivePath, part: &PartName) {
        let stale: Vec<String> = match self.parts.lock().get_mut(folder) {
            Some(parts) => parts.extract_if(.., |name| part.is_stale(name)).collect(),
            None => return,
        };
        for name in stale {
            if let Ok(part) = NodeName::new(&name).and_then(|name| folder.join(name)) {
                self.remove_part(&part).await;
            }
        }
    }

    /// Removes a part, if that can be had.
    async fn remove_part(&self, part: &DrivePath) {
        let removed = async {
            let reply = self.server.send(Call::new("DELETE", encoded(part, false))?).await?;
            reply.text(TEXT_BYTES_MAX).await
        };
        if let Err(error) = removed.await {
            tracing::debug!(%error, %part, "a part of a transfer was not removed");
        }
    }
}

/// Whether two items of one file are of the same content, whatever is known of its time.
fn is_same(a: &Item, b: &Item) -> bool {
    let version = |item: &Item| etag_of(&item.version).map_or_else(|| item.version.0.clone(), ToOwned::to_owned);
    (&a.kind, a.size, version(a)) == (&b.kind, b.size, version(b))
}

#[async_trait]
impl Site for DavSite {
    fn address(&self) -> String {
        format!("dav:{}{}", self.inner.server.origin, self.root)
    }

    async fn look(&self, path: &DrivePath) -> Result<Option<Item>> {
        let told = self.inner.server.look(&self.there(path)?).await?;
        told.map(|told| Self::item(path, &told)).transpose()
    }

    async fn list(&self, folder: &DrivePath, after: Option<&NodeName>) -> Result<Listed> {
        if let Some(next) = self.kept.next(folder, after) {
            return Ok(next);
        }
        let at = self.there(folder)?;
        let (members, mut refused) = self.inner.server.members(&at).await?;
        let (mut items, mut parts) = (Vec::with_capacity(members.len()), Vec::new());
        for (name, told) in members {
            if is_part(name.as_str()) {
                parts.push(name.to_string());
                continue;
            }
            match told.item(name.clone()) {
                Ok(item) => items.push(item),
                Err(error) => refused.push((name.to_string(), error)),
            }
        }
        parts.truncate(PARTS_MAX);
        let mut seen = self.inner.parts.lock();
        if !parts.is_empty() && seen.len() < PARTS_MAX {
            seen.insert(at, parts);
        }
        drop(seen);
        self.kept.begin(folder, after, items, refused)
    }

    fn is_stored_time(&self, item: &Item) -> bool {
        is_stored_time(item)
    }

    async fn open(&self, path: &DrivePath, item: &Item) -> Result<Arc<dyn Content>> {
        let (inner, path) = (Arc::clone(&self.inner), self.there(path)?);
        Ok(Arc::new(FileContent { inner, path, item: item.clone() }))
    }

    async fn make_folder(&self, path: &DrivePath) -> Result<()> {
        let reply = self.inner.server.send(Call::new("MKCOL", encoded(&self.there(path)?, true))?).await?;
        match reply.answer.status {
            StatusCode::CREATED | StatusCode::OK => reply.text(TEXT_BYTES_MAX).await.map(drop),
            StatusCode::METHOD_NOT_ALLOWED => match self.look(path).await? {
                Some(item) if item.kind == Kind::Folder => Ok(()),
                _ => Err(Error::new(ErrorKind::WrongKind, format!("{path} is there and is no folder"))),
            },
            StatusCode::CONFLICT => Err(Error::not_found(format!("the folder above {path} is not there"))),
            _ => Err(refused(reply).await),
        }
    }

    async fn make_link(&self, _path: &DrivePath, _to: &str, _replaces: Option<&Item>) -> Result<()> {
        Err(Error::new(
            ErrorKind::Unsupported,
            "there are no symbolic links in WebDAV: leave them out with --links skip",
        ))
    }

    async fn begin(&self, wanted: &Wanted) -> Result<Box<dyn Incoming>> {
        let wanted = Wanted { path: self.there(&wanted.path)?, ..wanted.clone() };
        Ok(Box::new(Outgoing::begin(Arc::clone(&self.inner), &wanted).await?))
    }

    async fn remove(&self, path: &DrivePath, item: &Item) -> Result<()> {
        let (server, at) = (&self.inner.server, self.there(path)?);
        let folder = item.kind == Kind::Folder;
        match self.look(path).await? {
            None => return Ok(()),
            Some(now) if folder && now.kind == Kind::Folder => {
                // A DELETE of a folder takes what is in it as well.
                let (members, unnamed) = server.members(&at).await?;
                if !unnamed.is_empty() || members.iter().any(|(name, _)| !is_part(name.as_str())) {
                    return Err(Error::conflict(format!("{path} has something in it")));
                }
            }
            Some(now) if is_same(&now, item) => {}
            Some(_) => {
                return Err(Error::new(
                    ErrorKind::PreconditionFailed,
                    format!("{path} is not what was listed any more"),
                ));
            }
        }
        let reply = server.send(Call::new("DELETE", encoded(&at, folder))?).await?;
        match reply.answer.status {
            StatusCode::OK | StatusCode::NO_CONTENT | StatusCode::NOT_FOUND => {
                reply.text(TEXT_BYTES_MAX).await.map(drop)
            }
            _ => Err(refused(reply).await),
        }
    }

    async fn settle(&self) -> Result<()> {
        Ok(())
    }
}
