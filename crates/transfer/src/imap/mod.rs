//! Attachments of mails on a server that speaks IMAP over TLS: `imaps://USER@HOST[:PORT]/MAILBOX[/SUB]`. A source only.
//!
//! | module | what it does |
//! |---|---|
//! | `answer`, `wire` | what servers answer, and how it is read within bounds |
//! | `session`, `pool` | a signed-in connection, and several of them |
//! | `mailbox` | mailboxes and their names |
//! | `mail`, `structure` | messages, and what they are made of |
//! | `names`, `words` | names out of what mails say |
//! | `content`, `decode` | content, its size, and how it was written |
//! | `remove` | removing a message with the last of its attachments |
//! | `unseen` | messages that nobody has seen, for who is told things by mail |
//!
//! A mailbox is a folder with the mailboxes in it and the messages that have attachments; a message is a folder with those. All is read with EXAMINE and PEEK, so that no
//! message is marked as seen but by [`ImapSite::mark_seen`].
//!
//! **Versions** are the mailbox's UIDVALIDITY, the message's UID, the part, its size as it is written, and its encoding: what they stand for never changes.
//!
//! **Whoever sends a mail is not believed**: names lead nowhere, descriptions have bounds (an answer 2 MiB, lists 64 deep, 10,000 attachments), and a message that goes
//! beyond is refused alone.

pub mod answer;
mod content;
pub mod decode;
mod mail;
pub mod mailbox;
pub mod names;
mod pool;
mod remove;
mod session;
pub mod structure;
mod unseen;
mod wire;
pub mod words;

pub use unseen::Unseen;

use crate::other::{KeptListings, Login, MEMBERS_MAX, SiteUrl};
use crate::site::{Content, Incoming, Item, Kind, Listed, Site, Version, Wanted};
use async_trait::async_trait;
use content::Measured;
use holdfast_base::{DrivePath, Error, ErrorKind, NodeName, Result};
use mail::{Mail, PartAt, uid_of};
use parking_lot::Mutex;
use pool::Pool;
use remove::Removed;
use session::{Server, Session};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// Connections at a time, if nobody says.
const CONNECTIONS: usize = 4;
/// The port of IMAP over TLS.
const PORT: u16 = 993;
/// Attachments that are remembered from listings of mailboxes, so that their messages need not be asked for one by one.
const KNOWN_MAX: usize = 200_000;

/// A server, and an account on it.
pub struct ImapSite {
    inner: Arc<Inner>,
}

struct Inner {
    pool: Arc<Pool>,
    address: String,
    kept: KeptListings,
    delimiter: OnceCell<Option<char>>,
    known: Mutex<KnownMails>,
    measured: Measured,
    removed: Removed,
}

/// Messages that were listed, by mailbox and number, with the mailbox's validity. Each is told once: a listing of a message is asked for once in a walk.
#[derive(Default)]
struct KnownMails {
    mails: HashMap<(String, u32), (u32, Mail)>,
    parts: usize,
}

impl KnownMails {
    fn add(&mut self, mailbox: &str, validity: u32, mail: Mail) {
        if self.parts + mail.parts.len() <= KNOWN_MAX {
            self.parts += mail.parts.len();
            if let Some((_, before)) = self.mails.insert((mailbox.to_owned(), mail.uid), (validity, mail)) {
                self.parts -= before.parts.len();
            }
        }
    }

    fn take(&mut self, mailbox: &str, uid: u32) -> Option<(u32, Mail)> {
        let found = self.mails.remove(&(mailbox.to_owned(), uid))?;
        self.parts -= found.1.parts.len();
        Some(found)
    }

    fn forget(&mut self, mailbox: &str) {
        self.mails.retain(|(of, _), _| of != mailbox);
        self.parts = self.mails.values().map(|(_, mail)| mail.parts.len()).sum();
    }
}

/// What a path means.
enum Meant {
    Root,
    Mailbox(String),
    Mail(String, u32),
    File(String, u32),
}

/// Whether an address is of a server of this kind.
pub fn is_imap(address: &str) -> bool {
    address.split_once("://").is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("imaps"))
}

