//! An object of one part on its way: gathered here, and one request.

use super::Inner;
use super::body_of;
use super::bucket::There;
use crate::other::wire::Moving;
use crate::site::{Incoming, Item, Wanted};
use async_trait::async_trait;
use bytes::Bytes;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{Error, NodeName, Result};
use std::sync::Arc;

/// The object.
pub(super) struct Small {
    inner: Arc<Inner>,
    key: String,
    name: NodeName,
    wanted: Wanted,
    gathered: Vec<Bytes>,
    moving: Moving,
}

impl Small {
    pub(super) fn new(inner: Arc<Inner>, key: String, name: NodeName, wanted: &Wanted) -> Self {
        Self { inner, key, name, wanted: wanted.clone(), gathered: Vec::new(), moving: Moving::default() }
    }
}

#[async_trait]
impl Incoming for Small {
    fn stands_at(&self) -> u64 {
        0
    }

    fn grain(&self) -> u64 {
        BLOCK_BYTES as u64
    }

    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.gathered.push(bytes);
        Ok(())
    }

    fn arrived(&self) -> u64 {
        self.moving.bytes()
    }

    async fn finish(self: Box<Self>) -> Result<Item> {
        let Self { inner, key, name, wanted, gathered, moving } = *self;
        let bytes: u64 = gathered.iter().map(|part| part.len() as u64).sum();
        if bytes != wanted.size {
            return Err(Error::internal("an object was finished before all of it was written"));
        }
        moving.here();
        let body = body_of(&inner.bucket, gathered, &moving).await?;
        let there = There::of(wanted.replaces.as_ref());
        let etag = inner.bucket.put(&key, &there, body, wanted.modified_ns).await?;
        Ok(super::stored(name, &wanted, etag.as_deref()))
    }

    async fn pause(self: Box<Self>) {}
}
