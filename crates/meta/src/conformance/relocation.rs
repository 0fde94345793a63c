//! Moving and copying.

use super::stage::{Stage, kind, path};
use crate::catalogue::{Catalogue, Expect, Relocation};
use crate::types::{Property, PropertyChange};
use holdfast_base::ErrorKind;
use std::sync::Arc;

type Place = Arc<dyn Catalogue>;

async fn tag(stage: &Stage, at: &str) {
    let property = Property { namespace: String::new(), name: "p".to_owned(), xml: "<p/>".to_owned() };
    let changes = [PropertyChange::Set(property)];
    stage.catalogue.change_properties(stage.space, &path(at), &changes, &stage.guard()).await.expect("tags");
}

pub async fn a_move_keeps_what_a_node_is(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.folder("a").await;
    stage.folder("b").await;
    stage.write("a/f", 10).await;
    stage.write("a/f", 20).await;
    tag(&stage, "a/f").await;
    let before = stage.node("a/f").await.expect("is there");
    let moved = stage.relocate("a/f", "b/g", false).await.expect("moves");
    assert!(moved.created && moved.node.id == before.id && moved.node.has_properties);
    assert_eq!(moved.node.modified_ms, before.modified_ms);
    assert_eq!(stage.node("b/g").await, Some(moved.node));
    assert_eq!(catalogue.versions(before.id).await.expect("reads").len(), 1);
    assert_eq!(stage.used().await, (30, 10));
    stage.relocate("b", "a/b", false).await.expect("moves a folder");
    assert_eq!(stage.tree().await, ["a/", "a/b/", "a/b/g"]);
}

pub async fn a_move_replaces_only_if_told_to(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.write("f", 1).await;
    let there = stage.write("g", 2).await.node;
    assert_eq!(kind(stage.relocate("f", "g", false).await), ErrorKind::PreconditionFailed);
    assert_eq!(kind(stage.copy("f", "g", false).await), ErrorKind::PreconditionFailed);
    let outdated = stage.expecting(Expect::Seq(there.seq + 1));
    let refused = catalogue.relocate(&stage.relocation("f", "g", true), &outdated).await;
    assert_eq!(kind(refused), ErrorKind::PreconditionFailed);
    let moved = stage.relocate("f", "g", true).await.expect("replaces");
    assert!(!moved.created && moved.node.size == 1 && moved.node.id != there.id);
    assert_eq!(stage.tree().await, ["g"]);
    let trash = catalogue.trash(stage.space, None, 9).await.expect("reads");
    assert_eq!(trash.iter().map(|entry| (entry.path.as_str(), entry.node)).collect::<Vec<_>>(), [("/g", there.id)]);
    assert_eq!(stage.used().await, (3, 0));
}

pub async fn nothing_moves_into_itself(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.folder("a").await;
    stage.folder("a/b").await;
    assert_eq!(kind(stage.relocate("a", "a", true).await), ErrorKind::Forbidden);
    assert_eq!(kind(stage.copy("a", "a", true).await), ErrorKind::Forbidden);
    assert_eq!(kind(stage.relocate("a", "a/c", true).await), ErrorKind::Conflict);
    assert_eq!(kind(stage.relocate("a", "a/b", true).await), ErrorKind::Conflict);
    assert_eq!(kind(stage.relocate("no", "x", true).await), ErrorKind::NotFound);
    assert_eq!(kind(stage.copy("no", "x", true).await), ErrorKind::NotFound);
    assert_eq!(kind(stage.relocate("a", "no/x", true).await), ErrorKind::Conflict);
    assert_eq!(kind(stage.copy("a", "no/x", true).await), ErrorKind::Conflict);
    assert_eq!(catalogue.trash(stage.space, None, 9).await.expect("reads"), []);
}

pub async fn a_node_can_replace_its_own_folder(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.folder("a").await;
    stage.folder("a/b").await;
    stage.write("a/b/deep", 3).await;
    stage.write("a/other", 4).await;
    stage.relocate("a/b", "a", true).await.expect("moves");
    assert_eq!(stage.tree().await, ["a/", "a/deep"]);
    stage.copy("a/deep", "a", true).await.expect("copies");
    assert_eq!(stage.tree().await, ["a"]);
    let trash = catalogue.trash(stage.space, None, 9).await.expect("reads");
    assert_eq!(trash.iter().map(|entry| (entry.bytes, entry.nodes)).collect::<Vec<_>>(), [(3, 2), (4, 2)]);
    assert_eq!(stage.used().await, (10, 0));
}

pub async fn a_copy_shares_content(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.write("f", 10).await;
    let original = stage.write("f", 20).await.node;
    tag(&stage, "f").await;
    let copy = stage.copy("f", "g", false).await.expect("copies");
    assert!(copy.created && copy.node.content == original.content && copy.node.id != original.id);
    assert!(catalogue.versions(copy.node.id).await.expect("reads").is_empty());
    assert_eq!(catalogue.properties(&[copy.node.id]).await.expect("reads").len(), 1);
    assert_eq!(stage.used().await, (50, 10));
    stage.set_retention(0, None, None).await;
    stage.remove("f").await.expect("removes");
    stage.release_all().await;
    assert_eq!(stage.used().await, (20, 0));
    assert!(catalogue.find(stage.space, &path("g"), true).await.expect("reads").content.is_some());
    stage.remove("g").await.expect("removes");
    stage.release_all().await;
    assert!(catalogue.all_contents(None, 9).await.expect("reads").is_empty());
}

