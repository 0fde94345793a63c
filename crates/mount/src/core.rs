//! What requests mean: names, attributes, opening and closing.

use crate::attributes::{attributes, now_ns, without_privileges};
use crate::belief::Belief;
use crate::early::Early;
use crate::errno::{Answer, Told, errno, new_name, old_name};
use crate::file::OpenFile;
use crate::files::{Files, Handle};
use crate::folder::Folders;
use crate::inherited::Inherited;
use crate::known::{Found, Known};
use crate::locks::Locks;
use crate::meter::Meter;
use crate::overlay::Room;
use bytes::Bytes;
use fuser::{Errno, FileAttr, INodeNo, Notifier};
use holdfast_base::{ByteRange, ContentId, Error, ErrorKind, NodeId, Result};
use holdfast_drive::{Durable, Entry, NewAttributes, NewNode, NodeKind, Posix, Special, Tree, XattrRule};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// What the root is called, whatever its number.
const ROOT: u64 = 1;
/// A file without a name is held this long after the last word of its mount; the mount says so every third of it.
pub(crate) const HELD_MS: i64 = 15 * 60 * 1_000;
/// Longest target of a link (`PATH_MAX` without its end).
const TARGET_BYTES_MAX: usize = 4_095;

/// What the requests of one mount share.
pub(crate) struct Core {
    pub(crate) tree: Arc<dyn Tree>,
    pub(crate) files: Files,
    pub(crate) folders: Folders,
    pub(crate) room: Room,
    pub(crate) early: Arc<Early>,
    pub(crate) meter: Arc<Meter>,
    /// Attributes of what has none.
    pub(crate) usual: Posix,
    root: NodeId,
    inherited: Inherited,
    unsettled: AtomicBool,
    settling: tokio::sync::Mutex<()>,
    /// Which contents have holes, of those that are large enough.
    pub(crate) sparse: Mutex<HashMap<ContentId, bool>>,
    /// What the kernel has of files.
    pub(crate) known: Arc<Known>,
    /// How long it believes names and attributes.
    pub(crate) belief: Arc<Belief>,
    /// Locks that hold over all mounts; without, the kernel has them.
    pub(crate) locks: Option<Locks>,
    /// By what the kernel is told to forget, once it is mounted.
    pub(crate) notifier: OnceLock<Notifier>,
}

/// Attributes, as they are shown.
pub(crate) struct Shown {
    pub(crate) attributes: FileAttr,
    /// Whether they are those of an open file, which are what it was when it was last looked at.
    pub(crate) open: bool,
}

/// A file that was opened.
pub(crate) struct Opened {
    pub(crate) handle: u64,
    pub(crate) file: Arc<OpenFile>,
    /// What the kernel has of it is what it is; else it [has to forget](Core::has_only) before it goes on.
    pub(crate) is_known: bool,
    pub(crate) xattrs: u32,
}

/// Who asks, and what for a new node is to have.
#[derive(Clone, Copy)]
pub(crate) struct Maker {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mode: u32,
    pub(crate) rdev: u32,
}

impl Core {
    /// With names and attributes that the kernel believes for so long, or longer if somebody [keeps](Belief::keep) what it believes.
    pub(crate) fn new(tree: Arc<dyn Tree>, usual: Posix, room: Room, (believed, is_kept): (Duration, bool)) -> Self {
        let known = Arc::<Known>::default();
        Self {
            belief: Arc::new(Belief::new(tree.clone(), known.clone(), believed, is_kept)),
            known,
            root: tree.root(),
            locks: tree.locking().map(Locks::new),
            tree,
            files: Files::new(),
            folders: Folders::default(),
            room,
            early: Arc::default(),
            meter: Arc::new(Meter::new()),
            usual,
            inherited: Inherited::default(),
            unsettled: AtomicBool::new(false),
            settling: tokio::sync::Mutex::default(),
            sparse: Mutex::default(),
            notifier: OnceLock::new(),
        }
    }

