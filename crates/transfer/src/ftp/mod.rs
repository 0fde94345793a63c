//! Servers that speak FTP, with TLS or without: `ftp://`, `ftpes://` (TLS after it is asked for) and `ftps://` (TLS at once, port 990).
//!
//! | module | what it does |
//! |---|---|
//! | `reply`, `list` | what servers answer, and how they list |
//! | `session`, `ask`, `said` | a signed-in connection, what one asks over it, and what is said |
//! | `data`, `tls` | connections for content, and their TLS |
//! | `pool` | several of them |
//! | `content` | reading: from a place on in one go, or by parts side by side where the server is far |
//! | `incoming` | taking in: a part file beside the target, which gets its name when it is whole |
//!
//! **Passwords.** A password is sent over TLS alone, so `ftp://` with a user asks for TLS, and goes no further where there is none, unless
//! [`Login::plain_ftp`] says that it may be read on the way. Whoever signs in as nobody in particular has nothing to hide: `ftp://` without a user is plain.
//!
//! **What the server says is not believed** where it would lead elsewhere: connections for content go to the address of the control connection, and each
//! line, reply and listing has a bound.
//!
//! **Versions** are time and size, and the file's number where MLSD has it. A server that only knows LIST is asked for the time of each file (MDTM), many
//! questions at once. One that does not know times either has only sizes, and files of such a server are moved each time.
//!
//! **Durable** is what the server has taken; FTP has no word for a disk.

mod ask;
mod content;
mod data;
mod incoming;
pub mod list;
mod pool;
pub mod reply;
mod said;
mod session;
#[cfg(test)]
mod tests;
mod tls;

use crate::other::{KeptListings, Login, SiteUrl};
use crate::part::{self, PartName};
use crate::site::{Content, Incoming, Item, Kind, Listed, Site, Version, Wanted};
use async_trait::async_trait;
use content::FtpContent;
use holdfast_auth::Secret;
use holdfast_base::{DrivePath, Error, ErrorKind, NodeName, Result};
use incoming::FtpIncoming;
use list::{Entry, What};
use parking_lot::Mutex;
use pool::Pool;
use session::{Security, Server, Session};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tls::Trust;

/// Connections at a time, if nobody says.
const CONNECTIONS: usize = 4;
/// Part files of earlier transfers that are remembered from listings.
const PARTS_MAX: usize = 10_000;
/// Who one is to a server that lets in everybody.
const ANYBODY: &str = "anonymous";

/// A server.
pub struct FtpSite {
    inner: Arc<Inner>,
}

struct Inner {
    pool: Arc<Pool>,
    address: String,
    kept: KeptListings,
    /// Part files that were listed, of which a stale one is removed when a new one comes for its target.
    parts: Mutex<HashSet<(DrivePath, String)>>,
    /// Somebody said how many connections there are to be, so large files go over several.
    side_by_side: bool,
}

/// Whether an address is of a server of this kind.
pub fn is_ftp(address: &str) -> bool {
    let scheme = address.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    matches!(scheme.as_deref(), Some("ftp" | "ftps" | "ftpes"))
}

impl FtpSite {
    /// The server at an address, which is not asked yet.
    pub fn new(url: &SiteUrl, login: &Login) -> Result<Self> {
        let user = login.user.clone().or_else(|| url.user.clone());
        let nobody = user.as_deref().is_none_or(|user| user == ANYBODY);
        let security = match url.scheme.as_str() {
            "ftps" => Security::Implicit,
            "ftpes" => Security::Explicit,
            _ if nobody || login.plain_ftp => Security::None,
            _ => Security::Explicit,
        };
        let password = match (&login.password, nobody) {
            (Some(password), _) => password.clone(),
            (None, true) => Secret::new("anonymous@"),
            (None, false) => {
                return Err(Error::invalid(format!("{}: --password-file FILE is missing", url.origin())));
            }
        };
        let port = url.port.unwrap_or(if security == Security::Implicit { 990 } else { 21 });
        let user = user.unwrap_or_else(|| ANYBODY.to_owned());
        let address = url.origin().replacen("://", &format!("://{user}@"), 1);
        let trust = Trust::new(login.ca.as_deref())?;
        let (any_tls, pipelined) = (AtomicBool::new(false), Arc::new(AtomicBool::new(true)));
        let server = Server { host: url.host.clone(), port, security, user, password, trust, any_tls, pipelined };
        let pool = Pool::new(server, login.connections.unwrap_or(CONNECTIONS));
        let side_by_side = login.connections.is_some_and(|count| count > 1);
        let (kept, parts) = (KeptListings::default(), Mutex::default());
        Ok(Self { inner: Arc::new(Inner { pool, address, kept, parts, side_by_side }) })
    }
}

