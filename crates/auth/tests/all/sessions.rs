//! Sessions of browsers: how they begin, where they count, and everything that ends them.

use crate::support::{BETTER, GOOD, World, basic, kind};
use holdfast_auth::accounts::{SESSION_MS, SESSION_REMEMBERED_MS, SESSIONS_PER_ACCOUNT_MAX};
use holdfast_auth::{AuthOptions, CreatedSession, Credential, NewToken, Secret, Session};
use holdfast_base::ErrorKind;
use holdfast_meta::SlotKind;
use std::sync::Arc;

const HOUR_MS: i64 = 3_600_000;

impl World {
    async fn session(&self, who: &Session, remember: bool) -> CreatedSession {
        self.accounts.open_session(who, "a browser".into(), remember).await.expect("opens")
    }

    async fn comes_in(&self, session: &CreatedSession) -> Result<Arc<Session>, ErrorKind> {
        let cookie = Credential::Cookie(session.secret.clone());
        self.auth.sign_in(&cookie, None).await.map_err(|error| error.kind())
    }
}

/// A world with one account, signed in with its password.
async fn ann() -> (World, Arc<Session>) {
    let world = World::new();
    world.person("ann").await;
    let who = world.sign_in("ann", GOOD).await.expect("signs in");
    (world, who)
}

#[tokio::test]
async fn a_session_is_the_account_in_every_process_without_argon2() {
    let (world, who) = ann().await;
    let made = world.session(&who, false).await;
    let before = world.argon2_runs();
    let came = world.comes_in(&made).await.expect("comes in");
    assert_eq!((came.account, came.browser_session()), (who.account, Some(made.slot.id)));
    came.require_full().expect("may do what the password may");
    let cookie = Credential::Cookie(made.secret);
    world.elsewhere().sign_in(&cookie, None).await.expect("comes in elsewhere");
    assert_eq!(world.argon2_runs(), before);
}

#[tokio::test]
async fn the_secret_of_a_session_counts_in_a_cookie_only_and_a_token_not_in_one() {
    let (world, who) = ann().await;
    let secret = world.session(&who, false).await.secret;
    let token = world.accounts.create_token(&who, NewToken::default()).await.expect("makes").token;
    world.auth.sign_in(&Credential::Cookie(secret.clone()), None).await.expect("fills the cache");
    world.auth.sign_in(&Credential::Bearer(token.clone()), None).await.expect("fills the cache");
    for wrong in [
        Credential::Bearer(secret.clone()),
        basic("ann", secret.expose()),
        Credential::Cookie(token),
        Credential::Cookie(Secret::new(GOOD)),
        Credential::Cookie(Secret::new(format!("{}x", secret.expose()))),
    ] {
        assert_eq!(kind(world.auth.sign_in(&wrong, None).await), ErrorKind::Unauthenticated, "{wrong:?}");
    }
}

#[tokio::test]
async fn an_ended_session_is_out_at_once_in_every_process() {
    let (world, who) = ann().await;
    let (one, other) = (world.session(&who, false).await, world.session(&who, false).await);
    let elsewhere = world.elsewhere();
    let cookie = Credential::Cookie(one.secret.clone());
    elsewhere.sign_in(&cookie, None).await.expect("comes in");
    let (ben, password) = (world.person("ben").await.account, who.slot.expect("has one"));
    assert_eq!(kind(world.accounts.end_session(ben.id, one.slot.id).await), ErrorKind::NotFound);
    assert_eq!(kind(world.accounts.end_session(who.account, password).await), ErrorKind::NotFound);
    world.accounts.end_session(who.account, one.slot.id).await.expect("ends");
    assert_eq!(kind(elsewhere.sign_in(&cookie, None).await), ErrorKind::Unauthenticated);
    world.comes_in(&other).await.expect("the other goes on");
}

#[tokio::test]
async fn a_changed_password_ends_all_sessions_but_the_one_it_was_changed_in() {
    let (world, who) = ann().await;
    let (here, there) = (world.session(&who, false).await, world.session(&who, true).await);
    world.comes_in(&there).await.expect("comes in");
    world.accounts.change_password(&who, Secret::new(BETTER), Some(here.slot.id)).await.expect("changes");
    assert_eq!(world.comes_in(&there).await.map(|_| ()), Err(ErrorKind::Unauthenticated));
    world.comes_in(&here).await.expect("goes on");
    let listed = world.accounts.list_sessions(who.account).await.expect("lists");
    assert_eq!(listed.iter().map(|slot| slot.id).collect::<Vec<_>>(), [here.slot.id]);
}

