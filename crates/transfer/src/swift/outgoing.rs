//! An object on its way: one PUT, or segments side by side and a manifest of them (a static large object).
//!
//! Segments of the object `KEY` are `holdfast/OBJECT/CONTENT/NUMBER` in the container of segments, both parts sums: of the key, and of what names source and
//! version. So what stands after a kill is what is listed there. Once an object is there, segments of its other contents are removed.

use super::Inner;
use super::container::{Head, timed};
use super::listing::PAGE;
use crate::other::wire::Moving;
use crate::site::{Incoming, Item, Wanted};
use async_trait::async_trait;
use bytes::Bytes;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{Error, ErrorKind, NodeName, Result};
use holdfast_blob::http::Payload;
use holdfast_blob::object::{Body, hex};
use holdfast_blob::swift::{Call, Target};
use http::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Bytes of a segment; an object that is no larger is one PUT.
const SEGMENT_BYTES: u64 = 8 << 20;
/// Entries of one manifest; an object of more has a manifest of manifests.
const ENTRIES_MAX: usize = 1_000;
/// Segments of one object that are sent side by side: each is in memory.
const AT_ONCE: usize = 4;
/// Digits of a sum in a name.
const DIGITS: usize = 32;

/// What a manifest names.
#[derive(Debug, Clone)]
struct Segment {
    key: String,
    bytes: u64,
    etag: String,
}

/// The object.
pub(super) struct Outgoing {
    inner: Arc<Inner>,
    key: String,
    name: NodeName,
    wanted: Wanted,
    stands: u64,
    sent: BTreeMap<u64, Segment>,
    /// Segments that stand behind one that is missing.
    stand_apart: BTreeMap<u64, Segment>,
    gathered: Vec<Bytes>,
    gathered_bytes: u64,
    next: u64,
    sending: JoinSet<Result<(u64, Segment)>>,
    moving: Moving,
}

fn sum(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..DIGITS].to_owned()
}

/// What the segments of all contents of an object begin with.
pub(super) fn segments_of(key: &str) -> String {
    format!("holdfast/{}/", sum(key))
}

