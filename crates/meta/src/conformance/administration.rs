//! The log of who did what, and the figures of nodes.

use super::stage::{Stage, path, run, written};
use crate::audit::{amend, noting};
use crate::catalogue::{Catalogue, NewUpload};
use crate::cluster::NewInstance;
use crate::types::{AccountChange, AuditEntry, AuditNote, AuditQuery, Capacity, Sample};
use holdfast_base::{AccountId, PackName, Uid};
use std::sync::Arc;

type Place = Arc<dyn Catalogue>;

fn note(at_ms: i64, account: &str, action: &str) -> AuditNote {
    AuditNote {
        at_ms,
        account: account.into(),
        address: format!("192.0.2.{at_ms}"),
        node: "one".into(),
        action: action.into(),
        result: "ok".into(),
        ..AuditNote::default()
    }
}

fn query() -> AuditQuery {
    AuditQuery { limit: 100, ..AuditQuery::default() }
}

async fn times(catalogue: &Place, query: AuditQuery) -> Vec<i64> {
    catalogue.audit(query).await.expect("reads").iter().map(|entry| entry.note.at_ms).collect()
}

pub async fn entries_are_found_newest_first_by_every_filter(catalogue: &Place) {
    let notes =
        [(3, "ana", "session.begin"), (1, "ben", "session.end"), (2, "ana", "space.change"), (3, "", "session.begin")];
    catalogue.add_audit(notes.iter().map(|(at, who, what)| note(*at, who, what)).collect()).await.expect("writes");
    assert_eq!(times(catalogue, query()).await, [3, 3, 2, 1]);
    assert_eq!(times(catalogue, AuditQuery { account: Some("ana".into()), ..query() }).await, [3, 2]);
    assert_eq!(times(catalogue, AuditQuery { action: Some("session".into()), ..query() }).await, [3, 3, 1]);
    assert_eq!(times(catalogue, AuditQuery { action: Some("sess_on".into()), ..query() }).await, []);
    assert_eq!(times(catalogue, AuditQuery { address: Some("192.0.2.2".into()), ..query() }).await, [2]);
    assert_eq!(times(catalogue, AuditQuery { from_ms: Some(2), to_ms: Some(3), ..query() }).await, [2]);
    // Page by page, also between entries of one time.
    let (mut before, mut seen) = (None, Vec::new());
    loop {
        let page = catalogue.audit(AuditQuery { before, limit: 1, ..query() }).await.expect("reads");
        let [AuditEntry { id, note }] = page.as_slice() else { break };
        before = Some((note.at_ms, *id));
        seen.push(note.clone());
    }
    assert_eq!(seen.len(), 4);
    let quote = AuditNote { object: "' OR 1=1 --\u{0}\n".into(), ..note(9, "ana", "x") };
    catalogue.add_audit(vec![quote]).await.expect("writes");
    assert_eq!(catalogue.audit(query()).await.expect("reads")[0].note.object, "' OR 1=1 --\u{fffd}\u{fffd}");
}

pub async fn the_log_is_bounded_by_age_and_number(catalogue: &Place) {
    catalogue.add_audit((1..=10).map(|at| note(at, "ana", "x")).collect()).await.expect("writes");
    assert_eq!(catalogue.trim_audit(0, 10, 100).await.expect("trims"), 0);
    assert_eq!(catalogue.trim_audit(3, 100, 100).await.expect("trims"), 2);
    assert_eq!(times(catalogue, query()).await, [10, 9, 8, 7, 6, 5, 4, 3]);
    assert_eq!(catalogue.trim_audit(0, 5, 2).await.expect("trims"), 2);
    assert_eq!(catalogue.trim_audit(0, 5, 2).await.expect("trims"), 1);
    assert_eq!(times(catalogue, query()).await, [10, 9, 8, 7, 6]);
}

