//! A drive on this machine: data directory, catalogue, store, engine and sign-in, opened in order and closed in reverse.

use crate::config::ServerConfig;
use crate::data_dir::{DataDir, DataLock};
use crate::engines::{OpenCatalogue, host_name};
use crate::monitor::Monitor;
use crate::server::Faces;
use crate::sites::SitesConfig;
use crate::web::links::Shown;
use holdfast_api::{Api, Setting};
use holdfast_auth::passkey::RelyingParty;
use holdfast_auth::{Accounts, AuthOptions, Authenticator, Journal, JournalOptions};
use holdfast_base::{Clock, Error, Result, SystemClock};
use holdfast_blob::BlobStore;
use holdfast_dav::{DavFace, DavOptions};
use holdfast_drive::Drive;
use holdfast_drive::care::{JobOptions, Jobs};
use holdfast_drive::engine::{Engine, EngineOptions};
use holdfast_function::Host;
use holdfast_jobs::desk::Desk;
use holdfast_meta::{Catalogue, NewInstance};
use holdfast_remote::face::WireFace;
use holdfast_site::Sites;
use holdfast_site::serve::{Checks, Serving};
use holdfast_thumbnail::Thumbnails;
use http_body_util::BodyExt;
use std::sync::Arc;
use std::time::Duration;

/// How often signed-in credentials nobody uses any more are forgotten, and mounts that ended without a word.
const SWEEP_EVERY: Duration = Duration::from_mins(1);

/// An opened drive, held by this process alone.
pub struct LocalDrive {
    directory: DataDir,
    catalogue: OpenCatalogue,
    engine: Engine,
    authenticator: Authenticator,
    jobs: Jobs,
    sweeper: tokio::task::JoinHandle<()>,
    store: Arc<dyn BlobStore>,
    journal: Journal,
    monitor: Monitor,
    thumbnails: Thumbnails,
    tasks: Vec<tokio::task::JoinHandle<()>>,
    _lock: DataLock,
}

impl LocalDrive {
    /// Opens the drive of `directory`, with the engines that are configured, within a tokio runtime.
    pub async fn open(directory: DataDir, config: &ServerConfig) -> Result<Self> {
        let lock = directory.lock()?;
        let catalogue = config.catalogue.open(&directory).await?;
        let shared = catalogue.shared();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let (store, _) = config.store.open(&directory).await?;
        let name = config.node_name.clone().unwrap_or_else(host_name);
        let instance =
            NewInstance { uid: directory.uid(), name: name.clone(), version: env!("CARGO_PKG_VERSION").into() };
        let options = EngineOptions {
            scratch_folder: directory.scratch(),
            locks_mark: Some(directory.lock_mark()),
            keep_left: directory.changes_wait()?,
            instance,
            ..EngineOptions::default()
        };
        let engine = Engine::start(shared.clone(), store.clone(), clock.clone(), options).await?;
        let authenticator = Authenticator::new(shared.clone(), clock.clone(), options_of(config)?)?;
        let (days, rows_max, files) = (config.audit.days, config.audit.entries_max, config.audit.files);
        let kept = JournalOptions { node: name.clone(), days, rows_max, files };
        let journal = Journal::new(shared.clone(), clock, kept);
        authenticator.keep_journal(journal.clone());
        let monitor = Monitor::new();
        let tasks = vec![
            tokio::spawn(journal.clone().keep()),
            tokio::spawn(monitor.clone().keep_saying(shared.clone(), store.clone(), (engine.instance(), name))),
        ];
        let jobs = Jobs::start(engine.clone(), JobOptions::default());
        let thumbnails = config.thumbnails.start();
        let sweeper = tokio::spawn(sweep(shared, authenticator.clone(), thumbnails.clone()));
        Ok(Self {
            directory,
            catalogue,
            engine,
            authenticator,
            jobs,
            sweeper,
            store,
            journal,
            monitor,
            thumbnails,
            tasks,
            _lock: lock,
        })
    }

    /// Seals what processes before this one left open, once no journal of a mount waits that may name something in it.
    pub async fn seal_left(&self) -> Result<()> {
        if self.directory.changes_wait()? { Ok(()) } else { self.engine.seal_left().await }
    }

    /// The data directory.
    pub const fn directory(&self) -> &DataDir {
        &self.directory
    }

    /// Account administration.
    pub fn accounts(&self) -> Accounts {
        self.authenticator.accounts()
    }

    /// The engine.
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The background jobs.
    pub const fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    /// Publishing on this drive.
    pub fn sites(&self, config: &SitesConfig) -> Result<Sites> {
        let drive: Arc<dyn Drive> = Arc::new(self.engine.clone());
        let key = config.key(&self.directory)?;
        Ok(Sites::new(drive, self.accounts(), key, Arc::new(SystemClock), config.drive_hosts.clone()))
    }

    fn serving(&self, sites: Sites, config: &SitesConfig) -> Result<Serving> {
        let (sign_in, password) = (self.authenticator.clone(), self.authenticator.clone());
        let checks = Checks {
            sign_in: Arc::new(move |credential, peer| {
                let authenticator = sign_in.clone();
                Box::pin(async move { authenticator.sign_in(&credential, Some(peer)).await })
            }),
            password: Arc::new(move |site, slot, secret, peer| {
                let authenticator = password.clone();
                Box::pin(async move { authenticator.check_site_password(site, &slot, &secret, Some(peer)).await })
            }),
        };
        Serving::new(sites, checks, config.cache_bytes())
    }

