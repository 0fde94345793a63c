//! Accounts: making, resetting, tokens, members, and what a catalogue alone gives away.

use crate::support::{BETTER, GOOD, START_MS, World, basic, kind};
use holdfast_auth::{AuthOptions, Credential, EscrowKey, NewPerson, NewToken, Proof, Scope, Secret, check_password};
use holdfast_base::{ErrorKind, SpaceId};
use holdfast_meta::{Role, SlotKind};

#[tokio::test]
async fn a_generated_password_signs_in_and_the_home_space_opens() {
    let world = World::new();
    let created =
        world.accounts.create(NewPerson { name: "ann".into(), ..NewPerson::default() }).await.expect("account");
    let password = created.generated_password.expect("made up");
    check_password("ann", password.expose()).expect("it would be accepted");
    let session = world.sign_in("ann", password.expose()).await.expect("signs in");
    let spaces = world.catalogue.spaces_of(session.account).await.expect("spaces");
    let (home, membership) = &spaces[0];
    assert_eq!((home.name.as_str(), home.home, membership.role), ("ann", true, Role::Owner));
    session.space_key(home.uid, membership).expect("opens");
}

#[tokio::test]
async fn weak_passwords_bad_names_and_taken_names_are_refused() {
    let world = World::new();
    world.person("ann").await;
    let attempt = async |name: &str, password: &str| {
        let person = NewPerson { name: name.into(), password: Some(Secret::new(password)), ..NewPerson::default() };
        kind(world.accounts.create(person).await)
    };
    assert_eq!(attempt("ben", "password1234").await, ErrorKind::InvalidInput);
    assert_eq!(attempt("../ben", GOOD).await, ErrorKind::InvalidInput);
    assert_eq!(attempt("ann", GOOD).await, ErrorKind::AlreadyExists);
    let session = world.sign_in("ann", GOOD).await.expect("signs in");
    let weak = world.accounts.change_password(&session, Secret::new("short"), None).await;
    assert_eq!(kind(weak), ErrorKind::InvalidInput);
}

#[tokio::test]
async fn the_recovery_code_resets_the_password_once() {
    let world = World::new();
    let created = world.person("ann").await;
    let before = world.sign_in("ann", GOOD).await.expect("signs in");
    let typed = Secret::new(created.recovery_code.expose().to_uppercase().replace('-', " "));
    let reset = world.accounts.reset_with_recovery_code("ann", &typed, Some(Secret::new(BETTER))).await.expect("reset");
    assert!(reset.generated_password.is_none());
    assert_eq!(kind(world.sign_in("ann", GOOD).await), ErrorKind::Unauthenticated);
    let after = world.sign_in("ann", BETTER).await.expect("signs in");
    assert_eq!(before.key().public(), after.key().public(), "the same key, so the content still opens");
    let again = world.accounts.reset_with_recovery_code("ann", &created.recovery_code, None).await;
    assert_eq!(kind(again), ErrorKind::Unauthenticated, "the old code is used up");
    let reset =
        world.accounts.reset_with_recovery_code("ann", &reset.recovery_code, None).await.expect("the new code works");
    world.sign_in("ann", reset.generated_password.expect("made up").expose()).await.expect("signs in");
}

#[tokio::test]
async fn wrong_proofs_open_nothing() {
    let world = World::new();
    let ann = world.person("ann").await;
    world.person("ben").await;
    let (wrong, garbled) = (Secret::new("wrong"), Secret::new("hello"));
    assert_eq!(kind(world.accounts.open("ann", Proof::Password(&wrong)).await), ErrorKind::Unauthenticated);
    assert_eq!(kind(world.accounts.open("nobody", Proof::Password(&wrong)).await), ErrorKind::Unauthenticated);
    assert_eq!(kind(world.accounts.open("ben", Proof::Recovery(&ann.recovery_code)).await), ErrorKind::Unauthenticated);
    assert_eq!(
        kind(world.accounts.open("nobody", Proof::Recovery(&ann.recovery_code)).await),
        ErrorKind::Unauthenticated
    );
    assert_eq!(kind(world.accounts.open("ann", Proof::Recovery(&garbled)).await), ErrorKind::InvalidInput);
    world.accounts.open("ann", Proof::Password(&Secret::new(GOOD))).await.expect("opens");
    world.accounts.disable("ann").await.expect("disabled");
    assert_eq!(kind(world.accounts.open("ann", Proof::Password(&Secret::new(GOOD))).await), ErrorKind::Forbidden);
}

