//! Sending one pack, from its first part to the word that it is there.
//!
//! **One object** while the pack fits a part: one conditional put. **Parts** once it does not: they are sent side by
//! side, as many as there are places, and made one object at the end. What goes wrong on the way may be tried again: a
//! part and the end of a pack are the same sent twice. A put is not quite: if an answer is lost, the next try finds the
//! name taken. Each pack therefore carries a random mark, and a name taken by our own mark is a success.
//!
//! **Nothing is acknowledged that is not there**: at the end the service is asked for the object, and its length and mark
//! must be ours ([`super::Options::confirm`]). A gateway that answers before it stores, or a cache that swallows writes,
//! is found out then and not when somebody wants to read.

use super::objects::{Body, PartSent};
use super::open::take;
use super::{Core, no_such_pack};
use bytes::Bytes;
use holdfast_base::{Error, ErrorKind, PackName, Result};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::task::JoinSet;

/// Sums over more bytes than this are made on another thread: here they take longer (0.2 ms) than the change.
const INLINE_SUM_BYTES: u64 = 128 << 10;

/// A pack on its way.
pub(super) struct Upload {
    core: Arc<Core>,
    key: String,
    mark: String,
    bytes: u64,
    large: Option<Large>,
}

/// An object made of parts.
struct Large {
    id: String,
    sending: JoinSet<Result<PartSent>>,
    sent: Vec<PartSent>,
    begun: u32,
}

impl Upload {
    /// Nothing sent yet.
    pub(super) fn new(core: Arc<Core>, name: PackName) -> Self {
        let mark = format!("{:032x}", rand::random::<u128>());
        Self { key: core.keys.of(name), mark, core, bytes: 0, large: None }
    }

    /// Sends as many full parts as there are and answers what is left, which is not nothing unless all was nothing.
    pub(super) async fn send_full_parts(&mut self, parts: Vec<Bytes>) -> Result<Vec<Bytes>> {
        let part_bytes = self.core.options.part_bytes;
        let mut rest = VecDeque::from(parts);
        let mut left: u64 = rest.iter().map(|part| part.len() as u64).sum();
        while left > part_bytes {
            left -= part_bytes;
            self.send_part(take(&mut rest, part_bytes)).await?;
        }
        Ok(rest.into())
    }

    /// Sends a part. Returns when it is on its way, which waits for a place.
    pub(super) async fn send_part(&mut self, parts: Vec<Bytes>) -> Result<()> {
        let place = Arc::clone(&self.core.places).acquire_owned().await;
        let place = place.map_err(|closed| Error::internal("no more parts can be sent").with_source(closed))?;
        self.begin_large().await?;
        self.bytes += bytes_of(&parts);
        let (core, key) = (Arc::clone(&self.core), self.key.clone());
        let Some(large) = &mut self.large else { return Err(Error::internal("a part of nothing")) };
        while let Some(sent) = large.sending.try_join_next() {
            large.sent.push(joined(sent)?);
        }
        large.begun += 1;
        let (id, number) = (large.id.clone(), large.begun);
        large.sending.spawn(async move {
            let _place = place;
            let body = body(&core, parts).await?;
            core.retry.persist("part", || core.objects.send_part(&key, &id, number, body.clone())).await
        });
        Ok(())
    }

    async fn begin_large(&mut self) -> Result<()> {
        if self.large.is_none() {
            let core = &self.core;
            // A name that is taken is noticed at the end too, but by then everything is sent.
            if core.retry.persist("begin", || core.objects.stat(&self.key)).await?.is_some() {
                return Err(Error::new(ErrorKind::AlreadyExists, "it exists already"));
            }
            let id = core.retry.persist("begin", || core.objects.begin_large(&self.key, &self.mark)).await?;
            self.large = Some(Large { id, sending: JoinSet::new(), sent: Vec::new(), begun: 0 });
        }
        Ok(())
    }

    /// Sends the last bytes and makes the object. Returns when it is known to be there.
    pub(super) async fn finish(mut self, rest: Vec<Bytes>) -> Result<()> {
        if self.large.is_none() {
            self.bytes = bytes_of(&rest);
            self.create(rest).await?;
        } else {
            self.send_part(rest).await?;
            self.complete().await?;
        }
        // From here on the parts are an object's.
        self.large = None;
        self.confirm().await
    }

