//! A store made of a store and what happens around each call to it.

use super::{Around, Call, Operation};
use crate::{Appender, BlobStore, PackEntry, StoreRoom};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::{BoxFuture, ready};
use holdfast_base::{Error, PackName, Result};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A store with a layer around it.
pub struct Layered<A> {
    inner: Arc<dyn BlobStore>,
    around: Arc<A>,
}

impl<A: Around> Layered<A> {
    /// Puts `around` around `inner`.
    pub fn new(inner: Arc<dyn BlobStore>, around: A) -> Self {
        Self::sharing(inner, Arc::new(around))
    }

    /// The same with a layer that its owner goes on talking to, such as a plan of faults.
    pub fn sharing(inner: Arc<dyn BlobStore>, around: Arc<A>) -> Self {
        Self { inner, around }
    }

    async fn call<T: Send, F: Future<Output = Result<T>> + Send>(
        &self,
        operation: Operation,
        pack: Option<PackName>,
        bytes: u64,
        work: impl FnMut() -> F + Send,
    ) -> Result<T> {
        self.around.around(Call { operation, pack, bytes }, work).await
    }
}

fn bytes_of(parts: &[Bytes]) -> u64 {
    parts.iter().map(|part| part.len() as u64).sum()
}

#[async_trait]
impl<A: Around> BlobStore for Layered<A> {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    async fn put(&self, name: PackName, mut parts: Vec<Bytes>) -> Result<()> {
        let bytes = bytes_of(&parts);
        self.call(Operation::Put, Some(name), bytes, || self.inner.put(name, mem::take(&mut parts))).await
    }

    async fn append(&self, name: PackName) -> Result<Box<dyn Appender>> {
        let inner = self.call(Operation::Begin, Some(name), 0, || self.inner.append(name)).await?;
        let around = Arc::clone(&self.around);
        Ok(Box::new(LayeredAppender { inner, around, name, failed: Arc::default() }))
    }

    async fn read(&self, name: PackName, offset: u64, len: usize, mut buffer: Vec<u8>) -> Result<Vec<u8>> {
        // A second try works with a new buffer, since the first one went down with its error.
        let work = || self.inner.read(name, offset, len, mem::take(&mut buffer));
        let mut read = self.call(Operation::Read, Some(name), len as u64, work).await?;
        self.around.after_read(Call { operation: Operation::Read, pack: Some(name), bytes: len as u64 }, &mut read);
        Ok(read)
    }

    async fn len(&self, name: PackName) -> Result<Option<u64>> {
        self.call(Operation::Len, Some(name), 0, || self.inner.len(name)).await
    }

    async fn delete(&self, name: PackName) -> Result<()> {
        self.call(Operation::Delete, Some(name), 0, || self.inner.delete(name)).await
    }

    async fn list(&self, after: Option<PackName>, limit: usize) -> Result<Vec<PackEntry>> {
        self.call(Operation::List, None, 0, || self.inner.list(after, limit)).await
    }

    async fn room(&self) -> Result<Option<StoreRoom>> {
        self.call(Operation::Room, None, 0, || self.inner.room()).await
    }

    async fn delete_many(&self, names: &[PackName]) -> Result<()> {
        self.call(Operation::Delete, None, 0, || self.inner.delete_many(names)).await
    }

    async fn sweep(&self, older_than: Duration) -> Result<u64> {
        self.call(Operation::Sweep, None, 0, || self.inner.sweep(older_than)).await
    }
}

/// An appender with a layer around it.
struct LayeredAppender<A> {
    inner: Box<dyn Appender>,
    around: Arc<A>,
    name: PackName,
    failed: Arc<AtomicBool>,
}

/// Marks an appender as failed unless the call it guards succeeds; also when that call is abandoned.
struct FailedUnlessKept<'a>(&'a AtomicBool);

impl Drop for FailedUnlessKept<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl<A> LayeredAppender<A> {
    fn call(&self, operation: Operation, bytes: u64) -> Call {
        Call { operation, pack: Some(self.name), bytes }
    }
}

fn check_usable(failed: &AtomicBool, name: PackName) -> Result<()> {
    if failed.load(Ordering::Acquire) {
        return Err(Error::unavailable(format!(
            "pack {name} takes no more bytes: a write or sync of it failed before"
        )));
    }
    Ok(())
}

#[async_trait]
impl<A: Around> Appender for LayeredAppender<A> {
    async fn append(&mut self, mut parts: Vec<Bytes>) -> Result<u64> {
        check_usable(&self.failed, self.name)?;
        let call = self.call(Operation::Append, bytes_of(&parts));
        let guard = FailedUnlessKept(&self.failed);
        let inner = &mut self.inner;
        // Not idempotent, so called once; the second arm is for a layer that breaks its word.
        let mut first = Some(inner.append(mem::take(&mut parts)));
        let once = || first.take().unwrap_or_else(|| Box::pin(ready(Err(called_twice()))));
        let offset = self.around.around(call, once).await?;
        mem::forget(guard);
        Ok(offset)
    }

    fn sync(&mut self) -> BoxFuture<'static, Result<()>> {
        let usable = check_usable(&self.failed, self.name);
        let call = self.call(Operation::Sync, 0);
        let (around, failed, name) = (Arc::clone(&self.around), Arc::clone(&self.failed), self.name);
        // Begun here, so that it covers what was appended until now and not until the future is first polled.
        let mut first = usable.is_ok().then(|| self.inner.sync());
        Box::pin(async move {
            usable?;
            let once = || first.take().unwrap_or_else(|| Box::pin(ready(Err(called_twice()))));
            let synced = around.around(call, once).await;
            // A failure meanwhile makes doubtful what this sync has seen.
            let synced = synced.and_then(|()| check_usable(&failed, name));
            if synced.is_err() {
                failed.store(true, Ordering::Release);
            }
            synced
        })
    }

    fn sync_ends_pack(&self) -> bool {
        self.inner.sync_ends_pack()
    }

    fn waiting_bytes(&self) -> u64 {
        self.inner.waiting_bytes()
    }
}

fn called_twice() -> Error {
    Error::internal("a layer repeated a call that must not be repeated")
}
