//! The requests of the kernel, each handed to what does it, and its answer.
//!
//! The kernel remembers no answer: names and attributes hold for no time, so that each question is asked again, whichever program asks and whatever the policy is by then.
//! But where a policy refuses nobody to look anything up, for a moment (`gate::BELIEVED`) it remembers which *folder* a name leads to: else each use of a file asks for all the
//! folders above it.

use crate::asked::Asked;
use crate::gate::{Gate, Served};
use crate::handle::Handles;
use crate::node::Nodes;
use crate::serve::attributes::{self, Change, Value};
use crate::serve::files;
use crate::serve::names::{self, Bits, Slot};
use crate::sys::settle_thread;
use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use holdfast_policy::Operation;
use std::ffi::OsStr;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How long the kernel may believe names and attributes.
const NO_TIME: Duration = Duration::ZERO;

/// Bytes of the longest write that comes in one piece.
const WRITE_BYTES_MAX: u32 = 1 << 20;

/// One folder.
pub(crate) struct Face {
    gate: Arc<Gate>,
    nodes: Nodes,
    served: Arc<Served>,
    handles: Handles,
}

type Done<T> = Result<T, rustix::io::Errno>;

impl Face {
    pub(crate) fn new(gate: Arc<Gate>, nodes: Nodes, served: Arc<Served>) -> Self {
        Self { gate, nodes, served, handles: Handles::default() }
    }

