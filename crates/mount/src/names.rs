//! Names that are given and taken away: removals, renames, hard links.

use crate::attributes::now_ns;
use crate::core::{Core, HELD_MS};
use crate::errno::{Answer, Told, errno, new_name, old_name};
use crate::file::OpenFile;
use fuser::{Errno, INodeNo, RenameFlags};
use holdfast_base::{ErrorKind, NodeId, NodeName};
use holdfast_drive::{Durable, Entry, Leave, NewName, Rename, Taken, Unlink};
use std::ffi::OsStr;
use std::sync::Arc;

/// What was made less than this ago and is removed leaves no trace in the trash: programs make such files all the time.
const BRIEF_MS: i64 = 60 * 1_000;

impl Core {
    /// A member of a folder, if it is open.
    async fn open_member(&self, parent: NodeId, name: &NodeName) -> Answer<Option<Arc<OpenFile>>> {
        if !self.files.any() {
            return Ok(None);
        }
        let found = self.tree.lookup(parent, name).await.told()?;
        Ok(found.and_then(|entry| self.files.get(entry.number())))
    }

    pub(crate) async fn remove(&self, parent: INodeNo, name: &OsStr, folder: bool) -> Answer<()> {
        let (parent, name) = (self.node(parent), old_name(name)?);
        let open = if folder { None } else { self.open_member(parent, &name).await? };
        let unlink = Unlink { parent, name, folder, leave: leave(open.is_some()) };
        let removed = self.tree.unlink(unlink).await;
        self.unsettled(Durable::Soon);
        let node = removed.map_err(|error| match error.kind() {
            ErrorKind::WrongKind if folder => Errno::ENOTDIR,
            _ => errno(&error),
        })?;
        if let Some(file) = open.or_else(|| self.files.get(node)) {
            self.lost_a_name(&file).await;
        }
        Ok(())
    }

    /// Removes an empty file that was made here, and that nobody has a use for, if it is empty still.
    pub(crate) async fn unmake(&self, entry: &Entry) {
        let (Some(parent), Ok(name)) = (entry.node.parent, NodeName::new(&entry.node.name)) else { return };
        if !matches!(self.tree.entry(entry.number()).await, Ok(Some(there)) if there.node.content.is_none()) {
            return;
        }
        let removed = self.tree.unlink(Unlink { parent, name, folder: false, leave: leave(false) }).await;
        if let Err(error) = removed {
            tracing::warn!(?error, file = %entry.node.name, "an empty file is left that was to take what could not be saved");
        }
    }

    /// A file that is open lost a name; it may have others, also by another mount.
    async fn lost_a_name(&self, file: &OpenFile) {
        match self.tree.entry(file.id).await {
            Ok(Some(entry)) => file.renamed(&entry),
            Ok(None) => file.lost_its_name(),
            // If it has none any more, what is written to it goes beside where it was.
            Err(error) => tracing::warn!(?error, node = %file.id, "whether a file has other names is not known"),
        }
    }

    pub(crate) async fn rename(
        &self,
        (parent, name): (INodeNo, &OsStr),
        (new_parent, new): (INodeNo, &OsStr),
        flags: RenameFlags,
    ) -> Answer<()> {
        let taken = match flags {
            RenameFlags::RENAME_NOREPLACE => Taken::Refuse,
            RenameFlags::RENAME_EXCHANGE => Taken::Exchange,
            flags if flags.is_empty() => Taken::Replace,
            _ => return Err(Errno::EINVAL),
        };
        let (from, to) = ((self.node(parent), old_name(name)?), (self.node(new_parent), new_name(new)?));
        let is_open = taken == Taken::Replace && self.open_member(to.0, &to.1).await?.is_some();
        let rename = Rename { from, to, taken, leave: leave(is_open) };
        let done = self.tree.rename(rename).await;
        self.unsettled(Durable::Soon);
        let done = done.told()?;
        if let Some(file) = self.files.get(done.entry.number()) {
            file.renamed(&done.entry);
        }
        let other = done.other.and_then(|other| self.files.get(other.number()).map(|file| (file, other)));
        match other {
            Some((file, other)) if taken == Taken::Exchange => file.renamed(&other),
            Some((file, _)) => self.lost_a_name(&file).await,
            None => {}
        }
        Ok(())
    }

    /// Gives a file another name.
    pub(crate) async fn link(&self, ino: INodeNo, parent: INodeNo, name: &OsStr) -> Answer<Entry> {
        let (node, parent, name) = (self.node(ino), self.node(parent), new_name(name)?);
        let linked = self.tree.link(NewName { node, parent, name, now_ns: now_ns() }, self.usual).await;
        self.unsettled(Durable::Soon);
        let entry = linked.map_err(|error| match error.kind() {
            // Of folders, and where files have one name.
            ErrorKind::WrongKind | ErrorKind::Unsupported => Errno::EPERM,
            ErrorKind::TooLarge => Errno::EMLINK,
            _ => errno(&error),
        })?;
        if let Some(file) = self.files.get(entry.number()) {
            file.takes_attributes(&entry);
        }
        Ok(entry)
    }
}

/// What becomes of a node that loses its name now.
fn leave(is_open: bool) -> Leave {
    let now_ns = now_ns();
    let time_ms = now_ns.div_euclid(1_000_000);
    Leave { now_ns, held_until_ms: is_open.then_some(time_ms + HELD_MS), forget_after_ms: time_ms - BRIEF_MS }
}
