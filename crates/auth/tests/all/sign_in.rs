//! Signing in: the fast path, its validity, and what the world is told.

use crate::support::{BETTER, GOOD, World, basic, kind};
use holdfast_auth::{AuthOptions, Credential, NewToken, Secret};
use holdfast_base::ErrorKind;
use holdfast_meta::SlotKind;
use std::sync::Arc;
use tokio::task::JoinSet;

#[tokio::test]
async fn a_credential_that_was_right_costs_no_argon2_again() {
    let world = World::new();
    world.person("ann").await;
    let before = world.argon2_runs();
    let first = world.sign_in("ann", GOOD).await.expect("signs in");
    for _ in 0..100 {
        let again = world.sign_in("ann", GOOD).await.expect("signs in");
        assert!(Arc::ptr_eq(&first, &again));
    }
    assert_eq!(world.argon2_runs(), before + 1);
    assert_eq!((world.auth.stats().cached, world.auth.stats().cache_hits), (1, 100));
}

#[tokio::test]
async fn simultaneous_first_requests_share_one_computation() {
    let world = World::new();
    world.person("ann").await;
    for (secret, succeeds) in [(GOOD, true), ("not the password", false)] {
        let before = world.argon2_runs();
        let mut requests = JoinSet::new();
        for _ in 0..8 {
            let auth = world.auth.clone();
            requests.spawn(async move { auth.sign_in(&basic("ann", secret), None).await });
        }
        let outcomes = requests.join_all().await;
        assert!(outcomes.iter().all(|outcome| outcome.is_ok() == succeeds), "{outcomes:?}");
        assert_eq!(world.argon2_runs(), before + 1);
    }
}

#[tokio::test]
async fn a_client_that_leaves_does_not_interrupt_the_check_for_the_others() {
    let world = World::new();
    world.person("ann").await;
    let credential = basic("ann", GOOD);
    let mut leaving = Box::pin(world.auth.sign_in(&credential, None));
    // Polled once, so that the check is under way, then dropped.
    std::future::poll_fn(|context| {
        let _ = leaving.as_mut().poll(context);
        std::task::Poll::Ready(())
    })
    .await;
    let before_it_ended = world.auth.sign_in(&credential, None);
    drop(leaving);
    before_it_ended.await.expect("signs in");
}

#[tokio::test]
async fn a_changed_password_voids_the_old_one_in_every_process_at_once() {
    let world = World::new();
    world.person("ann").await;
    let elsewhere = world.elsewhere();
    elsewhere.sign_in(&basic("ann", GOOD), None).await.expect("signs in elsewhere");
    let session = world.sign_in("ann", GOOD).await.expect("signs in");
    world.accounts.change_password(&session, Secret::new(BETTER), None).await.expect("changed");
    assert_eq!(kind(elsewhere.sign_in(&basic("ann", GOOD), None).await), ErrorKind::Unauthenticated);
    assert_eq!(kind(world.sign_in("ann", GOOD).await), ErrorKind::Unauthenticated);
    elsewhere.sign_in(&basic("ann", BETTER), None).await.expect("the new one works");
    assert!(session.generation < world.sign_in("ann", BETTER).await.expect("signs in").generation);
}

#[tokio::test]
async fn a_disabled_or_removed_account_is_out_at_once() {
    let world = World::new();
    world.person("ann").await;
    let elsewhere = world.elsewhere();
    elsewhere.sign_in(&basic("ann", GOOD), None).await.expect("signs in");
    world.accounts.disable("ann").await.expect("disabled");
    assert_eq!(kind(elsewhere.sign_in(&basic("ann", GOOD), None).await), ErrorKind::Forbidden);
    assert_eq!(kind(elsewhere.sign_in(&basic("ann", "wrong"), None).await), ErrorKind::Unauthenticated);
    world.accounts.enable("ann").await.expect("enabled");
    elsewhere.sign_in(&basic("ann", GOOD), None).await.expect("signs in again");
    world.accounts.remove("ann").await.expect("removed");
    assert_eq!(kind(elsewhere.sign_in(&basic("ann", GOOD), None).await), ErrorKind::Unauthenticated);
}

#[tokio::test]
async fn a_change_that_is_not_of_the_credential_renews_the_session_without_argon2() {
    let world = World::new();
    world.person("ann").await;
    let session = world.sign_in("ann", GOOD).await.expect("signs in");
    let before = world.argon2_runs();
    world.accounts.set_admin("ann", true).await.expect("promoted");
    let renewed = world.sign_in("ann", GOOD).await.expect("signs in");
    assert!(!session.admin && renewed.admin && renewed.generation > session.generation);
    assert_eq!(world.argon2_runs(), before);
}

