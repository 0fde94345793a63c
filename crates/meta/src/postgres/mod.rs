//! The catalogue in PostgreSQL: one drive served by many nodes.
//!
//! **How it works.** A few threads write ([`lanes`]): a space's id says which, so that operations of one space that wait at the
//! same time share a transaction (each in a savepoint) and its commit, and those of other spaces run beside them. What
//! keeps nodes apart are row locks ([`crate::sql::tx`]); what is serialised or deadlocks anyway is run again, a bounded number of
//! times. Reads have a pool of connections of their own ([`pool`]) and, where several statements must agree, a
//! REPEATABLE READ transaction. Whoever follows changes hears of those of other nodes by LISTEN and NOTIFY, and by looking
//! now and then ([`feed`]). What the operations do is in [`crate::sql`].
//!
//! **When the database is down**, operations wait a few seconds for it ([`Options::patience`]) and then end as `Unavailable`; while it
//! stays down they end so at once, and connections are tried with growing pauses ([`connector`]). A change whose
//! commit was sent and not answered ends as `Unavailable` and says that it may have been made.
//!
//! **Limits.** Operations on one space follow one another: a space commits as often as the database syncs, times the operations that
//! share a commit. A node holds [`Options::connections`] connections. Restoring the id sequence after damage needs all
//! nodes but one to be stopped.

mod address;
mod connector;
mod engine_impl;
mod fault;
mod feed;
mod ids;
mod lanes;
mod link;
mod pool;
mod schema;
#[cfg(test)]
mod tests;
mod tls;
mod values;

use connector::{Connector, Session};
use feed::Feed;
use holdfast_base::{Error, Result};
use lanes::Lanes;
use pool::Pool;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How a catalogue is connected.
#[derive(Debug, Clone)]
pub struct Options {
    /// Connections for point reads: a read waits for one while all are in use.
    pub readers: usize,
    /// Connections for scans, which may take long.
    pub scanners: usize,
    /// Lanes of writers for spaces; there is one more for everything else.
    pub lanes: usize,
    /// Certificates (PEM) of those who may vouch for the server: then TLS is used and the server's name is checked.
    pub ca_file: Option<PathBuf>,
    /// File with the account's password in its first line, if the URL has none; without it, the variable `PGPASSWORD`.
    pub password_file: Option<PathBuf>,
    /// Time a connection attempt may take.
    pub connect_timeout: Duration,
    /// Time a statement may take, scans apart.
    pub statement_timeout: Duration,
    /// Time a statement of a scan may take.
    pub scan_timeout: Duration,
    /// Time an operation waits for a database that has just gone away, before it is `Unavailable`.
    pub patience: Duration,
    /// How often changes of other nodes are looked for, beside being told of them.
    pub poll_every: Duration,
    /// Whether the database has LISTEN and NOTIFY; without, other nodes' changes are found by looking alone.
    pub notify: bool,
}

impl Default for Options {
    /// Reads of twice the cores, and as many lanes as a database of a few cores can use.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            readers: (2 * cores).clamp(4, 32),
            scanners: 3,
            lanes: 4,
            ca_file: None,
            password_file: None,
            connect_timeout: Duration::from_secs(3),
            statement_timeout: Duration::from_secs(30),
            scan_timeout: Duration::from_hours(1),
            patience: Duration::from_secs(5),
            poll_every: Duration::from_secs(5),
            notify: true,
        }
    }
}

impl Options {
    /// Connections one node holds at most.
    pub const fn connections(&self) -> usize {
        self.readers + self.scanners + self.lanes + 2
    }
}

/// A catalogue in a PostgreSQL database. Cheap to share in an `Arc`; closes itself when dropped, better by [`Self::close`].
pub struct PostgresCatalogue {
    connector: Arc<Connector>,
    lanes: Lanes,
    points: Arc<Pool>,
    scans: Arc<Pool>,
    feed: Feed,
}

impl PostgresCatalogue {
    /// Connects to the database at `url` (`postgres://account:password@host/database`), makes the catalogue's tables if it is empty and
    /// brings them up to this program's schema if they are older. A newer one is `Unsupported`, another program's database
    /// `InvalidInput`, as is a URL that cannot be understood and a database that does not sync its commits.
    pub async fn connect(url: &str, options: &Options) -> Result<Self> {
        let (url, options) = (url.to_owned(), options.clone());
        tokio::task::spawn_blocking(move || Self::connect_now(&url, &options))
            .await
            .map_err(|error| Error::internal("connecting to the catalogue failed").with_source(error))?
    }

    fn connect_now(url: &str, options: &Options) -> Result<Self> {
        let connector = Arc::new(Connector::new(url, options)?);
        schema::prepare(&connector)?;
        let feed = Feed::start(&connector, options)?;
        let lanes = Lanes::start(&connector, options, &feed)?;
        let point = Session { statement: options.statement_timeout, by_index: true };
        let points = Arc::new(Pool::new(Arc::clone(&connector), options.readers, point));
        let scan = Session { statement: options.scan_timeout, by_index: false };
        let scans = Arc::new(Pool::new(Arc::clone(&connector), options.scanners, scan));
        Ok(Self { connector, lanes, points, scans, feed })
    }

    /// Lets queued operations finish and ends the connections. Later operations are `Unavailable`.
    pub async fn close(self: Arc<Self>) -> Result<()> {
        tokio::task::spawn_blocking(move || {
            self.lanes.stop();
            self.feed.stop();
            self.points.close();
            self.scans.close();
        })
        .await
        .map_err(|error| Error::internal("closing the catalogue failed").with_source(error))
    }
}

impl Drop for PostgresCatalogue {
    fn drop(&mut self) {
        self.lanes.stop();
        self.feed.stop();
    }
}

impl std::fmt::Debug for PostgresCatalogue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresCatalogue").field("server", &self.connector.server()).finish_non_exhaustive()
    }
}
