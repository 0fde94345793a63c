//! The store of a drive that is on its way from one store to another.

use crate::{Appender, BlobStore, PackEntry, StoreRoom};
use async_trait::async_trait;
use bytes::Bytes;
use holdfast_base::{Error, ErrorKind, PackName, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Writes to the new store, reads from the new one first, removes from both.
pub struct Migrating {
    from: Arc<dyn BlobStore>,
    to: Arc<dyn BlobStore>,
}

impl Migrating {
    /// From the old store to the new.
    pub fn new(from: Arc<dyn BlobStore>, to: Arc<dyn BlobStore>) -> Self {
        Self { from, to }
    }

    async fn check_free(&self, name: PackName) -> Result<()> {
        if self.from.len(name).await?.is_none() {
            return Ok(());
        }
        let message = format!("beginning pack {name}: it exists already, in the old store");
        Err(Error::new(ErrorKind::AlreadyExists, message))
    }
}

#[async_trait]
impl BlobStore for Migrating {
    fn kind(&self) -> &'static str {
        self.to.kind()
    }

    async fn put(&self, name: PackName, parts: Vec<Bytes>) -> Result<()> {
        self.check_free(name).await?;
        self.to.put(name, parts).await
    }

    async fn append(&self, name: PackName) -> Result<Box<dyn Appender>> {
        self.check_free(name).await?;
        self.to.append(name).await
    }

    async fn read(&self, name: PackName, offset: u64, len: usize, buffer: Vec<u8>) -> Result<Vec<u8>> {
        match self.to.read(name, offset, len, buffer).await {
            Err(error) if error.kind() == ErrorKind::NotFound => self.from.read(name, offset, len, Vec::new()).await,
            // A copy under way grows in place where the new store is a file system; the old store has it whole.
            Err(error) if error.kind() == ErrorKind::Damaged => {
                self.from.read(name, offset, len, Vec::new()).await.map_err(|_| error)
            }
            other => other,
        }
    }

    async fn len(&self, name: PackName) -> Result<Option<u64>> {
        // The old store's word first: what it has is whole.
        match self.from.len(name).await? {
            Some(bytes) => Ok(Some(bytes)),
            None => self.to.len(name).await,
        }
    }

    async fn delete(&self, name: PackName) -> Result<()> {
        self.from.delete(name).await?;
        self.to.delete(name).await
    }

    async fn delete_many(&self, names: &[PackName]) -> Result<()> {
        self.from.delete_many(names).await?;
        self.to.delete_many(names).await
    }

    async fn list(&self, after: Option<PackName>, limit: usize) -> Result<Vec<PackEntry>> {
        let (from, to) = (self.from.list(after, limit).await?, self.to.list(after, limit).await?);
        let entries: BTreeMap<_, _> = to.into_iter().chain(from).map(|entry| (entry.name, entry.bytes)).collect();
        Ok(entries.into_iter().take(limit).map(|(name, bytes)| PackEntry { name, bytes }).collect())
    }

    async fn room(&self) -> Result<Option<StoreRoom>> {
        self.to.room().await
    }

    async fn sweep(&self, older_than: Duration) -> Result<u64> {
        Ok(self.from.sweep(older_than).await? + self.to.sweep(older_than).await?)
    }
}
