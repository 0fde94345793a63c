//! A file on its way to a server: one PUT under the name of a part, which then takes the target's place.
//!
//! PUT knows no ranges that servers agree on, so what breaks off begins anew.

use super::Inner;
use super::call::{Call, Server, encoded, refused};
use super::listing::{Told, etag_of, strong};
use crate::other::mtime_text;
use crate::other::wire::{Moving, Reply};
use crate::part::PartName;
use crate::site::{Incoming, Item, Wanted};
use async_trait::async_trait;
use bytes::Bytes;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{DrivePath, Error, ErrorKind, NodeName, Result};
use holdfast_blob::http::Payload;
use http::StatusCode;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Blocks between whoever writes and the connection.
const AHEAD: usize = 2;
const NS_PER_S: i64 = 1_000_000_000;
/// Acknowledgements are short.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// The file.
pub(super) struct Outgoing {
    inner: Arc<Inner>,
    wanted: Wanted,
    name: NodeName,
    part: DrivePath,
    blocks: Option<mpsc::Sender<Bytes>>,
    request: Option<JoinHandle<Result<Reply>>>,
    written: u64,
    moving: Moving,
}

impl Outgoing {
    pub(super) async fn begin(inner: Arc<Inner>, wanted: &Wanted) -> Result<Self> {
        let root = || Error::new(ErrorKind::WrongKind, "a folder cannot become a file");
        let (folder, name) = (wanted.path.parent().ok_or_else(root)?, wanted.path.name().ok_or_else(root)?.clone());
        let part_name = PartName::new(&name, &wanted.key);
        inner.remove_stale(&folder, &part_name).await;
        if wanted.size > BLOCK_BYTES as u64 {
            // Better than after all of it was sent.
            check(&inner.server, &wanted.path, wanted.replaces.as_ref()).await?;
        }
        let part = folder.join(NodeName::new(&part_name.part())?)?;
        let (wanted, moving) = (wanted.clone(), Moving::default());
        Ok(Self { inner, wanted, name, part, blocks: None, request: None, written: 0, moving })
    }

    fn start(&self) -> Result<(mpsc::Sender<Bytes>, JoinHandle<Result<Reply>>)> {
        let (blocks, pieces) = mpsc::channel(AHEAD);
        let size = self.wanted.size;
        let body = if size == 0 { Payload::empty() } else { Payload::coming(size, pieces) };
        let mut call = Call::new("PUT", encoded(&self.part, false))?.header("content-type", "application/octet-stream");
        if let Some(ns) = self.wanted.modified_ns {
            call = call.header("x-oc-mtime", ns.div_euclid(NS_PER_S).to_string());
        }
        let (call, inner) = (call.body(body.watched(self.moving.watch())), Arc::clone(&self.inner));
        Ok((blocks, tokio::spawn(async move { inner.server.send(call).await })))
    }

