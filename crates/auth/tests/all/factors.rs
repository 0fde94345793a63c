//! Second factors: what a password is worth without one, what a code is worth, and who can take them away.

use crate::support::{BETTER, GOOD, World, basic, kind};
use holdfast_auth::passkey::RelyingParty;
use holdfast_auth::{Created, Credential, NewToken, Second, Secret, Session, SignedIn};
use holdfast_base::{Clock, ErrorKind, Result};
use holdfast_seal::proof::one_time_code;
use std::sync::Arc;

fn party() -> RelyingParty {
    RelyingParty::of_origin("http://localhost").expect("a party")
}

/// RFC 4648, as an authenticator reads it.
fn decode(text: &str) -> Vec<u8> {
    let value =
        |letter: u8| b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".iter().position(|known| *known == letter).expect("known");
    let bits: Vec<usize> =
        text.bytes().flat_map(|letter| (0..5).rev().map(move |bit| value(letter) >> bit & 1)).collect();
    bits.chunks_exact(8)
        .map(|eight| u8::try_from(eight.iter().fold(0, |all, bit| all << 1 | bit)).expect("a byte"))
        .collect()
}

impl World {
    fn code(&self, secret: &[u8], later: i64) -> Secret {
        Secret::new(one_time_code(secret, self.clock.now_ms() / 30_000 + later))
    }

    async fn enrolled(&self, name: &str) -> (Created, Arc<Session>, Vec<u8>) {
        let created = self.person(name).await;
        let who = self.sign_in(name, GOOD).await.expect("signs in");
        let new = self.accounts.begin_codes(&who).await.expect("begins");
        assert!(new.uri.expose().contains(&format!("secret={}", new.secret.expose())));
        let secret = decode(new.secret.expose());
        self.accounts.confirm_codes(&who, &new.ticket, &self.code(&secret, -1)).await.expect("confirms");
        (created, who, secret)
    }

    async fn with_second(&self, name: &str, password: &str, second: Option<Second<'_>>) -> Result<SignedIn> {
        self.auth.sign_in_with(name, &Secret::new(password), second, &party(), None).await
    }

    async fn with_code(&self, name: &str, code: &Secret) -> Result<Arc<Session>> {
        match self.with_second(name, GOOD, Some(Second::Code(code))).await? {
            SignedIn::Whole(session) => Ok(session),
            SignedIn::NeedsSecond(_) => panic!("a code was given"),
        }
    }
}

#[tokio::test]
async fn a_password_alone_opens_nothing_once_codes_are_on_and_tokens_go_on() {
    let world = World::new();
    let (_, who, secret) = world.enrolled("ann").await;
    let token = world.accounts.create_token(&who, NewToken::default()).await.expect("makes").token;
    let refused = world.sign_in("ann", GOOD).await.expect_err("a second factor is wanted");
    assert!(refused.kind() == ErrorKind::Unauthenticated && refused.message().contains("app token"), "{refused}");
    let (runs, elsewhere) = (world.argon2_runs(), world.elsewhere());
    for _ in 0..3 {
        assert_eq!(kind(world.sign_in("ann", GOOD).await), ErrorKind::Unauthenticated);
    }
    assert_eq!(world.argon2_runs(), runs, "a client that goes on sending the password costs nothing");
    assert!(elsewhere.sign_in(&basic("ann", GOOD), None).await.expect_err("wanted").message().contains("app token"));
    let wrong = world.sign_in("ann", BETTER).await.expect_err("wrong");
    assert!(!wrong.message().contains("second"), "who does not know the password learns nothing: {wrong}");
    world.auth.sign_in(&Credential::Bearer(token), None).await.expect("a token goes on");
    let needed = world.with_second("ann", GOOD, None).await.expect("the password is right");
    let SignedIn::NeedsSecond(needed) = needed else { panic!("a second factor is wanted") };
    assert!(needed.codes && needed.passkey.is_none());
    let whole = world.with_code("ann", &world.code(&secret, 0)).await.expect("signs in");
    world.accounts.open_session(&whole, "a browser".into(), false).await.expect("opens");
    assert_eq!(kind(world.sign_in("ann", GOOD).await), ErrorKind::Unauthenticated, "only that once");
}

#[tokio::test]
async fn a_session_is_not_opened_without_the_second_factor() {
    let world = World::new();
    world.enrolled("ann").await;
    let half = world.auth.check_password("ann", &Secret::new(GOOD), None).await.expect("the password is right");
    assert_eq!(kind(world.accounts.open_session(&half, "x".into(), false).await), ErrorKind::Internal);
}

