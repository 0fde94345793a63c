//! Publishing a folder as a web site, and serving it.
//!
//! A site is a space of its own ([`layout`]), so it has a data key of its own. Publishing ([`publish`]) reads a folder with the
//! publisher's session, composes its pages ([`compose`]), and stores what is new in the site's space under the keyed hash of its
//! content; then one small file, the *pointer*, is replaced and the new snapshot is live. Serving ([`serve`]) opens site spaces
//! with the sites account and nothing else: it maps hosts and paths to contents by the snapshot's index, and answers from memory.
//!
//! ```text
//! folder ─ scan ─ compose ─ store objects ─ index ─ pointer            publish, admin: the publisher's session
//!                                             └──────┴─ table ─ answer serve: the sites account, read only
//! ```
//!
//! Nothing is computed per request that could be computed per publish. What the steps promise under concurrency and crashes is in
//! [`publish`]; docs/design/sites.md has the alternatives.

pub mod admin;
mod changes;
pub mod compose;
pub mod index;
pub mod layout;
pub mod limits;
pub mod publish;
pub mod serve;
pub mod settings;
mod store;
mod variants;

pub use admin::{Overview, Sites};
pub use publish::{Publication, Published};
pub use settings::{Access, Settings, SettingsChange};
