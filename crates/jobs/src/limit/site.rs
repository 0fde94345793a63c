//! A site in its limits: each call and each byte goes through them.

use super::Bucket;
use async_trait::async_trait;
use bytes::Bytes;
use holdfast_base::{ByteRange, DrivePath, Error, NodeName, Result};
use holdfast_transfer::signs;
use holdfast_transfer::sum::Sum;
use holdfast_transfer::{Content, Incoming, Item, Listed, Network, Site, Wanted};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// A site in its limits.
pub struct Limited {
    /// The site itself.
    pub site: Arc<dyn Site>,
    /// Calls at a time.
    pub calls: Option<Arc<Semaphore>>,
    /// What is read of it goes through these.
    pub reads: Vec<Arc<Bucket>>,
    /// What is written to it goes through these.
    pub writes: Vec<Arc<Bucket>>,
}

/// Makes a call when there is room for one.
async fn call<T>(calls: Option<&Arc<Semaphore>>, work: impl Future<Output = Result<T>>) -> Result<T> {
    let Some(calls) = calls else { return work.await };
    let room = signs::waiting(calls.acquire()).await;
    let _room = room.map_err(|_| Error::internal("the calls of a site were closed"))?;
    work.await
}

async fn pass(buckets: &[Arc<Bucket>], bytes: u64) {
    for bucket in buckets {
        bucket.take(bytes).await;
    }
}

#[async_trait]
impl Site for Limited {
    fn address(&self) -> String {
        self.site.address()
    }

    fn network(&self) -> Option<Network> {
        self.site.network()
    }

    fn takes_tags(&self) -> bool {
        self.site.takes_tags()
    }

    async fn look(&self, path: &DrivePath) -> Result<Option<Item>> {
        call(self.calls.as_ref(), self.site.look(path)).await
    }

    async fn list(&self, folder: &DrivePath, after: Option<&NodeName>) -> Result<Listed> {
        call(self.calls.as_ref(), self.site.list(folder, after)).await
    }

    async fn exact(&self, path: &DrivePath, item: &Item) -> Result<Item> {
        call(self.calls.as_ref(), self.site.exact(path, item)).await
    }

    fn is_stored_time(&self, item: &Item) -> bool {
        self.site.is_stored_time(item)
    }

    async fn open(&self, path: &DrivePath, item: &Item) -> Result<Arc<dyn Content>> {
        let inner = call(self.calls.as_ref(), self.site.open(path, item)).await?;
        Ok(Arc::new(LimitedContent { inner, calls: self.calls.clone(), buckets: self.reads.clone() }))
    }

    async fn make_folder(&self, path: &DrivePath) -> Result<()> {
        call(self.calls.as_ref(), self.site.make_folder(path)).await
    }

    async fn make_link(&self, path: &DrivePath, to: &str, replaces: Option<&Item>) -> Result<()> {
        call(self.calls.as_ref(), self.site.make_link(path, to, replaces)).await
    }

    async fn begin(&self, wanted: &Wanted) -> Result<Box<dyn Incoming>> {
        let inner = call(self.calls.as_ref(), self.site.begin(wanted)).await?;
        Ok(Box::new(LimitedIncoming { inner, buckets: self.writes.clone() }))
    }

    async fn remove(&self, path: &DrivePath, item: &Item) -> Result<()> {
        call(self.calls.as_ref(), self.site.remove(path, item)).await
    }

    async fn settle(&self) -> Result<()> {
        call(self.calls.as_ref(), self.site.settle()).await
    }
}

struct LimitedContent {
    inner: Arc<dyn Content>,
    calls: Option<Arc<Semaphore>>,
    buckets: Vec<Arc<Bucket>>,
}

#[async_trait]
impl Content for LimitedContent {
    async fn read(&self, range: ByteRange) -> Result<Bytes> {
        pass(&self.buckets, range.len()).await;
        call(self.calls.as_ref(), self.inner.read(range)).await
    }

    fn grain(&self) -> u64 {
        self.inner.grain()
    }

    fn ahead(&self) -> usize {
        self.inner.ahead()
    }

    async fn is_still(&self) -> Result<bool> {
        call(self.calls.as_ref(), self.inner.is_still()).await
    }

    fn sum(&self) -> Option<Sum> {
        self.inner.sum()
    }
}

struct LimitedIncoming {
    inner: Box<dyn Incoming>,
    buckets: Vec<Arc<Bucket>>,
}

#[async_trait]
impl Incoming for LimitedIncoming {
    fn stands_at(&self) -> u64 {
        self.inner.stands_at()
    }

    fn grain(&self) -> u64 {
        self.inner.grain()
    }

    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        pass(&self.buckets, bytes.len() as u64).await;
        self.inner.write(bytes).await
    }

    fn arrived(&self) -> u64 {
        self.inner.arrived()
    }

    async fn read_back(&mut self, range: ByteRange) -> Result<Option<Bytes>> {
        self.inner.read_back(range).await
    }

    async fn finish(self: Box<Self>) -> Result<Item> {
        self.inner.finish().await
    }

    async fn pause(self: Box<Self>) {
        self.inner.pause().await;
    }
}
