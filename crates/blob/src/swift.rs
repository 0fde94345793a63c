//! Packs in OpenStack Swift, or anything that speaks its API v1.
//!
//! What the requests mean is in [`crate::object`]; this module says it in Swift's words:
//!
//! | what | request |
//! |---|---|
//! | signing in | TempAuth v1, or Keystone v3 ([`Auth`]); the token is renewed before it expires and when it is refused |
//! | a pack that fits a part | PUT with `If-None-Match: *` and the MD5 in `ETag`, which Swift verifies |
//! | a larger one | segments in a second container (`CONTAINER_segments`), then a manifest: a static large object |
//! | reads, lengths | GET with a range, HEAD |
//! | removal | DELETE, with the segments where there are any; bulk delete for several, where it is offered |
//! | lists | GET of the container as JSON, with `marker` |
//! | the sweep | segments that no manifest names |
//! | room | quotas of container and account, where there are any |
//!
//! **Limits**: lists of Swift lag behind a little (its container servers are told of objects after the fact, and later
//! still when they are busy), so a check may take a new pack for missing from a list; reads and lengths do not lag. A
//! condition on a put is tested before the bytes arrive: of two processes that put one name at the same moment, the later
//! wins. Names are never used twice, so neither matters to the drive.

mod auth;
mod call;
mod large;
mod listing;
mod options;
mod session;

pub use auth::Auth;
pub use call::{Call, Swift, Target};
pub use listing::parse_list;
pub use options::SwiftOptions;

use crate::StoreRoom;
use crate::object::{Body, Keys, ObjectStore, Objects, Page, PartSent, Stat, check_range, hex};
use async_trait::async_trait;
use holdfast_base::{Error, Result};
use http::{Method, StatusCode};
use listing::LIST_BYTES_MAX;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The header that carries a pack's mark.
const MARK_HEADER: &str = "x-object-meta-holdfast-mark";

/// How long an answer about room is believed: every upload asks, and a quota is no clock.
const ROOM_BELIEVED: Duration = Duration::from_secs(15);

/// A Swift container, seen as objects.
struct SwiftObjects {
    swift: Swift,
    /// Whether the service removes several objects with one request, and how many.
    bulk_delete_max: usize,
    room: Mutex<Option<(Instant, Option<StoreRoom>)>>,
}

/// Opens a store of packs in a container, which must exist: signs in and asks for a list, so that a wrong name or wrong
/// credentials are known at the start. The container of segments is made if it is missing.
pub async fn open(options: &SwiftOptions) -> Result<ObjectStore> {
    let keys = Keys::below(&options.prefix)?;
    let swift = Swift::new(options)?;
    let opening = |error: Error| error.context("opening the store");
    let bulk_delete_max = swift.bulk_delete_max().await.map_err(opening)?;
    let objects = SwiftObjects { swift, bulk_delete_max, room: Mutex::new(None) };
    objects.page(keys.prefix(), None, 1).await.map_err(opening)?;
    objects.make_segments_container().await.map_err(opening)?;
    Ok(ObjectStore::new(Arc::new(objects), keys, options.objects))
}

impl SwiftObjects {
    async fn put(&self, call: Call<'_>) -> Result<()> {
        let answer = self.swift.send(call).await?;
        match answer.status {
            StatusCode::OK | StatusCode::CREATED | StatusCode::ACCEPTED => answer.finish().await,
            // What is not found by a put is its container.
            _ => Err(self.swift.failure(answer, Target::Container).await),
        }
    }

    async fn delete_one(&self, key: &str) -> Result<()> {
        match self.head(key).await? {
            None => Ok(()),
            Some(head) if head.is_large => self.delete_large(key).await,
            Some(_) => self.delete_plain(Target::Object(key)).await,
        }
    }

    async fn delete_plain(&self, target: Target<'_>) -> Result<()> {
        let answer = self.swift.send(Call::new(Method::DELETE, target)).await?;
        match answer.status {
            StatusCode::OK | StatusCode::NO_CONTENT | StatusCode::NOT_FOUND => answer.finish().await,
            _ => Err(self.swift.failure(answer, target).await),
        }
    }