impl ImapSite {
    /// The server at an address, which is not asked yet.
    pub fn new(url: &SiteUrl, login: &Login) -> Result<Self> {
        let user = login.user.clone().or_else(|| url.user.clone());
        let user = user.ok_or_else(|| {
            Error::invalid(format!("{}: who signs in is missing: USER@ before the host", url.origin()))
        })?;
        let missing = || Error::invalid(format!("{}: --password-file FILE is missing", url.origin()));
        let password = login.password.clone().ok_or_else(missing)?;
        if user.contains('\0') || password.expose().contains(['\0', '\r', '\n']) {
            return Err(Error::invalid("names and passwords cannot have zeros or line breaks in them"));
        }
        let address = url.origin().replacen("://", &format!("://{user}@"), 1);
        let tls = session::tls(login.ca.as_deref())?;
        let server = Server { host: url.host.clone(), port: url.port.unwrap_or(PORT), user, password, tls };
        let pool = Pool::new(server, login.connections.unwrap_or(CONNECTIONS));
        let (kept, delimiter, known) = (KeptListings::default(), OnceCell::new(), Mutex::default());
        let (measured, removed) = (Measured::default(), Removed::default());
        Ok(Self { inner: Arc::new(Inner { pool, address, kept, delimiter, known, measured, removed }) })
    }
}

impl Inner {
    /// What a path means; none if nothing there can have it.
    async fn meant(&self, path: &DrivePath) -> Result<Option<Meant>> {
        let names = path.names();
        let delimiter = *self.delimiter.get_or_try_init(|| self.ask_delimiter()).await?;
        let on_line = |names: &[NodeName]| mailbox::on_line(names, delimiter);
        Ok(match names {
            [] => Some(Meant::Root),
            [above @ .., mail, _] if !above.is_empty() && uid_of(mail).is_some() => {
                on_line(above).zip(uid_of(mail)).map(|(mailbox, uid)| Meant::File(mailbox, uid))
            }
            [above @ .., mail] if !above.is_empty() && uid_of(mail).is_some() => {
                on_line(above).zip(uid_of(mail)).map(|(mailbox, uid)| Meant::Mail(mailbox, uid))
            }
            _ => on_line(names).map(Meant::Mailbox),
        })
    }

    async fn ask_delimiter(&self) -> Result<Option<char>> {
        let mut lease = self.pool.lease("").await?;
        let delimiter = lease.session().delimiter;
        lease.done();
        Ok(delimiter)
    }

    async fn look(&self, path: &DrivePath) -> Result<Option<Item>> {
        let name = path.name().cloned();
        let folder = |is: bool| is.then(|| folder(name.clone())).transpose();
        match self.meant(path).await? {
            None => Ok(None),
            Some(Meant::Root) => folder(true),
            Some(Meant::Mailbox(mailbox)) => {
                let mut lease = self.pool.lease(&mailbox).await?;
                let found = mailbox::look(lease.session(), &mailbox).await;
                lease.done();
                folder(found?.is_some())
            }
            Some(Meant::Mail(mailbox, uid)) => {
                let found = self.mail(&mailbox, uid).await?;
                folder(found.is_some_and(|(_, mail)| Some(&mail.name) == path.name()))
            }
            Some(Meant::File(mailbox, uid)) => {
                let Some((validity, mail)) = self.mail(&mailbox, uid).await? else { return Ok(None) };
                let within = path.parent().and_then(|above| above.name().cloned());
                let part = mail.parts.iter().find(|part| Some(&part.name) == path.name());
                match part.filter(|_| within.as_ref() == Some(&mail.name)) {
                    Some(part) => self.exact(&mailbox, &mail.item(part, validity)).await.map(Some).or_else(mail::gone),
                    None => Ok(None),
                }
            }
        }
    }

    /// A message as it is now, with the mailbox's validity.
    async fn mail(&self, mailbox: &str, uid: u32) -> Result<Option<(u32, Mail)>> {
        let mut lease = self.pool.lease(mailbox).await?;
        let found = mail_with(lease.session(), mailbox, uid).await;
        lease.done();
        found
    }

    /// A file with its size, which is measured.
    async fn exact(&self, mailbox: &str, item: &Item) -> Result<Item> {
        let (at, written, encoding) = mail::part_at(mailbox, &item.version)?;
        let size = self.measure(&at, written, encoding).await?;
        Ok(Item { size, ..item.clone() })
    }

    /// Where a file that was listed is.
    async fn part(&self, path: &DrivePath, item: &Item) -> Result<(PartAt, u64, decode::Encoding)> {
        match self.meant(path).await? {
            Some(Meant::File(mailbox, _)) => mail::part_at(&mailbox, &item.version),
            _ => Err(Error::new(ErrorKind::WrongKind, format!("{path} is no attachment"))),
        }
    }

