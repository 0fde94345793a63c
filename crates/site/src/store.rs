//! Reading and writing a site's space through the drive.

use crate::layout::{INCOMING, ObjectId, at, new_id};
use crate::limits::{RECORD_BYTES_MAX, WHOLE_BYTES_MAX};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use holdfast_auth::Session;
use holdfast_base::{ByteRange, Error, ErrorKind, NodeName, Result};
use holdfast_drive::{
    Conditions, ContentStream, Drive, Expect, Location, Node, NodeKind, Transfer, Walk, WriteOptions,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// Members of a folder asked for at once.
const PAGE_NODES: usize = 1_000;

/// A site's space, in the eyes of one session.
#[derive(Clone)]
pub(crate) struct Store {
    pub(crate) drive: Arc<dyn Drive>,
    pub(crate) who: Arc<Session>,
    pub(crate) space: String,
}

impl Store {
    pub(crate) fn at(&self, path: &str) -> Result<Location> {
        at(&self.space, path)
    }

    /// Walks to a file; none if there is none.
    pub(crate) async fn walk(&self, path: &str) -> Result<Option<Walk>> {
        let walk = self.drive.walk(&self.who, &self.at(path)?).await?;
        Ok(walk.node().is_some_and(|node| node.kind == NodeKind::File).then_some(walk))
    }

    /// A file's bytes, `most` at most, and its node.
    pub(crate) async fn read(&self, path: &str, most: u64) -> Result<Option<(Bytes, Node)>> {
        let Some(walk) = self.walk(path).await? else { return Ok(None) };
        let Some(node) = walk.node().cloned() else { return Ok(None) };
        if node.size > most {
            return Err(Error::damaged(format!("{path} of {} is larger than anything written there", self.space)));
        }
        Ok(Some((read_whole(&*self.drive, &self.who, &walk).await?, node)))
    }

    /// A record and its node; one that cannot be read is `Damaged`.
    pub(crate) async fn record<T: DeserializeOwned>(&self, path: &str, most: u64) -> Result<Option<(T, Node)>> {
        let Some((bytes, node)) = self.read(path, most).await? else { return Ok(None) };
        let record = serde_json::from_slice(&bytes)
            .map_err(|error| Error::damaged(format!("{path} of {} cannot be read", self.space)).with_source(error))?;
        Ok(Some((record, node)))
    }

    /// A small record that must be there.
    pub(crate) async fn small<T: DeserializeOwned>(&self, path: &str) -> Result<(T, Node)> {
        let found = self.record(path, RECORD_BYTES_MAX).await?;
        found.ok_or_else(|| Error::damaged(format!("{} has no {path}: it is no site, or was damaged", self.space)))
    }

    pub(crate) async fn write(&self, path: &str, bytes: Bytes, expect: Expect) -> Result<Node> {
        let length = Some(bytes.len() as u64);
        let options = WriteOptions { conditions: expecting(expect), length, ..WriteOptions::default() };
        let body = stream::once(std::future::ready(Ok(bytes))).boxed();
        Ok(self.drive.write(&self.who, &self.at(path)?, options, body).await?.node)
    }

    pub(crate) async fn write_record<T: Serialize + Sync>(
        &self,
        path: &str,
        record: &T,
        expect: Expect,
    ) -> Result<Node> {
        let bytes = serde_json::to_vec(record).map_err(|error| Error::internal(error.to_string()))?;
        self.write(path, bytes.into(), expect).await
    }

    /// Stores content at hand.
    pub(crate) async fn put(&self, key: &[u8; 32], bytes: Bytes) -> Result<ObjectId> {
        let object = ObjectId::of(key, &bytes);
        self.write(&object.path(), bytes, Expect::Any).await?;
        Ok(object)
    }

    /// Stores content of any size: hashed while it is copied aside, then given its name.
    pub(crate) async fn put_stream(
        &self,
        key: &[u8; 32],
        body: ContentStream,
        bytes: u64,
        now_ms: i64,
    ) -> Result<ObjectId> {
        let aside = format!("{INCOMING}/{}", new_id(now_ms)?);
        let hasher = Arc::new(parking_lot::Mutex::new(blake3::Hasher::new_keyed(key)));
        let hashing = hasher.clone();
        let body = body.inspect(move |piece| {
            if let Ok(piece) = piece {
                hashing.lock().update(piece);
            }
        });
        let options =
            WriteOptions { conditions: expecting(Expect::Absent), length: Some(bytes), ..WriteOptions::default() };
        let written = self.drive.write(&self.who, &self.at(&aside)?, options, body.boxed()).await;
        written?;
        let object = ObjectId(*hasher.lock().finalize().as_bytes());
        let transfer = Transfer {
            from: self.at(&aside)?,
            to: self.at(&object.path())?,
            copy: false,
            source_expect: Expect::Any,
            tags: Vec::new(),
            overwrite: true,
            deep: false,
        };
        self.drive.relocate(&self.who, &transfer, Conditions::default()).await?;
        Ok(object)
    }

    /// Removes a file if it still is what `node` says; one that is gone or changed is left.
    pub(crate) async fn remove(&self, path: &str, expect: Expect) -> Result<()> {
        match self.drive.remove(&self.who, &self.at(path)?, expecting(expect)).await {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PreconditionFailed) => Ok(()),
            done => done.map(|_| ()),
        }
    }

    /// All members of a folder, in order of name.
    pub(crate) async fn members(&self, path: &str) -> Result<Vec<Node>> {
        let walk = self.drive.walk(&self.who, &self.at(path)?).await?;
        match walk.node() {
            Some(folder) if folder.kind == NodeKind::Folder => members(&*self.drive, &self.who, folder).await,
            _ => Ok(Vec::new()),
        }
    }

    pub(crate) async fn make_folder(&self, path: &str) -> Result<()> {
        match self.drive.make_folder(&self.who, &self.at(path)?, Conditions::default()).await {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }
}

pub(crate) fn expecting(expect: Expect) -> Conditions {
    Conditions { expect, tokens: Vec::new() }
}

/// All members of a folder, in order of name.
pub(crate) async fn members(drive: &dyn Drive, who: &Session, folder: &Node) -> Result<Vec<Node>> {
    let mut all: Vec<Node> = Vec::new();
    loop {
        let after = all.last().map(|last| NodeName::new(&last.name)).transpose()?;
        let page = drive.list(who, folder, after.as_ref(), PAGE_NODES).await?;
        let more = page.len() == PAGE_NODES;
        all.extend(page);
        if !more {
            return Ok(all);
        }
    }
}

/// A file's content in one piece.
pub(crate) async fn read_whole(drive: &dyn Drive, who: &Session, walk: &Walk) -> Result<Bytes> {
    let size = walk.node().map_or(0, |node| node.size);
    if size == 0 {
        return Ok(Bytes::new());
    }
    let mut pieces = drive.read(who, walk, ByteRange::whole(size)).await?;
    let first = pieces.next().await.transpose()?.unwrap_or_default();
    if first.len() as u64 == size {
        return Ok(first);
    }
    let mut whole = Vec::with_capacity(usize::try_from(size.min(WHOLE_BYTES_MAX)).unwrap_or_default());
    whole.extend_from_slice(&first);
    while let Some(piece) = pieces.next().await {
        whole.extend_from_slice(&piece?);
    }
    Ok(whole.into())
}
