//! A conversation with an SFTP server: many requests under way at once over one stream of bytes.
//!
//! Requests are written by one task, so that one which is given up half-way tears no frame, and answers are read by another, which hands each to whoever
//! asked. When the stream ends, or something comes that is no answer, all that wait are told, and the session is over: its
//! [pool](super::pool) makes another.

use super::failure::Status;
use super::wire::{Ask, Attrs, Fields, Frame, Frames, Hello, Reply, Request, broken, code, read_hello, read_reply};
use bytes::{Buf, Bytes};
use holdfast_base::{Error, Result};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// The version that is spoken, which is the one that all servers speak.
const VERSION: u32 = 3;
/// Frames that wait to be written.
const FRAMES_WAITING: usize = 16;
/// Requests without an answer with which a session is held to be dead: more than are ever under way, so the others were given up.
const PENDING_MAX: usize = 4_096;
/// Bytes of one read or write where a server says nothing of its limits: all take that much.
const CHUNK_LEAST: u64 = 32 << 10;
/// Bytes of one read or write at most: more saves nothing.
const CHUNK_MOST: u64 = 128 << 10;

type Waiters = HashMap<u32, oneshot::Sender<Reply>>;

/// What a server can beyond the draft.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Can {
    pub(super) sync: bool,
    pub(super) replace: bool,
    space: bool,
    limits: bool,
}

/// A conversation.
pub(super) struct Session {
    shared: Arc<Shared>,
    frames: mpsc::Sender<Frame>,
    reader: JoinHandle<()>,
    pub(super) can: Can,
    /// Bytes of one read or write.
    pub(super) chunk: u64,
}

