//! A space of a server for bulk transfer: content is sealed and opened on this side, several blocks at a time, and goes over one or more connections.
//!
//! Nothing is remembered between calls but connections and keys. Calls are tried again as those of a mount are, and by another transport when the one in use is given up; a part of an
//! upload is not, since whoever sends it asks first how far the server is.

use super::came::Broken;
use super::keys::Sealing;
use super::link::{Body, Lost};
use super::pool::Pool;
use super::pools::{Place, Pools, Verdict};
use super::trial::{Ways, keep};
use super::{Network, Options, Plane, connect_first};
use super::{lanes, parts};
use crate::wire::{self, Begin, Call, Hello, LIST_MAX, Put, Seen, Sent};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt, stream};
use holdfast_auth::Secret;
use holdfast_base::{BlockId, ContentId, DrivePath, Error, ErrorKind, NodeId, NodeName, Result, Uid};
use holdfast_drive::engine::sealed::LENGTH_BYTES;
use holdfast_drive::{
    Content, Durable, Entry, ManifestChunk, NameTaken, NewAttributes, NewNode, Posix, Rename, Renamed, Tag, Unlink,
};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

/// Bytes of a request that leave at once: small against what a slow network brings in a while.
pub(super) const PIECE_BYTES: usize = 64 << 10;

/// The last operation of servers that join lanes, at least ([`Call::Lane`]).
const LANES_FROM: u64 = 44;

/// So many parts running have to have had a lane that found no part to join before they go over one connection: a lane may have been there long before its first.
const APART: u32 = 2;

/// What is told that something left.
type Told = Arc<dyn Fn() + Send + Sync>;

/// A space. Cheap to clone.
#[derive(Clone)]
pub struct Space(Arc<Inner>);

struct Inner {
    pools: Arc<Pools>,
    /// Parts running of which a lane did not come to where the first was; from [`APART`] on, none has any.
    apart: AtomicU32,
    /// One part at a time goes in lanes: what waits in a connection for its turn must not hold up what another part waits for.
    lanes: Semaphore,
    /// Records whose answers broke off.
    broken: Broken,
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
    /// failed, or the server is too old for the question. Without a number of connections there is one over QUIC, and over TCP as many as make it faster.
    pub async fn connect(
        options: &Options,
        connections: Option<usize>,
        token: &Secret,
        (path, contents): (&DrivePath, usize),
    ) -> Result<(Self, Option<Seen>)> {
        let pool = Pool::new(options, connections, token)?;
        let link = pool.at(0);
        // One round trip for all; what is wrong at all is said by the first.
        let (first, keys) = (connect_first(&link, options), link.ask::<wire::Keys>(&Call::Keys()));
        let look = Call::Look(path.clone(), u32::try_from(contents).unwrap_or(u32::MAX));
        let seen = async { Ok(link.ask_once::<Seen>(&look).await.ok()) };
        let knows = async { Ok(link.ask_once::<u64>(&Call::Operations()).await.unwrap_or_default()) };
        let (hello, keys, seen, knows) = tokio::try_join!(first, keys, seen, knows)?;
        drop(link);
        pool.begin();
        let sealing = Arc::new(Sealing::open(&keys, token)?);
        if let Some(seen) = &seen {
            seen.contents.iter().try_for_each(|content| sealing.look_at(content))?;
        }
        let apart = AtomicU32::new(if knows >= LANES_FROM { 0 } else { APART });
        let lanes = Semaphore::new(1);
        let (pools, broken) = (Pools::new(pool), Broken::default());
        Ok((Self(Arc::new(Inner { pools, apart, lanes, broken, hello, sealing })), seen))
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
        self.0.pools.used().network()
    }

    /// The round trip over TCP, as the kernel smooths it; none over QUIC.
    pub fn smoothed_rtt(&self) -> Option<Duration> {
        self.0.pools.used().smoothed_rtt()
    }

