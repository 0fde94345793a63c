//! A folder of an SFTP server as a place with files.
//!
//! | module | what it does |
//! |---|---|
//! | `address` | from an address to a folder and a path in it |
//! | `connect`, `askpass`, `heard` | the machine's `ssh`: how it is started, what it asks, what it says |
//! | `pool`, `session`, `wire` | connections, requests that overlap, and messages |
//! | `folders`, `item`, `listing`, `content` | looking, listing and reading |
//! | `incoming`, `marks`, `leftovers`, `place` | taking files in: part files, how far they can be trusted, and giving them their name |
//! | `durable` | which folders have to be synced |
//!
//! The protocol has paths and no opened folders to start from, so each folder on the way is looked at before it is used, and passed only if it is one and no
//! link ([`folders`]). Whoever may rename folders on the server at the same moment can still come in between.

mod address;
mod askpass;
mod connect;
mod content;
mod durable;
mod failure;
mod folders;
mod heard;
mod incoming;
mod item;
mod leftovers;
mod listing;
mod marks;
mod place;
mod pool;
mod session;
pub mod wire;

pub(crate) use address::{destination, is_address, source};
pub use askpass::answer as answer_ssh;

use crate::other::KeptListings;
use crate::part::PartName;
use crate::site::{Content, Incoming, Item, Kind, Listed, Site, Wanted};
use async_trait::async_trait;
use holdfast_base::{DrivePath, Error, ErrorKind, NodeName, Result};
use place::Place;
use session::Session;
use std::sync::Arc;
use wire::{Ask, Attrs, Request};

/// A folder of an SFTP server.
pub struct SftpSite {
    inner: Arc<Inner>,
}

struct Inner {
    pool: pool::Pool,
    address: String,
    root: folders::Root,
    kept: KeptListings,
    durable: durable::Durable,
    leftovers: leftovers::Leftovers,
}

impl SftpSite {
    /// The folder at an absolute path of the server, without links in it.
    async fn new(pool: pool::Pool, session: &Arc<Session>, path: &str) -> Result<Self> {
        let durable = durable::Durable::of(session, path).await?;
        let connect::Target { host, port, user, .. } = pool.target();
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_ascii_lowercase() };
        let user = user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        let inner = Inner {
            address: format!("sftp://{user}{host}{port}{path}"),
            pool,
            root: folders::Root::new(path),
            kept: KeptListings::default(),
            durable,
            leftovers: leftovers::Leftovers::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }
}

#[async_trait]
impl Site for SftpSite {
    fn address(&self) -> String {
        self.inner.address.clone()
    }

    async fn look(&self, path: &DrivePath) -> Result<Option<Item>> {
        let session = self.inner.pool.get().await?;
        self.inner.look(&session, path).await
    }

    async fn list(&self, folder: &DrivePath, after: Option<&NodeName>) -> Result<Listed> {
        if let Some(listed) = self.inner.kept.next(folder, after) {
            return Ok(listed);
        }
        let session = self.inner.pool.get().await?;
        let at = self.inner.root.folder(&session, folder).await?;
        let all = listing::list(&session, &at).await?;
        self.inner.leftovers.know(folder, all.parts);
        self.inner.kept.begin(folder, after, all.items, all.refused)
    }

    async fn open(&self, path: &DrivePath, item: &Item) -> Result<Arc<dyn Content>> {
        let session = self.inner.pool.get().await?;
        let place = self.inner.place(&session, path).await?;
        Ok(Arc::new(content::SftpContent::open(&place, item).await?))
    }

    async fn make_folder(&self, path: &DrivePath) -> Result<()> {
        let session = self.inner.pool.get().await?;
        self.inner.make_folder(&session, path).await
    }

    async fn make_link(&self, path: &DrivePath, to: &str, replaces: Option<&Item>) -> Result<()> {
        let session = self.inner.pool.get().await?;
        self.inner.make_link(&session, path, to, replaces).await
    }

