//! A selection of files and folders as one zip, made while it is sent.
//!
//! A task of its own walks the trees, reads, packs and hands pieces to a short queue; when the client goes away, the queue's end is
//! gone and the task stops at its next piece. Memory is the queue, one piece, the directory ([`zip::DIRECTORY_BYTES_MAX`]) and a
//! page of each folder on the way down.
//!
//! What cannot be read is left out, or cut short where its damage begins, and named in a file at the archive's end. A store or
//! database that is away breaks the answer off instead: trying again will help, and nobody takes the archive for whole.

mod walk;
mod zip;

use crate::Api;
use bytes::Bytes;
use futures_util::StreamExt;
use holdfast_auth::Session;
use holdfast_base::{ByteRange, Error, ErrorKind, Result};
use holdfast_drive::{Location, Node, Walk};
use holdfast_http::{Pieces, mime_of_name};
use std::fmt::Write as _;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};
use walk::{Found, Tree};
pub(crate) use walk::{Root, safe_name};
use zip::{Head, Packer, Zip};

/// Archives made at once: each may keep a core busy.
const ARCHIVES_MAX: usize = 8;
static TURNS: Semaphore = Semaphore::const_new(ARCHIVES_MAX);

/// Entries of an archive at most: what lies below its folders is counted before it begins.
pub(crate) const ENTRIES_MAX: usize = 100_000;

/// Pieces that wait for the client; each is at most a block.
const QUEUE_PIECES: usize = 2;

/// Heads and ends are sent when they are so many bytes, or with the next content.
const OUT_BYTES: usize = 64 << 10;

/// Longest list of what could not be read.
const NOTES_BYTES_MAX: usize = 1 << 20;

/// Where it is.
const NOTES_NAME: &str = "NOT IN THIS ARCHIVE.txt";

/// The archive of these roots, as a stream.
pub(crate) async fn archive(api: Api, who: Arc<Session>, roots: Vec<Root>) -> Result<Pieces> {
    let busy = |_| Error::unavailable("too many archives are being made at this moment: try again shortly");
    let turn = TURNS.try_acquire().map_err(busy)?;
    let mut left = ENTRIES_MAX;
    for root in &roots {
        let below = api.drive.count_below(&who, &root.node, left).await?;
        left = left.checked_sub(below + 1).filter(|left| *left > 0).ok_or_else(|| {
            let message = format!("an archive has fewer than {ENTRIES_MAX} files and folders: take a part of them");
            Error::new(ErrorKind::TooLarge, message)
        })?;
    }
    let (sender, receiver) = mpsc::channel(QUEUE_PIECES);
    tokio::spawn(async move {
        let _turn = turn;
        let mut maker = Maker { api, who, sender, zip: Zip::default(), out: Vec::new(), notes: String::new() };
        if let Err(error) = maker.make(roots).await {
            // If the client is gone, nobody is told.
            let _ = maker.sender.send(Err(error)).await;
        }
    });
    let pieces = futures_util::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|piece| (piece, receiver))
    });
    Ok(Box::pin(pieces))
}

struct Maker {
    api: Api,
    who: Arc<Session>,
    sender: mpsc::Sender<Result<Bytes>>,
    zip: Zip,
    /// Heads and ends that go out with the next piece.
    out: Vec<u8>,
    notes: String,
}

impl Maker {
    async fn make(&mut self, roots: Vec<Root>) -> Result<()> {
        for root in roots {
            let mut tree = Tree::new(root);
            while let Some(found) = tree.next(&self.api, &self.who).await? {
                match found {
                    Found::Folder { path, node } => self.folder(&path, &node)?,
                    Found::File { path, at } => self.file(&path, &at).await?,
                }
                if self.out.len() >= OUT_BYTES {
                    self.flush().await?;
                }
            }
        }
        if !self.notes.is_empty() {
            self.put_notes().await?;
        }
        self.flush().await?;
        let end = std::mem::take(&mut self.zip).finish();
        self.send(end).await
    }

    fn folder(&mut self, path: &str, node: &Node) -> Result<()> {
        let head = Head { path: &format!("{path}/"), modified_ms: node.modified_ms, size: None };
        self.zip.begin(&head, &mut self.out).map(|_| ())
    }

