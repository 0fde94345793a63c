//! Damage is found, and repaired where that is possible.

use super::Place;
use crate::catalogue::Catalogue;
use crate::conformance::{Stage, blocks, claimed, finish, path, resumable, written};
use crate::types::Finding;
use std::sync::Arc;

/// A catalogue with some of everything, closed.
async fn furnished() -> Place {
    let place = Place::new();
    let catalogue = place.open();
    let stage = Stage::new(&(Arc::clone(&catalogue) as Arc<dyn Catalogue>)).await;
    stage.folder("d").await;
    stage.folder("d/sub").await;
    stage.write("d/f", 10).await;
    stage.write("d/f", 20).await;
    stage.write("d/sub/g", 5).await;
    stage.write("gone", 7).await;
    stage.remove("gone").await.expect("removes");
    stage.write("h1", 4).await;
    for to in ["h2", "h3"] {
        stage.link(&path("h1"), &path(to), &stage.guard()).await.expect("links");
    }
    let pack = stage.pack(1).await;
    for (at, content) in [("one", vec![written(1, pack), written(2, pack)]), ("two", vec![claimed(2)])] {
        let done = catalogue.commit_file(stage.space, &path(at), blocks(content), 0, &stage.guard()).await;
        done.expect("commits").expect("misses nothing");
    }
    let (new, tail) = resumable::begun(&stage, 5);
    let upload = catalogue.begin_resumable(new).await.expect("begins");
    let claim = catalogue.claim_resumable(upload, Some(0), 2).await.expect("claims");
    catalogue.advance_resumable(claim, None, Some(tail), 9).await.expect("keeps").expect("misses nothing");
    let lock = stage.new_lock("t", true, false);
    catalogue.lock(stage.space, &path("d/sub/g"), lock, &stage.guard()).await.expect("locks");
    finish(&stage.catalogue).await;
    drop(stage);
    catalogue.close().await.expect("closes");
    place
}

fn codes(findings: &[Finding]) -> Vec<&str> {
    let mut codes: Vec<&str> = findings.iter().map(|finding| finding.code.as_str()).collect();
    codes.dedup();
    codes
}

/// Breaks a catalogue by SQL; the check must find these codes, the repair must leave a clean one.
async fn breaks(sql: &str, expected: &[&str]) {
    let place = furnished().await;
    let broken = place.raw().execute(sql, []).expect(sql);
    assert!(broken > 0, "{sql}");
    let catalogue = place.open();
    let found = catalogue.check(false).await.expect("checks");
    assert_eq!(codes(&found), expected, "{sql}: {found:#?}");
    assert!(found.iter().all(|finding| finding.repaired.is_none() && !finding.loss), "{sql}: {found:#?}");
    let repaired = catalogue.check(true).await.expect("repairs");
    assert!(repaired.iter().all(|finding| finding.repaired.is_some()), "{sql}: {repaired:#?}");
    assert_eq!(catalogue.check(false).await.expect("checks"), [], "{sql}");
    while catalogue.release_garbage(100).await.expect("releases") > 0 {}
    assert_eq!(catalogue.check(true).await.expect("checks"), [], "{sql}");
}

#[tokio::test]
async fn sums_are_counted_anew() {
    for column in ["used_bytes", "version_bytes", "reserved_bytes", "raw_bytes", "sealed_bytes", "locks"] {
        breaks(&format!("UPDATE space_sum SET {column} = {column} + 3"), &["usage-sum"]).await;
    }
    breaks("UPDATE pack SET live_bytes = 0", &["pack-live"]).await;
    breaks("UPDATE trash SET bytes = 8", &["trash-sum"]).await;
    breaks("UPDATE space_sum SET seq = 1", &["space-seq"]).await;
    breaks("UPDATE counter SET next_id = 2", &["id-counter"]).await;
}

