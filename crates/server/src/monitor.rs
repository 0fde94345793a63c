//! How this node does: operations by kind with their latencies, and bytes by account and client, counted where requests end.
//!
//! Every ten seconds what was counted is taken away and, unless nothing happened, written to the catalogue, where any node finds it: behind a
//! balancer a page may ask any of them. Every minute its sum is kept there for a day. Once in ten minutes what is stored is noted, too.
//!
//! Limits: kinds are those of a fixed list, which no client can add to; of accounts and clients [`SOURCES_MAX`] are counted by name in ten
//! seconds, and the rest together. A catalogue that does not answer costs the figures of that time and nothing else.

use holdfast_api::figures::{Bytes, Figures, Operations};
use holdfast_base::{Clock, SystemClock};
use holdfast_blob::BlobStore;
use holdfast_meta::figures::Timed;
use holdfast_meta::{Capacity, Catalogue, InstanceId, Sample};
use http::{HeaderMap, Method, header};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a node counts before it says what it has.
const SAY_EVERY: Duration = Duration::from_secs(10);
const MINUTE_MS: i64 = 60_000;
/// Minutes are kept so long: a day.
const KEPT_MS: i64 = 1_440 * MINUTE_MS;
/// Between two notes of what is stored.
const CAPACITY_EVERY: Duration = Duration::from_mins(10);
/// Accounts and clients counted by name.
const SOURCES_MAX: usize = 512;
/// What stands in an account's place where there is none.
const NOBODY: &str = "-";

/// Counts what this node does. Clones share everything.
#[derive(Clone)]
pub(crate) struct Monitor(Arc<Inner>);

struct Inner {
    counted: Mutex<Counted>,
    /// Visits of sites, by themselves: there may be a hundred thousand of them a second, and nobody has an account.
    visits: Mutex<(Timed, Bytes)>,
    running: AtomicU64,
    /// First words of the API's addresses.
    roots: BTreeSet<String>,
}

#[derive(Default)]
struct Counted {
    operations: BTreeMap<String, Timed>,
    accounts: BTreeMap<String, Bytes>,
    clients: BTreeMap<String, Bytes>,
}

/// A request that has ended.
pub(crate) struct Ended<'r> {
    pub(crate) kind: String,
    pub(crate) took: Duration,
    pub(crate) well: bool,
    pub(crate) account: Option<&'r str>,
    pub(crate) client: String,
    pub(crate) bytes: Bytes,
}

impl Monitor {
    pub(crate) fn new() -> Self {
        let routes = holdfast_api::document().paths.paths;
        let first = |path: &String| Some(path.strip_prefix(holdfast_api::PREFIX)?.split('/').nth(1)?.to_owned());
        let roots = routes.keys().filter_map(first).collect();
        Self(Arc::new(Inner { counted: Mutex::default(), visits: Mutex::default(), running: AtomicU64::new(0), roots }))
    }

    /// A visit of a site on a listener for sites has ended.
    pub(crate) fn visited(&self, took: Duration, well: bool, bytes_out: u64) {
        let mut visits = self.0.visits.lock();
        visits.0.add(took, well);
        visits.1.add(Bytes { requests: 1, bytes_in: 0, bytes_out });
    }

    /// A request begins.
    pub(crate) fn begins(&self) {
        self.0.running.fetch_add(1, Ordering::Relaxed);
    }

    /// A request has ended.
    pub(crate) fn ended(&self, ended: Ended<'_>) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
        let mut counted = self.0.counted.lock();
        let Counted { operations, accounts, clients } = &mut *counted;
        operations.entry(ended.kind).or_default().add(ended.took, ended.well);
        add(accounts, ended.account.unwrap_or(NOBODY), ended.bytes);
        add(clients, &ended.client, ended.bytes);
    }

    /// The kind of a request: the part of the server, the method, and for the API the first word of the address.
    pub(crate) fn kind(&self, face: &str, operation: &str, path: &str) -> String {
        let first = path.strip_prefix(holdfast_api::PREFIX).and_then(|rest| rest.split('/').nth(1));
        match first.filter(|first| self.0.roots.contains(*first)) {
            Some(first) => format!("{face} {operation} {first}"),
            None => format!("{face} {operation}"),
        }
    }

