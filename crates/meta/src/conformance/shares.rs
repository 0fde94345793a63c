//! Shares.

use super::stage::{Stage, inline, kind, path};
use crate::catalogue::{Catalogue, Guard};
use crate::types::{
    Access, LinkLock, NewShare, NewVisit, NodeKind, SearchIn, ShareChange, Shared, Through, VISITS_PER_LINK_MAX, Visit,
};
use crate::types::{AccountChange, NameTaken, NewContent, NewResumable, Role, SearchQuery, Tail};
use holdfast_base::limits::{UPLOADS_PER_LINK_MAX, UPLOADS_PER_VISIT_MAX};
use holdfast_base::{AccountId, ErrorKind, NodeId, Result, Uid};
use std::sync::Arc;

type Place = Arc<dyn Catalogue>;

fn new(stage: &Stage, number: u8, node: NodeId, with: Option<(AccountId, &str)>) -> NewShare {
    let link = with.is_none().then(|| LinkLock {
        sealed: vec![1; 60],
        proof: vec![2; 32],
        secret: vec![3; 80],
        has_password: false,
    });
    NewShare {
        uid: Uid([number; 16]),
        space: stage.space,
        node,
        by: stage.account.id,
        with: with.map(|(account, name)| (account, name.to_owned())),
        label: "for the trip".into(),
        access: Access::Write,
        wrapped_key: vec![4; 81],
        link,
        expires_ms: None,
        downloads_max: None,
        now_ms: 2_000,
    }
}

async fn share(stage: &Stage, new: NewShare) -> Shared {
    stage.catalogue.put_share(new).await.expect("shares")
}

async fn link(stage: &Stage, number: u8, node: NodeId) -> Shared {
    share(stage, new(stage, number, node, None)).await
}

async fn begin(stage: &Stage, share: i64, lookup: &str) -> Visit {
    let new = NewVisit { share, lookup: lookup.to_owned(), sealed: vec![5; 60], now_ms: 3_000, expires_ms: 9_000 };
    stage.catalogue.begin_visit(new).await.expect("begins")
}

fn through(stage: &Stage, shared: &Shared, base: &str, now_ms: i64) -> Guard {
    let through = Through { share: shared.share.id, space: stage.space, base: path(base), writes: true };
    Guard { through: vec![through], ..stage.guard_at(now_ms) }
}

pub async fn a_share_goes_where_its_folder_goes(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let (ben, _) = Stage::account(catalogue, "ben").await;
    let folder = stage.folder("d").await;
    let made = share(&stage, new(&stage, 1, folder.id, Some((ben.id, "d (ana)")))).await;
    assert_eq!((made.share.by_name.as_str(), made.share.account_name.as_str()), ("ana", "ben"));
    assert_eq!(made.place, Some((path("d"), NodeKind::Folder)));
    let found = catalogue.share_by_name(ben.id, "d (ana)").await.expect("reads").expect("is there");
    assert_eq!((&found, found.space.id), (&made, stage.space));
    assert_eq!(catalogue.share(Uid([1; 16])).await.expect("reads"), Some(made.clone()));
    assert_eq!(catalogue.share_by_id(made.share.id).await.expect("reads"), Some(made.clone()));
    stage.folder("e").await;
    stage.relocate("d", "e/f", false).await.expect("moves");
    let place = async || catalogue.share_by_id(made.share.id).await.expect("reads").expect("is there").place;
    assert_eq!(place().await, Some((path("e/f"), NodeKind::Folder)));
    stage.remove("e").await.expect("removes");
    let entry = catalogue.trash(stage.space, None, 1).await.expect("reads").remove(0).id;
    assert_eq!(place().await, None, "it leads nowhere while it is in the trash");
    assert_eq!(kind(catalogue.put_share(new(&stage, 2, folder.id, None)).await), ErrorKind::NotFound);
    catalogue.restore_trash(stage.space, entry, None, &stage.guard()).await.expect("restores");
    assert_eq!(place().await, Some((path("e/f"), NodeKind::Folder)));
    stage.remove("e").await.expect("removes");
    catalogue.purge_trash(stage.space, None).await.expect("purges");
    stage.release_all().await;
    assert_eq!(catalogue.share_by_id(made.share.id).await.expect("reads"), None, "it ends with its node");
    assert_eq!(kind(catalogue.remove_share(made.share.id).await), ErrorKind::NotFound);
}

