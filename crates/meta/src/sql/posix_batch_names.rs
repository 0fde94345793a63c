//! Removals and renames that a mount answered before they came here.
//!
//! They are about nodes and not about names: what others did meanwhile is never undone, and nothing of theirs is replaced.
//!
//! | what others did | a removal | a rename |
//! |---|---|---|
//! | removed the node | is done | is nothing any more |
//! | moved it | nothing: it stays where they put it | moves it from there |
//! | changed its content, made something in it | nothing: it stays as they have it | is made |
//! | put another node at the name, or changed what was there | nothing: that is another | goes beside, as `name (2)` |
//! | removed the folder | is done | leaves it where it is |
//!
//! Two nodes change places only if both are still where they were.

use super::bonds;
use super::chain::child;
use super::fault::Done;
use super::posix::by_id;
use super::posix_batch::Run;
use super::posix_move::{carry, has_members, leave};
use crate::types::{Applied, Entry, Node, NodeKind, Rename, Taken, Unlink};
use holdfast_base::{ContentId, Error, NodeId, NodeName};

impl Run<'_, '_> {
    pub(super) fn unlink(&mut self, unlink: &Unlink, node: NodeId, content: Option<ContentId>) -> Done<Applied> {
        if !self.find_place(unlink.parent)? {
            return Ok(Applied::Late);
        }
        let there = child(self.tx, unlink.parent.0, unlink.name.as_str())?;
        let Some(there) = there.filter(|there| there.id == node && there.content == content) else {
            return Ok(Applied::Late);
        };
        if has_members(self.tx, &there)? {
            return Ok(Applied::Late);
        }
        let end = self.end(unlink.parent, &unlink.name)?;
        let spot = end.found(self.tx, &mut self.state, Some(there), self.guard)?;
        leave(self.tx, &mut self.state, &spot, &unlink.leave, self.guard)?;
        self.places.remove(&node);
        self.touch(unlink.parent, unlink.leave.now_ns);
        self.state.next_seq_in([unlink.parent, node]);
        Ok(Applied::Gone(node))
    }

    pub(super) fn rename(
        &mut self,
        rename: &Rename,
        node: NodeId,
        other: Option<(NodeId, Option<ContentId>)>,
    ) -> Done<Applied> {
        // Where the node left a file that has other names, those are not meant.
        let there = by_id(self.tx, self.state.id, node)?.filter(|entry| entry.node.id == node);
        let Some(entry) = there else { return Ok(Applied::Late) };
        let Some(folder) = entry.node.parent else { return Ok(Applied::Late) };
        if !self.find_place(folder)? {
            return Ok(Applied::Late);
        }
        let (from, to) = ((folder, NodeName::new(&entry.node.name)?), &rename.to);
        if from == *to {
            return Ok(Applied::Made(entry));
        }
        if !self.find_place(to.0)? || self.is_below(to.0, node) {
            return Ok(Applied::Aside(entry));
        }
        let target = child(self.tx, to.0.0, to.1.as_str())?;
        if let Some(target) = &target
            && bonds::are_one(self.tx, &self.state, node, target.id)?
        {
            return Ok(Applied::Made(entry));
        }
        if rename.taken == Taken::Exchange {
            let expected = other.map(|(other, _)| other);
            let same = from == rename.from && target.as_ref().map(|target| target.id) == expected && target.is_some();
            if !same || expected.is_some_and(|other| self.is_below(from.0, other)) {
                return Ok(Applied::Aside(entry));
            }
            return self.carry(&from, to, (entry, target), rename).map(Applied::Made);
        }
        let is_free = match &target {
            None => true,
            Some(target) => {
                let same = other == Some((target.id, target.content)) && target.kind == entry.node.kind;
                same && !has_members(self.tx, target)?
            }
        };
        if is_free {
            return self.carry(&from, to, (entry, target), rename).map(Applied::Made);
        }
        let beside = (to.0, self.free_name(to.0, &to.1, 2)?.0);
        self.carry(&from, &beside, (entry, None), rename).map(Applied::Aside)
    }

    /// Whether a folder that was looked for is another one, or below it.
    fn is_below(&self, folder: NodeId, other: NodeId) -> bool {
        self.places.get(&folder).is_some_and(|place| place.above.contains(&other.0))
    }

    fn carry(
        &mut self,
        from: &(NodeId, NodeName),
        to: &(NodeId, NodeName),
        (entry, target): (Entry, Option<Node>),
        rename: &Rename,
    ) -> Done<Entry> {
        let (node, now_ns) = (entry.node.id, rename.leave.now_ns);
        let moves_folder = |node: &Node| node.kind == NodeKind::Folder;
        let any_folder = moves_folder(&entry.node) || target.as_ref().is_some_and(moves_folder);
        if any_folder {
            // Its own times are to be those of this.
            self.touch_all()?;
        }
        let (source, end) = (self.end(from.0, &from.1)?, self.end(to.0, &to.1)?);
        let source = source.found(self.tx, &mut self.state, Some(entry.node), self.guard)?;
        let target = end.found(self.tx, &mut self.state, target, self.guard)?;
        carry(self.tx, &mut self.state, (&source, &target), rename, self.guard)?;
        if any_folder {
            self.places.clear();
        }
        self.touch(from.0, now_ns);
        self.touch(to.0, now_ns);
        let missing = || Error::damaged("a node that was moved is not there; run holdfast check");
        Ok(by_id(self.tx, self.state.id, node)?.ok_or_else(missing)?)
    }
}