impl Inner {
    async fn look(&self, path: &DrivePath) -> Result<Option<Item>> {
        let mut lease = self.pool.lease().await?;
        let found = if path.is_root() { Ok(None) } else { lease.session().look(&path.to_string()).await };
        lease.done();
        if path.is_root() {
            return root().map(Some);
        }
        let name = path.name().ok_or_else(|| Error::internal("a path without a name"))?;
        // What a server calls it in its answer may be another spelling of the path.
        found?.map(|entry| item(Entry { name: name.clone(), ..entry })).transpose().map_err(|(_, error)| error)
    }

    async fn list(&self, folder: &DrivePath, after: Option<&NodeName>) -> Result<Listed> {
        let mut lease = self.pool.lease().await?;
        let listed = self.list_with(lease.session(), folder, after).await;
        lease.done();
        listed
    }

    async fn list_with(&self, session: &mut Session, folder: &DrivePath, after: Option<&NodeName>) -> Result<Listed> {
        let mut listed = match self.kept.next(folder, after) {
            Some(listed) => listed,
            None => self.list_all(session, folder, after).await?,
        };
        if session.features.mlst {
            return Ok(listed);
        }
        let of_files = |item: &&mut Item| item.kind == Kind::File;
        let paths = listed.items.iter_mut().filter(of_files).map(|item| path_of(folder, &item.name));
        let moments = session.moments(&paths.collect::<Vec<_>>()).await?;
        for (item, moment) in listed.items.iter_mut().filter(of_files).zip(moments) {
            item.modified_ns = moment.as_deref().and_then(list::moment);
            item.version = version(item.size, moment.as_deref(), None);
        }
        Ok(listed)
    }

    /// Reads all of a folder, in bounded memory.
    async fn list_all(&self, session: &mut Session, folder: &DrivePath, after: Option<&NodeName>) -> Result<Listed> {
        let (mut items, mut refused) = (Vec::new(), Vec::new());
        let take = |line: list::Line| {
            match line.map(|entry| entry.filter(|entry| !self.is_part(folder, &entry.name))) {
                Ok(None) => {}
                Ok(Some(entry)) => match item(entry) {
                    Ok(item) => items.push(item),
                    Err(why) => refused.push(why),
                },
                Err(why) => refused.push(why),
            }
            if items.len() + refused.len() > crate::other::MEMBERS_MAX {
                return Err(Error::new(ErrorKind::TooLarge, format!("{folder} has too many members")));
            }
            Ok(())
        };
        session.list(&folder.to_string(), take).await.map_err(|error| error.context(folder))?;
        self.kept.begin(folder, after, items, refused)
    }

    fn is_part(&self, folder: &DrivePath, name: &NodeName) -> bool {
        let is = part::is_part(name.as_str());
        let mut parts = self.parts.lock();
        if is && parts.len() < PARTS_MAX {
            parts.insert((folder.clone(), name.to_string()));
        }
        is
    }

    /// Part files of a folder that were seen, and which of them to forget.
    fn parts_of(&self, folder: &DrivePath, stale: impl Fn(&str) -> bool) -> Vec<String> {
        let mut parts = self.parts.lock();
        parts.extract_if(|(of, name)| of == folder && stale(name)).map(|(_, name)| name).collect()
    }

    /// Removes part files of other versions of a target.
    async fn clear(&self, session: &mut Session, folder: &DrivePath, name: &PartName) {
        for part in self.parts_of(folder, |part| name.is_stale(part)) {
            if let Err(error) = session.delete(&path_of_text(folder, &part)).await {
                tracing::debug!(%error, part, "what an earlier transfer left could not be removed");
            }
        }
    }

    async fn make_folder(&self, path: &DrivePath) -> Result<()> {
        let mut lease = self.pool.lease().await?;
        let session = lease.session();
        let at = session.at(&path.to_string());
        let done = match session.ask(&format!("MKD {at}")).await {
            Ok(told) if told.is_done() => Ok(()),
            Ok(told) => match session.look(&path.to_string()).await {
                Ok(Some(Entry { what: What::Folder, .. })) => Ok(()),
                Ok(Some(_)) => Err(Error::new(ErrorKind::WrongKind, format!("{path} is there and is no folder"))),
                _ => Err(told.refused("making the folder", ErrorKind::Forbidden)),
            },
            Err(error) => Err(error),
        };
        lease.done();
        done
    }