    /// The node of an inode number: what a file of several names is known by is the number of the file.
    pub(crate) fn node(&self, ino: INodeNo) -> NodeId {
        if ino.0 == ROOT { self.root } else { NodeId(i64::try_from(ino.0).unwrap_or(0)) }
    }

    /// The inode number of a node.
    pub(crate) fn ino(&self, node: NodeId) -> INodeNo {
        INodeNo(if node == self.root { ROOT } else { node.0.unsigned_abs() })
    }

    /// Attributes of a node as they are shown: of one that is open, with what is not saved yet.
    pub(crate) fn shown(&self, entry: &Entry) -> Shown {
        let number = entry.number();
        if let Some(file) = self.files.get(number) {
            return Shown { attributes: self.shown_open(&file), open: true };
        }
        let attributes = attributes(entry, self.ino(number), &self.usual, entry.names(), self.is_sparse(entry));
        if entry.node.kind == NodeKind::File {
            self.known.tells(attributes.ino, entry.node.content);
        }
        Shown { attributes, open: false }
    }

    fn shown_open(&self, file: &OpenFile) -> FileAttr {
        let shown = file.shown();
        let (sparse, names) = (self.is_sparse(&shown.entry), if shown.unnamed { 0 } else { shown.entry.names() });
        let ino = self.ino(file.id);
        self.known.tells(ino, shown.entry.node.content);
        attributes(&shown.entry, ino, &self.usual, names, sparse)
    }

    /// Notes that something was answered that is not on disk.
    pub(crate) fn unsettled(&self, durable: Durable) {
        if durable == Durable::Soon {
            self.unsettled.store(true, Ordering::Release);
        }
    }

    /// Has everything that was answered on disk.
    pub(crate) async fn settle(&self) -> Result<()> {
        // Whoever finds nothing to be done must not be quicker than who does it.
        let _one = self.settling.lock().await;
        if self.unsettled.swap(false, Ordering::AcqRel) {
            let settled = self.tree.settle().await;
            return settled.inspect_err(|_| self.unsettled(Durable::Soon));
        }
        Ok(())
    }

    /// Has an open file be what the drive says it is, unless something waits to be saved.
    pub(crate) async fn look_at(&self, file: &OpenFile) -> Result<()> {
        loop {
            let version = file.version();
            let Some(entry) = self.tree.entry(file.id).await? else { return Ok(()) };
            if file.refresh(self, &entry, version) {
                return Ok(());
            }
        }
    }

    pub(crate) async fn entry(&self, node: NodeId) -> Answer<Entry> {
        self.tree.entry(node).await.told()?.ok_or(Errno::ESTALE)
    }

    pub(crate) async fn lookup(&self, parent: INodeNo, name: &OsStr) -> Answer<Shown> {
        let found = self.tree.lookup(self.node(parent), &old_name(name)?).await.told()?.ok_or(Errno::ENOENT)?;
        self.look_for_holes(&found).await;
        Ok(self.shown(&found))
    }

    pub(crate) async fn attributes_of(&self, ino: INodeNo) -> Answer<Shown> {
        let node = self.node(ino);
        if let Some(file) = self.files.get(node) {
            self.look_for_holes(&file.shown().entry).await;
            return Ok(Shown { attributes: self.shown_open(&file), open: true });
        }
        let entry = self.entry(node).await?;
        self.look_for_holes(&entry).await;
        Ok(self.shown(&entry))
    }

