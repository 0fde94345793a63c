//! Quota of spaces and accounts.

use super::stage::{Stage, THIS, blocks, guard_of, inline, kind, path, written};
use crate::catalogue::{Catalogue, NewUpload};
use crate::types::{AccountChange, NewContent, NewSpace};
use holdfast_base::{ContentId, ErrorKind, Result, Uid};
use std::sync::Arc;

type Place = Arc<dyn Catalogue>;

async fn begin(stage: &Stage, reserve_bytes: u64) -> Result<ContentId> {
    let upload =
        NewUpload { space: stage.space, instance: THIS, reserve_bytes, block_bytes: 1_000, nonce: [1; 16], now_ms: 1 };
    stage.catalogue.begin_upload(upload).await
}

pub async fn a_space_is_full_at_its_quota(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.set_quota(Some(100)).await;
    stage.write("f", 100).await;
    assert_eq!(kind(stage.try_write("g", 1, &stage.guard()).await), ErrorKind::NoSpace);
    assert_eq!(stage.tree().await, ["f"]);
    stage.write("empty", 0).await;
    stage.folder("folder").await;
    assert_eq!(kind(stage.try_write("f", 1, &stage.guard()).await), ErrorKind::NoSpace, "the old version counts");
    stage.set_quota(None).await;
    stage.write("g", 1).await;
    assert_eq!(catalogue.account_used_bytes(stage.account.id).await.expect("reads"), 101);
}

pub async fn an_account_is_full_over_all_its_spaces(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let new = NewSpace {
        uid: Uid([0x44; 16]),
        name: "group".to_owned(),
        owner: stage.account.id,
        wrapped_key: vec![],
        quota_bytes: Some(1_000),
        now_ms: 1,
    };
    let group = catalogue.create_space(new).await.expect("a group").id;
    let change = AccountChange { quota_bytes: Some(Some(100)), ..AccountChange::default() };
    catalogue.change_account(stage.account.id, change).await.expect("changes");
    stage.write("f", 60).await;
    let guard = guard_of(stage.account.id, 1);
    let over = catalogue.commit_file(group, &path("g"), inline(41), 0, &guard).await;
    assert_eq!(kind(over), ErrorKind::NoSpace);
    catalogue.commit_file(group, &path("g"), inline(40), 0, &guard).await.expect("fits").expect("misses nothing");
    assert_eq!(kind(begin(&stage, 1).await), ErrorKind::NoSpace);
    assert_eq!(catalogue.account_used_bytes(stage.account.id).await.expect("reads"), 100);
}

pub async fn reserved_bytes_count(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.set_quota(Some(100)).await;
    let upload = begin(&stage, 60).await.expect("fits");
    assert_eq!(stage.usage().await.reserved_bytes, 60);
    assert_eq!(kind(begin(&stage, 41).await), ErrorKind::NoSpace);
    assert_eq!(kind(stage.try_write("f", 41, &stage.guard()).await), ErrorKind::NoSpace);
    catalogue.reserve_more(upload, 30).await.expect("fits");
    assert_eq!(kind(catalogue.reserve_more(upload, 11).await), ErrorKind::NoSpace);
    assert_eq!(kind(begin(&stage, u64::MAX).await), ErrorKind::TooLarge);
    assert_eq!(kind(catalogue.reserve_more(upload, u64::MAX).await), ErrorKind::TooLarge);
    catalogue.abandon_upload(upload).await.expect("gives up");
    assert_eq!(stage.usage().await.reserved_bytes, 0);
    stage.write("f", 100).await;
    assert_eq!(kind(catalogue.reserve_more(upload, 1).await), ErrorKind::NotFound);
}

pub async fn what_was_reserved_can_be_committed(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.set_quota(Some(1_000)).await;
    let upload = begin(&stage, 1_000).await.expect("fits");
    let pack = stage.pack(1).await;
    let run = super::stage::run(0, vec![written(1, pack)]);
    catalogue.stage(upload, run).await.expect("stages").expect("misses nothing");
    stage.set_quota(Some(10)).await;
    let content = NewContent::Staged { content: upload, size: 1_000, tag: [2; 16] };
    let done = catalogue.commit_file(stage.space, &path("f"), content, 0, &stage.guard()).await;
    done.expect("was reserved").expect("misses nothing");
    let usage = stage.usage().await;
    assert_eq!((usage.used_bytes, usage.reserved_bytes), (1_000, 0));
}

pub async fn deleting_works_when_over_quota(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.write("f", 50).await;
    stage.write("f", 60).await;
    stage.write("g", 60).await;
    stage.set_quota(Some(10)).await;
    stage.relocate("f", "h", false).await.expect("moving needs no space");
    stage.relocate("h", "g", true).await.expect("replacing needs no space");
    stage.remove("g").await.expect("deletes");
    let entry = catalogue.trash(stage.space, None, 1).await.expect("reads").remove(0);
    catalogue.restore_trash(stage.space, entry.id, None, &stage.guard()).await.expect("puts back");
    stage.remove("g").await.expect("deletes");
    catalogue.purge_trash(stage.space, None).await.expect("purges");
    assert_eq!(stage.used().await, (0, 0));
}

pub async fn a_copy_over_quota_leaves_nothing(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.folder("a").await;
    for index in 0..10 {
        stage.write(&format!("a/f{index}"), 10).await;
    }
    stage.write("b", 1).await;
    stage.set_quota(Some(150)).await;
    assert_eq!(kind(stage.copy("a", "c", false).await), ErrorKind::NoSpace);
    assert_eq!(kind(stage.copy("a", "b", true).await), ErrorKind::NoSpace);
    assert_eq!((stage.tree().await.len(), stage.used().await), (12, (101, 0)));
    assert!(catalogue.trash(stage.space, None, 9).await.expect("reads").is_empty());
}

pub async fn a_file_may_shrink_over_quota(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.set_retention(0, None, None).await;
    stage.write("f", 100).await;
    let pack = stage.pack(1).await;
    stage.set_quota(Some(10)).await;
    stage.write("f", 50).await;
    let larger = blocks(vec![written(1, pack)]);
    let over = catalogue.commit_file(stage.space, &path("f"), larger, 0, &stage.guard()).await;
    assert_eq!(kind(over), ErrorKind::NoSpace);
    assert_eq!(stage.usage().await.stored_raw_bytes, 0);
    assert!(catalogue.all_blocks(None, 9).await.expect("reads").is_empty());
}
