//! Delays after failed password attempts, growing, never a lock-out.
//!
//! Failures are counted in the catalogue, so that restarts and other nodes know them, under three keys: account and address
//! together, the address, the account. Each has a [`Rule`]: so many failures are free, then each further one doubles the
//! time until the next attempt is looked at, up to a maximum. An attempt that comes too early is answered `TooManyRequests` with
//! the time to wait; it is not looked at and not counted.
//!
//! The owner stays able to sign in:
//! - an address from which the account's password was right in the last [`KNOWN_MS`] is held only to the (short) delay of its own
//!   failures, whatever happens elsewhere: an attack from many addresses slows only addresses the account never used;
//! - credentials that are signed in already and app tokens never come here.
//!
//! Names are kept as 24 bits of a hash: a password typed into the name field by mistake does not end up in the catalogue, and
//! unknown names are delayed like known ones. Two names sharing a value (one in 16 million) share their delays.
//!
//! Limits: IPv6 addresses count by their /64, which is what one customer is given; somebody with more of them is slowed only by the
//! account's rule. Behind a proxy that does not hand on addresses, all share one.

use holdfast_base::{Clock, Error, ErrorKind, Result};
use holdfast_meta::{Attempts, Catalogue};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

const SECOND_MS: i64 = 1_000;
const HOUR_MS: i64 = 3_600 * SECOND_MS;
const DAY_MS: i64 = 24 * HOUR_MS;

/// How long an address stays known to an account after its password was right there, and how long the catalogue keeps any
/// count: three days, a weekend. The catalogue sweeps away what is older than the time handed in with each failure, whatever its
/// key, so all keys hand in this one, and a rule's shorter lapse is applied here.
pub const KNOWN_MS: i64 = 3 * DAY_MS;

/// How failures under one key turn into delays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Failures without a delay.
    pub free: u32,
    /// Delay after one failure more, in milliseconds; it doubles with each further one.
    pub first_ms: i64,
    /// Longest delay in milliseconds.
    pub most_ms: i64,
    /// Without a failure for so long, the count starts again, in milliseconds.
    pub lapse_ms: i64,
}

impl Rule {
    /// Milliseconds until the next attempt is looked at; 0 is now.
    fn wait_ms(&self, attempts: Attempts, now_ms: i64) -> i64 {
        // A clock set back must not make the wait longer than the delay itself.
        let since = now_ms.saturating_sub(attempts.last_ms).max(0);
        if attempts.failures < self.free || self.has_lapsed(attempts, now_ms) {
            return 0;
        }
        let doublings = (attempts.failures - self.free).min(32);
        let delay = self.first_ms.saturating_mul(1 << doublings).min(self.most_ms);
        (delay - since).max(0)
    }

    fn has_lapsed(&self, attempts: Attempts, now_ms: i64) -> bool {
        now_ms.saturating_sub(attempts.last_ms) > self.lapse_ms
    }
}

/// The rules in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// One address trying one account it has not been signed in to.
    pub pair: Rule,
    /// One address trying an account it has been signed in to: a person mistyping, a phone with the old password.
    pub known: Rule,
    /// One address trying any accounts: room for an office behind one address.
    pub address: Rule,
    /// All unknown addresses together trying one account.
    pub account: Rule,
}

impl Default for Limits {
    /// With the longest delays, a single address makes about 100 guesses a day at an account, and all addresses of the world
    /// together about 2,900: nothing against a password that passed [`check_password`](crate::check_password).
    fn default() -> Self {
        let rule =
            |free, most_s: i64, lapse_ms| Rule { free, first_ms: SECOND_MS, most_ms: most_s * SECOND_MS, lapse_ms };
        Self {
            pair: rule(5, 900, DAY_MS),
            known: rule(10, 30, DAY_MS),
            address: rule(50, 300, HOUR_MS),
            account: rule(20, 30, HOUR_MS),
        }
    }
}

/// The address of a peer as far as it tells one customer from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct AddressGroup(Option<IpAddr>);

impl AddressGroup {
    /// IPv4 (also inside IPv6) as it is, IPv6 by its /64. No peer, such as a local command, is a group of its own.
    pub(crate) fn of(peer: Option<IpAddr>) -> Self {
        Self(peer.map(|address| match address.to_canonical() {
            IpAddr::V6(address) => {
                let mut octets = address.octets();
                octets[8..].fill(0);
                IpAddr::V6(Ipv6Addr::from(octets))
            }
            v4 @ IpAddr::V4(_) => v4,
        }))
    }

    fn key(self) -> String {
        self.0.map_or_else(|| "local".to_owned(), |address| address.to_string())
    }
}

/// Counts attempts and says how long to wait.
pub(crate) struct Limiter {
    catalogue: Arc<dyn Catalogue>,
    clock: Arc<dyn Clock>,
    limits: Limits,
}

/// The catalogue keys of one account name tried from one address.
struct Keys {
    pair: String,
    known: String,
    address: String,
    account: String,
}

impl Keys {
    fn new(name: &str, from: AddressGroup) -> Self {
        let (name, from) = (&blake3::hash(name.as_bytes()).to_hex()[..6], from.key());
        Self {
            pair: format!("pair:{name}:{from}"),
            known: format!("known:{name}:{from}"),
            address: format!("address:{from}"),
            account: format!("account:{name}"),
        }
    }
}

