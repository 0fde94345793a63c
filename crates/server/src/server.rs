//! A server from its start to its stop.
//!
//! Start: bind every listener (so that a taken port is known before anything is promised), then accept, then write the address
//! file. While it runs: traffic sums are flushed, changed certificates read, metrics gathered. Stop: see [`crate::stop`]; at
//! the end the traffic sums are written and the address file is gone.

use crate::address_file::AddressFile;
use crate::config::ServerConfig;
use crate::conn::{Connector, Handler, Stage};
use crate::limits::{DESCRIPTORS_RESERVED, Limits, METRICS_CONNECTIONS_MAX};
use crate::listen::{Bound, ListenOn, Listener, Reception};
use crate::meter::{FLUSH_EVERY, Meter};
use crate::metrics::{MetricsFace, UPKEEP_EVERY};
use crate::monitor::Monitor;
use crate::planes::PlaneDoor;
use crate::sites::SitesDoor;
use crate::stop::{self, Signals, Stopper, Wish};
use crate::tls::Certificate;
use crate::web::record::RequestIds;
use crate::web::{Dav, SignIn, Visiting, Web};
use axum::Router;
use holdfast_auth::Journal;
use holdfast_base::{Error, Result};
use holdfast_meta::Catalogue;
use holdfast_remote::face::WireFace;
use holdfast_site::serve::Serving;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::sync::watch::{Receiver, Sender};
use tokio_rustls::TlsAcceptor;

/// How often the certificate's files are looked at; renewals come weeks before they are needed.
const CERTIFICATE_LOOK_EVERY: Duration = Duration::from_mins(1);

/// The threads that answer for sites, apart from those of the drive: half of the cores.
///
/// A page from memory is some ten microseconds of work, less than it costs to wake a sleeping thread for it. The scheduler wakes one whenever two requests are
/// ready, so with a thread for each core a server of two cores answered 0.8 times as many requests (`make bench-sites`, kept
/// alive). The kernel's part of the work, and all that is not sites, has the other cores.
struct SitesThreads(Option<Runtime>);

impl SitesThreads {
    fn start(listeners: &[String]) -> Result<Self> {
        if listeners.is_empty() {
            return Ok(Self(None));
        }
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let mut threads = tokio::runtime::Builder::new_multi_thread();
        threads.worker_threads((cores / 2).max(1)).thread_name("sites").enable_all();
        Ok(Self(Some(threads.build()?)))
    }

    /// Runs what starts tasks and sockets, so that they belong to these threads.
    fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        let _inside = self.0.as_ref().map(Runtime::enter);
        work()
    }
}

