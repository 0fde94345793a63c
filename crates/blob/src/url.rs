//! The address of a store, as configurations name it:
//!
//! ```text
//! fs:/var/lib/holdfast/packs
//! s3://bucket/prefix?endpoint=https://s3.example.org&region=eu-1&credentials_file=/etc/holdfast/s3
//! swift://container/prefix?auth=https://keystone.example.org/v3&user=drive&project=storage&secret_file=/etc/holdfast/key
//! ```
//!
//! Names of options are checked, and a wrong one is answered with the nearest that exists. Values may be percent-encoded
//! (`%26` for `&`). **Secrets are never in an address**: addresses are printed, logged and shown in lists of processes.
//! They come from files that the address names, or from environment variables:
//!
//! | store | file | environment |
//! |---|---|---|
//! | s3 | `credentials_file` (and `profile`) | `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN` |
//! | swift, TempAuth | `secret_file` | `ST_KEY` |
//! | swift, Keystone | `secret_file` | `OS_PASSWORD`, or `OS_APPLICATION_CREDENTIAL_SECRET` |
//!
//! Options of both object stores: `ca_file`, `plain_http`, `part_mib`, `parts_in_flight`, `confirm`, and `cache` and
//! `cache_mib` for a read cache in a local folder. Of S3: `endpoint`, `region`, `path_style`, `credentials_file`,
//! `profile`, `conditional` (`auto`, `true`, `false`). Of Swift: `auth`, `user`, `user_domain`, `project`, `project_domain`,
//! `application_credential`, `secret_file`, `region`, `interface`.

mod parse;
mod query;
#[cfg(test)]
mod tests;

use crate::fs::FsStore;
use crate::layer::cache::{CacheOptions, Cached};
use crate::layer::timeout::Times;
use crate::layer::{self, standard};
use crate::s3::{self, S3Options};
use crate::swift::{self, Auth, SwiftOptions};
use crate::{BlobStore, Secret};
use holdfast_base::{Error, Result};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// The address of a store.
#[derive(Debug, Clone)]
pub struct StoreUrl {
    place: Place,
    cache: Option<(PathBuf, CacheOptions)>,
}

/// Where the packs are.
#[derive(Debug, Clone)]
enum Place {
    Fs(PathBuf),
    S3(Box<S3Options>),
    Swift(Box<SwiftPlace>),
}

/// A Swift store whose secret is yet to be read.
#[derive(Debug, Clone)]
struct SwiftPlace {
    /// With an empty secret.
    options: SwiftOptions,
    secret_file: Option<PathBuf>,
}

impl FromStr for StoreUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl StoreUrl {
    /// Reads an address. Touches neither files nor the network.
    pub fn parse(text: &str) -> Result<Self> {
        parse::parse(text).map_err(|error| error.context("the address of the store"))
    }

    /// A short name of the kind of store: `fs`, `s3`, `swift`.
    pub const fn kind(&self) -> &'static str {
        match self.place {
            Place::Fs(_) => "fs",
            Place::S3(_) => "s3",
            Place::Swift(_) => "swift",
        }
    }

    /// Opens the store with the usual layers around it, and its cache before them. Asks a distant store for a list, so
    /// that what is wrong with the address is known now. The metrics recorder must be installed before.
    pub async fn open(&self) -> Result<Arc<dyn BlobStore>> {
        let (stored, _) = self.open_both().await?;
        Ok(stored)
    }

    /// The same, and beside it the store without the cache, for checks of what is really stored.
    pub async fn open_both(&self) -> Result<(Arc<dyn BlobStore>, Arc<dyn BlobStore>)> {
        let back_end: Arc<dyn BlobStore> = match &self.place {
            Place::Fs(root) => {
                let root = root.clone();
                let opened = tokio::task::spawn_blocking(move || FsStore::open(root)).await;
                Arc::new(opened.map_err(|stopped| Error::internal("opening the store").with_source(stopped))??)
            }
            Place::S3(options) => Arc::new(s3::open(options).await?),
            Place::Swift(place) => Arc::new(swift::open(&place.options_with_secret()?).await?),
        };
        let stored = standard(back_end, self.layers());
        let Some((folder, options)) = &self.cache else { return Ok((Arc::clone(&stored), stored)) };
        let (inner, folder, options) = (Arc::clone(&stored), folder.clone(), *options);
        let cached = tokio::task::spawn_blocking(move || Cached::open(inner, &folder, options)).await;
        let cached = cached.map_err(|stopped| Error::internal("opening the read cache").with_source(stopped))??;
        Ok((Arc::new(cached), stored))
    }

    fn layers(&self) -> layer::Options {
        let mut options = layer::Options::default();
        if !matches!(self.place, Place::Fs(_)) {
            // A call may hold several requests, tried again each; a sync's bytes are not in its call.
            options.timeout = Times { base: Duration::from_mins(2), ..options.timeout };
        }
        options
    }
}

impl SwiftPlace {
    fn options_with_secret(&self) -> Result<SwiftOptions> {
        let mut options = self.options.clone();
        let (secret, variable) = match &mut options.auth {
            Auth::TempAuth { key, .. } => (key, "ST_KEY"),
            Auth::Password { password, .. } => (password, "OS_PASSWORD"),
            Auth::ApplicationCredential { secret, .. } => (secret, "OS_APPLICATION_CREDENTIAL_SECRET"),
        };
        *secret = match &self.secret_file {
            Some(path) => Secret::from_file(path)?,
            None => Secret::from_environment(variable)
                .ok_or_else(|| Error::invalid(format!("name a secret_file, or set {variable}")))?,
        };
        Ok(options)
    }
}