    async fn begin(&self, wanted: &Wanted) -> Result<Box<dyn Incoming>> {
        Ok(Box::new(incoming::SftpIncoming::begin(Arc::clone(&self.inner), wanted.clone()).await?))
    }

    async fn remove(&self, path: &DrivePath, item: &Item) -> Result<()> {
        let session = self.inner.pool.get().await?;
        self.inner.remove(&session, path, item).await
    }

    async fn settle(&self) -> Result<()> {
        let session = self.inner.pool.get().await?;
        self.inner.durable.settle(&session, &self.inner.root).await
    }
}

impl Inner {
    /// A name in a folder, which is one and no link.
    async fn place(&self, session: &Arc<Session>, path: &DrivePath) -> Result<Place> {
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
            return Err(Error::invalid(format!("{} is the folder itself, and nothing in it", self.address)));
        };
        let folder = self.root.folder(session, &parent).await?;
        Ok(Place::new(Arc::clone(session), &folder, name.clone()))
    }

    async fn look(&self, session: &Arc<Session>, path: &DrivePath) -> Result<Option<Item>> {
        if path.is_root() {
            return self.root.look(session).await.map(Some);
        }
        match self.place(session, path).await {
            Ok(place) => place.look().await,
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn make_folder(&self, session: &Arc<Session>, path: &DrivePath) -> Result<()> {
        let place = self.place(session, path).await?;
        let request = Request::new(Ask::MakeFolder).bytes(place.path().as_bytes()).attrs(&Attrs::default());
        let Err(status) = session.tell(request).await? else {
            self.leftovers.know(path, Vec::new());
            self.durable.changed(session, &self.root, &path.parent().unwrap_or_default()).await?;
            return Ok(());
        };
        match place.look().await? {
            Some(Item { kind: Kind::Folder, .. }) => Ok(()),
            Some(_) => Err(Error::new(ErrorKind::WrongKind, format!("{} is there and is no folder", place.path()))),
            None => Err(place.failed("making the folder", status).await),
        }
    }

    async fn make_link(
        &self,
        session: &Arc<Session>,
        path: &DrivePath,
        to: &str,
        replaces: Option<&Item>,
    ) -> Result<()> {
        let place = self.place(session, path).await?;
        place.check(replaces).await?;
        let made = place.beside(&PartName::new(&place.name, &format!("link\n{to}")).part());
        // As OpenSSH has it, and with it everybody: first what it leads to, which the draft has the other way round.
        let request = Request::new(Ask::MakeLink).bytes(to.as_bytes()).bytes(made.as_bytes());
        if let Err(status) = session.tell(request).await? {
            // An earlier try may have left it.
            match session.path(Ask::ReadLink, &made).await? {
                Ok(there) if there == to.as_bytes() => {}
                _ => return Err(place.failed("making the link", status).await),
            }
        }
        if let Err(error) = place.put(&made, replaces).await {
            place.unlink(&made).await;
            return Err(error);
        }
        self.durable.changed(session, &self.root, &path.parent().unwrap_or_default()).await
    }

    async fn remove(&self, session: &Arc<Session>, path: &DrivePath, item: &Item) -> Result<()> {
        let place = self.place(session, path).await?;
        let folder = item.kind == Kind::Folder;
        match place.look().await? {
            Some(there) if (there.kind == Kind::Folder) == folder && (folder || there.version == item.version) => {}
            _ => {
                let what = format!("{} is not what was listed any more", place.path());
                return Err(Error::new(ErrorKind::PreconditionFailed, what));
            }
        }
        if folder {
            self.root.forget(path);
            for left in listing::parts(session, &place.path()).await? {
                place.unlink(&format!("{}/{left}", place.path())).await;
            }
        }
        let kind = if folder { Ask::RemoveFolder } else { Ask::Remove };
        let removed = session.tell(Request::new(kind).bytes(place.path().as_bytes())).await?;
        if let Err(status) = removed {
            return Err(place.failed("removing", status).await);
        }
        self.durable.changed(session, &self.root, &path.parent().unwrap_or_default()).await
    }
}
