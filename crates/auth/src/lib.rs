//! Who may come in: accounts, passwords, app tokens, recovery codes, and the limits on trying.
//!
//! Two services stand on the catalogue. [`Authenticator`] turns a request's credential into a [`Session`], fast: a credential
//! that was right a moment ago costs one hash and one point read. [`Accounts`] makes and changes accounts, tokens, spaces and
//! memberships: whatever has to move a key from one lock to another. Second factors and passkeys ([`passkey`]) stand before or beside the password.
//!
//! What a credential opens is in [`holdfast_seal::keys`]: here are only the people, the words they type, and the rules.

pub mod accounts;
pub mod attempts;
mod authenticator;
mod base32;
mod cache;
mod credential;
mod escrow;
mod federation;
mod flight;
#[doc(hidden)]
pub mod fuzzed;
pub mod journal;
mod links;
pub mod options;
pub mod passkey;
mod password;
mod recovery;
mod second;
pub mod session;
mod sites;
mod ticket;
mod token;
mod worker;

pub use accounts::{Accounts, Created, CreatedSession, CreatedToken, NewCodes, NewPerson, NewToken, Proof, Reset};
pub use attempts::{Limits, Rule};
pub use authenticator::{AuthStats, Authenticator};
pub use credential::{Credential, Secret};
pub use escrow::EscrowKey;
pub use federation::{Arrival, Federated, IDENTITIES_PER_ACCOUNT_MAX};
pub use journal::{Journal, JournalOptions};
pub use links::PASSWORD_NEEDED;
pub use options::AuthOptions;
pub use password::{PASSWORD_BYTES_MAX, PASSWORD_CHARS_MIN, check_password, generate_password};
pub use recovery::RecoveryCode;
pub use second::{NeedsSecond, Second, SignedIn};
pub use session::{Scope, Session};
pub use sites::{SITES_ACCOUNT, SitesKey};
pub use token::{TOKEN_PREFIX, Token};
