//! How many small writes should share one object? Measures ways to group them on SeaweedFS, with and without the latency of
//! a distant service:
//!
//! ```text
//! cargo run --release -p holdfast-blob --example sync_windows [writes a second] [seconds] [latency in ms]
//! ```
//!
//! Writes of 16 KiB come at random moments, so many a second on average, whatever becomes of those before; each waits
//! until it is durable. The ways to group:
//!
//! - *each its own*: every write closes the open pack, as the drive's packer does today;
//! - *n in flight*: a pack is closed when fewer than n are on their way, so those who come meanwhile share the next;
//! - *window*: a pack is closed so long after its first record.
//!
//! Beginning a pack asks whether its name is free; *ahead* means that the next pack is begun before it is needed. Prints
//! objects for 1,000 writes and how long writes waited.

use bytes::Bytes;
use futures_util::future::join_all;
use holdfast_base::{Error, PackName, Result};
use holdfast_blob::s3::{CredentialSource, Credentials, S3Options, open};
use holdfast_blob::{Appender, BlobStore, Secret};
use holdfast_testkit::services::proxy::Proxy;
use holdfast_testkit::services::seaweed::Seaweed;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, Semaphore, watch};
use tokio::task::JoinHandle;

const RECORD_BYTES: usize = 16 << 10;

/// When the open pack is closed, and whether the next is begun ahead.
#[derive(Debug, Clone, Copy)]
enum Way {
    EachItsOwn,
    InFlight(usize),
    Window(Duration),
}

/// The pack that takes records, and those who wait for it.
struct OpenPack {
    appender: Box<dyn Appender>,
    done: watch::Sender<Option<bool>>,
}

/// A pack that is being begun.
type Begun = JoinHandle<Result<Box<dyn Appender>>>;

struct Grouper {
    store: Arc<dyn BlobStore>,
    way: Way,
    ahead: bool,
    next: Mutex<Option<Begun>>,
    open: Mutex<Option<OpenPack>>,
    places: Arc<Semaphore>,
    objects: AtomicU64,
}

impl Grouper {
    fn new(store: Arc<dyn BlobStore>, way: Way, ahead: bool) -> Arc<Self> {
        let places = match way {
            Way::InFlight(places) => places,
            _ => Semaphore::MAX_PERMITS,
        };
        let (open, objects, next) = (Mutex::default(), AtomicU64::new(0), Mutex::default());
        Arc::new(Self { store, way, ahead, next, open, places: Arc::new(Semaphore::new(places)), objects })
    }

    fn begin(&self) -> Begun {
        let store = Arc::clone(&self.store);
        tokio::spawn(async move { store.append(PackName(rand::random())).await })
    }

    async fn next(&self) -> Result<Box<dyn Appender>> {
        let mut next = self.next.lock().await;
        let begun = next.take().unwrap_or_else(|| self.begin());
        if self.ahead {
            *next = Some(self.begin());
        }
        begun.await.map_err(|stopped| Error::internal("stopped").with_source(stopped))?
    }

    /// Writes a record and waits until it is durable.
    async fn write(self: &Arc<Self>, record: Bytes) -> Result<()> {
        let mut done = {
            let mut open = self.open.lock().await;
            let first = open.is_none();
            if first {
                let appender = self.next().await?;
                *open = Some(OpenPack { appender, done: watch::Sender::new(None) });
            }
            let Some(pack) = &mut *open else { return Err(Error::internal("no pack")) };
            pack.appender.append(vec![record]).await?;
            let done = pack.done.subscribe();
            if first {
                tokio::spawn(Arc::clone(self).close());
            }
            done
        };
        let synced = done.wait_for(Option::is_some).await.map_err(|_| Error::internal("gone"))?;
        if *synced == Some(true) { Ok(()) } else { Err(Error::unavailable("not synced")) }
    }