pub async fn a_share_is_named_beside_others(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let (ben, _) = Stage::account(catalogue, "ben").await;
    let (first, second) = (stage.folder("a").await, stage.folder("b").await);
    let file = stage.write("f", 1).await.node;
    share(&stage, new(&stage, 1, first.id, Some((ben.id, "x (ana)")))).await;
    let other = share(&stage, new(&stage, 2, second.id, Some((ben.id, "x (ana)")))).await;
    assert_eq!(other.share.name, "x (ana) (2)");
    let again = catalogue.put_share(new(&stage, 3, first.id, Some((ben.id, "y")))).await;
    assert_eq!(kind(again), ErrorKind::AlreadyExists);
    let of_file = catalogue.put_share(new(&stage, 3, file.id, Some((ben.id, "y")))).await;
    assert_eq!(kind(of_file), ErrorKind::WrongKind);
    let linked = link(&stage, 3, file.id).await;
    assert_eq!(linked.place, Some((path("f"), NodeKind::File)));
    assert_eq!(catalogue.shares_with(ben.id).await.expect("reads").len(), 2);
    assert_eq!(catalogue.shares_by(stage.account.id).await.expect("reads").len(), 3);
    assert_eq!(catalogue.shares_of(stage.space, None).await.expect("reads").len(), 3);
    assert_eq!(catalogue.shares_of(stage.space, Some(file.id)).await.expect("reads"), std::slice::from_ref(&linked));
    let change = ShareChange {
        label: Some("new".into()),
        access: Some(Access::Read),
        expires_ms: Some(Some(5_000)),
        downloads_max: Some(Some(3)),
        lock: None,
    };
    let changed = catalogue.change_share(linked.share.id, change).await.expect("changes").share;
    assert_eq!((changed.label.as_str(), changed.access), ("new", Access::Read));
    assert_eq!((changed.expires_ms, changed.downloads_max), (Some(5_000), Some(3)));
    assert!(changed.has_expired(5_000) && !changed.has_expired(4_999));
}

pub async fn a_change_through_a_share_needs_it(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let folder = stage.folder("d").await;
    stage.folder("e").await;
    let shared = link(&stage, 1, folder.id).await;
    let until = ShareChange { expires_ms: Some(Some(5_000)), ..ShareChange::default() };
    catalogue.change_share(shared.share.id, until).await.expect("changes");
    stage.try_write("d/f", 1, &through(&stage, &shared, "d", 3_000)).await.expect("writes");
    let late = stage.try_write("d/f", 2, &through(&stage, &shared, "d", 5_000)).await;
    assert_eq!(kind(late), ErrorKind::NotFound, "it has expired");
    // Another folder took its place.
    stage.relocate("d", "moved", false).await.expect("moves");
    stage.folder("d").await;
    let guard = through(&stage, &shared, "d", 3_000);
    assert_eq!(kind(stage.try_write("d/f", 1, &guard).await), ErrorKind::NotFound);
    assert_eq!(kind(catalogue.make_folder(stage.space, &path("d/g"), &guard).await), ErrorKind::NotFound);
    assert_eq!(kind(catalogue.remove(stage.space, &path("d"), &guard).await), ErrorKind::NotFound);
    let guard = through(&stage, &shared, "moved", 3_000);
    stage.try_write("moved/f", 3, &guard).await.expect("writes");
    catalogue.remove_share(shared.share.id).await.expect("takes back");
    assert_eq!(kind(stage.try_write("moved/f", 4, &guard).await), ErrorKind::NotFound);
    assert_eq!(stage.node("moved/f").await.expect("is there").size, 3);
}