#[tokio::test]
async fn references_are_counted_anew() {
    breaks("UPDATE content SET refs = 9 WHERE inline IS NOT NULL", &["content-refs"]).await;
    breaks("UPDATE block SET refs = 9", &["block-refs"]).await;
    breaks("UPDATE node SET has_properties = 1 WHERE name = 'd'", &["node-properties"]).await;
    breaks("UPDATE node SET size = 11 WHERE name = 'g'", &["node-size", "usage-sum"]).await;
    breaks("UPDATE version SET size = 11", &["version-size", "usage-sum"]).await;
    breaks("UPDATE pack SET state = 2", &["pack-dead"]).await;
}

#[tokio::test]
async fn orphans_are_found_and_put_away() {
    breaks("DELETE FROM node WHERE name = 'sub'", &["node-parent", "lock-orphan", "word-orphan"]).await;
    breaks("DELETE FROM trash", &["node-limbo"]).await;
    breaks(
        "DELETE FROM node WHERE name LIKE 't%' AND parent_id < 0",
        &["trash-orphan", "content-refs", "usage-sum", "word-orphan"],
    )
    .await;
    breaks("DELETE FROM version", &["content-refs", "usage-sum"]).await;
    breaks("DELETE FROM lock_above", &["lock-above"]).await;
    breaks("UPDATE node SET content_id = NULL, size = 0 WHERE name = 'one'", &["content-refs", "usage-sum"]).await;
    breaks("INSERT INTO upload VALUES (77777, 2, 5, 0, 0)", &["upload-orphan", "usage-sum"]).await;
    breaks("DELETE FROM upload", &["content-orphan", "resumable-orphan", "usage-sum"]).await;
    breaks(
        "UPDATE upload SET instance_id = -1, content_id = content_id + 50000",
        &["content-orphan", "upload-orphan", "resumable-orphan"],
    )
    .await;
    breaks("DELETE FROM resumable", &["upload-orphan", "tail-orphan"]).await;
    breaks("UPDATE resumable SET tail_bytes = 0", &["tail-orphan"]).await;
    breaks("INSERT INTO property (node_id, namespace, name, xml) VALUES (77777, '', 'p', '')", &["property-orphan"])
        .await;
    breaks("INSERT INTO version (node_id, seq, space_id, size, modified_ms, superseded_ms, by_id) VALUES (77777, 1, 2, 4, 0, 0, 0)", &["version-orphan", "usage-sum"]).await;
    breaks("INSERT INTO manifest (content_id, chunk, tag, blocks) VALUES (77777, 0, x'00', x'')", &["manifest-orphan"])
        .await;
}

#[tokio::test]
async fn names_of_a_file_that_do_not_fit_are_files_of_their_own() {
    breaks("DELETE FROM bond WHERE node_id = bond_id", &["bond-number"]).await;
    breaks("UPDATE bond SET bond_id = node_id", &["bond-alone"]).await;
    breaks("INSERT INTO bond (node_id, bond_id, space_id) VALUES (77777, 1, 2)", &["bond-orphan"]).await;
    breaks(
        "UPDATE node SET size = 20, content_id = (SELECT content_id FROM node WHERE name = 'f') WHERE name = 'h2'",
        &["bond-content", "content-refs", "usage-sum"],
    )
    .await;
    breaks("UPDATE posix SET mode = 1 WHERE node_id = (SELECT id FROM node WHERE name = 'h2')", &["bond-attributes"])
        .await;
    breaks("DELETE FROM posix WHERE node_id = (SELECT id FROM node WHERE name = 'h1')", &["bond-attributes"]).await;
    breaks("UPDATE node SET modified_ms = 1 WHERE name = 'h3'", &["bond-attributes"]).await;
    breaks("UPDATE node SET parent_id = -space_id, name = 't0' WHERE name = 'h1'", &["node-limbo", "bond-removed"])
        .await;
    breaks(
        "DELETE FROM node WHERE name = 'h1'",
        &["posix-orphan", "bond-orphan", "content-refs", "usage-sum", "word-orphan"],
    )
    .await;
}

