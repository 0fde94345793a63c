//! A container of OpenStack Swift as a place with files: `swift://CONTAINER/PREFIX`.
//!
//! | what | how |
//! |---|---|
//! | folders | what names have in common up to a slash; one with nothing in it is an object `NAME/` of no bytes, made when all else is there |
//! | listings | with a delimiter, by pages, gathered and sorted by name |
//! | times | in the metadata `Mtime`, as rclone keeps them; told by a HEAD, for what has the same size on both sides |
//! | reading | parts side by side, with `If-Match`; a tag that is an MD5 is held against what arrived |
//! | taking in | one PUT with its MD5, or segments and a manifest; segments that are there are kept |
//! | links, permissions | there are none |
//!
//! Requests and sessions are those of [`holdfast_blob::swift`].

mod container;
mod content;
mod listing;
mod login;
mod outgoing;
#[cfg(test)]
mod tests;

use crate::other::keys::{MadeFolders, key_of, prefix_of};
use crate::other::wire::{Moving, Places};
use crate::other::{KeptListings, Login, SiteUrl};
use crate::site::{Content, Incoming, Item, Kind, Listed, Site, Wanted};
use async_trait::async_trait;
use container::Container;
use content::ObjectContent;
use futures_util::{StreamExt, TryStreamExt, stream};
use holdfast_base::{DrivePath, Error, ErrorKind, NodeName, Result};
use holdfast_blob::http::Times;
use holdfast_blob::swift::{Call, Swift, SwiftOptions, Target};
use http::Method;
use listing::folder_item;
use outgoing::Outgoing;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// Objects of folders that are made side by side.
const SIDE_BY_SIDE: usize = 16;

/// A container.
pub struct SwiftSite {
    inner: Arc<Inner>,
    address: String,
    kept: KeptListings,
    made: MadeFolders,
}

struct Inner {
    container: Container,
    /// Whether the container of segments is there.
    segments: OnceCell<()>,
}

impl Inner {
    async fn make_segments_container(&self) -> Result<()> {
        let made = self.segments.get_or_try_init(|| async {
            let reply = self.container.send(Call::new(Method::PUT, Target::Segments)).await?;
            if reply.answer.status.is_success() { Ok(()) } else { Err(self.container.refused(reply, false).await) }
        });
        made.await?;
        Ok(())
    }
}

impl SwiftSite {
    /// The container of an address; the service is not asked yet.
    pub fn new(url: &SiteUrl, login: &Login) -> Result<Self> {
        if url.user.is_some() || url.port.is_some() {
            return Err(Error::invalid("swift://CONTAINER/PREFIX has no user and no port: see --user and --endpoint"));
        }
        let (auth, region) = login::of(login)?;
        let address = format!("{}/{}", login::origin(&auth)?, url.host);
        let mut options = SwiftOptions::new(auth, &url.host);
        (options.region, options.times) = (region, Times::unlimited());
        options.ca_file.clone_from(&login.ca);
        let container =
            Container { swift: Swift::new(&options)?, places: Places::new(login.connections), name: url.host.clone() };
        let inner = Arc::new(Inner { container, segments: OnceCell::new() });
        Ok(Self { inner, address, kept: KeptListings::default(), made: MadeFolders::default() })
    }

    /// Makes the object of a folder.
    async fn mark(&self, folder: &DrivePath) -> Result<()> {
        let key = key_of(folder)? + "/";
        let body = outgoing::body_of(Vec::new(), &Moving::default()).await?;
        let call = Call::new(Method::PUT, Target::Object(&key)).header("if-none-match", "*");
        match self.inner.container.put(call.header("content-type", "application/directory"), body).await {
            Err(error) if error.kind() != ErrorKind::PreconditionFailed => Err(error),
            _ => Ok(()),
        }
    }

    async fn remove_folder(&self, path: &DrivePath) -> Result<()> {
        let key = key_of(path)? + "/";
        self.made.forget(path);
        let there = self.inner.container.page(Target::Container, &key, (false, 2), None).await?;
        if there.iter().any(|entry| entry.name.as_deref() != Some(&key)) {
            return Err(Error::conflict(format!("{path} has something in it")));
        }
        self.inner.container.delete(Target::Object(&key), false).await
    }
}

#[async_trait]
impl Site for SwiftSite {
    fn address(&self) -> String {
        self.address.clone()
    }

    async fn look(&self, path: &DrivePath) -> Result<Option<Item>> {
        let (container, prefix) = (&self.inner.container, prefix_of(path)?);
        let Some(name) = path.name() else {
            container.page(Target::Container, "", (true, 1), None).await?;
            return Ok(Some(folder_item(NodeName::new("container")?)));
        };
        let key = key_of(path)?;
        let (page, head) =
            tokio::join!(container.page(Target::Container, &prefix, (true, 1), None), container.head(&key));
        if !page?.is_empty() || self.made.has(path) {
            return Ok(Some(folder_item(name.clone())));
        }
        head?.map(|head| head.item(name.clone())).transpose()
    }

    async fn list(&self, folder: &DrivePath, after: Option<&NodeName>) -> Result<Listed> {
        if let Some(next) = self.kept.next(folder, after) {
            return Ok(next);
        }
        let members = self.inner.container.members(&prefix_of(folder)?).await?;
        self.kept.begin(folder, after, members.items, members.refused)
    }

    async fn exact(&self, path: &DrivePath, item: &Item) -> Result<Item> {
        match self.inner.container.head(&key_of(path)?).await? {
            Some(head) => head.item(item.name.clone()),
            None => Err(Error::new(ErrorKind::PreconditionFailed, format!("{path} is not there any more"))),
        }
    }

    async fn open(&self, path: &DrivePath, item: &Item) -> Result<Arc<dyn Content>> {
        Ok(Arc::new(ObjectContent::new(Arc::clone(&self.inner), key_of(path)?, item)))
    }

    async fn make_folder(&self, path: &DrivePath) -> Result<()> {
        if path.is_root() {
            return self.look(path).await.map(drop);
        }
        if self.made.remember(path) { Ok(()) } else { self.mark(path).await }
    }

    async fn make_link(&self, _path: &DrivePath, _to: &str, _replaces: Option<&Item>) -> Result<()> {
        Err(Error::new(
            ErrorKind::Unsupported,
            "there are no symbolic links in a container: leave them out with --links skip",
        ))
    }

    async fn begin(&self, wanted: &Wanted) -> Result<Box<dyn Incoming>> {
        let name = wanted.path.name().cloned();
        let name = name.ok_or_else(|| Error::new(ErrorKind::WrongKind, "a container cannot be a file"))?;
        self.made.filled(&wanted.path);
        Ok(Box::new(Outgoing::begin(Arc::clone(&self.inner), key_of(&wanted.path)?, name, wanted).await?))
    }

    async fn remove(&self, path: &DrivePath, item: &Item) -> Result<()> {
        if item.kind == Kind::Folder {
            return self.remove_folder(path).await;
        }
        let key = key_of(path)?;
        match self.inner.container.head(&key).await? {
            Some(head) if head.etag == item.version.0 => {
                self.inner.container.delete(Target::Object(&key), head.large).await
            }
            Some(_) => {
                Err(Error::new(ErrorKind::PreconditionFailed, format!("{path} is not what was listed any more")))
            }
            None => Ok(()),
        }
    }

    async fn settle(&self) -> Result<()> {
        let marks = stream::iter(self.made.empty()).map(|folder| async move {
            self.mark(&folder).await?;
            self.made.forget(&folder);
            Ok(())
        });
        marks.buffer_unordered(SIDE_BY_SIDE).try_collect().await
    }
}
