//! Uploads that are continued request by request.

use super::stage::{self, BLOCK, Stage, guard_of, inline, kind, path, run, written};
use crate::catalogue::{Catalogue, Changed};
use crate::cluster::NewInstance;
use crate::types::{
    AccountChange, NameTaken, NewContent, NewResumable, NewSpace, Resumable, Role, StagedRun, Tail, UploadClaim,
};
use bytes::Bytes;
use holdfast_base::limits::UPLOADS_PER_ACCOUNT_MAX;
use holdfast_base::{ErrorKind, Result, Uid};
use std::sync::Arc;

type Place = Arc<dyn Catalogue>;

/// Before they expire.
const NOW_MS: i64 = 2_000;
const EXPIRES_MS: i64 = 10_000;

fn new(stage: &Stage, name: u8, at: &str, length: u64) -> NewResumable {
    NewResumable {
        uid: Uid([name; 16]),
        space: stage.space,
        account: stage.account.id,
        share: 0,
        visit: 0,
        path: path(at),
        length,
        name_taken: NameTaken::Fail,
        expect_seq: None,
        modified_ms: None,
        metadata: "space YW5h".to_owned(),
        tags: Vec::new(),
        block_bytes: BLOCK,
        nonce: [1; 16],
        now_ms: 1,
        expires_ms: EXPIRES_MS,
    }
}

/// What a test elsewhere begins an upload with, and its tail.
pub fn begun(stage: &Stage, name: u8) -> (NewResumable, Tail) {
    (new(stage, name, "f", 1_000), tail(name.into()))
}

async fn begin(stage: &Stage, new: NewResumable) -> UploadClaim {
    let content = stage.catalogue.begin_resumable(new).await.expect("begins");
    stage.catalogue.claim_resumable(content, Some(0), NOW_MS).await.expect("claims")
}

async fn look(stage: &Stage, name: u8) -> Option<Resumable> {
    stage.catalogue.resumable(Uid([name; 16]), NOW_MS).await.expect("reads")
}

fn tail(bytes: u32) -> Tail {
    Tail { bytes, tag: [bytes.to_le_bytes()[0]; 16], sealed: Bytes::from(vec![7; bytes as usize + 80]) }
}

async fn advance(stage: &Stage, claim: UploadClaim, run: Option<StagedRun>, tail: Option<Tail>) -> Result<()> {
    let done = stage.catalogue.advance_resumable(claim, run, tail, EXPIRES_MS).await?;
    done.map_err(|missing| panic!("{missing:?}"))
}

/// Finishes an upload of one block or of none.
async fn end(stage: &Stage, claim: UploadClaim, size: u64, name_taken: Option<NameTaken>) -> Result<Changed> {
    let content = match size {
        1..=100 => inline(size),
        _ => NewContent::Staged { content: claim.content, size, tag: [8; 16] },
    };
    stage.catalogue.finish_resumable(claim, content, name_taken, EXPIRES_MS, &stage.guard()).await
}

pub async fn it_holds_what_it_says(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let pack = stage.pack(1).await;
    let claim = begin(&stage, new(&stage, 1, "f", 2_500)).await;
    assert_eq!(stage.usage().await.reserved_bytes, 2_500);
    advance(&stage, claim, None, Some(tail(10))).await.expect("keeps");
    assert_eq!(look(&stage, 1).await.expect("is there").stored, 10);
    advance(&stage, claim, Some(run(0, vec![written(1, pack), written(2, pack)])), Some(tail(300)))
        .await
        .expect("goes on");
    let upload = look(&stage, 1).await.expect("is there");
    assert_eq!((upload.stored, upload.length, upload.node), (2_300, 2_500, None));
    assert_eq!((upload.path, upload.metadata.as_str()), (path("f"), "space YW5h"));
    assert_eq!(catalogue.resumable_tail(claim.content).await.expect("reads"), Some(tail(300)));
    super::finish(catalogue).await;
    assert_eq!(kind(end(&stage, claim, 2_400, None).await), ErrorKind::InvalidInput, "it is not whole");
    advance(&stage, claim, Some(run(2, vec![written(3, pack)])), None).await.expect("goes on");
    assert_eq!(catalogue.resumable_tail(claim.content).await.expect("reads"), None);
    assert_eq!(look(&stage, 1).await.expect("is there").stored, 2_500, "the last block is short");
    let changed = end(&stage, claim, 2_500, None).await.expect("ends");
    assert_eq!((changed.created, changed.node.size, changed.node.content), (true, 2_500, Some(claim.content)));
    let usage = stage.usage().await;
    assert_eq!((usage.used_bytes, usage.reserved_bytes), (2_500, 0));
}

