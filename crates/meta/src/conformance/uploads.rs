//! Content in blocks, at once and in runs.

use super::stage::{BLOCK, Stage, THIS, block, blocks, claimed, guard_of, kind, path, run, written};
use crate::catalogue::{Catalogue, Changed, Missing, NewUpload};
use crate::types::{MANIFEST_CHUNK_BLOCKS, NewContent, Place as BlockAt, StagedBlock, StagedRun};
use holdfast_base::{BlockId, ContentId, ErrorKind, Result};
use std::sync::Arc;

type Place = Arc<dyn Catalogue>;

async fn begin(stage: &Stage) -> ContentId {
    let upload = NewUpload {
        space: stage.space,
        instance: THIS,
        reserve_bytes: 5_000,
        block_bytes: BLOCK,
        nonce: [1; 16],
        now_ms: 1,
    };
    stage.catalogue.begin_upload(upload).await.expect("begins")
}

async fn commit(stage: &Stage, at: &str, content: NewContent) -> Result<std::result::Result<Changed, Missing>> {
    stage.catalogue.commit_file(stage.space, &path(at), content, 0, &stage.guard()).await
}

async fn commit_all(stage: &Stage, at: &str, content: NewContent) -> ContentId {
    let changed = commit(stage, at, content).await.expect("commits").expect("misses nothing");
    changed.node.content.expect("has content")
}

