//! What an account signs in with besides its slots: second factors, passkeys, identities of providers.

use super::Role;
use holdfast_base::{AccountId, SpaceId};

/// A time-based second factor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Totp {
    /// Its secret, sealed to the account's key in `seal`'s encoding.
    pub sealed: Vec<u8>,
    /// The step of the last code that counted.
    pub last_step: i64,
    /// When it was switched on.
    pub created_ms: i64,
}

/// A passkey.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passkey {
    /// Row.
    pub id: i64,
    /// Whose.
    pub account: AccountId,
    /// The credential's id, as the authenticator named it.
    pub credential: Vec<u8>,
    /// Its public key (COSE).
    pub public_key: Vec<u8>,
    /// The person's label.
    pub label: String,
    /// The account's key sealed for the secret that the authenticator yields; none if it yields none.
    pub sealed: Option<Vec<u8>>,
    /// The signature counter it last told; 0 if it does not count.
    pub counter: u32,
    /// When it was added.
    pub created_ms: i64,
    /// When it was last used.
    pub used_ms: Option<i64>,
}

/// A passkey to be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPasskey {
    /// See [`Passkey::credential`].
    pub credential: Vec<u8>,
    /// See [`Passkey::public_key`].
    pub public_key: Vec<u8>,
    /// See [`Passkey::label`].
    pub label: String,
    /// See [`Passkey::sealed`].
    pub sealed: Option<Vec<u8>>,
    /// See [`Passkey::counter`].
    pub counter: u32,
}

/// The factors of an account.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Factors {
    /// The time-based one.
    pub totp: Option<Totp>,
    /// Passkeys, the oldest first.
    pub passkeys: Vec<Passkey>,
}

impl Factors {
    /// Whether the password alone is not enough: there are codes, or a passkey that is good for nothing but a second factor.
    pub fn needs_second(&self) -> bool {
        self.totp.is_some() || self.passkeys.iter().any(|passkey| passkey.sealed.is_none())
    }
}

/// A challenge that was answered, kept until it would have expired, so that it counts once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// Its random name.
    pub id: [u8; 16],
    /// When it stops counting anyway.
    pub expires_ms: i64,
}

/// Who an account is at a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Row.
    pub id: i64,
    /// Whose.
    pub account: AccountId,
    /// The provider's address.
    pub issuer: String,
    /// Who it is there.
    pub subject: String,
    /// What the provider calls them, for the person.
    pub label: String,
    /// When it was linked.
    pub created_ms: i64,
    /// When it last signed in.
    pub used_ms: Option<i64>,
}

/// An identity to be linked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewIdentity {
    /// See [`Identity::issuer`].
    pub issuer: String,
    /// See [`Identity::subject`].
    pub subject: String,
    /// See [`Identity::label`].
    pub label: String,
}

/// A membership that a provider's groups give, and that waits for somebody with the space's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenGrant {
    /// The space.
    pub space: SpaceId,
    /// Who is to be a member.
    pub account: AccountId,
    /// With which role.
    pub role: Role,
    /// The key to wrap the space's key to.
    pub public_key: [u8; 32],
}
