//! Reading and changing the tree.

use super::stage::{Stage, inline, kind, path};
use crate::catalogue::{Catalogue, Expect};
use crate::types::{NodeKind, Property, PropertyChange};
use holdfast_base::limits::PROPERTIES_BYTES_MAX;
use holdfast_base::{ErrorKind, NodeId, NodeName, SpaceId};
use std::sync::Arc;

type Place = Arc<dyn Catalogue>;

pub async fn a_walk_answers_what_exists(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.folder("a").await;
    let file = stage.write("a/f", 5).await.node;
    let found = catalogue.find(stage.space, &path("a/f"), true).await.expect("reads");
    assert_eq!(found.chain.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["", "a", "f"]);
    assert_eq!(found.chain[1].parent, Some(found.chain[0].id));
    assert_eq!((found.chain[0].parent, found.node(&path("a/f"))), (None, Some(&file)));
    let found = catalogue.find(stage.space, &path("a/x/y"), true).await.expect("reads");
    assert_eq!((found.chain.len(), found.node(&path("a/x/y"))), (2, None));
    let found = catalogue.find(stage.space, &path("a/f/y"), true).await.expect("reads");
    assert_eq!((found.chain.len(), found.content, found.chain[2].kind), (3, None, NodeKind::File));
    assert_eq!(catalogue.find(stage.space, &path(""), true).await.expect("reads").chain.len(), 1);
    assert_eq!(kind(catalogue.find(SpaceId(999), &path("a"), true).await), ErrorKind::NotFound);
}

pub async fn a_file_is_no_folder(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.write("f", 5).await;
    stage.folder("d").await;
    for at in ["f/x", "no/x", "d/no/x"] {
        assert_eq!(kind(stage.try_write(at, 1, &stage.guard()).await), ErrorKind::Conflict, "{at}");
        let made = catalogue.make_folder(stage.space, &path(at), &stage.guard()).await;
        assert_eq!(kind(made), ErrorKind::Conflict, "{at}");
        assert_eq!(kind(stage.remove(at).await), ErrorKind::NotFound, "{at}");
    }
    assert_eq!(kind(stage.try_write("d", 1, &stage.guard()).await), ErrorKind::WrongKind);
    assert_eq!(kind(stage.try_write("", 1, &stage.guard()).await), ErrorKind::WrongKind);
}

pub async fn what_is_there_is_not_made_again(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.folder("d").await;
    stage.write("f", 1).await;
    for at in ["d", "f", ""] {
        let made = catalogue.make_folder(stage.space, &path(at), &stage.guard()).await;
        assert_eq!(kind(made), ErrorKind::AlreadyExists, "{at}");
    }
    let first = stage.node("f").await.expect("is there");
    let again = stage.write("f", 2).await;
    assert!(!again.created && again.node.id == first.id && again.node.created_ms == first.created_ms);
}

pub async fn expectations_are_tested_with_the_change(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let expecting = |expect| stage.expecting(expect);
    let failed = ErrorKind::PreconditionFailed;
    assert_eq!(kind(stage.try_write("f", 1, &expecting(Expect::Present)).await), failed);
    assert_eq!(kind(stage.try_write("f", 1, &expecting(Expect::Seq(1))).await), failed);
    let made = stage.try_write("f", 1, &expecting(Expect::Absent)).await.expect("is absent").node;
    assert_eq!(kind(stage.try_write("f", 1, &expecting(Expect::Absent)).await), failed);
    assert_eq!(kind(stage.try_write("f", 1, &expecting(Expect::Seq(made.seq + 1))).await), failed);
    let next = stage.try_write("f", 2, &expecting(Expect::Seq(made.seq))).await.expect("is as expected").node;
    let removed = catalogue.remove(stage.space, &path("f"), &expecting(Expect::Seq(made.seq))).await;
    assert_eq!(kind(removed), failed);
    let dated = [PropertyChange::Modified(7)];
    let refused = catalogue.change_properties(stage.space, &path("f"), &dated, &expecting(Expect::Seq(made.seq))).await;
    assert_eq!(kind(refused), failed);
    catalogue.remove(stage.space, &path("f"), &expecting(Expect::Seq(next.seq))).await.expect("is as expected");
    let removed = catalogue.remove(stage.space, &path("f"), &expecting(Expect::Present)).await;
    assert_eq!(kind(removed), failed);
}

pub async fn members_are_listed_in_byte_order_and_pages(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let folder = stage.folder("d").await;
    let mut names: Vec<String> =
        ["b", "B", "a", "é", "z", "\u{1f4be}", "a b", "_", "10", "9"].map(str::to_owned).to_vec();
    for name in &names {
        stage.write(&format!("d/{name}"), 1).await;
    }
    names.sort();
    let all = catalogue.children(folder.id, None, usize::MAX).await.expect("reads");
    assert_eq!(all.iter().map(|node| &node.name).collect::<Vec<_>>(), names.iter().collect::<Vec<_>>());
    let mut paged = Vec::new();
    let mut after: Option<NodeName> = None;
    loop {
        let page = catalogue.children(folder.id, after.as_ref(), 3).await.expect("reads");
        let Some(last) = page.last() else { break };
        after = Some(NodeName::new(&last.name).expect("a good name"));
        paged.extend(page);
    }
    assert_eq!(paged, all);
    assert!(catalogue.children(folder.id, None, 0).await.expect("reads").is_empty());
    assert!(catalogue.children(NodeId(999_999), None, 5).await.expect("reads").is_empty());
}

