//! The kernel's requests, each handed to [`Core`].
//!
//! A request that asks the catalogue is answered on the thread it came in on: that takes some ten microseconds, and to hand it over
//! would take as long. One that may wait for the store (reading, saving what is more than a little) runs on the runtime and the thread
//! takes the next request. Each has a deadline but for those that move bytes, which end with their bytes.

use crate::attributes::{file_type, nanoseconds, now_ns};
use crate::core::{Core, Maker, too_large};
use crate::errno::{Answer, Told};
use crate::files::Handle;
use crate::folder::DOTS;
use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek,
    ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use holdfast_base::ByteRange;
use holdfast_drive::{Durable, Entry, NewAttributes, NodeKind, Special, XattrRule};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::runtime::Handle as Runtime;

/// Numbers of nodes are never used twice.
const GENERATION: Generation = Generation(0);
/// Longest that a request about names and attributes waits.
const DEADLINE: Duration = Duration::from_mins(1);
/// Largest request the kernel makes: 256 pages.
const REQUEST_BYTES: u32 = 1 << 20;
/// Saving so much at a close is as quick as handing it over.
const QUICK_BYTES: u64 = 64 << 10;
/// What `statfs` says is free where nobody set a bound.
const UNBOUNDED_BYTES: u64 = 1 << 50;
/// What `statfs` counts in.
const STATFS_BLOCK_BYTES: u32 = 4_096;
/// Longest name.
const NAME_BYTES: u32 = 255;
const _: () = assert!(NAME_BYTES as usize == holdfast_base::limits::NAME_BYTES_MAX);

/// The file system as fuser drives it.
pub(crate) struct Face {
    core: Arc<Core>,
    runtime: Runtime,
    /// How long the kernel believes names and attributes.
    believed: Duration,
    /// Whether what is written past the kernel's cache takes out of it what it had of the file (Linux 6.6).
    past_cache: bool,
}

impl Face {
    pub(crate) const fn new(core: Arc<Core>, runtime: Runtime, believed: Duration) -> Self {
        Self { core, runtime, believed, past_cache: false }
    }

    /// How a file is open: whoever only writes does so past the kernel's cache. That saves a copy, and a question before the first write to
    /// each file: for `security.capability`, which writing through the cache takes away. What has extended attributes is written through it.
    fn opened(&self, flags: i32, keep: bool, xattrs: u32) -> FopenFlags {
        let mut how = if keep { FopenFlags::FOPEN_KEEP_CACHE } else { FopenFlags::empty() };
        how.set(
            FopenFlags::FOPEN_DIRECT_IO,
            self.past_cache && flags & libc::O_ACCMODE == libc::O_WRONLY && xattrs == 0,
        );
        how
    }

    /// Works a request out here.
    fn now<T>(&self, work: impl Future<Output = Answer<T>>) -> Answer<T> {
        self.runtime.block_on(async { tokio::time::timeout(DEADLINE, work).await.unwrap_or(Err(Errno::ETIMEDOUT)) })
    }

    /// Works a request out while this thread takes others.
    fn later(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }

    fn answer_entry(&self, made: Answer<Entry>, reply: ReplyEntry) {
        match made {
            Ok(entry) => reply.entry(&self.believed, &self.core.shown(&entry), GENERATION),
            Err(error) => reply.error(error),
        }
    }

