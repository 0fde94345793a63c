//! Tags.

use super::stage::{Stage, kind, path};
use crate::catalogue::Catalogue;
use crate::types::{NodeKind, SearchIn, TAG_NAMESPACE, TAGS_MAX, Tag, TagChange};
use holdfast_base::ErrorKind;
use std::sync::Arc;

type Place = Arc<dyn Catalogue>;

/// Tags in use in the space, with their counts.
async fn in_use(stage: &Stage, prefix: &str) -> Vec<(String, usize)> {
    let tags = stage.catalogue.tags_in_use(&[stage.space.into()], prefix, 9).await.expect("reads");
    tags.into_iter().map(|tag| (tag.tag, tag.count)).collect()
}

fn counted(tags: &[(&str, usize)]) -> Vec<(String, usize)> {
    tags.iter().map(|&(tag, count)| (tag.to_owned(), count)).collect()
}

pub async fn tags_are_added_and_removed(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.write("f", 1).await;
    stage.folder("d").await;
    let before = stage.node("f").await.expect("is there");
    let tagged = stage.tag("f", &["Été", "to do"], &["never there"]).await.expect("tags");
    assert!(tagged.has_properties && tagged.seq > before.seq);
    assert_eq!(stage.tag("f", &["Été"], &[]).await.expect("has it already").seq, tagged.seq);
    stage.tag("d", &["ete"], &[]).await.expect("tags");
    assert_eq!(in_use(&stage, "").await, counted(&[("ete", 2), ("to do", 1)]), "as it was typed last");
    assert_eq!(in_use(&stage, "É").await, counted(&[("ete", 2)]));
    assert_eq!(stage.search_paths("do").await, ["/f"]);
    let bare = stage.tag("f", &[], &["ETE", "To Do"]).await.expect("removes");
    assert!(!bare.has_properties);
    assert_eq!(in_use(&stage, "").await, counted(&[("ete", 1)]));
    assert_eq!(stage.search_paths("do").await, Vec::<String>::new());
}

pub async fn tags_go_where_their_node_goes(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.folder("d").await;
    stage.write("d/f", 1).await;
    stage.write("d/f", 2).await;
    stage.tag("d/f", &["Blue"], &[]).await.expect("tags");
    stage.tag("d", &["Red"], &[]).await.expect("tags");
    stage.copy("d", "copy", false).await.expect("copies");
    stage.relocate("d", "moved", false).await.expect("moves");
    assert_eq!(in_use(&stage, "").await, counted(&[("Blue", 2), ("Red", 2)]));
    assert_eq!(stage.search_paths("blue").await.len(), 2);
    let file = stage.node("moved/f").await.expect("is there");
    let old = catalogue.versions(file.id).await.expect("reads").remove(0);
    let restored = catalogue.restore_version(stage.space, &path("moved/f"), old.seq, &stage.guard()).await;
    assert!(restored.expect("restores").has_properties);
    stage.write("moved/f", 9).await;
    assert_eq!(in_use(&stage, "blue").await, counted(&[("Blue", 2)]));
    stage.remove("copy").await.expect("removes");
    assert_eq!(in_use(&stage, "").await, counted(&[("Blue", 1), ("Red", 1)]), "not those in the trash");
    catalogue.purge_trash(stage.space, None).await.expect("purges");
    stage.release_all().await;
    assert_eq!(in_use(&stage, "").await, counted(&[("Blue", 1), ("Red", 1)]));
}

pub async fn many_nodes_are_tagged_at_once(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let mut paths = vec![path("missing"), path("")];
    for number in 0..130 {
        stage.write(&format!("f{number}"), 1).await;
        paths.push(path(&format!("f{number}")));
    }
    let lock = stage.new_lock("t", true, false);
    catalogue.lock(stage.space, &path("f7"), lock, &stage.guard()).await.expect("locks");
    let change = TagChange { add: vec![Tag::new("all").expect("a tag")], remove: Vec::new() };
    let answers = catalogue.change_tags(stage.space, &paths, &change, &stage.guard()).await.expect("answers");
    assert_eq!(answers.len(), paths.len());
    let refused: Vec<ErrorKind> =
        answers.iter().filter_map(|answer| answer.as_ref().err().map(holdfast_base::Error::kind)).collect();
    assert_eq!(refused, [ErrorKind::NotFound, ErrorKind::Forbidden, ErrorKind::Locked]);
    let tags = catalogue.tags_in_use(&[stage.space.into()], "al", 9).await.expect("reads").remove(0);
    assert_eq!((tags.count, tags.more), (crate::types::TAG_COUNT_MAX, true));
    let held = catalogue.change_tags(stage.space, &[path("f7")], &change, &stage.holding(&["t"])).await;
    assert_eq!(held.expect("answers")[0].as_ref().expect("is tagged").kind, NodeKind::File);
}