#[tokio::test]
async fn a_code_counts_once_on_whatever_node_and_near_its_time() {
    let world = World::new();
    let (_, _, secret) = world.enrolled("ann").await;
    let used = world.code(&secret, -1);
    assert_eq!(kind(world.with_code("ann", &used).await), ErrorKind::Unauthenticated, "it switched the codes on");
    let code = world.code(&secret, 0);
    world.with_code("ann", &code).await.expect("signs in");
    assert_eq!(kind(world.with_code("ann", &code).await), ErrorKind::Unauthenticated);
    let elsewhere = world.elsewhere();
    let again = elsewhere.sign_in_with("ann", &Secret::new(GOOD), Some(Second::Code(&code)), &party(), None).await;
    assert_eq!(kind(again.map(|_| ())), ErrorKind::Unauthenticated);
    world.with_code("ann", &world.code(&secret, 1)).await.expect("a fast clock");
    assert_eq!(
        kind(world.with_code("ann", &world.code(&secret, 0)).await),
        ErrorKind::Unauthenticated,
        "not backwards"
    );
    world.clock.advance(60 * 60_000);
    assert_eq!(kind(world.with_code("ann", &world.code(&secret, 2)).await), ErrorKind::Unauthenticated);
    world.with_code("ann", &world.code(&secret, 0)).await.expect("signs in");
}

#[tokio::test]
async fn guessing_codes_is_slowed_and_a_right_password_does_not_clear_the_count() {
    let world = World::new();
    let (_, _, secret) = world.enrolled("ann").await;
    let peer = Some("203.0.113.9".parse().expect("address"));
    let password = Secret::new(GOOD);
    let guess = async |code: &Secret| {
        let second = Some(Second::Code(code));
        world
            .auth
            .sign_in_with("ann", &password, second, &party(), peer)
            .await
            .map(|_| ())
            .map_err(|error| error.kind())
    };
    for _ in 0..5 {
        world.auth.sign_in_with("ann", &password, None, &party(), peer).await.expect("the password is right");
        assert_eq!(guess(&Secret::new("000000")).await, Err(ErrorKind::Unauthenticated));
    }
    let right = world.code(&secret, 0);
    assert!(matches!(guess(&right).await, Err(ErrorKind::TooManyRequests { .. })));
    world.clock.advance(2_000);
    guess(&right).await.expect("after the delay it counts");
}

#[tokio::test]
async fn the_recovery_code_is_the_way_out_and_an_administrator_opens_no_key() {
    let world = World::new();
    let (created, who, _) = world.enrolled("ann").await;
    let (other, _, _) = world.enrolled("ben").await;
    let wrong = world.with_second("ann", GOOD, Some(Second::Recovery(&other.recovery_code))).await;
    assert_eq!(kind(wrong.map(|_| ())), ErrorKind::Unauthenticated);
    let second = Some(Second::Recovery(&created.recovery_code));
    assert!(matches!(world.with_second("ann", GOOD, second).await.expect("signs in"), SignedIn::Whole(_)));
    assert_eq!(kind(world.with_second("ann", BETTER, second).await.map(|_| ())), ErrorKind::Unauthenticated);
    let slots = world.catalogue.slots(who.account).await.expect("reads");
    world.accounts.reset_factors("ann").await.expect("resets");
    assert_eq!(world.catalogue.slots(who.account).await.expect("reads").len(), slots.len());
    world.sign_in("ann", GOOD).await.expect("the password alone again");
    assert_eq!(kind(world.sign_in("ann", BETTER).await), ErrorKind::Unauthenticated);
    assert_eq!(kind(world.accounts.reset_factors("nobody").await), ErrorKind::NotFound);
}

#[tokio::test]
async fn codes_are_switched_on_by_a_code_of_the_secret_shown_to_this_account_in_time() {
    let world = World::new();
    world.person("ann").await;
    world.person("ben").await;
    let (ann, ben) = (world.sign_in("ann", GOOD).await.expect("in"), world.sign_in("ben", GOOD).await.expect("in"));
    let new = world.accounts.begin_codes(&ann).await.expect("begins");
    let secret = decode(new.secret.expose());
    let confirm = async |who: &Session, code: &Secret| world.accounts.confirm_codes(who, &new.ticket, code).await;
    assert_eq!(kind(confirm(&ann, &Secret::new("123")).await), ErrorKind::InvalidInput);
    assert_eq!(kind(confirm(&ben, &world.code(&secret, 0)).await), ErrorKind::Conflict);
    world.clock.advance(16 * 60_000);
    assert_eq!(kind(confirm(&ann, &world.code(&secret, 0)).await), ErrorKind::Conflict);
    world.sign_in("ann", GOOD).await.expect("nothing was switched on");
    let new = world.accounts.begin_codes(&ann).await.expect("begins");
    let secret = decode(new.secret.expose());
    world.accounts.confirm_codes(&ann, &new.ticket, &world.code(&secret, 0)).await.expect("confirms");
    assert_eq!(kind(world.accounts.begin_codes(&ann).await), ErrorKind::AlreadyExists);
    let factors = world.accounts.factors(ann.account).await.expect("reads");
    let sealed = factors.totp.expect("is on").sealed;
    assert!(!sealed.windows(secret.len()).any(|window| window == secret), "the catalogue has no secret in clear");
    world.accounts.remove_codes(&ann).await.expect("switches off");
    world.sign_in("ann", GOOD).await.expect("the password alone again");
}
