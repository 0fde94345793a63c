//! An object of many parts on its way: a multipart upload, whose parts go side by side and are made one object at the end.
//!
//! Which upload is whose is in a [`super::journal`] of this machine; what stands of it the service knows: its parts, each of
//! which it took with its MD5. An answer 200 to the last request may still hold an error, since services keep the connection alive while they put
//! the parts together.

use super::bucket::{Head, TEXT_BYTES_MAX, There, has_md5, is_encrypted, is_other_md5, timed};
use super::failure::About;
use super::journal::{self, Begun, Journal};
use super::parts::{Part, parts_of, parts_xml, that_fit};
use super::{Inner, body_of};
use crate::other::wire::Moving;
use crate::site::{Incoming, Item, Wanted};
use async_trait::async_trait;
use bytes::Bytes;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{Error, ErrorKind, NodeName, Result};
use holdfast_blob::object::hex;
use holdfast_blob::s3::{Call, error_of, text_of};
use http::{Method, StatusCode};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Bytes of a part, unless the object needs more parts than there may be.
pub(super) const PART_BYTES: u64 = 8 << 20;
/// Parts that an object may have.
const PARTS_MAX: u64 = 10_000;
/// Parts of one object that are sent side by side: each is in memory.
const PARTS_AT_ONCE: u64 = 4;
/// Bytes of them all, as far as parts are no larger.
const BYTES_AT_ONCE: u64 = 64 << 20;

/// The object.
pub(super) struct Large {
    inner: Arc<Inner>,
    name: NodeName,
    wanted: Wanted,
    begun: Begun,
    journal: Journal,
    stands: u64,
    sent: BTreeMap<u32, Part>,
    /// Parts that stand behind one that is missing.
    stand_apart: BTreeMap<u32, Part>,
    /// The part that comes next, as far as it was written.
    gathered: Vec<Bytes>,
    gathered_bytes: u64,
    next: u32,
    sending: JoinSet<Result<(u32, Part)>>,
    moving: Moving,
}

/// Bytes of each part of an object but the last: whole blocks, and no more parts than there may be.
fn part_bytes(size: u64) -> u64 {
    let block = BLOCK_BYTES as u64;
    PART_BYTES.max(size.div_ceil(PARTS_MAX).div_ceil(block) * block)
}

impl Large {
    /// Begins an upload, or goes on with one.
    pub(super) async fn begin(inner: Arc<Inner>, key: &str, name: NodeName, wanted: &Wanted) -> Result<Self> {
        inner.bucket.check(key, &There::of(wanted.replaces.as_ref())).await?;
        let (mut journal, begun) = Journal::open(inner.journals.clone(), &inner.address, key).await?;
        let content = blake3::hash(wanted.key.as_bytes()).to_hex().to_string();
        let (begun, sent) = if let Some(going_on) = go_on(&inner, begun, &content).await? {
            going_on
        } else {
            let upload = create(&inner, key, wanted).await?;
            let (address, key, part_bytes) = (inner.address.clone(), key.to_owned(), part_bytes(wanted.size));
            let begun = Begun { address, key, upload, part_bytes, content };
            journal.write(&begun).await;
            (begun, BTreeMap::new())
        };
        let mut sent = that_fit(sent, begun.part_bytes, wanted.size);
        let next = (1..u32::MAX).find(|number| !sent.contains_key(number)).unwrap_or(u32::MAX);
        let stand_apart = sent.split_off(&next);
        let stands = sent.values().map(|part| part.bytes).sum();
        let (moving, wanted) = (Moving::from(stands), wanted.clone());
        let (gathered, sending) = (Vec::new(), JoinSet::new());
        Ok(Self {
            inner,
            name,
            wanted,
            begun,
            journal,
            stands,
            sent,
            stand_apart,
            gathered,
            gathered_bytes: 0,
            next,
            sending,
            moving,
        })
    }

