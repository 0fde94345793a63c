//! What a provider's word opens: nothing without a passphrase, the account with escrow; and memberships by group.

use crate::support::{BETTER, GOOD, World, kind};
use holdfast_auth::passkey::RelyingParty;
use holdfast_auth::{Arrival, AuthOptions, EscrowKey, Federated, Secret, Session, SignedIn};
use holdfast_base::{ErrorKind, Result};
use holdfast_meta::{NewIdentity, Role};
use std::sync::Arc;

fn person(subject: &str, name: Option<&str>, spaces: &[(&str, Role)]) -> Federated {
    Federated {
        issuer: "https://id.example".into(),
        subject: subject.into(),
        label: subject.into(),
        name: name.map(ToOwned::to_owned),
        spaces: spaces.iter().map(|(space, role)| ((*space).to_owned(), *role)).collect(),
    }
}

impl World {
    /// The ticket for the passphrase, and whether one is to be chosen.
    async fn asked(&self, person: Federated) -> Result<(String, bool)> {
        match self.auth.arrive(person, None).await? {
            Arrival::Passphrase { ticket, first, .. } => Ok((ticket, first)),
            Arrival::In(..) => panic!("nothing opens this account"),
        }
    }

    async fn passphrase(&self, ticket: &str, passphrase: &str) -> Result<Arc<Session>> {
        let party = RelyingParty::of_origin("http://localhost").expect("a party");
        match self.auth.arrive_with(ticket, &Secret::new(passphrase), None, &party, None).await?.0 {
            SignedIn::Whole(session) => Ok(session),
            SignedIn::NeedsSecond(_) => panic!("there is no second factor"),
        }
    }

    async fn spaces(&self, who: &Session) -> Vec<(String, Role)> {
        let spaces = self.catalogue.spaces_of(who.account).await.expect("reads");
        spaces.into_iter().filter(|(space, _)| !space.home).map(|(space, member)| (space.name, member.role)).collect()
    }
}

#[tokio::test]
async fn the_first_time_a_passphrase_is_chosen_and_then_it_is_asked_for() {
    let world = World::new();
    let (ticket, first) = world.asked(person("s1", Some("ann"), &[])).await.expect("is asked");
    assert!(first);
    assert_eq!(kind(world.passphrase(&ticket, "short").await), ErrorKind::InvalidInput);
    assert!(world.catalogue.account_by_name("ann").await.expect("reads").is_none(), "nothing is half made");
    world.passphrase(&ticket, GOOD).await.expect("makes the account");
    world.sign_in("ann", GOOD).await.expect("it is the account's password, too");
    let (ticket, first) = world.asked(person("s1", Some("renamed"), &[])).await.expect("is asked");
    assert!(!first);
    assert_eq!(kind(world.passphrase(&ticket, BETTER).await), ErrorKind::Unauthenticated);
    assert_eq!(world.passphrase(&ticket, GOOD).await.expect("opens").name, "ann", "who it is decides, not the name");
    assert_eq!(kind(world.passphrase("nonsense", GOOD).await), ErrorKind::Unauthenticated);
    world.clock.advance(16 * 60_000);
    assert_eq!(kind(world.passphrase(&ticket, GOOD).await), ErrorKind::Unauthenticated, "too late");
}

#[tokio::test]
async fn a_name_that_is_taken_is_not_taken_over_and_who_is_not_to_be_made_is_not() {
    let world = World::new();
    world.person("ann").await;
    assert_eq!(kind(world.asked(person("s1", Some("ann"), &[])).await), ErrorKind::Conflict);
    assert_eq!(kind(world.asked(person("s1", None, &[])).await), ErrorKind::Forbidden);
    let ann = world.sign_in("ann", GOOD).await.expect("in");
    let identity = || NewIdentity { issuer: "https://id.example".into(), subject: "s1".into(), label: "Ann".into() };
    world.accounts.link(&ann, identity()).await.expect("links");
    let (ticket, first) = world.asked(person("s1", None, &[])).await.expect("is asked");
    assert!(!first);
    world.passphrase(&ticket, GOOD).await.expect("opens");
    world.person("ben").await;
    let ben = world.sign_in("ben", GOOD).await.expect("in");
    assert_eq!(kind(world.accounts.link(&ben, identity()).await), ErrorKind::AlreadyExists);
    world.accounts.disable("ann").await.expect("disables");
    assert_eq!(kind(world.asked(person("s1", None, &[])).await), ErrorKind::Forbidden);
}

#[tokio::test]
async fn escrow_opens_accounts_that_have_it_and_asks_others() {
    let escrow = EscrowKey::generate().expect("generates");
    let world = World::with(AuthOptions { escrow_public_key: Some(escrow.public()), ..AuthOptions::default() });
    let arrive = async |person| world.auth.arrive(person, Some(&escrow)).await.expect("arrives");
    let Arrival::In(made, Some(_)) = arrive(person("s1", Some("ann"), &[])).await else { panic!("is made at once") };
    let Arrival::In(again, None) = arrive(person("s1", None, &[])).await else { panic!("is opened at once") };
    assert_eq!((made.account, made.key().public()), (again.account, again.key().public()));
    world.accounts.open_session(&again, "a browser".into(), false).await.expect("opens");
    let other = EscrowKey::generate().expect("generates");
    assert!(world.auth.arrive(person("s1", None, &[]), Some(&other)).await.is_err(), "another key opens nothing");
}

#[tokio::test]
async fn a_group_s_membership_waits_for_a_key_and_ends_without_one() {
    let world = World::new();
    world.person("owner").await;
    let owner = world.sign_in("owner", GOOD).await.expect("in");
    for space in ["results", "drafts"] {
        world.accounts.create_space(&owner, space, None).await.expect("makes");
    }
    // A node where no owner is signed in.
    let elsewhere = World { auth: world.elsewhere(), ..world };
    let wanted =
        person("s1", Some("ann"), &[("results", Role::Editor), ("nowhere", Role::Reader), ("owner", Role::Reader)]);
    let (ticket, _) = elsewhere.asked(wanted.clone()).await.expect("is asked");
    let ann = elsewhere.passphrase(&ticket, GOOD).await.expect("makes the account");
    assert_eq!(elsewhere.spaces(&ann).await, [], "nobody has the key yet; a home is nobody else's");
    elsewhere.auth.make_grants(&owner).await.expect("makes");
    assert_eq!(elsewhere.spaces(&ann).await, [("results".to_owned(), Role::Editor)]);
    let (space, membership) = elsewhere.catalogue.spaces_of(ann.account).await.expect("reads").pop().expect("has one");
    ann.space_key(space.uid, &membership).expect("the key is hers");
    // Now an owner is signed in at the node: it is made at once.
    elsewhere.sign_in("owner", GOOD).await.expect("in");
    let both = person("s1", None, &[("results", Role::Reader), ("drafts", Role::Reader)]);
    let (ticket, _) = elsewhere.asked(both).await.expect("is asked");
    elsewhere.passphrase(&ticket, GOOD).await.expect("opens");
    assert_eq!(elsewhere.spaces(&ann).await.len(), 2);
    let (ticket, _) = elsewhere.asked(person("s1", None, &[])).await.expect("is asked");
    elsewhere.passphrase(&ticket, GOOD).await.expect("opens");
    assert_eq!(elsewhere.spaces(&ann).await, []);
}
