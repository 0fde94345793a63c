//! Instances, what they leave behind, and leases.

use super::stage::{BLOCK, Stage, blocks, kind, path, run, written};
use crate::catalogue::{Catalogue, NewUpload};
use crate::cluster::{InstanceId, Joined, NewInstance};
use crate::types::NewContent;
use holdfast_base::{ContentId, ErrorKind, PackId, PackName, Uid};
use std::sync::Arc;

type Place = Arc<dyn Catalogue>;

/// Nothing is as old as this.
const EVER_MS: u64 = 1 << 40;
const MINUTE_MS: u64 = 60_000;

async fn join(catalogue: &Place, number: u8) -> Joined {
    let new = NewInstance { uid: Uid([number; 16]), name: format!("node-{number}"), version: "0.1.0".into() };
    catalogue.join(new).await.expect("joins")
}

async fn begin(stage: &Stage, instance: InstanceId) -> ContentId {
    let upload =
        NewUpload { space: stage.space, instance, reserve_bytes: 5_000, block_bytes: BLOCK, nonce: [1; 16], now_ms: 1 };
    stage.catalogue.begin_upload(upload).await.expect("begins")
}

async fn open(stage: &Stage, instance: InstanceId, name: u8) -> PackId {
    stage.catalogue.open_pack(PackName([name; 16]), instance, 1).await.expect("opens")
}

fn ids(packs: &[crate::types::Pack]) -> Vec<PackId> {
    packs.iter().map(|pack| pack.id).collect()
}

pub async fn an_instance_is_known_until_it_leaves(catalogue: &Place) {
    assert_eq!(catalogue.cluster().await.expect("reads").instances, []);
    let Joined { id, left } = join(catalogue, 1).await;
    assert_eq!(left, []);
    assert!(catalogue.beat(id, "http://a:1 https://a:2").await.expect("beats"));
    let cluster = catalogue.cluster().await.expect("reads");
    let [one] = cluster.instances.as_slice() else { panic!("{cluster:?}") };
    assert_eq!((one.id, one.name.as_str(), one.uid), (id, "node-1", Uid([1; 16])));
    assert_eq!(one.addresses, ["http://a:1", "https://a:2"]);
    assert!(one.started_ms <= one.seen_ms && one.seen_ms <= cluster.now_ms, "{cluster:?}");
    assert!(one.seen_ms > 1_700_000_000_000, "milliseconds since 1970: {cluster:?}");
    assert_eq!(catalogue.give_up(MINUTE_MS).await.expect("looks"), []);
    assert_eq!(catalogue.cluster().await.expect("reads").instances.len(), 1);
    catalogue.leave(id).await.expect("leaves");
    assert_eq!(catalogue.cluster().await.expect("reads").instances, []);
    assert!(!catalogue.beat(id, "").await.expect("is told"));
}

pub async fn the_one_before_on_a_data_directory_is_given_up(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let first = join(catalogue, 1).await.id;
    let (one, two) = (open(&stage, first, 1).await, open(&stage, first, 2).await);
    catalogue.seal_pack(two, 10).await.expect("seals");
    let upload = begin(&stage, first).await;
    catalogue.stage(upload, run(0, vec![written(1, one)])).await.expect("stages").expect("misses nothing");
    let again = join(catalogue, 1).await;
    assert_ne!(again.id, first);
    assert_eq!(ids(&again.left), [one]);
    assert_eq!(stage.usage().await.reserved_bytes, 0);
    assert!(!catalogue.beat(first, "").await.expect("is told"));
    assert!(catalogue.beat(again.id, "").await.expect("beats"));
    catalogue.seal_pack(one, 2_000).await.expect("seals");
    stage.release_all().await;
    assert!(catalogue.all_blocks(None, 9).await.expect("reads").is_empty());
}

