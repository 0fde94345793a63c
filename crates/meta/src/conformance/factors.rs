//! Second factors, passkeys, identities, and memberships that groups give.

use super::{Stage, kind};
use crate::catalogue::Catalogue;
use crate::types::{NewIdentity, NewPasskey, NewSpace, Role, Ticket};
use holdfast_base::{AccountId, ErrorKind, SpaceId, Uid};
use std::sync::Arc;

type Place = Arc<dyn Catalogue>;

const NOBODY: AccountId = AccountId(999);

fn ticket(name: u8) -> Ticket {
    Ticket { id: [name; 16], expires_ms: 1_000 }
}

fn new_passkey(name: u8, sealed: Option<Vec<u8>>, counter: u32) -> NewPasskey {
    NewPasskey { credential: vec![name; 20], public_key: vec![1, 2], label: "key".into(), sealed, counter }
}

fn identity(subject: &str) -> NewIdentity {
    NewIdentity { issuer: "https://id.example".into(), subject: subject.into(), label: "Ana".into() }
}

/// Some of everything this file is about, for whoever copies catalogues.
pub async fn furnish(stage: &Stage) {
    let id = stage.account.id;
    stage.catalogue.put_totp(id, vec![1], 5, 6).await.expect("switches on");
    stage.catalogue.add_passkey(id, new_passkey(1, None, 0), ticket(1), 5).await.expect("adds");
    stage.catalogue.drive_key("test", [7; 32]).await.expect("makes");
    stage.catalogue.link_identity(id, identity("a"), 5).await.expect("links");
    let group = group(stage, "grants").await;
    let (ben, _) = Stage::account(&stage.catalogue, "ben").await;
    let wanted = vec![(group, Role::Reader)];
    stage.catalogue.wish_grants(ben.id, "https://id.example", wanted).await.expect("wishes");
}

async fn group(stage: &Stage, name: &str) -> SpaceId {
    let mut uid = [0x70; 16];
    uid.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
    let (owner, wrapped_key) = (stage.account.id, vec![7]);
    let new = NewSpace { uid: Uid(uid), name: name.into(), owner, wrapped_key, quota_bytes: None, now_ms: 5 };
    stage.catalogue.create_space(new).await.expect("a group").id
}

pub async fn codes_count_once(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let id = stage.account.id;
    assert!(!catalogue.factors(id).await.expect("reads").needs_second());
    assert_eq!(kind(catalogue.remove_totp(id).await), ErrorKind::NotFound);
    catalogue.put_totp(id, vec![1, 2], 10, 7).await.expect("switches on");
    assert_eq!(kind(catalogue.put_totp(id, vec![3], 10, 7).await), ErrorKind::AlreadyExists);
    assert_eq!(kind(catalogue.put_totp(NOBODY, vec![3], 10, 7).await), ErrorKind::NotFound);
    let factors = catalogue.factors(id).await.expect("reads");
    let totp = factors.totp.clone().expect("is on");
    assert!(factors.needs_second() && totp.sealed == [1, 2] && (totp.last_step, totp.created_ms) == (10, 7));
    let used = async |step| catalogue.use_totp(id, step).await.expect("writes");
    assert_eq!(
        [used(10).await, used(9).await, used(12).await, used(12).await, used(11).await],
        [false, false, true, false, false]
    );
    let before = catalogue.account(id).await.expect("reads").expect("is there").generation;
    catalogue.remove_totp(id).await.expect("switches off");
    assert!(catalogue.account(id).await.expect("reads").expect("is there").generation > before);
    assert!(!used(20).await, "there is none");
}