pub async fn a_change_is_written_with_its_note_or_not_at_all(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let disable = AccountChange { disabled: Some(true), ..AccountChange::default() };
    let (done, left) = noting(note(1, "root", "account.change"), async {
        amend(|note| note.detail = "disabled".into());
        catalogue.change_account(stage.account.id, disable.clone()).await
    })
    .await;
    assert!(done.expect("changes").disabled && left.is_none());
    let entries = catalogue.audit(query()).await.expect("reads");
    assert_eq!((entries.len(), entries[0].note.detail.as_str()), (1, "disabled"));
    // One that is refused leaves nothing behind but the note in the caller's hand.
    let nobody = AccountId(i64::MAX);
    let (done, left) =
        noting(note(2, "root", "account.change"), catalogue.change_account(nobody, disable.clone())).await;
    assert!(done.is_err() && left == Some(note(2, "root", "account.change")));
    // Two changes are one entry, and what changes no account leaves the note to the caller.
    let ((), left) = noting(note(3, "root", "account.change"), async {
        for _ in 0..2 {
            catalogue.change_account(stage.account.id, disable.clone()).await.expect("changes");
        }
    })
    .await;
    assert_eq!(left, None);
    let folder = path("folder");
    let guard = stage.guard();
    let (_, left) = noting(note(4, "ana", "file.make"), catalogue.make_folder(stage.space, &folder, &guard)).await;
    assert!(left.is_some());
    assert_eq!(times(catalogue, query()).await, [3, 1]);
}

pub async fn nodes_say_how_they_do(catalogue: &Place) {
    let new = NewInstance { uid: Uid([1; 16]), name: "one".into(), version: "0.1.0".into() };
    let id = catalogue.join(new).await.expect("joins").id;
    let sample = |at_ms: i64| Sample { node: "one".into(), at_ms, figures: format!("{{\"at\":{at_ms}}}") };
    for at_ms in [60_000, 120_000, 180_000] {
        catalogue.put_sample(id, sample(at_ms + 5), Some(sample(at_ms)), 60_000).await.expect("writes");
    }
    catalogue.put_sample(id, sample(180_015), None, 60_000).await.expect("writes");
    assert_eq!(catalogue.samples().await.expect("reads"), [sample(180_015)]);
    assert_eq!(catalogue.sample_minutes(0, 10).await.expect("reads"), [sample(120_000), sample(180_000)]);
    assert_eq!(catalogue.sample_minutes(120_001, 10).await.expect("reads"), [sample(180_000)]);
    catalogue.leave(id).await.expect("leaves");
    assert_eq!(catalogue.samples().await.expect("reads"), []);
}

pub async fn what_is_stored_is_summed(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let before = catalogue.pressure().await.expect("reads");
    let new = NewInstance { uid: Uid([1; 16]), name: "one".into(), version: "0.1.0".into() };
    let instance = catalogue.join(new).await.expect("joins").id;
    let pack = catalogue.open_pack(PackName([1; 16]), instance, 1).await.expect("opens");
    let upload =
        NewUpload { space: stage.space, instance, reserve_bytes: 5_000, block_bytes: 4_096, nonce: [1; 16], now_ms: 1 };
    let upload = catalogue.begin_upload(upload).await.expect("begins");
    catalogue.stage(upload, run(0, vec![written(1, pack)])).await.expect("stages").expect("misses nothing");
    let now = catalogue.pressure().await.expect("reads");
    assert_eq!(
        (now.packs_open, now.uploads, now.reserved_bytes),
        (1, before.uploads + 1, before.reserved_bytes + 5_000)
    );
    assert!(now.live_bytes > before.live_bytes, "{now:?}");
    catalogue.abandon_upload(upload).await.expect("gives up");
    while catalogue.release_garbage(100).await.expect("frees") > 0 {}
    let capacity = |hour: i64, packs| Capacity {
        at_ms: hour * 3_600_000,
        packs,
        total_bytes: 5,
        live_bytes: 4,
        used_bytes: 3,
        free_bytes: None,
    };
    for one in [capacity(1, 1), capacity(2, 2), Capacity { at_ms: 2 * 3_600_000 + 5, ..capacity(2, 3) }] {
        catalogue.put_capacity(one).await.expect("writes");
    }
    assert_eq!(catalogue.capacities(0).await.expect("reads"), [capacity(1, 1), capacity(2, 3)]);
    catalogue.put_capacity(capacity(366 * 24 + 2, 1)).await.expect("writes");
    assert_eq!(catalogue.capacities(0).await.expect("reads")[0], capacity(2, 3));
}