    /// Looks after the transport from now on: another one is looked for when it falls silent, and tried in the course of a long transfer, later if the one in use is `known` to
    /// be faster. What was found out is told by [`Self::verdict`]. `options` and `connections` are as for [`Self::connect`], by either transport.
    pub fn keep_choosing(&self, options: Options, connections: Option<usize>, token: &Secret, known: bool) {
        let ways = Ways { options, connections, token: token.clone() };
        tokio::spawn(keep(Arc::downgrade(&self.0.pools), ways, known));
    }

    /// What was found out about a transport, which is named, once something is.
    pub fn verdict(&self) -> watch::Receiver<Option<(Plane, Verdict)>> {
        self.0.pools.verdict()
    }

    /// Goes on by the connections of another, which is the same space.
    pub fn go_on_by(&self, other: &Self) {
        self.0.pools.switch(other.0.pools.used());
    }

    /// Asks what can be asked twice.
    async fn ask<T: wire::Value>(&self, call: &Call) -> Result<T> {
        let pools = &self.0.pools;
        loop {
            let pool = pools.used();
            let link = pool.link();
            let by_other = async {
                loop {
                    let other = pools.also_asked().await;
                    if let Some(answer) = other.unless_given_up(other.link().ask_once(call)).await.and_then(Result::ok)
                    {
                        return answer;
                    }
                }
            };
            tokio::select! {
                biased;
                answer = pool.unless_given_up(link.ask(call)) => if let Some(answer) = answer {
                    return answer;
                },
                answer = by_other => return Ok(answer),
                () = pools.long_left(&pool) => {}
            }
        }
    }

    /// Asks for what is done once.
    async fn ask_for<T: wire::Value>(&self, call: &Call) -> Result<T> {
        let pool = self.0.pools.used();
        let link = pool.link();
        let outcome = pool.unless_given_up(link.call(call, Lost::Tell)).await;
        outcome.map_or_else(|| Err(given_up()), |outcome| outcome.result)
    }

    /// A member of a folder.
    pub async fn lookup(&self, folder: NodeId, name: &NodeName) -> Result<Option<Entry>> {
        self.ask(&Call::Lookup(folder, name.clone())).await
    }

    /// A node.
    pub async fn entry(&self, node: NodeId) -> Result<Option<Entry>> {
        self.ask(&Call::Entry(node)).await
    }

    /// Members of a folder in byte order of name, after `after`, [`LIST_MAX`] at most.
    pub async fn list(&self, folder: NodeId, after: Option<&NodeName>) -> Result<Vec<Entry>> {
        let limit = u32::try_from(LIST_MAX).unwrap_or(u32::MAX);
        self.ask(&Call::List(folder, after.cloned(), limit)).await
    }

    /// Makes a folder or a link, whose content says where to.
    pub async fn create(&self, new: NewNode, content: Bytes) -> Result<Entry> {
        self.ask(&Call::Create(new, content, Durable::Now)).await
    }

    /// Changes attributes; of a node without any, `usual` is what they were.
    pub async fn set_attributes(&self, node: NodeId, change: NewAttributes, usual: Posix) -> Result<Entry> {
        self.ask(&Call::SetAttributes(node, change, usual)).await
    }

    /// Gives a node another name.
    pub async fn rename(&self, rename: Rename) -> Result<()> {
        self.ask_for::<Renamed>(&Call::Rename(rename)).await.map(drop)
    }

    /// Takes a node its name.
    pub async fn unlink(&self, unlink: Unlink) -> Result<NodeId> {
        self.ask_for(&Call::Unlink(unlink)).await
    }

    /// When it answers, everything that was answered before is on the server's disk.
    pub async fn settle(&self) -> Result<()> {
        self.ask(&Call::Settle()).await
    }

    /// What contents are; none for those that are gone.
    pub async fn layouts(&self, contents: Vec<ContentId>) -> Result<Vec<Option<Content>>> {
        let asked = contents.len();
        let found: Vec<Option<Content>> = self.ask(&Call::Layouts(contents)).await?;
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
        let found: ManifestChunk = self.ask(&Call::Manifest(content.id, chunk)).await?;
        if found.index != chunk {
            return Err(Error::damaged("the server answered another question than was asked"));
        }
        self.0.sealing.look_at_chunk(content, &found)?;
        Ok(found)
    }