    /// Makes a node; in a folder with set-group-id, of that folder's group.
    pub(crate) async fn make(
        &self,
        parent: INodeNo,
        name: &OsStr,
        maker: Maker,
        (kind, special, content): (NodeKind, Special, Bytes),
    ) -> Answer<Entry> {
        let (parent, name) = (self.node(parent), new_name(name)?);
        let group = self.inherited.group(self, parent).await?;
        let gid = group.unwrap_or(maker.gid);
        let mode = maker.mode & 0o7777 | if group.is_some() && kind == NodeKind::Folder { 0o2000 } else { 0 };
        let posix = Posix { special, mode, uid: maker.uid, gid, rdev: maker.rdev, ..Posix::default() };
        let new = NewNode { parent, name, kind, posix: posix.at(now_ns()) };
        let created = self.tree.create(new, content, Durable::Soon).await;
        self.unsettled(Durable::Soon);
        created.map_err(|error| if error.kind() == ErrorKind::WrongKind { Errno::ENOTDIR } else { errno(&error) })
    }

    pub(crate) async fn make_link(&self, parent: INodeNo, name: &OsStr, maker: Maker, target: &[u8]) -> Answer<Entry> {
        if target.is_empty() {
            return Err(Errno::ENOENT);
        }
        if target.len() > TARGET_BYTES_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        let what = (NodeKind::File, Special::Link, Bytes::copy_from_slice(target));
        self.make(parent, name, maker, what).await
    }

    pub(crate) async fn read_link(&self, ino: INodeNo) -> Answer<Vec<u8>> {
        let entry = self.entry(self.node(ino)).await?;
        let is_link = entry.posix.is_some_and(|posix| posix.special == Special::Link);
        let content = entry.node.content.filter(|_| is_link).ok_or(Errno::EINVAL)?;
        let target = self.tree.open(content).await.told()?;
        target.read(ByteRange::whole(target.size())).await.told()
    }

    pub(crate) async fn open(&self, ino: INodeNo, flags: i32, uid: u32) -> Answer<Opened> {
        let node = self.node(ino);
        let before = self.files.get(node).map(|file| (file.version(), file));
        let entry = match before.as_ref().map(|(_, file)| file.shown()).filter(|shown| shown.unnamed) {
            Some(shown) => shown.entry,
            None => self.tree.entry_to_open(node).await.told()?.ok_or(Errno::ESTALE)?,
        };
        // To cut a file off is to write to it, whatever it was opened for besides.
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY || flags & libc::O_TRUNC != 0;
        let (file, known) = self.files.take(self, &entry);
        let handle = self.files.add(Handle::new(file.clone(), writes));
        // Whoever got a lock of it meanwhile knows it better.
        let is_it = |(version, before): (u64, Arc<OpenFile>)| {
            Arc::ptr_eq(&before, &file) && file.refresh(self, &entry, version)
        };
        let is_taken = !known || before.is_some_and(is_it);
        if !is_taken && let Err(error) = self.look_at(&file).await.told() {
            self.close(handle).await;
            return Err(error);
        }
        if flags & libc::O_TRUNC != 0 {
            let cut = file.truncate(self, 0, uid != 0).await.told();
            if let Err(error) = cut {
                self.close(handle).await;
                return Err(error);
            }
        }
        let entry = file.shown().entry;
        let is_known = self.known.find(ino, entry.node.content) != Found::Other;
        if is_known {
            self.known.has_only(ino, entry.node.content);
        }
        Ok(Opened { handle, file, is_known, xattrs: entry.attributes(&self.usual).xattrs })
    }

    /// Makes a file and opens it.
    pub(crate) async fn create(
        &self,
        parent: INodeNo,
        name: &OsStr,
        maker: Maker,
        flags: i32,
    ) -> Answer<(FileAttr, u64)> {
        let what = (NodeKind::File, Special::None, Bytes::new());
        let entry = self.make(parent, name, maker, what).await?;
        let (file, _) = self.files.take(self, &entry);
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
        let handle = self.files.add(Handle::new(file.clone(), writes));
        self.known.has_only(self.ino(file.id), entry.node.content);
        Ok((self.shown_open(&file), handle))
    }

    /// Whether nothing waits for a handle's going: no content to be saved, no name that is lost, no locks.
    pub(crate) fn is_quick_to_release(&self, number: u64) -> bool {
        let Some(Handle { file, .. }) = self.files.handle(number) else { return true };
        file.is_saved() && !self.locks.as_ref().is_some_and(|locks| locks.knows(file.id))
    }