struct Shared {
    /// None when the session is over.
    waiters: Mutex<Option<Waiters>>,
    why: Mutex<Option<String>>,
    next: AtomicU32,
    frames: mpsc::WeakSender<Frame>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Session {
    /// Begins a conversation: what comes `from` the server, and what goes `to` it. `ended` is asked why when it is over, and let go of with the session.
    pub(super) async fn begin(
        mut from: impl AsyncRead + Send + Unpin + 'static,
        to: impl AsyncWrite + Send + Unpin + 'static,
        ended: impl Future<Output = Error> + Send + 'static,
    ) -> Result<Self> {
        let (frames, waiting) = mpsc::channel(FRAMES_WAITING);
        let writer = Aborts(tokio::spawn(write(waiting, to)));
        // If it is over already, so is what is read.
        let _ = frames.send(Request::hello(VERSION)).await;
        let mut arriving = Frames::default();
        let hello = loop {
            match arriving.next_frame()? {
                Some(frame) => break read_hello(frame)?,
                None if !arriving.read(&mut from).await => {
                    drop(writer);
                    return Err(ended.await);
                }
                None => {}
            }
        };
        let can = can(&hello)?;
        let shared = Arc::new(Shared {
            waiters: Mutex::new(Some(Waiters::new())),
            why: Mutex::default(),
            next: AtomicU32::new(0),
            frames: frames.downgrade(),
        });
        let reader = tokio::spawn(read(Arc::clone(&shared), from, arriving, (writer, ended)));
        let mut session = Self { shared, frames, reader, can, chunk: CHUNK_LEAST };
        if can.limits {
            session.chunk = session.ask_limits().await?;
        }
        Ok(session)
    }

    /// Requests under way; none if the session is over.
    pub(super) fn load(&self) -> Option<usize> {
        self.shared.waiters.lock().as_ref().map(Waiters::len)
    }

    /// Sends a request; waits if too much is waiting to be sent.
    pub(super) async fn send(&self, request: Request) -> Result<Waiting> {
        let permit = self.frames.reserve().await.map_err(|_| self.shared.lost())?;
        let (sender, answer) = oneshot::channel();
        let number = self.shared.next.fetch_add(1, Ordering::Relaxed);
        {
            let mut waiters = self.shared.waiters.lock();
            let open = waiters.as_mut().ok_or_else(|| self.shared.lost())?;
            if open.len() >= PENDING_MAX {
                *waiters = None;
                return Err(self.shared.lost().context("too many requests got no answer"));
            }
            open.insert(number, sender);
        }
        permit.send(request.numbered(number));
        Ok(Waiting { answer, shared: Arc::clone(&self.shared) })
    }

    pub(super) async fn ask(&self, request: Request) -> Result<Reply> {
        self.send(request).await?.reply().await
    }

    /// Bytes of one read or write: a power of two within the server's limits, so that blocks are whole multiples.
    async fn ask_limits(&self) -> Result<u64> {
        let Reply::Extended(limits) = self.ask(Request::extended("limits@openssh.com")).await? else {
            return Ok(CHUNK_LEAST);
        };
        let mut fields = Fields(limits);
        let (_, read, write) = (fields.u64()?, fields.u64()?, fields.u64()?);
        // Zero says nothing.
        let most = [read, write].into_iter().map(|limit| if limit == 0 { CHUNK_LEAST } else { limit }).min();
        let most = most.unwrap_or(CHUNK_LEAST).clamp(1 << 10, CHUNK_MOST);
        Ok(1 << most.ilog2())
    }

    /// What is at a path, links not followed; none if nothing is.
    pub(super) async fn look(&self, path: &str) -> Result<Result<Attrs, Status>> {
        attrs(self.ask(Request::new(Ask::LookAtLink).bytes(path.as_bytes())).await?)
    }

    /// What is at a path, links followed.
    pub(super) async fn look_through(&self, path: &str) -> Result<Result<Attrs, Status>> {
        attrs(self.ask(Request::new(Ask::Look).bytes(path.as_bytes())).await?)
    }

    /// The one path in an answer to a question for one.
    pub(super) async fn path(&self, kind: Ask, path: &str) -> Result<Result<Bytes, Status>> {
        one_name(self.ask(Request::new(kind).bytes(path.as_bytes())).await?)
    }

    /// Opens a file.
    pub(super) async fn open(self: &Arc<Self>, path: &str, how: u32, attrs: &Attrs) -> Result<Result<Handle, Status>> {
        self.opened(Request::new(Ask::Open).bytes(path.as_bytes()).u32(how).attrs(attrs)).await
    }

    /// Opens a folder to list it.
    pub(super) async fn open_folder(self: &Arc<Self>, path: &str) -> Result<Result<Handle, Status>> {
        self.opened(Request::new(Ask::OpenFolder).bytes(path.as_bytes())).await
    }

    async fn opened(self: &Arc<Self>, request: Request) -> Result<Result<Handle, Status>> {
        match self.ask(request).await? {
            Reply::Handle(bytes) => Ok(Ok(Handle { session: Arc::clone(self), bytes })),
            other => Ok(Err(Status::of(other)?)),
        }
    }

    /// Does something that is answered by how it went.
    pub(super) async fn tell(&self, request: Request) -> Result<Result<(), Status>> {
        told(self.ask(request).await?)
    }

    /// Bytes that are left for this account where a path is, if the server says.
    pub(super) async fn space_at(&self, path: &str) -> Option<u64> {
        if !self.can.space {
            return None;
        }
        let Reply::Extended(answer) =
            self.ask(Request::extended("statvfs@openssh.com").bytes(path.as_bytes())).await.ok()?
        else {
            return None;
        };
        let mut fields = Fields(answer);
        let (_, unit, _, _) = (fields.u64().ok()?, fields.u64().ok()?, fields.u64().ok()?, fields.u64().ok()?);
        Some(unit.saturating_mul(fields.u64().ok()?))
    }
}

/// An answer that is waited for.
pub(super) struct Waiting {
    answer: oneshot::Receiver<Reply>,
    shared: Arc<Shared>,
}

impl Waiting {
    pub(super) async fn reply(self) -> Result<Reply> {
        self.answer.await.map_err(|_| self.shared.lost())
    }

    /// How it went. Whoever stops waiting can come back, until it came.
    pub(super) async fn come(&mut self) -> Result<Result<(), Status>> {
        told((&mut self.answer).await.map_err(|_| self.shared.lost())?)
    }

    pub(super) async fn told(self) -> Result<Result<(), Status>> {
        told(self.reply().await?)
    }

    pub(super) async fn attrs(self) -> Result<Result<Attrs, Status>> {
        attrs(self.reply().await?)
    }
}

/// Something that is open at the server, and is closed when nobody has it any more.
pub(super) struct Handle {
    pub(super) session: Arc<Session>,
    bytes: Bytes,
}

impl Handle {
    /// A request about it.
    pub(super) fn request(&self, kind: Ask) -> Request {
        Request::new(kind).bytes(&self.bytes)
    }

