//! Keeping the table true: what changed is looked for every second, and at once when this process changed it.
//!
//! A look costs a few point reads a site and nothing else as long as nothing changed: the pointer and the settings are files, and
//! a file's count says whether it changed. A new snapshot is loaded whole before it takes the old one's place; if it cannot be
//! loaded, the old one stays. What is scheduled is loaded when it becomes known and switched to by the clock.

use super::cache::Cache;
use super::table::{Mounted, Ready, Table};
use super::{Checks, entry};
use crate::admin::Sites;
use crate::layout::{LIVE, ObjectId, SETTINGS, SPACE_PREFIX};
use crate::limits::{CACHED_BYTES_MAX, LOOK_EVERY_MS, SEARCHES_AT_ONCE};
use crate::publish::index;
use crate::settings::{Pointer, Settings};
use crate::store::{Store, read_whole};
use bytes::Bytes;
use futures_util::StreamExt;
use holdfast_auth::Session;
use holdfast_base::{ByteRange, Error, ErrorKind, Result};
use holdfast_http::Pieces;
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Previews kept loaded.
const PREVIEWS_MAX: usize = 8;
/// Of the cache, how much is filled ahead when a snapshot goes live: not all, what people really read must have room.
const WARM_SHARE: usize = 2;
/// Largest content read ahead.
const WARM_BYTES_MAX: u64 = 256 << 10;
/// Contents read ahead at the same time. Behind a distant store each takes a round trip, and visitors come meanwhile.
const WARMED_AT_ONCE: usize = 8;

/// The serving of sites by one process. Cheap to clone.
#[derive(Clone)]
pub struct Serving(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) sites: Sites,
    pub(crate) checks: Checks,
    cache: Arc<Cache>,
    cache_bytes: usize,
    table: RwLock<Arc<Table>>,
    /// Whether the table has been true once.
    settled: AtomicBool,
    reader: RwLock<Option<Arc<Session>>>,
    known: tokio::sync::Mutex<HashMap<String, Known>>,
    previews: Mutex<Vec<(String, Arc<Ready>)>>,
    pub(crate) searches: Semaphore,
    /// Passwords that were right a moment ago, by a keyed hash, and until when.
    pub(crate) right: Mutex<HashMap<[u8; 32], Instant>>,
    pub(crate) right_key: [u8; 32],
}

/// A site as it was last seen.
struct Known {
    counts: (i64, i64),
    settings: Settings,
    pointer: Pointer,
    /// Snapshots it may serve, by name.
    loaded: Vec<Arc<Ready>>,
    mounted: Arc<Mounted>,
}

impl Serving {
    /// Makes one that serves nothing yet. `cache_bytes` bounds the memory for contents.
    pub fn new(sites: Sites, checks: Checks, cache_bytes: usize) -> Result<Self> {
        Ok(Self(Arc::new(Inner {
            sites,
            checks,
            cache: Arc::new(Cache::new(cache_bytes)),
            cache_bytes,
            table: RwLock::default(),
            settled: false.into(),
            reader: RwLock::default(),
            known: tokio::sync::Mutex::default(),
            previews: Mutex::default(),
            searches: Semaphore::new(SEARCHES_AT_ONCE),
            right: Mutex::default(),
            right_key: holdfast_seal::keys::random_bytes()?,
        })))
    }

    /// Looks for changes until the last clone is gone.
    pub fn keep_looking(&self) -> tokio::task::JoinHandle<()> {
        let (inner, changes) = (Arc::downgrade(&self.0), self.0.sites.changes());
        tokio::spawn(async move {
            let mut failing = false;
            loop {
                let Some(inner) = Weak::upgrade(&inner) else { return };
                let saw = changes.look();
                let looked = Self(inner).look().await;
                changes.looked(saw);
                if let (Err(error), false) = (&looked, failing) {
                    tracing::warn!(%error, "looking for changes of sites failed; what is served stays as it is");
                }
                failing = looked.is_err();
                changes.news(Duration::from_millis(LOOK_EVERY_MS)).await;
            }
        })
    }