pub async fn a_share_ends_with_its_maker_space_and_account(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let (ben, _) = Stage::account(catalogue, "ben").await;
    let folder = stage.folder("d").await;
    catalogue.put_member(stage.space, ben.id, Role::Owner, vec![1]).await.expect("adds");
    let made = NewShare { by: ben.id, ..new(&stage, 1, folder.id, None) };
    share(&stage, made.clone()).await;
    catalogue.put_member(stage.space, ben.id, Role::Editor, vec![1]).await.expect("changes");
    assert!(catalogue.shares_of(stage.space, None).await.expect("reads").is_empty(), "an editor shares nothing");
    catalogue.put_member(stage.space, ben.id, Role::Owner, vec![1]).await.expect("changes");
    share(&stage, made).await;
    catalogue.remove_member(stage.space, ben.id).await.expect("removes");
    assert!(catalogue.shares_of(stage.space, None).await.expect("reads").is_empty());
    share(&stage, new(&stage, 2, folder.id, Some((ben.id, "d")))).await;
    link(&stage, 3, folder.id).await;
    catalogue.remove_account(ben.id, 4_000).await.expect("removes");
    assert_eq!(catalogue.shares_of(stage.space, None).await.expect("reads").len(), 1);
    catalogue.remove_account(stage.account.id, 4_000).await.expect("removes");
    assert!(catalogue.share(Uid([3; 16])).await.expect("reads").is_none());
}

pub async fn a_visit_ends_with_its_link(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let folder = stage.folder("d").await;
    let shared = link(&stage, 1, folder.id).await;
    let visit = begin(&stage, shared.share.id, "one").await;
    let found = catalogue.visit("one").await.expect("reads");
    assert_eq!(found, Some((visit.clone(), shared.clone())));
    catalogue.end_visit(visit.id).await.expect("ends");
    assert!(catalogue.visit("one").await.expect("reads").is_none());
    begin(&stage, shared.share.id, "two").await;
    let label = ShareChange { label: Some("x".into()), ..ShareChange::default() };
    catalogue.change_share(shared.share.id, label).await.expect("changes");
    assert!(catalogue.visit("two").await.expect("reads").is_some(), "a label ends nothing");
    let lock = LinkLock { sealed: vec![7], proof: vec![2; 32], secret: vec![3], has_password: true };
    let locked = ShareChange { lock: Some((lock.clone(), vec![8])), ..ShareChange::default() };
    let changed = catalogue.change_share(shared.share.id, locked).await.expect("changes").share;
    assert_eq!((changed.link, changed.wrapped_key), (Some(lock), vec![8]));
    assert!(catalogue.visit("two").await.expect("reads").is_none(), "a new password ends every visit");
    begin(&stage, shared.share.id, "three").await;
    catalogue.remove_share(shared.share.id).await.expect("takes back");
    assert!(catalogue.visit("three").await.expect("reads").is_none());
    let late =
        NewVisit { share: shared.share.id, lookup: "four".into(), sealed: vec![5], now_ms: 3_000, expires_ms: 9_000 };
    assert_eq!(kind(catalogue.begin_visit(late).await), ErrorKind::NotFound);
}

pub async fn downloads_are_counted_once_a_visit(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let folder = stage.folder("d").await;
    let limited = NewShare { downloads_max: Some(2), ..new(&stage, 1, folder.id, None) };
    let shared = share(&stage, limited).await;
    let (one, two) = (begin(&stage, shared.share.id, "one").await, begin(&stage, shared.share.id, "two").await);
    let count = async |visit: &Visit, node, seq| catalogue.count_download(visit, NodeId(node), seq).await;
    let downloads =
        async || catalogue.share_by_id(shared.share.id).await.expect("reads").expect("is there").share.downloads;
    count(&one, 7, 1).await.expect("the first");
    count(&one, 7, 1).await.expect("the same goes on");
    assert_eq!(downloads().await, 1);
    // Many at once: one of them is the last.
    let tries = (0..8).map(|seq| count(&two, 9, seq));
    let done = futures_util::future::join_all(tries).await;
    assert_eq!(done.iter().filter(|done| done.is_ok()).count(), 1);
    assert!(done.into_iter().filter_map(Result::err).all(|error| error.kind() == ErrorKind::Forbidden));
    assert_eq!(downloads().await, 2);
    count(&one, 7, 1).await.expect("what was begun goes on");
    assert_eq!(kind(count(&one, 7, 2).await), ErrorKind::Forbidden, "another version is another download");
    let more = ShareChange { downloads_max: Some(None), ..ShareChange::default() };
    catalogue.change_share(shared.share.id, more).await.expect("changes");
    count(&one, 7, 2).await.expect("there is no limit");
    assert_eq!(downloads().await, 0);
}

