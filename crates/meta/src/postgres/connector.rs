//! Making connections, and not hammering a server that is down.
//!
//! Whoever needs a connection while the database was up a moment ago tries for [`super::Options::patience`], with growing pauses of
//! random length; that carries operations over a restart. Once that failed the database counts as down: everybody else
//! fails at once, but for one attempt after each pause. An attempt that fails after a later one got through says nothing.

use super::Options;
use super::address::{Address, refused};
use super::fault::{down, slow};
use super::link::PgLink;
use crate::sql::fault::DatabaseError;
use holdfast_base::{Error, Result};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio_postgres::{Client, NoTls};

/// Pauses between attempts: the first, and what they grow to.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Time the client waits beyond the server's own time-out, which has the better message.
const GRACE: Duration = Duration::from_secs(5);

/// Time after which the server ends a transaction whose client says nothing: a node that is cut off lets go of its locks.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Time a row lock is waited for, below the statement's own time-out: then the operation is run again.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// What a connection is used for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Session {
    /// Time a statement may take.
    pub(super) statement: Duration,
    /// Whether statements have to find their rows by index, whatever the database believes: it counts its rows now and then, keeps a
    /// plan until it does, and while a table grows from nothing it would rather read all of it.
    pub(super) by_index: bool,
}

/// Makes connections to one database.
pub(super) struct Connector {
    address: Address,
    connect_timeout: Duration,
    patience: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    failures: u32,
    down: bool,
    next_attempt: Option<Instant>,
    /// Connections that were made.
    made: u64,
}

impl Connector {
    /// For the database at `url`.
    pub(super) fn new(url: &str, options: &Options) -> Result<Self> {
        Ok(Self {
            address: Address::parse(url, options)?,
            connect_timeout: options.connect_timeout,
            patience: options.patience,
            state: Mutex::default(),
        })
    }

    /// The server, for logs.
    pub(super) fn server(&self) -> String {
        self.address.server()
    }

    /// An error of connecting that names the server.
    pub(super) fn refused(&self, error: DatabaseError) -> Error {
        refused(&self.address, error)
    }

    /// A connection, as soon as there is one; see the module for how long that is tried.
    pub(super) fn connect(&self, session: Session) -> Result<PgLink, DatabaseError> {
        let deadline = Instant::now() + self.patience;
        loop {
            let made = self.state().may_try()?;
            match self.attempt(session) {
                Ok(link) => {
                    self.state().succeeded();
                    return Ok(link);
                }
                Err(error) => {
                    let pause = self.state().failed(made, deadline);
                    std::thread::sleep(pause.ok_or(error)?);
                }
            }
        }
    }

    /// One attempt.
    pub(super) fn attempt(&self, session: Session) -> Result<PgLink, DatabaseError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| down(&error.to_string()))?;
        let opened = runtime.block_on(async {
            let open = async {
                let client = self.open().await?;
                client.batch_execute(&settings(session)).await?;
                Ok::<_, tokio_postgres::Error>(client)
            };
            tokio::time::timeout(self.connect_timeout + GRACE, open).await
        });
        let client = opened.map_err(|_| slow())??;
        Ok(PgLink::new(runtime, client, session.statement + GRACE))
    }

    /// A connection whose other half runs on the current runtime.
    async fn open(&self) -> Result<Client, tokio_postgres::Error> {
        let config = &self.address.config;
        if let Some(tls) = &self.address.tls {
            let (client, connection) = config.connect(tls.clone()).await?;
            tokio::spawn(connection);
            Ok(client)
        } else {
            let (client, connection) = config.connect(NoTls).await?;
            tokio::spawn(connection);
            Ok(client)
        }
    }

    /// The address, for a connection of another kind.
    pub(super) const fn address(&self) -> &Address {
        &self.address
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether this is not the time to leave the database alone; answers how many connections there were.
    fn may_try(&self) -> Result<u64, DatabaseError> {
        if self.down && self.next_attempt.is_some_and(|at| at > Instant::now()) {
            return Err(down("it was tried a moment ago"));
        }
        Ok(self.made)
    }

    fn succeeded(&mut self) {
        *self = Self { made: self.made + 1, ..Self::default() };
    }

    /// Counts an attempt that failed and began when so many connections had been made; answers the pause before the next one, if there
    /// is to be one.
    fn failed(&mut self, made: u64, deadline: Instant) -> Option<Duration> {
        let now = Instant::now();
        if made != self.made {
            return (now < deadline).then_some(Duration::ZERO);
        }
        self.failures = self.failures.saturating_add(1);
        let pause = jittered(PAUSE.saturating_mul(1 << self.failures.min(10)).min(PAUSE_MAX));
        self.next_attempt = Some(now + pause);
        self.down |= now + pause > deadline;
        (!self.down).then_some(pause)
    }
}

/// Settings of a session. Those of the planner are PostgreSQL's own, and a database that speaks its protocol may not have them. `jit` goes
/// with them: a plan against the planner's will has a cost that it would compile for.
fn settings(session: Session) -> String {
    let statement = session.statement;
    let mut settings = format!(
        "SET statement_timeout = {}; SET lock_timeout = {}; SET idle_in_transaction_session_timeout = {}",
        statement.as_millis(),
        LOCK_TIMEOUT.min(statement).as_millis(),
        IDLE_TIMEOUT.as_millis()
    );
    if session.by_index {
        settings += "; SELECT set_config(name, 'off', false) FROM pg_settings \
                     WHERE name IN ('enable_seqscan', 'enable_hashjoin', 'enable_mergejoin', 'jit')";
    }
    settings
}

/// Between half a pause and a whole one, so that many who wait do not come at once.
pub(super) fn jittered(pause: Duration) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    let random = u32::try_from(RandomState::new().hash_one(0u8) % 1_024).unwrap_or(0);
    pause / 2 + pause / 2_048 * random
}
