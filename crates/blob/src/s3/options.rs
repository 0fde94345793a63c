//! What an S3 store must be told.

use super::CredentialSource;
use crate::http::Times;
use crate::object;
use std::path::PathBuf;

/// Whether the service knows `If-None-Match: *` on a put.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Conditional {
    /// Found out when the store is opened, by putting a small object twice.
    #[default]
    Auto,
    /// It does.
    On,
    /// It does not: names are asked for before each put.
    Off,
}

/// Options of an S3 store.
#[derive(Debug, Clone)]
pub struct S3Options {
    /// The service's address, such as `https://s3.example.org`; none is Amazon's for the region.
    pub endpoint: Option<String>,
    /// The region, which is part of every signature; services of one's own take any, mostly `us-east-1`.
    pub region: String,
    /// The bucket.
    pub bucket: String,
    /// What the keys of packs begin with; may be empty.
    pub prefix: String,
    /// Whether the bucket is named in the path and not in the host name; none is: in the path unless it is Amazon's.
    pub path_style: Option<bool>,
    /// A PEM file with the certificates of the authorities to believe; none is the machine's own.
    pub ca_file: Option<PathBuf>,
    /// Plain http to another machine is allowed.
    pub plain_http: bool,
    /// Where the credentials are.
    pub credentials: CredentialSource,
    /// Whether puts can be conditional.
    pub conditional: Conditional,
    /// How long to wait for the service.
    pub times: Times,
    /// How packs are sent.
    pub objects: object::Options,
}

impl S3Options {
    /// A bucket of Amazon's, with credentials from the environment.
    pub fn new(bucket: impl Into<String>) -> Self {
        Self {
            endpoint: None,
            region: "us-east-1".into(),
            bucket: bucket.into(),
            prefix: String::new(),
            path_style: None,
            ca_file: None,
            plain_http: false,
            credentials: CredentialSource::Environment,
            conditional: Conditional::Auto,
            times: Times::default(),
            objects: object::Options::default(),
        }
    }
}