    /// Sends what was gathered, once there is a place for it, unless it stands behind a part that is missing.
    async fn send(&mut self) -> Result<()> {
        let at_once = (BYTES_AT_ONCE / self.begun.part_bytes).clamp(1, PARTS_AT_ONCE);
        while self.sending.len() as u64 >= at_once {
            self.one_sent().await?;
        }
        let (number, parts) = (self.next, std::mem::take(&mut self.gathered));
        (self.next, self.gathered_bytes) = (self.next + 1, 0);
        let (inner, begun, moving) = (Arc::clone(&self.inner), self.begun.clone(), self.moving.clone());
        let stands = self.stand_apart.remove(&number);
        self.sending
            .spawn(async move { Ok((number, upload(&inner, &begun, number, (parts, stands), &moving).await?)) });
        Ok(())
    }

    async fn one_sent(&mut self) -> Result<()> {
        let Some(sent) = self.sending.join_next().await else { return Ok(()) };
        let (number, part) = sent.map_err(|error| Error::internal("a task was lost").with_source(error))??;
        self.sent.insert(number, part);
        Ok(())
    }

    async fn complete(&mut self) -> Result<()> {
        let (bucket, Begun { key, upload, .. }) = (&self.inner.bucket, &self.begun);
        let call = Call::new(Method::POST).key(key).query("uploadId", upload).text(parts_xml(&self.sent));
        let there = There::of(self.wanted.replaces.as_ref());
        let reply = bucket.store(key, &there, call).await?;
        if reply.answer.status != StatusCode::OK {
            let refusal = bucket.s3.refusal(reply.answer).await;
            let code = refusal.told.as_ref().map(|(code, _)| code.clone()).unwrap_or_default();
            return Err(self.refused(&code, super::failure::error(&refusal, About::Object)).await);
        }
        let text = reply.text(TEXT_BYTES_MAX).await?;
        match error_of(&text) {
            None if text_of(&text, &["CompleteMultipartUploadResult", "ETag"])?.is_some() => Ok(()),
            None => Err(Error::unavailable("the service does not say that it has put the parts together")),
            Some((code, message)) => {
                let error = Error::unavailable("the service failed while it put the parts together");
                Err(self.refused(&code, error.with_source(format!("{code}: {message}"))).await)
            }
        }
    }

    /// What it means that the service does not put the parts together.
    async fn refused(&mut self, code: &str, error: Error) -> Error {
        match code {
            // It is gone: perhaps it was done, and the answer was lost. Who begins again finds out.
            "NoSuchUpload" => {
                self.journal.end().await;
                Error::unavailable("the service does not know the upload any more")
            }
            "InvalidPart" | "InvalidPartOrder" | "EntityTooSmall" => {
                self.journal.end().await;
                error
            }
            "PreconditionFailed" | "NoSuchKey" => Error::new(ErrorKind::PreconditionFailed, error.message()),
            _ => error,
        }
    }
}

/// What stands of an upload that was begun, if it is of the same content; others are given up.
async fn go_on(inner: &Inner, begun: Option<Begun>, content: &str) -> Result<Option<(Begun, BTreeMap<u32, Part>)>> {
    let Some(begun) = begun else { return Ok(None) };
    if begun.content != content {
        abort(inner, &begun).await;
        return Ok(None);
    }
    let parts = parts_of(inner, &begun).await?;
    Ok(parts.map(|parts| (begun, parts)))
}

async fn create(inner: &Inner, key: &str, wanted: &Wanted) -> Result<String> {
    let call = timed(Call::new(Method::POST).key(key).query("uploads", ""), wanted.modified_ns);
    let reply = inner.bucket.send(call).await?;
    if reply.answer.status != StatusCode::OK {
        return Err(inner.bucket.failure(reply, About::Object).await);
    }
    let id = text_of(&reply.text(TEXT_BYTES_MAX).await?, &["InitiateMultipartUploadResult", "UploadId"])?;
    let id = id.filter(|id| !id.is_empty() && !id.contains('\n'));
    id.ok_or_else(|| Error::damaged("the service began an upload without naming it"))
}

