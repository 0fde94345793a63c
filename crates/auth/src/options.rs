//! What an operator or a test can set.

use crate::attempts::Limits;
use holdfast_seal::keys::Argon2Params;

/// Argon2id computations at once. One uses one core and 32 MiB: a storm of sign-ins leaves the rest to those already in, and
/// about fifteen newcomers a second still pass.
pub const ARGON2_AT_ONCE: usize = 1;

/// Sign-ins that may wait for their turn: at most a few seconds' worth; more are told to come back.
pub const ARGON2_WAITING_MAX: usize = 64;

/// Signed-in credentials kept in memory: about 1 KiB each.
pub const CACHE_ENTRIES_MAX: usize = 10_000;

/// A credential not used for so long is forgotten, and its key with it: 30 minutes, longer than a sync client's pause.
pub const CACHE_IDLE_MS: i64 = 30 * 60_000;

/// A credential is checked in full at least so often: 12 hours, a working day.
pub const CACHE_LIFETIME_MS: i64 = 12 * 3_600_000;

/// Settings of [`Authenticator`](crate::Authenticator) and [`Accounts`](crate::Accounts).
#[derive(Debug, Clone)]
pub struct AuthOptions {
    /// Cost of new password slots.
    pub argon2: Argon2Params,
    /// See [`ARGON2_AT_ONCE`].
    pub argon2_at_once: usize,
    /// See [`ARGON2_WAITING_MAX`].
    pub argon2_waiting_max: usize,
    /// See [`CACHE_ENTRIES_MAX`].
    pub cache_entries_max: usize,
    /// See [`CACHE_IDLE_MS`].
    pub cache_idle_ms: i64,
    /// See [`CACHE_LIFETIME_MS`].
    pub cache_lifetime_ms: i64,
    /// Delays after failed attempts.
    pub limits: Limits,
    /// The operator's escrow public key, if escrow is switched on.
    pub escrow_public_key: Option<[u8; 32]>,
}

impl Default for AuthOptions {
    fn default() -> Self {
        Self {
            argon2: Argon2Params::default(),
            argon2_at_once: ARGON2_AT_ONCE,
            argon2_waiting_max: ARGON2_WAITING_MAX,
            cache_entries_max: CACHE_ENTRIES_MAX,
            cache_idle_ms: CACHE_IDLE_MS,
            cache_lifetime_ms: CACHE_LIFETIME_MS,
            limits: Limits::default(),
            escrow_public_key: None,
        }
    }
}