    /// A handle goes, and locks with it.
    pub(crate) async fn release(self: &Arc<Self>, number: u64) {
        let node = self.files.handle(number).map(|handle| handle.file.id);
        // Whoever gets the lock next sees what was written under it.
        if let Some(node) = node
            && self.locks.as_ref().is_some_and(|locks| locks.knows(node))
        {
            crate::locks::closed(self, node, number).await;
        }
        self.close(number).await;
        if let Some(node) = node.filter(|node| self.files.get(*node).is_none()) {
            crate::locks::unused(self, node);
        }
    }

    /// A handle goes. What is not saved yet was refused at the flush before: it is tried once more, and then it is lost and logged.
    pub(crate) async fn close(&self, number: u64) {
        let Some(handle) = self.files.remove(number) else { return };
        let file = handle.file;
        if let Err(error) = file.save_if_done(self).await {
            tracing::error!(?error, node = %file.id, "what was written to a file could not be saved, and its program was told");
        }
        if self.files.give(file.id) && file.shown().unnamed {
            if let Err(error) = self.tree.let_go(file.id).await {
                tracing::warn!(?error, "a file without a name stays until its time has passed");
            }
            self.unsettled(Durable::Soon);
        }
    }

    /// Locks that hold over all mounts.
    pub(crate) fn locking(&self) -> Result<&Locks> {
        self.locks.as_ref().ok_or_else(|| Error::new(ErrorKind::Unsupported, "locks are the kernel's here"))
    }

    /// A handle; one through which locks were taken that are lost is good for nothing.
    pub(crate) fn handle(&self, number: u64) -> Answer<Handle> {
        if self.locks.as_ref().is_some_and(|locks| locks.is_lost(number)) {
            return Err(Errno::EIO);
        }
        self.files.handle(number).ok_or(Errno::EBADF)
    }

    /// Changes the size of a file, which nobody need have open.
    pub(crate) async fn resize(&self, ino: INodeNo, size: u64, clear: bool) -> Answer<()> {
        let node = self.node(ino);
        let entry = match self.files.get(node) {
            Some(file) => file.shown().entry,
            None => self.entry(node).await?,
        };
        if entry.node.kind != NodeKind::File {
            return Err(Errno::EISDIR);
        }
        let (file, _) = self.files.take(self, &entry);
        let mut done = file.truncate(self, size, clear).await.map_err(|error| too_large(&error));
        if done.is_ok() {
            done = file.save_if_done(self).await.told();
        }
        self.files.give(file.id);
        done
    }

    pub(crate) async fn set_attributes(&self, ino: INodeNo, mut change: NewAttributes) -> Answer<()> {
        let node = self.node(ino);
        let file = self.files.get(node);
        if (change.uid.is_some() || change.gid.is_some()) && change.mode.is_none() {
            let entry = match &file {
                Some(file) => file.shown().entry,
                None => self.entry(node).await?,
            };
            if entry.node.kind == NodeKind::File {
                change.mode = Some(without_privileges(entry.attributes(&self.usual).mode));
            }
        }
        match file {
            Some(file) => file.set_attributes(self, change).await.told(),
            None => self.set_attributes_now(node, change).await.map(drop).told(),
        }
    }

    pub(crate) async fn set_attributes_now(&self, node: NodeId, change: NewAttributes) -> Result<Entry> {
        self.inherited.forget();
        let done = self.tree.set_attributes(node, change, self.usual).await;
        self.inherited.forget();
        self.unsettled(Durable::Soon);
        done
    }

    /// A value of an extended attribute.
    pub(crate) async fn xattr(&self, ino: INodeNo, name: &OsStr) -> Answer<Vec<u8>> {
        let name = xattr_name(name)?;
        let all = self.all_xattrs(ino).await?;
        all.into_iter().find(|(other, _)| *other == name).map(|(_, value)| value).ok_or(Errno::ENODATA)
    }