    pub(super) fn write(&self, offset: u64, bytes: Bytes) -> Request {
        self.request(Ask::Write).u64(offset).content(bytes)
    }

    pub(super) fn sync(&self) -> Request {
        Request::extended("fsync@openssh.com").bytes(&self.bytes)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.session.shared.close(&self.bytes);
    }
}

impl Shared {
    /// Closes without waiting for the answer.
    fn close(&self, handle: &[u8]) {
        let Some(frames) = self.frames.upgrade() else { return };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, _) = oneshot::channel();
        if self.waiters.lock().as_mut().map(|open| open.insert(number, sender)).is_none() {
            return;
        }
        let frame = Request::new(Ask::Close).bytes(handle).numbered(number);
        // Where much waits to be sent, it waits as well.
        if let Err(mpsc::error::TrySendError::Full(frame)) = frames.try_send(frame)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move { frames.send(frame).await });
        }
    }

    fn lost(&self) -> Error {
        let why = self.why.lock().clone().unwrap_or_else(|| "the server ended it".into());
        Error::unavailable(format!("the connection is lost: {why}"))
    }
}

/// Writes frames until there is no session any more.
async fn write(mut waiting: mpsc::Receiver<Frame>, mut to: impl AsyncWrite + Unpin) {
    while let Some(Frame { head, content }) = waiting.recv().await {
        // The reading side sees the end as well, and tells those who wait.
        if to.write_all_buf(&mut head.chain(content)).await.is_err() {
            return;
        }
    }
}

/// Ends a task with what it works for: it may be waiting for room in a pipe that nobody will make.
struct Aborts(JoinHandle<()>);

impl Drop for Aborts {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Hands answers to those who asked, until there are no more.
async fn read(
    shared: Arc<Shared>,
    mut from: impl AsyncRead + Unpin,
    mut arriving: Frames,
    (writer, ended): (Aborts, impl Future<Output = Error>),
) {
    let why = loop {
        match arriving.next_frame().and_then(|frame| frame.map(|frame| hand_over(&shared, frame)).transpose()) {
            Ok(Some(())) => {}
            Ok(None) if arriving.read(&mut from).await => {}
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    // Nobody waits for room in `frames` that will not be.
    drop((writer, from));
    let why = match why {
        Some(error) => error,
        None => ended.await,
    };
    *shared.why.lock() = Some(why.message().to_owned());
    *shared.waiters.lock() = None;
}

fn hand_over(shared: &Shared, frame: Bytes) -> Result<()> {
    let (number, reply) = read_reply(frame)?;
    let waiter = shared.waiters.lock().as_mut().and_then(|open| open.remove(&number));
    let waiter = waiter.ok_or_else(|| broken("an answer to what nobody asked"))?;
    // Who gave up an opening has no use for what is open now.
    if let Err(Reply::Handle(handle)) = waiter.send(reply) {
        shared.close(&handle);
    }
    Ok(())
}

fn can((version, extensions): &Hello) -> Result<Can> {
    if *version < VERSION {
        return Err(Error::new(
            holdfast_base::ErrorKind::Unsupported,
            format!("the server speaks version {version} of SFTP, and version {VERSION} is needed"),
        ));
    }
    let has = |name: &str| extensions.iter().any(|(known, _)| known == name.as_bytes());
    Ok(Can {
        sync: has("fsync@openssh.com"),
        replace: has("posix-rename@openssh.com"),
        space: has("statvfs@openssh.com"),
        limits: has("limits@openssh.com"),
    })
}

fn told(reply: Reply) -> Result<Result<(), Status>> {
    match Status::of(reply)? {
        Status { code: code::OK, .. } => Ok(Ok(())),
        status => Ok(Err(status)),
    }
}

fn attrs(reply: Reply) -> Result<Result<Attrs, Status>> {
    match reply {
        Reply::Attrs(attrs) => Ok(Ok(attrs)),
        other => Ok(Err(Status::of(other)?)),
    }
}

fn one_name(reply: Reply) -> Result<Result<Bytes, Status>> {
    match reply {
        Reply::Names(mut names) if names.len() == 1 => Ok(Ok(names.remove(0).name)),
        Reply::Names(_) => Err(broken("several paths where one was due")),
        other => Ok(Err(Status::of(other)?)),
    }
}

#[cfg(test)]
mod tests;