pub async fn it_holds_no_more_than_was_declared(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let pack = stage.pack(1).await;
    let claim = begin(&stage, new(&stage, 1, "f", 1_500)).await;
    let three = vec![written(1, pack), written(2, pack), written(3, pack)];
    for (run, tail) in [
        (None, Some(tail(1_001))),
        (Some(run(0, vec![written(1, pack)])), Some(tail(501))),
        (Some(run(0, vec![written(1, pack), written(2, pack)])), Some(tail(1))),
        (Some(run(0, three)), None),
        (Some(run(1, vec![written(1, pack)])), None),
    ] {
        assert_eq!(kind(advance(&stage, claim, run, tail).await), ErrorKind::InvalidInput);
    }
    assert_eq!(look(&stage, 1).await.expect("is there").stored, 0);
    let full = NewResumable { length: 10, ..new(&stage, 2, "g", 10) };
    stage.set_quota(Some(1_505)).await;
    assert_eq!(kind(catalogue.begin_resumable(full).await), ErrorKind::NoSpace);
}

pub async fn it_has_one_writer(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let pack = stage.pack(1).await;
    let first = begin(&stage, new(&stage, 1, "f", 1_000)).await;
    advance(&stage, first, None, Some(tail(5))).await.expect("keeps");
    let claim = |from| catalogue.claim_resumable(first.content, Some(from), NOW_MS);
    assert_eq!(kind(claim(4).await), ErrorKind::Conflict);
    advance(&stage, first, None, Some(tail(6))).await.expect("a claim refused takes nothing away");
    let second = claim(6).await.expect("takes over");
    assert_eq!((second.tail_bytes, second.blocks), (6, 0));
    assert_eq!(kind(advance(&stage, first, None, Some(tail(7))).await), ErrorKind::Conflict);
    advance(&stage, second, Some(run(0, vec![written(1, pack)])), None).await.expect("goes on");
    assert_eq!(kind(end(&stage, first, 1_000, None).await), ErrorKind::Conflict);
    end(&stage, second, 1_000, None).await.expect("ends");
    assert_eq!(kind(end(&stage, second, 1_000, None).await), ErrorKind::NotFound);
    assert_eq!(kind(claim(1_000).await), ErrorKind::NotFound);
}

pub async fn it_outlives_instances(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let join =
        |number: u8| catalogue.join(NewInstance { uid: Uid([number; 16]), name: "node".into(), version: "0".into() });
    let here = join(1).await.expect("joins").id;
    let claim = begin(&stage, new(&stage, 1, "f", 1_000)).await;
    advance(&stage, claim, None, Some(tail(5))).await.expect("keeps");
    catalogue.leave(here).await.expect("leaves");
    assert_eq!(catalogue.give_up(0).await.expect("looks"), []);
    join(1).await.expect("joins");
    join(2).await.expect("joins");
    assert_eq!(look(&stage, 1).await.expect("is there").stored, 5);
    assert_eq!(stage.usage().await.reserved_bytes, 1_000);
    advance(&stage, claim, None, Some(tail(6))).await.expect("goes on");
}

