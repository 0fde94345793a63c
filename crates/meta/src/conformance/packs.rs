//! Packs and reclaim.

use super::stage::{Stage, THIS, block, blocks, kind, path, written};
use crate::catalogue::{Catalogue, MovedBlock};
use crate::types::{PackState, Place as BlockAt};
use holdfast_base::{BlockId, ErrorKind, PackId, PackName, SpaceId};
use std::sync::Arc;

type Place = Arc<dyn Catalogue>;

async fn file(stage: &Stage, at: &str, names: &[u8], pack: PackId) {
    let content = blocks(names.iter().map(|&name| written(name, pack)).collect());
    let done = stage.catalogue.commit_file(stage.space, &path(at), content, 0, &stage.guard()).await;
    done.expect("commits").expect("misses nothing");
}

async fn live(catalogue: &Place) -> Vec<u64> {
    catalogue.packs(None, 99).await.expect("reads").iter().map(|pack| pack.live_bytes).collect()
}

pub async fn live_bytes_follow_references(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.set_retention(0, None, None).await;
    let pack = stage.pack(1).await;
    file(&stage, "f", &[1, 2], pack).await;
    file(&stage, "g", &[2, 3], pack).await;
    assert_eq!(live(catalogue).await, [3 * 1_016]);
    stage.remove("f").await.expect("removes");
    stage.release_all().await;
    assert_eq!(live(catalogue).await, [2 * 1_016]);
    stage.remove("g").await.expect("removes");
    stage.release_all().await;
    assert_eq!(live(catalogue).await, [0]);
}

pub async fn a_dead_pack_is_forgotten(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.set_retention(0, None, None).await;
    let pack = stage.pack(1).await;
    assert_eq!(kind(catalogue.open_pack(PackName([1; 16]), THIS, 1).await), ErrorKind::AlreadyExists);
    file(&stage, "f", &[1], pack).await;
    catalogue.seal_pack(pack, 4_000).await.expect("seals");
    stage.pack(2).await;
    assert!(catalogue.dead_packs(9).await.expect("reads").is_empty(), "one is live and one is open");
    assert_eq!(kind(catalogue.forget_pack(pack).await), ErrorKind::Conflict);
    stage.remove("f").await.expect("removes");
    stage.release_all().await;
    for _ in 0..2 {
        let dead = catalogue.dead_packs(9).await.expect("reads");
        assert_eq!(dead.iter().map(|dead| (dead.id, dead.state)).collect::<Vec<_>>(), [(pack, PackState::Dead)]);
        assert_eq!(dead[0].total_bytes, 4_000);
    }
    catalogue.forget_pack(pack).await.expect("forgets");
    assert_eq!(kind(catalogue.forget_pack(pack).await), ErrorKind::NotFound);
    assert_eq!(kind(catalogue.seal_pack(pack, 1).await), ErrorKind::NotFound);
    assert_eq!(catalogue.packs(None, 9).await.expect("reads").len(), 1);
}

pub async fn blocks_move_unless_they_are_gone(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let (old, new) = (stage.pack(1).await, stage.pack(2).await);
    file(&stage, "f", &[1, 2], old).await;
    let at = |name: u8| written(name, old).written.expect("was written");
    let to = |offset| BlockAt { pack: new, offset, sealed_bytes: 900, raw_bytes: 1_000 };
    let one_move =
        |name: u8, from: BlockAt, offset| MovedBlock { space: stage.space, id: block(name), from, to: to(offset) };
    let moves = vec![
        one_move(1, at(1), 0),
        one_move(2, BlockAt { offset: 1, ..at(2) }, 900),
        one_move(3, at(3), 1_800),
        MovedBlock { space: SpaceId(999), ..one_move(2, at(2), 900) },
    ];
    assert_eq!(catalogue.move_blocks(moves).await.expect("moves"), 1);
    assert_eq!(live(catalogue).await, [1_016, 900]);
    assert_eq!(stage.usage().await.stored_sealed_bytes, 1_916);
    let place = catalogue.block_places(stage.space, &[block(1)]).await.expect("reads")[0].expect("is there");
    assert_eq!((place.place, place.pack_name), (to(0), PackName([2; 16])));
}

pub async fn packs_and_blocks_are_listed_in_pages(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let one = stage.pack(1).await;
    let two = stage.pack(2).await;
    file(&stage, "f", &[5, 1, 3], one).await;
    file(&stage, "g", &[4, 2], two).await;
    let first = catalogue.packs(None, 1).await.expect("reads");
    assert_eq!((first.len(), first[0].id, first[0].state), (1, one, PackState::Open));
    assert_eq!(catalogue.packs(Some(one), 9).await.expect("reads")[0].id, two);
    let page = catalogue.pack_blocks(one, 2_000, 2).await.expect("reads");
    let ids: Vec<(SpaceId, BlockId)> = page.iter().map(|(space, at)| (*space, at.id)).collect();
    assert_eq!(ids, [(stage.space, block(1)), (stage.space, block(3))]);
    let page = catalogue.pack_blocks(one, page[1].1.place.offset + 1, 2).await.expect("reads");
    assert_eq!(page.iter().map(|(_, at)| at.id).collect::<Vec<_>>(), [block(5)]);
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = catalogue.all_blocks(after, 2).await.expect("reads");
        let Some((space, last, _)) = page.last() else { break };
        after = Some((*space, last.id));
        seen.extend(page.iter().map(|(_, at, _)| at.id));
    }
    assert_eq!(seen, [1, 2, 3, 4, 5].map(block));
}