pub async fn passkeys_are_found_and_count_up(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let id = stage.account.id;
    let made = catalogue.add_passkey(id, new_passkey(1, Some(vec![9]), 3), ticket(1), 5).await.expect("adds");
    let again = catalogue.add_passkey(id, new_passkey(2, None, 0), ticket(1), 5).await;
    assert_eq!(kind(again), ErrorKind::Conflict, "the challenge was answered before");
    let again = catalogue.add_passkey(id, new_passkey(1, None, 0), ticket(2), 5).await;
    assert_eq!(kind(again), ErrorKind::AlreadyExists);
    assert!(!catalogue.factors(id).await.expect("reads").needs_second(), "this one is a way in of its own");
    let (account, found) = catalogue.passkey_by_credential(&[1; 20]).await.expect("reads").expect("is there");
    assert_eq!((account.id, &found), (id, &made));
    assert!(catalogue.passkey_by_credential(&[3; 20]).await.expect("reads").is_none());
    assert!(catalogue.use_passkey(made.id, 4, ticket(3), 6).await.expect("counts"));
    assert_eq!(kind(catalogue.use_passkey(made.id, 5, ticket(3), 6).await), ErrorKind::Unauthenticated);
    assert!(!catalogue.use_passkey(made.id, 4, ticket(4), 6).await.expect("is refused"), "a copy has the same counter");
    assert!(!catalogue.use_passkey(made.id, 0, ticket(5), 6).await.expect("is refused"));
    let plain = catalogue.add_passkey(id, new_passkey(2, None, 0), ticket(6), 5).await.expect("adds");
    assert!(catalogue.factors(id).await.expect("reads").needs_second());
    assert!(catalogue.use_passkey(plain.id, 0, ticket(7), 8).await.expect("it does not count"));
    let (other, _) = Stage::account(catalogue, "ben").await;
    assert_eq!(kind(catalogue.rename_passkey(other.id, made.id, "mine".into()).await), ErrorKind::NotFound);
    assert_eq!(kind(catalogue.remove_passkey(other.id, made.id).await), ErrorKind::NotFound);
    catalogue.rename_passkey(id, made.id, "phone".into()).await.expect("renames");
    catalogue.remove_passkey(id, plain.id).await.expect("removes");
    let left = catalogue.factors(id).await.expect("reads").passkeys;
    assert_eq!(left.len(), 1);
    assert_eq!((left[0].label.as_str(), left[0].counter, left[0].used_ms), ("phone", 4, Some(6)));
}

pub async fn factors_go_all_at_once(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    furnish(&stage).await;
    let slots = catalogue.slots(stage.account.id).await.expect("reads");
    let before = catalogue.account(stage.account.id).await.expect("reads").expect("is there").generation;
    catalogue.remove_factors(stage.account.id).await.expect("removes");
    let factors = catalogue.factors(stage.account.id).await.expect("reads");
    assert!(factors.totp.is_none() && factors.passkeys.is_empty());
    assert_eq!(catalogue.slots(stage.account.id).await.expect("reads"), slots);
    assert!(catalogue.account(stage.account.id).await.expect("reads").expect("is there").generation > before);
    assert_eq!(kind(catalogue.remove_factors(NOBODY).await), ErrorKind::NotFound);
}

pub async fn a_key_is_the_same_for_all(catalogue: &Place) {
    assert_eq!(catalogue.drive_key("a", [1; 32]).await.expect("makes"), [1; 32]);
    assert_eq!(catalogue.drive_key("a", [2; 32]).await.expect("finds"), [1; 32]);
    assert_eq!(catalogue.drive_key("b", [2; 32]).await.expect("makes"), [2; 32]);
    assert!(catalogue.spend_ticket(ticket(1), 5).await.expect("writes"));
    assert!(!catalogue.spend_ticket(ticket(1), 1_000).await.expect("writes"), "not yet expired");
    assert!(catalogue.spend_ticket(ticket(2), 1_001).await.expect("writes"));
    assert!(
        catalogue.spend_ticket(ticket(1), 1_001).await.expect("writes"),
        "swept; whoever asks looks at the time first"
    );
}

