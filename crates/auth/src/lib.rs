//! Who may come in: accounts, passwords, app tokens, recovery codes, and the limits on trying.

pub mod session;

pub use session::{Scope, Session};
