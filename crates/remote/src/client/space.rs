//! A space of a server for bulk transfer: content is sealed and opened on this side, several blocks at a time, and goes over one or more connections.
//!
//! Nothing is remembered between calls but connections and keys. Calls are tried again as those of a mount are; a part of an upload is not, since whoever
//! sends it asks first how far the server is.

use super::keys::Sealing;
use super::link::{Body, Link, Lost};
use super::voice::Voice;
use super::{Network, Options, connect_first};
use crate::wire::{self, Begin, Call, Hello, LIST_MAX, Put, Seen, Sent};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::{Stream, StreamExt, stream};
use holdfast_auth::Secret;
use holdfast_base::{BlockId, ContentId, DrivePath, Error, NodeId, NodeName, Result, Uid};
use holdfast_drive::engine::sealed::LENGTH_BYTES;
use holdfast_drive::{
    Content, Durable, Entry, ManifestChunk, NameTaken, NewAttributes, NewNode, Posix, Rename, Renamed, Tag, Unlink,
};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of a request that leave at once: small against what a slow network brings in a while.
const PIECE_BYTES: usize = 64 << 10;

/// A space. Cheap to clone.
#[derive(Clone)]
pub struct Space(Arc<Inner>);

struct Inner {
    links: Vec<Link>,
    next: AtomicUsize,
    hello: Hello,
    sealing: Arc<Sealing>,
}

/// A block on its way to the server.
#[derive(Debug, Clone)]
pub struct Block {
    /// Which.
    pub id: BlockId,
    /// Its plaintext.
    pub plain: Bytes,
}

/// An entry of a part of an upload: a block that the server has, or its record.
#[derive(Debug, Clone)]
pub struct Sending(Bytes);

impl Sending {
    /// Bytes that go over the line.
    pub fn bytes(&self) -> usize {
        LENGTH_BYTES + self.0.len()
    }

    /// What goes over the line, without its length.
    pub const fn entry(&self) -> &Bytes {
        &self.0
    }

    /// A block that the space has.
    pub fn held(id: BlockId) -> Self {
        Self(Bytes::copy_from_slice(&id.0))
    }
}

impl Space {
    /// Connects, takes the keys that the token opens, and looks at a path meanwhile, with this many contents: what was seen is none if that
    /// failed, or the server is too old for the question.
    pub async fn connect(
        options: &Options,
        connections: usize,
        token: &Secret,
        (path, contents): (&DrivePath, usize),
    ) -> Result<(Self, Option<Seen>)> {
        let link = || Link::new(options, token, Arc::new(Voice::new()));
        let links = (0..connections.max(1)).map(|_| link()).collect::<Result<Vec<_>>>()?;
        // One round trip for all; what is wrong at all is said by the first.
        let (first, keys) = (connect_first(&links[0], options), links[0].ask::<wire::Keys>(&Call::Keys()));
        let look = Call::Look(path.clone(), u32::try_from(contents).unwrap_or(u32::MAX));
        let seen = async { Ok(links[0].ask_once::<Seen>(&look).await.ok()) };
        let (hello, keys, seen) = tokio::try_join!(first, keys, seen)?;
        let sealing = Arc::new(Sealing::open(&keys, token)?);
        if let Some(seen) = &seen {
            seen.contents.iter().try_for_each(|content| sealing.look_at(content))?;
        }
        Ok((Self(Arc::new(Inner { links, next: AtomicUsize::new(0), hello, sealing })), seen))
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.0.hello.name
    }

    /// Its root.
    pub fn root(&self) -> NodeId {
        self.0.hello.root
    }

    /// How the network is, as far as it is known.
    pub fn network(&self) -> Option<Network> {
        self.0.links.iter().find_map(Link::network)
    }

    /// Connections take turns.
    fn link(&self) -> &Link {
        let Inner { links, next, .. } = &*self.0;
        &links[next.fetch_add(1, Ordering::Relaxed) % links.len()]
    }

    /// A member of a folder.
    pub async fn lookup(&self, folder: NodeId, name: &NodeName) -> Result<Option<Entry>> {
        self.link().ask(&Call::Lookup(folder, name.clone())).await
    }

    /// A node.
    pub async fn entry(&self, node: NodeId) -> Result<Option<Entry>> {
        self.link().ask(&Call::Entry(node)).await
    }

    /// Members of a folder in byte order of name, after `after`, [`LIST_MAX`] at most.
    pub async fn list(&self, folder: NodeId, after: Option<&NodeName>) -> Result<Vec<Entry>> {
        let limit = u32::try_from(LIST_MAX).unwrap_or(u32::MAX);
        self.link().ask(&Call::List(folder, after.cloned(), limit)).await
    }

    /// Makes a folder or a link, whose content says where to.
    pub async fn create(&self, new: NewNode, content: Bytes) -> Result<Entry> {
        self.link().ask(&Call::Create(new, content, Durable::Now)).await
    }

    /// Changes attributes; of a node without any, `usual` is what they were.
    pub async fn set_attributes(&self, node: NodeId, change: NewAttributes, usual: Posix) -> Result<Entry> {
        self.link().ask(&Call::SetAttributes(node, change, usual)).await
    }

    /// Gives a node another name.
    pub async fn rename(&self, rename: Rename) -> Result<()> {
        self.link().call::<Renamed>(&Call::Rename(rename), Lost::Tell).await.result.map(drop)
    }

    /// Takes a node its name.
    pub async fn unlink(&self, unlink: Unlink) -> Result<NodeId> {
        self.link().call(&Call::Unlink(unlink), Lost::Tell).await.result
    }