pub async fn a_small_file_of_blocks_is_one_step(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let pack = stage.pack(1).await;
    let id = commit_all(&stage, "f", blocks(vec![written(1, pack), written(2, pack)])).await;
    let content = catalogue.content(id).await.expect("reads").expect("is there");
    assert_eq!((content.size, content.blocks, content.block_bytes, content.inline), (2_000, 2, BLOCK, None));
    let chunk = catalogue.manifest_chunk(id, 0).await.expect("reads").expect("is there");
    assert_eq!((chunk.blocks, chunk.tag), (vec![block(1), block(2)], [4; 16]));
    let places = catalogue.block_places(stage.space, &[block(2), block(9), block(1)]).await.expect("reads");
    assert_eq!(places.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(Some(places[0].expect("is there").place), written(2, pack).written);
    let usage = stage.usage().await;
    assert_eq!((usage.used_bytes, usage.stored_raw_bytes, usage.stored_sealed_bytes), (2_000, 2_000, 2_032));
}

pub async fn an_upload_arrives_in_runs(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let pack = stage.pack(1).await;
    let upload = begin(&stage).await;
    for first in 0..3u8 {
        let next = run(usize::from(first), vec![written(first, pack)]);
        catalogue.stage(upload, next).await.expect("stages").expect("misses nothing");
    }
    super::finish(catalogue).await;
    assert_eq!(stage.usage().await.used_bytes, 0);
    let content = NewContent::Staged { content: upload, size: 2_500, tag: [8; 16] };
    assert_eq!(commit_all(&stage, "f", content.clone()).await, upload);
    let read = catalogue.content(upload).await.expect("reads").expect("is there");
    assert_eq!((read.size, read.blocks, read.tag), (2_500, 3, [8; 16]));
    let chunk = catalogue.manifest_chunk(upload, 0).await.expect("reads").expect("is there");
    assert_eq!(chunk.blocks, [block(0), block(1), block(2)]);
    assert_eq!(kind(commit(&stage, "g", content).await), ErrorKind::NotFound);
    assert_eq!(kind(catalogue.abandon_upload(upload).await), ErrorKind::NotFound);
    assert_eq!(kind(catalogue.stage(upload, run(3, vec![written(3, pack)])).await), ErrorKind::NotFound);
}

pub async fn missing_blocks_are_named(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let pack = stage.pack(1).await;
    commit_all(&stage, "f", blocks(vec![written(1, pack)])).await;
    let content = blocks(vec![claimed(1), claimed(2), written(3, pack), claimed(4)]);
    let missing = commit(&stage, "g", content).await.expect("answers").expect_err("misses two");
    assert_eq!(missing, Missing(vec![(0, 1), (0, 3)]));
    assert_eq!(stage.tree().await, ["f"]);
    assert_eq!(catalogue.all_blocks(None, 9).await.expect("reads").len(), 1);
    let upload = begin(&stage).await;
    let missing = catalogue.stage(upload, run(0, vec![claimed(1), claimed(7)])).await.expect("answers");
    assert_eq!(missing, Err(Missing(vec![(0, 1)])));
    let again = run(0, vec![claimed(1), written(7, pack)]);
    catalogue.stage(upload, again).await.expect("answers").expect("misses nothing any more");
    catalogue.abandon_upload(upload).await.expect("gives up");
}

pub async fn a_block_is_stored_once(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let (one, two) = (stage.pack(1).await, stage.pack(2).await);
    commit_all(&stage, "f", blocks(vec![written(1, one), claimed(1), written(1, one)])).await;
    commit_all(&stage, "g", blocks(vec![written(1, two), claimed(1)])).await;
    let all = catalogue.all_blocks(None, 9).await.expect("reads");
    assert_eq!(all.iter().map(|(_, at, refs)| (at.place.pack, *refs)).collect::<Vec<_>>(), [(one, 5)]);
    let usage = stage.usage().await;
    assert_eq!((usage.used_bytes, usage.stored_raw_bytes), (5_000, 1_000));
    let live: Vec<u64> = catalogue.packs(None, 9).await.expect("reads").iter().map(|pack| pack.live_bytes).collect();
    assert_eq!(live, [1_016, 0]);
    let (bo, home) = Stage::account(catalogue, "bo").await;
    let guard = guard_of(bo.id, 2_000);
    let elsewhere = catalogue.commit_file(home.id, &path("f"), blocks(vec![claimed(1)]), 0, &guard).await;
    assert!(elsewhere.expect("answers").is_err(), "a space does not know another one's blocks");
}

pub async fn runs_must_be_in_order(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let pack = stage.pack(1).await;
    let upload = begin(&stage).await;
    catalogue.stage(upload, run(0, vec![written(1, pack)])).await.expect("stages").expect("misses nothing");
    let far = StagedRun { chunk: 1, ..run(0, vec![written(2, pack)]) };
    let long = run(1, vec![claimed(1); MANIFEST_CHUNK_BLOCKS]);
    for bad in [run(0, vec![written(2, pack)]), run(2, vec![written(2, pack)]), run(1, vec![]), far, long] {
        assert_eq!(kind(catalogue.stage(upload, bad).await), ErrorKind::InvalidInput);
    }
    catalogue.stage(upload, run(1, vec![written(2, pack)])).await.expect("stages").expect("misses nothing");
    catalogue.abandon_upload(upload).await.expect("gives up");
}

pub async fn sizes_must_match(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let pack = stage.pack(1).await;
    let upload = begin(&stage).await;
    catalogue.stage(upload, run(0, vec![written(1, pack)])).await.expect("stages").expect("misses nothing");
    for size in [0, 1_001, u64::MAX] {
        let content = NewContent::Staged { content: upload, size, tag: [8; 16] };
        let refused = kind(commit(&stage, "f", content).await);
        assert!(matches!(refused, ErrorKind::InvalidInput | ErrorKind::TooLarge), "{size}: {refused:?}");
    }
    assert_eq!(stage.usage().await.reserved_bytes, 5_000);
    commit_all(&stage, "f", NewContent::Staged { content: upload, size: 1, tag: [8; 16] }).await;
}

pub async fn an_abandoned_upload_leaves_nothing(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let pack = stage.pack(1).await;
    commit_all(&stage, "f", blocks(vec![written(1, pack)])).await;
    let upload = begin(&stage).await;
    let staged = run(0, vec![claimed(1), written(2, pack)]);
    catalogue.stage(upload, staged).await.expect("stages").expect("misses nothing");
    catalogue.abandon_upload(upload).await.expect("gives up");
    assert_eq!(stage.usage().await.reserved_bytes, 0);
    super::finish(catalogue).await;
    stage.release_all().await;
    assert_eq!(catalogue.all_blocks(None, 9).await.expect("reads").len(), 1);
    assert!(catalogue.content(upload).await.expect("reads").is_none());
    catalogue.abandon_upload(begin(&stage).await).await.expect("one without blocks goes at once");
}

pub async fn an_upload_of_nothing_is_an_empty_file(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let upload = begin(&stage).await;
    let content = NewContent::Staged { content: upload, size: 0, tag: [8; 16] };
    let changed = commit(&stage, "f", content).await.expect("commits").expect("misses nothing");
    assert_eq!((changed.node.content, changed.node.size), (None, 0));
    assert!(catalogue.all_contents(None, 9).await.expect("reads").is_empty());
}

/// A block with a wide name.
fn wide(name: usize, pack: holdfast_base::PackId) -> StagedBlock {
    let mut id = [0; 32];
    id[..8].copy_from_slice(&(name as u64).to_le_bytes());
    let place = BlockAt { pack, offset: name as u64 * 2_000, sealed_bytes: BLOCK, raw_bytes: BLOCK };
    StagedBlock { id: BlockId(id), written: Some(place) }
}

pub async fn a_long_upload_fills_several_chunks(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let pack = stage.pack(1).await;
    let upload = begin(&stage).await;
    let total = 2 * MANIFEST_CHUNK_BLOCKS + 10;
    let mut next = 0;
    while next < total {
        let first = next % MANIFEST_CHUNK_BLOCKS;
        let count = 100.min(MANIFEST_CHUNK_BLOCKS - first).min(total - next);
        let staged = StagedRun {
            chunk: (next / MANIFEST_CHUNK_BLOCKS) as u64,
            first,
            blocks: (next..next + count).map(|name| wide(name, pack)).collect(),
            tag: [4; 16],
        };
        catalogue.stage(upload, staged).await.expect("stages").expect("misses nothing");
        next += count;
    }
    let size = total as u64 * u64::from(BLOCK) - 1;
    commit_all(&stage, "f", NewContent::Staged { content: upload, size, tag: [8; 16] }).await;
    let last = catalogue.manifest_chunk(upload, 2).await.expect("reads").expect("is there");
    assert_eq!((last.blocks.len(), last.blocks[9]), (10, wide(total - 1, pack).id));
    assert!(catalogue.manifest_chunk(upload, 3).await.expect("reads").is_none());
    stage.set_retention(0, None, None).await;
    stage.remove("f").await.expect("removes");
    stage.release_all().await;
    assert_eq!(catalogue.packs(None, 9).await.expect("reads")[0].live_bytes, 0);
}

pub async fn nothing_comes_alive_in_a_pack_that_is_not_open(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let pack = stage.pack(1).await;
    catalogue.seal_pack(pack, 10).await.expect("seals");
    let refused = || async { kind(commit(&stage, "f", blocks(vec![written(1, pack)])).await) };
    assert_eq!(refused().await, ErrorKind::Unavailable);
    assert_eq!(catalogue.dead_packs(9).await.expect("reads").len(), 1);
    assert_eq!(refused().await, ErrorKind::Unavailable);
    catalogue.forget_pack(pack).await.expect("forgets");
    assert_eq!(refused().await, ErrorKind::Unavailable);
}
