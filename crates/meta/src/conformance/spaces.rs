//! Spaces and their members.

use super::stage::{self, Stage, kind, path, slot};
use crate::catalogue::{Catalogue, Change, Guard};
use crate::types::{AccountChange, Compression, NewSlot, NewSpace, Retention, Role, SlotKind, SpaceChange};
use holdfast_base::{AccountId, ErrorKind, SpaceId, Uid};
use std::sync::Arc;

type Place = Arc<dyn Catalogue>;

async fn group(catalogue: &Place, name: &str, owner: AccountId) -> SpaceId {
    let mut uid = [0x55; 16];
    uid.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
    let new =
        NewSpace { uid: Uid(uid), name: name.to_owned(), owner, wrapped_key: vec![7], quota_bytes: None, now_ms: 5 };
    catalogue.create_space(new).await.expect("a group").id
}

pub async fn spaces_are_listed_home_first(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    group(catalogue, "Zoo", stage.account.id).await;
    group(catalogue, "Aaa", stage.account.id).await;
    let (other, _) = Stage::account(catalogue, "bo").await;
    let names = |spaces: Vec<(crate::types::Space, crate::types::Membership)>| -> Vec<String> {
        spaces.into_iter().map(|(space, _)| space.name).collect()
    };
    assert_eq!(names(catalogue.spaces_of(stage.account.id).await.expect("reads")), ["ana", "Aaa", "Zoo"]);
    assert_eq!(names(catalogue.spaces_of(other.id).await.expect("reads")), ["bo"]);
    let all: Vec<String> = catalogue.all_spaces().await.expect("reads").into_iter().map(|space| space.name).collect();
    assert_eq!(all, ["Aaa", "Zoo", "ana", "bo"]);
}

pub async fn a_space_keeps_an_owner(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let (other, _) = Stage::account(catalogue, "bo").await;
    let id = group(catalogue, "group", stage.account.id).await;
    assert_eq!(kind(catalogue.remove_member(id, stage.account.id).await), ErrorKind::Conflict);
    let demoted = catalogue.put_member(id, stage.account.id, Role::Editor, vec![1]).await;
    assert_eq!(kind(demoted), ErrorKind::Conflict);
    catalogue.put_member(id, other.id, Role::Owner, vec![1]).await.expect("a second owner");
    catalogue.remove_member(id, stage.account.id).await.expect("may go now");
    assert_eq!(kind(catalogue.remove_account(other.id, 1).await), ErrorKind::Conflict);
}

pub async fn members_come_and_go(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let (other, _) = Stage::account(catalogue, "bo").await;
    let id = group(catalogue, "group", stage.account.id).await;
    let (_, none) = catalogue.space_by_name("group", other.id).await.expect("reads").expect("is there");
    assert!(none.is_none());
    catalogue.put_member(id, other.id, Role::Reader, vec![1]).await.expect("adds");
    catalogue.put_member(id, other.id, Role::Editor, vec![2]).await.expect("changes");
    let (_, member) = catalogue.space_by_name("group", other.id).await.expect("reads").expect("is there");
    let member = member.expect("is a member");
    assert_eq!((member.role, member.wrapped_key, member.account_name.as_str()), (Role::Editor, vec![2], "bo"));
    let names: Vec<String> =
        catalogue.members(id).await.expect("reads").into_iter().map(|member| member.account_name).collect();
    assert_eq!(names, ["ana", "bo"]);
    catalogue.remove_member(id, other.id).await.expect("removes");
    assert_eq!(kind(catalogue.remove_member(id, other.id).await), ErrorKind::NotFound);
    assert_eq!(kind(catalogue.put_member(id, AccountId(999), Role::Reader, vec![]).await), ErrorKind::NotFound);
    assert_eq!(kind(catalogue.put_member(SpaceId(999), other.id, Role::Reader, vec![]).await), ErrorKind::NotFound);
}

