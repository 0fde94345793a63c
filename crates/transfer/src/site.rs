//! Places with files, as the transfer sees them.

use crate::network::Network;
use crate::sum::Sum;
use async_trait::async_trait;
use bytes::Bytes;
use holdfast_base::{ByteRange, DrivePath, NodeName, Result};
use holdfast_drive::Tag;
use std::fmt;
use std::sync::Arc;

/// What something in a folder is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A file with content.
    File,
    /// A folder.
    Folder,
    /// A symbolic link, with what it says; only that is moved.
    Link(String),
}

/// Says which content a file has: equal versions of one file of one site have equal content, as far as the site can tell. What it is made of is
/// the site's (number of the content, entity tag, time and size) and means nothing elsewhere.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Version(pub String);

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Something in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Its name in its folder.
    pub name: NodeName,
    /// What it is.
    pub kind: Kind,
    /// Bytes of a file's content; 0 for what has none.
    pub size: u64,
    /// When its content changed last, in nanoseconds since 1970, if the site knows.
    pub modified_ns: Option<i64>,
    /// Permission bits, if the site has such.
    pub mode: Option<u32>,
    /// Which content it has.
    pub version: Version,
}

/// A file that is to come in.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Where it is to be.
    pub path: DrivePath,
    /// Bytes it will have.
    pub size: u64,
    /// The time of its content, to be kept where the site can.
    pub modified_ns: Option<i64>,
    /// Permission bits, likewise.
    pub mode: Option<u32>,
    /// Names its source and version: what was begun under the same key is the same content.
    pub key: String,
    /// What is there and is to be replaced, as it was listed; none if nothing may be there. Something else by then is `PreconditionFailed`.
    pub replaces: Option<Item>,
    /// Tags it comes with, at a site that [takes them](Site::takes_tags).
    pub tags: Vec<Tag>,
}

/// A place with files. Paths begin at its own root, and nothing outside that can be reached. Errors that may go by themselves are those for which
/// [`Error::is_temporary`](holdfast_base::Error::is_temporary) holds.
///
/// Calls have no time limit but silence: one that may take longer than a stall (60 s by default) says now and then that it goes on, by
/// [`signs::current`](crate::signs::current). A call may be given up at any time by dropping its future; [`Incoming::pause`] may come after that.
#[async_trait]
pub trait Site: Send + Sync + 'static {
    /// Its address, without secrets.
    fn address(&self) -> String;
    /// How the network to it is, if it is reached by one and that is known.
    fn network(&self) -> Option<Network> {
        None
    }
    /// Whether files can have tags there.
    fn takes_tags(&self) -> bool {
        false
    }
    /// What is at a path, links not followed; none if nothing is.
    async fn look(&self, path: &DrivePath) -> Result<Option<Item>>;
    /// Members of a folder in byte order of name, after `after`: some at a time, none at its end. What has a name that cannot be carried is left
    /// out and told by an error beside the rest.
    async fn list(&self, folder: &DrivePath, after: Option<&NodeName>) -> Result<Listed>;
    /// A file that was listed, with what listings do not tell (times of objects, in some); asked before times matter. It may have another version
    /// by now; one that is gone is `PreconditionFailed`.
    async fn exact(&self, _path: &DrivePath, item: &Item) -> Result<Item> {
        Ok(item.clone())
    }
    /// Whether an item's time is when this site stored it, since it keeps none with its content: one that is no older than the source's is then taken
    /// for the same, if the size is.
    fn is_stored_time(&self, _item: &Item) -> bool {
        false
    }
    /// Opens a file to read it, in the version that was listed: `PreconditionFailed` if it has another one by now.
    async fn open(&self, path: &DrivePath, item: &Item) -> Result<Arc<dyn Content>>;
    /// Makes a folder in one that is there; one that is there already is as good.
    async fn make_folder(&self, path: &DrivePath) -> Result<()>;
    /// Makes a symbolic link; `Unsupported` where there is no such thing.
    async fn make_link(&self, path: &DrivePath, to: &str, replaces: Option<&Item>) -> Result<()>;
    /// Begins to take a file in, or goes on with what was begun.
    async fn begin(&self, wanted: &Wanted) -> Result<Box<dyn Incoming>>;
    /// Removes a file or link, or a folder that is empty.
    async fn remove(&self, path: &DrivePath, item: &Item) -> Result<()>;
    /// When it answers, folders, links and removals that were answered before are durable.
    async fn settle(&self) -> Result<()>;
}

/// Some members of a folder.
#[derive(Debug, Default)]
pub struct Listed {
    /// In byte order of name.
    pub items: Vec<Item>,
    /// What could not be listed, each with its name as far as it can be shown.
    pub refused: Vec<(String, holdfast_base::Error)>,
    /// Whether there are more.
    pub more: bool,
}

/// A file's content, being read. Several reads may be under way at once.
#[async_trait]
pub trait Content: Send + Sync + 'static {
    /// Bytes in a range within it. What the source changed meanwhile is `PreconditionFailed`, where the source can tell.
    async fn read(&self, range: ByteRange) -> Result<Bytes>;
    /// Bytes that one read takes at best.
    fn grain(&self) -> u64;
    /// Reads that are best under way at once for a fast network far away; 1 is for what is read in order only.
    fn ahead(&self) -> usize;
    /// Looks once more, after all was read, whether it is still what was opened.
    async fn is_still(&self) -> Result<bool>;
    /// The sum of all of it, if the source tells one: what was moved is held against it before it appears at the destination. One that turns
    /// out to be of something else while it is read is none from then on.
    fn sum(&self) -> Option<Sum> {
        None
    }
}

/// A file that is coming in.
#[async_trait]
pub trait Incoming: Send {
    /// Bytes of it that are here, verified, from its start. A multiple of [`Self::grain`], or all.
    fn stands_at(&self) -> u64;
    /// Bytes that stand, read back, for a sum over all of the file. None where they cannot be had: then a file whose source tells a sum is
    /// begun anew.
    async fn read_back(&mut self, _range: ByteRange) -> Result<Option<Bytes>> {
        Ok(None)
    }
    /// Bytes that each write but the last has.
    fn grain(&self) -> u64;
    /// Takes the next bytes. May answer before they are anywhere, and waits when too much is on its way; what went wrong with them is told by
    /// a later call.
    async fn write(&mut self, bytes: Bytes) -> Result<()>;
    /// Bytes that arrived, from the file's start: what is shown as progress, and what counts as a sign of life.
    fn arrived(&self) -> u64;
    /// All was written: when it answers, the file is there under its name, durable.
    async fn finish(self: Box<Self>) -> Result<Item>;
    /// Keeps what is here for the next try, as far as that can be had at once.
    async fn pause(self: Box<Self>);
}