pub async fn identities_are_of_one_account(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let (ben, _) = Stage::account(catalogue, "ben").await;
    let linked = catalogue.link_identity(stage.account.id, identity("a"), 5).await.expect("links");
    assert_eq!(kind(catalogue.link_identity(ben.id, identity("a"), 5).await), ErrorKind::AlreadyExists);
    let (account, found) = catalogue.identity("https://id.example", "a").await.expect("reads").expect("is there");
    assert_eq!((account.id, &found), (stage.account.id, &linked));
    assert!(catalogue.identity("https://other.example", "a").await.expect("reads").is_none());
    let new = |name: &str, byte| crate::types::NewAccount {
        uid: Uid([byte; 16]),
        name: name.to_owned(),
        admin: false,
        public_key: [0; 32],
        quota_bytes: None,
        slots: Vec::new(),
        home_uid: Uid([byte + 1; 16]),
        home_wrapped_key: Vec::new(),
        now_ms: 1,
    };
    let refused = catalogue.create_linked_account(new("cay", 0x41), identity("a")).await;
    assert_eq!(kind(refused), ErrorKind::AlreadyExists);
    assert!(catalogue.account_by_name("cay").await.expect("reads").is_none(), "all or nothing");
    let cay = catalogue.create_linked_account(new("cay", 0x41), identity("c")).await.expect("makes");
    let of_cay = catalogue.identities(cay.id).await.expect("reads");
    assert_eq!(of_cay.len(), 1);
    catalogue.touch_identity(of_cay[0].id, 77).await.expect("notes");
    assert_eq!(catalogue.identities(cay.id).await.expect("reads")[0].used_ms, Some(77));
    assert_eq!(kind(catalogue.unlink_identity(ben.id, linked.id).await), ErrorKind::NotFound);
    catalogue.unlink_identity(stage.account.id, linked.id).await.expect("unlinks");
    assert!(catalogue.identity("https://id.example", "a").await.expect("reads").is_none());
    catalogue.remove_account(cay.id, 9).await.expect("removes");
    assert!(catalogue.identity("https://id.example", "c").await.expect("reads").is_none());
}

pub async fn groups_give_memberships_and_take_them_back(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let (ben, _) = Stage::account(catalogue, "ben").await;
    let (one, two, own) = (group(&stage, "one").await, group(&stage, "two").await, group(&stage, "own").await);
    catalogue.put_member(own, ben.id, Role::Editor, vec![1]).await.expect("a person gave it");
    let wish = async |wanted| catalogue.wish_grants(ben.id, "i", wanted).await.expect("wishes");
    wish(vec![(one, Role::Reader), (two, Role::Editor), (own, Role::Reader)]).await;
    let open = catalogue.open_grants(stage.account.id, 10).await.expect("reads");
    assert_eq!(
        open.iter().map(|grant| (grant.space, grant.role)).collect::<Vec<_>>(),
        [(one, Role::Reader), (two, Role::Editor)]
    );
    assert_eq!(catalogue.awaited_grants(ben.id).await.expect("reads"), open);
    assert!(catalogue.open_grants(ben.id, 10).await.expect("reads").is_empty(), "an editor has no say");
    assert!(!catalogue.make_grant(one, ben.id, Role::Owner, vec![2]).await.expect("is not what was wished"));
    assert!(catalogue.make_grant(one, ben.id, Role::Reader, vec![2]).await.expect("makes"));
    assert!(!catalogue.make_grant(one, ben.id, Role::Reader, vec![2]).await.expect("was made"));
    let roles = async || {
        let spaces = catalogue.spaces_of(ben.id).await.expect("reads");
        spaces.into_iter().skip(1).map(|(space, member)| (space.name, member.role)).collect::<Vec<_>>()
    };
    assert_eq!(roles().await, [("one".to_owned(), Role::Reader), ("own".to_owned(), Role::Editor)]);
    wish(vec![(one, Role::Editor), (two, Role::Editor)]).await;
    assert_eq!(roles().await[0], ("one".to_owned(), Role::Editor), "another role needs no key");
    wish(Vec::new()).await;
    assert_eq!(roles().await, [("own".to_owned(), Role::Editor)], "what a person gave stays");
    assert!(catalogue.awaited_grants(ben.id).await.expect("reads").is_empty());
}
