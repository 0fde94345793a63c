//! What a server can be told. Plain data: the command line merges file, environment and flags into it.

use crate::engines::{CatalogueConfig, StoreConfig};
use crate::federation::SignInConfig;
use crate::functions::FunctionsConfig;
use crate::jobs::JobsConfig;
use crate::limits::Limits;
use crate::sites::SitesConfig;
use crate::telemetry::LogConfig;
use crate::thumbnails::ThumbnailsConfig;
use crate::tls::TlsConfig;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The port of a server nobody gave one.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:8642";

/// Configuration of `holdfast serve`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// Data directory.
    pub data: Option<PathBuf>,
    /// What people call this node where several serve one drive; the machine's name if none.
    pub node_name: Option<String>,
    /// The database.
    pub catalogue: CatalogueConfig,
    /// The store of packs.
    pub store: StoreConfig,
    /// Addresses to listen on: `ADDR:PORT`, or with `http://` or `https://` before it.
    pub listen: Vec<String>,
    /// Address of the metrics listener; none is off. It has no password: keep it on loopback or a private network.
    pub metrics_listen: Option<String>,
    /// File the bound addresses are written to when the server is ready.
    pub address_file: Option<PathBuf>,
    /// Address at which people open the drive's pages (`https://drive.example.org`): passkeys are bound to its name. If none, what
    /// each request was sent to.
    pub public_url: Option<String>,
    /// Accept passwords over unencrypted connections from other machines.
    pub allow_plain_http: bool,
    /// Networks of reverse proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed.
    pub trusted_proxies: Vec<String>,
    /// TLS.
    pub tls: TlsConfig,
    /// Whether listeners that speak TLS also take connections over QUIC, at the same port of UDP: for networks that lose much.
    pub quic: bool,
    /// Sign-in by providers.
    pub sign_in: SignInConfig,
    /// Published sites.
    pub sites: SitesConfig,
    /// Thumbnails.
    pub thumbnails: ThumbnailsConfig,
    /// Spaces that are folders of this machine while the server runs.
    pub mounts: MountsConfig,
    /// Transfers that the server runs by schedule.
    pub jobs: JobsConfig,
    /// Functions that the server calls.
    pub functions: FunctionsConfig,
    /// Logs.
    pub log: LogConfig,
    /// The log of who did what.
    pub audit: AuditConfig,
    /// Limits.
    pub limits: Limits,
}

/// Configuration of mounts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MountsConfig {
    /// Each as `SPACE=DIR`.
    pub spaces: Vec<String>,
    /// The account that acts in them: its key opens what is in them.
    pub user: Option<String>,
    /// File with that account's password in its first line.
    pub password_file: Option<PathBuf>,
}

/// Configuration of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuditConfig {
    /// Days an entry is kept.
    pub days: u32,
    /// Entries kept at most; the oldest go first.
    pub entries_max: usize,
    /// Write down changes of files, too.
    pub files: bool,
}

impl Default for AuditConfig {
    /// Three months, and some hundred megabytes.
    fn default() -> Self {
        Self { days: 90, entries_max: 1_000_000, files: false }
    }
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            data: None,
            node_name: None,
            catalogue: CatalogueConfig::default(),
            store: StoreConfig::default(),
            listen: vec![DEFAULT_LISTEN.into()],
            metrics_listen: None,
            address_file: None,
            public_url: None,
            allow_plain_http: false,
            trusted_proxies: Vec::new(),
            tls: TlsConfig::default(),
            quic: true,
            sign_in: SignInConfig::default(),
            sites: SitesConfig::default(),
            thumbnails: ThumbnailsConfig::default(),
            mounts: MountsConfig::default(),
            jobs: JobsConfig::default(),
            functions: FunctionsConfig::default(),
            log: LogConfig::default(),
            audit: AuditConfig::default(),
            limits: Limits::default(),
        }
    }
}
