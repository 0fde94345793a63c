//! Serving published sites.
//!
//! ```text
//! refresh  asks the drive every second what changed; builds a new Table and puts it in the place of the old one
//!   table  host and path to a mounted site; path in the site to a Target, all worked out beforehand
//! answer   one request: site, access, target, conditions, range, body
//!   cache  small contents in memory, by their hash, shared by all sites and snapshots
//!   visit  passwords, members, previews: signed cookies, so that any node knows a visitor
//! ```
//! A request takes one table and is answered from it, so an answer is wholly of one snapshot. A node keeps no state about visitors:
//! equal nodes need no stickiness.

mod answer;
mod cache;
mod doors;
mod entry;
mod negotiate;
mod refresh;
mod table;
pub(crate) mod visit;

pub use refresh::Serving;
pub use table::Table;

use futures_util::future::BoxFuture;
use holdfast_auth::{Credential, Secret, Session};
use holdfast_base::{Result, Uid};
use std::net::IpAddr;
use std::sync::Arc;

/// On which kind of listener a request came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// One for sites alone: sites are found by host and by path.
    Sites,
    /// The drive's own: only a site's host names lead to it, never a path.
    Drive,
}

/// What is known of who asks.
#[derive(Debug, Clone, Copy)]
pub struct Visitor {
    /// The client's address.
    pub address: IpAddr,
    /// Whether what it sends is encrypted on its way.
    pub encrypted: bool,
    /// Whether it may send passwords over this connection.
    pub may_send_secrets: bool,
}

/// Checks a drive account's credential, with the limits on attempts.
pub type SignIn = Arc<dyn Fn(Credential, IpAddr) -> BoxFuture<'static, Result<Arc<Session>>> + Send + Sync>;

/// Checks a site's password (site, slot, password, address), with the limits on attempts.
pub type CheckPassword = Arc<dyn Fn(Uid, Vec<u8>, Secret, IpAddr) -> BoxFuture<'static, Result<()>> + Send + Sync>;

/// What serving needs from the process around it.
#[derive(Clone)]
pub struct Checks {
    /// See [`SignIn`].
    pub sign_in: SignIn,
    /// See [`CheckPassword`].
    pub password: CheckPassword,
}