#[tokio::test]
async fn the_index_of_words_is_made_right() {
    breaks("DELETE FROM unindexed", &["word-node"]).await;
    breaks("INSERT INTO unindexed VALUES (2, 77777)", &["word-orphan"]).await;
    breaks("INSERT INTO word VALUES (2, 0, 'x', 77777)", &["word-orphan"]).await;
    let place = furnished().await;
    let catalogue: Arc<dyn Catalogue> = place.open();
    while catalogue.index_words().await.expect("indexes") {}
    finish(&catalogue).await;
    for sql in [
        "DELETE FROM word WHERE word = 'sub'",
        "UPDATE word SET word = 'subway' WHERE word = 'sub'",
        "INSERT INTO word SELECT space_id, 3, 'x', node_id FROM word WHERE word = 'sub'",
    ] {
        assert_eq!(place.raw().execute(sql, []).expect(sql), 1, "{sql}");
        assert_eq!(codes(&catalogue.check(false).await.expect("checks")), ["word-node"], "{sql}");
        assert!(catalogue.check(true).await.expect("repairs")[0].repaired.is_some());
        while catalogue.index_words().await.expect("indexes") {}
        finish(&catalogue).await;
    }
}

#[tokio::test]
async fn losses_are_named_and_not_covered_up() {
    for (sql, code) in [
        ("DELETE FROM content WHERE inline IS NOT NULL AND size = 20", "content-missing"),
        ("DELETE FROM block", "block-missing"),
        ("DELETE FROM pack", "block-pack"),
        ("DELETE FROM tail", "tail-missing"),
        ("DELETE FROM manifest", "manifest-blocks"),
        ("UPDATE block SET offset = 5, pack_id = pack_id", "block-overlap"),
        ("UPDATE node SET parent_id = id WHERE name = 'sub'", "node-cycle"),
        ("UPDATE content SET inline = NULL", "content-bytes"),
    ] {
        let place = furnished().await;
        place.raw().execute(sql, []).expect(sql);
        let catalogue = place.open();
        for repair in [false, true, false] {
            let found = catalogue.check(repair).await.expect("checks");
            let lost: Vec<&Finding> = found.iter().filter(|finding| finding.loss).collect();
            assert!(lost.iter().any(|finding| finding.code == code), "{sql}: {found:#?}");
        }
    }
}

#[tokio::test]
async fn a_flipped_bit_in_a_value_is_found() {
    let place = furnished().await;
    let mut file = std::fs::read(place.path()).expect("reads");
    // The nonce of an inline content: sixteen bytes that only the row itself knows.
    let at = file.windows(32).position(|window| window == [[1; 16], [2; 16]].concat()).expect("is in the file");
    file[at + 3] ^= 0x10;
    std::fs::write(place.path(), file).expect("writes");
    let found = place.open().check(true).await.expect("checks");
    assert_eq!(codes(&found), ["row-value"], "{found:#?}");
    assert!(found.iter().all(|finding| finding.loss && finding.message.starts_with("content (id)")));
}

/// Pages, counted from 0, that hold nothing: leaves of the list of free pages (SQLite's file format, 1.5). Migrations leave some.
fn unused_pages(file: &[u8]) -> Vec<usize> {
    let number = |at: usize| u32::from_be_bytes(file[at..at + 4].try_into().expect("four bytes")) as usize;
    let (mut unused, mut trunk) = (Vec::new(), number(32));
    while trunk != 0 {
        let at = (trunk - 1) * 4_096;
        unused.extend((0..number(at + 4)).map(|leaf| number(at + 8 + 4 * leaf) - 1));
        trunk = number(at);
    }
    unused
}

#[tokio::test]
async fn a_destroyed_page_is_reported_and_never_a_crash() {
    let place = furnished().await;
    let whole = std::fs::read(place.path()).expect("reads");
    let unused = unused_pages(&whole);
    for page in (1..whole.len() / 4_096).filter(|page| !unused.contains(page)) {
        let mut file = whole.clone();
        file[page * 4_096..][..4_096].fill(0x5a);
        std::fs::write(place.path(), file).expect("writes");
        let opened = crate::sqlite::SqliteCatalogue::open(&place.path(), &crate::sqlite::Options::default());
        let Ok(catalogue) = opened else { continue };
        let found = catalogue.check(false).await;
        assert!(found.as_ref().map_or(true, |found| !found.is_empty()), "page {page}: {found:#?}");
    }
}
