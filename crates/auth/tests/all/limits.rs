//! Delays after failures: they stop a guesser and never the owner.

use crate::support::{GOOD, World, basic};
use holdfast_auth::{AuthOptions, Credential, NewToken};
use holdfast_base::ErrorKind;

const HOME: &str = "192.0.2.1";
const FOREIGN: &str = "198.51.100.7";
const WRONG: Option<ErrorKind> = Some(ErrorKind::Unauthenticated);

fn delayed(outcome: Option<ErrorKind>) -> Option<u32> {
    match outcome {
        Some(ErrorKind::TooManyRequests { retry_after_s }) => Some(retry_after_s),
        _ => None,
    }
}

#[tokio::test]
async fn failures_delay_the_address_more_and_more_and_waiting_helps() {
    let world = World::new();
    world.person("ann").await;
    for guess in 0..5 {
        assert_eq!(world.from(FOREIGN, "ann", &format!("guess {guess}")).await, WRONG);
    }
    for delay_s in [1, 2, 4, 8] {
        let runs = world.argon2_runs();
        assert_eq!(delayed(world.from(FOREIGN, "ann", GOOD).await), Some(delay_s), "even the right password waits");
        assert_eq!(world.argon2_runs(), runs, "an early attempt is not looked at");
        world.clock.advance(i64::from(delay_s) * 1_000);
        assert_eq!(world.from(FOREIGN, "ann", "another guess").await, WRONG);
    }
    world.clock.advance(16_000);
    assert_eq!(world.from(FOREIGN, "ann", GOOD).await, None);
    assert_eq!(world.from(FOREIGN, "ann", "mistyped").await, WRONG, "a success forgets the failures before it");
}

#[tokio::test]
async fn the_longest_delay_is_bounded_and_failures_lapse() {
    let world = World::new();
    world.person("ann").await;
    for _ in 0..40 {
        world.from(FOREIGN, "ann", "guess").await;
        world.clock.advance(900_000);
    }
    world.from(FOREIGN, "ann", "guess").await;
    assert_eq!(delayed(world.from(FOREIGN, "ann", "guess").await), Some(900));
    world.clock.advance(24 * 3_600_000 + 1);
    for _ in 0..5 {
        assert_eq!(world.from(FOREIGN, "ann", "guess").await, WRONG);
    }
}

#[tokio::test]
async fn an_attack_does_not_touch_another_address_or_account() {
    let world = World::new();
    world.person("ann").await;
    world.person("ben").await;
    for _ in 0..10 {
        world.from(FOREIGN, "ann", "guess").await;
    }
    assert!(delayed(world.from(FOREIGN, "ann", GOOD).await).is_some());
    assert_eq!(world.from(HOME, "ann", GOOD).await, None, "the owner at home");
    assert_eq!(world.from(FOREIGN, "ben", GOOD).await, None, "somebody else behind the same address");
}

#[tokio::test]
async fn an_attack_from_many_addresses_slows_only_addresses_never_used_before() {
    let world = World::new();
    world.person("ann").await;
    assert_eq!(world.from(HOME, "ann", GOOD).await, None);
    // Not even after a weekend, with failures of others in between.
    world.clock.advance(2 * 24 * 3_600_000);
    for host in 0..30 {
        world.from(&format!("203.0.113.{host}"), "ann", "guess").await;
    }
    // A restart forgets the credentials in memory, not which addresses are known.
    let restarted = world.elsewhere();
    let from = async |address: &str| {
        let peer = Some(address.parse().expect("address"));
        restarted.sign_in(&basic("ann", GOOD), peer).await.err().map(|error| error.kind())
    };
    let unknown = delayed(from(FOREIGN).await).expect("a new address waits");
    assert!(unknown <= 30, "but not for long: {unknown} s");
    assert_eq!(from(HOME).await, None, "the owner comes in");
    world.clock.advance(30_000);
    assert_eq!(
        world.elsewhere().sign_in(&basic("ann", GOOD), FOREIGN.parse().ok()).await.err().map(|e| e.kind()),
        None
    );
}

#[tokio::test]
async fn one_address_trying_many_accounts_is_delayed() {
    let world = World::new();
    for guess in 0..50 {
        assert_eq!(world.from(FOREIGN, &format!("person{guess}"), "guess").await, WRONG);
    }
    assert_eq!(delayed(world.from(FOREIGN, "one-more", "guess").await), Some(1));
    assert_eq!(world.from(HOME, "one-more", "guess").await, WRONG);
}

#[tokio::test]
async fn each_rule_lapses_in_its_own_time() {
    let world = World::new();
    world.person("ann").await;
    for _ in 0..5 {
        assert_eq!(world.from(FOREIGN, "ann", "guess").await, WRONG);
    }
    for guess in 0..44 {
        assert_eq!(world.from(FOREIGN, &format!("person{guess}"), "guess").await, WRONG);
    }
    // After an hour the address starts anew, the pair does not.
    world.clock.advance(3_600_001);
    for guess in 0..10 {
        assert_eq!(world.from(FOREIGN, &format!("other{guess}"), "guess").await, WRONG);
    }
    assert_eq!(world.from(FOREIGN, "ann", "guess").await, WRONG);
    assert_eq!(delayed(world.from(FOREIGN, "ann", "guess").await), Some(2));
}

#[tokio::test]
async fn neighbours_in_one_ipv6_network_count_together() {
    let world = World::new();
    world.person("ann").await;
    for host in 1..=5 {
        assert_eq!(world.from(&format!("2001:db8:0:1::{host}"), "ann", "guess").await, WRONG);
    }
    assert!(delayed(world.from("2001:db8:0:1:ffff::9", "ann", "guess").await).is_some());
    assert_eq!(world.from("2001:db8:0:2::1", "ann", "guess").await, WRONG);
}

#[tokio::test]
async fn a_phone_with_the_old_password_does_not_slow_the_rest_of_the_world() {
    let world = World::with(AuthOptions { cache_idle_ms: 1, ..AuthOptions::default() });
    world.person("ann").await;
    assert_eq!(world.from(HOME, "ann", GOOD).await, None);
    for _ in 0..200 {
        world.clock.advance(60_000);
        assert_eq!(world.from(HOME, "ann", "the old password").await, WRONG, "its longest delay is half a minute");
    }
    assert_eq!(world.from(FOREIGN, "ann", GOOD).await, None);
}

#[tokio::test]
async fn cached_credentials_and_app_tokens_are_not_delayed() {
    let world = World::new();
    world.person("ann").await;
    assert_eq!(world.from(HOME, "ann", GOOD).await, None);
    let session = world.sign_in("ann", GOOD).await.expect("signs in");
    let made = world.accounts.create_token(&session, NewToken::default()).await.expect("token");
    for _ in 0..20 {
        world.from(HOME, "ann", "guess").await;
    }
    assert!(delayed(world.from(HOME, "ann", "guess").await).is_some());
    assert_eq!(world.from(HOME, "ann", GOOD).await, None, "already signed in");
    assert_eq!(world.from(HOME, "ann", made.token.expose()).await, None);
    let bearer = Credential::Bearer(made.token);
    world.auth.sign_in(&bearer, Some(HOME.parse().expect("address"))).await.expect("a token");
}
