//! The client's end: [`Tree`](holdfast_drive::Tree) over one HTTP/2 connection.
//!
//! **One connection**, made again with pauses that double up to two seconds ([`link`], [`dial`]). A ping every few seconds finds out that the other side is silent.
//! An operation waits for a connection, and is tried again on the next one, until its deadline; then it is `Timeout`.
//!
//! **Twice is once.** Where a connection ends before the answer, the operation may have been done. What says what is to be (attributes, holds) is simply
//! sent again. The others are recognised by what they left ([`again`]): a file that was made by the times it was made with, in nanoseconds; a
//! save by the times it sets; a rename by the node at the new name; a removal by the name being free.
//!
//! **Names and attributes** are answered from memory while the stream of changes is alive, and forgotten with every change of the space that
//! is not this mount's own ([`names`]). **Content** is kept in blocks of 1 MiB by its number, which never means another content ([`blocks`]); reading on
//! fetches ahead, 1 block and then twice as many up to 16.
//!
//! **Answering first** ([`Deferring`](holdfast_drive::Deferring)): with the keys that its token opens ([`keys`]), it seals content by itself, which waits here if it is
//! not small ([`spool`]), and hands over many changes with one request ([`deferring`]).
//!
//! **On the disk** ([`disk`]), if that is wished, sealed blocks are kept, and what is known of names ([`kept`]): for reading without asking, also while the server is
//! away. Content comes as it lies in the store then, and is opened here ([`layouts`]). What is pinned stays ([`pins`]).
//!
//! A save keeps what it sent until it is answered, to send it again; one over [`REPEATED_BYTES_MAX`] is not repeated but ends in
//! `Unavailable`, and the mount has it still and saves it at the next close or sync.

mod again;
mod blocks;
mod came;
mod deferring;
mod dial;
mod disk;
mod events;
mod kept;
mod keys;
mod lanes;
mod layouts;
mod link;
mod locking;
mod lossy;
mod moved;
mod names;
mod opened;
mod parts;
mod pins;
mod pool;
mod pools;
mod replay;
mod rescue;
mod space;
mod spool;
mod target;
mod tree;
mod trial;
mod voice;
mod way;
mod width;
mod word;

pub use disk::Options as DiskOptions;
pub(crate) use kept::read_anything;
pub use pools::Verdict;
pub use space::{Block, Sending, Space};
pub use target::{Roots, Target};
pub use width::CONNECTIONS_MAX;

use crate::wire::{self, Call, Hello};
use blocks::Blocks;
use deferring::{Locks, Role};
use holdfast_auth::Secret;
use holdfast_base::{Error, ErrorKind, NodeId, Result, Uid};
use holdfast_drive::{Change, Room};
use keys::Sealing;
use layouts::Layouts;
use link::Link;
use names::Names;
use parking_lot::Mutex;
use pins::Pins;
use spool::Spool;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, broadcast};
use tokio::task::JoinHandle;
use voice::Voice;
use word::Word;

/// What a save may have to send again is kept up to this size.
pub const REPEATED_BYTES_MAX: u64 = 16 << 20;
/// What all saves keep for that at most; more wait.
const REPEATED_BYTES_ALL: usize = 128 << 20;
/// Changes that whoever listens may be behind.
const CHANGES: usize = 64;

/// A transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Plane {
    /// TCP with TLS.
    #[default]
    Tcp,
    /// QUIC datagrams with a rate of our own ([`holdfast_plane`]), for networks that lose, reorder or delay much.
    Quic,
}

/// How the network to a server is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Network {
    /// The transport in use.
    pub plane: Plane,
    /// The least round trip that was seen.
    pub rtt: Duration,
    /// Share of what was sent lately that did not arrive, in the worse direction; TCP does not tell.
    pub lost: Option<f64>,
    /// Connections in use.
    pub connections: usize,
}

/// How a space is reached. Every bound is here.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which server.
    pub target: Target,
    /// Whom it believes to be that server.
    pub roots: Roots,
    /// By which transport.
    pub plane: Plane,
    /// The space; without one, the account's own.
    pub space: Option<String>,
    /// Longest that an operation takes; moving content gets a second more for each 128 KiB.
    pub deadline: Duration,
    /// Until a server whose machine acknowledges nothing counts as gone.
    pub patience: Duration,
    /// Whether an answer that is late is waited for as long as anything comes from the server within [`Self::patience`].
    pub while_heard: bool,
    /// Blocks of content in memory at most.
    pub blocks_bytes: usize,
}

impl Options {
    /// The usual ones.
    pub fn new(target: Target) -> Self {
        Self {
            target,
            roots: Roots::System,
            plane: Plane::Tcp,
            space: None,
            deadline: Duration::from_secs(20),
            patience: Duration::from_secs(4),
            while_heard: false,
            blocks_bytes: 256 << 20,
        }
    }

    /// Whom to believe, where it is encrypted.
    fn tls(&self) -> Result<Option<Arc<rustls::ClientConfig>>> {
        self.target.encrypted.then(|| self.roots.config()).transpose()
    }
}