    /// Block `index` of a content, as it lies in the store; `moved` is told whenever some of it came. What came of it when this is given up is kept for the
    /// next time.
    pub async fn record(&self, content: ContentId, index: u64, moved: impl Fn() + Send + Sync) -> Result<Bytes> {
        let whole = Call::Record(content, index);
        let behind = |bytes| if bytes == 0 { whole.clone() } else { Call::RecordRest(content, index, bytes) };
        let told = |pool: &Pool, bytes| {
            pool.moved(bytes);
            self.0.pools.count(bytes);
            moved();
        };
        let pools = &self.0.pools;
        let _waits = pools.wait();
        let try_at = async |place: Place| {
            let link = place.pool.link();
            let tried = link.fetch_once(&whole, |bytes| told(&place.pool, bytes));
            timeout(place.patience, tried).await.ok()?.ok()
        };
        if let Some(place) = pools.place()
            && let Some(record) = try_at(place).await
        {
            return Ok(record);
        }
        let came = self.0.broken.of((content, index));
        loop {
            let pool = pools.used();
            let link = pool.link();
            let fetched = link.fetch_rest(behind, &came, |bytes| told(&pool, bytes));
            let by_other = async {
                loop {
                    if let Some(record) = try_at(pools.late_place().await).await {
                        return record;
                    }
                }
            };
            tokio::select! {
                biased;
                found = pool.unless_given_up(fetched) => match found {
                    Some(Ok(())) => return Ok(came.take()),
                    Some(Err(error)) if came.is_refused(&error) => {}
                    Some(Err(error)) => return Err(error),
                    None => {}
                },
                record = by_other => {
                    came.take();
                    return Ok(record);
                }
                () = pools.long_left(&pool) => {}
            }
        }
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
        let found: Vec<bool> = self.ask(&Call::HasBlocks(ids)).await?;
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
        moved: impl Fn() + Send + Sync + 'static,
    ) -> Result<(NodeId, i64)> {
        let file = Put { entry: entry.0, ..file };
        let frame = wire::frame(&if tags.is_empty() { Call::Put(file) } else { Call::PutTagged(file, shown(tags)) });
        let _waits = self.0.pools.wait();
        let place = self.0.pools.place();
        let pool = place.as_ref().map_or_else(|| self.0.pools.used(), |place| place.pool.clone());
        let link = pool.link();
        let put = link.stream(body(stream::iter([frame]), self.counted(&pool, Arc::new(moved))));
        let put = pool.unless_given_up(put).await.unwrap_or_else(|| Err(given_up()));
        put.map_err(|error| about_tags(error, tags))
    }

    /// Begins an upload whose file will have these tags, or finds it.
    pub async fn begin(&self, begin: Begin, tags: &[Tag]) -> Result<Sent> {
        let call = if tags.is_empty() { Call::Begin(begin) } else { Call::BeginTagged(begin, shown(tags)) };
        self.ask(&call).await.map_err(|error| about_tags(error, tags))
    }

    /// Sends sealed blocks from this byte on, by the best way, which may change meanwhile; `moved` is told whenever some of it left. Nothing is tried again.
    pub async fn send(
        &self,
        upload: Uid,
        offset: u64,
        entries: impl Stream<Item = Sending> + Send + 'static,
        moved: impl Fn() + Send + Sync + 'static,
    ) -> Result<Sent> {
        let moved: Told = Arc::new(moved);
        let by = |pool: Arc<Pool>, offset, entries| {
            let moved = moved.clone();
            async move {
                let sent = pool.unless_given_up(self.send_part(&pool, (upload, offset), entries, moved)).await;
                sent.unwrap_or_else(|| Err(given_up()))
            }
        };
        parts::send(&self.0.pools, offset, entries, by, |pool| async move { pool.behind().await }).await
    }

