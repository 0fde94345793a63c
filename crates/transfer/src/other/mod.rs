//! What sites of other makers have in common: how they are addressed and signed in to, and listings in order of name.

mod kept;
pub(crate) mod keys;
mod mtime;
#[cfg(test)]
pub(crate) mod testing;
mod url;
pub(crate) mod wire;

pub use kept::KeptListings;
pub(crate) use kept::MEMBERS_MAX;
pub use mtime::{mtime_text, parse_mtime};
pub use url::SiteUrl;

use holdfast_auth::Secret;
use std::path::PathBuf;

/// How one signs in to a site that is no drive.
#[derive(Debug, Clone, Default)]
pub struct Login {
    /// Who; none is what the address says, or else what is usual with its kind.
    pub user: Option<String>,
    /// Password, or the secret half of a key.
    pub password: Option<Secret>,
    /// File with a private key, for SSH.
    pub identity: Option<PathBuf>,
    /// Configuration file of ssh, instead of the account's and the machine's.
    pub ssh_config: Option<PathBuf>,
    /// Whether the host key of a server of which none is known is believed and written down, for SSH.
    pub accept_new_host_key: bool,
    /// PEM file of the certificates that are believed, instead of this machine's authorities.
    pub ca: Option<PathBuf>,
    /// Whether FTP may send a password that others can read on the way.
    pub plain_ftp: bool,
    /// S3: the service's address, none is Amazon's. Swift: the address that signs in.
    pub endpoint: Option<String>,
    /// S3 and Swift: the region.
    pub region: Option<String>,
    /// Connections at a time; none leaves it to the kind of site.
    pub connections: Option<usize>,
}
