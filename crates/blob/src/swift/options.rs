//! What a Swift store must be told.

use super::Auth;
use crate::http::Times;
use crate::object;
use std::path::PathBuf;

/// Options of a Swift store.
#[derive(Debug, Clone)]
pub struct SwiftOptions {
    /// How to sign in.
    pub auth: Auth,
    /// The container. A second one, with `_segments` behind its name, takes the segments of large packs.
    pub container: String,
    /// What the keys of packs begin with; may be empty.
    pub prefix: String,
    /// The region to take from the catalogue of services; none is the first.
    pub region: Option<String>,
    /// The interface to take from it: `public`, `internal` or `admin`.
    pub interface: String,
    /// A PEM file with the certificates of the authorities to believe; none is the machine's own.
    pub ca_file: Option<PathBuf>,
    /// Plain http to another machine is allowed.
    pub plain_http: bool,
    /// How long to wait for the service.
    pub times: Times,
    /// How packs are sent.
    pub objects: object::Options,
}

impl SwiftOptions {
    /// A container, with everything else as usual.
    pub fn new(auth: Auth, container: impl Into<String>) -> Self {
        Self {
            auth,
            container: container.into(),
            prefix: String::new(),
            region: None,
            interface: "public".into(),
            ca_file: None,
            plain_http: false,
            times: Times::default(),
            objects: object::Options::default(),
        }
    }
}