    /// Looks for changes once.
    pub async fn look(&self) -> Result<()> {
        let inner = &self.0;
        let mut known = inner.known.lock().await;
        let Some(reader) = inner.reader().await? else {
            inner.settled.store(true, Ordering::Release);
            return Ok(());
        };
        let spaces = inner.sites.drive().spaces(&reader).await?;
        let mut mounted = Vec::new();
        let mut seen = HashMap::new();
        for space in spaces {
            let Some(name) = space.name.strip_prefix(SPACE_PREFIX) else { continue };
            let before = known.remove(name);
            match inner.look_at(&reader, name, space.root.created_ms, before.as_ref()).await {
                Ok(Some(now)) => {
                    mounted.push(now.mounted.clone());
                    seen.insert(name.to_owned(), now);
                }
                // A space that is no site, or not yet.
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(%error, site = name, "the site's new state cannot be served");
                    if let Some(before) = before {
                        mounted.push(before.mounted.clone());
                        seen.insert(name.to_owned(), before);
                    }
                }
            }
        }
        *known = seen;
        *inner.table.write() = Arc::new(Table::new(mounted, inner.sites.drive_hosts()));
        inner.settled.store(true, Ordering::Release);
        metrics::gauge!("holdfast_sites").set(known.len() as f64);
        Ok(())
    }

    /// Whether it knows which sites there are. Before its first look is over it would call every site unknown.
    pub fn is_settled(&self) -> bool {
        self.0.settled.load(Ordering::Acquire)
    }

    /// The present table.
    pub fn table(&self) -> Arc<Table> {
        self.0.table.read().clone()
    }
}

impl Inner {
    async fn reader(&self) -> Result<Option<Arc<Session>>> {
        if let Some(reader) = &*self.reader.read() {
            return Ok(Some(reader.clone()));
        }
        let opened = self.sites.reader().await?.map(Arc::new);
        self.reader.write().clone_from(&opened);
        Ok(opened)
    }

    async fn look_at(
        &self,
        reader: &Arc<Session>,
        name: &str,
        made_ms: i64,
        before: Option<&Known>,
    ) -> Result<Option<Known>> {
        let store = self.store(reader, name);
        let now_ms = self.sites.clock().now_ms();
        let count = |walk: Option<holdfast_drive::Walk>| walk.and_then(|walk| walk.node().map(|node| node.seq));
        let (Some(live), Some(settings)) = (count(store.walk(LIVE).await?), count(store.walk(SETTINGS).await?)) else {
            return Ok(None);
        };
        let counts = (live, settings);
        let before = before.filter(|before| before.counts.1 == settings);
        if let Some(before) = before.filter(|before| before.counts == counts) {
            let due = before.pointer.at(now_ms).map(ToOwned::to_owned);
            let current = before.mounted.ready.as_ref().map(|ready| ready.id.clone());
            if due == current {
                return Ok(Some(before.again()));
            }
        }
        let (pointer, _) = store.small::<Pointer>(LIVE).await?;
        let (settings, _) = store.small::<Settings>(SETTINGS).await?;
        let mut loaded = Vec::new();
        for snapshot in pointer.named() {
            let kept = before.and_then(|before| before.loaded.iter().find(|ready| ready.id == snapshot));
            loaded.push(match kept {
                Some(ready) => ready.clone(),
                None => self.load(&store, &settings, snapshot, false).await?,
            });
        }
        let live = pointer.at(now_ms).and_then(|id| loaded.iter().find(|ready| ready.id == id)).cloned();
        if let Some(live) = &live {
            self.warm(&store, live);
        }
        let mounted = Arc::new(Mounted::new(name, &settings, live, made_ms)?);
        Ok(Some(Known { counts, settings, pointer, loaded, mounted }))
    }

    async fn load(&self, store: &Store, settings: &Settings, snapshot: &str, preview: bool) -> Result<Arc<Ready>> {
        let found = index(store, snapshot).await?;
        let index = found.ok_or_else(|| Error::not_found(format!("there is no snapshot {snapshot}")))?;
        let settings = settings.clone();
        let ready = tokio::task::spawn_blocking(move || Ready::new(index, &settings, preview)).await;
        ready.map(Arc::new).map_err(|error| Error::internal("a snapshot could not be loaded").with_source(error))
    }