pub async fn there_are_so_many_visits(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let folder = stage.folder("d").await;
    let shared = link(&stage, 1, folder.id).await;
    for number in 0..=VISITS_PER_LINK_MAX {
        begin(&stage, shared.share.id, &number.to_string()).await;
    }
    assert!(catalogue.visit("0").await.expect("reads").is_none(), "the oldest ends");
    assert!(catalogue.visit("1").await.expect("reads").is_some());
}

pub async fn a_search_below_a_folder_looks_nowhere_else(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let folder = stage.folder("secret").await;
    let inner = stage.folder("secret/inner").await;
    stage.write("secret/letter one", 1).await;
    stage.write("secret/inner/letter two", 1).await;
    stage.write("letter three", 1).await;
    let found = async |below: &[NodeId], text: &str| {
        let places: Vec<SearchIn> =
            below.iter().map(|&below| SearchIn { space: stage.space, below: Some(below) }).collect();
        let query = SearchQuery { text: text.into(), limit: 9, ..SearchQuery::default() };
        let answer = catalogue.search(&places, &query).await.expect("finds");
        let mut paths: Vec<String> = answer.hits.into_iter().map(|hit| hit.path.to_string()).collect();
        paths.sort();
        paths
    };
    assert_eq!(found(&[folder.id], "letter").await, ["/secret/inner/letter two", "/secret/letter one"]);
    assert_eq!(found(&[inner.id], "letter").await, ["/secret/inner/letter two"]);
    assert_eq!(found(&[inner.id, folder.id], "letter").await.len(), 2);
    assert!(found(&[inner.id], "inner").await.is_empty(), "the folder itself is not below itself");
    assert!(found(&[inner.id], "secret letter").await.is_empty(), "what is above has no part in it");
    let both = [SearchIn { space: stage.space, below: Some(inner.id) }, stage.space.into()];
    let query = SearchQuery { text: "letter".into(), limit: 9, ..SearchQuery::default() };
    assert_eq!(catalogue.search(&both, &query).await.expect("finds").hits.len(), 3);
}

pub async fn an_upload_through_a_share_ends_with_it(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let folder = stage.folder("d").await;
    let shared = link(&stage, 1, folder.id).await;
    let visit = begin(&stage, shared.share.id, "one").await;
    let upload = |number: u8| upload(&stage, &shared, &visit, number, 5);
    let listed = async |visit| catalogue.resumables_of(stage.account.id, visit, 3_000, 9).await.expect("reads");
    for number in [1, 2] {
        catalogue.begin_resumable(upload(number)).await.expect("begins");
    }
    assert_eq!((listed(visit.id).await.len(), listed(0).await.len()), (2, 0));
    let found = catalogue.resumable(Uid([1; 16]), 3_000).await.expect("reads").expect("is there");
    assert_eq!((found.share, found.visit), (shared.share.id, visit.id));
    for number in [1, 2] {
        keep(&stage, number, 4).await.expect("keeps");
    }
    assert_eq!(stage.usage().await.reserved_bytes, 8);
    catalogue.remove_share(shared.share.id).await.expect("takes back");
    assert!(catalogue.resumable(Uid([1; 16]), 3_000).await.expect("reads").is_none());
    assert_eq!(stage.usage().await.reserved_bytes, 0, "what was reserved is given back at once");
}

/// Continues an upload of less than a block up to so many bytes.
async fn keep(stage: &Stage, number: u8, bytes: u32) -> Result<()> {
    let found = stage.catalogue.resumable(Uid([number; 16]), 3_000).await?.expect("is there");
    let claim = stage.catalogue.claim_resumable(found.content, None, 3_000).await?;
    let tail = Tail { bytes, tag: [1; 16], sealed: vec![7; 80].into() };
    stage.catalogue.advance_resumable(claim, None, Some(tail), 9_000).await.map(|kept| kept.expect("misses nothing"))
}

