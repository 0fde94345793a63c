//! Reading a file: each block is several requests, and several blocks are under way.

use super::failure::Status;
use super::item::{Sort, sort, version};
use super::place::Place;
use super::session::Handle;
use super::wire::{Ask, Attrs, OPEN_READ, Reply, code};
use crate::signs;
use crate::site::{Content, Item, Version};
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{ByteRange, Error, ErrorKind, Result};

/// Blocks that are under way at once: as much as the window of a channel.
const AHEAD: usize = 8;

/// An opened file.
pub(super) struct SftpContent {
    handle: Handle,
    path: String,
    version: Version,
}

impl SftpContent {
    /// Opens a file in the version that was listed. It is looked at before: a FIFO that was put there would hold the server up.
    pub(super) async fn open(place: &Place, item: &Item) -> Result<Self> {
        let path = place.path();
        let changed = || Error::new(ErrorKind::PreconditionFailed, format!("{path} changed since it was listed"));
        let same = |attrs: &Attrs| sort(attrs) == Sort::File && version(attrs) == item.version;
        let there = place.session.look(&path).await?.map_err(|status| status.error("looking at", &path))?;
        if !same(&there) {
            return Err(changed());
        }
        let handle = place.session.open(&path, OPEN_READ, &Attrs::default()).await?;
        let handle = handle.map_err(|status| status.error("opening", &path))?;
        let opened = handle.session.send(handle.request(Ask::LookAtHandle)).await?.attrs().await?;
        if !same(&opened.map_err(|status| status.error("looking at", &path))?) {
            return Err(changed());
        }
        Ok(Self { handle, path, version: item.version.clone() })
    }

    /// What one request brings, which may be less than was asked for.
    fn taken(&self, reply: Reply, asked: ByteRange) -> Result<Bytes> {
        match reply {
            Reply::Data(bytes) if !bytes.is_empty() && bytes.len() as u64 <= asked.len() => Ok(bytes),
            Reply::Data(bytes) => {
                let what = format!("{} bytes of {} came for {}", bytes.len(), asked.len(), self.path);
                Err(Error::new(ErrorKind::Damaged, what))
            }
            Reply::Status { code: code::EOF, .. } => {
                let what = format!("{} ends at {}: it became shorter while it was read", self.path, asked.start);
                Err(Error::new(ErrorKind::PreconditionFailed, what))
            }
            other => Err(Status::of(other)?.error("reading", &self.path)),
        }
    }

    async fn ask(&self, range: ByteRange) -> Result<super::session::Waiting> {
        let length = u32::try_from(range.len()).unwrap_or(u32::MAX);
        self.handle.session.send(self.handle.request(Ask::Read).u64(range.start).u32(length)).await
    }
}

#[async_trait]
impl Content for SftpContent {
    async fn read(&self, range: ByteRange) -> Result<Bytes> {
        let (chunk, signs) = (self.handle.session.chunk, signs::current());
        let mut asked = Vec::new();
        let mut next = range.start;
        while next < range.end {
            let part = ByteRange { start: next, end: range.end.min(next + chunk) };
            asked.push((part, self.ask(part).await?));
            next = part.end;
        }
        let length = usize::try_from(range.len()).map_err(|_| Error::internal("a read is larger than memory"))?;
        let mut bytes = BytesMut::with_capacity(if asked.len() > 1 { length } else { 0 });
        for (mut part, answer) in asked {
            let mut piece = self.taken(answer.reply().await?, part)?;
            signs.alive();
            if piece.len() == length {
                return Ok(piece);
            }
            loop {
                bytes.extend_from_slice(&piece);
                part.start += piece.len() as u64;
                if part.is_empty() {
                    break;
                }
                piece = self.taken(self.ask(part).await?.reply().await?, part)?;
                signs.alive();
            }
        }
        Ok(bytes.freeze())
    }

    fn grain(&self) -> u64 {
        BLOCK_BYTES as u64
    }

    fn ahead(&self) -> usize {
        AHEAD
    }

    async fn is_still(&self) -> Result<bool> {
        let session = &self.handle.session;
        let opened = session.send(self.handle.request(Ask::LookAtHandle)).await?;
        let there = session.look(&self.path).await?;
        let opened = opened.attrs().await?.map_err(|status| status.error("looking at", &self.path))?;
        match there {
            Ok(there) => {
                Ok(sort(&there) == Sort::File && [opened, there].iter().all(|now| version(now) == self.version))
            }
            Err(status) if status.is_missing() => Ok(false),
            Err(status) => Err(status.error("looking at", &self.path)),
        }
    }
}