    /// When it answers, everything that was answered before is on the server's disk.
    pub async fn settle(&self) -> Result<()> {
        self.link().ask(&Call::Settle()).await
    }

    /// What contents are; none for those that are gone.
    pub async fn layouts(&self, contents: Vec<ContentId>) -> Result<Vec<Option<Content>>> {
        let asked = contents.len();
        let found: Vec<Option<Content>> = self.link().ask(&Call::Layouts(contents)).await?;
        if found.len() != asked {
            return Err(Error::damaged("the server answered another question than was asked"));
        }
        found.iter().flatten().try_for_each(|content| self.0.sealing.look_at(content))?;
        Ok(found)
    }

    /// Opens a tiny content.
    pub fn open_tiny(&self, content: &Content) -> Result<Bytes> {
        self.0.sealing.open_inline(content)
    }

    /// Part `chunk` of a content's manifest.
    pub async fn manifest(&self, content: &Content, chunk: u64) -> Result<ManifestChunk> {
        let found: ManifestChunk = self.link().ask(&Call::Manifest(content.id, chunk)).await?;
        if found.index != chunk {
            return Err(Error::damaged("the server answered another question than was asked"));
        }
        self.0.sealing.look_at_chunk(content, &found)?;
        Ok(found)
    }

    /// Block `index` of a content, as it lies in the store; `moved` is told whenever some of it came.
    pub async fn record(&self, content: ContentId, index: u64, moved: impl Fn() + Send + Sync) -> Result<Bytes> {
        self.link().fetch(&Call::Record(content, index), moved).await
    }

    /// Opens a record, which must be block `id`.
    pub async fn open(&self, id: BlockId, record: Bytes) -> Result<Bytes> {
        let sealing = self.0.sealing.clone();
        work(move || sealing.open_block(id, record)).await
    }

    /// A block of a file, to be sent.
    pub async fn identify(&self, plain: Bytes) -> Result<Block> {
        let sealing = self.0.sealing.clone();
        work(move || Ok(Block { id: sealing.id(&plain), plain })).await
    }

    /// Which of these blocks the space has.
    pub async fn has_blocks(&self, ids: Vec<BlockId>) -> Result<Vec<bool>> {
        let asked = ids.len();
        let found: Vec<bool> = self.link().ask(&Call::HasBlocks(ids)).await?;
        if found.len() == asked {
            Ok(found)
        } else {
            Err(Error::damaged("the server answered another question than was asked"))
        }
    }

    /// Seals a block.
    pub async fn seal(&self, block: Block) -> Result<Sending> {
        let sealing = self.0.sealing.clone();
        work(move || sealing.seal_block(block.id, &block.plain).map(Sending)).await
    }

    /// Makes a file of one block, whose `entry` is set by this, or gives it another version, with these tags added; answers its number and its count of
    /// changes. `moved` is told whenever some of it left. Nothing is tried again.
    pub async fn put(
        &self,
        file: Put,
        tags: &[Tag],
        entry: Sending,
        moved: impl Fn() + Send + 'static,
    ) -> Result<(NodeId, i64)> {
        let file = Put { entry: entry.0, ..file };
        let frame = wire::frame(&if tags.is_empty() { Call::Put(file) } else { Call::PutTagged(file, shown(tags)) });
        self.link().stream(body(stream::iter([frame]), moved)).await
    }

    /// Begins an upload whose file will have these tags, or finds it.
    pub async fn begin(&self, begin: Begin, tags: &[Tag]) -> Result<Sent> {
        let call = if tags.is_empty() { Call::Begin(begin) } else { Call::BeginTagged(begin, shown(tags)) };
        self.link().ask(&call).await
    }

    /// Sends sealed blocks from this byte on; `moved` is told whenever some of it left. Nothing is tried again.
    pub async fn send(
        &self,
        upload: Uid,
        offset: u64,
        entries: impl Stream<Item = Sending> + Send + 'static,
        moved: impl Fn() + Send + 'static,
    ) -> Result<Sent> {
        let frame = wire::frame(&Call::Continue(upload, offset));
        let entries = entries.flat_map(|Sending(entry)| {
            let mut length = BytesMut::with_capacity(LENGTH_BYTES);
            length.put_u32(u32::try_from(entry.len()).unwrap_or(u32::MAX));
            stream::iter([length.freeze(), entry])
        });
        self.link().stream(body(stream::iter([frame]).chain(entries), moved)).await
    }

    /// Makes the file of an upload that has all its bytes.
    pub async fn finish(&self, upload: Uid, name_taken: NameTaken) -> Result<Sent> {
        self.link().ask(&Call::Finish(upload, name_taken)).await
    }

    /// Gives an upload up.
    pub async fn abandon(&self, upload: Uid) -> Result<()> {
        self.link().ask(&Call::Abandon(upload)).await
    }
}

fn shown(tags: &[Tag]) -> Vec<String> {
    tags.iter().map(|tag| tag.shown().to_owned()).collect()
}

/// A body that leaves in small pieces, each of which is told.
fn body(parts: impl Stream<Item = Bytes> + Send + 'static, moved: impl Fn() + Send + 'static) -> Body {
    let pieces = parts.flat_map(|mut part| {
        let cut = move || (!part.is_empty()).then(|| part.split_to(part.len().min(PIECE_BYTES)));
        stream::iter(std::iter::from_fn(cut))
    });
    let frames = pieces.inspect(move |_| moved()).map(|piece| Ok(Frame::data(piece)));
    StreamBody::new(frames).boxed_unsync()
}

/// Hashes, ciphers and compresses where nobody who serves a socket waits for it.
async fn work<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Error::internal("a task was lost").with_source(error))?
}
