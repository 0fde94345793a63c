//! What holds for a site over all jobs, and for a job over all its files: bytes a second, and connections.
//!
//! A run takes connections of a site from what is free of its cap, one at least, and gives them back when it ends; sites open no more than they are
//! told to. Web servers have a connection for each call, so for them calls are counted. Rates are buckets that sites are wrapped in, [`Limited`]; the rate
//! of one is looked up each time, so it can be another by night.

mod site;

pub use site::Limited;

use crate::file::SiteText;
use holdfast_base::{Error, Result};
use holdfast_transfer::signs;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep};

/// A sign is given this often while something waits for its turn, and the rate is looked up anew.
const LOOK: Duration = Duration::from_millis(250);

/// Bytes a second, as they are now; none is no limit.
pub type RateNow = dyn Fn() -> Option<u64> + Send + Sync;

/// Bytes that may go, which grow at the rate and are a second of it at most. Whoever takes may go into debt, and waits until that is paid.
pub struct Bucket {
    rate: Box<RateNow>,
    level: Mutex<(Instant, f64)>,
}

impl Bucket {
    /// One whose rate is looked up.
    pub fn new(rate: Box<RateNow>) -> Self {
        Self { rate, level: Mutex::new((Instant::now(), 0.0)) }
    }

    /// Waits until `bytes` more may go.
    pub async fn take(&self, bytes: u64) {
        self.level.lock().1 -= bytes as f64;
        let signs = signs::current();
        while let Some(wait) = self.debt() {
            sleep(wait.min(LOOK)).await;
            signs.alive();
        }
    }

    fn debt(&self) -> Option<Duration> {
        let mut level = self.level.lock();
        let now = Instant::now();
        let Some(rate) = (self.rate)().map(|rate| rate.max(1) as f64) else {
            *level = (now, 0.0);
            return None;
        };
        let gained = now.duration_since(level.0).as_secs_f64() * rate;
        *level = (now, (level.1 + gained).min(rate));
        (level.1 < 0.0).then(|| Duration::from_secs_f64((-level.1 / rate).min(3_600.0)).max(Duration::from_millis(1)))
    }
}

/// Limits of a site.
struct OfSite {
    caps: (Option<u16>, Option<u64>),
    connections: Option<Arc<Semaphore>>,
    rate: Option<Arc<Bucket>>,
}

/// Limits of all sites, which outlive what is read anew.
#[derive(Default)]
pub struct Limits(Mutex<BTreeMap<String, Arc<OfSite>>>);

/// What a run may use of a site until this is dropped.
pub struct Lease {
    /// Connections; none is no limit.
    pub connections: Option<usize>,
    /// The site's rate.
    pub rate: Option<Arc<Bucket>>,
    _taken: Option<OwnedSemaphorePermit>,
}

impl Limits {
    fn of(&self, alias: &str, text: &SiteText) -> Arc<OfSite> {
        let caps = (text.connections, text.rate.as_ref().map(|rate| rate.0));
        let mut all = self.0.lock();
        let known = all.get(alias).filter(|known| known.caps == caps).cloned();
        known.unwrap_or_else(|| {
            let rate = |rate| Arc::new(Bucket::new(Box::new(move || Some(rate))));
            let connections = caps.0.map(|count| Arc::new(Semaphore::new(usize::from(count))));
            let new = Arc::new(OfSite { caps, connections, rate: caps.1.map(rate) });
            all.insert(alias.to_owned(), Arc::clone(&new));
            new
        })
    }

    /// Takes up to `wanted` connections of a site, once one is free. Who takes of several sites does so in order of their aliases, so that no two runs wait
    /// for each other.
    pub async fn lease(&self, alias: &str, text: &SiteText, wanted: usize) -> Result<Lease> {
        let of = self.of(alias, text);
        let Some(connections) = &of.connections else {
            return Ok(Lease { connections: None, rate: of.rate.clone(), _taken: None });
        };
        let closed = |_| Error::internal("the connections of a site were closed");
        let mut taken = Arc::clone(connections).acquire_owned().await.map_err(closed)?;
        while taken.num_permits() < wanted {
            let Ok(more) = Arc::clone(connections).try_acquire_owned() else { break };
            taken.merge(more);
        }
        Ok(Lease { connections: Some(taken.num_permits()), rate: of.rate.clone(), _taken: Some(taken) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[tokio::test(start_paused = true)]
    async fn many_who_take_together_get_the_rate_and_a_change_of_it_is_felt_at_once() {
        let rate = Arc::new(AtomicU64::new(1_000));
        let now = Arc::clone(&rate);
        let bucket =
            Arc::new(Bucket::new(Box::new(move || Some(now.load(Ordering::Relaxed)).filter(|rate| *rate > 0))));
        let begun = Instant::now();
        let takers: Vec<_> = (0..10)
            .map(|_| Arc::clone(&bucket))
            .map(|bucket| tokio::spawn(async move { bucket.take(1_000).await }))
            .collect();
        for taker in takers {
            taker.await.expect("takes");
        }
        let took = begun.elapsed();
        assert!(took >= Duration::from_secs(10) && took < Duration::from_secs(11), "{took:?}");
        let slow = tokio::spawn(async move { bucket.take(1_000_000).await });
        sleep(Duration::from_secs(2)).await;
        rate.store(0, Ordering::Relaxed);
        let begun = Instant::now();
        slow.await.expect("takes");
        assert!(begun.elapsed() <= LOOK, "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn connections_of_all_runs_together_stay_below_the_cap_and_each_has_one() {
        let text: SiteText = toml::from_str("address = 'sftp://h'\nconnections = 3").expect("reads");
        let limits = Arc::new(Limits::default());
        let first = limits.lease("a", &text, 2).await.expect("takes");
        let second = limits.lease("a", &text, 2).await.expect("takes");
        assert_eq!((first.connections, second.connections), (Some(2), Some(1)));
        let waiting = {
            let (limits, text) = (Arc::clone(&limits), text.clone());
            tokio::spawn(async move { limits.lease("a", &text, 9).await.map(|lease| lease.connections) })
        };
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(first);
        assert_eq!(waiting.await.expect("ends").expect("takes"), Some(2));
    }
}
