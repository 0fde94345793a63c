//! Published sites on this server: settings, the key, and the listeners that serve nothing else.
//!
//! Sites are answered on listeners of their own ([`SitesConfig::listen`]), by host and by path, and on the drive's listeners by
//! host alone: on a host that is the drive's, nothing of a site is ever answered. Beside the sites a sites listener answers
//! `/.holdfast/healthz` and `/.holdfast/readyz`, for balancers.

use crate::conn::{AnyBody, Ask, Finish, Handler, Peer, Ready, RequestBody, ResponseBody, Tally};
use crate::data_dir::{DataDir, replace_file};
use crate::monitor::Monitor;
use crate::peer::{Client, client};
use crate::telemetry::AccessLog;
use crate::web::record::class;
use crate::web::{Web, gate, reply};
use holdfast_auth::SitesKey;
use holdfast_base::{Error, Result};
use holdfast_site::serve::{Door, Serving, Visitor};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Name of the key's file in the data directory.
const KEY_FILE: &str = "sites.key";
/// Longest key file that is read.
const KEY_BYTES_MAX: u64 = 1 << 10;

/// Configuration of published sites.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SitesConfig {
    /// Addresses of listeners for sites alone.
    pub listen: Vec<String>,
    /// Host names of the drive itself, which no site may take.
    pub drive_hosts: Vec<String>,
    /// The sites account's key; `sites.key` in the data directory if none. Nodes that serve the same sites share it.
    pub key_file: Option<PathBuf>,
    /// Memory for contents that are served, in MiB.
    pub cache_mib: u64,
}

impl Default for SitesConfig {
    /// No listener, and memory for the pages of any site but a very large one.
    fn default() -> Self {
        Self { listen: Vec::new(), drive_hosts: Vec::new(), key_file: None, cache_mib: 64 }
    }
}

impl SitesConfig {
    /// The memory for contents in bytes.
    pub(crate) fn cache_bytes(&self) -> usize {
        usize::try_from(self.cache_mib.saturating_mul(1 << 20)).unwrap_or(usize::MAX)
    }

    /// The key: read, or made if there is none. A key file that was named must be there.
    pub(crate) fn key(&self, directory: &DataDir) -> Result<SitesKey> {
        let path = self.key_file.clone().unwrap_or_else(|| directory.root().join(KEY_FILE));
        match read_key(&path) {
            Err(error) if error.kind() == holdfast_base::ErrorKind::NotFound && self.key_file.is_none() => {
                let key = SitesKey::generate()?;
                write_key(directory, &key)?;
                Ok(key)
            }
            key => key,
        }
    }
}

fn read_key(path: &Path) -> Result<SitesKey> {
    use std::io::Read;
    let at = |error: std::io::Error| Error::from(error).context(path.display());
    let mut text = zeroize::Zeroizing::new(String::new());
    std::fs::File::open(path).map_err(at)?.take(KEY_BYTES_MAX).read_to_string(&mut text).map_err(at)?;
    SitesKey::parse(&text).map_err(|error| error.context(path.display()))
}

/// Makes a new key in the data directory and gives it to the sites account: its old one is lost, or known to somebody.
pub async fn renew_key(directory: &DataDir, accounts: &holdfast_auth::Accounts) -> Result<()> {
    let key = SitesKey::generate()?;
    write_key(directory, &key)?;
    accounts.renew_sites_account(&key).await
}

fn write_key(directory: &DataDir, key: &SitesKey) -> Result<()> {
    let text = zeroize::Zeroizing::new(format!("{}\n", key.text().expose()));
    replace_file(directory.root(), "sites.key.new", KEY_FILE, text.as_bytes())
        .map_err(|error| Error::from(error).context(directory.root().join(KEY_FILE).display()))
}

/// What a site is told of a client.
pub(crate) fn visitor(client: &Client, allow_plain_http: bool) -> Visitor {
    Visitor {
        address: client.address,
        encrypted: client.encrypted,
        may_send_secrets: gate::check_transport(client, allow_plain_http).is_ok(),
    }
}

/// What answers on sites listeners.
pub(crate) struct SitesDoor {
    web: Arc<Web>,
    serving: Serving,
    counts: Arc<Counts>,
}

impl SitesDoor {
    /// Metrics have to be installed by now.
    pub(crate) fn new(web: Arc<Web>, serving: Serving) -> Self {
        let counts = Arc::new(Counts::new(web.monitor.clone()));
        Self { web, serving, counts }
    }
}

