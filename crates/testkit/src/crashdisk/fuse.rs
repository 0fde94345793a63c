//! Answers the kernel's requests from the state.
//!
//! The kernel's writeback cache stays off, so every `write(2)` is a request before it returns. Page
//! cache and mappings work (no direct I/O), locks are the kernel's own. `flush` is refused for good,
//! so that closing a file never waits for this process: a test that dies while it holds files of
//! its own mount could otherwise not exit.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use parking_lot::Mutex;

use super::control::{Disk, Shared};
use super::fault::{Action, OpKind};
use super::file::{FileData, PAGE_BYTES};
use super::state::{Ino, Inode, Node, Owner, State};

/// How long the kernel may believe names and attributes. Only the kernel changes this disk, so: long.
const TTL: Duration = Duration::from_hours(1);
/// Longest name, for `statfs`.
const NAME_BYTES: u32 = 255;

type Listing = Arc<Vec<(Ino, FileType, OsString)>>;

/// The FUSE file system.
#[derive(Debug)]
pub(crate) struct Server {
    shared: Arc<Shared>,
    listings: Mutex<(u64, HashMap<u64, Listing>)>,
}

/// What an operation works on, for counting and faults.
enum At<'a> {
    Inode(Ino),
    Entry(Ino, &'a OsStr),
}

impl Server {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, listings: Mutex::default() }
    }

    /// Looks at the state while the power is on.
    fn look<T>(&self, work: impl FnOnce(&mut Disk) -> Result<T, Errno>) -> Result<T, Errno> {
        let mut disk = self.shared.disk.lock();
        if disk.powered_off {
            return Err(Errno::EIO);
        }
        work(&mut disk)
    }

    /// Counts an operation and lets faults act on it. True asks for a short write.
    fn meet(&self, kind: OpKind, at: &At<'_>) -> Result<bool, Errno> {
        let action = self.look(|disk| {
            let Disk { state, faults, .. } = disk;
            Ok(faults.meet(kind, || match *at {
                At::Inode(ino) => state.path_of(ino),
                At::Entry(parent, name) => state.path_of(parent).join(name),
            }))
        })?;
        match action {
            None => Ok(false),
            Some(Action::WriteHalf) => Ok(true),
            Some(Action::Delay(time)) => {
                std::thread::sleep(time);
                Ok(false)
            }
            Some(Action::Fail(errno)) => {
                if let (OpKind::Sync, At::Inode(ino)) = (kind, at) {
                    self.shared.disk.lock().state.fail_sync(*ino);
                }
                Err(Errno::from_i32(errno))
            }
            Some(Action::CutPower) => {
                self.shared.disk.lock().powered_off = true;
                self.shared.power.notify_all();
                Err(Errno::EIO)
            }
        }
    }

    /// Counts, lets faults act, then works on the state.
    fn act<T>(&self, kind: OpKind, at: &At<'_>, work: impl FnOnce(&mut State) -> Result<T, Errno>) -> Result<T, Errno> {
        self.meet(kind, at)?;
        self.look(|disk| work(&mut disk.state))
    }

    /// Makes an inode and hands it to the kernel.
    fn make(
        &self,
        kind: OpKind,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        node: Node,
        perm: u32,
    ) -> Result<FileAttr, Errno> {
        let owner = Owner { uid: request.uid(), gid: request.gid(), perm: (perm & 0o7777) as u16 };
        self.act(kind, &At::Entry(parent.0, name), |state| {
            let ino = state.create(parent.0, name, node, owner)?;
            state.remember(ino);
            attributes(state, ino)
        })
    }

    fn write_at(&self, ino: Ino, offset: u64, data: &[u8], synced: bool) -> Result<u32, Errno> {
        let short = self.meet(OpKind::Write, &At::Inode(ino))?;
        let data = if short { &data[..data.len() / 2] } else { data };
        self.look(|disk| disk.state.write(ino, offset, data))?;
        if synced {
            self.act(OpKind::Sync, &At::Inode(ino), |s| s.sync_file(ino, true))?;
        }
        Ok(data.len() as u32)
    }
}

