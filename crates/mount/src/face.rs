//! The kernel's requests, each handed to [`Core`](crate::core::Core).
//!
//! A request that asks the catalogue is answered on the thread it came in on: that takes some ten microseconds, and to hand it over
//! would take as long. One that may wait for the store (reading, saving what is more than a little) runs on the runtime and the thread
//! takes the next request. Each has a deadline but for those that move bytes, which end with their bytes.

use crate::attributes::{file_type, nanoseconds, now_ns};
use crate::core::{Maker, too_large};
use crate::errno::{Answer, Told};
use crate::files::Handle;
use crate::locks::Asker;
use crate::meter::Kind;
use crate::request::{Face, GENERATION, QUICK_BYTES, answer_xattr, in_time};
use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLock, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use holdfast_base::ByteRange;
use holdfast_drive::{Durable, Entry, NewAttributes, NodeKind, Special, XattrRule};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

/// Largest request the kernel makes: 256 pages.
const REQUEST_BYTES: u32 = 1 << 20;
/// What `statfs` says is free where nobody set a bound.
const UNBOUNDED_BYTES: u64 = 1 << 50;
/// What `statfs` counts in.
const STATFS_BLOCK_BYTES: u32 = 4_096;
/// Longest name.
const NAME_BYTES: u32 = 255;
const _: () = assert!(NAME_BYTES as usize == holdfast_base::limits::NAME_BYTES_MAX);

/// The answer's `Maker` of a request.
fn maker(request: &Request, mode: u32, rdev: u32) -> Maker {
    Maker { uid: request.uid(), gid: request.gid(), mode, rdev }
}

fn given(time: TimeOrNow) -> i64 {
    match time {
        TimeOrNow::SpecificTime(time) => nanoseconds(time),
        TimeOrNow::Now => now_ns(),
    }
}

impl Filesystem for Face {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // The kernel says what it can do at most if it cannot do this.
        if let Err(most) = config.set_max_write(REQUEST_BYTES) {
            let _ = config.set_max_write(most);
        }
        if let Err(most) = config.set_max_readahead(REQUEST_BYTES) {
            let _ = config.set_max_readahead(most);
        }
        // Requests that the kernel has under way for itself (read-ahead, writing back) do not stop at twelve.
        let _ = config.set_max_background(64);
        for wanted in [
            InitFlags::FUSE_ATOMIC_O_TRUNC,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
            InitFlags::FUSE_ASYNC_DIO,
        ] {
            // Without one of them there are more requests, and nothing else changes.
            let _ = config.add_capabilities(wanted);
        }
        if self.core.locks.is_some() {
            // Without them, the kernel has the locks, and they hold within this mount.
            let _ = config.add_capabilities(InitFlags::FUSE_POSIX_LOCKS);
            let _ = config.add_capabilities(InitFlags::FUSE_FLOCK_LOCKS);
        }
        if config.capabilities().contains(InitFlags::FUSE_HAS_EXPIRE_ONLY) {
            self.core.belief.can_expire();
        }
        self.past_cache = config.add_capabilities(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP).is_ok();
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (op, mut turn) = (self.op(Kind::Lookup, request, parent, Some(name)), self.core.belief.turn());
        match self.now(op, self.core.lookup(parent, name)) {
            Ok(shown) => {
                let (attributes, named) = turn.name(parent, name, &shown);
                reply.entry_with_ttls(&attributes, &named, &shown.attributes, GENERATION);
            }
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, request: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let (op, mut turn) = (self.op(Kind::Attributes, request, ino, None), self.core.belief.turn());
        match self.now(op, self.core.attributes_of(ino)) {
            Ok(shown) => reply.attr(&turn.attributes(&shown), &shown.attributes),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let clear = request.uid() != 0;
        let change = NewAttributes {
            mode,
            uid,
            gid,
            atime_ns: atime.map(given),
            mtime_ns: mtime.map(given),
            ctime_ns: now_ns(),
        };
        let has_change = mode.is_some() || uid.is_some() || gid.is_some() || atime.is_some() || mtime.is_some();
        let (core, believed) = (self.core.clone(), self.core.belief.short());
        let work = async move {
            if let Some(size) = size {
                core.resize(ino, size, clear).await?;
            }
            if has_change {
                core.set_attributes(ino, change).await?;
            }
            Ok(core.attributes_of(ino).await?.attributes)
        };
        let answer = move |done: Answer<FileAttr>| match done {
            Ok(attributes) => reply.attr(&believed, &attributes),
            Err(error) => reply.error(error),
        };
        let op = self.op(Kind::SetAttributes, request, ino, None);
        if size.is_some_and(|size| size > 0) {
            // What is left of it may have to be read.
            self.later(op, work, answer);
        } else {
            answer(self.now(op, work));
        }
    }

    /// Asked of a mount of root's alone: all others have the kernel look at permissions.
    fn access(&self, request: &Request, ino: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        if !mask.contains(AccessFlags::X_OK) {
            return reply.ok();
        }
        let runs = |attributes: FileAttr| attributes.kind != FileType::RegularFile || attributes.perm & 0o111 != 0;
        let answer = self.now(self.op(Kind::Access, request, ino, None), self.core.attributes_of(ino));
        Self::answer_empty(answer.and_then(|it| runs(it.attributes).then_some(()).ok_or(Errno::EACCES)), reply);
    }

    fn readlink(&self, request: &Request, ino: INodeNo, reply: ReplyData) {
        match self.now(self.op(Kind::ReadLink, request, ino, None), self.core.read_link(ino)) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(error),
        }
    }

