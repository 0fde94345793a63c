//! The entity tag of a file, as every HTTP face writes it.

use holdfast_drive::Node;

/// The entity tag of a node's present version.
pub(crate) fn entity_tag_of(node: &Node) -> String {
    holdfast_http::node_tag(node.id.0, node.seq)
}

/// Appends the entity tag of a node's present version.
pub(crate) fn push_entity_tag(out: &mut String, node: &Node) {
    holdfast_http::push_node_tag(out, node.id.0, node.seq);
}