#[tokio::test]
async fn a_session_ends_after_its_time_and_when_it_is_not_used_for_half_of_it() {
    let (world, who) = ann().await;
    for (remember, whole_ms) in [(false, SESSION_MS), (true, SESSION_REMEMBERED_MS)] {
        let (used, unused) = (world.session(&who, remember).await, world.session(&who, remember).await);
        let steps = whole_ms / HOUR_MS / 4;
        for step in 1..=4 {
            world.clock.advance(steps * HOUR_MS - 1);
            world.comes_in(&used).await.unwrap_or_else(|kind| panic!("{kind:?} at {step} of {whole_ms}"));
        }
        assert_eq!(world.comes_in(&unused).await.map(|_| ()), Err(ErrorKind::Unauthenticated), "idle");
        world.clock.advance(4);
        assert_eq!(world.comes_in(&used).await.map(|_| ()), Err(ErrorKind::Unauthenticated), "over");
        assert!(world.accounts.list_sessions(who.account).await.expect("lists").is_empty());
        assert_eq!(kind(world.accounts.end_session(who.account, used.slot.id).await), ErrorKind::NotFound);
    }
}

#[tokio::test]
async fn a_session_in_steady_use_on_one_node_is_not_idle_on_another() {
    let (world, who) = ann().await;
    let made = world.session(&who, false).await;
    let used = async || {
        let slots = world.catalogue.slots(who.account).await.expect("slots");
        slots.into_iter().find(|slot| slot.id == made.slot.id).expect("is there").used_ms
    };
    let mut writes = 0;
    for _ in 0..13 * 6 {
        world.clock.advance(HOUR_MS / 6);
        let before = used().await;
        world.comes_in(&made).await.expect("comes in");
        writes += usize::from(used().await != before);
    }
    assert!((11..=13).contains(&writes), "about one write an hour, not one a request: {writes}");
    world.elsewhere().sign_in(&Credential::Cookie(made.secret.clone()), None).await.expect("comes in");
}

#[tokio::test]
async fn sessions_of_an_account_are_bounded_and_the_one_unused_for_longest_makes_room() {
    let (world, who) = ann().await;
    let first = world.session(&who, true).await;
    let second = world.session(&who, true).await;
    for _ in 2..SESSIONS_PER_ACCOUNT_MAX {
        world.clock.advance(1);
        world.session(&who, true).await;
    }
    world.comes_in(&first).await.expect("used once more");
    world.session(&who, true).await;
    assert_eq!(world.comes_in(&second).await.map(|_| ()), Err(ErrorKind::Unauthenticated));
    world.comes_in(&first).await.expect("is kept");
    let slots = world.catalogue.slots(who.account).await.expect("slots");
    assert_eq!(slots.iter().filter(|slot| slot.kind == SlotKind::Session).count(), SESSIONS_PER_ACCOUNT_MAX);
}

/// Each sign-in tidies up, and must not take what another has just made for a row that ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sign_ins_of_one_account_at_the_same_moment_all_last() {
    let (world, who) = ann().await;
    let (world, who) = (std::sync::Arc::new(world), std::sync::Arc::new(who));
    let opening = (0..64).map(|_| {
        let (world, who) = (world.clone(), who.clone());
        tokio::spawn(async move { world.session(&who, false).await })
    });
    for opened in opening.collect::<Vec<_>>() {
        let made = opened.await.expect("opens");
        world.comes_in(&made).await.expect("it is there still");
    }
}

#[tokio::test]
async fn a_token_opens_no_session_and_a_disabled_account_s_sessions_are_refused() {
    let world = World::with(AuthOptions::default());
    world.person("ann").await;
    let who = world.sign_in("ann", GOOD).await.expect("signs in");
    let token = world.accounts.create_token(&who, NewToken::default()).await.expect("makes").token;
    let with_token = world.auth.sign_in(&Credential::Bearer(token), None).await.expect("signs in");
    let refused = world.accounts.open_session(&with_token, String::new(), false).await;
    assert_eq!(kind(refused), ErrorKind::Forbidden);
    let made = world.session(&who, false).await;
    world.comes_in(&made).await.expect("comes in");
    world.accounts.disable("ann").await.expect("disables");
    assert_eq!(world.comes_in(&made).await.map(|_| ()), Err(ErrorKind::Forbidden));
}