    /// Does what was asked for, as the account would. If that panics nobody knows what was decided, and the sandbox ends.
    fn answer<T>(&self, request: &Request, work: impl FnOnce(&Asked<'_>) -> Done<T>) -> Result<T, Errno> {
        let served = catch_unwind(AssertUnwindSafe(|| {
            settle_thread()?;
            work(&Asked::new(&self.gate, request.pid()))
        }));
        let served = served.unwrap_or_else(|_| {
            (self.gate.options.on_end)(Some("a call could not be decided about"));
            Err(rustix::io::Errno::IO)
        });
        served.map_err(|errno| Errno::from_i32(errno.raw_os_error()))
    }

    fn entry(&self, request: &Request, reply: ReplyEntry, work: impl FnOnce(&Asked<'_>) -> Done<fuser::FileAttr>) {
        match self.answer(request, work) {
            Ok(found) => reply.entry(&NO_TIME, &found, Generation(0)),
            Err(errno) => reply.error(errno),
        }
    }

    fn empty(&self, request: &Request, reply: ReplyEmpty, work: impl FnOnce(&Asked<'_>) -> Done<()>) {
        match self.answer(request, work) {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn value(&self, request: &Request, room: u32, reply: ReplyXattr, work: impl FnOnce(&Asked<'_>) -> Done<Value>) {
        match self.answer(request, work) {
            Ok(Value::Length(length)) => reply.size(length),
            Ok(Value::Bytes(bytes)) if bytes.len() as u64 <= u64::from(room) => reply.data(&bytes),
            Ok(Value::Bytes(_)) => reply.error(Errno::ERANGE),
            Err(errno) => reply.error(errno),
        }
    }
}

impl Filesystem for Face {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Permissions are asked for as the program wrote them, and its umask beside them.
        config.add_capabilities(InitFlags::FUSE_DONT_MASK).map_err(|_| io::Error::from(io::ErrorKind::Unsupported))?;
        for wanted in [InitFlags::FUSE_PARALLEL_DIROPS, InitFlags::FUSE_ASYNC_DIO, InitFlags::FUSE_AUTO_INVAL_DATA] {
            // Without these it is slower, or sees a little later what others write.
            let _ = config.add_capabilities(wanted);
        }
        let _ = config.set_max_write(WRITE_BYTES_MAX);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let look_up =
            |asked: &Asked<'_>| names::look_up(asked, (&self.served, &self.nodes), &*self.nodes.get(parent)?, name);
        match self.answer(request, look_up) {
            Ok((found, belief)) => reply.entry_with_ttls(&NO_TIME, &belief, &found, Generation(0)),
            Err(errno) => reply.error(errno),
        }
    }

    fn forget(&self, _: &Request, number: INodeNo, times: u64) {
        self.nodes.forget(number, times);
    }

    fn getattr(&self, request: &Request, number: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        match self.answer(request, |asked| attributes::get(asked, &*self.nodes.get(number)?, handle.is_some())) {
            Ok(found) => reply.attr(&NO_TIME, &found),
            Err(errno) => reply.error(errno),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = Change { mode, user, group, size, accessed, modified };
        let set = |asked: &Asked<'_>| {
            let open = handle.map(|handle| self.handles.get(handle)).transpose()?;
            attributes::set(asked, &*self.nodes.get(number)?, open.as_deref(), &change)
        };
        match self.answer(request, set) {
            Ok(found) => reply.attr(&NO_TIME, &found),
            Err(errno) => reply.error(errno),
        }
    }

    fn readlink(&self, request: &Request, number: INodeNo, reply: ReplyData) {
        match self.answer(request, |asked| attributes::read_link(asked, &*self.nodes.get(number)?)) {
            Ok(text) => reply.data(&text),
            Err(errno) => reply.error(errno),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let bits = Bits { mode, umask };
        self.entry(request, reply, |asked| {
            names::make_node(asked, &self.nodes, &*self.nodes.get(parent)?, name, bits, device)
        });
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        let bits = Bits { mode, umask };
        self.entry(request, reply, |asked| {
            names::make_folder(asked, &self.nodes, &*self.nodes.get(parent)?, name, bits)
        });
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.empty(request, reply, |asked| names::remove(asked, &*self.nodes.get(parent)?, name, Operation::Unlink));
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.empty(request, reply, |asked| names::remove(asked, &*self.nodes.get(parent)?, name, Operation::Rmdir));
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, text: &Path, reply: ReplyEntry) {
        self.entry(request, reply, |asked| names::make_link(asked, &self.nodes, &*self.nodes.get(parent)?, name, text));
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        to: INodeNo,
        new: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        self.empty(request, reply, |asked| {
            let (from, to) = (self.nodes.get(parent)?, self.nodes.get(to)?);
            names::rename(asked, &Slot { folder: &from, name }, &Slot { folder: &to, name: new }, flags)
        });
    }

    fn link(&self, request: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(request, reply, |asked| {
            names::link(asked, &self.nodes, &*self.nodes.get(number)?, &*self.nodes.get(parent)?, name)
        });
    }

    fn open(&self, request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.answer(request, |asked| files::open(asked, self.nodes.get(number)?, flags.0)) {
            Ok((open, opened)) => reply.opened(self.handles.add(open), opened),
            Err(errno) => reply.error(errno),
        }
    }

    fn read(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u32,
        _: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self
            .answer(request, |asked| files::read(asked, &*self.handles.get(handle)?, offset, length, owner.is_some()))
        {
            Ok(bytes) => reply.data(&bytes),
            Err(errno) => reply.error(errno),
        }
    }

    fn write(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        how: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let cached = how.contains(WriteFlags::FUSE_WRITE_CACHE);
        match self.answer(request, |asked| files::write(asked, &*self.handles.get(handle)?, offset, bytes, cached)) {
            Ok(written) => reply.written(written),
            Err(errno) => reply.error(errno),
        }
    }

    /// Closing is nobody's question. So answered, it is never asked again.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.handles.remove(handle);
        reply.ok();
    }

    fn fsync(&self, request: &Request, _: INodeNo, handle: FileHandle, data_only: bool, reply: ReplyEmpty) {
        self.empty(request, reply, |asked| files::sync(asked, &*self.handles.get(handle)?, data_only));
    }

    fn opendir(&self, request: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.answer(request, |asked| files::open_folder(asked, self.nodes.get(number)?)) {
            Ok(open) => reply.opened(self.handles.add(open), FopenFlags::empty()),
            Err(errno) => reply.error(errno),
        }
    }

    fn readdir(&self, request: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let list = |_: &Asked<'_>| {
            let from = usize::try_from(offset).map_err(|_| rustix::io::Errno::INVAL)?;
            let open = self.handles.get(handle)?;
            files::list(&open, from, |next, entry| {
                reply.add(INodeNo(entry.number), next as u64, entry.kind, &entry.name)
            })
        };
        match self.answer(request, list) {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.handles.remove(handle);
        reply.ok();
    }

    fn fsyncdir(&self, request: &Request, _: INodeNo, handle: FileHandle, data_only: bool, reply: ReplyEmpty) {
        self.empty(request, reply, |asked| files::sync(asked, &*self.handles.get(handle)?, data_only));
    }

    fn statfs(&self, request: &Request, number: INodeNo, reply: ReplyStatfs) {
        let stat = |asked: &Asked<'_>| {
            let node = self.nodes.get(number)?;
            asked.ask(Operation::Statfs, &node.path()?)?;
            rustix::fs::fstatvfs(&node.fd)
        };
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        match self.answer(request, stat) {
            Ok(it) => reply.statfs(
                it.f_blocks,
                it.f_bfree,
                it.f_bavail,
                it.f_files,
                it.f_ffree,
                small(it.f_bsize),
                small(it.f_namemax),
                small(it.f_frsize),
            ),
            Err(errno) => reply.error(errno),
        }
    }

    fn setxattr(
        &self,
        request: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        self.empty(request, reply, |asked| {
            attributes::set_extended(asked, &*self.nodes.get(number)?, name, value, flags)
        });
    }

    fn getxattr(&self, request: &Request, number: INodeNo, name: &OsStr, room: u32, reply: ReplyXattr) {
        self.value(request, room, reply, |asked| {
            attributes::get_extended(asked, &*self.nodes.get(number)?, name, room)
        });
    }

    fn listxattr(&self, request: &Request, number: INodeNo, room: u32, reply: ReplyXattr) {
        self.value(request, room, reply, |asked| attributes::list_extended(asked, &*self.nodes.get(number)?, room));
    }

    fn removexattr(&self, request: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.empty(request, reply, |asked| attributes::remove_extended(asked, &*self.nodes.get(number)?, name));
    }

    fn access(&self, request: &Request, number: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        self.empty(request, reply, |asked| attributes::access(asked, &*self.nodes.get(number)?, mask));
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let bits = Bits { mode, umask };
        match self
            .answer(request, |asked| names::create(asked, &self.nodes, &*self.nodes.get(parent)?, name, bits, flags))
        {
            Ok((found, open, opened)) => reply.created(&NO_TIME, &found, Generation(0), self.handles.add(open), opened),
            Err(errno) => reply.error(errno),
        }
    }

    fn fallocate(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.empty(request, reply, |asked| files::allocate(asked, &*self.handles.get(handle)?, offset, length, mode));
    }

    fn lseek(&self, request: &Request, _: INodeNo, handle: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        match self.answer(request, |_| files::seek(&*self.handles.get(handle)?, offset, whence)) {
            Ok(offset) => reply.offset(offset),
            Err(errno) => reply.error(errno),
        }
    }

    /// The sandbox refuses it. Any other answer would have the kernel copy pages.
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
        reply.error(Errno::EINVAL);
    }
}