#[tokio::test]
async fn escrow_opens_accounts_only_if_it_was_switched_on() {
    let escrow = EscrowKey::generate().expect("generate");
    let public = EscrowKey::parse_public(&escrow.public_text()).expect("parses");
    let mut world = World::new();
    world.person("before").await;
    let refused = world.accounts.reset_password_with_escrow("before", &escrow, None).await;
    assert_eq!(kind(refused), ErrorKind::Conflict);

    world.options = AuthOptions { escrow_public_key: Some(public), ..world.options };
    let switched_on = world.elsewhere();
    world.accounts = switched_on.accounts();
    world.person("after").await;
    let kept = EscrowKey::parse(escrow.text().expose()).expect("the operator typed it in");
    let reset = world.accounts.reset_password_with_escrow("after", &kept, None).await.expect("reset");
    world.sign_in("after", reset.generated_password.expect("made up").expose()).await.expect("signs in");
    let other = EscrowKey::generate().expect("generate");
    let wrong = world.accounts.reset_password_with_escrow("after", &other, None).await;
    assert_eq!(kind(wrong), ErrorKind::Unauthenticated);

    switched_on.sign_in(&basic("before", GOOD), None).await.expect("signs in");
    world.accounts.reset_password_with_escrow("before", &kept, None).await.expect("the sign-in added the slot");
}

#[tokio::test]
async fn a_token_is_scoped_listed_and_revoked() {
    let world = World::new();
    let ann = world.accounts.set_admin(&world.person("ann").await.account.name, true).await.expect("admin");
    world.person("ben").await;
    let session = world.sign_in("ann", GOOD).await.expect("signs in");
    let home = world.catalogue.spaces_of(ann.id).await.expect("spaces")[0].0.id;
    let new = NewToken { label: "phone".into(), read_only: true, space: Some(home), expires_ms: None };
    let made = world.accounts.create_token(&session, new).await.expect("token");

    let bearer = Credential::Bearer(made.token.clone());
    for credential in [bearer.clone(), basic("ann", made.token.expose())] {
        let runs = world.argon2_runs();
        let limited = world.auth.sign_in(&credential, None).await.expect("signs in");
        assert_eq!(limited.scope, Scope { read_only: true, space: Some(home) });
        assert!(!limited.admin && limited.credential == SlotKind::Token && limited.name == "ann");
        assert_eq!(kind(world.accounts.create_token(&limited, NewToken::default()).await), ErrorKind::Forbidden);
        assert_eq!(
            kind(world.accounts.change_password(&limited, Secret::new(BETTER), None).await),
            ErrorKind::Forbidden
        );
        assert_eq!(kind(world.accounts.create_space(&limited, "team", None).await), ErrorKind::Forbidden);
        assert_eq!(world.argon2_runs(), runs, "tokens need no Argon2id");
    }
    assert_eq!(kind(world.sign_in("ben", made.token.expose()).await), ErrorKind::Unauthenticated, "another's token");

    let listed = world.accounts.list_tokens(ann.id).await.expect("list");
    assert_eq!(listed.iter().map(|slot| slot.label.as_str()).collect::<Vec<_>>(), ["phone"]);
    let slots = world.catalogue.slots(ann.id).await.expect("slots");
    let password = slots.iter().find(|slot| slot.kind == SlotKind::Password).expect("password");
    assert_eq!(kind(world.accounts.revoke_token(ann.id, password.id).await), ErrorKind::NotFound);
    world.accounts.revoke_token(ann.id, made.slot.id).await.expect("revoked");
    assert_eq!(kind(world.auth.sign_in(&bearer, None).await), ErrorKind::Unauthenticated);
    world.sign_in("ann", GOOD).await.expect("the password is untouched");
}