    async fn file(&mut self, path: &str, at: &Location) -> Result<()> {
        let walk = self.api.drive.walk(&self.who, at).await?;
        let Some(node) = walk.node().cloned() else {
            self.note(path, "it was removed or moved while the archive was made");
            return Ok(());
        };
        let (mut pieces, first) = match self.open(&walk, &node).await {
            Ok(opened) => opened,
            Err(error) => return self.left_out(path, error),
        };
        let head = Head { path, modified_ms: node.modified_ms, size: Some(node.size) };
        let begun = self.zip.begin(&head, &mut self.out)?;
        let mut packer = Packer::new(shrinks(&node.name));
        let mut next = first;
        while let Some(piece) = next {
            packer = self.pack(packer, piece).await?;
            next = match pieces.next().await.transpose() {
                Ok(next) => next,
                Err(error) => {
                    self.left_out(path, error)?;
                    None
                }
            };
        }
        packer = self.pack(packer, Bytes::new()).await?;
        self.zip.end(&head, &begun, packer.sums(), &mut self.out)
    }

    /// A file's content and its first piece, which shows whether it can be read at all.
    async fn open(&self, walk: &Walk, node: &Node) -> Result<(Pieces, Option<Bytes>)> {
        let mut pieces = self.api.drive.read(&self.who, walk, ByteRange::whole(node.size)).await?;
        let first = pieces.next().await.transpose()?;
        Ok((pieces, first))
    }

    /// Packs a piece, off the threads that serve, and sends what comes of it.
    async fn pack(&mut self, mut packer: Packer, piece: Bytes) -> Result<Packer> {
        let failed = |error| Error::internal("an archive's content could not be packed").with_source(error);
        let work = tokio::task::spawn_blocking(move || packer.pack(&piece).map(|bytes| (packer, bytes)));
        let (packer, bytes) = work.await.map_err(failed)??;
        self.zip.sent(bytes.len());
        if self.out.is_empty() {
            self.send(bytes).await?;
        } else {
            self.out.extend_from_slice(&bytes);
            self.flush().await?;
        }
        Ok(packer)
    }

    /// Damage is noted; everything else ends the archive.
    fn left_out(&mut self, path: &str, error: Error) -> Result<()> {
        if !matches!(error.kind(), ErrorKind::Damaged | ErrorKind::NotFound) {
            return Err(error);
        }
        tracing::error!(?error, "a file is not whole in an archive");
        self.note(path, "it cannot be read, or not to its end: its stored data is damaged");
        Ok(())
    }

    fn note(&mut self, path: &str, why: &str) {
        if self.notes.len() + path.len() + why.len() < NOTES_BYTES_MAX {
            // Writing to a String cannot fail.
            let _ = write!(self.notes, "{path}: {why}\r\n");
        }
    }

    async fn put_notes(&mut self) -> Result<()> {
        let text = Bytes::from(std::mem::take(&mut self.notes));
        let head = Head { path: NOTES_NAME, modified_ms: 0, size: Some(text.len() as u64) };
        let begun = self.zip.begin(&head, &mut self.out)?;
        let packer = self.pack(Packer::new(true), text).await?;
        let packer = self.pack(packer, Bytes::new()).await?;
        self.zip.end(&head, &begun, packer.sums(), &mut self.out)
    }

    async fn flush(&mut self) -> Result<()> {
        let out = std::mem::take(&mut self.out);
        self.send(out).await
    }

    async fn send(&self, bytes: Vec<u8>) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let gone = |_| Error::new(ErrorKind::Timeout, "the client went away");
        self.sender.send(Ok(bytes.into())).await.map_err(gone)
    }
}

/// Whether content of this name is worth compressing: not what is compressed already.
fn shrinks(name: &str) -> bool {
    const PACKED: [&str; 14] = [
        "zip",
        "gzip",
        "x-7z-compressed",
        "x-rar-compressed",
        "x-bzip2",
        "x-xz",
        "zstd",
        "pdf",
        "epub+zip",
        "java-archive",
        "vnd.android.package-archive",
        "x-apple-diskimage",
        "font-woff",
        "x-tar+gzip",
    ];
    let (kind, _) = mime_of_name(name);
    let (class, rest) = kind.split_once('/').unwrap_or((kind, ""));
    match class {
        "video" => false,
        "audio" => rest.contains("wav") || rest.contains("midi"),
        "image" => ["bmp", "svg+xml", "tiff", "x-icon"].contains(&rest),
        "font" => !rest.starts_with("woff"),
        _ => !PACKED.contains(&rest) && !rest.contains("openxmlformats") && !rest.contains("opendocument"),
    }
}
