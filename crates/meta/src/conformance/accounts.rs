//! Accounts, credentials, sign-in attempts and traffic.

use super::stage::{self, Stage, kind, slot};
use crate::catalogue::{Attempts, Catalogue};
use crate::types::{AccountChange, NewSlot, NewSpace, Role, SlotKind, Traffic};
use holdfast_base::{AccountId, ErrorKind, Uid};
use std::sync::Arc;

type Place = Arc<dyn Catalogue>;

pub async fn an_account_comes_with_its_home_and_slots(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let account = catalogue.account(stage.account.id).await.expect("reads").expect("is there");
    assert_eq!(account, stage.account);
    assert_eq!(catalogue.account_by_name("ana").await.expect("reads"), Some(account));
    assert_eq!(catalogue.accounts().await.expect("reads").len(), 1);
    let slots = catalogue.slots(stage.account.id).await.expect("reads");
    assert_eq!(slots.iter().map(|slot| slot.kind).collect::<Vec<_>>(), [SlotKind::Password, SlotKind::Recovery]);
    let (space, membership) = catalogue.spaces_of(stage.account.id).await.expect("reads").remove(0);
    assert!(space.home && space.owner == stage.account.id && space.name == "ana");
    assert_eq!((membership.role, membership.wrapped_key), (Role::Owner, vec![6; 60]));
}

pub async fn a_taken_name_is_refused(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let again = |name: &str| crate::types::NewAccount {
        uid: Uid([9; 16]),
        name: name.to_owned(),
        admin: false,
        public_key: [0; 32],
        quota_bytes: None,
        slots: Vec::new(),
        home_uid: Uid([8; 16]),
        home_wrapped_key: Vec::new(),
        now_ms: 1,
    };
    assert_eq!(kind(catalogue.create_account(again("ana")).await), ErrorKind::AlreadyExists);
    let group = new_space("group", stage.account.id);
    catalogue.create_space(group.clone()).await.expect("a group");
    assert_eq!(kind(catalogue.create_account(again("group")).await), ErrorKind::AlreadyExists);
    assert_eq!(kind(catalogue.create_space(group).await), ErrorKind::AlreadyExists);
    assert_eq!(kind(catalogue.create_account(again("a/b")).await), ErrorKind::InvalidInput);
    assert_eq!(catalogue.accounts().await.expect("reads").len(), 1);
}

fn new_space(name: &str, owner: AccountId) -> NewSpace {
    let wrapped_key = vec![7];
    NewSpace { uid: Uid([0x77; 16]), name: name.to_owned(), owner, wrapped_key, quota_bytes: None, now_ms: 5 }
}

pub async fn changes_void_cached_sign_ins(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let (id, before) = (stage.account.id, stage.account.generation);
    let nothing = catalogue.change_account(id, AccountChange::default()).await.expect("changes nothing");
    assert_eq!(nothing.generation, before);
    let change = AccountChange { disabled: Some(true), quota_bytes: Some(Some(5)), ..AccountChange::default() };
    let changed = catalogue.change_account(id, change).await.expect("changes");
    assert!(changed.disabled && changed.quota_bytes == Some(5) && changed.generation > before);
    let change = AccountChange { quota_bytes: Some(None), ..AccountChange::default() };
    assert_eq!(catalogue.change_account(id, change).await.expect("changes").quota_bytes, None);
    let nobody = catalogue.change_account(AccountId(999), AccountChange::default()).await;
    assert_eq!(kind(nobody), ErrorKind::NotFound);
}

pub async fn a_slot_of_a_single_kind_is_replaced(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let id = stage.account.id;
    let generation = async || catalogue.account(id).await.expect("reads").expect("is there").generation;
    let before = generation().await;
    let new = NewSlot { sealed: vec![9], ..slot(SlotKind::Password, "") };
    let made = catalogue.put_slot(id, new, 7).await.expect("replaces");
    assert!(generation().await > before);
    let slots = catalogue.slots(id).await.expect("reads");
    assert_eq!(slots.iter().filter(|slot| slot.kind == SlotKind::Password).collect::<Vec<_>>(), [&made]);
    let before = generation().await;
    catalogue.put_slot(id, slot(SlotKind::Escrow, ""), 7).await.expect("adds");
    assert_eq!(generation().await, before);
}

pub async fn a_token_is_found_by_its_lookup(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let id = stage.account.id;
    let new =
        NewSlot { read_only: true, space: Some(stage.space), expires_ms: Some(50), ..slot(SlotKind::Token, "t1") };
    let made = catalogue.put_slot(id, new, 7).await.expect("adds");
    catalogue.put_slot(id, slot(SlotKind::Token, "t2"), 7).await.expect("adds a second one");
    assert_eq!(kind(catalogue.put_slot(id, slot(SlotKind::Token, "t1"), 7).await), ErrorKind::AlreadyExists);
    let (account, found) = catalogue.slot_by_lookup(SlotKind::Token, "t1").await.expect("reads").expect("is there");
    assert_eq!((account.id, &found), (id, &made));
    assert!(catalogue.slot_by_lookup(SlotKind::Password, "").await.expect("reads").is_none());
    catalogue.touch_slot(made.id, 99).await.expect("notes");
    let (_, found) = catalogue.slot_by_lookup(SlotKind::Token, "t1").await.expect("reads").expect("is there");
    assert_eq!(found.used_ms, Some(99));
    let (other, _) = Stage::account(catalogue, "bo").await;
    assert_eq!(kind(catalogue.remove_slot(other.id, made.id).await), ErrorKind::NotFound);
    catalogue.remove_slot(id, made.id).await.expect("removes");
    assert!(catalogue.slot_by_lookup(SlotKind::Token, "t1").await.expect("reads").is_none());
    assert!(catalogue.account(id).await.expect("reads").expect("is there").generation > stage.account.generation);
}