fn kind_of(inode: &Inode) -> FileType {
    match inode.node {
        Node::File(_) => FileType::RegularFile,
        Node::Folder(_) => FileType::Directory,
        Node::Link(_) => FileType::Symlink,
    }
}

fn attributes(state: &State, ino: Ino) -> Result<FileAttr, Errno> {
    let inode = state.inode(ino)?;
    let (size, pages) = match &inode.node {
        Node::File(file) => (file.size(), file.page_count()),
        Node::Folder(_) => (PAGE_BYTES, 1),
        Node::Link(target) => (target.as_os_str().len() as u64, 0),
    };
    Ok(FileAttr {
        ino: INodeNo(ino),
        size,
        blocks: pages * PAGE_BYTES / 512,
        atime: inode.accessed,
        mtime: inode.modified,
        ctime: inode.changed,
        crtime: inode.changed,
        kind: kind_of(inode),
        perm: inode.owner.perm,
        // A folder's own "." counts, as on ext4.
        nlink: inode.links + u32::from(matches!(inode.node, Node::Folder(_))),
        uid: inode.owner.uid,
        gid: inode.owner.gid,
        rdev: 0,
        blksize: PAGE_BYTES as u32,
        flags: 0,
    })
}

fn list(state: &State, ino: Ino) -> Result<Listing, Errno> {
    let mut listing =
        vec![(ino, FileType::Directory, OsString::from(".")), (ino, FileType::Directory, OsString::from(".."))];
    for (name, &child) in &state.folder(ino)?.entries {
        listing.push((child, kind_of(state.inode(child)?), name.clone()));
    }
    Ok(Arc::new(listing))
}

fn moment(time: TimeOrNow) -> SystemTime {
    match time {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => SystemTime::now(),
    }
}

