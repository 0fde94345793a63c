//! The trash and what becomes of it.

use super::stage::{Stage, blocks, kind, path, written};
use crate::catalogue::Catalogue;
use crate::types::NodeKind;
use holdfast_base::ErrorKind;
use std::sync::Arc;

type Place = Arc<dyn Catalogue>;

const DAY_MS: i64 = 86_400_000;

/// A folder of four nodes with 31 bytes, ten of them in an old version.
async fn make_tree(stage: &Stage, at: &str) {
    stage.folder(at).await;
    stage.folder(&format!("{at}/b")).await;
    stage.write(&format!("{at}/f"), 10).await;
    stage.write(&format!("{at}/f"), 20).await;
    stage.write(&format!("{at}/b/g"), 1).await;
}

pub async fn what_is_removed_is_listed_and_put_back(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    make_tree(&stage, "a").await;
    let before = stage.node("a").await.expect("is there");
    let guard = stage.guard_at(5_000);
    let told = catalogue.remove(stage.space, &path("a"), &guard).await.expect("removes");
    assert_eq!((stage.tree().await.len(), stage.used().await), (0, (31, 10)));
    for _ in 0..2 {
        let trash = catalogue.trash(stage.space, None, 9).await.expect("reads");
        let entry = &trash[0];
        assert_eq!((entry.node, entry.kind, entry.path.as_str()), (before.id, NodeKind::Folder, "/a"));
        assert_eq!((entry.deleted_ms, entry.by, entry.bytes, entry.nodes), (5_000, stage.account.id, 31, 4));
    }
    let entry = catalogue.trash(stage.space, None, 9).await.expect("reads").remove(0).id;
    assert_eq!(told, Some(entry));
    let back = catalogue.restore_trash(stage.space, entry, None, &stage.guard()).await.expect("puts back");
    assert!(back.id == before.id && back.name == "a" && back.seq > before.seq);
    assert_eq!(stage.tree().await, ["a/", "a/b/", "a/b/g", "a/f"]);
    assert!(catalogue.trash(stage.space, None, 9).await.expect("reads").is_empty());
    let again = catalogue.restore_trash(stage.space, entry, None, &stage.guard()).await;
    assert_eq!(kind(again), ErrorKind::NotFound);
}

pub async fn putting_back_needs_a_place(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.folder("a").await;
    stage.write("a/f", 1).await;
    stage.remove("a/f").await.expect("removes");
    let entry = catalogue.trash(stage.space, None, 9).await.expect("reads").remove(0).id;
    let restore = async |to: Option<&str>| {
        let to = to.map(path);
        catalogue.restore_trash(stage.space, entry, to.as_ref(), &stage.guard()).await
    };
    stage.write("a/f", 2).await;
    assert_eq!(kind(restore(None).await), ErrorKind::AlreadyExists);
    stage.remove("a").await.expect("removes");
    assert_eq!(kind(restore(None).await), ErrorKind::Conflict);
    assert_eq!(kind(restore(Some("")).await), ErrorKind::Forbidden);
    assert_eq!(restore(Some("g")).await.expect("puts it elsewhere").name, "g");
    assert_eq!(stage.tree().await, ["g"]);
}

pub async fn purging_frees_bytes_at_once(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    make_tree(&stage, "a").await;
    make_tree(&stage, "b").await;
    stage.write("c", 5).await;
    for at in ["a", "b", "c"] {
        stage.remove(at).await.expect("removes");
    }
    let newest = catalogue.trash(stage.space, None, 1).await.expect("reads").remove(0);
    assert_eq!(catalogue.purge_trash(stage.space, Some(newest.id)).await.expect("purges"), 5);
    assert_eq!(kind(catalogue.purge_trash(stage.space, Some(newest.id)).await), ErrorKind::NotFound);
    assert_eq!(stage.used().await, (62, 20));
    super::finish(catalogue).await;
    assert_eq!(catalogue.purge_trash(stage.space, None).await.expect("purges"), 62);
    assert_eq!(stage.used().await, (0, 0));
    assert_eq!(catalogue.purge_trash(stage.space, None).await.expect("has nothing to purge"), 0);
}