pub async fn a_new_password_ends_every_session_but_the_one_kept(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let id = stage.account.id;
    let session = async |lookup| catalogue.put_slot(id, slot(SlotKind::Session, lookup), 7).await.expect("adds");
    let (kept, _ended) = (session("s1").await, session("s2").await);
    let token = catalogue.put_slot(id, slot(SlotKind::Token, "s1"), 7).await.expect("a token may have the same lookup");
    let (_, found) = catalogue.slot_by_lookup(SlotKind::Session, "s1").await.expect("reads").expect("is there");
    assert_eq!(found, kept);
    let before = catalogue.account(id).await.expect("reads").expect("is there").generation;
    let new = NewSlot { sealed: vec![9], ..slot(SlotKind::Password, "") };
    let made = catalogue.replace_password(id, new, Some(kept.id), 8).await.expect("replaces");
    let mut left = catalogue.slots(id).await.expect("reads");
    left.retain(|slot| slot.kind != SlotKind::Recovery);
    assert_eq!(left, [kept, token, made]);
    assert!(catalogue.account(id).await.expect("reads").expect("is there").generation > before);
    let new = slot(SlotKind::Password, "");
    catalogue.replace_password(id, new, None, 8).await.expect("replaces");
    assert!(catalogue.slot_by_lookup(SlotKind::Session, "s1").await.expect("reads").is_none());
    let nobody = catalogue.replace_password(AccountId(999), slot(SlotKind::Password, ""), None, 8).await;
    assert_eq!(kind(nobody), ErrorKind::NotFound);
}

pub async fn failed_sign_ins_count_and_lapse(catalogue: &Place) {
    assert_eq!(catalogue.attempts("a").await.expect("reads"), Attempts::default());
    for failures in 1..=3 {
        let now = catalogue.attempt_failed("a", 1_000, 100).await.expect("counts");
        assert_eq!(now, Attempts { failures, last_ms: 1_000 });
    }
    assert_eq!(catalogue.attempt_failed("a", 1_050, 100).await.expect("counts").failures, 4);
    assert_eq!(catalogue.attempt_failed("a", 1_151, 100).await.expect("counts").failures, 1);
    catalogue.attempt_succeeded("a").await.expect("forgets");
    catalogue.attempt_succeeded("never failed").await.expect("has nothing to forget");
    assert_eq!(catalogue.attempts("a").await.expect("reads"), Attempts::default());
}

pub async fn traffic_is_summed_by_day(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let one = Traffic { requests: 1, bytes_in: 10, bytes_out: 100 };
    let day_ms = 86_400_000;
    for now_ms in [0, day_ms - 1, day_ms] {
        catalogue.add_traffic(vec![(stage.account.id, one), (AccountId(999), one)], now_ms).await.expect("adds");
    }
    let two = Traffic { requests: 2, bytes_in: 20, bytes_out: 200 };
    let all = catalogue.traffic(stage.account.id, 10).await.expect("reads");
    assert_eq!(all, [("1970-01-02".to_owned(), one), ("1970-01-01".to_owned(), two)]);
    assert_eq!(catalogue.traffic(stage.account.id, 1).await.expect("reads").len(), 1);
}

pub async fn a_removed_account_leaves_nothing(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.folder("a").await;
    stage.write("a/file", 100).await;
    stage.write("a/file", 50).await;
    stage.write("b", 100).await;
    stage.remove("b").await.expect("removes");
    let pack = stage.pack(1).await;
    let content = stage::blocks(vec![stage::written(1, pack)]);
    let done = catalogue.commit_file(stage.space, &stage::path("c"), content, 0, &stage.guard()).await;
    done.expect("commits").expect("has every block");
    catalogue.remove_account(stage.account.id, 9).await.expect("removes");
    assert!(catalogue.account_by_name("ana").await.expect("reads").is_none());
    assert!(catalogue.space(stage.space).await.expect("reads").is_none());
    super::finish(catalogue).await;
    assert!(stage.release_all().await > 0);
    assert!(catalogue.all_contents(None, 10).await.expect("reads").is_empty());
    assert!(catalogue.all_blocks(None, 10).await.expect("reads").is_empty());
    assert_eq!(kind(catalogue.remove_account(stage.account.id, 9).await), ErrorKind::NotFound);
}

pub async fn a_shared_space_keeps_its_owner(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let (other, _) = Stage::account(catalogue, "bo").await;
    let group = catalogue.create_space(new_space("group", stage.account.id)).await.expect("a group");
    catalogue.put_member(group.id, other.id, Role::Editor, vec![1]).await.expect("adds");
    assert_eq!(kind(catalogue.remove_account(stage.account.id, 9).await), ErrorKind::Conflict);
    catalogue.remove_account(other.id, 9).await.expect("a member may go");
    assert_eq!(catalogue.members(group.id).await.expect("reads").len(), 1);
    catalogue.remove_account(stage.account.id, 9).await.expect("nobody else is left");
    assert!(catalogue.space(group.id).await.expect("reads").is_none());
}