    /// The names of all, each with a zero behind it.
    pub(crate) async fn xattr_names(&self, ino: INodeNo) -> Answer<Vec<u8>> {
        let all = self.all_xattrs(ino).await?;
        Ok(all.iter().flat_map(|(name, _)| name.bytes().chain([0])).collect())
    }

    async fn all_xattrs(&self, ino: INodeNo) -> Answer<Vec<(String, Vec<u8>)>> {
        let node = self.node(ino);
        let posix = match self.files.get(node) {
            Some(file) => file.shown().entry.posix,
            None => self.entry(node).await?.posix,
        };
        if posix.is_none_or(|posix| posix.xattrs == 0) {
            return Ok(Vec::new());
        }
        self.tree.xattrs(node).await.told()
    }

    pub(crate) async fn set_xattr(
        &self,
        ino: INodeNo,
        name: &OsStr,
        value: Option<Vec<u8>>,
        rule: XattrRule,
    ) -> Answer<()> {
        let node = self.node(ino);
        let change = (xattr_name(name)?, value, rule);
        let done = self.tree.set_xattr(node, change, (self.usual, now_ns())).await;
        self.unsettled(Durable::Soon);
        let entry = done.map_err(|error| match error.kind() {
            ErrorKind::NotFound => Errno::ENODATA,
            ErrorKind::TooLarge => Errno::ENOSPC,
            _ => errno(&error),
        })?;
        if let Some(file) = self.files.get(node) {
            file.takes_attributes(&entry);
        }
        Ok(())
    }

    /// Whether files that lost their name here, by removals that were handed over since, have got another elsewhere.
    async fn look_for_names(&self, lost: Vec<Arc<OpenFile>>) {
        for file in lost {
            let before = file.shown();
            match self.tree.entry(file.id).await {
                Ok(Some(entry)) => file.has_a_name(&before.entry, &entry),
                Ok(None) => file.has_no_name(),
                Err(_) => {}
            }
        }
    }

    /// Every second: what was answered gets to the disk, and files without a name are held on.
    pub(crate) async fn tick(&self, hold: bool) {
        let lost = self.files.all().into_iter().filter(|file| file.may_have_a_name()).collect();
        match self.settle().await {
            Ok(()) => self.look_for_names(lost).await,
            Err(error) => tracing::warn!(?error, "what was answered is not on disk yet"),
        }
        if !hold {
            return;
        }
        let unnamed: Vec<NodeId> =
            self.files.all().iter().filter(|file| file.shown().unnamed).map(|file| file.id).collect();
        if !unnamed.is_empty()
            && let Err(error) = self.tree.hold(unnamed, now_ns().div_euclid(1_000_000) + HELD_MS).await
        {
            tracing::warn!(?error, "files without a name could not be held on");
        }
    }

    /// Saves every open file, and has all of it on disk; the end of a mount.
    pub(crate) async fn save_all(&self) {
        for file in self.files.all() {
            if let Err(error) = file.save(self, Durable::Soon).await {
                tracing::error!(?error, node = %file.id, "a file that was still open could not be saved");
            }
        }
        self.tick(false).await;
    }
}

/// A size that no file can have.
pub(crate) fn too_large(error: &holdfast_base::Error) -> Errno {
    if error.kind() == ErrorKind::TooLarge { Errno::EFBIG } else { errno(error) }
}

/// Names of extended attributes that are kept. Access lists are not: nobody would enforce them.
fn xattr_name(name: &OsStr) -> Answer<String> {
    let name = name.to_str().ok_or(Errno::EILSEQ)?;
    let kept = ["user.", "trusted.", "security."].iter().any(|space| name.starts_with(space));
    if kept { Ok(name.to_owned()) } else { Err(Errno::EOPNOTSUPP) }
}