    /// Closes the open pack when its time has come.
    async fn close(self: Arc<Self>) {
        if let Way::Window(window) = self.way {
            tokio::time::sleep(window).await;
        }
        let place = Arc::clone(&self.places).acquire_owned().await;
        let Some(mut pack) = self.open.lock().await.take() else { return };
        self.objects.fetch_add(1, Ordering::Relaxed);
        let synced = pack.appender.sync().await;
        drop(place);
        pack.done.send_replace(Some(synced.is_ok()));
    }
}

/// A moment after the last, as if many clients wrote independently of each other.
fn next_wait(rate: f64) -> Duration {
    Duration::from_secs_f64(-rand::random_range(f64::EPSILON..1.0_f64).ln() / rate)
}

async fn measure(store: Arc<dyn BlobStore>, way: Way, ahead: bool, rate: f64, time: Duration) -> Result<()> {
    let grouper = Grouper::new(store, way, ahead);
    let (begun, mut at, mut writes) = (Instant::now(), Duration::ZERO, Vec::new());
    while at < time {
        tokio::time::sleep_until((begun + at).into()).await;
        let grouper = Arc::clone(&grouper);
        let due = begun + at;
        writes.push(tokio::spawn(async move {
            grouper.write(Bytes::from(vec![7; RECORD_BYTES])).await?;
            Ok::<_, Error>(due.elapsed())
        }));
        at += next_wait(rate);
    }
    let mut waits = Vec::new();
    for write in join_all(writes).await {
        waits.push(write.map_err(|stopped| Error::internal("a write stopped").with_source(stopped))??);
    }
    waits.sort_unstable();
    let objects = grouper.objects.load(Ordering::Relaxed) as f64;
    let at = |hundredths: usize| waits[(waits.len() - 1) * hundredths / 100].as_secs_f64() * 1e3;
    println!(
        "{:<16} {:<6} {:>6.0} objects/1000 {:>8.1} ms median {:>8.1} ms p99",
        format!("{way:?}"),
        if ahead { "ahead" } else { "" },
        1_000.0 * objects / waits.len() as f64,
        at(50),
        at(99)
    );
    Ok(())
}

async fn run(rate: f64, time: Duration, latency: Duration) -> Result<()> {
    let failed = |error: std::io::Error| Error::unavailable(error.to_string());
    let seaweed = Seaweed::start().map_err(failed)?;
    let proxy = Proxy::start(seaweed.s3_port).map_err(failed)?;
    proxy.set_latency(latency);
    let mut options = S3Options::new(Seaweed::BUCKET);
    options.endpoint = Some(if latency.is_zero() { seaweed.endpoint() } else { proxy.url() });
    options.credentials = CredentialSource::Given(Credentials {
        access_key_id: Seaweed::ACCESS_KEY_ID.into(),
        secret_access_key: Secret::new(Seaweed::SECRET_ACCESS_KEY),
        session_token: None,
    });
    println!(
        "{rate} writes/s of {RECORD_BYTES} bytes, {} s each, {} ms of latency",
        time.as_secs(),
        latency.as_millis()
    );
    for confirm in [true, false] {
        println!("{}", if confirm { "asking for each object afterwards" } else { "without asking" });
        options.objects.confirm = confirm;
        let store: Arc<dyn BlobStore> = Arc::new(open(&options).await?);
        for (way, ahead) in [
            (Way::EachItsOwn, false),
            (Way::EachItsOwn, true),
            (Way::InFlight(1), true),
            (Way::InFlight(2), true),
            (Way::InFlight(4), true),
            (Way::Window(Duration::from_millis(20)), true),
            (Way::Window(Duration::from_millis(100)), true),
        ] {
            measure(Arc::clone(&store), way, ahead, rate, time).await?;
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let mut numbers = std::env::args().skip(1).map(|number| number.parse::<u32>().unwrap_or(0));
    let mut number = |usual: u32| numbers.next().filter(|number| *number > 0).unwrap_or(usual);
    let (rate, time) = (number(200), Duration::from_secs(number(5).into()));
    let latency = Duration::from_millis(numbers.next().unwrap_or(0).into());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run(rate.into(), time, latency))
}
