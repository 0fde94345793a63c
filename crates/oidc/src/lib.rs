//! Who somebody is, as a provider says: the relying party's side of OpenID Connect (authorization code flow with PKCE).
//!
//! [`Provider::begin`] makes the address to send a browser to; [`Provider::finish`] turns the code it comes back with into a [`Person`],
//! after every check that the specification wants: issuer, audience, time, nonce, and the signature by one of the provider's keys
//! (RS256, ES256, EdDSA; never `none` and never one with a shared secret). Nothing of a sign-in is kept here between the two: state, nonce
//! and verifier ([`Begun`]) are the caller's to seal and to hand back. Only what a provider publishes about itself is remembered, for
//! [`KNOWN_FOR`], and its keys are asked for again when a token names one that is not known.
//!
//! Everything from outside has a limit: answers [`ANSWER_BYTES_MAX`], calls [`CALL_TIME`], claims their own. Redirects are not followed. Plain
//! HTTP is for providers on this machine.

mod client;
#[doc(hidden)]
pub mod fuzzed;
mod keys;
mod person;
mod provider;
mod token;

pub use client::{ANSWER_BYTES_MAX, CALL_TIME};
pub use person::{GROUPS_MAX, Person};
pub use provider::{Begun, KNOWN_FOR, Provider, ProviderOptions};
