//! How the kernel's requests are worked out: on the thread they came in on, or while that takes others; counted, and under way meanwhile.

use crate::belief::Turn;
use crate::core::Core;
use crate::errno::{Answer, Told};
use crate::folder::DOTS;
use crate::meter::{Kind, Op};
use fuser::{Errno, FileHandle, FopenFlags, Generation, INodeNo, ReplyEmpty, ReplyEntry, ReplyXattr, Request};
use holdfast_drive::{Durable, Entry};
use std::ffi::OsStr;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::runtime::Handle as Runtime;

/// Numbers of nodes are never used twice.
pub(crate) const GENERATION: Generation = Generation(0);
/// Longest that a request about names and attributes waits.
const DEADLINE: Duration = Duration::from_mins(1);
/// Saving so much at a close is as quick as handing it over.
pub(crate) const QUICK_BYTES: u64 = 64 << 10;

/// The file system as fuser drives it.
pub(crate) struct Face {
    pub(crate) core: Arc<Core>,
    pub(crate) runtime: Runtime,
    /// Whether what is written past the kernel's cache takes out of it what it had of the file (Linux 6.6).
    pub(crate) past_cache: bool,
}

impl Face {
    pub(crate) const fn new(core: Arc<Core>, runtime: Runtime) -> Self {
        Self { core, runtime, past_cache: false }
    }

    /// How a file with so many extended attributes is open. What the kernel has of it in its cache is right, or forgotten by now. Whoever only writes does so past the kernel's cache. That saves a copy, and a question before the first write to
    /// each file: for `security.capability`, which writing through the cache takes away. What has extended attributes is written through it.
    /// Whoever appends to what others append to does so too, as then the cache has nothing at a place that the kernel took for the end.
    /// Whoever only reads has nothing to be saved at a close, which then needs no request (Linux 5.16), unless it lets go of locks here.
    pub(crate) fn opened(&self, flags: i32) -> impl FnOnce(u32) -> FopenFlags + use<> {
        let (past_cache, has_locks) = (self.past_cache, self.core.locks.is_some());
        move |xattrs| {
            let mut how = FopenFlags::FOPEN_KEEP_CACHE;
            let access = flags & libc::O_ACCMODE;
            let appends = flags & libc::O_APPEND != 0 && access == libc::O_RDWR && has_locks;
            how.set(FopenFlags::FOPEN_DIRECT_IO, past_cache && (access == libc::O_WRONLY || appends) && xattrs == 0);
            let only_reads = access == libc::O_RDONLY && flags & libc::O_TRUNC == 0;
            how.set(FopenFlags::FOPEN_NOFLUSH, only_reads && !has_locks);
            how
        }
    }

    /// A request begins.
    pub(crate) fn op(&self, kind: Kind, request: &Request, ino: INodeNo, name: Option<&OsStr>) -> Op {
        self.core.meter.begin(kind, request.pid(), ino.0, name)
    }

    /// Works a request out here. Most are answered without waiting for anything: then a deadline, and somebody to be woken, would cost more than
    /// many an answer.
    pub(crate) fn now<T>(&self, op: Op, work: impl Future<Output = Answer<T>>) -> Answer<T> {
        let _within = self.runtime.enter();
        let mut work = pin!(op.run(in_time(work)));
        match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => answer,
            Poll::Pending => self.runtime.block_on(work),
        }
    }

    /// Works a request out here as far as it gets without waiting, and the rest while this thread takes others; and then answers.
    pub(crate) fn soon<T: Send + 'static>(
        &self,
        op: Op,
        work: impl Future<Output = Answer<T>> + Send + 'static,
        answer: impl FnOnce(Answer<T>) + Send + 'static,
    ) {
        let _within = self.runtime.enter();
        let mut work = Box::pin(op.run(work));
        match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => answer(done),
            Poll::Pending => drop(self.runtime.spawn(async move { answer(work.await) })),
        }
    }

    /// Works a request out while this thread takes others, and then answers.
    pub(crate) fn later<T: Send + 'static>(
        &self,
        op: Op,
        work: impl Future<Output = Answer<T>> + Send + 'static,
        answer: impl FnOnce(Answer<T>) + Send + 'static,
    ) {
        self.runtime.spawn(async move { answer(op.run(work).await) });
    }

    pub(crate) fn answer_entry(
        &self,
        mut turn: Turn<'_>,
        (parent, name): (INodeNo, &OsStr),
        made: Answer<Entry>,
        reply: ReplyEntry,
    ) {
        match made {
            Ok(entry) => {
                let shown = self.core.shown(&entry);
                let (attributes, named) = turn.name(parent, name, &shown);
                reply.entry_with_ttls(&attributes, &named, &shown.attributes, GENERATION);
            }
            Err(error) => reply.error(error),
        }
    }

    pub(crate) fn answer_empty(done: Answer<()>, reply: ReplyEmpty) {
        match done {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    /// Saves a file at a flush or sync and answers.
    pub(crate) fn save(&self, op: Op, number: FileHandle, durable: Durable, reply: ReplyEmpty) {
        let handle = match self.core.handle(number.0) {
            Ok(handle) => handle,
            Err(error) => return reply.error(error),
        };
        if !handle.writes && durable == Durable::Soon {
            // What others wrote is theirs to be told about.
            return reply.ok();
        }
        let quick = handle.file.shown().entry.node.size <= QUICK_BYTES;
        let core = self.core.clone();
        let work = async move { handle.save(&core, durable).await };
        if quick {
            Self::answer_empty(self.now(op, work), reply);
        } else {
            self.later(op, work, move |done| Self::answer_empty(done, reply));
        }
    }

    /// Lists a folder; `add`, which is told the tree's number before it was asked, answers whether the reply is full.
    pub(crate) fn list(
        &self,
        (request, ino): (&Request, INodeNo),
        number: FileHandle,
        offset: u64,
        mut add: impl FnMut(u64, &str, &Entry, Option<u64>) -> bool,
    ) -> Answer<()> {
        let listing = self.core.folders.get(number.0).ok_or(Errno::EBADF)?;
        let core = &self.core;
        self.now(self.op(Kind::List, request, ino, None), async move {
            let mut listing = listing.lock().await;
            if offset < DOTS {
                let own = core.entry(listing.folder).await?;
                let above = match own.node.parent {
                    Some(parent) => core.entry(parent).await?,
                    None => own.clone(),
                };
                for (number, name, entry) in [(0, ".", &own), (1, "..", &above)] {
                    if number >= offset && add(number + 1, name, entry, None) {
                        return Ok(());
                    }
                }
            }
            let mut next = offset.max(DOTS);
            loop {
                let (page, asked) = listing.from(core, next).await.told()?;
                if page.is_empty() {
                    return Ok(());
                }
                for entry in page {
                    next += 1;
                    if add(next, &entry.node.name, entry, asked) {
                        return Ok(());
                    }
                }
            }
        })
    }
}

/// A request's work within its time.
pub(crate) async fn in_time<T>(work: impl Future<Output = Answer<T>>) -> Answer<T> {
    let mut work = pin!(work);
    match poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await {
        Poll::Ready(answer) => answer,
        Poll::Pending => tokio::time::timeout(DEADLINE, work).await.unwrap_or(Err(Errno::ETIMEDOUT)),
    }
}

/// Answers a value, or how long it is.
pub(crate) fn answer_xattr(value: Answer<Vec<u8>>, size: u32, reply: ReplyXattr) {
    match value {
        Err(error) => reply.error(error),
        Ok(value) if size == 0 => reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX)),
        Ok(value) if value.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
    }
}