#[tokio::test]
async fn a_cached_credential_ages_and_goes_idle() {
    let world = World::with(AuthOptions { cache_idle_ms: 1_000, cache_lifetime_ms: 3_000, ..AuthOptions::default() });
    world.person("ann").await;
    world.sign_in("ann", GOOD).await.expect("signs in");
    let runs = world.argon2_runs();
    for _ in 0..3 {
        world.clock.advance(900);
        world.sign_in("ann", GOOD).await.expect("in use");
    }
    assert_eq!(world.argon2_runs(), runs);
    world.clock.advance(900);
    world.sign_in("ann", GOOD).await.expect("too old, checked again");
    assert_eq!(world.argon2_runs(), runs + 1);
    world.clock.advance(1_000);
    world.auth.sweep();
    assert_eq!(world.auth.stats().cached, 0, "idle ones are forgotten with their keys");
}

#[tokio::test]
async fn the_cache_is_bounded_and_the_idlest_goes() {
    let world = World::with(AuthOptions { cache_entries_max: 2, ..AuthOptions::default() });
    for name in ["ann", "ben", "cat"] {
        world.person(name).await;
        world.sign_in(name, GOOD).await.expect("signs in");
        world.clock.advance(10);
    }
    assert_eq!(world.auth.stats().cached, 2);
    let runs = world.argon2_runs();
    world.sign_in("cat", GOOD).await.expect("cached");
    world.sign_in("ben", GOOD).await.expect("cached");
    assert_eq!(world.argon2_runs(), runs);
    world.sign_in("ann", GOOD).await.expect("displaced");
    assert_eq!(world.argon2_runs(), runs + 1);
}

#[tokio::test]
async fn an_unknown_account_takes_the_same_way_and_gets_the_same_answer() {
    let world = World::new();
    world.person("ann").await;
    let before = world.argon2_runs();
    let wrong = world.sign_in("ann", "not the password").await.expect_err("wrong");
    let middle = world.argon2_runs();
    let unknown = world.sign_in("nobody", "not the password").await.expect_err("unknown");
    assert_eq!((middle - before, world.argon2_runs() - middle), (1, 1));
    assert_eq!(format!("{wrong:?}"), format!("{unknown:?}"));
    for _ in 0..5 {
        let _ = world.sign_in("ann", "guess").await;
        let _ = world.sign_in("nobody", "guess").await;
    }
    // Delayed alike, too.
    let delays = [world.sign_in("ann", "guess").await, world.sign_in("nobody", "guess").await];
    assert!(delays.into_iter().all(|delay| matches!(kind(delay), ErrorKind::TooManyRequests { .. })));
}

#[tokio::test]
async fn garbage_is_refused_before_any_work() {
    let world = World::new();
    world.person("ann").await;
    let before = world.argon2_runs();
    assert_eq!(kind(world.sign_in("ann", &"x".repeat(1_025)).await), ErrorKind::Unauthenticated);
    let bearer = Credential::Bearer(Secret::new(GOOD));
    assert_eq!(kind(world.auth.sign_in(&bearer, None).await), ErrorKind::Unauthenticated);
    assert_eq!(world.argon2_runs(), before);
    for name in ["", "\0", "../../etc", &"n".repeat(10_000)] {
        assert_eq!(kind(world.sign_in(name, "whatever").await), ErrorKind::Unauthenticated, "{name:?}");
    }
}

#[tokio::test]
async fn a_crowd_beyond_the_waiting_room_is_told_to_come_back() {
    let world = World::with(AuthOptions { argon2_waiting_max: 4, ..AuthOptions::default() });
    let mut crowd = JoinSet::new();
    for person in 0..20 {
        let auth = world.auth.clone();
        crowd.spawn(async move { auth.sign_in(&basic(&format!("person{person}"), "guess"), None).await });
    }
    let told = crowd.join_all().await.into_iter().map(kind);
    assert!(told.filter(|kind| matches!(kind, ErrorKind::TooManyRequests { .. })).count() >= 16);
    assert!(world.argon2_runs() <= 4);
    assert_eq!(kind(world.sign_in("later", "guess").await), ErrorKind::Unauthenticated, "and the next request works");
}

#[tokio::test]
async fn the_last_use_of_a_credential_is_noted_once_an_hour() {
    let world = World::new();
    let ann = world.person("ann").await.account;
    let session = world.sign_in("ann", GOOD).await.expect("signs in");
    let made = world.accounts.create_token(&session, NewToken::default()).await.expect("token");
    let used = async || {
        let slots = world.catalogue.slots(ann.id).await.expect("slots");
        slots.into_iter().find(|slot| slot.kind == SlotKind::Token).expect("token").used_ms
    };
    assert_eq!(used().await, None);
    let bearer = Credential::Bearer(made.token);
    let mut expected = None;
    for (advance, noted) in [(1_000, true), (60_000, false), (3_600_000, true)] {
        world.clock.advance(advance);
        world.elsewhere().sign_in(&bearer, None).await.expect("signs in");
        if noted {
            expected = Some(holdfast_base::Clock::now_ms(&*world.clock));
        }
        assert_eq!(used().await, expected);
    }
}