pub async fn what_is_nobodys_is_given_up(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let here = join(catalogue, 1).await.id;
    let (mine, upload) = (open(&stage, here, 1).await, begin(&stage, here).await);
    assert_eq!(catalogue.give_up(MINUTE_MS).await.expect("looks"), []);
    assert_eq!(stage.usage().await.reserved_bytes, 5_000);
    catalogue.stage(upload, run(0, vec![written(1, mine)])).await.expect("stages").expect("misses nothing");
    catalogue.leave(here).await.expect("leaves");
    assert_eq!(ids(&catalogue.give_up(MINUTE_MS).await.expect("looks")), [mine]);
    assert_eq!(stage.usage().await.reserved_bytes, 0);
    // Until it is sealed, whoever looks is told again: the first may have died over it.
    assert_eq!(ids(&catalogue.give_up(EVER_MS).await.expect("looks")), [mine]);
    catalogue.seal_pack(mine, 2_000).await.expect("seals");
    assert_eq!(catalogue.give_up(EVER_MS).await.expect("looks"), []);
}

pub async fn an_instance_that_was_given_up_can_do_no_harm(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let asleep = join(catalogue, 1).await.id;
    let (pack, upload) = (open(&stage, asleep, 1).await, begin(&stage, asleep).await);
    catalogue.stage(upload, run(0, vec![written(1, pack)])).await.expect("stages").expect("misses nothing");
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    assert_eq!(ids(&catalogue.give_up(5).await.expect("looks")), [pack]);
    // It wakes, before its pack is sealed or after.
    let (at, guard) = (path("f"), stage.guard());
    let commit = |content| catalogue.commit_file(stage.space, &at, content, 0, &guard);
    let staged = NewContent::Staged { content: upload, size: 1_000, tag: [8; 16] };
    assert_eq!(kind(commit(staged).await), ErrorKind::NotFound);
    assert_eq!(kind(commit(blocks(vec![written(2, pack)])).await), ErrorKind::Unavailable);
    catalogue.seal_pack(pack, 2_000).await.expect("seals");
    assert_eq!(kind(commit(blocks(vec![written(2, pack)])).await), ErrorKind::Unavailable);
    assert!(!catalogue.beat(asleep, "").await.expect("is told"));
    assert_eq!(catalogue.take_lease("job", asleep, MINUTE_MS).await.expect("asks"), None);
    // What it begins now is nobody's.
    let (late, _) = (open(&stage, asleep, 2).await, begin(&stage, asleep).await);
    assert_eq!(ids(&catalogue.give_up(MINUTE_MS).await.expect("looks")), [late]);
    assert_eq!(stage.usage().await.reserved_bytes, 0);
}

pub async fn a_lease_has_one_holder(catalogue: &Place) {
    let one = join(catalogue, 1).await.id;
    let fence = catalogue.take_lease("job", one, MINUTE_MS).await.expect("takes").expect("is free");
    assert_eq!(catalogue.take_lease("job", one, MINUTE_MS).await.expect("renews"), Some(fence));
    let cluster = catalogue.cluster().await.expect("reads");
    let [lease] = cluster.leases.as_slice() else { panic!("{cluster:?}") };
    assert_eq!((lease.name.as_str(), lease.holder, lease.fence), ("job", one, fence));
    assert!(lease.expires_ms > cluster.now_ms, "{cluster:?}");
    // The next holder; where there is one instance at a time, it is the one that comes after.
    let two = join(catalogue, 2).await.id;
    if catalogue.beat(one, "").await.expect("asks") {
        assert_eq!(catalogue.take_lease("job", two, MINUTE_MS).await.expect("asks"), None);
        assert_eq!(catalogue.take_lease("other", two, 1).await.expect("takes"), Some(1));
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        assert_eq!(catalogue.take_lease("other", one, 1).await.expect("takes what lapsed"), Some(2));
        catalogue.leave(one).await.expect("leaves");
    }
    let next = catalogue.take_lease("job", two, MINUTE_MS).await.expect("takes");
    assert_eq!(next, Some(fence + 1));
    assert_eq!(catalogue.take_lease("job", one, MINUTE_MS).await.expect("asks"), None);
}