pub async fn nodes_below_are_counted_up_to_a_limit(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let top = stage.folder("d").await;
    for folder in ["d/a", "d/a/b", "d/c"] {
        stage.folder(folder).await;
        stage.write(&format!("{folder}/f"), 1).await;
    }
    assert_eq!(catalogue.count_below(top.id, 100).await.expect("counts"), 6);
    assert_eq!(catalogue.count_below(top.id, 4).await.expect("counts"), 4);
    assert_eq!(catalogue.count_below(NodeId(999_999), 4).await.expect("counts"), 0);
}

pub async fn a_change_counts_for_its_node_alone(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let folder = stage.folder("d").await;
    let one = stage.write("d/one", 1).await.node;
    let two = stage.write("d/two", 1).await.node;
    assert!(folder.seq < one.seq && one.seq < two.seq);
    let again = stage.write("d/one", 1).await.node;
    assert!(again.seq > two.seq);
    let moved = stage.relocate("d/two", "d/three", false).await.expect("moves").node;
    assert!(moved.seq > again.seq);
    assert_eq!(stage.node("d").await.expect("is there").seq, folder.seq);
    assert_eq!(catalogue.space(stage.space).await.expect("reads").expect("is there").seq, moved.seq);
}

fn property(name: &str, xml: &str) -> Property {
    Property { namespace: "urn:x".to_owned(), name: name.to_owned(), xml: xml.to_owned() }
}

pub async fn properties_change_in_order_or_not_at_all(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let file = stage.write("f", 1).await.node;
    let change = async |changes: &[PropertyChange]| {
        catalogue.change_properties(stage.space, &path("f"), changes, &stage.guard()).await
    };
    let set = |name: &str, xml: &str| PropertyChange::Set(property(name, xml));
    let remove = |name: &str| PropertyChange::Remove { namespace: "urn:x".to_owned(), name: name.to_owned() };
    let node =
        change(&[set("a", "<a>1</a>"), set("b", "<b/>"), remove("a"), set("a", "<a>2</a>"), remove("none")]).await;
    let node = node.expect("changes");
    assert!(node.has_properties && node.seq > file.seq);
    let read = async || catalogue.properties(&[NodeId(999_999), file.id]).await.expect("reads");
    assert_eq!(read().await, [(file.id, vec![property("a", "<a>2</a>"), property("b", "<b/>")])]);
    let large = "x".repeat(PROPERTIES_BYTES_MAX);
    assert_eq!(kind(change(&[remove("a"), set("c", &large)]).await), ErrorKind::TooLarge);
    assert_eq!(read().await.len(), 1);
    let node = change(&[PropertyChange::Modified(-5), remove("a"), remove("b")]).await.expect("changes");
    assert_eq!((node.modified_ms, node.has_properties), (-5, false));
    assert_eq!(stage.node("f").await, Some(node));
    assert!(read().await.is_empty());
    let root = catalogue.change_properties(stage.space, &path(""), &[set("a", "<a/>")], &stage.guard()).await;
    assert!(root.expect("the root has properties, too").has_properties);
}

pub async fn content_is_read_back(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let made = stage.write("f", 5).await.node;
    let found = catalogue.find(stage.space, &path("f"), true).await.expect("reads");
    let content = found.content.expect("has content");
    assert_eq!((Some(content.id), content.size, content.blocks), (made.content, 5, 0));
    assert_eq!((content.nonce, content.tag, content.inline.as_deref()), ([1; 16], [2; 16], Some(&[3; 40][..])));
    assert_eq!(catalogue.content(content.id).await.expect("reads"), Some(content.clone()));
    assert_eq!(catalogue.all_contents(None, 5).await.expect("reads"), std::slice::from_ref(&content));
    assert!(catalogue.all_contents(Some(content.id), 5).await.expect("reads").is_empty());
    assert!(catalogue.manifest_chunk(content.id, 0).await.expect("reads").is_none());
    let empty = catalogue.commit_file(stage.space, &path("f"), inline(0), 0, &stage.guard()).await;
    assert_eq!(empty.expect("commits").expect("misses nothing").node.content, None);
    assert!(catalogue.find(stage.space, &path("f"), true).await.expect("reads").content.is_none());
}

pub async fn the_root_stays(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.folder("d").await;
    assert_eq!(kind(stage.remove("").await), ErrorKind::Forbidden);
    assert_eq!(kind(stage.relocate("", "d/x", false).await), ErrorKind::Conflict);
    assert_eq!(kind(stage.relocate("d", "", true).await), ErrorKind::Forbidden);
    assert_eq!(kind(stage.copy("d", "", true).await), ErrorKind::Forbidden);
    catalogue.ping().await.expect("answers");
}
