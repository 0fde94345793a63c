//! What nodes are after a change, before anybody made it.

use super::view::{After, with_attributes};
use holdfast_base::{ContentId, NodeId, NodeName, SpaceId};
use holdfast_drive::{Deferred, Entry, NewContent, NewEntry, Node, NodeKind, Posix, Rename, Rewrite, Special, Taken};

/// What the nodes of a change are after it; none if there is nothing it could be made to. `there` is its node before it, and `other` what the change says
/// is the other.
pub(super) fn after(
    change: &Deferred,
    (there, other): (Option<Entry>, Option<Entry>),
    space: SpaceId,
) -> Option<Vec<After>> {
    match change {
        Deferred::Create { id, new, content_id } => Some(vec![(made(*id, new, *content_id, space), false)]),
        Deferred::Save { rewrite, content_id, at } => {
            let entry = there.unwrap_or_else(|| lost(rewrite.node, space, at));
            Some(vec![(saved(entry, rewrite, *content_id), false)])
        }
        Deferred::Attributes { change, usual, .. } => {
            let entry = there?;
            let posix = change.of(entry.attributes(usual));
            Some(vec![(with_attributes(entry, posix), false)])
        }
        Deferred::Unlink { .. } => Some(vec![(there?, true)]),
        Deferred::Rename { rename: Rename { from, to, taken, leave }, .. } => {
            let moved = moved(there?, to, leave.now_ns);
            let other = other.map(|other| match taken {
                Taken::Exchange => (self::moved(other, from, leave.now_ns), false),
                Taken::Replace | Taken::Refuse => (other, true),
            });
            Some([(moved, false)].into_iter().chain(other).collect())
        }
        Deferred::Passed { .. } => None,
    }
}

fn made(id: NodeId, new: &NewEntry, content_id: ContentId, space: SpaceId) -> Entry {
    let (content, size) = content_of(&new.content, content_id);
    let node = Node {
        id,
        space,
        parent: Some(new.parent),
        name: new.name.as_str().to_owned(),
        kind: new.kind,
        content,
        size,
        seq: 0,
        created_ms: new.posix.ctime_ns.div_euclid(1_000_000),
        modified_ms: new.posix.mtime_ns.div_euclid(1_000_000),
        has_properties: false,
    };
    Entry::new(node, Some(new.posix))
}

fn saved(mut entry: Entry, rewrite: &Rewrite, content_id: ContentId) -> Entry {
    (entry.node.content, entry.node.size) = content_of(&rewrite.content, content_id);
    let xattrs = entry.posix.map_or(0, |posix| posix.xattrs);
    with_attributes(entry, Posix { xattrs, special: Special::None, ..rewrite.posix })
}

const fn content_of(content: &NewContent, id: ContentId) -> (Option<ContentId>, u64) {
    match content {
        NewContent::Inline { size, .. } | NewContent::Blocks { size, .. } => (Some(id), *size),
        _ => (None, 0),
    }
}

/// By another name.
fn moved(mut entry: Entry, to: &(NodeId, NodeName), now_ns: i64) -> Entry {
    entry.node.parent = Some(to.0);
    to.1.as_str().clone_into(&mut entry.node.name);
    if let Some(posix) = &mut entry.posix {
        posix.ctime_ns = now_ns;
    }
    entry
}

/// A file that the catalogue does not have any more.
fn lost(id: NodeId, space: SpaceId, at: &(NodeId, NodeName)) -> Entry {
    let node = Node {
        id,
        space,
        parent: Some(at.0),
        name: at.1.as_str().to_owned(),
        kind: NodeKind::File,
        content: None,
        size: 0,
        seq: 0,
        created_ms: 0,
        modified_ms: 0,
        has_properties: false,
    };
    Entry::new(node, None)
}