pub async fn it_ends_under_its_conditions_or_stays(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let old = stage.write("f.txt", 7).await.node;
    let fail = begin(&stage, new(&stage, 1, "f.txt", 50)).await;
    assert_eq!(kind(end(&stage, fail, 50, None).await), ErrorKind::AlreadyExists);
    assert_eq!((look(&stage, 1).await.expect("stays").node, stage.usage().await.reserved_bytes), (None, 50));

    let seen =
        NewResumable { name_taken: NameTaken::Replace, expect_seq: Some(old.seq), ..new(&stage, 2, "f.txt", 60) };
    let seen = begin(&stage, seen).await;
    let other = stage.write("f.txt", 8).await.node;
    assert_eq!(kind(end(&stage, seen, 60, None).await), ErrorKind::PreconditionFailed);
    assert_eq!(stage.node("f.txt").await.expect("is there"), other);

    let beside = NewResumable { name_taken: NameTaken::KeepBoth, ..new(&stage, 3, "f.txt", 70) };
    let beside = begin(&stage, beside).await;
    assert_eq!(end(&stage, beside, 70, None).await.expect("ends").node.name, "f (2).txt");
    assert_eq!(end(&stage, fail, 50, Some(NameTaken::KeepBoth)).await.expect("ends").node.name, "f (3).txt");
    let changed = end(&stage, seen, 60, Some(NameTaken::Replace)).await.expect("ends");
    assert_eq!((changed.created, changed.node.id, changed.node.size), (false, other.id, 60));
    assert_eq!(stage.tree().await, ["f (2).txt", "f (3).txt", "f.txt"]);
    assert_eq!(stage.usage().await.reserved_bytes, 0);

    let inside = begin(&stage, new(&stage, 4, "no/folder", 10)).await;
    assert_eq!(kind(end(&stage, inside, 10, None).await), ErrorKind::Conflict);
    stage.folder("no").await;
    stage.folder("no/folder").await;
    assert_eq!(kind(end(&stage, inside, 10, Some(NameTaken::Replace)).await), ErrorKind::WrongKind);
    assert_eq!(end(&stage, inside, 10, Some(NameTaken::KeepBoth)).await.expect("ends").node.name, "folder (2)");
}

pub async fn what_was_declared_fits_even_if_the_quota_was_lowered(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let claim = begin(&stage, new(&stage, 1, "f", 90)).await;
    stage.set_quota(Some(10)).await;
    end(&stage, claim, 90, None).await.expect("what was reserved can be committed");
}

pub async fn a_finished_one_is_remembered_for_a_while(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let modified = NewResumable { modified_ms: Some(77), ..new(&stage, 1, "f", 50) };
    let claim = begin(&stage, modified).await;
    let listed = |now_ms| catalogue.resumables_of(stage.account.id, 0, now_ms, 9);
    assert_eq!(listed(NOW_MS).await.expect("lists").len(), 1);
    let node = end(&stage, claim, 50, None).await.expect("ends").node;
    assert_eq!(node.modified_ms, 77);
    let upload = look(&stage, 1).await.expect("is remembered");
    assert_eq!((upload.stored, upload.node), (50, Some((node.id, node.seq))));
    assert!(listed(NOW_MS).await.expect("lists").is_empty());
    assert!(catalogue.resumable(Uid([1; 16]), EXPIRES_MS).await.expect("reads").is_none());
    assert_eq!(catalogue.expire_resumables(EXPIRES_MS - 1, 9).await.expect("looks"), 0);
    assert_eq!(catalogue.expire_resumables(EXPIRES_MS, 9).await.expect("looks"), 1);
    assert_eq!(kind(catalogue.abandon_upload(claim.content).await), ErrorKind::NotFound);
    assert_eq!(stage.node("f").await.expect("the file stays"), node);
}

pub async fn an_expired_one_gives_everything_back(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let pack = stage.pack(1).await;
    for name in 1..=3 {
        let claim = begin(&stage, new(&stage, name, "f", 1_500)).await;
        advance(&stage, claim, Some(run(0, vec![written(name, pack)])), Some(tail(9))).await.expect("goes on");
    }
    assert!(look(&stage, 1).await.is_some());
    let late = look(&stage, 3).await.expect("is there").content;
    assert_eq!(kind(catalogue.claim_resumable(late, None, EXPIRES_MS).await), ErrorKind::NotFound);
    let alive = catalogue.claim_resumable(late, None, NOW_MS).await.expect("claims");
    let next = catalogue.advance_resumable(alive, None, Some(tail(10)), EXPIRES_MS + 1).await;
    next.expect("goes on").expect("misses nothing");
    assert_eq!(catalogue.expire_resumables(EXPIRES_MS, 1).await.expect("expires"), 1);
    assert_eq!(catalogue.expire_resumables(EXPIRES_MS, 9).await.expect("expires"), 1);
    assert_eq!(catalogue.expire_resumables(EXPIRES_MS, 9).await.expect("expires"), 0);
    super::finish(catalogue).await;
    stage.release_all().await;
    assert_eq!(stage.usage().await.reserved_bytes, 1_500);
    catalogue.abandon_upload(late).await.expect("gives up");
    stage.release_all().await;
    assert_eq!((stage.usage().await.reserved_bytes, stage.usage().await.stored_raw_bytes), (0, 0));
    assert_eq!(catalogue.all_blocks(None, 9).await.expect("reads"), []);
    assert_eq!(catalogue.resumable_tail(late).await.expect("reads"), None);
}

