//! A drive on this machine: data directory, catalogue, store, engine and sign-in, opened in order and closed in reverse.

use crate::config::ServerConfig;
use crate::data_dir::{DataDir, DataLock};
use crate::engines::{OpenCatalogue, host_name};
use crate::server::Faces;
use crate::sites::SitesConfig;
use holdfast_api::Api;
use holdfast_auth::passkey::RelyingParty;
use holdfast_auth::{Accounts, AuthOptions, Authenticator};
use holdfast_base::{Clock, Error, Result, SystemClock};
use holdfast_dav::{DavFace, DavOptions};
use holdfast_drive::Drive;
use holdfast_drive::care::{JobOptions, Jobs};
use holdfast_drive::engine::{Engine, EngineOptions};
use holdfast_meta::NewInstance;
use holdfast_site::Sites;
use holdfast_site::serve::{Checks, Serving};
use http_body_util::BodyExt;
use std::sync::Arc;
use std::time::Duration;

/// How often signed-in credentials nobody uses any more are forgotten.
const SWEEP_EVERY: Duration = Duration::from_mins(1);

/// An opened drive, held by this process alone.
pub struct LocalDrive {
    directory: DataDir,
    catalogue: OpenCatalogue,
    engine: Engine,
    authenticator: Authenticator,
    jobs: Jobs,
    sweeper: tokio::task::JoinHandle<()>,
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
        let instance = NewInstance {
            uid: directory.uid(),
            name: config.node_name.clone().unwrap_or_else(host_name),
            version: env!("CARGO_PKG_VERSION").into(),
        };
        let options = EngineOptions { scratch_folder: directory.scratch(), instance, ..EngineOptions::default() };
        let engine = Engine::start(shared.clone(), store, clock.clone(), options).await?;
        let authenticator = Authenticator::new(shared, clock, options_of(config)?)?;
        let jobs = Jobs::start(engine.clone(), JobOptions::default());
        let sweeper = tokio::spawn(sweep(authenticator.clone()));
        Ok(Self { directory, catalogue, engine, authenticator, jobs, sweeper, _lock: lock })
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

    /// Every face over this drive.
    pub fn faces(&self, config: &ServerConfig) -> Result<Faces> {
        let sites = &config.sites;
        let party = config.public_url.as_deref().map(party).transpose()?;
        let drive: Arc<dyn Drive> = Arc::new(self.engine.clone());
        let service = self.sites(sites)?;
        let serving = self.serving(service.clone(), sites)?;
        let dav = DavFace::new(drive.clone(), DavOptions::default());
        let authenticator = self.authenticator.clone();
        Ok(Faces {
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
                federation: Arc::new(config.sign_in.federation()?),
            }),
            catalogue: self.catalogue.shared(),
            sites: serving,
        })
    }

    /// Closes the drive in good order, after the last request.
    pub async fn close(self) -> Result<()> {
        self.sweeper.abort();
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

async fn sweep(authenticator: Authenticator) {
    let mut every = tokio::time::interval(SWEEP_EVERY);
    loop {
        every.tick().await;
        authenticator.sweep();
        let stats = authenticator.stats();
        metrics::gauge!("holdfast_sign_in_cached").set(stats.cached as f64);
        metrics::gauge!("holdfast_sign_in_waiting").set(stats.argon2_waiting as f64);
        metrics::counter!("holdfast_sign_in_argon2_total").absolute(stats.argon2_runs);
        metrics::counter!("holdfast_sign_in_cache_hits_total").absolute(stats.cache_hits);
    }
}