impl Limiter {
    pub(crate) fn new(catalogue: Arc<dyn Catalogue>, clock: Arc<dyn Clock>, limits: Limits) -> Self {
        Self { catalogue, clock, limits }
    }

    /// Whether an attempt may be looked at now; otherwise `TooManyRequests` with the time to wait.
    pub(crate) async fn check(&self, name: &str, from: AddressGroup) -> Result<()> {
        let (keys, now) = (Keys::new(name, from), self.clock.now_ms());
        let pair = self.catalogue.attempts(&keys.pair).await?;
        let wait_ms = if self.is_known(&keys, now).await? {
            self.limits.known.wait_ms(pair, now)
        } else {
            let address = self.catalogue.attempts(&keys.address).await?;
            let account = self.catalogue.attempts(&keys.account).await?;
            let waits = [(self.limits.pair, pair), (self.limits.address, address), (self.limits.account, account)];
            waits.into_iter().map(|(rule, attempts)| rule.wait_ms(attempts, now)).max().unwrap_or(0)
        };
        if wait_ms == 0 { Ok(()) } else { Err(too_early(wait_ms)) }
    }

    /// Counts a failure.
    pub(crate) async fn failed(&self, name: &str, from: AddressGroup) -> Result<()> {
        let (keys, now) = (Keys::new(name, from), self.clock.now_ms());
        if self.is_known(&keys, now).await? {
            // A forgotten device with the old password must not slow the rest of the world.
            return self.count(&keys.pair, self.limits.known, now).await;
        }
        tokio::try_join!(
            self.count(&keys.pair, self.limits.pair, now),
            self.count(&keys.address, self.limits.address, now),
            self.count(&keys.account, self.limits.account, now),
        )
        .map(|_| ())
    }

    async fn count(&self, key: &str, rule: Rule, now_ms: i64) -> Result<()> {
        let before = self.catalogue.attempts(key).await?;
        if before.failures > 0 && rule.has_lapsed(before, now_ms) {
            self.catalogue.attempt_succeeded(key).await?;
        }
        self.catalogue.attempt_failed(key, now_ms, KNOWN_MS).await.map(|_| ())
    }

    /// Forgets the failures of this account from this address, and knows the address from now on. The counts of the address
    /// and of the account stay: otherwise an attacker with one account of their own, or a lucky moment, would clear them.
    pub(crate) async fn succeeded(&self, name: &str, from: AddressGroup) -> Result<()> {
        let (keys, now) = (Keys::new(name, from), self.clock.now_ms());
        if self.catalogue.attempts(&keys.pair).await?.failures > 0 {
            self.catalogue.attempt_succeeded(&keys.pair).await?;
        }
        let known = self.catalogue.attempts(&keys.known).await?;
        if known.failures == 0 || now.saturating_sub(known.last_ms) >= DAY_MS / 2 {
            // The catalogue counts events with a time under a key; under this key they are successes. Written twice a day.
            self.catalogue.attempt_failed(&keys.known, now, KNOWN_MS).await?;
        }
        Ok(())
    }

    async fn is_known(&self, keys: &Keys, now_ms: i64) -> Result<bool> {
        let known = self.catalogue.attempts(&keys.known).await?;
        Ok(known.failures > 0 && now_ms.saturating_sub(known.last_ms) < KNOWN_MS)
    }
}

fn too_early(wait_ms: i64) -> Error {
    let retry_after_s = u32::try_from(wait_ms.saturating_add(SECOND_MS - 1) / SECOND_MS).unwrap_or(u32::MAX);
    Error::new(
        ErrorKind::TooManyRequests { retry_after_s },
        format!("too many failed attempts to sign in: try again in {retry_after_s} s"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(failures: u32, since_ms: i64, rule: Rule) -> i64 {
        rule.wait_ms(Attempts { failures, last_ms: 1_000_000 }, 1_000_000 + since_ms)
    }

    #[test]
    fn delays_start_after_the_free_failures_double_and_stop_growing() {
        let rule = Limits::default().pair;
        let delays: Vec<_> = [0, 4, 5, 6, 7, 14, 15, 40, u32::MAX].map(|failures| after(failures, 0, rule)).into();
        assert_eq!(delays, [0, 0, 1_000, 2_000, 4_000, 512_000, 900_000, 900_000, 900_000]);
    }

    #[test]
    fn waiting_shortens_the_delay_and_a_lapse_ends_it() {
        let rule = Limits::default().pair;
        assert_eq!(after(7, 3_999, rule), 1);
        assert_eq!(after(7, 4_000, rule), 0);
        assert_eq!(after(u32::MAX, DAY_MS + 1, rule), 0);
    }

    #[test]
    fn a_clock_set_back_does_not_lengthen_the_wait() {
        assert_eq!(after(7, -DAY_MS, Limits::default().pair), 4_000);
    }

    #[test]
    fn addresses_group_as_customers_do() {
        let group = |text: &str| AddressGroup::of(Some(text.parse().expect("address")));
        assert_eq!(group("2001:db8:1:2:3::4"), group("2001:db8:1:2:ffff::1"));
        assert_ne!(group("2001:db8:1:2::1"), group("2001:db8:1:3::1"));
        assert_eq!(group("::ffff:192.0.2.1"), group("192.0.2.1"));
        assert_ne!(group("192.0.2.1"), group("192.0.2.2"));
        assert_ne!(group("192.0.2.1"), AddressGroup::of(None));
    }
}
