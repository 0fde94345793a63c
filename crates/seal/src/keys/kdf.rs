//! From a credential's secret to the key that seals its slot.
//!
//! Two derivations, chosen by what the secret is: Argon2id (RFC 9106) makes every guess at a password cost time and
//! memory; HKDF-SHA256 (RFC 5869) suffices for secrets of 160 random bits and more, which nobody guesses, and costs microseconds.
//! Both take a random salt of the slot, so equal secrets give unrelated keys.

use super::KEY_BYTES;
use argon2::{Algorithm, Argon2, Params, Version};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use holdfast_base::{Error, Result};
use zeroize::Zeroizing;

/// Bytes of salt in a slot (RFC 9106 section 3.1 recommends 16).
pub const SALT_BYTES: usize = 16;

/// Most memory a slot may ask for, in KiB: 256 MiB, so that a hostile catalogue cannot exhaust the machine's memory.
pub const ARGON2_MEMORY_KIB_MAX: u32 = 256 * 1_024;

/// Most passes a slot may ask for: with the most memory, a few seconds.
pub const ARGON2_PASSES_MAX: u32 = 16;

/// Most lanes a slot may ask for. They run one after the other here.
pub const ARGON2_LANES_MAX: u32 = 4;

/// Label that separates this use of HKDF from every other.
const HKDF_INFO: &[u8] = b"holdfast slot v1";

/// Cost of an Argon2id computation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Argon2Params {
    /// Memory, in KiB.
    pub memory_kib: u32,
    /// Passes over the memory.
    pub passes: u32,
    /// Lanes.
    pub lanes: u32,
}

impl Default for Argon2Params {
    /// 32 MiB, 4 passes, 1 lane. Above OWASP's minimum (19 MiB, 2 passes, 1 lane), and still so little memory that a
    /// sign-in fits the server's memory budget beside eight uploads.
    fn default() -> Self {
        #[cfg(debug_assertions)]
        if let Some(memory_kib) = cheap() {
            return Self { memory_kib, passes: 1, lanes: 1 };
        }
        Self { memory_kib: 32 * 1_024, passes: 4, lanes: 1 }
    }
}

/// The memory, in KiB, that tests have a program take for their accounts' passwords, which protect nothing: as they cost, they were half of what tests of the
/// command line took of the processors. No released program asks.
#[cfg(debug_assertions)]
fn cheap() -> Option<u32> {
    std::env::var("TESTS_ARGON2_KIB").ok()?.parse().ok()
}

impl Argon2Params {
    /// Refuses costs that are outside the algorithm's own limits or above ours.
    pub(super) fn check(self) -> Result<Params> {
        let within = self.memory_kib <= ARGON2_MEMORY_KIB_MAX
            && self.passes <= ARGON2_PASSES_MAX
            && self.lanes <= ARGON2_LANES_MAX;
        let params = Params::new(self.memory_kib, self.passes, self.lanes, Some(KEY_BYTES)).ok();
        params.filter(|_| within).ok_or_else(|| {
            Error::damaged(format!(
                "a credential slot asks for an impossible or unreasonable cost ({} KiB, {} passes, {} lanes)",
                self.memory_kib, self.passes, self.lanes
            ))
        })
    }
}

/// Argon2id, version 1.3, of a password.
pub(super) fn argon2id(params: Argon2Params, salt: &[u8], secret: &[u8]) -> Result<Zeroizing<[u8; KEY_BYTES]>> {
    let params = params.check()?;
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(secret, salt, &mut key[..])
        .map_err(|error| Error::internal(format!("Argon2id failed: {error}")))?;
    Ok(key)
}

/// HKDF-SHA256 of a random secret.
pub(super) fn hkdf(salt: &[u8], secret: &[u8]) -> Result<Zeroizing<[u8; KEY_BYTES]>> {
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    Salt::new(HKDF_SHA256, salt)
        .extract(secret)
        .expand(&[HKDF_INFO], HKDF_SHA256)
        .and_then(|output| output.fill(&mut key[..]))
        .map_err(|_| Error::internal("HKDF failed"))?;
    Ok(key)
}