pub async fn it_goes_with_its_account_space_or_membership(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let (bo, _) = Stage::account(catalogue, "bo").await;
    let shared = NewSpace {
        uid: Uid([9; 16]),
        name: "shared".to_owned(),
        owner: stage.account.id,
        wrapped_key: vec![6; 60],
        quota_bytes: None,
        now_ms: 1,
    };
    let shared = catalogue.create_space(shared).await.expect("makes").id;
    let there = Stage { catalogue: Arc::clone(catalogue), account: bo.clone(), space: shared };
    let upload = |name| {
        let there = &there;
        async move {
            let member = there.catalogue.put_member(there.space, there.account.id, Role::Editor, vec![6; 60]).await;
            member.expect("adds");
            let claim = begin(there, new(there, name, &format!("f{name}"), 50)).await;
            advance(there, claim, None, Some(tail(9))).await.expect("keeps");
            claim
        }
    };
    upload(1).await;
    catalogue.remove_member(shared, bo.id).await.expect("removes");
    assert!(look(&there, 1).await.is_none());
    upload(5).await;
    let disable = |disabled| AccountChange { disabled: Some(disabled), ..AccountChange::default() };
    catalogue.change_account(bo.id, disable(true)).await.expect("disables");
    assert!(look(&there, 5).await.is_none() && there.usage().await.reserved_bytes == 0);
    catalogue.change_account(bo.id, disable(false)).await.expect("enables");
    let done = upload(2).await;
    let guard = guard_of(bo.id, NOW_MS);
    catalogue.finish_resumable(done, inline(50), None, EXPIRES_MS, &guard).await.expect("ends");
    upload(3).await;
    catalogue.remove_account(bo.id, 9).await.expect("removes");
    assert!(look(&there, 2).await.is_none() && look(&there, 3).await.is_none());
    assert_eq!(there.usage().await.reserved_bytes, 0);
    let mine = Stage { catalogue: Arc::clone(catalogue), account: stage.account.clone(), space: shared };
    begin(&mine, new(&mine, 4, "f4", 50)).await;
    catalogue.remove_space(shared, 9).await.expect("removes");
    assert!(look(&mine, 4).await.is_none());
    super::finish(catalogue).await;
    stage::Stage::release_all(&stage).await;
}

pub async fn an_account_has_a_limited_number(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let numbered = |number: usize| {
        let mut uid = [0; 16];
        uid[..8].copy_from_slice(&(number as u64).to_le_bytes());
        NewResumable { uid: Uid(uid), ..new(&stage, 0, "f", 1) }
    };
    for number in 0..UPLOADS_PER_ACCOUNT_MAX {
        catalogue.begin_resumable(numbered(number)).await.expect("begins");
    }
    let more = catalogue.begin_resumable(numbered(UPLOADS_PER_ACCOUNT_MAX)).await;
    assert!(matches!(kind(more), ErrorKind::TooManyRequests { .. }));
    while catalogue.expire_resumables(EXPIRES_MS, 400).await.expect("expires") > 0 {}
    catalogue.begin_resumable(numbered(0)).await.expect("begins again");
}

pub async fn its_file_has_the_tags_it_was_begun_with(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let tags = ["Paid", "Été"].map(|text| crate::types::Tag::new(text).expect("a tag"));
    let begun = async |name, at| {
        let new = NewResumable { tags: tags.to_vec(), ..new(&stage, name, at, 50) };
        let claim = begin(&stage, new).await;
        advance(&stage, claim, None, Some(tail(50))).await.expect("advances");
        catalogue.claim_resumable(claim.content, Some(50), NOW_MS).await.expect("claims")
    };
    let done = end(&stage, begun(1, "f").await, 50, None).await.expect("ends");
    assert!(done.node.has_properties);
    assert_eq!(look(&stage, 1).await.expect("is remembered").node, Some((done.node.id, done.node.seq)));
    assert_eq!(stage.search_paths("ete").await, ["/f"]);
    let given_up = begun(2, "g").await;
    catalogue.abandon_upload(given_up.content).await.expect("is given up");
    assert_eq!(stage.tree().await, ["f"]);
}