impl Outgoing {
    pub(super) async fn begin(inner: Arc<Inner>, key: String, name: NodeName, wanted: &Wanted) -> Result<Self> {
        let mut sent = BTreeMap::new();
        if wanted.size > SEGMENT_BYTES {
            inner.container.check(&key, wanted.replaces.as_ref()).await?;
            inner.make_segments_container().await?;
            sent = what_stands(&inner, &key, wanted).await?;
        }
        let next = (0..u64::MAX).find(|number| !sent.contains_key(number)).unwrap_or(u64::MAX);
        let stand_apart = sent.split_off(&next);
        let stands = sent.values().map(|segment| segment.bytes).sum();
        let wanted = wanted.clone();
        let (gathered, sending, moving) = (Vec::new(), JoinSet::new(), Moving::from(stands));
        Ok(Self {
            inner,
            key,
            name,
            wanted,
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

    /// Sends what was gathered, once there is a place for it, unless it stands behind a segment that is missing.
    async fn send(&mut self) -> Result<()> {
        while self.sending.len() >= AT_ONCE {
            self.one_sent().await?;
        }
        let (number, parts) = (self.next, std::mem::take(&mut self.gathered));
        (self.next, self.gathered_bytes) = (self.next + 1, 0);
        let (inner, moving) = (Arc::clone(&self.inner), self.moving.clone());
        let key = format!("{}{}/{number:08}", segments_of(&self.key), sum(&self.wanted.key));
        let stands = self.stand_apart.remove(&number);
        self.sending.spawn(async move {
            let body = body_of(parts, &moving).await?;
            let bytes = body.payload.bytes();
            let is_this =
                |segment: &Segment| segment.bytes == bytes && segment.etag.eq_ignore_ascii_case(&hex(&body.md5));
            if let Some(segment) = stands.filter(is_this) {
                moving.moved(bytes);
                return Ok((number, segment));
            }
            let etag = inner.container.put(Call::new(Method::PUT, Target::Segment(&key)), body).await?;
            Ok((number, Segment { key, bytes, etag }))
        });
        Ok(())
    }

    async fn one_sent(&mut self) -> Result<()> {
        let Some(sent) = self.sending.join_next().await else { return Ok(()) };
        let (number, segment) = sent.map_err(|error| Error::internal("a task was lost").with_source(error))??;
        self.sent.insert(number, segment);
        Ok(())
    }

    fn put(&self) -> Call<'_> {
        let call = timed(Call::new(Method::PUT, Target::Object(&self.key)), self.wanted.modified_ns);
        if self.wanted.replaces.is_none() { call.header("if-none-match", "*") } else { call }
    }

    async fn put_small(&mut self) -> Result<()> {
        // Services hold a PUT against "nothing is there" only.
        if self.wanted.replaces.is_some() {
            self.inner.container.check(&self.key, self.wanted.replaces.as_ref()).await?;
        }
        let body = body_of(std::mem::take(&mut self.gathered), &self.moving).await?;
        self.inner.container.put(self.put(), body).await.map(drop)
    }

    async fn put_manifests(&mut self) -> Result<()> {
        if self.gathered_bytes > 0 {
            self.send().await?;
        }
        while !self.sending.is_empty() {
            self.one_sent().await?;
        }
        let mut segments: Vec<Segment> = std::mem::take(&mut self.sent).into_values().collect();
        if segments.len() > ENTRIES_MAX {
            let mut manifests = Vec::new();
            for (number, entries) in segments.chunks(ENTRIES_MAX).enumerate() {
                let key = format!("{}{}/manifest {number:08}", segments_of(&self.key), sum(&self.wanted.key));
                let etag = self.manifest(Call::new(Method::PUT, Target::Segment(&key)), entries).await?;
                manifests.push(Segment { key, bytes: entries.iter().map(|entry| entry.bytes).sum(), etag });
            }
            segments = manifests;
        }
        self.inner.container.check(&self.key, self.wanted.replaces.as_ref()).await?;
        self.manifest(self.put(), &segments).await.map(drop)
    }

    /// Stores a manifest, which the service holds against the segments it names; answers its tag.
    async fn manifest(&self, call: Call<'_>, segments: &[Segment]) -> Result<String> {
        let container = &self.inner.container;
        let entry = |segment: &Segment| {
            let path = format!("/{}_segments/{}", container.name, segment.key);
            json!({"path": path, "etag": segment.etag, "size_bytes": segment.bytes})
        };
        let list = Value::Array(segments.iter().map(entry).collect()).to_string();
        let call = call.query("multipart-manifest", "put").header("content-type", "application/octet-stream");
        let reply = container.send(call.body(Payload::from(list))).await?;
        if reply.answer.status == http::StatusCode::BAD_REQUEST {
            return Err(Error::unavailable("the service does not have the segments any more"));
        }
        if !reply.answer.status.is_success() {
            return Err(container.refused(reply, false).await);
        }
        let etag = reply.answer.header("etag").unwrap_or_default().trim_matches('"').to_owned();
        reply.text(1 << 20).await?;
        Ok(etag)
    }
}

/// Segments of this content that the service has, as long as they should be.
async fn what_stands(inner: &Inner, key: &str, wanted: &Wanted) -> Result<BTreeMap<u64, Segment>> {
    let prefix = format!("{}{}/", segments_of(key), sum(&wanted.key));
    let (mut stands, mut after) = (BTreeMap::new(), None::<String>);
    loop {
        let page = inner.container.page(Target::Segments, &prefix, (false, PAGE), after.as_deref()).await?;
        let full = page.len() >= PAGE;
        for entry in page {
            let (Some(name), Some(bytes), Some(etag)) = (entry.name, entry.bytes, entry.hash) else {
                return Ok(stands);
            };
            after = Some(name.clone());
            // Manifests of segments are there as well.
            let Some(number) = name.strip_prefix(&prefix).and_then(|number| number.parse::<u64>().ok()) else {
                continue;
            };
            let left = number.checked_mul(SEGMENT_BYTES).and_then(|before| wanted.size.checked_sub(before));
            if bytes > 0 && left.is_some_and(|left| bytes == SEGMENT_BYTES.min(left)) {
                stands.insert(number, Segment { key: name, bytes, etag });
            }
        }
        if !full {
            return Ok(stands);
        }
    }
}

/// Removes segments of an object's other contents. What stays costs room until the next time.
async fn remove_others(inner: &Inner, key: &str, kept: Option<&str>) {
    let (prefix, mut after) = (segments_of(key), None::<String>);
    let kept = kept.map(|content| format!("{prefix}{}/", sum(content)));
    loop {
        let page = inner.container.page(Target::Segments, &prefix, (false, PAGE), after.as_deref()).await;
        let Ok(page) = page.inspect_err(|error| tracing::debug!(%error, "segments were not looked for")) else {
            return;
        };
        let names: Vec<String> = page.into_iter().filter_map(|entry| entry.name).collect();
        let Some(last) = names.last() else { return };
        after = Some(last.clone());
        let is_kept = |name: &String| kept.as_ref().is_some_and(|kept| name.starts_with(kept));
        for name in names.iter().filter(|name| !is_kept(name)) {
            if let Err(error) = inner.container.delete(Target::Segment(name), false).await {
                tracing::debug!(%error, name, "a segment was not removed");
            }
        }
    }
}

/// Bytes with their sum, which is made on a thread.
pub(super) async fn body_of(parts: Vec<Bytes>, moving: &Moving) -> Result<Body> {
    let summed = tokio::task::spawn_blocking(move || Body::of(parts, false));
    let body = summed.await.map_err(|error| Error::internal("a thread was lost").with_source(error))?;
    Ok(Body { payload: body.payload.watched(moving.watch()), ..body })
}

#[async_trait]
impl Incoming for Outgoing {
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
        let full = self.wanted.size > SEGMENT_BYTES && self.gathered_bytes >= SEGMENT_BYTES;
        if full { self.send().await } else { Ok(()) }
    }

    fn arrived(&self) -> u64 {
        self.moving.bytes()
    }

    async fn finish(mut self: Box<Self>) -> Result<Item> {
        self.moving.here();
        let large = self.wanted.size > SEGMENT_BYTES;
        if large {
            self.put_manifests().await?;
        } else {
            self.put_small().await?;
        }
        if large || self.wanted.replaces.is_some() {
            remove_others(&self.inner, &self.key, large.then_some(&self.wanted.key)).await;
        }
        let head: Option<Head> = self.inner.container.head(&self.key).await?;
        match head {
            Some(head) if head.size == self.wanted.size => head.item(self.name),
            _ => Err(Error::new(
                ErrorKind::Damaged,
                "the service says that the object is there, and it is not, or of another size",
            )),
        }
    }

    async fn pause(mut self: Box<Self>) {
        // What is whole stays with the service.
        self.sending.abort_all();
    }
}