pub async fn changes_take_effect_at_once(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let space = catalogue.space(stage.space).await.expect("reads").expect("is there");
    assert_eq!((space.compression, space.retention), (Compression::default(), Retention::default()));
    let retention = Retention { days: 3, versions_max: Some(4), bytes_max: Some(5), thin: false };
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd(19)] {
        let change = SpaceChange {
            compression: Some(compression),
            retention: Some(retention),
            quota_bytes: Some(Some(77)),
            owner: None,
        };
        let changed = catalogue.change_space(stage.space, change).await.expect("changes");
        assert_eq!(catalogue.space(stage.space).await.expect("reads"), Some(changed.clone()));
        assert_eq!((changed.compression, changed.retention, changed.quota_bytes), (compression, retention, Some(77)));
    }
    assert_eq!(kind(catalogue.change_space(SpaceId(999), SpaceChange::default()).await), ErrorKind::NotFound);
}

pub async fn a_removed_space_leaves_nothing(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let id = group(catalogue, "group", stage.account.id).await;
    let inside = Stage { catalogue: Arc::clone(catalogue), account: stage.account.clone(), space: id };
    inside.folder("a").await;
    inside.write("a/one", 10).await;
    inside.write("a/one", 20).await;
    inside.write("two", 10).await;
    inside.remove("two").await.expect("removes");
    let pack = inside.pack(1).await;
    let content = stage::blocks(vec![stage::written(1, pack)]);
    let done = catalogue.commit_file(id, &path("three"), content, 0, &inside.guard()).await;
    done.expect("commits").expect("has every block");
    catalogue.lock(id, &path("three"), inside.new_lock("t", true, false), &inside.guard()).await.expect("locks");
    let scoped = NewSlot { space: Some(id), ..slot(SlotKind::Token, "scoped") };
    catalogue.put_slot(stage.account.id, scoped, 1).await.expect("adds");
    catalogue.remove_space(id, 9).await.expect("removes");
    assert!(catalogue.slot_by_lookup(SlotKind::Token, "scoped").await.expect("reads").is_none());
    assert_eq!(kind(catalogue.find(id, &path(""), false).await), ErrorKind::NotFound);
    assert_eq!(kind(inside.try_write("new", 1, &inside.guard()).await), ErrorKind::NotFound);
    super::finish(catalogue).await;
    inside.release_all().await;
    assert!(catalogue.all_contents(None, 10).await.expect("reads").is_empty());
    assert_eq!(catalogue.packs(None, 10).await.expect("reads")[0].live_bytes, 0);
    group(catalogue, "group", stage.account.id).await;
}

pub async fn a_home_space_does_not_go_alone(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    assert_eq!(kind(catalogue.remove_space(stage.space, 9).await), ErrorKind::Conflict);
    assert_eq!(kind(catalogue.remove_space(SpaceId(999), 9).await), ErrorKind::NotFound);
}

pub async fn a_space_is_handed_over_to_a_member(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let (other, home) = Stage::account(catalogue, "bo").await;
    let id = group(catalogue, "group", stage.account.id).await;
    let here = Stage { catalogue: Arc::clone(catalogue), account: stage.account.clone(), space: id };
    here.write("f", 40).await;
    let to = |account: AccountId| SpaceChange { owner: Some(account), ..SpaceChange::default() };
    assert_eq!(kind(catalogue.change_space(id, to(other.id)).await), ErrorKind::Conflict, "is no member");
    assert_eq!(kind(catalogue.change_space(id, to(AccountId(999_999))).await), ErrorKind::NotFound);
    assert_eq!(kind(catalogue.change_space(home.id, to(stage.account.id)).await), ErrorKind::Conflict, "is a home");
    catalogue.put_member(id, other.id, Role::Reader, vec![1]).await.expect("adds");
    let quota = |bytes| AccountChange { quota_bytes: Some(Some(bytes)), ..AccountChange::default() };
    catalogue.change_account(other.id, quota(39)).await.expect("changes");
    assert_eq!(kind(catalogue.change_space(id, to(other.id)).await), ErrorKind::NoSpace, "has no room for it");
    catalogue.change_account(other.id, quota(50)).await.expect("changes");
    let space = catalogue.change_space(id, to(other.id)).await.expect("hands over");
    assert_eq!(space.owner, other.id);
    assert_eq!(catalogue.space(id).await.expect("reads"), Some(space));
    let (_, member) = catalogue.space_by_name("group", other.id).await.expect("reads").expect("is there");
    assert_eq!(member.expect("is a member").role, Role::Owner);
    assert_eq!(catalogue.account_used_bytes(other.id).await.expect("reads"), 40);
    assert_eq!(catalogue.account_used_bytes(stage.account.id).await.expect("reads"), 0);
    assert_eq!(kind(here.try_write("g", 11, &here.guard()).await), ErrorKind::NoSpace, "the new owner's quota counts");
    here.write("g", 10).await;
    // The account that made it may go now, and the space stays.
    catalogue.remove_account(stage.account.id, 9).await.expect("removes");
    assert_eq!(here.tree().await, ["f", "g"]);
}