pub async fn an_upload_of_a_visitor_takes_room_as_it_comes(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let folder = stage.folder("d").await;
    let shared = link(&stage, 1, folder.id).await;
    let visit = begin(&stage, shared.share.id, "one").await;
    stage.set_quota(Some(100)).await;
    let begin = |number, length| catalogue.begin_resumable(upload(&stage, &shared, &visit, number, length));
    assert_eq!(kind(begin(9, 101).await), ErrorKind::NoSpace, "there is no room for all of it");
    for number in 1..=3 {
        begin(number, 90).await.expect("what is only declared takes nothing");
    }
    assert_eq!(stage.usage().await.reserved_bytes, 0);
    keep(&stage, 1, 60).await.expect("keeps");
    keep(&stage, 2, 30).await.expect("keeps");
    assert_eq!(stage.usage().await.reserved_bytes, 90);
    assert_eq!(kind(keep(&stage, 3, 20).await), ErrorKind::NoSpace);
    keep(&stage, 3, 10).await.expect("keeps");
    keep(&stage, 3, 9).await.expect("what it held once it may hold again");
    assert_eq!(stage.usage().await.reserved_bytes, 100);
    let found = catalogue.resumable(Uid([2; 16]), 3_000).await.expect("reads").expect("is there");
    catalogue.abandon_upload(found.content).await.expect("gives up");
    keep(&stage, 1, 90).await.expect("keeps");
    let found = catalogue.resumable(Uid([1; 16]), 3_000).await.expect("reads").expect("is there");
    let claim = catalogue.claim_resumable(found.content, None, 3_000).await.expect("claims");
    let guard = through(&stage, &shared, "d", 3_000);
    catalogue.finish_resumable(claim, inline(90), None, 9_000, &guard).await.expect("ends");
    assert_eq!((stage.usage().await.used_bytes, stage.usage().await.reserved_bytes), (90, 10));
}

pub async fn an_upload_of_a_visitor_ends_with_the_visit(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let folder = stage.folder("d").await;
    let expiring = NewShare { expires_ms: Some(5_000), ..new(&stage, 1, folder.id, None) };
    let shared = share(&stage, expiring).await;
    let is_there = async |number: u8| catalogue.resumable(Uid([number; 16]), 3_000).await.expect("reads").is_some();
    let begun = async |number: u8| {
        let visit = begin(&stage, shared.share.id, &number.to_string()).await;
        catalogue.begin_resumable(upload(&stage, &shared, &visit, number, 50)).await.expect("begins");
        keep(&stage, number, 5).await.expect("keeps");
        visit
    };
    let (left, _stays) = (begun(1).await, begun(2).await);
    catalogue.end_visit(left.id).await.expect("ends");
    catalogue.end_visit(left.id).await.expect("is over already");
    assert!(!is_there(1).await && is_there(2).await);
    assert_eq!(stage.usage().await.reserved_bytes, 5);
    let change = ShareChange { access: Some(Access::Upload), ..ShareChange::default() };
    catalogue.change_share(shared.share.id, change).await.expect("changes");
    assert!(!is_there(2).await);
    begun(3).await;
    assert_eq!(catalogue.expire_resumables(4_999, 9).await.expect("looks"), 0);
    assert_eq!(catalogue.expire_resumables(5_000, 9).await.expect("expires"), 1, "the link is over");
    assert_eq!(stage.usage().await.reserved_bytes, 0);
    let lasting = ShareChange { expires_ms: Some(None), ..ShareChange::default() };
    catalogue.change_share(shared.share.id, lasting).await.expect("changes");
    begun(4).await;
    assert_eq!(catalogue.expire_resumables(8_999, 9).await.expect("looks"), 0);
    assert_eq!(catalogue.expire_resumables(9_000, 9).await.expect("expires"), 1, "the visit is over");
}

