//! The entity tag of a file: `"<node id>-<seq>"` in hexadecimal. The sequence number grows with every change in its space, so the
//! tag is strong, and the id keeps two files of one space apart.

use holdfast_drive::Node;
use std::fmt::Write;

/// The entity tag of a node's present version.
pub(crate) fn entity_tag_of(node: &Node) -> String {
    let mut out = String::with_capacity(24);
    push_entity_tag(&mut out, node);
    out
}

/// Appends the entity tag of a node's present version.
pub(crate) fn push_entity_tag(out: &mut String, node: &Node) {
    // Writing to a String cannot fail.
    let _ = write!(out, "\"{:x}-{:x}\"", node.id.0, node.seq);
}
