//! Opening the places of a run, each server once, in the limits that hold for it.

use super::plan::Transfer;
use super::{Run, wrong};
use crate::file::What;
use crate::limit::{Bucket, Lease, Limited};
use crate::place::{Spot, is_web};
use holdfast_base::{DrivePath, Error, Result};
use holdfast_transfer::address::{self, Place};
use holdfast_transfer::other::SiteUrl;
use holdfast_transfer::{Leg, Site};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep};

/// Pauses between tries to open a place.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_LONGEST: Duration = Duration::from_secs(30);

/// Opens places.
pub(super) struct Opener<'o> {
    run: &'o Run<'o>,
    leases: BTreeMap<String, Lease>,
    /// Calls at a time, of sites that have a connection for each.
    calls: BTreeMap<String, Arc<Semaphore>>,
    rate: Option<Arc<Bucket>>,
    opened: Vec<Opened>,
    stop: watch::Receiver<bool>,
}

/// A server that is open.
struct Opened {
    /// Whose, and how it is reached.
    origin: String,
    path: DrivePath,
    place: Place,
}

impl<'o> Opener<'o> {
    /// Takes what sites allow.
    pub(super) async fn new(
        run: &'o Run<'o>,
        transfers: &[Transfer],
        stop: watch::Receiver<bool>,
        rate: Option<Arc<Bucket>>,
    ) -> Result<Self> {
        let spots = transfers.iter().flat_map(|transfer| transfer.from.iter().chain([&transfer.to]));
        let sites: BTreeMap<_, _> =
            spots.filter_map(|spot| spot.site.as_ref()).map(|(alias, site, _)| (alias, site)).collect();
        let wanted = usize::from(run.job.text.parallel.unwrap_or(4));
        let (mut leases, mut calls) = (BTreeMap::new(), BTreeMap::new());
        for (alias, site) in sites {
            let mut stopped = stop.clone();
            let lease = tokio::select! {
                lease = run.limits.lease(alias, &site.text, wanted) => lease?,
                _ = stopped.wait_for(|stop| *stop) => return Err(Error::unavailable("the run was told to stop")),
            };
            if let Some(count) = lease.connections.filter(|_| is_web(&site.text.address)) {
                calls.insert(alias.clone(), Arc::new(Semaphore::new(count)));
            }
            leases.insert(alias.clone(), lease);
        }
        Ok(Self { run, leases, calls, rate, opened: Vec::new(), stop })
    }

    /// Opens the places of a transfer.
    pub(super) async fn open(&mut self, transfer: &Transfer) -> Result<(Vec<Leg>, Arc<dyn Site>)> {
        let to = self.place(&transfer.to, true).await?;
        let to = Place { site: self.limited(&transfer.to, &to.site, true), ..to };
        let mut sources = Vec::with_capacity(transfer.from.len());
        for spot in &transfer.from {
            let place = self.place(spot, false).await?;
            sources.push(Place { site: self.limited(spot, &place.site, false), ..place });
        }
        let legs = match (&transfer.names, self.run.job.text.kind) {
            (Some(names), _) => below(&sources, &to, names)?,
            (None, What::Push) => address::legs(sources, &to)?,
            (None, What::Sync) => {
                let source = sources.pop().ok_or_else(|| wrong("a sync has one from"))?;
                address::must_be_folder(&source).await?;
                vec![Leg { source: source.site, from: source.path, to: to.path.clone() }]
            }
        };
        Ok((legs, to.site))
    }

    fn limited(&self, spot: &Spot, site: &Arc<dyn Site>, is_destination: bool) -> Arc<dyn Site> {
        let alias = spot.site.as_ref().map(|(alias, ..)| alias);
        let of_site = alias.and_then(|alias| self.leases.get(alias)?.rate.clone());
        // The job's own rate is counted once, where it reads.
        let own = self.rate.clone().filter(|_| !is_destination);
        let calls = alias.and_then(|alias| self.calls.get(alias)).cloned();
        if of_site.is_none() && own.is_none() && calls.is_none() {
            return Arc::clone(site);
        }
        let buckets: Vec<_> = of_site.into_iter().collect();
        let reads = buckets.iter().cloned().chain(own).collect();
        Arc::new(Limited { site: Arc::clone(site), calls, reads, writes: buckets })
    }

