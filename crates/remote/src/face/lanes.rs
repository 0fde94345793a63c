//! A part of an upload that comes over several connections: each *lane* is a request with some of the part's entries, which are put in order again here.
//!
//! ```text
//! lane = (number(u64) ‖ length(u32) ‖ so many bytes)*        the first byte the highest; a length of nothing says that the part ends there
//! ```
//! Numbers count the part's entries ([`holdfast_drive::engine::sealed`]) over all lanes. The first lane goes on with the upload, as
//! [`Call::Continue`](crate::wire::Call::Continue) would, and has its answer; the others join it, and answer nothing. An entry waits in its own connection, whose
//! flow control holds it, until those before it came: nothing is kept here. A lane that breaks off breaks the part off, of which the
//! upload keeps what came.
//!
//! Limits: [`LANES_MAX`] lanes at a time, which wait [`JOIN_TIME`] for the first, and it for them; in a cluster all have to reach one node.

use super::operate::done;
use crate::wire::LANE_HEAD_BYTES;
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use holdfast_base::{Error, ErrorKind, Result, Uid};
use holdfast_drive::ContentStream;
use holdfast_drive::engine::sealed::ENTRY_BYTES_MAX;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{sleep, timeout};

/// Lanes of a part at a time.
const LANES_MAX: usize = 64;
/// How long a lane waits for the first: it may have left later, on a slower connection.
const JOIN_TIME: Duration = Duration::from_secs(10);

/// Which part: the account's, of this upload, under this random number.
pub(super) type Key = (Uid, Uid, u64);

/// Parts that come in lanes.
pub(super) struct Lanes {
    /// See [`JOIN_TIME`].
    join_time: Duration,
    bundles: Mutex<HashMap<Key, Arc<Bundle>>>,
    came: Notify,
}

/// The lanes of a part.
struct Bundle {
    /// The number of the entry whose turn it is.
    next: watch::Sender<u64>,
    /// Where entries go; none when the part has ended.
    to: Mutex<Option<mpsc::Sender<Bytes>>>,
    /// Why it ended before its end.
    broken: Mutex<Option<Error>>,
    /// Whether it is over.
    over: watch::Sender<bool>,
    open: AtomicUsize,
}

impl Default for Lanes {
    fn default() -> Self {
        Self { join_time: JOIN_TIME, bundles: Mutex::default(), came: Notify::default() }
    }
}

impl Lanes {
    /// Carries the first lane, and gives the whole part to `receive`, whose answer is that of the part.
    pub(super) async fn first<F>(
        &self,
        key: Key,
        body: ContentStream,
        receive: impl FnOnce(ContentStream) -> F,
    ) -> Result<Bytes>
    where
        F: Future<Output = Result<Bytes>>,
    {
        let (to, entries) = mpsc::channel(1);
        let bundle = Arc::new(Bundle {
            next: watch::Sender::new(0),
            to: Mutex::new(Some(to)),
            broken: Mutex::default(),
            over: watch::Sender::new(false),
            open: AtomicUsize::new(1),
        });
        let _registered = self.register(key, &bundle)?;
        let part = bundle.clone().part(entries);
        tokio::select! {
            answer = receive(part) => answer,
            never = async {
                bundle.carry(body).await;
                bundle.deserted(self.join_time).await
            } => match never {},
        }
    }

    /// Carries another lane.
    pub(super) async fn join(&self, key: Key, body: ContentStream) -> Result<Bytes> {
        let gone = || Error::not_found("there is no part of an upload that this lane is of");
        let bundle = timeout(self.join_time, self.find(key)).await.map_err(|_elapsed| gone())?;
        if bundle.open.fetch_add(1, Ordering::SeqCst) >= LANES_MAX {
            bundle.open.fetch_sub(1, Ordering::SeqCst);
            return Err(Error::invalid(format!("a part has {LANES_MAX} lanes at most")));
        }
        let mut over = bundle.over.subscribe();
        tokio::select! {
            () = bundle.carry(body) => {}
            _ = over.wait_for(|over| *over) => {}
        }
        Ok(done(()))
    }

    async fn find(&self, key: Key) -> Arc<Bundle> {
        loop {
            let came = self.came.notified();
            if let Some(found) = self.bundles.lock().get(&key) {
                return found.clone();
            }
            came.await;
        }
    }

    fn register(&self, key: Key, bundle: &Arc<Bundle>) -> Result<Registered<'_>> {
        let mut bundles = self.bundles.lock();
        if bundles.contains_key(&key) {
            return Err(Error::conflict("this part of an upload has a first lane"));
        }
        bundles.insert(key, bundle.clone());
        drop(bundles);
        self.came.notify_waiters();
        Ok(Registered { lanes: self, key, bundle: bundle.clone() })
    }
}

