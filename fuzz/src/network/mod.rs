//! What clients send: headers, bodies, credentials, whole requests.

mod conditions;
mod credentials;
mod digests;
mod fields;
mod paths;
mod request;
#[path = "../../../crates/dav/tests/all/rig/mod.rs"]
mod rig;
mod xml;

pub use conditions::conditions;
pub use credentials::{credentials, password};
pub use digests::digests;
pub use fields::fields;
pub use paths::paths;
pub use request::request;
pub use xml::xml;

/// A target with its name.
pub type Target = (&'static str, fn(&[u8]));

/// Every target here, by name.
pub const TARGETS: [Target; 8] = [
    ("conditions", conditions),
    ("credentials", credentials),
    ("digests", digests),
    ("fields", fields),
    ("password", password),
    ("paths", paths),
    ("request", request),
    ("xml", xml),
];