/// Sends a part, unless one `stands` that has its sum.
async fn upload(
    inner: &Inner,
    begun: &Begun,
    number: u32,
    (parts, stands): (Vec<Bytes>, Option<Part>),
    moving: &Moving,
) -> Result<Part> {
    let body = body_of(&inner.bucket, parts, moving).await?;
    let (bytes, md5) = (body.payload.bytes(), hex(&body.md5));
    if let Some(part) = stands.filter(|part| part.bytes == bytes && has_md5(&part.etag, &md5)) {
        moving.moved(bytes);
        return Ok(part);
    }
    let call = Call::new(Method::PUT).key(&begun.key).query("partNumber", &number.to_string());
    let reply = inner.bucket.send(call.query("uploadId", &begun.upload).body(body)).await?;
    if reply.answer.status != StatusCode::OK {
        return Err(match inner.bucket.failure(reply, About::Object).await {
            // It was given up meanwhile; who begins again gets another.
            error if error.kind() == ErrorKind::NotFound => {
                Error::unavailable("the service does not know the upload any more")
            }
            error => error,
        });
    }
    let etag = reply.answer.header("etag").map(ToOwned::to_owned);
    let etag = etag.ok_or_else(|| Error::damaged("the service took a part without naming it"))?;
    if !is_encrypted(&reply) && is_other_md5(&etag, &md5) {
        return Err(Error::unavailable("the service stored other bytes of a part than it was sent"));
    }
    reply.text(TEXT_BYTES_MAX).await?;
    Ok(Part { bytes, etag })
}

/// Gives an upload up. One that stays costs room until the service, or who is old enough, removes it.
async fn abort(inner: &Inner, begun: &Begun) {
    let call = Call::new(Method::DELETE).key(&begun.key).query("uploadId", &begun.upload);
    let reply = inner.bucket.send(call).await;
    match reply {
        Ok(reply) if reply.answer.status.is_success() || reply.answer.status == StatusCode::NOT_FOUND => {}
        Ok(reply) => tracing::debug!(status = %reply.answer.status, key = begun.key, "an upload was not given up"),
        Err(error) => tracing::debug!(%error, key = begun.key, "an upload was not given up"),
    }
}

/// Gives up what was begun so long ago that nobody goes on with it.
pub(super) async fn abort_old(inner: &Inner) {
    for (mut journal, begun) in journal::old(inner.journals.clone(), &inner.address).await {
        abort(inner, &begun).await;
        journal.end().await;
    }
}

#[async_trait]
impl Incoming for Large {
    fn stands_at(&self) -> u64 {
        self.stands
    }

    fn grain(&self) -> u64 {
        BLOCK_BYTES as u64
    }

    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.moving.here();
        self.gathered_bytes += bytes.len() as u64;
        self.gathered.push(bytes);
        if self.gathered_bytes >= self.begun.part_bytes { self.send().await } else { Ok(()) }
    }

    fn arrived(&self) -> u64 {
        self.moving.bytes()
    }

    async fn finish(mut self: Box<Self>) -> Result<Item> {
        self.moving.here();
        if self.gathered_bytes > 0 {
            self.send().await?;
        }
        while !self.sending.is_empty() {
            self.one_sent().await?;
        }
        if self.sent.values().map(|part| part.bytes).sum::<u64>() != self.wanted.size {
            return Err(Error::internal("an object was finished before all of it was written"));
        }
        self.complete().await?;
        self.journal.end().await;
        let head: Option<Head> = self.inner.bucket.head(&self.begun.key).await?;
        match head {
            Some(head) if head.size == self.wanted.size => head.item(self.name),
            _ => Err(Error::damaged("the service says that the object is there, and it is not, or of another size")),
        }
    }

    async fn pause(mut self: Box<Self>) {
        // What is whole stays with the service.
        self.sending.abort_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_object_has_more_parts_than_there_may_be() {
        for size in [PART_BYTES + 1, 80 << 30, (80 << 30) + 1, 5 << 40] {
            let bytes = part_bytes(size);
            assert!(bytes.is_multiple_of(BLOCK_BYTES as u64) && size.div_ceil(bytes) <= PARTS_MAX, "{size}: {bytes}");
        }
        assert_eq!(part_bytes(1 << 30), PART_BYTES);
    }
}