/// Answers an empty reply.
fn finish(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

/// Answers with an entry.
fn enter(reply: ReplyEntry, result: Result<FileAttr, Errno>) {
    match result {
        Ok(attr) => reply.entry(&TTL, &attr, Generation(0)),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Server {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.look(|disk| {
            let ino = disk.state.find(parent.0, name)?;
            disk.state.remember(ino);
            attributes(&disk.state, ino)
        });
        enter(reply, found);
    }

    fn forget(&self, _: &Request, ino: INodeNo, lookups: u64) {
        self.shared.disk.lock().state.forget(ino.0, lookups);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.look(|disk| attributes(&disk.state, ino.0)) {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let resized =
            size.map_or(Ok(()), |size| self.act(OpKind::Truncate, &At::Inode(ino.0), |s| s.set_size(ino.0, size)));
        let changed = resized.and_then(|()| {
            self.look(|disk| {
                let inode = disk.state.inode_mut(ino.0)?;
                inode.owner.perm = mode.map_or(inode.owner.perm, |m| (m & 0o7777) as u16);
                inode.owner.uid = uid.unwrap_or(inode.owner.uid);
                inode.owner.gid = gid.unwrap_or(inode.owner.gid);
                inode.accessed = accessed.map_or(inode.accessed, moment);
                inode.modified = modified.map_or(inode.modified, moment);
                inode.changed = SystemTime::now();
                attributes(&disk.state, ino.0)
            })
        });
        match changed {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let target = self.look(|disk| match &disk.state.inode(ino.0)?.node {
            Node::Link(target) => Ok(target.clone()),
            _ => Err(Errno::EINVAL),
        });
        match target {
            Ok(target) => reply.data(target.as_os_str().as_encoded_bytes()),
            Err(error) => reply.error(error),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        if mode & libc::S_IFMT != libc::S_IFREG {
            return reply.error(Errno::EPERM);
        }
        let node = Node::File(FileData::default());
        let at = (parent, name);
        enter(reply, self.make(OpKind::Create, request, at, node, mode & !umask));
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        let node = Node::Folder(Box::default());
        let at = (parent, name);
        enter(reply, self.make(OpKind::Mkdir, request, at, node, mode & !umask));
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let node = Node::Link(target.to_owned());
        enter(reply, self.make(OpKind::Link, request, (parent, name), node, 0o777));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let at = At::Entry(parent.0, name);
        finish(reply, self.act(OpKind::Unlink, &at, |s| s.unlink(parent.0, name)));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let at = At::Entry(parent.0, name);
        finish(reply, self.act(OpKind::Rmdir, &at, |s| s.rmdir(parent.0, name)));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let at = At::Entry(parent.0, name);
        let renamed =
            self.act(OpKind::Rename, &at, |state| state.rename((parent.0, name), (new_parent.0, new_name), flags));
        finish(reply, renamed);
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let linked = self.act(OpKind::Link, &At::Entry(parent.0, name), |state| {
            state.link(ino.0, parent.0, name)?;
            state.remember(ino.0);
            attributes(state, ino.0)
        });
        enter(reply, linked);
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let opened = self.act(OpKind::Open, &At::Inode(ino.0), |s| s.file(ino.0).map(|_| ()));
        match opened {
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::FOPEN_NOFLUSH),
            Err(error) => reply.error(error),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let node = Node::File(FileData::default());
        match self.make(OpKind::Create, request, (parent, name), node, mode & !umask) {
            Ok(attr) => reply.created(&TTL, &attr, Generation(0), FileHandle(0), FopenFlags::FOPEN_NOFLUSH),
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read =
            self.act(OpKind::Read, &At::Inode(ino.0), |state| Ok(state.file(ino.0)?.read(offset, u64::from(size))));
        match read {
            Ok(data) => reply.data(&data),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // O_SYNC contains the bit of O_DSYNC.
        let synced = flags.0 & libc::O_DSYNC != 0;
        match self.write_at(ino.0, offset, data, synced) {
            Ok(written) => reply.written(written),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // The kernel takes this answer as "never ask again".
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, data: bool, reply: ReplyEmpty) {
        let at = At::Inode(ino.0);
        finish(reply, self.act(OpKind::Sync, &at, |s| s.sync_file(ino.0, data)));
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let range = offset..offset.saturating_add(length);
        let keep_size = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        let done = self.act(OpKind::Allocate, &At::Inode(ino.0), |state| match mode & !libc::FALLOC_FL_KEEP_SIZE {
            0 => state.allocate(ino.0, range, keep_size),
            libc::FALLOC_FL_PUNCH_HOLE if keep_size => state.zero(ino.0, range),
            libc::FALLOC_FL_ZERO_RANGE => {
                state.zero(ino.0, range.clone())?;
                state.allocate(ino.0, range, keep_size)
            }
            _ => Err(Errno::EOPNOTSUPP),
        });
        finish(reply, done);
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.look(|disk| list(&disk.state, ino.0)) {
            Ok(listing) => {
                let mut listings = self.listings.lock();
                listings.0 += 1;
                let handle = listings.0;
                listings.1.insert(handle, listing);
                reply.opened(FileHandle(handle), FopenFlags::empty());
            }
            Err(error) => reply.error(error),
        }
    }

    fn readdir(&self, _: &Request, ino: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        // A rewound handle lists anew, as POSIX asks of rewinddir.
        let listing = match offset {
            0 => self.look(|disk| list(&disk.state, ino.0)),
            _ => self.listings.lock().1.get(&handle.0).cloned().ok_or(Errno::EBADF),
        };
        let listing = match listing {
            Ok(listing) => listing,
            Err(error) => return reply.error(error),
        };
        if offset == 0 {
            self.listings.lock().1.insert(handle.0, Arc::clone(&listing));
        }
        for (at, (ino, kind, name)) in listing.iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(*ino), at as u64 + 1, *kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.listings.lock().1.remove(&handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let at = At::Inode(ino.0);
        finish(reply, self.act(OpKind::SyncFolder, &at, |s| s.sync_folder(ino.0)));
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let figures = self.look(|disk| {
            let state = &disk.state;
            let (total, used) = (state.config.max_inodes, state.inodes.len());
            let inodes = (total as u64, total.saturating_sub(used) as u64);
            Ok((state.total_pages(), state.free_pages(), inodes))
        });
        let page = PAGE_BYTES as u32;
        match figures {
            Ok((total, free, (inodes, free_inodes))) => {
                reply.statfs(total, free, free, inodes, free_inodes, page, NAME_BYTES, page);
            }
            Err(error) => reply.error(error),
        }
    }
}