#[tokio::test]
async fn a_token_expires_also_in_the_cache() {
    let world = World::new();
    world.person("ann").await;
    let session = world.sign_in("ann", GOOD).await.expect("signs in");
    let expiring = |expires_ms| NewToken { expires_ms: Some(expires_ms), ..NewToken::default() };
    assert_eq!(kind(world.accounts.create_token(&session, expiring(START_MS)).await), ErrorKind::InvalidInput);
    let made = world.accounts.create_token(&session, expiring(START_MS + 1_000)).await.expect("token");
    let bearer = Credential::Bearer(made.token);
    world.auth.sign_in(&bearer, None).await.expect("signs in");
    world.clock.advance(999);
    world.auth.sign_in(&bearer, None).await.expect("still");
    world.clock.advance(1);
    let error = world.auth.sign_in(&bearer, None).await.expect_err("expired");
    assert!(error.kind() == ErrorKind::Unauthenticated && error.message().contains("expired"), "{error}");
}

#[tokio::test]
async fn a_token_for_a_foreign_space_or_with_a_bad_label_is_refused() {
    let world = World::new();
    world.person("ann").await;
    let session = world.sign_in("ann", GOOD).await.expect("signs in");
    let foreign = NewToken { space: Some(SpaceId(999)), ..NewToken::default() };
    assert_eq!(kind(world.accounts.create_token(&session, foreign).await), ErrorKind::NotFound);
    for label in ["line\nbreak".to_owned(), "x".repeat(101)] {
        let token = NewToken { label, ..NewToken::default() };
        assert_eq!(kind(world.accounts.create_token(&session, token).await), ErrorKind::InvalidInput);
    }
}

#[tokio::test]
async fn members_get_the_same_space_key_and_only_owners_hand_it_out() {
    let world = World::new();
    for name in ["ann", "ben", "cat"] {
        world.person(name).await;
    }
    let (ann, ben) = (world.sign_in("ann", GOOD).await.expect("ann"), world.sign_in("ben", GOOD).await.expect("ben"));
    let team = world.accounts.create_space(&ann, "team", Some(1 << 30)).await.expect("space");
    assert_eq!(kind(world.accounts.members(&ben, "team").await), ErrorKind::NotFound, "not his to see");
    assert_eq!(kind(world.accounts.add_member(&ben, "team", "cat", Role::Reader).await), ErrorKind::NotFound);
    world.accounts.add_member(&ann, "team", "ben", Role::Editor).await.expect("added");
    assert_eq!(kind(world.accounts.add_member(&ben, "team", "cat", Role::Reader).await), ErrorKind::Forbidden);
    assert_eq!(kind(world.accounts.add_member(&ann, "team", "nobody", Role::Reader).await), ErrorKind::NotFound);

    let key_of = async |session: &holdfast_auth::Session| {
        let (space, membership) =
            world.catalogue.space_by_name("team", session.account).await.expect("space").expect("exists");
        *session.space_key(space.uid, &membership.expect("member")).expect("opens").expose()
    };
    assert_eq!(key_of(&ann).await, key_of(&ben).await);

    world.accounts.set_role(&ann, "team", "ben", Role::Owner).await.expect("promoted");
    world.accounts.add_member(&ben, "team", "cat", Role::Reader).await.expect("an owner now");
    assert_eq!(kind(world.accounts.set_role(&ben, "team", "ann", Role::Reader).await), ErrorKind::Conflict);
    assert_eq!(kind(world.accounts.remove_member(&ben, "team", "ann").await), ErrorKind::Conflict);
    world.accounts.remove_member(&ben, "team", "cat").await.expect("removed");
    world.accounts.remove_member(&ben, "team", "ben").await.expect("leaves");
    let members = world.accounts.members(&ann, "team").await.expect("members");
    assert_eq!(members.len(), 1);
    assert_eq!(members[0].space, team.id);
}

#[tokio::test]
async fn a_home_space_is_shared_without_sharing_its_ownership() {
    let world = World::new();
    world.person("ann").await;
    world.person("ben").await;
    let ann = world.sign_in("ann", GOOD).await.expect("ann");
    assert_eq!(kind(world.accounts.add_member(&ann, "ann", "ben", Role::Owner).await), ErrorKind::Conflict);
    world.accounts.add_member(&ann, "ann", "ben", Role::Reader).await.expect("shared");
    assert_eq!(kind(world.accounts.remove_member(&ann, "ann", "ann").await), ErrorKind::Conflict);
}