pub async fn visitors_have_a_limited_number_of_uploads(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let folder = stage.folder("d").await;
    let shared = link(&stage, 1, folder.id).await;
    let mut number = 0_u64;
    let mut next = async |visit: &Visit| {
        number += 1;
        let mut new = upload(&stage, &shared, visit, 0, 5);
        new.uid.0[..8].copy_from_slice(&number.to_le_bytes());
        catalogue.begin_resumable(new).await
    };
    let mut begun = 0;
    while begun < UPLOADS_PER_LINK_MAX {
        let visit = begin(&stage, shared.share.id, &begun.to_string()).await;
        for _ in 0..UPLOADS_PER_VISIT_MAX {
            next(&visit).await.expect("begins");
            begun += 1;
        }
        assert!(matches!(kind(next(&visit).await), ErrorKind::TooManyRequests { .. }));
    }
    let another = begin(&stage, shared.share.id, "another").await;
    assert!(matches!(kind(next(&another).await), ErrorKind::TooManyRequests { .. }));
    // The maker's own are not counted with them.
    let own = NewResumable { uid: Uid([255; 16]), share: 0, visit: 0, ..upload(&stage, &shared, &another, 1, 5) };
    catalogue.begin_resumable(own).await.expect("begins");
}

pub async fn a_change_through_a_share_needs_more_than_reading(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let folder = stage.folder("d").await;
    let shared = link(&stage, 1, folder.id).await;
    let guard = through(&stage, &shared, "d", 3_000);
    for (access, may) in [(Access::Upload, true), (Access::Read, false), (Access::Write, true)] {
        let change = ShareChange { access: Some(access), ..ShareChange::default() };
        catalogue.change_share(shared.share.id, change).await.expect("changes");
        assert_eq!(stage.try_write("d/f", 1, &guard).await.is_ok(), may, "{access:?}");
    }
}

pub async fn a_link_of_somebody_shut_out_changes_nothing(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let folder = stage.folder("d").await;
    let shared = link(&stage, 1, folder.id).await;
    let guard = through(&stage, &shared, "d", 3_000);
    let change = AccountChange { disabled: Some(true), ..AccountChange::default() };
    catalogue.change_account(stage.account.id, change).await.expect("disables");
    assert_eq!(kind(stage.try_write("d/f", 1, &guard).await), ErrorKind::NotFound);
}

fn upload(stage: &Stage, shared: &Shared, visit: &Visit, number: u8, length: u64) -> NewResumable {
    NewResumable {
        uid: Uid([number; 16]),
        space: stage.space,
        account: stage.account.id,
        share: shared.share.id,
        visit: visit.id,
        path: path("d/f"),
        length,
        name_taken: NameTaken::KeepBoth,
        expect_seq: None,
        modified_ms: None,
        metadata: String::new(),
        tags: Vec::new(),
        block_bytes: 1_000,
        nonce: [number; 16],
        now_ms: 3_000,
        expires_ms: 9_000,
    }
}

pub async fn an_upload_through_a_share_does_not_end_elsewhere(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let folder = stage.folder("d").await;
    let shared = link(&stage, 1, folder.id).await;
    let visit = begin(&stage, shared.share.id, "one").await;
    let content = catalogue.begin_resumable(upload(&stage, &shared, &visit, 1, 0)).await.expect("begins");
    // Another folder is now where the shared one was.
    stage.relocate("d", "moved", false).await.expect("moves");
    stage.folder("d").await;
    let finish = async |base: &str| {
        let claim = catalogue.claim_resumable(content, None, 3_000).await.expect("claims");
        let guard = through(&stage, &shared, base, 3_000);
        catalogue.finish_resumable(claim, NewContent::Empty, None, 9_000, &guard).await
    };
    assert_eq!(kind(finish("moved").await), ErrorKind::Conflict);
    assert_eq!(kind(finish("d").await), ErrorKind::NotFound);
    assert!(stage.node("d/f").await.is_none() && stage.node("moved/f").await.is_none());
    stage.remove("d").await.expect("removes");
    stage.relocate("moved", "d", false).await.expect("moves back");
    finish("d").await.expect("is where it was meant to be");
}
