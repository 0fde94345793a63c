//! How many small writes should share one object? Measures ways to group them on SeaweedFS, with and without the latency of
//! a distant service:
//!
//! ```text
//! cargo run --release -p holdfast-blob --example sync_windows [writers] [seconds] [latency in ms]
//! ```
//!
//! Each writer writes a record of 16 KiB, waits until it is durable, and writes the next. The ways to group:
//!
//! - *each its own*: every write closes the open pack, as the drive's packer does today;
//! - *n in flight*: a pack is closed when fewer than n are on their way, so those who come meanwhile share the next;
//! - *window*: a pack is closed so long after its first record.
//!
//! Prints writes a second, objects for 1,000 writes, and how long a writer waited.

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

const RECORD_BYTES: usize = 16 << 10;

/// When the open pack is closed.
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

struct Grouper {
    store: Arc<dyn BlobStore>,
    way: Way,
    open: Mutex<Option<OpenPack>>,
    places: Arc<Semaphore>,
    objects: AtomicU64,
}

impl Grouper {
    fn new(store: Arc<dyn BlobStore>, way: Way) -> Arc<Self> {
        let places = match way {
            Way::InFlight(places) => places,
            _ => Semaphore::MAX_PERMITS,
        };
        let (open, objects) = (Mutex::default(), AtomicU64::new(0));
        Arc::new(Self { store, way, open, places: Arc::new(Semaphore::new(places)), objects })
    }

    /// Writes a record and waits until it is durable.
    async fn write(self: &Arc<Self>, record: Bytes) -> Result<()> {
        let mut done = {
            let mut open = self.open.lock().await;
            let first = open.is_none();
            if first {
                let appender = self.store.append(PackName(rand::random())).await?;
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

async fn measure(store: Arc<dyn BlobStore>, way: Way, writers: usize, time: Duration) -> Result<()> {
    let grouper = Grouper::new(store, way);
    let begun = Instant::now();
    let writer = |_| {
        let grouper = Arc::clone(&grouper);
        tokio::spawn(async move {
            let mut waits = Vec::new();
            while begun.elapsed() < time {
                let before = Instant::now();
                grouper.write(Bytes::from(vec![7; RECORD_BYTES])).await?;
                waits.push(before.elapsed());
            }
            Ok::<_, Error>(waits)
        })
    };
    let mut waits = Vec::new();
    for of_writer in join_all((0..writers).map(writer)).await {
        waits.extend(of_writer.map_err(|stopped| Error::internal("a writer stopped").with_source(stopped))??);
    }
    waits.sort_unstable();
    let seconds = begun.elapsed().as_secs_f64();
    let writes = waits.len() as f64;
    let objects = grouper.objects.load(Ordering::Relaxed) as f64;
    let at = |hundredths: usize| waits[(waits.len() - 1) * hundredths / 100].as_secs_f64() * 1e3;
    println!(
        "{:<16} {:>8.0} writes/s {:>8.0} objects/1000 {:>8.1} ms median {:>8.1} ms p99",
        format!("{way:?}"),
        writes / seconds,
        1_000.0 * objects / writes,
        at(50),
        at(99)
    );
    Ok(())
}

async fn run(writers: usize, time: Duration, latency: Duration) -> Result<()> {
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
        "{writers} writers of {RECORD_BYTES} bytes, {} s each, {} ms of latency",
        time.as_secs(),
        latency.as_millis()
    );
    for confirm in [true, false] {
        println!("{}", if confirm { "asking for each object afterwards" } else { "without asking" });
        options.objects.confirm = confirm;
        let store: Arc<dyn BlobStore> = Arc::new(open(&options).await?);
        for way in [
            Way::EachItsOwn,
            Way::InFlight(1),
            Way::InFlight(2),
            Way::InFlight(4),
            Way::Window(Duration::from_millis(5)),
            Way::Window(Duration::from_millis(20)),
            Way::Window(Duration::from_millis(100)),
        ] {
            measure(Arc::clone(&store), way, writers, time).await?;
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let mut numbers = std::env::args().skip(1).map(|number| number.parse::<u64>().unwrap_or(0));
    let writers = numbers.next().filter(|writers| *writers > 0).unwrap_or(32);
    let time = Duration::from_secs(numbers.next().filter(|seconds| *seconds > 0).unwrap_or(3));
    let latency = Duration::from_millis(numbers.next().unwrap_or(0));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run(usize::try_from(writers).unwrap_or(32), time, latency))
}