pub async fn changes_are_told_after_they_are_made(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let mut changes = catalogue.changes();
    let before = catalogue.space(stage.space).await.expect("reads").expect("is there").seq;
    stage.write("f", 1).await;
    assert_eq!(kind(stage.try_write("none/f", 1, &stage.guard()).await), ErrorKind::Conflict);
    stage.folder("d").await;
    let told = [changes.recv().await.expect("is told"), changes.recv().await.expect("is told")];
    assert_eq!(told.map(|change| (change.space, change.seq)), [(stage.space, before + 1), (stage.space, before + 2)]);
    assert!(changes.try_recv().is_err(), "a refusal changes nothing");
    assert_eq!(told.map(|change| (change.since, change.by)), [(before, 0), (before + 1, 0)]);
    // Whoever asks by a name of its own knows its changes by that.
    let guard = Guard { mount: 7, ..stage.guard() };
    stage.try_write("g", 1, &guard).await.expect("writes");
    let change = changes.recv().await.expect("is told");
    assert_eq!((change.since, change.seq, change.by), (before + 2, before + 3, 7));
    let (one, two) = (change, Change { since: before + 3, seq: before + 4, ..change });
    assert_eq!(one.and(two), Change { since: before + 2, seq: before + 4, ..change });
    assert_eq!(one.and(Change { by: 8, ..two }).by, 0);
    assert_eq!(one.and(Change { since: before + 4, seq: before + 5, ..two }).by, 0, "something is in between");
}

pub async fn a_change_needs_its_writer_to_be_there_still(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let (bo, _) = Stage::account(catalogue, "bo").await;
    let guard = stage::guard_of(bo.id, 2_000);
    assert_eq!(kind(stage.try_write("f", 1, &guard).await), ErrorKind::NotFound);
    catalogue.put_member(stage.space, bo.id, Role::Editor, vec![1]).await.expect("adds");
    stage.try_write("f", 1, &guard).await.expect("writes");
    catalogue.put_member(stage.space, bo.id, Role::Reader, vec![1]).await.expect("changes");
    assert_eq!(kind(stage.try_write("f", 2, &guard).await), ErrorKind::Forbidden);
    assert_eq!(kind(catalogue.make_folder(stage.space, &path("d"), &guard).await), ErrorKind::Forbidden);
    catalogue.remove_member(stage.space, bo.id).await.expect("removes");
    assert_eq!(kind(stage.try_write("f", 3, &guard).await), ErrorKind::NotFound);
    assert_eq!(stage.tree().await, ["f"]);
}

pub async fn what_somebody_shut_out_has_under_way_does_not_end(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let (bo, _) = Stage::account(catalogue, "bo").await;
    catalogue.put_member(stage.space, bo.id, Role::Editor, vec![1]).await.expect("adds");
    let guard = stage::guard_of(bo.id, 2_000);
    let disable = |disabled| AccountChange { disabled: Some(disabled), ..AccountChange::default() };
    catalogue.change_account(bo.id, disable(true)).await.expect("disables");
    assert_eq!(kind(stage.try_write("f", 1, &guard).await), ErrorKind::Forbidden);
    assert_eq!(kind(catalogue.make_folder(stage.space, &path("d"), &guard).await), ErrorKind::Forbidden);
    stage.write("of another", 1).await;
    catalogue.change_account(bo.id, disable(false)).await.expect("enables");
    stage.try_write("f", 1, &guard).await.expect("writes again");
    assert_eq!(stage.tree().await, ["f", "of another"]);
}