    /// Reads what will be asked for first, in the background.
    fn warm(&self, store: &Store, ready: &Arc<Ready>) {
        let mut room = self.cache_bytes / WARM_SHARE;
        let small = ready.entries.iter().filter(|entry| entry.plain.bytes <= WARM_BYTES_MAX);
        let wanted: Vec<ObjectId> = small
            .flat_map(entry::Entry::forms)
            .take_while(|form| {
                let bytes = usize::try_from(form.bytes).unwrap_or(usize::MAX);
                room.checked_sub(bytes).inspect(|left| room = *left).is_some()
            })
            .map(|form| form.object)
            .filter(|object| self.cache.get(object).is_none())
            .collect();
        if wanted.is_empty() {
            return;
        }
        let (store, cache) = (store.clone(), self.cache.clone());
        tokio::spawn(async move {
            let (store, cache) = (&store, &cache);
            let read = |object: ObjectId| async move {
                // What cannot be read is an answer's business.
                let _ = cache.get_or_read(object, || read_object(store, object)).await;
            };
            futures_util::stream::iter(wanted).for_each_concurrent(WARMED_AT_ONCE, read).await;
        });
    }

    pub(crate) fn store(&self, reader: &Arc<Session>, name: &str) -> Store {
        Store { drive: self.sites.drive().clone(), who: reader.clone(), space: crate::layout::space_of(name) }
    }

    /// A small content, if it is in memory.
    pub(crate) fn at_hand(&self, object: &ObjectId) -> Option<Bytes> {
        self.cache.get(object)
    }

    /// A content, read if it is not in memory; none if it is too large to be kept there.
    pub(crate) async fn content(&self, site: &Mounted, object: ObjectId, bytes: u64) -> Result<Option<Bytes>> {
        if bytes > CACHED_BYTES_MAX {
            return Ok(None);
        }
        let store = self.store(&self.must_read().await?, &site.name);
        self.cache.get_or_read(object, || read_object(&store, object)).await.map(Some)
    }

    /// A large content.
    pub(crate) async fn stream(&self, site: &Mounted, object: ObjectId, range: ByteRange) -> Result<Pieces> {
        let store = self.store(&self.must_read().await?, &site.name);
        let walk = store.walk(&object.path()).await?.ok_or_else(|| lost(&store, object))?;
        store.drive.read(&store.who, &walk, range).await
    }

    /// A range of a content, from memory if it is there.
    pub(crate) async fn range(&self, site: &Mounted, object: ObjectId, bytes: u64, range: ByteRange) -> Result<Pieces> {
        let Some(whole) = self.content(site, object, bytes).await? else {
            return self.stream(site, object, range).await;
        };
        let part = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(whole.len());
        let part = whole.slice(part(range.start)..part(range.end));
        Ok(Box::pin(futures_util::stream::once(std::future::ready(Ok(part)))))
    }

    /// Any content whole, without keeping it.
    pub(crate) async fn whole(&self, site: &Mounted, object: ObjectId) -> Result<Bytes> {
        read_object(&self.store(&self.must_read().await?, &site.name), object).await
    }

    /// A snapshot for somebody with a preview link.
    pub(crate) async fn preview(&self, site: &Mounted, snapshot: &str) -> Result<Arc<Ready>> {
        // Other settings make other addresses and headers of it.
        let name =
            format!("{} {snapshot} {}", site.settings.site, blake3::hash(format!("{:?}", site.settings).as_bytes()));
        let held = self.previews.lock().iter().find(|(held, _)| *held == name).map(|(_, ready)| ready.clone());
        if let Some(ready) = held {
            return Ok(ready);
        }
        let store = self.store(&self.must_read().await?, &site.name);
        let ready = self.load(&store, &site.settings, snapshot, true).await?;
        let mut previews = self.previews.lock();
        previews.insert(0, (name, ready.clone()));
        previews.truncate(PREVIEWS_MAX);
        Ok(ready)
    }

    async fn must_read(&self) -> Result<Arc<Session>> {
        self.reader().await?.ok_or_else(|| Error::unavailable("the sites account is not there"))
    }
}

impl Known {
    fn again(&self) -> Self {
        Self {
            counts: self.counts,
            settings: self.settings.clone(),
            pointer: self.pointer.clone(),
            loaded: self.loaded.clone(),
            mounted: self.mounted.clone(),
        }
    }
}

async fn read_object(store: &Store, object: ObjectId) -> Result<Bytes> {
    let walk = store.walk(&object.path()).await?.ok_or_else(|| lost(store, object))?;
    read_whole(&*store.drive, &store.who, &walk).await
}

fn lost(store: &Store, object: ObjectId) -> Error {
    Error::new(ErrorKind::Damaged, format!("{} has lost the content {object}", store.space))
}