impl Handler for SitesDoor {
    async fn handle(
        self: Arc<Self>,
        peer: Peer,
        tally: Arc<Tally>,
        request: Request<RequestBody>,
    ) -> Response<ResponseBody> {
        let web = &self.web;
        let client = client(peer, request.headers(), &web.trusted_proxies);
        let mut visit = Visit::begin(&request, &client, web.access_log, tally.clone(), self.counts.clone());
        let version = request.version();
        let mut answer = match (web.room.clone().try_acquire_owned(), request.uri().path()) {
            (_, "/.holdfast/healthz") => reply::text(StatusCode::OK, "ok\n"),
            (_, "/.holdfast/readyz") if !self.serving.is_settled() => {
                reply::text(StatusCode::SERVICE_UNAVAILABLE, "sites are not loaded yet\n")
            }
            (_, "/.holdfast/readyz") => web.readiness().await,
            (Err(_full), _) => {
                metrics::counter!("holdfast_requests_refused_total").increment(1);
                reply::error(&Error::unavailable("too many requests are being worked on; try again shortly"), false)
            }
            (Ok(room), _) => {
                visit.room = Some(room);
                let visitor = visitor(&client, web.allow_plain_http);
                any(self.serving.answer(Door::Sites, visitor, request).await)
            }
        };
        web.end_connection(version, &mut answer);
        visit.status = answer.status();
        answer.map(|body| ResponseBody::new(body, tally, Some(Box::new(visit))))
    }

    const HAS_READY: bool = true;

    fn ready(&self, _: Peer, ask: &Ask<'_>) -> Option<Ready> {
        let web = &self.web;
        // Each visit is logged by the way that sees all of them, which also says when connections end.
        if web.access_log == AccessLog::All || web.is_draining() || ask.path.starts_with("/.holdfast/") {
            return None;
        }
        let room = web.room.clone().try_acquire_owned().ok()?;
        let (head, body) = self.serving.ready(Door::Sites, ask.host, ask.path, ask.accept_encoding)?;
        Some(Ready { head, body, room })
    }

    fn answered(&self, took: Duration, bytes_out: usize) {
        self.counts.add(StatusCode::OK, took, bytes_out as u64);
    }
}

/// An answer of a site as one of this server.
pub(crate) fn any(answer: Response<holdfast_http::AnswerBody>) -> Response<AnyBody> {
    answer.map(|body| body.map_err(Into::into).boxed_unsync())
}

/// Where visits are counted; metrics are looked up once and not with every visit.
struct Counts {
    monitor: Monitor,
    /// By the first digit of the status.
    seconds: [(&'static str, metrics::Histogram); 5],
    bytes_out: metrics::Counter,
}

impl Counts {
    fn new(monitor: Monitor) -> Self {
        let seconds = ["1xx", "2xx", "3xx", "4xx", "5xx"]
            .map(|class| (class, metrics::histogram!("holdfast_site_request_seconds", "status" => class)));
        Self { monitor, seconds, bytes_out: metrics::counter!("holdfast_site_response_bytes_total") }
    }

    fn add(&self, status: StatusCode, took: Duration, bytes_out: u64) {
        let class = class(status);
        if let Some((_, seconds)) = self.seconds.iter().find(|(name, _)| *name == class) {
            seconds.record(took);
        }
        self.bytes_out.increment(bytes_out);
        self.monitor.visited(took, !status.is_server_error(), bytes_out);
    }
}

/// One request of a site, for metrics and the log. It knows no account, and a name to log only if there is a log.
struct Visit {
    began: Instant,
    status: StatusCode,
    tally: Arc<Tally>,
    counts: Arc<Counts>,
    logged: Option<(Method, String, std::net::IpAddr)>,
    room: Option<tokio::sync::OwnedSemaphorePermit>,
}

impl Visit {
    fn begin<B>(request: &Request<B>, client: &Client, log: AccessLog, tally: Arc<Tally>, counts: Arc<Counts>) -> Self {
        let logged = (log == AccessLog::All)
            .then(|| (request.method().clone(), request.uri().path().to_owned(), client.address));
        Self { began: Instant::now(), status: StatusCode::INTERNAL_SERVER_ERROR, tally, counts, logged, room: None }
    }
}

impl Finish for Visit {
    fn finish(&mut self, whole: bool) {
        let bytes_out = self.tally.bytes_out.load(Ordering::Relaxed);
        let took = self.began.elapsed();
        self.counts.add(self.status, took, bytes_out);
        if let Some((method, path, client)) = &self.logged {
            tracing::info!(
                target: "holdfast::access",
                %method, path, status = self.status.as_u16(), bytes_out,
                ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX), whole, %client, "visit"
            );
        }
        self.room = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_made_once_kept_private_and_a_named_one_must_exist() {
        use std::os::unix::fs::PermissionsExt;
        let temp = tempfile::tempdir().expect("a folder");
        let directory = DataDir::open_or_init(&temp.path().join("drive")).expect("made");
        let config = SitesConfig::default();
        let first = config.key(&directory).expect("made").text();
        assert_eq!(config.key(&directory).expect("read").text(), first);
        let mode = std::fs::metadata(directory.root().join(KEY_FILE)).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let named = SitesConfig { key_file: Some(temp.path().join("none")), ..SitesConfig::default() };
        assert!(named.key(&directory).is_err());
        std::fs::write(directory.root().join(KEY_FILE), "hf-sites-nonsense").expect("written");
        assert!(config.key(&directory).is_err(), "a broken key is not replaced");
    }
}