/// A part is known until this is dropped: then it is over, whoever still waits.
struct Registered<'l> {
    lanes: &'l Lanes,
    key: Key,
    bundle: Arc<Bundle>,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.lanes.bundles.lock().remove(&self.key);
        self.bundle.end(Some(Error::unavailable("the first lane broke off")));
        self.bundle.over.send_replace(true);
    }
}

impl Bundle {
    /// Entries in their order, as one connection would bring them.
    fn part(self: Arc<Self>, entries: mpsc::Receiver<Bytes>) -> ContentStream {
        let pieces = stream::unfold((entries, self), |(mut entries, bundle)| async {
            let piece = match entries.recv().await {
                Some(piece) => Ok(piece),
                None => Err(bundle.broken.lock().take()?),
            };
            Some((piece, (entries, bundle)))
        });
        pieces.boxed()
    }

    /// Takes what a lane brings until it ends.
    async fn carry(&self, body: ContentStream) {
        let mut cut = Cut(Some(self));
        let why = self.take_entries(&mut Entries { body, buffer: BytesMut::new() }).await.err();
        cut.0 = None;
        self.open.fetch_sub(1, Ordering::SeqCst);
        if why.is_some() {
            self.end(why);
        }
    }

    /// Breaks the part off when nobody carries it any more, and nobody said that it is over.
    async fn deserted(&self, time: Duration) -> Infallible {
        loop {
            sleep(time).await;
            if self.open.load(Ordering::SeqCst) == 0 {
                self.end(Some(Error::unavailable("the lanes of a part ended before it did")));
            }
        }
    }

    async fn take_entries(&self, entries: &mut Entries) -> Result<()> {
        let mut turn = self.next.subscribe();
        while let Some((number, length)) = entries.head().await? {
            let now = turn.wait_for(|next| *next >= number).await.map(|now| *now);
            if now.ok() != Some(number) {
                return Err(Error::invalid("an entry of a part came twice"));
            }
            // A whole part that has more lanes than entries is no error of theirs.
            let Some(to) = self.to.lock().clone() else { return Ok(()) };
            if length == 0 {
                self.end(None);
                return Ok(());
            }
            let told = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
            let mut left = length;
            let mut piece = Bytes::copy_from_slice(&told);
            loop {
                if to.send(piece).await.is_err() {
                    return Ok(());
                }
                if left == 0 {
                    break;
                }
                piece = entries.piece(left).await?;
                left -= piece.len();
            }
            self.next.send_replace(number + 1);
        }
        Ok(())
    }

    /// Nothing more comes; `why` if that is not the part's end.
    fn end(&self, why: Option<Error>) {
        let mut to = self.to.lock();
        if to.is_some() {
            *self.broken.lock() = why;
        }
        *to = None;
    }
}

/// A lane that is dropped before its end, with its connection.
struct Cut<'b>(Option<&'b Bundle>);

impl Drop for Cut<'_> {
    fn drop(&mut self) {
        if let Some(bundle) = self.0 {
            bundle.end(Some(Error::unavailable("a lane broke off")));
        }
    }
}

/// What a lane brings.
struct Entries {
    body: ContentStream,
    buffer: BytesMut,
}

impl Entries {
    /// Number and length of the next entry; none at the lane's end.
    async fn head(&mut self) -> Result<Option<(u64, usize)>> {
        while self.buffer.len() < LANE_HEAD_BYTES {
            match self.body.next().await {
                Some(piece) => self.buffer.extend_from_slice(&piece.map_err(broke_off)?),
                None if self.buffer.is_empty() => return Ok(None),
                None => return Err(cut()),
            }
        }
        let head = self.buffer.split_to(LANE_HEAD_BYTES);
        let number = head[..8].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let length = head[8..].iter().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte));
        if length > ENTRY_BYTES_MAX {
            return Err(Error::invalid(format!("an entry of {length} bytes is longer than any")));
        }
        Ok(Some((number, length)))
    }

    /// Some of the bytes that are left of an entry.
    async fn piece(&mut self, left: usize) -> Result<Bytes> {
        while self.buffer.is_empty() {
            match self.body.next().await {
                Some(piece) => self.buffer.extend_from_slice(&piece.map_err(broke_off)?),
                None => return Err(cut()),
            }
        }
        let bytes = left.min(self.buffer.len());
        Ok(self.buffer.split_to(bytes).freeze())
    }
}

fn cut() -> Error {
    Error::unavailable("a lane broke off within an entry")
}

/// A body that broke off is its client's fault. This one's is not to blame for the part, whose other connections are as they were: it can be tried again.
fn broke_off(error: Error) -> Error {
    if error.kind() == ErrorKind::InvalidInput {
        return Error::unavailable(format!("a lane broke off: {}", error.message())).with_source(error);
    }
    error
}

#[cfg(test)]
mod tests;