    /// How the request ended: whether the server took the time with it.
    async fn put(&mut self) -> Result<bool> {
        if self.request.is_none() {
            let (blocks, request) = self.start()?;
            (self.blocks, self.request) = (Some(blocks), Some(request));
        }
        self.blocks = None;
        let Some(request) = self.request.as_mut() else { return Err(Error::internal("a request was lost")) };
        let reply = request.await.map_err(|error| Error::internal("a task was lost").with_source(error));
        self.request = None;
        let reply = reply??;
        if !reply.answer.status.is_success() {
            return Err(match refused(reply).await {
                error if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound) => {
                    Error::not_found("its folder is not there")
                }
                error => error,
            });
        }
        let took = reply.answer.header("x-oc-mtime").is_some_and(|told| told.eq_ignore_ascii_case("accepted"));
        reply.text(TEXT_BYTES_MAX).await?;
        Ok(took)
    }

    /// Keeps the time of the content as a property, where the server took none with it. It moves with the file.
    async fn keep_time(&self) -> Result<()> {
        let (Some(ns), Some(told)) = (self.wanted.modified_ns, self.inner.server.look(&self.part).await?) else {
            return Ok(());
        };
        let Some(etag) = told.etag.as_deref() else { return Ok(()) };
        let value = format!("{} {}", mtime_text(ns), strong(etag)).replace('&', "&amp;").replace('<', "&lt;");
        let xml = format!(
            r#"<?xml version="1.0" encoding="utf-8"?><propertyupdate xmlns="DAV:"><set><prop><h:modified xmlns:h="urn:holdfast:transfer">{value}</h:modified></prop></set></propertyupdate>"#
        );
        let call = Call::new("PROPPATCH", encoded(&self.part, false))?
            .header("content-type", "application/xml; charset=utf-8");
        let reply = self.inner.server.send(call.body(Payload::from(xml))).await?;
        if reply.answer.status.is_server_error() {
            return Err(refused(reply).await);
        }
        // A server that keeps no such thing is one whose files have the server's times.
        reply.text(TEXT_BYTES_MAX).await.map(drop)
    }

    /// Gives the part its name, in place of what is there.
    async fn rename(&self) -> Result<()> {
        let server = &self.inner.server;
        let to = format!("{}{}", server.origin, encoded(&self.wanted.path, false));
        let call = Call::new("MOVE", encoded(&self.part, false))?.header("destination", to.clone());
        let Some(replaces) = &self.wanted.replaces else {
            return moved(server.send(call.header("overwrite", "F")).await?).await;
        };
        check(server, &self.wanted.path, Some(replaces)).await?;
        let call = call.header("overwrite", "T");
        if let Some(etag) = etag_of(&replaces.version) {
            let guarded = call.clone().header("if", format!("<{to}> ([{etag}])"));
            match moved(server.send(guarded).await?).await {
                // Not every server can hold a tag against what is to be replaced.
                Err(error) if error.kind() == ErrorKind::PreconditionFailed => {
                    check(server, &self.wanted.path, Some(replaces)).await?;
                }
                done => return done,
            }
        }
        moved(server.send(call).await?).await
    }
}

/// Whether what is at a path is still what was listed.
async fn check(server: &Server, path: &DrivePath, listed: Option<&Item>) -> Result<()> {
    match (server.look(path).await?, listed) {
        (None, None) => return Ok(()),
        (Some(told), Some(listed)) if super::is_same(&told.item(listed.name.clone())?, listed) => return Ok(()),
        _ => {}
    }
    Err(Error::new(ErrorKind::PreconditionFailed, format!("{path} is not what was listed any more")))
}

async fn moved(reply: Reply) -> Result<()> {
    match reply.answer.status {
        StatusCode::CREATED | StatusCode::NO_CONTENT | StatusCode::OK => reply.text(TEXT_BYTES_MAX).await.map(drop),
        // The part went away, or an answer was lost.
        StatusCode::NOT_FOUND | StatusCode::CONFLICT => {
            Err(Error::unavailable("the server does not have what was sent any more"))
        }
        _ => Err(refused(reply).await),
    }
}

#[async_trait]
impl Incoming for Outgoing {
    fn stands_at(&self) -> u64 {
        0
    }

    fn grain(&self) -> u64 {
        BLOCK_BYTES as u64
    }

    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.moving.here();
        if self.request.is_none() {
            let (blocks, request) = self.start()?;
            (self.blocks, self.request) = (Some(blocks), Some(request));
        }
        self.written += bytes.len() as u64;
        if let Some(blocks) = &self.blocks
            && blocks.send(bytes).await.is_ok()
        {
            return Ok(());
        }
        // It ended before all was sent, which is a refusal.
        self.put().await?;
        Err(Error::unavailable("the server took a file for whole before it was"))
    }

    fn arrived(&self) -> u64 {
        self.moving.bytes()
    }

    async fn finish(mut self: Box<Self>) -> Result<Item> {
        self.moving.here();
        if self.written != self.wanted.size {
            return Err(Error::internal("a file was finished before all of it was written"));
        }
        let took_time = self.put().await?;
        if !took_time {
            self.keep_time().await?;
        }
        if let Err(error) = self.rename().await {
            if error.kind() == ErrorKind::PreconditionFailed {
                // Nobody goes on with it.
                self.inner.remove_part(&self.part).await;
            }
            return Err(error);
        }
        let told: Option<Told> = self.inner.server.look(&self.wanted.path).await?;
        match told.map(|told| told.item(self.name.clone())).transpose()? {
            Some(item) if item.size == self.wanted.size => Ok(item),
            _ => Err(Error::damaged("the server says that the file is there, and it is not, or of another size")),
        }
    }

    async fn pause(mut self: Box<Self>) {
        if let Some(request) = self.request.take() {
            request.abort();
        }
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            request.abort();
        }
    }
}