    async fn list(&self, path: &DrivePath, after: Option<&NodeName>) -> Result<Listed> {
        if let Some(listed) = self.kept.next(path, after) {
            return Ok(listed);
        }
        let absent = || Error::not_found(format!("there is no {path}"));
        let (items, refused) = match self.meant(path).await?.ok_or_else(absent)? {
            Meant::Root => {
                let mut lease = self.pool.lease("").await?;
                let found = mailbox::within(lease.session(), None).await;
                lease.done();
                let (names, refused) = found?;
                (folders(names)?, refused)
            }
            Meant::Mailbox(mailbox) => {
                let mut lease = self.pool.lease(&mailbox).await?;
                let found = self.list_mailbox(lease.session(), &mailbox).await;
                lease.done();
                found?.ok_or_else(absent)?
            }
            Meant::Mail(mailbox, uid) => {
                let known = self.known.lock().take(&mailbox, uid);
                let found = if known.is_some() { known } else { self.mail(&mailbox, uid).await? };
                let found = found.filter(|(_, mail)| Some(&mail.name) == path.name());
                let (validity, mail) = found.ok_or_else(absent)?;
                (mail.items(validity), Vec::new())
            }
            Meant::File(..) => return Err(Error::new(ErrorKind::WrongKind, format!("{path} is no folder"))),
        };
        self.kept.begin(path, after, items, refused)
    }

    /// Mailboxes and messages in a mailbox; none if it is not there.
    async fn list_mailbox(
        &self,
        session: &mut Session,
        mailbox: &str,
    ) -> Result<Option<(Vec<Item>, Vec<(String, Error)>)>> {
        let Some(holds) = mailbox::look(session, mailbox).await? else { return Ok(None) };
        let (names, mut refused) = mailbox::within(session, Some(mailbox)).await?;
        let mut found = folders(names)?;
        if !holds {
            return Ok(Some((found, refused)));
        }
        let open = session.select(mailbox, false).await?;
        if open.exists as usize > MEMBERS_MAX {
            return Err(Error::new(ErrorKind::TooLarge, "the mailbox has too many messages"));
        }
        self.known.lock().forget(mailbox);
        let mut names = Vec::new();
        let take = |mail: Mail| {
            // A message without attachments would be a folder without files.
            if !mail.parts.is_empty() {
                names.push(mail.name.clone());
                self.known.lock().add(mailbox, open.validity, mail);
            }
        };
        refused.extend(mail::all(session, take).await?);
        found.extend(folders(names)?);
        Ok(Some((found, refused)))
    }
}

async fn mail_with(session: &mut Session, mailbox: &str, uid: u32) -> Result<Option<(u32, Mail)>> {
    let validity = match session.select(mailbox, false).await {
        Ok(open) => open.validity,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(mail::fetch(session, uid).await?.map(|mail| (validity, mail)))
}

fn folders(names: Vec<NodeName>) -> Result<Vec<Item>> {
    names.into_iter().map(|name| folder(Some(name))).collect()
}

fn folder(name: Option<NodeName>) -> Result<Item> {
    let name = name.map_or_else(|| NodeName::new("imap"), Ok)?;
    let version = Version(String::new());
    Ok(Item { name, kind: Kind::Folder, size: 0, modified_ns: None, mode: None, version })
}

fn source_only<T>() -> Result<T> {
    Err(Error::new(ErrorKind::Unsupported, "attachments can be pulled from a mailbox, and nothing can be put into one"))
}

#[async_trait]
impl Site for ImapSite {
    fn address(&self) -> String {
        self.inner.address.clone()
    }

    async fn look(&self, path: &DrivePath) -> Result<Option<Item>> {
        self.inner.look(path).await
    }

    async fn list(&self, folder: &DrivePath, after: Option<&NodeName>) -> Result<Listed> {
        self.inner.list(folder, after).await
    }

    async fn exact(&self, path: &DrivePath, item: &Item) -> Result<Item> {
        let (at, ..) = self.inner.part(path, item).await?;
        self.inner.exact(&at.mailbox, item).await
    }

    async fn open(&self, path: &DrivePath, item: &Item) -> Result<Arc<dyn Content>> {
        let (at, written, encoding) = self.inner.part(path, item).await?;
        Ok(Arc::new(self.inner.content(at, written, encoding, item.size).await?))
    }

    async fn make_folder(&self, _path: &DrivePath) -> Result<()> {
        source_only()
    }

    async fn make_link(&self, _path: &DrivePath, _to: &str, _replaces: Option<&Item>) -> Result<()> {
        source_only()
    }

    async fn begin(&self, _wanted: &Wanted) -> Result<Box<dyn Incoming>> {
        source_only()
    }

    async fn remove(&self, path: &DrivePath, item: &Item) -> Result<()> {
        let (at, ..) = self.inner.part(path, item).await?;
        self.inner.remove(&at).await
    }

    async fn settle(&self) -> Result<()> {
        Ok(())
    }
}