    async fn create(&self, parts: Vec<Bytes>) -> Result<()> {
        let core = &self.core;
        let body = body(core, parts).await?;
        let doubtful = AtomicBool::new(false);
        let put = || async {
            let created = core.objects.create(&self.key, body.clone(), &self.mark).await;
            self.unless_ours(created, ErrorKind::AlreadyExists, &doubtful).await
        };
        core.retry.persist("put", put).await
    }

    async fn complete(&mut self) -> Result<()> {
        let nothing = || Error::internal("the end of nothing");
        let large = self.large.as_mut().ok_or_else(nothing)?;
        while let Some(sent) = large.sending.join_next().await {
            large.sent.push(joined(sent)?);
        }
        large.sent.sort_unstable_by_key(|part| part.number);
        let (core, large) = (&self.core, self.large.as_ref().ok_or_else(nothing)?);
        let doubtful = AtomicBool::new(false);
        let complete = || async {
            let completed = core.objects.complete(&self.key, &large.id, &large.sent, &self.mark).await;
            // An undertaking that is gone was completed by a try whose answer was lost.
            let completed = self.unless_ours(completed, ErrorKind::NotFound, &doubtful).await;
            self.unless_ours(completed, ErrorKind::AlreadyExists, &doubtful).await
        };
        core.retry.persist("complete", complete).await
    }

    /// Turns the error `kind` of a repeated call into a success if what is there is what we sent.
    async fn unless_ours(&self, result: Result<()>, kind: ErrorKind, doubtful: &AtomicBool) -> Result<()> {
        match result {
            Err(error) if error.kind() == kind && doubtful.load(Ordering::Relaxed) => {
                let stat = self.core.objects.stat(&self.key).await?;
                let ours = stat.is_some_and(|stat| stat.mark.as_ref() == Some(&self.mark));
                if ours { Ok(()) } else { Err(error) }
            }
            Err(error) => {
                if error.is_temporary() {
                    doubtful.store(true, Ordering::Relaxed);
                }
                Err(error)
            }
            Ok(()) => Ok(()),
        }
    }

    async fn confirm(&self) -> Result<()> {
        let core = &self.core;
        if !core.options.confirm {
            return Ok(());
        }
        let lost = |error: Error| Error::damaged("the store has taken it and does not have it").with_source(error);
        let stat = core.retry.persist("confirm", || core.objects.stat(&self.key)).await?;
        let stat = stat.ok_or_else(no_such_pack).map_err(lost)?;
        if stat.bytes != self.bytes {
            let message = format!("the store has taken {} bytes and has {} of them", self.bytes, stat.bytes);
            return Err(Error::damaged(message));
        }
        match stat.mark {
            Some(mark) if mark != self.mark => Err(Error::damaged("somebody else's object has taken its place")),
            _ => Ok(()),
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let Some(mut large) = self.large.take() else { return };
        // At the end of the program the parts stay; a sweep finds them.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (core, key) = (Arc::clone(&self.core), std::mem::take(&mut self.key));
        runtime.spawn(async move {
            // A part that arrives afterwards would stay.
            large.sending.shutdown().await;
            if let Err(error) = core.objects.abandon(&key, &large.id).await {
                tracing::warn!(key, ?error, "parts of a pack that will not be stay until the next sweep");
            }
        });
    }
}

fn bytes_of(parts: &[Bytes]) -> u64 {
    parts.iter().map(|part| part.len() as u64).sum()
}

fn joined(sent: Result<Result<PartSent>, tokio::task::JoinError>) -> Result<PartSent> {
    sent.map_err(|stopped| Error::internal("the sender of a part stopped").with_source(stopped))?
}

async fn body(core: &Core, parts: Vec<Bytes>) -> Result<Body> {
    let with_sha256 = core.objects.wants_sha256();
    if bytes_of(&parts) <= INLINE_SUM_BYTES {
        return Ok(Body::of(parts, with_sha256));
    }
    let summed = tokio::task::spawn_blocking(move || Body::of(parts, with_sha256));
    summed.await.map_err(|stopped| Error::internal("the worker that sums a part stopped").with_source(stopped))
}
