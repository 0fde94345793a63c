//! The kernel's requests about locks.

use super::{Asker, END, flushed, key, lock, test, unlock};
use crate::errno::Answer;
use crate::meter::Op;
use crate::request::Face;
use fuser::{Errno, FileHandle, INodeNo, LockOwner, ReplyEmpty, ReplyLock};
use holdfast_base::ByteRange;
use holdfast_drive::Durable;
use holdfast_drive::posix_locks::LockKey;

/// A range as FUSE says it, which names its last byte.
fn range(start: u64, last: u64) -> Answer<ByteRange> {
    let end = last.saturating_add(1).min(END);
    if start < end { Ok(ByteRange { start, end }) } else { Err(Errno::EINVAL) }
}

impl Face {
    /// Takes or ends a lock.
    pub(crate) fn set_lock(
        &self,
        op: Op,
        (ino, who): (INodeNo, Asker),
        (start, last, kind): (u64, u64, i32),
        wait: bool,
        reply: ReplyEmpty,
    ) {
        let (core, node) = (self.core.clone(), self.core.node(ino));
        let work = async move {
            let range = range(start, last)?;
            let key = key(node, range, who.thread);
            match kind {
                libc::F_UNLCK => unlock(&core, key, who.owner, range).await,
                libc::F_RDLCK | libc::F_WRLCK => lock(&core, (key, range, kind == libc::F_WRLCK), who, wait).await,
                _ => Err(Errno::EINVAL),
            }
        };
        self.later(op, work, move |done| Self::answer_empty(done, reply));
    }

    /// Says who is in the way of a lock.
    pub(crate) fn test_lock(
        &self,
        op: Op,
        (ino, owner): (INodeNo, LockOwner),
        (start, last, kind): (u64, u64, i32),
        reply: ReplyLock,
    ) {
        let (core, node) = (self.core.clone(), self.core.node(ino));
        let work = async move {
            let key = LockKey { node, flock: false };
            test(&core, (key, range(start, last)?, kind == libc::F_WRLCK), owner.0).await
        };
        self.later(op, work, move |found| match found {
            Ok(Some((held, process))) => {
                let kind = if held.exclusive { libc::F_WRLCK } else { libc::F_RDLCK };
                reply.locked(held.range.start, held.range.end - 1, kind, process);
            }
            Ok(None) => reply.locked(start, last, libc::F_UNLCK, 0),
            Err(error) => reply.error(error),
        });
    }

    /// A process closes a descriptor: what was written is saved, and then its POSIX locks end, whatever became of that.
    pub(crate) fn save_and_unlock(
        &self,
        op: Op,
        (ino, number): (INodeNo, FileHandle),
        owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        let (core, node) = (self.core.clone(), self.core.node(ino));
        let work = async move {
            let saved = match core.handle(number.0) {
                Ok(handle) if handle.writes => handle.save(&core, Durable::Soon).await,
                Ok(_) => Ok(()),
                Err(error) => Err(error),
            };
            flushed(&core, node, owner.0).await.and(saved)
        };
        self.later(op, work, move |done| Self::answer_empty(done, reply));
    }
}