    /// Every face over this drive; `settings` are what administrators are shown, `desk` the jobs that it runs, and `functions` those that it calls.
    pub fn faces(
        &self,
        config: &ServerConfig,
        settings: Vec<Setting>,
        desk: Option<Desk>,
        functions: Option<Host>,
    ) -> Result<Faces> {
        let sites = &config.sites;
        let party = config.public_url.as_deref().map(party).transpose()?;
        let drive: Arc<dyn Drive> = Arc::new(self.engine.clone());
        let service = self.sites(sites)?;
        let serving = self.serving(service.clone(), sites)?;
        let dav = DavFace::new(drive.clone(), DavOptions::default());
        let (authenticator, visits) = (self.authenticator.clone(), self.authenticator.clone());
        Ok(Faces {
            visit: Arc::new(move |link, shown| {
                let authenticator = visits.clone();
                Box::pin(async move {
                    match shown {
                        Shown::Cookie(secret) => authenticator.visit(link, &secret).await,
                        Shown::Secret(secret, peer) => authenticator.pass_link(link, &secret, Some(peer)).await,
                    }
                })
            }),
            sign_in: Arc::new(move |credential, peer| {
                let authenticator = authenticator.clone();
                Box::pin(async move { authenticator.sign_in(&credential, Some(peer)).await })
            }),
            dav: Arc::new(move |session, request| {
                let dav = dav.clone();
                Box::pin(async move {
                    dav.handle(session, request).await.map(|body| body.map_err(Into::into).boxed_unsync())
                })
            }),
            api: holdfast_api::router(Api {
                drive,
                accounts: self.accounts(),
                authenticator: self.authenticator.clone(),
                sites: service,
                party,
                catalogue: self.catalogue.shared(),
                store: self.store.clone(),
                journal: self.journal.clone(),
                reclaims: self.jobs.reclaims(),
                desk,
                functions,
                settings: settings.into_iter().map(without_secrets).collect(),
                federation: Arc::new(config.sign_in.federation()?),
                thumbnails: self.thumbnails.clone(),
            }),
            wire: WireFace::new(self.engine.clone()),
            catalogue: self.catalogue.shared(),
            sites: serving,
            monitor: self.monitor.clone(),
            journal: self.journal.clone(),
        })
    }

    /// Closes the drive in good order, after the last request.
    pub async fn close(self) -> Result<()> {
        self.sweeper.abort();
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
        if let Err(error) = self.journal.flush().await {
            tracing::warn!(%error, "the last entries of the audit log could not be written");
        }
        drop(self.jobs);
        self.engine.stop().await?;
        self.catalogue.close().await
    }
}

/// With an escrow key at hand, accounts get their escrow slots.
fn options_of(config: &ServerConfig) -> Result<AuthOptions> {
    let escrow = config.sign_in.escrow()?;
    Ok(AuthOptions { escrow_public_key: escrow.map(|key| key.public()), ..AuthOptions::default() })
}

/// What passkeys know the drive as, from the address in the configuration.
fn party(url: &str) -> Result<RelyingParty> {
    RelyingParty::of_origin(url.trim_end_matches('/')).ok_or_else(|| {
        Error::invalid(format!("public_url {url:?} must be like https://drive.example.org: a name, and no path"))
    })
}

/// A setting as it may be shown: secrets, and what of an address is one, are hidden.
fn without_secrets(mut setting: Setting) -> Setting {
    const SECRET: [&str; 4] = ["secret", "password", "token", "access_key"];
    let is_secret = SECRET.iter().any(|word| setting.key.contains(word)) && !setting.key.ends_with("_file");
    if let serde_json::Value::String(text) = &mut setting.value {
        if is_secret && !text.is_empty() {
            "***".clone_into(text);
        } else if let Some((scheme, rest)) = text.split_once("://")
            && let Some((_, place)) = rest.split('/').next().unwrap_or_default().rsplit_once('@')
        {
            let path = rest.split_once('/').map_or(String::new(), |(_, path)| format!("/{path}"));
            *text = format!("{scheme}://***@{place}{path}");
        }
        // What follows a question mark may be a password as well.
        if let Some((address, _)) = text.split_once('?') {
            *text = format!("{address}?***");
        }
    }
    setting
}

async fn sweep(catalogue: Arc<dyn Catalogue>, authenticator: Authenticator, thumbnails: Thumbnails) {
    let mut every = tokio::time::interval(SWEEP_EVERY);
    loop {
        every.tick().await;
        if let Some(leases) = catalogue.leases() {
            leases.sweep();
        }
        authenticator.sweep();
        thumbnails.sweep();
        let stats = authenticator.stats();
        metrics::gauge!("holdfast_sign_in_cached").set(stats.cached as f64);
        metrics::gauge!("holdfast_sign_in_waiting").set(stats.argon2_waiting as f64);
        metrics::counter!("holdfast_sign_in_argon2_total").absolute(stats.argon2_runs);
        metrics::counter!("holdfast_sign_in_cache_hits_total").absolute(stats.cache_hits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let shown = |key: &str, value: &str| {
            let setting = Setting { key: key.into(), value: value.into(), origin: "default".into() };
            without_secrets(setting).value
        };
        assert_eq!(shown("catalogue.url", "postgres://me:s3cret@db/drive"), "postgres://***@db/drive");
        assert_eq!(shown("catalogue.url", "postgres://db/drive?password=x"), "postgres://db/drive?***");
        assert_eq!(shown("store.secret_key", "x"), "***");
        assert_eq!(shown("store.secret_key_file", "/etc/key"), "/etc/key");
        assert_eq!(shown("store.url", "s3://bucket/a@b"), "s3://bucket/a@b");
    }
}