    fn answer_empty(done: Answer<()>, reply: ReplyEmpty) {
        match done {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    /// Saves a file at a flush or sync and answers.
    fn save(&self, number: FileHandle, durable: Durable, reply: ReplyEmpty) {
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
        let work = async move { handle.file.save_and_tell(&core, durable).await.map_err(|error| too_large(&error)) };
        if quick {
            Self::answer_empty(self.now(work), reply);
        } else {
            self.later(async move { Self::answer_empty(work.await, reply) });
        }
    }

    /// Lists a folder; `add` answers whether the reply is full.
    fn list(
        &self,
        number: FileHandle,
        offset: u64,
        mut add: impl FnMut(u64, &str, &Entry) -> bool,
        mut dot: impl FnMut(u64, &str, &Entry) -> bool,
    ) -> Answer<()> {
        let listing = self.core.folders.get(number.0).ok_or(Errno::EBADF)?;
        let core = &self.core;
        self.now(async move {
            let mut listing = listing.lock().await;
            if offset < DOTS {
                let own = core.entry(listing.folder).await?;
                let above = match own.node.parent {
                    Some(parent) => core.entry(parent).await?,
                    None => own.clone(),
                };
                for (number, name, entry) in [(0, ".", &own), (1, "..", &above)] {
                    if number >= offset && dot(number + 1, name, entry) {
                        return Ok(());
                    }
                }
            }
            let mut next = offset.max(DOTS);
            loop {
                let page = listing.from(core, next).await.told()?;
                if page.is_empty() {
                    return Ok(());
                }
                for entry in page {
                    next += 1;
                    if add(next, &entry.node.name, entry) {
                        return Ok(());
                    }
                }
            }
        })
    }
}

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
        self.past_cache = config.add_capabilities(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP).is_ok();
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.now(self.core.lookup(parent, name)) {
            Ok(attributes) => reply.entry(&self.believed, &attributes, GENERATION),
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.now(self.core.attributes_of(ino)) {
            Ok(attributes) => reply.attr(&self.believed, &attributes),
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
        let (core, believed) = (self.core.clone(), self.believed);
        let work = async move {
            if let Some(size) = size {
                core.resize(ino, size, clear).await?;
            }
            if has_change {
                core.set_attributes(ino, change).await?;
            }
            core.attributes_of(ino).await
        };
        let answer = move |done: Answer<FileAttr>| match done {
            Ok(attributes) => reply.attr(&believed, &attributes),
            Err(error) => reply.error(error),
        };
        if size.is_some_and(|size| size > 0) {
            // What is left of it may have to be read.
            self.later(async move { answer(work.await) });
        } else {
            answer(self.now(work));
        }
    }

    /// Asked of a mount of root's alone: all others have the kernel look at permissions.
    fn access(&self, _: &Request, ino: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        if !mask.contains(AccessFlags::X_OK) {
            return reply.ok();
        }
        let runs = |attributes: FileAttr| attributes.kind != FileType::RegularFile || attributes.perm & 0o111 != 0;
        let answer = self.now(self.core.attributes_of(ino)).and_then(|it| runs(it).then_some(()).ok_or(Errno::EACCES));
        Self::answer_empty(answer, reply);
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.now(self.core.read_link(ino)) {
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
        let answer = self.now(self.core.make(parent, name, maker(request, mode, rdev), what));
        self.answer_entry(answer, reply);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        let what = (NodeKind::Folder, Special::None, bytes::Bytes::new());
        let answer = self.now(self.core.make(parent, name, maker(request, mode, 0), what));
        self.answer_entry(answer, reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        Self::answer_empty(self.now(self.core.remove(parent, name, false)), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        Self::answer_empty(self.now(self.core.remove(parent, name, true)), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let target = target.as_os_str().as_bytes();
        let made = self.now(self.core.make_link(parent, name, maker(request, 0o777, 0), target));
        self.answer_entry(made, reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        Self::answer_empty(self.now(self.core.rename((parent, name), (newparent, newname), flags)), reply);
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.now(self.core.open(ino, flags.0, request.uid())) {
            Ok((handle, keep, xattrs)) => reply.opened(FileHandle(handle), self.opened(flags.0, keep, xattrs)),
            Err(error) => reply.error(error),
        }
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
        match self.now(self.core.create(parent, name, maker(request, mode, 0), flags)) {
            Ok((attributes, handle)) => {
                let how = self.opened(flags, true, 0);
                reply.created(&self.believed, &attributes, GENERATION, FileHandle(handle), how);
            }
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
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
        if quick {
            answer(self.now(work));
        } else {
            self.later(async move { answer(work.await) });
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let clear = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let written = self.now(async {
            let file = self.core.handle(fh.0)?.file;
            file.write(&self.core, offset, data, clear).await.map_err(|error| too_large(&error))
        });
        match written {
            // One request is of a few MiB at most.
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX)),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, fh: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        self.save(fh, Durable::Soon, reply);
    }

    fn fsync(&self, _: &Request, _: INodeNo, fh: FileHandle, _: bool, reply: ReplyEmpty) {
        self.save(fh, Durable::Now, reply);
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let core = self.core.clone();
        self.later(async move {
            core.close(fh.0).await;
            reply.ok();
        });
    }

    /// A node is a place in the drive, and has one (docs/design/mount.md).
    fn link(&self, _: &Request, _: INodeNo, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    /// The kernel does it itself from now on, as for a file without holes.
    fn lseek(&self, _: &Request, _: INodeNo, _: FileHandle, _: i64, _: i32, reply: ReplyLseek) {
        reply.error(Errno::ENOSYS);
    }

    /// The kernel copies by reading and writing from now on.
    fn copy_file_range(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        reply.error(Errno::ENOSYS);
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
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        const KEEP: i32 = libc::FALLOC_FL_KEEP_SIZE;
        const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | KEEP;
        const ZERO: i32 = libc::FALLOC_FL_ZERO_RANGE;
        let Handle { file, writes } = match self.core.handle(fh.0) {
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
        self.later(async move { Self::answer_empty(work.await, reply) });
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let handle = self.core.folders.open(self.core.node(ino));
        reply.opened(FileHandle(handle), FopenFlags::empty());
    }

    fn readdir(&self, _: &Request, _: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let cell = std::cell::RefCell::new(&mut reply);
        let add = |next: u64, name: &str, entry: &Entry| {
            cell.borrow_mut().add(self.core.ino(entry.node.id), next, file_type(entry), name)
        };
        match self.list(fh, offset, add, add) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn readdirplus(&self, _: &Request, _: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
        let cell = std::cell::RefCell::new(&mut reply);
        let add = |next: u64, name: &str, entry: &Entry| {
            let attributes = self.core.shown(entry);
            cell.borrow_mut().add(attributes.ino, next, name, &self.believed, &attributes, GENERATION)
        };
        match self.list(fh, offset, add, add) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, fh: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.core.folders.close(fh.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let core = self.core.clone();
        self.later(async move { Self::answer_empty(core.settle().await.told(), reply) });
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.now(async { self.core.tree.room().await.told() }) {
            Ok(room) => {
                let block = u64::from(STATFS_BLOCK_BYTES);
                let free = room.free_bytes.unwrap_or(UNBOUNDED_BYTES) / block;
                let blocks = room.used_bytes.div_ceil(block) + free;
                reply.statfs(blocks, free, free, 0, 0, STATFS_BLOCK_BYTES, NAME_BYTES, STATFS_BLOCK_BYTES);
            }
            Err(error) => reply.error(error),
        }
    }

    fn setxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, value: &[u8], flags: i32, _: u32, reply: ReplyEmpty) {
        let rule = match flags {
            libc::XATTR_CREATE => XattrRule::Create,
            libc::XATTR_REPLACE => XattrRule::Replace,
            _ => XattrRule::Any,
        };
        Self::answer_empty(self.now(self.core.set_xattr(ino, name, Some(value.to_vec()), rule)), reply);
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        Self::answer_empty(self.now(self.core.set_xattr(ino, name, None, XattrRule::Any)), reply);
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        answer_xattr(self.now(self.core.xattr(ino, name)), size, reply);
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        answer_xattr(self.now(self.core.xattr_names(ino)), size, reply);
    }
}

fn answer_xattr(value: Answer<Vec<u8>>, size: u32, reply: ReplyXattr) {
    match value {
        Err(error) => reply.error(error),
        Ok(value) if size == 0 => reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX)),
        Ok(value) if value.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
    }
}