pub async fn a_node_has_so_many_tags(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.write("f", 1).await;
    let names: Vec<String> = (0..=TAGS_MAX).map(|number| format!("tag {number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(kind(stage.tag("f", &names, &[]).await), ErrorKind::TooLarge);
    assert!(!stage.node("f").await.expect("is there").has_properties, "nothing was changed");
    stage.tag("f", &names[1..], &[]).await.expect("tags");
    assert_eq!(kind(stage.tag("f", &["one more"], &[]).await), ErrorKind::TooLarge);
    stage.tag("f", &["one more"], &["tag 5"]).await.expect("one goes, one comes");
    let id = stage.node("f").await.expect("is there").id;
    let kept = catalogue.properties(&[id]).await.expect("reads").remove(0).1;
    assert!(kept.len() == TAGS_MAX && kept.iter().all(|property| property.namespace == TAG_NAMESPACE));
}

pub async fn tags_in_use_below_a_folder_are_those_and_no_others(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.folder("shared").await;
    stage.folder("shared/deep").await;
    for (at, tags) in [
        ("shared/f", &["red", "blue"][..]),
        ("shared/deep/g", &["Red"]),
        ("beside", &["red", "secret", "rest"]),
        ("shared/gone", &["removed"]),
    ] {
        stage.write(at, 1).await;
        stage.tag(at, tags, &[]).await.expect("tags");
    }
    stage.tag("shared", &["its own"], &[]).await.expect("tags");
    stage.remove("shared/gone").await.expect("removes");
    let below = Some(stage.node("shared").await.expect("is there").id);
    let place = SearchIn { space: stage.space, below };
    let used = async |places: &[SearchIn], prefix: &str, limit| {
        let tags = catalogue.tags_in_use(places, prefix, limit).await.expect("reads");
        tags.into_iter().map(|tag| (tag.tag, tag.count)).collect::<Vec<_>>()
    };
    assert_eq!(used(&[place], "", 9).await, counted(&[("blue", 1), ("Red", 2)]));
    assert_eq!(used(&[place], "RE", 9).await, counted(&[("Red", 2)]));
    assert_eq!(used(&[place], "", 1).await, counted(&[("blue", 1)]));
    let all = used(&[place, stage.space.into()], "", 9).await;
    assert_eq!(all.len(), 5, "the space itself has all of them, and counts none twice: {all:?}");
    assert!(all.contains(&("red".to_owned(), 3)), "as the newest has it");
}

pub async fn a_file_comes_with_its_tags_or_not_at_all(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let tags = |texts: &[&str]| texts.iter().map(|text| Tag::new(text).expect("a tag")).collect::<Vec<_>>();
    let commit = async |at: &str, wanted: &[&str], guard: &crate::catalogue::Guard| {
        let (at, content) = (path(at), super::stage::inline(3));
        let done = catalogue.commit_tagged_file(stage.space, &at, content, 1, &tags(wanted), guard).await;
        done.map(|done| done.expect("misses nothing"))
    };
    let absent = stage.expecting(crate::catalogue::Expect::Absent);
    let made = commit("f", &["Paid", "2024"], &absent).await.expect("commits");
    assert!(made.created && made.node.has_properties);
    assert_eq!(Some(&made.node), stage.node("f").await.as_ref(), "what is answered is what is there");
    assert_eq!(in_use(&stage, "").await, counted(&[("2024", 1), ("Paid", 1)]));
    assert_eq!(stage.search_paths("paid").await, ["/f"]);
    let exact = stage.expecting(crate::catalogue::Expect::Seq(made.node.seq));
    let again = commit("f", &["more"], &exact).await.expect("commits");
    assert!(!again.created && catalogue.versions(again.node.id).await.expect("reads").len() == 1);
    assert_eq!(in_use(&stage, "").await, counted(&[("2024", 1), ("more", 1), ("Paid", 1)]));
    let many: Vec<String> = (0..=TAGS_MAX).map(|number| number.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(kind(commit("g", &many, &stage.guard()).await), ErrorKind::TooLarge);
    assert_eq!((stage.tree().await, stage.used().await.0), (vec!["f".to_owned()], 6), "nothing of it is there");
    assert!(!commit("plain", &[], &stage.guard()).await.expect("commits").node.has_properties);
}