    fn take(&self, ms: u64) -> Figures {
        let Counted { operations, mut accounts, clients } = std::mem::take(&mut *self.0.counted.lock());
        let mut all: BTreeMap<String, Operations> =
            operations.into_iter().map(|(kind, timed)| (kind, timed.into())).collect();
        let (visits, bytes) = std::mem::take(&mut *self.0.visits.lock());
        if visits.count > 0 {
            all.insert("site visit".to_owned(), visits.into());
            add(&mut accounts, NOBODY, bytes);
        }
        for (name, timed) in holdfast_meta::figures::take() {
            // What this itself does, and signs of life, are nobody's doing.
            if !matches!(
                name,
                "put_sample" | "put_capacity" | "beat" | "ping" | "add_traffic" | "take_lease" | "give_up"
            ) {
                all.insert(format!("catalogue {name}"), timed.into());
            }
        }
        Figures {
            ms,
            operations: all,
            accounts,
            clients,
            running: self.0.running.load(Ordering::Relaxed),
            memory_bytes: crate::metrics::resident_bytes().unwrap_or_default(),
        }
    }

    /// Says how the node does until it is dropped.
    pub(crate) async fn keep_saying(
        self,
        catalogue: Arc<dyn Catalogue>,
        store: Arc<dyn BlobStore>,
        node: (InstanceId, String),
    ) {
        let mut every = tokio::time::interval(SAY_EVERY);
        every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        every.tick().await;
        let (mut began, mut minute, mut was_idle) = (Instant::now(), Minute::default(), false);
        let mut noted: Option<Instant> = None;
        loop {
            every.tick().await;
            let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            began = Instant::now();
            let figures = self.take(ms);
            let at_ms = SystemClock.now_ms();
            let done = minute.add(at_ms, &figures);
            let is_idle = figures.is_idle();
            if !(is_idle && was_idle && done.is_none()) {
                let said = say(&catalogue, &node, (at_ms, figures), done).await;
                if let Err(error) = said {
                    tracing::warn!(%error, "how this node does could not be said");
                }
            }
            was_idle = is_idle;
            if noted.is_none_or(|at| at.elapsed() >= CAPACITY_EVERY) {
                noted = Some(Instant::now());
                if let Err(error) = note_capacity(&catalogue, &store).await {
                    tracing::warn!(%error, "what is stored could not be noted");
                }
            }
        }
    }
}

/// The sum of the present minute.
#[derive(Default)]
struct Minute {
    at_ms: i64,
    sum: Figures,
}

impl Minute {
    /// Adds a while; answers the minute that has ended with it, if something happened in it.
    fn add(&mut self, at_ms: i64, figures: &Figures) -> Option<(i64, Figures)> {
        let minute = at_ms.div_euclid(MINUTE_MS) * MINUTE_MS;
        let ended = (self.at_ms != minute && !self.sum.is_idle()).then(|| (self.at_ms, std::mem::take(&mut self.sum)));
        if self.at_ms != minute {
            *self = Self { at_ms: minute, sum: Figures::default() };
        }
        self.sum.then(figures);
        ended
    }
}

async fn say(
    catalogue: &Arc<dyn Catalogue>,
    (instance, name): &(InstanceId, String),
    now: (i64, Figures),
    minute: Option<(i64, Figures)>,
) -> holdfast_base::Result<()> {
    let sample = |(at_ms, figures): (i64, Figures)| {
        let figures = serde_json::to_string(&figures.bounded());
        let figures =
            figures.map_err(|error| holdfast_base::Error::internal("figures cannot be written").with_source(error));
        Ok::<_, holdfast_base::Error>(Sample { node: name.clone(), at_ms, figures: figures? })
    };
    catalogue.put_sample(*instance, sample(now)?, minute.map(sample).transpose()?, KEPT_MS).await
}

async fn note_capacity(catalogue: &Arc<dyn Catalogue>, store: &Arc<dyn BlobStore>) -> holdfast_base::Result<()> {
    let (now, room) = (catalogue.pressure().await?, store.room().await?);
    let capacity = Capacity {
        at_ms: SystemClock.now_ms(),
        packs: now.packs,
        total_bytes: now.total_bytes,
        live_bytes: now.live_bytes,
        used_bytes: now.used_bytes,
        free_bytes: room.map(|room| room.free_bytes),
    };
    catalogue.put_capacity(capacity).await
}

fn add(sums: &mut BTreeMap<String, Bytes>, name: &str, bytes: Bytes) {
    let name = if sums.len() < SOURCES_MAX || sums.contains_key(name) { name } else { "others" };
    sums.entry(name.to_owned()).or_default().add(bytes);
}