pub async fn a_copy_is_deep_or_not(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    for folder in ["a", "a/b", "a/b/c"] {
        stage.folder(folder).await;
        stage.write(&format!("{folder}/f"), 1).await;
    }
    tag(&stage, "a").await;
    tag(&stage, "a/b/f").await;
    let shallow = Relocation { deep: false, ..stage.relocation("a", "s", false) };
    catalogue.copy(&shallow, &stage.guard()).await.expect("copies");
    stage.copy("a", "d", false).await.expect("copies");
    let expected =
        ["a/", "a/b/", "a/b/c/", "a/b/c/f", "a/b/f", "a/f", "d/", "d/b/", "d/b/c/", "d/b/c/f", "d/b/f", "d/f", "s/"];
    assert_eq!(stage.tree().await, expected);
    assert_eq!(stage.used().await, (6, 0));
    let tagged = stage.node("d/b/f").await.expect("is there");
    assert_eq!(catalogue.properties(&[tagged.id]).await.expect("reads").len(), 1);
}

/// Members enough for several statements of many rows, with a rest; two files of the folder share each content.
pub async fn a_copy_of_many_members_is_whole(catalogue: &Place) {
    const FILES: usize = 150;
    let stage = Stage::new(catalogue).await;
    stage.set_retention(0, None, None).await;
    stage.folder("a").await;
    for number in 0..FILES {
        stage.write(&format!("a/f{number}"), 1).await;
        stage.copy(&format!("a/f{number}"), &format!("a/g{number}"), false).await.expect("copies");
    }
    for number in 0..30 {
        stage.folder(&format!("a/h{number}")).await;
    }
    tag(&stage, "a/g77").await;
    stage.copy("a", "b", false).await.expect("copies");
    let (of_a, of_b): (Vec<_>, Vec<_>) = stage.tree().await.into_iter().partition(|path| path.starts_with('a'));
    assert_eq!(of_a.len(), 1 + 2 * FILES + 30);
    assert!(of_a.iter().zip(&of_b).all(|(a, b)| a[1..] == b[1..]) && of_a.len() == of_b.len());
    let tagged = stage.node("b/g77").await.expect("is there");
    assert_eq!(catalogue.properties(&[tagged.id]).await.expect("reads").len(), 1);
    for (gone, left) in [("a", FILES), ("b", 0)] {
        stage.remove(gone).await.expect("removes");
        stage.release_all().await;
        assert_eq!(catalogue.all_contents(None, 999).await.expect("reads").len(), left, "without {gone}");
    }
}

pub async fn a_folder_is_copied_into_itself_as_it_was(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.folder("a").await;
    stage.folder("a/b").await;
    stage.write("a/b/f", 1).await;
    stage.copy("a", "a/b/a", false).await.expect("copies");
    assert_eq!(stage.tree().await, ["a/", "a/b/", "a/b/a/", "a/b/a/b/", "a/b/a/b/f", "a/b/f"]);
    stage.copy("", "whole", false).await.expect("copies the root");
    assert_eq!(stage.tree().await.len(), 13);
}

pub async fn a_copy_may_replace_a_part_of_its_source(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.folder("a").await;
    stage.folder("a/b").await;
    stage.write("a/b/f", 1).await;
    stage.copy("a", "a/b", true).await.expect("copies");
    assert_eq!(stage.tree().await, ["a/", "a/b/", "a/b/b/", "a/b/b/f"]);
    assert_eq!(stage.used().await, (2, 0));
    assert_eq!(catalogue.trash(stage.space, None, 9).await.expect("reads").len(), 1);
}

pub async fn the_source_is_what_it_was_expected_to_be(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let seq = stage.write("f", 1).await.node.seq;
    stage.write("there", 1).await;
    let expecting = |source_expect| Relocation { source_expect, ..stage.relocation("f", "there", true) };
    for wrong in [Expect::Seq(seq + 1), Expect::Absent] {
        let copied = catalogue.copy(&expecting(wrong), &stage.guard()).await;
        let moved = catalogue.relocate(&expecting(wrong), &stage.guard()).await;
        assert_eq!((kind(copied), kind(moved)), (ErrorKind::PreconditionFailed, ErrorKind::PreconditionFailed));
    }
    // That of the guard is on the destination.
    let gone = catalogue.copy(&expecting(Expect::Seq(seq)), &stage.expecting(Expect::Seq(seq))).await;
    assert_eq!(kind(gone), ErrorKind::PreconditionFailed);
    catalogue.copy(&expecting(Expect::Present), &stage.guard()).await.expect("copies");
    catalogue.relocate(&expecting(Expect::Seq(seq)), &stage.guard()).await.expect("moves");
    assert_eq!(stage.tree().await, ["there"]);
}