    fn mknod(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, rdev: u32, reply: ReplyEntry) {
        let special = match mode & libc::S_IFMT {
            libc::S_IFREG | 0 => Special::None,
            libc::S_IFIFO => Special::Fifo,
            libc::S_IFSOCK => Special::Socket,
            libc::S_IFCHR => Special::Character,
            libc::S_IFBLK => Special::Block,
            _ => return reply.error(Errno::EINVAL),
        };
        let what = (NodeKind::File, special, bytes::Bytes::new());
        let (op, turn) = (self.op(Kind::Special, request, parent, Some(name)), self.core.belief.turn());
        let answer = self.now(op, self.core.make(parent, name, maker(request, mode, rdev), what));
        self.answer_entry(turn, (parent, name), answer, reply);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        let what = (NodeKind::Folder, Special::None, bytes::Bytes::new());
        let (op, turn) = (self.op(Kind::Folder, request, parent, Some(name)), self.core.belief.turn());
        let answer = self.now(op, self.core.make(parent, name, maker(request, mode, 0), what));
        self.answer_entry(turn, (parent, name), answer, reply);
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let op = self.op(Kind::Unlink, request, parent, Some(name));
        Self::answer_empty(self.now(op, self.core.remove(parent, name, false)), reply);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let op = self.op(Kind::RemoveFolder, request, parent, Some(name));
        Self::answer_empty(self.now(op, self.core.remove(parent, name, true)), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let target = target.as_os_str().as_bytes();
        let (op, turn) = (self.op(Kind::Link, request, parent, Some(name)), self.core.belief.turn());
        let made = self.now(op, self.core.make_link(parent, name, maker(request, 0o777, 0), target));
        self.answer_entry(turn, (parent, name), made, reply);
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let op = self.op(Kind::Rename, request, parent, Some(name));
        Self::answer_empty(self.now(op, self.core.rename((parent, name), (newparent, newname), flags)), reply);
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let (core, how, uid) = (self.core.clone(), self.opened(flags.0), request.uid());
        let work = async move {
            let opened = in_time(core.open(ino, flags.0, uid)).await?;
            if !opened.is_known {
                let forgotten = async {
                    core.has_only(&opened.file).await;
                    Ok(())
                };
                if let Err(error) = in_time(forgotten).await {
                    core.release(opened.handle).await;
                    return Err(error);
                }
            }
            Ok(opened)
        };
        self.soon(self.op(Kind::Open, request, ino, None), work, move |done| match done {
            Ok(opened) => reply.opened(FileHandle(opened.handle), how(opened.xattrs)),
            Err(error) => reply.error(error),
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let op = self.op(Kind::Create, request, parent, Some(name));
        match self.now(op, self.core.create(parent, name, maker(request, mode, 0), flags)) {
            Ok((attributes, handle)) => {
                let how = self.opened(flags)(0);
                // It is open. There is one time for its name and its attributes.
                reply.created(&self.core.belief.short_of_name(), &attributes, GENERATION, FileHandle(handle), how);
            }
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Handle { file, .. } = match self.core.handle(fh.0) {
            Ok(handle) => handle,
            Err(error) => return reply.error(error),
        };
        let core = self.core.clone();
        let quick = file.shown().entry.node.size <= QUICK_BYTES;
        let work = async move { file.read(&core, offset, u64::from(size)).await.told() };
        let answer = move |done: Answer<Vec<u8>>| match done {
            Ok(data) => reply.data(&data),
            Err(error) => reply.error(error),
        };
        let op = self.op(Kind::Read, request, ino, None);
        if quick {
            answer(self.now(op, work));
        } else {
            self.later(op, work, answer);
        }
    }

    fn write(
        &self,
        request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let clear = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        // Where the end is, the kernel may know from before another mount wrote.
        let appends = flags.0 & libc::O_APPEND != 0 && self.core.locks.is_some();
        let at = (!appends).then_some(offset);
        let written = self.now(self.op(Kind::Write, request, ino, None), async {
            let file = self.core.handle(fh.0)?.file;
            let at = file.write(&self.core, at, data, clear).await.map_err(|error| too_large(&error))?;
            let misplaced = (at != offset).then(|| file.is_misplaced(&self.core));
            Ok((file, misplaced))
        });
        // One request is of a few MiB at most.
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        match written {
            Ok((file, None)) => {
                let early = if offset == 0 { file.seal_early(&self.core) } else { None };
                reply.written(length);
                // The program goes on meanwhile.
                if let Some(early) = early {
                    early.seal(&self.core);
                }
            }
            Ok((_, Some(forgotten))) => {
                // An answer about attributes that is on its way when the kernel forgets is lost on it, and whoever reads what was just written
                // would not find it. What is written past the cache holds none of its pages, and is of an owner.
                if owner.is_none() {
                    return reply.written(length);
                }
                self.runtime.spawn(async move {
                    forgotten.await;
                    reply.written(length);
                });
            }
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, request: &Request, ino: INodeNo, fh: FileHandle, owner: LockOwner, reply: ReplyEmpty) {
        let op = self.op(Kind::Flush, request, ino, None);
        if self.core.locks.as_ref().is_some_and(|locks| locks.knows(self.core.node(ino))) {
            self.save_and_unlock(op, (ino, fh), owner, reply);
        } else {
            self.save(op, fh, Durable::Soon, reply);
        }
    }

    fn getlk(
        &self,
        request: &Request,
        ino: INodeNo,
        _: FileHandle,
        owner: LockOwner,
        start: u64,
        last: u64,
        kind: i32,
        _: u32,
        reply: ReplyLock,
    ) {
        self.test_lock(self.op(Kind::TestLock, request, ino, None), (ino, owner), (start, last, kind), reply);
    }

    fn setlk(
        &self,
        request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        owner: LockOwner,
        start: u64,
        last: u64,
        kind: i32,
        process: u32,
        wait: bool,
        reply: ReplyEmpty,
    ) {
        let who = Asker { owner: owner.0, process, thread: request.pid(), handle: fh.0 };
        self.set_lock(self.op(Kind::Lock, request, ino, None), (ino, who), (start, last, kind), wait, reply);
    }

    fn fsync(&self, request: &Request, ino: INodeNo, fh: FileHandle, _: bool, reply: ReplyEmpty) {
        self.save(self.op(Kind::Sync, request, ino, None), fh, Durable::Now, reply);
    }

    fn release(
        &self,
        request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let op = self.op(Kind::Release, request, ino, None);
        let quick = self.core.is_quick_to_release(fh.0);
        let core = self.core.clone();
        let work = async move {
            core.release(fh.0).await;
            Ok(())
        };
        if quick {
            Self::answer_empty(self.now(op, work), reply);
        } else {
            self.later(op, work, move |done| Self::answer_empty(done, reply));
        }
    }

    fn link(&self, request: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (op, turn) = (self.op(Kind::HardLink, request, parent, Some(name)), self.core.belief.turn());
        let linked = self.now(op, self.core.link(ino, parent, name));
        self.answer_entry(turn, (parent, name), linked, reply);
    }

    /// Where the next data or hole is; the kernel knows the rest itself.
    fn lseek(&self, request: &Request, ino: INodeNo, fh: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        let core = self.core.clone();
        let work = async move {
            let file = core.handle(fh.0)?.file;
            let hole = match whence {
                libc::SEEK_HOLE => true,
                libc::SEEK_DATA => false,
                _ => return Err(Errno::EINVAL),
            };
            let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
            let found = file.seek(&core, offset, hole).await.told()?.ok_or(Errno::ENXIO)?;
            i64::try_from(found).map_err(|_| Errno::EFBIG)
        };
        self.later(self.op(Kind::Seek, request, ino, None), work, move |done| match done {
            Ok(offset) => reply.offset(offset),
            Err(error) => reply.error(error),
        });
    }

    fn copy_file_range(
        &self,
        request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        _: INodeNo,
        to_fh: FileHandle,
        to_offset: u64,
        length: u64,
        flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let core = self.core.clone();
        let work = async move {
            if !flags.is_empty() {
                return Err(Errno::EINVAL);
            }
            let (source, target) = (core.handle(fh.0)?.file, core.handle(to_fh.0)?);
            if !target.writes {
                return Err(Errno::EBADF);
            }
            core.copy((source, offset), (target.file, to_offset), length).await
        };
        self.later(self.op(Kind::Copy, request, ino, None), work, move |done| match done {
            Ok(copied) => reply.written(copied),
            Err(error) => reply.error(error),
        });
    }

    fn ioctl(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        _: u32,
        _: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(Errno::ENOTTY);
    }

    fn fallocate(
        &self,
        request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        const KEEP: i32 = libc::FALLOC_FL_KEEP_SIZE;
        const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | KEEP;
        const ZERO: i32 = libc::FALLOC_FL_ZERO_RANGE;
        let Handle { file, writes, .. } = match self.core.handle(fh.0) {
            Ok(handle) => handle,
            Err(error) => return reply.error(error),
        };
        if !writes {
            return reply.error(Errno::EBADF);
        }
        let range = ByteRange { start: offset, end: offset.saturating_add(length) };
        let core = self.core.clone();
        let work = async move {
            match mode {
                // Room is found when content is saved, and quota is counted in bytes that are there.
                KEEP => Ok(()),
                0 if range.end > file.shown().entry.node.size => file.truncate(&core, range.end, false).await,
                0 => Ok(()),
                PUNCH => file.zero(&core, range, true).await,
                mode if mode & !KEEP == ZERO => file.zero(&core, range, mode & KEEP != 0).await,
                _ => return Err(Errno::EOPNOTSUPP),
            }
            .map_err(|error| too_large(&error))
        };
        self.later(self.op(Kind::Allocate, request, ino, None), work, move |done| Self::answer_empty(done, reply));
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let handle = self.core.folders.open(self.core.node(ino));
        reply.opened(FileHandle(handle), FopenFlags::empty());
    }

    fn readdir(&self, request: &Request, ino: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let cell = std::cell::RefCell::new(&mut reply);
        let add = |next: u64, name: &str, entry: &Entry, _| {
            cell.borrow_mut().add(self.core.ino(entry.number()), next, file_type(entry), name)
        };
        match self.list((request, ino), fh, offset, add) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn readdirplus(&self, request: &Request, ino: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
        let cell = std::cell::RefCell::new((&mut reply, self.core.belief.turn()));
        let add = |next: u64, name: &str, entry: &Entry, asked: Option<u64>| {
            let (shown, (reply, turn)) = (self.core.shown(entry), &mut *cell.borrow_mut());
            let believed = turn.member(asked, (ino, OsStr::new(name)), &shown);
            reply.add(shown.attributes.ino, next, name, &believed, &shown.attributes, GENERATION)
        };
        let listed = self.list((request, ino), fh, offset, add);
        // Written down when the answer is out.
        let (_, _turn) = cell.into_inner();
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, fh: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.core.folders.close(fh.0);
        reply.ok();
    }

    fn fsyncdir(&self, request: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let core = self.core.clone();
        let work = async move { core.settle().await.told() };
        self.later(self.op(Kind::SyncFolder, request, ino, None), work, move |done| Self::answer_empty(done, reply));
    }

    fn statfs(&self, request: &Request, ino: INodeNo, reply: ReplyStatfs) {
        match self.now(self.op(Kind::Room, request, ino, None), async { self.core.tree.room().await.told() }) {
            Ok(room) => {
                let block = u64::from(STATFS_BLOCK_BYTES);
                let free = room.free_bytes.unwrap_or(UNBOUNDED_BYTES) / block;
                let blocks = room.used_bytes.div_ceil(block) + free;
                reply.statfs(blocks, free, free, 0, 0, STATFS_BLOCK_BYTES, NAME_BYTES, STATFS_BLOCK_BYTES);
            }
            Err(error) => reply.error(error),
        }
    }

    fn setxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let rule = match flags {
            libc::XATTR_CREATE => XattrRule::Create,
            libc::XATTR_REPLACE => XattrRule::Replace,
            _ => XattrRule::Any,
        };
        let op = self.op(Kind::SetXattr, request, ino, Some(name));
        Self::answer_empty(self.now(op, self.core.set_xattr(ino, name, Some(value.to_vec()), rule)), reply);
    }

    fn removexattr(&self, request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let op = self.op(Kind::RemoveXattr, request, ino, Some(name));
        Self::answer_empty(self.now(op, self.core.set_xattr(ino, name, None, XattrRule::Any)), reply);
    }

    fn getxattr(&self, request: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let op = self.op(Kind::Xattr, request, ino, Some(name));
        answer_xattr(self.now(op, self.core.xattr(ino, name)), size, reply);
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        answer_xattr(self.now(self.op(Kind::ListXattr, request, ino, None), self.core.xattr_names(ino)), size, reply);
    }
}