pub async fn garbage_is_released_step_by_step(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    make_tree(&stage, "a").await;
    let pack = stage.pack(1).await;
    let content = blocks((0..20).map(|name| written(name, pack)).collect());
    let file = catalogue.commit_file(stage.space, &path("a/b/blocks"), content, 0, &stage.guard()).await;
    let content = file.expect("commits").expect("has every block").node.content.expect("has content");
    assert!(stage.usage().await.stored_raw_bytes > 0);
    stage.remove("a").await.expect("removes");
    catalogue.purge_trash(stage.space, None).await.expect("purges");
    let mut was_whole = 0;
    loop {
        super::finish(catalogue).await;
        // Who reads it until it goes is not told that it is damaged.
        let blocks = catalogue.all_blocks(None, 99).await.expect("reads").len();
        let is_whole = blocks == 20 && catalogue.manifest_chunk(content, 0).await.expect("reads").is_some();
        assert!(is_whole || catalogue.content(content).await.expect("reads").is_none(), "{blocks} blocks");
        was_whole += u32::from(is_whole);
        if catalogue.release_garbage(1).await.expect("releases") == 0 {
            break;
        }
    }
    assert!(was_whole > 0);
    let usage = stage.usage().await;
    assert_eq!((usage.stored_raw_bytes, usage.stored_sealed_bytes), (0, 0));
    assert!(catalogue.all_contents(None, 9).await.expect("reads").is_empty());
    assert!(catalogue.all_blocks(None, 9).await.expect("reads").is_empty());
}

pub async fn trash_expires(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.set_retention(2, None, None).await;
    make_tree(&stage, "a").await;
    stage.write("f", 5).await;
    catalogue.remove(stage.space, &path("f"), &stage.guard_at(0)).await.expect("removes");
    catalogue.remove(stage.space, &path("a"), &stage.guard_at(DAY_MS)).await.expect("removes");
    assert_eq!(catalogue.expire(2 * DAY_MS - 1, 100).await.expect("keeps what is younger"), 0);
    assert_eq!(catalogue.expire(2 * DAY_MS, 100).await.expect("expires"), 1);
    assert_eq!(catalogue.trash(stage.space, None, 9).await.expect("reads").len(), 1);
    assert_eq!(catalogue.expire(3 * DAY_MS, 100).await.expect("expires a version, then the folder"), 2);
    assert_eq!(stage.used().await, (0, 0));
}

pub async fn removing_without_retention_purges(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    make_tree(&stage, "a").await;
    stage.set_retention(0, None, None).await;
    stage.remove("a").await.expect("removes");
    assert!(catalogue.trash(stage.space, None, 9).await.expect("reads").is_empty());
    assert_eq!(stage.used().await, (0, 0));
}

pub async fn versions_in_the_trash_can_go_alone(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    make_tree(&stage, "a").await;
    let file = stage.node("a/f").await.expect("is there");
    let old = catalogue.versions(file.id).await.expect("reads").remove(0);
    stage.remove("a").await.expect("removes");
    assert_eq!(catalogue.trash(stage.space, None, 9).await.expect("reads")[0].bytes, 31);
    catalogue.remove_version(file.id, old.seq).await.expect("removes");
    assert_eq!(catalogue.trash(stage.space, None, 9).await.expect("reads")[0].bytes, 21);
    assert_eq!(stage.used().await, (21, 0));
    assert_eq!(catalogue.purge_trash(stage.space, None).await.expect("purges"), 21);
}

pub async fn trash_is_listed_in_pages(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    for index in 0..7 {
        let at = format!("f{index}");
        stage.write(&at, 1).await;
        stage.remove(&at).await.expect("removes");
    }
    let mut seen = Vec::new();
    let mut before = None;
    loop {
        let page = catalogue.trash(stage.space, before, 3).await.expect("reads");
        let Some(last) = page.last() else { break };
        before = Some(last.id);
        seen.extend(page.into_iter().map(|entry| entry.path));
    }
    assert_eq!(seen, ["/f6", "/f5", "/f4", "/f3", "/f2", "/f1", "/f0"]);
}
