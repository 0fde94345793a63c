//! The names by which hits are shown: their own, as far as those differ.
//!
//! Of several hits of one name, that which was made first keeps it, so that no newcomer takes a name away from what a client has open. The others are
//! told apart by their row, which never changes: `name [17].ext`. Such a name goes on to lead to its file when that is the only one left.

use holdfast_base::NodeName;
use holdfast_drive::FoundNode;
use std::collections::HashSet;

/// A hit and what it is called in the smart folder.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    pub(crate) name: NodeName,
    pub(crate) found: FoundNode,
}

/// Hits in the order of the names they are shown by.
pub(super) fn told_apart(mut found: Vec<FoundNode>) -> Vec<Shown> {
    found.sort_by_key(|hit| hit.node.id);
    let mut taken: HashSet<NodeName> = HashSet::new();
    let (mut shown, mut others) = (Vec::with_capacity(found.len()), Vec::new());
    for found in found {
        // A hit is below a root, so it has a name.
        let Ok(name) = NodeName::new(&found.node.name) else { continue };
        if taken.insert(name.clone()) {
            shown.push(Shown { name, found });
        } else {
            others.push(Shown { name, found });
        }
    }
    for Shown { name, found } in others {
        let mut name = beside(&name, &found);
        while !taken.insert(name.clone()) {
            name = beside(&name, &found);
        }
        shown.push(Shown { name, found });
    }
    shown.sort_by(|one, other| one.name.cmp(&other.name));
    shown
}

/// The hit that this name leads to.
pub(super) fn find<'s>(shown: &'s [Shown], name: &NodeName) -> Option<&'s FoundNode> {
    let own = shown.iter().find(|hit| hit.name == *name);
    let by_row = || shown.iter().find(|hit| beside(&hit.name, &hit.found) == *name);
    own.or_else(by_row).map(|hit| &hit.found)
}

fn beside(name: &NodeName, found: &FoundNode) -> NodeName {
    name.marked(format_args!("[{}]", found.node.id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_base::{DrivePath, NodeId, SpaceId};
    use holdfast_drive::{Location, Node, NodeKind, Role};

    fn hit(id: i64, name: &str) -> FoundNode {
        let path = DrivePath::root().join(NodeName::new(name).expect("a name")).expect("a path");
        let node = Node {
            id: NodeId(id),
            space: SpaceId(1),
            parent: Some(NodeId(1)),
            name: name.into(),
            kind: NodeKind::File,
            content: None,
            size: 0,
            seq: 1,
            created_ms: 0,
            modified_ms: 0,
            has_properties: false,
        };
        FoundNode { at: Location { space: "ana".into(), path }, role: Role::Owner, node, tags: Vec::new() }
    }

    fn names(hits: &[(i64, &str)]) -> Vec<(String, i64)> {
        let shown = told_apart(hits.iter().map(|(id, name)| hit(*id, name)).collect());
        shown.into_iter().map(|hit| (hit.name.as_str().to_owned(), hit.found.node.id.0)).collect()
    }

    #[test]
    fn the_first_keeps_its_name_and_others_are_told_by_their_row() {
        let expected = [("a [7].txt".to_owned(), 7), ("a [9].txt".to_owned(), 9), ("a.txt".to_owned(), 3)];
        assert_eq!(names(&[(9, "a.txt"), (3, "a.txt"), (7, "a.txt")]), expected);
        assert_eq!(names(&[(7, "a.txt"), (3, "a.txt"), (9, "a.txt")]), expected, "whatever the order of hits");
    }

    #[test]
    fn a_file_that_is_called_like_that_keeps_its_name() {
        let shown = names(&[(1, "a"), (2, "a"), (3, "a [2]")]);
        assert_eq!(shown, [("a".to_owned(), 1), ("a [2]".to_owned(), 3), ("a [2] [2]".to_owned(), 2)]);
    }

    #[test]
    fn a_name_leads_on_when_its_file_is_the_only_one_left() {
        let name = |text: &str| NodeName::new(text).expect("a name");
        let find = |text: &str, hits: Vec<FoundNode>| find(&told_apart(hits), &name(text)).map(|hit| hit.node.id.0);
        assert_eq!(find("a [9].txt", vec![hit(3, "a.txt"), hit(9, "a.txt")]), Some(9));
        assert_eq!(find("a [9].txt", vec![hit(9, "a.txt")]), Some(9));
        assert_eq!(find("a [3].txt", vec![hit(9, "a.txt")]), None);
    }

    #[test]
    fn long_names_stay_names() {
        let long = "x".repeat(255);
        for (name, _) in names(&[(i64::MAX, &long), (1, &long)]) {
            assert!(NodeName::new(&name).is_ok());
        }
    }
}
