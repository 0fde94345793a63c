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

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;

/// When a file is written, over six weeks: every few hours, then minutes, then seconds, and sometimes at a full hour or ten seconds exactly.
fn writes() -> Vec<i64> {
    let phases =
        [(9 * HOUR_MS, 40 * DAY_MS), (21 * MINUTE_MS, 31 * HOUR_MS), (83_000, 70 * MINUTE_MS), (3_500, 12 * MINUTE_MS)];
    let (mut at_ms, mut random, mut writes) = (100 * DAY_MS + 1_234, 12_345_u64, Vec::new());
    for (gap_max_ms, long_ms) in phases {
        let end_ms = at_ms + long_ms;
        while at_ms < end_ms {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            at_ms += 1 + (random >> 33).cast_signed() % gap_max_ms;
            let exact = [HOUR_MS, 10_000]
                .into_iter()
                .find(|&whole| (random >> 20).is_multiple_of(8) && at_ms % whole > whole / 2);
            at_ms = exact.map_or(at_ms, |whole| (at_ms / whole + 1) * whole);
            writes.push(at_ms);
        }
    }
    writes
}

/// Sizes of the old versions that are to be kept of a file that was written at these times with 1, 2, … bytes: the first, what is young, and what the
/// file was at the full ten seconds, five minutes, hours or days, as old as the version is.
fn kept(writes: &[i64], now_ms: i64) -> Vec<u64> {
    let kept = |(begun_ms, end_ms): (i64, i64)| {
        let whole_ms = match now_ms - end_ms {
            ..600_000 => return true,
            600_000..3_600_000 => 10_000,
            3_600_000..86_400_000 => 300_000,
            86_400_000..2_592_000_000 => HOUR_MS,
            _ => DAY_MS,
        };
        (end_ms - 1) / whole_ms > (begun_ms - 1) / whole_ms
    };
    let mut sizes: Vec<u64> = (1..)
        .zip(writes.windows(2))
        .filter(|(size, pair)| *size == 1 || kept((pair[0], pair[1])))
        .map(|(size, _)| size)
        .collect();
    sizes.reverse();
    sizes
}

async fn expire_all(catalogue: &Place, now_ms: i64, limit: usize) {
    while catalogue.expire(now_ms, limit).await.expect("expires") > 0 {}
}

pub async fn versions_thin_out_as_they_age(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.set_thin(true).await;
    let (writes, mut node) = (writes(), NodeId(0));
    for (number, &at_ms) in writes.iter().enumerate() {
        node = write_at(&stage, "f", number as u64 + 1, at_ms).await;
        if number % 37 == 0 {
            expire_all(catalogue, at_ms, 1 + number % 9).await;
            let is = sizes(&catalogue.versions(node).await.expect("reads"));
            assert_eq!(is, kept(&writes[..=number], at_ms), "after {number} writes");
        }
    }
    let last_ms = *writes.last().expect("some");
    for later_ms in [0, 7 * MINUTE_MS, 3 * HOUR_MS, 2 * DAY_MS, 35 * DAY_MS] {
        expire_all(catalogue, last_ms + later_ms, 500).await;
        let is = sizes(&catalogue.versions(node).await.expect("reads"));
        assert_eq!(is, kept(&writes, last_ms + later_ms), "{later_ms} ms later");
        let bytes: u64 = is.iter().sum();
        assert_eq!(stage.used().await, (bytes + writes.len() as u64, bytes));
    }
}

pub async fn a_space_that_kept_each_version_begins_to_thin_them(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.set_thin(false).await;
    let (writes, mut node) = (writes(), NodeId(0));
    // Another file, whose versions fall into the same stretches and are its own.
    let other = write_at(&stage, "g", 1, writes[1]).await;
    for (number, &at_ms) in writes.iter().enumerate() {
        node = write_at(&stage, "f", number as u64 + 1, at_ms).await;
    }
    let last_ms = *writes.last().expect("some");
    write_at(&stage, "g", 2, writes[1] + 1).await;
    expire_all(catalogue, last_ms, 50).await;
    assert_eq!(catalogue.versions(node).await.expect("reads").len(), writes.len() - 1);
    stage.set_thin(true).await;
    assert!(catalogue.expire(last_ms, 50).await.expect("expires") >= 50);
    expire_all(catalogue, last_ms, 50).await;
    assert_eq!(sizes(&catalogue.versions(node).await.expect("reads")), kept(&writes, last_ms));
    assert_eq!(sizes(&catalogue.versions(other).await.expect("reads")), [1]);
    stage.set_thin(false).await;
    write_at(&stage, "g", 3, last_ms + 1).await;
    write_at(&stage, "g", 4, last_ms + 2).await;
    expire_all(catalogue, last_ms + 40 * DAY_MS, 50).await;
    assert_eq!(sizes(&catalogue.versions(other).await.expect("reads")), [3, 2, 1]);
    assert_eq!(sizes(&catalogue.versions(node).await.expect("reads")), kept(&writes, last_ms));
}
