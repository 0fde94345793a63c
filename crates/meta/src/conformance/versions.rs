//! Old versions of files.

use super::stage::{Stage, kind, path};
use crate::catalogue::Catalogue;
use crate::types::Version;
use holdfast_base::{ErrorKind, NodeId};
use std::sync::Arc;

type Place = Arc<dyn Catalogue>;

const DAY_MS: i64 = 86_400_000;

async fn write_at(stage: &Stage, at: &str, size: u64, now_ms: i64) -> NodeId {
    stage.try_write(at, size, &stage.guard_at(now_ms)).await.expect("writes").node.id
}

fn sizes(versions: &[Version]) -> Vec<u64> {
    versions.iter().map(|version| version.size).collect()
}

pub async fn an_overwritten_file_keeps_its_version(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let first = stage.write("f", 10).await.node;
    let second = stage.try_write("f", 20, &stage.guard_at(7_000)).await.expect("writes").node;
    stage.write("f", 30).await;
    let versions = catalogue.versions(first.id).await.expect("reads");
    assert_eq!(sizes(&versions), [20, 10]);
    let oldest = Version {
        seq: first.seq,
        content: first.content,
        size: 10,
        modified_ms: first.modified_ms,
        superseded_ms: 7_000,
        by: stage.account.id,
    };
    assert_eq!((versions[0].seq, &versions[1]), (second.seq, &oldest));
    assert_eq!(stage.used().await, (60, 30));
    stage.write("e", 0).await;
    let made = stage.write("e", 1).await.node;
    assert!(catalogue.versions(made.id).await.expect("reads").is_empty(), "an empty file is not worth keeping");
}

pub async fn a_space_without_retention_keeps_none(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.set_retention(0, None, None).await;
    stage.write("f", 10).await;
    let node = stage.write("f", 20).await.node;
    assert!(catalogue.versions(node.id).await.expect("reads").is_empty());
    assert_eq!(stage.used().await, (20, 0));
    assert_eq!(catalogue.all_contents(None, 9).await.expect("reads").len(), 1);
    stage.set_retention(30, Some(0), None).await;
    stage.write("f", 30).await;
    assert!(catalogue.versions(node.id).await.expect("reads").is_empty());
}

pub async fn the_newest_versions_stay(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.set_retention(30, Some(2), None).await;
    for size in 1..=5 {
        stage.write("f", size).await;
    }
    let node = stage.node("f").await.expect("is there");
    assert_eq!(sizes(&catalogue.versions(node.id).await.expect("reads")), [4, 3]);
    assert_eq!(stage.used().await, (12, 7));
}

pub async fn an_old_version_is_made_current_without_more_bytes(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let first = stage.write("f", 10).await.node;
    let second = stage.write("f", 20).await.node;
    stage.set_quota(Some(5)).await;
    let restored =
        catalogue.restore_version(stage.space, &path("f"), first.seq, &stage.guard()).await.expect("restores");
    assert_eq!((restored.size, restored.content, restored.id), (10, first.content, first.id));
    assert!(restored.seq > second.seq);
    let versions = catalogue.versions(first.id).await.expect("reads");
    assert_eq!((sizes(&versions), versions[0].seq), (vec![20], second.seq));
    assert_eq!(stage.used().await, (30, 20));
    let again = catalogue.restore_version(stage.space, &path("f"), first.seq, &stage.guard()).await;
    assert_eq!(kind(again), ErrorKind::NotFound);
}

pub async fn a_version_is_removed_for_good(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let first = stage.write("f", 10).await.node;
    stage.write("f", 20).await;
    catalogue.remove_version(first.id, first.seq).await.expect("removes");
    assert_eq!(stage.used().await, (20, 0));
    assert_eq!(kind(catalogue.remove_version(first.id, first.seq).await), ErrorKind::NotFound);
    assert_eq!(catalogue.all_contents(None, 9).await.expect("reads").len(), 1);
}

pub async fn versions_expire_by_age(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.set_retention(2, None, None).await;
    let node = write_at(&stage, "f", 1, 0).await;
    for day in 1..=4 {
        write_at(&stage, "f", 10, day * DAY_MS).await;
    }
    assert_eq!(catalogue.expire(2 * DAY_MS, 100).await.expect("expires"), 0);
    assert_eq!(catalogue.expire(4 * DAY_MS, 1).await.expect("expires one"), 1);
    assert_eq!(catalogue.expire(4 * DAY_MS, 100).await.expect("expires the rest"), 1);
    assert_eq!(catalogue.versions(node).await.expect("reads").len(), 2);
    assert_eq!(stage.used().await, (30, 20));
}

pub async fn versions_expire_by_bytes(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let node = write_at(&stage, "f", 10, 1).await;
    for now_ms in 2..=5 {
        write_at(&stage, "f", 10, now_ms).await;
    }
    stage.folder("d").await;
    write_at(&stage, "d/g", 25, 3).await;
    catalogue.remove(stage.space, &path("d"), &stage.guard_at(4)).await.expect("removes");
    stage.set_retention(30, None, Some(35)).await;
    // The oldest go first: versions of times 2 and 3, then either that of 4 or the folder deleted then.
    assert_eq!(catalogue.expire(6, 100).await.expect("expires"), 3);
    let left = catalogue.versions(node).await.expect("reads").len() * 10;
    let trash = catalogue.trash(stage.space, None, 9).await.expect("reads").len() * 25;
    assert!(left + trash <= 35 && left >= 10, "{left} + {trash}");
    assert_eq!(catalogue.expire(6, 100).await.expect("is within bounds"), 0);
}

pub async fn versions_expire_when_the_bound_is_lowered(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    for size in 1..=5 {
        write_at(&stage, "f", size, 1).await;
        write_at(&stage, "g", size, 1).await;
    }
    stage.set_retention(30, Some(1), None).await;
    assert_eq!(catalogue.expire(2, 4).await.expect("expires"), 4);
    assert_eq!(catalogue.expire(2, 4).await.expect("expires"), 2);
    assert_eq!(catalogue.expire(2, 4).await.expect("expires"), 0);
    assert_eq!(stage.used().await, (18, 8));
}