/// What the parts share.
pub(crate) struct Shared {
    link: Link,
    names: Names,
    blocks: Blocks,
    /// What is read by sealed blocks that are kept on the disk, if anything is.
    layouts: OnceLock<Layouts>,
    pins: Pins,
    changes: broadcast::Sender<Change>,
    repeated: Semaphore,
    hello: Hello,
    /// When the stream of changes ended and could not be had again.
    away_since: Mutex<Option<Instant>>,
    voice: Arc<Voice>,
    word: Word,
    role: Role,
    locks: Locks,
    /// Whether the server has locks for all mounts.
    has_locking: bool,
    /// Whether the server takes saves that leave out blocks, as far as is known.
    leaves_out: AtomicBool,
    /// What was left last.
    room: Mutex<Option<Room>>,
}

/// A space of a server. Dropping it ends the connection.
pub struct Remote {
    shared: Arc<Shared>,
    sealing: Option<Arc<Sealing>>,
    tasks: Vec<JoinHandle<()>>,
    /// What opens the keys, as the server said it.
    keys: Option<wire::Keys>,
    /// The space as it was asked for.
    asked: Option<String>,
    /// Where content waits that was answered first, if it may.
    spool: Option<Arc<Spool>>,
}

impl Remote {
    /// Connects, within a tokio runtime of several threads.
    pub async fn connect(options: Options, token: &Secret) -> Result<Self> {
        let voice = Arc::new(Voice::new());
        let link = Link::new(&options, token, voice.clone())?;
        let hello = connect_first(&link, &options).await?;
        let has_locking = locking::has_any(&link).await?;
        Ok(Self::over((link, voice), (hello, has_locking), options))
    }

    fn over((link, voice): (Link, Arc<Voice>), (hello, has_locking): (Hello, bool), options: Options) -> Self {
        let shared = Arc::new(Shared {
            link,
            names: Names::new(voice.clone()),
            blocks: Blocks::new(options.blocks_bytes),
            layouts: OnceLock::new(),
            pins: Pins::default(),
            changes: broadcast::Sender::new(CHANGES),
            repeated: Semaphore::new(REPEATED_BYTES_ALL),
            hello,
            away_since: Mutex::default(),
            voice,
            word: Word::default(),
            role: Role::default(),
            locks: Locks::default(),
            has_locking,
            leaves_out: AtomicBool::new(true),
            room: Mutex::default(),
        });
        let tasks = vec![tokio::spawn(events::listen(shared.clone())), tokio::spawn(word::speak(shared.clone()))];
        Self { shared, sealing: None, tasks, keys: None, asked: options.space, spool: None }
    }

    /// Fetches what its token opens, so that it can seal by itself; answers the space's random name.
    pub async fn take_keys(&mut self, token: &Secret) -> Result<Uid> {
        let keys: wire::Keys = self.shared.link.ask(&Call::Keys()).await?;
        if keys.space != self.shared.hello.space {
            return Err(Error::not_found("the space was replaced by another while it was mounted"));
        }
        self.sealing = Some(Arc::new(Sealing::open(&keys, token)?));
        let uid = keys.space_uid;
        self.keys = Some(keys);
        Ok(uid)
    }

    /// Keeps content that is answered first in a folder until the server has it, if it can be handed over so: with keys, to a server that is not older than that.
    pub async fn spool_in(&mut self, folder: &Path) -> Result<()> {
        let Some((sealing, keys)) = self.sealing.as_ref().zip(self.keys.as_ref()) else { return Ok(()) };
        let knows = match self.shared.link.ask::<u64>(&Call::Operations()).await {
            Err(error) if wire::is_unknown(&error) => 0,
            knows => knows?,
        };
        if knows >= Call::ANSWERED {
            self.spool = Some(Arc::new(Spool::open(folder, sealing.clone(), keys.space_uid)?));
        }
        Ok(())
    }

    /// Changes are answered before the server has them: that a name is free is believed then while the stream of changes is alive, though others may have
    /// taken it a moment ago, as making files would wait for the server otherwise where it [waits for nobody](Names::is_loose).
    pub fn answers_first(&self) {
        self.shared.names.answers_first();
    }

    /// What the space is called.
    pub fn space(&self) -> &str {
        &self.shared.hello.name
    }

    fn root_node(&self) -> NodeId {
        self.shared.hello.root
    }
}

/// Asks who is there. The first failure is the answer: nobody waits for a wrong address or token.
async fn connect_first(link: &Link, options: &Options) -> Result<Hello> {
    let url = options.target.to_string();
    let hello: Hello = link.ask_once(&Call::Hello()).await.map_err(|error| match error.kind() {
        ErrorKind::Unauthenticated => Error::new(
            ErrorKind::Unauthenticated,
            format!(
                "{url} does not know this app token: it may have been revoked, or belong to another drive ({})",
                error.message()
            ),
        ),
        _ => error.context(url),
    })?;
    if hello.version != wire::VERSION {
        let message = format!("{} speaks another version of the protocol ({})", options.target, hello.version);
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    Ok(hello)
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        // The last that was learnt; small files, of which nobody waits for the disk.
        self.shared.keep_names();
    }
}
