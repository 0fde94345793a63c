//! Reading a file.
//!
//! FTP sends a file from a place on, and to its end. Where the server is near, it is read so, in one go. Where it is far, one connection is
//! slower than the network, so parts are asked for side by side over several, and each connection for content is closed when its part is there: what was
//! on its way by then is lost, which is why parts are large. A server that cannot begin in the middle is read from the start.

use super::data::Data;
use super::pool::Lease;
use super::session::Session;
use super::{Inner, check};
use crate::site::{Content, Item};
use async_trait::async_trait;
use bytes::Bytes;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{ByteRange, DrivePath, Error, ErrorKind, Result};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

const GRAIN: u64 = BLOCK_BYTES as u64;
/// Bytes of a part.
const PART: u64 = 8 * GRAIN;
/// Parts at a time.
const PARTS: usize = 4;
/// Files from here on are read by parts.
const LARGE: u64 = 4 * PART;
/// Time to connect from which on a server is far.
const FAR: Duration = Duration::from_millis(5);
/// How long a server may take to see that nobody reads any more.
const ABORT_TIME: Duration = Duration::from_secs(10);

/// A file.
pub(super) struct FtpContent {
    inner: Arc<Inner>,
    path: DrivePath,
    item: Item,
    by_parts: bool,
    /// Whether the server can begin in the middle.
    rest: bool,
    stream: Mutex<Option<Stream>>,
}

/// A file that is being sent, and how far it was read.
struct Stream {
    lease: Lease,
    data: Data,
    at: u64,
}

impl FtpContent {
    pub(super) async fn open(inner: Arc<Inner>, path: &DrivePath, item: &Item) -> Result<Self> {
        let mut lease = inner.pool.lease().await?;
        let session = lease.session();
        let checked = check(session, path, Some(item)).await;
        let rest = session.features.rest;
        let far = inner.side_by_side || session.round_trip >= FAR;
        lease.done();
        checked?;
        let by_parts = rest && far && item.size >= LARGE;
        Ok(Self { inner, path: path.clone(), item: item.clone(), by_parts, rest, stream: Mutex::default() })
    }

    fn ended(&self, at: u64) -> Error {
        let what = format!("{} ends at {at}: it became shorter while it was read", self.path);
        Error::new(ErrorKind::PreconditionFailed, what)
    }

    /// Asks for the file from a place on.
    async fn start(&self, session: &mut Session, from: u64) -> Result<Data> {
        let command = format!("RETR {}", session.at(&self.path.to_string()));
        let started = session.start(&command, from, "reading it").await;
        // It was there a moment ago, so the engine looks again.
        started.map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::new(ErrorKind::PreconditionFailed, error.message()),
            _ => error,
        })
    }

    /// One part, on a connection for that alone.
    async fn part(&self, range: ByteRange) -> Result<Bytes> {
        let mut lease = self.inner.pool.lease().await?;
        let done = self.part_with(lease.session(), range).await;
        lease.done();
        done
    }

    async fn part_with(&self, session: &mut Session, range: ByteRange) -> Result<Bytes> {
        let mut data = self.start(session, range.start).await?;
        let bytes = data.take(usize_of(range.len())?).await?;
        if range.end == self.item.size || (bytes.len() as u64) < range.len() {
            self.end(session, data, range.start + bytes.len() as u64).await?;
            return Ok(bytes);
        }
        drop(data);
        // Whatever it calls that, it is over.
        if !matches!(tokio::time::timeout(ABORT_TIME, session.reply()).await, Ok(Ok(_))) {
            tracing::debug!(path = %self.path, "a connection did not come back from a part of a file");
        }
        Ok(bytes)
    }

    /// Hears that a file is over, which is at its size.
    async fn end(&self, session: &mut Session, mut data: Data, at: u64) -> Result<()> {
        let longer = at == self.item.size && !data.take(1).await?.is_empty();
        drop(data);
        let told = session.reply().await?;
        if longer {
            let what = format!("{} became longer while it was read", self.path);
            return Err(Error::new(ErrorKind::PreconditionFailed, what));
        }
        told.done("reading it", ErrorKind::Unavailable)?;
        if at < self.item.size { Err(self.ended(at)) } else { Ok(()) }
    }

    /// Goes on with what is being read, or begins.
    async fn next(&self, range: ByteRange, open: &mut Option<Stream>) -> Result<Bytes> {
        let mut stream = match open.take().filter(|stream| stream.at <= range.start) {
            Some(stream) => stream,
            None => match self.begin(range.start).await? {
                Some(stream) => stream,
                None => return self.part(range).await,
            },
        };
        stream.data.skip(range.start - stream.at).await?;
        let bytes = stream.data.take(usize_of(range.len())?).await?;
        stream.at = range.start + bytes.len() as u64;
        if stream.at == self.item.size || (bytes.len() as u64) < range.len() {
            let Stream { mut lease, data, at } = stream;
            let ended = self.end(lease.session(), data, at).await;
            lease.done();
            ended?;
        } else {
            *open = Some(stream);
        }
        Ok(bytes)
    }

    /// Begins to read in one go; none if all connections but one are busy with that.
    async fn begin(&self, at: u64) -> Result<Option<Stream>> {
        let at = if self.rest { at } else { 0 };
        let mut lease = if self.item.size <= GRAIN {
            self.inner.pool.lease().await?
        } else if self.rest {
            let Some(lease) = self.inner.pool.try_lease_long().await? else { return Ok(None) };
            lease
        } else {
            self.inner.pool.lease_long().await?
        };
        match self.start(lease.session(), at).await {
            Ok(data) => Ok(Some(Stream { lease, data, at })),
            Err(error) => {
                lease.done();
                Err(error)
            }
        }
    }
}

#[async_trait]
impl Content for FtpContent {
    async fn read(&self, range: ByteRange) -> Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        if self.by_parts {
            return self.part(range).await;
        }
        let mut open = self.stream.lock().await;
        self.next(range, &mut open).await
    }

    fn grain(&self) -> u64 {
        if self.by_parts { PART } else { GRAIN }
    }

    fn ahead(&self) -> usize {
        if self.by_parts { PARTS } else { 1 }
    }

    async fn is_still(&self) -> Result<bool> {
        let mut lease = self.inner.pool.lease().await?;
        let checked = check(lease.session(), &self.path, Some(&self.item)).await;
        lease.done();
        match checked {
            Err(error) if error.kind() == ErrorKind::PreconditionFailed => Ok(false),
            done => done.map(|()| true),
        }
    }
}

fn usize_of(length: u64) -> Result<usize> {
    usize::try_from(length).map_err(|_| Error::internal("a read is larger than memory"))
}