    /// A part, over all connections of a pool if no other part goes so.
    async fn send_part(
        &self,
        pool: &Arc<Pool>,
        (upload, offset): (Uid, u64),
        entries: BoxStream<'static, Sending>,
        moved: Told,
    ) -> Result<Sent> {
        let moved = self.counted(pool, moved);
        let alone = self.0.lanes.try_acquire().ok();
        if alone.is_some() && pool.is_wide() && self.0.apart.load(Ordering::Relaxed) < APART {
            let sent = lanes::send(pool, (upload, offset), entries, Arc::new(moved)).await;
            if sent.is_ok() {
                self.0.apart.store(0, Ordering::Relaxed);
            }
            return sent.map_err(|failed| match failed {
                lanes::Failed::Part(error) => error,
                lanes::Failed::Lane(error) => {
                    // Each time: not all connections reach one node, it seems. Of one that only ended there is a new one at the next try.
                    if error.kind() == ErrorKind::NotFound && self.0.apart.fetch_add(1, Ordering::Relaxed) + 1 == APART
                    {
                        tracing::info!(%error, "uploads go over one connection from now on");
                    }
                    Error::unavailable(error.message())
                }
            });
        }
        drop(alone);
        let frame = wire::frame(&Call::Continue(upload, offset));
        let entries = entries.flat_map(|Sending(entry)| {
            let mut length = BytesMut::with_capacity(LENGTH_BYTES);
            length.put_u32(u32::try_from(entry.len()).unwrap_or(u32::MAX));
            stream::iter([length.freeze(), entry])
        });
        pool.link().stream(body(stream::iter([frame]).chain(entries), moved)).await
    }

    /// What is to be told of bytes that left by this pool, with the count of them.
    fn counted(&self, pool: &Arc<Pool>, moved: Told) -> impl Fn(u64) + Send + Sync + use<> {
        let (pool, pools) = (pool.clone(), self.0.pools.clone());
        move |bytes| {
            pool.moved(bytes);
            pools.count(bytes);
            moved();
        }
    }

    /// Makes the file of an upload that has all its bytes.
    pub async fn finish(&self, upload: Uid, name_taken: NameTaken) -> Result<Sent> {
        self.ask(&Call::Finish(upload, name_taken)).await
    }

    /// Gives an upload up.
    pub async fn abandon(&self, upload: Uid) -> Result<()> {
        self.ask(&Call::Abandon(upload)).await
    }
}

/// Why something was broken off that is tried again by the other transport.
fn given_up() -> Error {
    Error::unavailable("its transport no longer carries anything, and another one is used from now on")
}

/// What is told of a server that does not know the operations with tags.
fn about_tags(error: Error, tags: &[Tag]) -> Error {
    if tags.is_empty() || !wire::is_unknown(&error) {
        return error;
    }
    Error::new(
        ErrorKind::Unsupported,
        "the server is older than this program, and takes no tags with files: without --tag it takes them",
    )
}

fn shown(tags: &[Tag]) -> Vec<String> {
    tags.iter().map(|tag| tag.shown().to_owned()).collect()
}

/// A body that leaves in small pieces, each of which is told.
pub(super) fn body(parts: impl Stream<Item = Bytes> + Send + 'static, moved: impl Fn(u64) + Send + 'static) -> Body {
    let pieces = parts.flat_map(|mut part| {
        let cut = move || (!part.is_empty()).then(|| part.split_to(part.len().min(PIECE_BYTES)));
        stream::iter(std::iter::from_fn(cut))
    });
    let frames = pieces.inspect(move |piece| moved(piece.len() as u64)).map(|piece| Ok(Frame::data(piece)));
    StreamBody::new(frames).boxed_unsync()
}

/// Hashes, ciphers and compresses where nobody who serves a socket waits for it.
async fn work<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Error::internal("a task was lost").with_source(error))?
}
