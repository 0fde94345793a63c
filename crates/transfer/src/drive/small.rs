//! A file of one block on its way to a drive: gathered here, and one request.

use super::outgoing::{finished, modified_ms};
use crate::{Incoming, Item, Wanted, signs};
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{DrivePath, Error, ErrorKind, NodeId, Result};
use holdfast_drive::Expect;
use holdfast_remote::client::{Block, Sending, Space};
use holdfast_remote::wire::Put;

/// From this size on it is asked whether the space has the block: below, asking takes as long as sending.
const ASKED_FROM: usize = 256 << 10;

/// The file.
pub(super) struct Small {
    space: Space,
    path: DrivePath,
    wanted: Wanted,
    expect: Expect,
    plain: BytesMut,
    arrived: u64,
}

impl Small {
    pub(super) fn new(space: Space, path: DrivePath, wanted: &Wanted, expect: Expect) -> Self {
        Self { space, path, wanted: wanted.clone(), expect, plain: BytesMut::new(), arrived: 0 }
    }

    async fn put(&mut self) -> Result<NodeId> {
        let plain = std::mem::take(&mut self.plain).freeze();
        if plain.len() as u64 != self.wanted.size {
            return Err(Error::internal("a file was finished before all of it was written"));
        }
        let block = self.space.identify(plain).await?;
        let has = block.plain.len() >= ASKED_FROM && self.space.has_blocks(vec![block.id]).await?.contains(&true);
        let entry = if has { Sending::held(block.id) } else { self.space.seal(block.clone()).await? };
        match self.send(entry).await {
            // It was freed at that very moment.
            Err(error) if has && error.kind() == ErrorKind::Conflict => {
                let entry = self.space.seal(block).await?;
                self.send(entry).await
            }
            Err(error) if error.kind() == ErrorKind::PreconditionFailed => self.was_done(&block).await?.ok_or(error),
            done => done,
        }
    }

    async fn send(&self, entry: Sending) -> Result<NodeId> {
        let signs = signs::current();
        let file = Put {
            path: self.path.clone(),
            size: self.wanted.size,
            modified_ms: modified_ms(&self.wanted),
            expect: self.expect,
            entry: Bytes::new(),
        };
        self.space.put(file, &self.wanted.tags, entry, move || signs.alive()).await.map(|(node, _)| node)
    }

    /// Whether an earlier try was done whose answer was lost: the file there has this very content and time.
    async fn was_done(&self, block: &Block) -> Result<Option<NodeId>> {
        let Some(entry) = finished(&self.space, &self.path).await? else { return Ok(None) };
        let Some(content) = entry.node.content else { return Ok(None) };
        if (entry.node.size, entry.node.modified_ms) != (self.wanted.size, modified_ms(&self.wanted)) {
            return Ok(None);
        }
        let Some(layout) = self.space.layouts(vec![content]).await?.pop().flatten() else { return Ok(None) };
        let same = match layout.inline {
            Some(_) => self.space.open_tiny(&layout)? == block.plain,
            None => self.space.manifest(&layout, 0).await?.blocks == [block.id],
        };
        Ok(same.then_some(entry.node.id))
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
        self.plain.extend_from_slice(&bytes);
        Ok(())
    }

    fn arrived(&self) -> u64 {
        self.arrived
    }

    async fn finish(mut self: Box<Self>) -> Result<Item> {
        let node = self.put().await?;
        super::outgoing::made(&self.space, node, &self.wanted).await
    }

    async fn pause(self: Box<Self>) {}
}