    /// A place, by a server that is open already if there is one.
    async fn place(&mut self, spot: &Spot, is_destination: bool) -> Result<Place> {
        let url = if is_web(&spot.address) || !spot.address.contains("://") {
            None
        } else {
            Some(SiteUrl::parse(&spot.address)?)
        };
        let who = spot.site.as_ref().map(|(alias, _, login)| (alias, login));
        let origin = url.as_ref().map(|url| format!("{:?} {:?} {}", who, url.user, url.origin()));
        if let (Some(url), Some(origin)) = (&url, &origin)
            && let Some(place) = self.opened.iter().find_map(|opened| opened.at(origin, url))
        {
            return Ok(place);
        }
        let place = self.persist(spot, is_destination).await.map_err(|error| error.context(shown(spot)))?;
        if let (Some(url), Some(origin)) = (url, origin) {
            self.opened.push(Opened { origin, path: url.path, place: place.clone() });
        }
        Ok(place)
    }

    async fn persist(&mut self, spot: &Spot, is_destination: bool) -> Result<Place> {
        let connections = spot.site.as_ref().and_then(|(alias, ..)| self.leases.get(alias)?.connections);
        let access = spot.access(connections)?;
        let text = &self.run.job.text;
        let retry_for =
            text.retry_for.as_ref().map_or(holdfast_transfer::Options::default().retry_for, |retry| retry.0);
        let (begun, mut pause) = (Instant::now(), PAUSE_FIRST);
        loop {
            let opening = async {
                if is_destination {
                    address::destination_of(&spot.address, &access).await
                } else {
                    address::source_of(&spot.address, &access).await
                }
            };
            let told = Error::unavailable("the run was told to stop");
            let opened = tokio::select! {
                opened = opening => opened,
                _ = self.stop.wait_for(|stop| *stop) => return Err(told),
            };
            match opened {
                Err(error) if error.is_temporary() && begun.elapsed() + pause < retry_for => {
                    tracing::warn!(job = %self.run.job.name, place = %shown(spot), %error, "it cannot be reached, and is tried again");
                    tokio::select! {
                        () = sleep(pause) => {},
                        _ = self.stop.wait_for(|stop| *stop) => return Err(told),
                    }
                    pause = (pause * 2).min(PAUSE_LONGEST);
                }
                done => return done,
            }
        }
    }
}

impl Opened {
    /// Another path of the same server, if it is in what is open: paths of a site are those of addresses but for the same names at their beginning.
    fn at(&self, origin: &str, url: &SiteUrl) -> Option<Place> {
        let (known, inside) = (self.path.names(), self.place.path.names());
        if self.origin != origin || !known.ends_with(inside) {
            return None;
        }
        let outside = &known[..known.len() - inside.len()];
        if outside.is_empty() && matches!(url.scheme.as_str(), "http" | "https" | "holdfast") {
            // The account's own space of a drive, which no other path is in.
            return None;
        }
        let rest = url.path.names().strip_prefix(outside)?;
        let path = DrivePath::from_names(rest.to_vec()).ok()?;
        Some(Place { site: Arc::clone(&self.place.site), members: url.members || path.is_root(), path })
    }
}

/// Names below the one source, which arrive below the destination as they are.
fn below(sources: &[Place], to: &Place, names: &[DrivePath]) -> Result<Vec<Leg>> {
    let [source] = sources else { return Err(wrong("a list of names is of one from")) };
    let join = |base: &DrivePath, name: &DrivePath| {
        DrivePath::from_names(base.names().iter().chain(name.names()).cloned().collect())
    };
    let leg = |name: &DrivePath| {
        Ok(Leg { source: Arc::clone(&source.site), from: join(&source.path, name)?, to: join(&to.path, name)? })
    };
    names.iter().map(leg).collect()
}

fn shown(spot: &Spot) -> String {
    spot.site.as_ref().map_or_else(|| spot.address.clone(), |(alias, ..)| format!("{alias} ({})", spot.address))
}