    async fn remove(&self, path: &DrivePath, item: &Item) -> Result<()> {
        let mut lease = self.pool.lease().await?;
        let done = self.remove_with(lease.session(), path, item).await;
        lease.done();
        done
    }

    async fn remove_with(&self, session: &mut Session, path: &DrivePath, item: &Item) -> Result<()> {
        let text = path.to_string();
        if item.kind != Kind::Folder {
            check(session, path, Some(item)).await?;
            return session.delete(&text).await;
        }
        let command = format!("RMD {}", session.at(&text));
        if session.ask(&command).await?.is_done() {
            return Ok(());
        }
        // What an earlier transfer left in it is no reason to keep it.
        for part in self.parts_of(path, |_| true) {
            session.delete(&path_of_text(path, &part)).await?;
        }
        session.ask(&command).await?.done("removing the folder", ErrorKind::Conflict).map(drop)
    }
}

/// Tests that what is at a path is what was listed, or that nothing is.
async fn check(session: &mut Session, path: &DrivePath, listed: Option<&Item>) -> Result<()> {
    let there = session.look(&path.to_string()).await?;
    let same = match (&there, listed) {
        // Where LIST shows a link, other commands follow it.
        (None, None) | (Some(_), Some(Item { kind: Kind::Link(_), .. })) => true,
        (Some(there), Some(listed)) => {
            let version = version(there.size, there.modified.as_deref(), there.unique.as_deref());
            (there.what == What::Folder) == (listed.kind == Kind::Folder) && version == listed.version
        }
        _ => false,
    };
    if same {
        Ok(())
    } else {
        Err(Error::new(ErrorKind::PreconditionFailed, format!("{path} is not what was listed any more")))
    }
}

fn path_of(folder: &DrivePath, name: &NodeName) -> String {
    path_of_text(folder, name.as_str())
}

fn path_of_text(folder: &DrivePath, name: &str) -> String {
    if folder.is_root() { format!("/{name}") } else { format!("{folder}/{name}") }
}

fn version(size: u64, modified: Option<&str>, unique: Option<&str>) -> Version {
    Version(format!("{}.{size}.{}", modified.unwrap_or_default(), unique.unwrap_or_default()))
}

fn root() -> Result<Item> {
    let (name, version) = (NodeName::new("ftp")?, Version(String::new()));
    Ok(Item { name, kind: Kind::Folder, size: 0, modified_ns: None, mode: None, version })
}

fn item(entry: Entry) -> Result<Item, (String, Error)> {
    let refused = |why: &str| Err((entry.name.to_string(), Error::new(ErrorKind::WrongKind, why)));
    let kind = match &entry.what {
        What::File => Kind::File,
        What::Folder => Kind::Folder,
        What::Link(Some(to)) => Kind::Link(to.clone()),
        What::Link(None) => return refused("it is a symbolic link, and the server does not say where to"),
        What::Other => return refused("it is no file, folder or link"),
    };
    let version = match kind {
        Kind::File => version(entry.size, entry.modified.as_deref(), entry.unique.as_deref()),
        _ => Version(String::new()),
    };
    let modified_ns = entry.modified.as_deref().and_then(list::moment);
    Ok(Item { name: entry.name, kind, size: entry.size, modified_ns, mode: entry.mode, version })
}

#[async_trait]
impl Site for FtpSite {
    fn address(&self) -> String {
        self.inner.address.clone()
    }

    async fn look(&self, path: &DrivePath) -> Result<Option<Item>> {
        self.inner.look(path).await
    }

    async fn list(&self, folder: &DrivePath, after: Option<&NodeName>) -> Result<Listed> {
        self.inner.list(folder, after).await
    }

    async fn open(&self, path: &DrivePath, item: &Item) -> Result<Arc<dyn Content>> {
        Ok(Arc::new(FtpContent::open(Arc::clone(&self.inner), path, item).await?))
    }

    async fn make_folder(&self, path: &DrivePath) -> Result<()> {
        self.inner.make_folder(path).await
    }

    async fn make_link(&self, _path: &DrivePath, _to: &str, _replaces: Option<&Item>) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "FTP can make no symbolic links: --links skip leaves them out"))
    }

    async fn begin(&self, wanted: &Wanted) -> Result<Box<dyn Incoming>> {
        Ok(Box::new(FtpIncoming::begin(Arc::clone(&self.inner), wanted).await?))
    }

    async fn remove(&self, path: &DrivePath, item: &Item) -> Result<()> {
        self.inner.remove(path, item).await
    }

    async fn settle(&self) -> Result<()> {
        Ok(())
    }
}