/// A client for people: its address, and the program as far as it is one of those we know.
pub(crate) fn client(address: IpAddr, headers: &HeaderMap) -> String {
    const KNOWN: [(&str, &str); 16] = [
        ("holdfast", "holdfast"),
        ("rclone", "rclone"),
        ("davfs2", "davfs2"),
        ("cadaver", "cadaver"),
        ("curl", "curl"),
        ("microsoft-webdav", "Windows"),
        ("webdavfs", "macOS Finder"),
        ("webdavlib", "macOS Finder"),
        ("gvfs", "GNOME"),
        ("dolphin", "KDE"),
        ("kio", "KDE"),
        ("python", "Python"),
        ("firefox", "Firefox"),
        ("edg/", "Edge"),
        ("chrome", "Chrome"),
        ("safari", "Safari"),
    ];
    let agent = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let agent = agent.get(..agent.len().min(256)).unwrap_or_default().to_ascii_lowercase();
    let family = KNOWN.iter().find(|(mark, _)| agent.contains(mark)).map_or("other", |(_, name)| name);
    format!("{address} {family}")
}

/// Whether a change of files over WebDAV is written down, and how it is called.
pub(crate) fn file_action(method: &Method) -> Option<&'static str> {
    Some(match method.as_str() {
        "PUT" | "PATCH" => "file.write",
        "DELETE" => "file.remove",
        "MKCOL" => "file.make-folder",
        "MOVE" => "file.move",
        "COPY" => "file.copy",
        "PROPPATCH" => "file.properties",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_client_makes_a_kind_of_its_own() {
        let monitor = Monitor::new();
        assert_eq!(monitor.kind("api", "GET", "/api/v1/folders/ana/x"), "api GET folders");
        assert_eq!(monitor.kind("api", "GET", "/api/v1/made-up/x"), "api GET");
        assert_eq!(monitor.kind("dav", "PUT", "/dav/ana/x"), "dav PUT");
    }

    #[test]
    fn many_sources_are_counted_together() {
        let mut sums = BTreeMap::new();
        for number in 0..2 * SOURCES_MAX {
            add(&mut sums, &number.to_string(), Bytes { requests: 1, bytes_in: 1, bytes_out: 0 });
        }
        assert_eq!(sums.len(), SOURCES_MAX + 1);
        assert_eq!(sums.values().map(|it| it.requests).sum::<u64>(), 2 * SOURCES_MAX as u64);
    }

    #[test]
    fn visits_of_sites_are_an_operation_of_nobody() {
        let monitor = Monitor::new();
        assert!(!monitor.take(10_000).operations.contains_key("site visit"));
        monitor.visited(Duration::from_micros(30), true, 20_480);
        monitor.visited(Duration::from_micros(50), false, 100);
        let figures = monitor.take(10_000);
        let visits = &figures.operations["site visit"];
        assert_eq!((visits.count, visits.failed), (2, 1));
        assert_eq!(figures.accounts["-"], Bytes { requests: 2, bytes_in: 0, bytes_out: 20_580 });
        assert!(!monitor.take(10_000).operations.contains_key("site visit"), "they are taken away");
    }

    #[test]
    fn a_minute_is_the_sum_of_its_parts_and_ends_with_the_next() {
        let mut minute = Minute::default();
        let mut busy = Figures { ms: 10_000, ..Figures::default() };
        busy.operations.insert("dav PUT".into(), Operations { count: 3, ..Operations::default() });
        assert!(minute.add(60_000, &busy).is_none() && minute.add(70_000, &busy).is_none());
        let (at_ms, sum) = minute.add(120_000, &Figures::default()).expect("has ended");
        assert_eq!((at_ms, sum.operations["dav PUT"].count, sum.ms), (60_000, 6, 20_000));
        assert!(minute.add(180_000, &Figures::default()).is_none(), "nothing happened in it");
    }

    #[test]
    fn a_client_is_an_address_and_a_program_we_know() {
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, http::HeaderValue::from_static("rclone/v1.66 <script>"));
        assert_eq!(client([192, 0, 2, 1].into(), &headers), "192.0.2.1 rclone");
        assert_eq!(client([192, 0, 2, 1].into(), &HeaderMap::new()), "192.0.2.1 other");
    }
}
