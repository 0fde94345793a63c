//! Recognising what was done by a try that got no answer.

use holdfast_drive::{Entry, NewName, NewNode, Posix, Save};

/// Whether two nodes were given their attributes by the same operation: its times are of one nanosecond on one machine.
fn same(one: &Posix, other: &Posix) -> bool {
    (one.mtime_ns, one.ctime_ns, one.uid, one.gid, one.special)
        == (other.mtime_ns, other.ctime_ns, other.uid, other.gid, other.special)
}

/// Whether this is what a create made.
pub(super) fn is_made(found: &Entry, new: &NewNode, size: u64) -> bool {
    found.node.kind == new.kind
        && found.node.size == size
        && found.posix.as_ref().is_some_and(|posix| same(posix, &new.posix))
}

/// Whether this is what a link made.
pub(super) fn is_linked(found: &Entry, link: &NewName) -> bool {
    let is_its = found.number() == link.node && found.names() > 1;
    is_its && found.posix.is_some_and(|posix| posix.ctime_ns == link.now_ns)
}

/// Whether this is what a save left.
pub(super) fn is_saved(found: &Entry, save: &Save) -> bool {
    (found.number() == save.node || found.node.id == save.node)
        && found.node.size == save.size
        && found.node.content != save.base
        && found.posix.as_ref().is_some_and(|posix| same(posix, &save.posix))
}