    async fn head(&self, key: &str) -> Result<Option<Head>> {
        let answer = self.swift.send(Call::new(Method::HEAD, Target::Object(key))).await?;
        match answer.status {
            StatusCode::OK | StatusCode::NO_CONTENT => {
                let bytes = answer.number("content-length");
                let bytes = bytes.ok_or_else(|| Error::damaged("the service tells no length of an object"))?;
                let mark = answer.header(MARK_HEADER).map(ToOwned::to_owned);
                let large = answer.header("x-static-large-object");
                let is_large = large.is_some_and(|value| value.eq_ignore_ascii_case("true"));
                Ok(Some(Head { stat: Stat { bytes, mark }, is_large }))
            }
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(self.swift.failure(answer, Target::Object(key)).await),
        }
    }

    async fn ask_room(&self) -> Result<Option<StoreRoom>> {
        let mut least: Option<StoreRoom> = None;
        for (target, kind) in [(Target::Account, "account"), (Target::Container, "container")] {
            let answer = self.swift.send(Call::new(Method::HEAD, target)).await?;
            if !answer.status.is_success() {
                return Err(self.swift.failure(answer, target).await);
            }
            let quota = answer.number(&format!("x-{kind}-meta-quota-bytes"));
            let used = answer.number(&format!("x-{kind}-bytes-used")).unwrap_or(0);
            if let Some(total_bytes) = quota {
                let room = StoreRoom { total_bytes, free_bytes: total_bytes.saturating_sub(used) };
                least = Some(least.map_or(room, |least| if room.free_bytes < least.free_bytes { room } else { least }));
            }
        }
        Ok(least)
    }
}

/// What a HEAD says.
struct Head {
    stat: Stat,
    is_large: bool,
}

#[async_trait]
impl Objects for SwiftObjects {
    fn kind(&self) -> &'static str {
        "swift"
    }

    fn wants_sha256(&self) -> bool {
        false
    }

    async fn create(&self, key: &str, body: Body, mark: &str) -> Result<()> {
        let call = Call::new(Method::PUT, Target::Object(key))
            .header("if-none-match", "*")
            .header("etag", &hex(&body.md5))
            .header(MARK_HEADER, mark)
            .body(body.payload);
        self.put(call).await
    }

    async fn stat(&self, key: &str) -> Result<Option<Stat>> {
        Ok(self.head(key).await?.map(|head| head.stat))
    }

    async fn read(&self, key: &str, offset: u64, len: usize, buffer: Vec<u8>) -> Result<Vec<u8>> {
        let range = format!("bytes={offset}-{}", offset + (len as u64 - 1));
        let answer = self.swift.send(Call::new(Method::GET, Target::Object(key)).header("range", &range)).await?;
        match answer.status {
            StatusCode::PARTIAL_CONTENT => {
                check_range(answer.header("content-range"), offset, len)?;
                answer.exactly(len, buffer).await
            }
            StatusCode::OK if offset == 0 && answer.number("content-length") == Some(len as u64) => {
                answer.exactly(len, buffer).await
            }
            StatusCode::OK | StatusCode::RANGE_NOT_SATISFIABLE => {
                Err(Error::damaged(format!("it has no {len} bytes at offset {offset}")))
            }
            // The manifest is there and what it names is not.
            StatusCode::CONFLICT => Err(Error::damaged("a segment of it is missing")),
            _ => Err(self.swift.failure(answer, Target::Object(key)).await),
        }
    }

    async fn delete(&self, keys: &[String]) -> Result<()> {
        match keys {
            [key] => self.delete_one(key).await,
            _ => self.delete_several(keys).await,
        }
    }

    async fn page(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page> {
        self.list(Target::Container, prefix, after, limit).await
    }

    async fn begin_large(&self, key: &str, mark: &str) -> Result<String> {
        // Segments need no beginning; their names need a place that no other try shares.
        Ok(format!("{key}/{mark}"))
    }

    async fn send_part(&self, _key: &str, large: &str, number: u32, body: Body) -> Result<PartSent> {
        self.put_segment(large, number, body).await
    }

    async fn complete(&self, key: &str, large: &str, parts: &[PartSent], mark: &str) -> Result<()> {
        self.put_manifest(key, large, parts, mark).await
    }

    async fn abandon(&self, _key: &str, large: &str) -> Result<()> {
        self.delete_segments(large).await
    }

    async fn sweep(&self, prefix: &str, older_than: Duration) -> Result<u64> {
        self.sweep_segments(prefix, older_than).await
    }

    async fn room(&self) -> Result<Option<StoreRoom>> {
        if let Some((asked, room)) = *self.room.lock()
            && asked.elapsed() < ROOM_BELIEVED
        {
            return Ok(room);
        }
        let room = self.ask_room().await?;
        *self.room.lock() = Some((Instant::now(), room));
        Ok(room)
    }
}