impl Drop for SitesThreads {
    fn drop(&mut self) {
        // Waiting for tasks to end is not allowed in one; those of connections have ended when the server was drained.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// What answers behind the door.
pub struct Faces {
    pub(crate) sign_in: SignIn,
    pub(crate) visit: Visiting,
    pub(crate) dav: Dav,
    /// The JSON API; finds the session in the request's extensions.
    pub api: Router,
    /// Mounts on other machines.
    pub(crate) wire: WireFace,
    /// For readiness and traffic sums.
    pub catalogue: Arc<dyn Catalogue>,
    pub(crate) sites: Serving,
    pub(crate) monitor: Monitor,
    pub(crate) journal: Journal,
}

/// A server whose listeners are bound and accepting.
pub struct Server {
    web: Arc<Web>,
    bound: Vec<Bound>,
    sites_bound: Vec<Bound>,
    _sites_threads: SitesThreads,
    metrics_bound: Option<Bound>,
    looking: tokio::task::JoinHandle<()>,
    certificate: Option<Arc<Certificate>>,
    address_file: Option<AddressFile>,
    stage: Sender<Stage>,
    room: Arc<Semaphore>,
    limits: Limits,
    signals: Signals,
    stopper: Stopper,
}

impl Server {
    /// Binds, accepts, and writes the address file. `certificate` is for https listeners, if there are any.
    pub fn start(config: &ServerConfig, faces: Faces, certificate: Option<Arc<Certificate>>) -> Result<Self> {
        let limits =
            Limits { connections_max: connections_max(config.limits.connections_max), ..config.limits.clone() };
        let listeners = bind(&config.listen, certificate.is_some())?;
        let sites_threads = SitesThreads::start(&config.sites.listen)?;
        let sites_listeners = sites_threads.enter(|| bind(&config.sites.listen, certificate.is_some()))?;
        if listeners.is_empty() {
            return Err(Error::invalid("there is no address to listen on: give at least one in listen"));
        }
        let bound: Vec<Bound> = listeners.iter().map(|listener| listener.bound).collect();
        let sites_bound: Vec<Bound> = sites_listeners.iter().map(|listener| listener.bound).collect();
        let (stage, stages) = tokio::sync::watch::channel(Stage::Running);
        let metrics_bound = start_metrics(config, &limits, &stages)?;
        let signals = Signals::take()?;
        let tls = certificate.as_ref().map(Certificate::server_config).transpose()?.map(TlsAcceptor::from);
        let serving = faces.sites.clone();
        let looking = serving.keep_looking();
        let web = Arc::new(web(config, faces, &limits)?);
        let room = Arc::new(Semaphore::new(limits.connections_max));
        let connector = Arc::new(Connector::new(web.clone(), limits.clone()));
        let sites = Arc::new(SitesDoor::new(web.clone(), serving));
        let sites = Arc::new(Connector::new(sites, limits.clone()));
        sites_threads.enter(|| receive(Reception::new(sites, room.clone(), tls.clone()), sites_listeners, &stages));
        let planes_door = Arc::new(PlaneDoor::new(connector.clone(), room.clone(), limits.quic_connections_max));
        let reception = Reception::new(connector, room.clone(), tls);
        let planes = if config.quic { planes(certificate.as_ref(), &bound)? } else { Vec::new() };
        receive(reception, listeners, &stages);
        for plane in planes {
            tokio::spawn(planes_door.clone().accept(plane, stages.clone()));
        }
        let meter = web.meter.clone();
        tokio::spawn(flush_regularly(meter, web.catalogue.clone(), stages.clone()));
        if let Some(certificate) = certificate.clone() {
            tokio::spawn(watch_certificate(certificate, stages));
        }
        let all: Vec<Bound> = bound.iter().chain(&sites_bound).copied().collect();
        let address_file = config.address_file.as_deref().map(|path| AddressFile::write(path, &all)).transpose()?;
        let stopper = Stopper::default();
        Ok(Self {
            web,
            bound,
            sites_bound,
            _sites_threads: sites_threads,
            metrics_bound,
            looking,
            certificate,
            address_file,
            stage,
            room,
            limits,
            signals,
            stopper,
        })
    }

    /// Where it listens.
    pub fn bound(&self) -> &[Bound] {
        &self.bound
    }

    /// Where it listens for sites alone.
    pub fn sites_bound(&self) -> &[Bound] {
        &self.sites_bound
    }

    /// Where its metrics are.
    pub const fn metrics_bound(&self) -> Option<Bound> {
        self.metrics_bound
    }

    /// What stops it from inside the process.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Serves until it is told to stop, then drains. `hear` is called with whatever it is asked for, of which stopping and reading certificates again
    /// are its own. Answers whether every running request could finish.
    pub async fn run(mut self, hear: impl Fn(Wish)) -> bool {
        loop {
            let wish = self.signals.next(&self.stopper).await;
            hear(wish);
            match wish {
                Wish::Stop => break,
                Wish::Reload => self.reload(),
                Wish::Reclaim => {}
            }
        }
        self.web.draining.store(true, Ordering::Relaxed);
        let delay = self.limits.drain_delay();
        if !delay.is_zero() {
            tracing::info!(?delay, "stopping soon: not ready any more, and serving until the balancer has noticed");
            self.signals.until_stop_or(delay, &self.stopper).await;
        }
        tracing::info!(seconds = self.limits.drain_timeout_s, "stopping: running requests may finish");
        drop(self.address_file.take());
        self.web.wire.end_events();
        let limit = self.limits.drain_timeout();
        let whole =
            stop::drain(&self.stage, &self.room, self.limits.connections_max, limit, &mut self.signals, &self.stopper)
                .await;
        if !whole {
            tracing::warn!("requests that were still running have been cut off");
        }
        self.looking.abort();
        self.web.meter.flush(&self.web.catalogue).await;
        whole
    }

    fn reload(&self) {
        match self.certificate.as_ref().map(|certificate| certificate.reload()) {
            Some(Ok(())) => tracing::info!("certificate read again"),
            Some(Err(error)) => {
                tracing::error!(%error, "the certificate could not be read again; the old one stays in use");
            }
            None => tracing::info!("SIGHUP: there is no certificate to read again"),
        }
    }
}

fn web(config: &ServerConfig, faces: Faces, limits: &Limits) -> Result<Web> {
    let trusted_proxies = config.trusted_proxies.iter().map(|text| text.parse()).collect::<Result<Vec<_>>>()?;
    Ok(Web {
        sign_in: faces.sign_in,
        visit: faces.visit,
        dav: faces.dav,
        api: faces.api,
        wire: faces.wire,
        catalogue: faces.catalogue,
        sites: faces.sites,
        trusted_proxies,
        allow_plain_http: config.allow_plain_http,
        access_log: config.log.access,
        meter: Arc::new(Meter::default()),
        monitor: faces.monitor,
        journal: faces.journal,
        room: Arc::new(Semaphore::new(limits.requests_max)),
        ids: RequestIds::new(),
        draining: false.into(),
        started: Instant::now(),
        readiness: None.into(),
    })
}

/// Binds listeners.
fn bind(texts: &[String], has_certificate: bool) -> Result<Vec<Listener>> {
    texts.iter().map(|text| text.parse::<ListenOn>()?.bind(has_certificate)).collect()
}

/// Starts the accept loop of every listener.
fn receive<H: Handler>(reception: Reception<H>, listeners: Vec<Listener>, stages: &Receiver<Stage>) {
    let reception = Arc::new(reception);
    for listener in listeners {
        tokio::spawn(reception.clone().accept(listener, stages.clone()));
    }
}

/// Sockets of the QUIC plane, at the addresses of the listeners that speak TLS. One that cannot be had is done without: clients fall back on TCP.
fn planes(certificate: Option<&Arc<Certificate>>, bound: &[Bound]) -> Result<Vec<quinn::Endpoint>> {
    let Some(certificate) = certificate else { return Ok(Vec::new()) };
    let mut planes = Vec::new();
    for address in bound.iter().filter(|bound| bound.tls).map(|bound| bound.address) {
        match holdfast_plane::quic::endpoint(address, Some(certificate.quic_config()?)) {
            Ok(endpoint) => planes.push(endpoint),
            Err(error) => tracing::warn!(%address, %error, "no QUIC plane here"),
        }
    }
    Ok(planes)
}

fn start_metrics(config: &ServerConfig, limits: &Limits, stages: &Receiver<Stage>) -> Result<Option<Bound>> {
    let Some(text) = &config.metrics_listen else { return Ok(None) };
    serve_metrics(text, limits, stages).map(Some)
}

fn serve_metrics(text: &str, limits: &Limits, stages: &Receiver<Stage>) -> Result<Bound> {
    let listener = text.parse::<ListenOn>()?.bind(false)?;
    let bound = listener.bound;
    let face = MetricsFace::install()?;
    let connector = Arc::new(Connector::new(face.clone(), limits.clone()));
    let room = Arc::new(Semaphore::new(METRICS_CONNECTIONS_MAX));
    receive(Reception::new(connector, room, None), vec![listener], stages);
    let mut stages = stages.clone();
    tokio::spawn(async move {
        while !stops_within(&mut stages, UPKEEP_EVERY).await {
            face.upkeep();
        }
    });
    Ok(bound)
}

/// The metrics of a process that serves nothing else. They end with this.
pub struct MetricsListener {
    bound: Bound,
    _stage: Sender<Stage>,
}

impl MetricsListener {
    /// Binds and serves, within a tokio runtime.
    pub fn start(address: &str) -> Result<Self> {
        let (stage, stages) = tokio::sync::watch::channel(Stage::Running);
        let bound = serve_metrics(address, &Limits::default(), &stages)?;
        Ok(Self { bound, _stage: stage })
    }

    /// Where they are.
    pub const fn bound(&self) -> Bound {
        self.bound
    }
}

/// Waits for `time`; answers whether the server began to stop meanwhile.
async fn stops_within(stages: &mut Receiver<Stage>, time: Duration) -> bool {
    tokio::time::timeout(time, stages.wait_for(|stage| *stage != Stage::Running)).await.is_ok()
}

async fn flush_regularly(meter: Arc<Meter>, catalogue: Arc<dyn Catalogue>, mut stages: Receiver<Stage>) {
    while !stops_within(&mut stages, FLUSH_EVERY).await {
        meter.flush(&catalogue).await;
    }
}

async fn watch_certificate(certificate: Arc<Certificate>, mut stages: Receiver<Stage>) {
    while !stops_within(&mut stages, CERTIFICATE_LOOK_EVERY).await {
        match certificate.reload_if_changed() {
            Ok(false) => {}
            Ok(true) => {
                tracing::info!(fingerprint = certificate.fingerprint(), "the certificate has changed and is in use");
            }
            Err(error) => tracing::error!(%error, "the changed certificate cannot be used; the old one stays in use"),
        }
    }
}

/// Raises the process's limit of open files as far as it may, and lowers the number of connections to what it then allows.
fn connections_max(wanted: usize) -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let hard = limit.maximum.unwrap_or(u64::MAX);
    if limit.current.is_some_and(|soft| soft < hard) {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "the limit of open files could not be raised");
        }
    }
    let open_files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let possible = usize::try_from(open_files.saturating_sub(DESCRIPTORS_RESERVED)).unwrap_or(usize::MAX).max(1);
    if possible < wanted {
        tracing::warn!(
            open_files,
            wanted,
            possible,
            "fewer connections than configured: raise the limit of open files"
        );
    }
    // A semaphore of tokio counts to usize::MAX / 8, and a drain takes all permits in one call that counts in u32.
    wanted.min(possible).clamp(1, u32::MAX as usize)
}
