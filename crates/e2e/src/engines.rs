//! Which database and store the drives of a test lie on.
//!
//! `HOLDFAST_ENGINES` says it for a whole run, `postgres,s3` for example: the database is `sqlite` or `postgres`, the store `fs`,
//! `s3` (SeaweedFS) or `swift`. Without it a drive has both in its data directory. The servers are real, one of a kind for all tests
//! of a program; every drive gets a [`Place`] of its own: a database, and names in the store that begin as no other drive's do.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use holdfast_testkit::postgres::PostgresServer;
use holdfast_testkit::server::ServerOptions;
use holdfast_testkit::services::seaweed::Seaweed;
use holdfast_testkit::services::swift::{Swift, SwiftOptions};

use crate::Outcome;
use crate::care::disk_use;
use crate::objects::Objects;

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

    /// A place for a new drive.
    pub fn place(self) -> Outcome<Place> {
        let database = if self.postgres { Some(PostgresServer::shared()?.database()?) } else { None };
        Ok(self.place_with(database))
    }

    /// The same with this database.
    pub fn place_with(self, database: Option<String>) -> Place {
        Place { engines: self, database, number: DRIVES.fetch_add(1, Ordering::Relaxed), _copied: None }
    }

    /// The variables that put a new drive on them, whose folder of packs, if it is one, is in `folder`.
    pub fn variables(self, folder: &Path) -> Outcome<Vec<(&'static str, String)>> {
        self.place()?.variables(folder)
    }
}

/// Where one drive lies.
#[derive(Debug, Clone)]
pub struct Place {
    /// On which engines.
    pub engines: Engines,
    /// The URL of its database, unless that is a file in the data directory.
    pub database: Option<String>,
    number: u32,
    _copied: Option<Arc<Copied>>,
}

/// A copy of a database, which goes with the last place that is there: tests make hundreds.
#[derive(Debug)]
struct Copied(String);

impl Drop for Copied {
    fn drop(&mut self) {
        let dropped = PostgresServer::shared().and_then(|server| server.drop_database(&self.0));
        if let Err(error) = dropped {
            eprintln!("a copy of a database stays: {error}");
        }
    }
}

impl Place {
    /// The variables that put a drive there, whose folder of packs, if it is one, is in `folder`.
    pub fn variables(&self, folder: &Path) -> Outcome<Vec<(&'static str, String)>> {
        let mut variables: Vec<_> = self.database.iter().map(|url| ("HOLDFAST_CATALOGUE__URL", url.clone())).collect();
        let prefix = self.prefix();
        match self.engines.store {
            Store::Fs if self.engines.postgres => {
                variables.push(("HOLDFAST_STORE__URL", format!("fs:{}", folder.join(PACKS).display())));
            }
            Store::Fs => {}
            Store::S3 => {
                let (bucket, endpoint) = (Seaweed::BUCKET, seaweed()?.endpoint());
                let url = format!("s3://{bucket}/{prefix}?endpoint={endpoint}&path_style=true");
                variables.push(("HOLDFAST_STORE__URL", url));
                variables.push(("AWS_ACCESS_KEY_ID", Seaweed::ACCESS_KEY_ID.into()));
                variables.push(("AWS_SECRET_ACCESS_KEY", Seaweed::SECRET_ACCESS_KEY.into()));
            }
            Store::Swift => {
                let (container, auth, user) = (Swift::CONTAINER, swift()?.auth_url(), Swift::USER);
                let url = format!("swift://{container}/{prefix}?auth={auth}&user={user}");
                variables.push(("HOLDFAST_STORE__URL", url));
                variables.push(("ST_KEY", Swift::KEY.into()));
            }
        }
        Ok(variables)
    }

    /// A server on them.
    pub fn options(&self, data: &Path) -> Outcome<ServerOptions> {
        let variables = self.variables(beside(data))?;
        Ok(variables.iter().fold(ServerOptions::new(data), |options, (name, value)| options.environment(name, value)))
    }

    /// The drive's packs, behind its back.
    pub fn objects(&self, data: &Path) -> Outcome<Objects> {
        Ok(match self.engines.store {
            Store::Fs => Objects::folder(if self.engines.postgres { beside(data) } else { data }.join(PACKS)),
            Store::S3 => Objects::seaweed(seaweed()?, &self.prefix()),
            Store::Swift => Objects::swift(swift()?, &self.prefix())?,
        })
    }

    /// The folders where database and store keep what they are given, beside the data directory and what lies there: those of the
    /// servers, so other drives' too.
    pub fn folders(&self) -> Outcome<Vec<PathBuf>> {
        let mut folders = Vec::new();
        if self.engines.postgres {
            folders.push(PostgresServer::shared()?.folder().to_owned());
        }
        match self.engines.store {
            Store::Fs => {}
            Store::S3 => folders.push(seaweed()?.folder().to_owned()),
            Store::Swift => folders.push(swift()?.folder().to_owned()),
        }
        Ok(folders)
    }

    /// Bytes that the drive takes on disks: those of its data directory, of its objects, and of its database.
    pub fn disk_use(&self, data: &Path) -> Outcome<u64> {
        let mut bytes = disk_use(data);
        if self.engines.postgres || self.engines.store != Store::Fs {
            bytes += self.objects(data)?.bytes()?;
        }
        if let Some(url) = &self.database {
            bytes += PostgresServer::shared()?.bytes(url)?;
        }
        Ok(bytes)
    }

    /// A place whose database is a copy of this one's, which nobody may be using. What is in files is the caller's to copy.
    pub fn copy(&self) -> Outcome<Self> {
        if self.engines.store != Store::Fs {
            return Err("what is in an object store is not copied: this test is for folders".into());
        }
        let Some(url) = &self.database else { return Ok(self.clone()) };
        let url = PostgresServer::shared()?.copy(url)?;
        let copied = Some(Arc::new(Copied(url.clone())));
        Ok(Self { database: Some(url), _copied: copied, ..self.clone() })
    }

    /// What the names of its objects begin with.
    fn prefix(&self) -> String {
        format!("drive{}", self.number)
    }
}

/// The name of the folder of packs.
const PACKS: &str = "packs";

/// The folder a data directory is in: that of the packs, if the catalogue is on a server.
fn beside(data: &Path) -> &Path {
    data.parent().unwrap_or(data)
}

fn seaweed() -> Outcome<&'static Seaweed> {
    shared(&SEAWEED, || Ok(Seaweed::start()?))
}

fn swift() -> Outcome<&'static Swift> {
    shared(&SWIFT, || Ok(Swift::start(SwiftOptions::default())?))
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
