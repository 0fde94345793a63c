//! Which database and store the drives of a test lie on.
//!
//! `HOLDFAST_ENGINES` says it for a whole run, `postgres,s3` for example: the database is `sqlite` or `postgres`, the store `fs`,
//! `s3` (SeaweedFS) or `swift`. Without it a drive has both in its data directory. The servers are real, one of a kind for all tests
//! of a program; every drive gets a database and a place in the store of its own.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use holdfast_testkit::postgres::PostgresServer;
use holdfast_testkit::server::ServerOptions;
use holdfast_testkit::services::seaweed::Seaweed;
use holdfast_testkit::services::swift::{Swift, SwiftOptions};

use crate::Outcome;

/// A database and a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Engines {
    /// PostgreSQL rather than SQLite.
    pub postgres: bool,
    /// The store.
    pub store: Store,
}

/// A kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    /// A folder.
    Fs,
    /// SeaweedFS.
    S3,
    /// OpenStack Swift.
    Swift,
}

impl Engines {
    /// What `HOLDFAST_ENGINES` says.
    pub fn of_environment() -> Outcome<Self> {
        let mut engines = Self { postgres: false, store: Store::Fs };
        for word in std::env::var("HOLDFAST_ENGINES").unwrap_or_default().split(',').filter(|word| !word.is_empty()) {
            match word {
                "sqlite" => engines.postgres = false,
                "postgres" => engines.postgres = true,
                "fs" => engines.store = Store::Fs,
                "s3" => engines.store = Store::S3,
                "swift" => engines.store = Store::Swift,
                _ => return Err(format!("HOLDFAST_ENGINES: there is no {word}").into()),
            }
        }
        Ok(engines)
    }

    /// The variables that put a new drive on them, whose folder of packs, if it is one, is in `folder`.
    pub fn variables(self, folder: &Path) -> Outcome<Vec<(&'static str, String)>> {
        let mut variables = Vec::new();
        if self.postgres {
            variables.push(("HOLDFAST_CATALOGUE__URL", PostgresServer::shared()?.database()?));
        }
        let number = DRIVES.fetch_add(1, Ordering::Relaxed);
        match self.store {
            Store::Fs if self.postgres => {
                variables.push(("HOLDFAST_STORE__URL", format!("fs:{}", folder.join("packs").display())));
            }
            Store::Fs => {}
            Store::S3 => {
                let server = shared(&SEAWEED, || Ok(Seaweed::start()?))?;
                let (bucket, endpoint) = (Seaweed::BUCKET, server.endpoint());
                let url = format!("s3://{bucket}/drive{number}?endpoint={endpoint}&path_style=true");
                variables.push(("HOLDFAST_STORE__URL", url));
                variables.push(("AWS_ACCESS_KEY_ID", Seaweed::ACCESS_KEY_ID.into()));
                variables.push(("AWS_SECRET_ACCESS_KEY", Seaweed::SECRET_ACCESS_KEY.into()));
            }
            Store::Swift => {
                let server = shared(&SWIFT, || Ok(Swift::start(SwiftOptions::default())?))?;
                let (container, auth, user) = (Swift::CONTAINER, server.auth_url(), Swift::USER);
                let url = format!("swift://{container}/drive{number}?auth={auth}&user={user}");
                variables.push(("HOLDFAST_STORE__URL", url));
                variables.push(("ST_KEY", Swift::KEY.into()));
            }
        }
        Ok(variables)
    }

    /// A server on them.
    pub fn options(self, data: &Path) -> Outcome<ServerOptions> {
        let folder = data.parent().unwrap_or(data);
        let variables = self.variables(folder)?;
        Ok(variables.iter().fold(ServerOptions::new(data), |options, (name, value)| options.environment(name, value)))
    }
}

/// Places in stores given out so far.
static DRIVES: AtomicU32 = AtomicU32::new(0);
static SEAWEED: Mutex<Option<&'static Seaweed>> = Mutex::new(None);
static SWIFT: Mutex<Option<&'static Swift>> = Mutex::new(None);

/// The one of a kind for all tests of this program; it ends with the program.
fn shared<T>(place: &Mutex<Option<&'static T>>, start: impl FnOnce() -> Outcome<T>) -> Outcome<&'static T> {
    let mut place = place.lock().map_err(|_| "an earlier start panicked")?;
    if let Some(server) = *place {
        return Ok(server);
    }
    let server: &'static T = Box::leak(Box::new(start()?));
    *place = Some(server);
    Ok(server)
}
