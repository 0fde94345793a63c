//! The engines beneath a drive: which database holds its catalogue and which store its packs.
//!
//! By default both are in the data directory. Several nodes serve one drive if all name the same PostgreSQL database and the same
//! store; what is left in a node's data directory then is its own: its lock, its scratch file, its certificate.
//!
//! ```toml
//! node_name = "attic"
//!
//! [catalogue]
//! url = "postgres://holdfast@db.example.org/holdfast"
//! password_file = "/etc/holdfast/db-password"
//! ca_file = "/etc/holdfast/db-ca.pem"
//!
//! [store]
//! url = "s3://bucket/prefix?endpoint=https://s3.example.org&credentials_file=/etc/holdfast/s3&cache=/var/cache/holdfast"
//! ```

use crate::data_dir::DataDir;
use holdfast_base::{Error, Result};
use holdfast_blob::BlobStore;
use holdfast_blob::fs::FsStore;
use holdfast_blob::migrate::Migrating;
use holdfast_blob::url::StoreUrl;
use holdfast_meta::Catalogue;
use holdfast_meta::migrate::Database;
use holdfast_meta::postgres::{self, PostgresCatalogue};
use holdfast_meta::sqlite::{self, SqliteCatalogue};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;

/// What the URL of a SQLite catalogue begins with.
const SQLITE: &str = "sqlite:";

/// Where the catalogue is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CatalogueConfig {
    /// `postgres://ACCOUNT@HOST/DATABASE`, or `sqlite:FILE`; `catalogue.db` in the data directory if none. Without a password.
    pub url: Option<String>,
    /// File with the database account's password in its first line; without it, `PGPASSWORD`.
    pub password_file: Option<PathBuf>,
    /// Certificates (PEM) of those who vouch for the database server: needed if it is on another machine.
    pub ca_file: Option<PathBuf>,
}

/// Where the packs are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// Address of the store (`fs:`, `s3:` or `swift:`); `packs` in the data directory if none.
    pub url: Option<String>,
    /// Address of the store that packs are moving from: it is read from, and nothing new goes there.
    pub from: Option<String>,
}

/// An opened catalogue.
#[derive(Debug, Clone)]
pub enum OpenCatalogue {
    /// In a file.
    Sqlite(Arc<SqliteCatalogue>),
    /// On a server.
    Postgres(Arc<PostgresCatalogue>),
}

impl CatalogueConfig {
    /// Opens it, beside a running server or without one.
    pub async fn open(&self, directory: &DataDir) -> Result<OpenCatalogue> {
        let path = match &self.url {
            None => directory.catalogue(),
            Some(url) => match url.strip_prefix(SQLITE) {
                Some(path) => directory.root().join(path),
                None => return Ok(OpenCatalogue::Postgres(Arc::new(self.connect(url).await?))),
            },
        };
        open_sqlite(path).await.map(OpenCatalogue::Sqlite)
    }

    /// Connects to the PostgreSQL database at a URL.
    pub async fn connect(&self, url: &str) -> Result<PostgresCatalogue> {
        refuse_password(url)?;
        let options = postgres::Options {
            ca_file: self.ca_file.clone(),
            password_file: self.password_file.clone(),
            ..postgres::Options::default()
        };
        PostgresCatalogue::connect(url, &options).await
    }
}

impl StoreConfig {
    /// Opens it: with its read cache, if it has one, and without, for checks of what is really stored.
    pub async fn open(&self, directory: &DataDir) -> Result<(Arc<dyn BlobStore>, Arc<dyn BlobStore>)> {
        let (store, below) = open_store(self.url.as_deref(), directory).await?;
        let Some(from) = &self.from else { return Ok((store, below)) };
        let (_, from) = open_store(Some(from), directory).await?;
        let over = |to| -> Arc<dyn BlobStore> { Arc::new(Migrating::new(Arc::clone(&from), to)) };
        Ok((over(store), over(below)))
    }

    /// The store that packs are moving from and the one they are moving to.
    pub async fn open_apart(&self, directory: &DataDir) -> Result<(Arc<dyn BlobStore>, Arc<dyn BlobStore>)> {
        let Some(from) = &self.from else {
            return Err(Error::invalid(
                "nothing says where packs move from: set store.from to the address of the old store, store.url to that of the \
                 new one, and start every node again",
            ));
        };
        let (_, from) = open_store(Some(from), directory).await?;
        let (_, to) = open_store(self.url.as_deref(), directory).await?;
        Ok((from, to))
    }
}

async fn open_store(url: Option<&str>, directory: &DataDir) -> Result<(Arc<dyn BlobStore>, Arc<dyn BlobStore>)> {
    if let Some(url) = url {
        return StoreUrl::parse(url)?.open_both().await;
    }
    let store: Arc<dyn BlobStore> = Arc::new(FsStore::open(directory.packs())?);
    Ok((Arc::clone(&store), store))
}

async fn open_sqlite(path: PathBuf) -> Result<Arc<SqliteCatalogue>> {
    let shown = path.display().to_string();
    let opened = tokio::task::spawn_blocking(move || SqliteCatalogue::open(&path, &sqlite::Options::default())).await;
    let opened = opened.map_err(|error| Error::internal(format!("opening the catalogue failed: {error}")))?;
    opened.map(Arc::new).map_err(|error| error.context(shown))
}

/// Configurations are shown, and lists of processes are: a password belongs in neither.
fn refuse_password(url: &str) -> Result<()> {
    let login = url.split_once("://").and_then(|(_, rest)| rest.split(['/', '?']).next()?.rsplit_once('@'));
    if login.is_some_and(|(login, _)| login.contains(':')) || url.contains("password=") {
        return Err(Error::invalid(
            "the catalogue's URL has a password in it: put that into a file and name it in catalogue.password_file, or into \
             the variable PGPASSWORD",
        ));
    }
    Ok(())
}

impl OpenCatalogue {
    /// As every database is used.
    pub fn shared(&self) -> Arc<dyn Catalogue> {
        match self {
            Self::Sqlite(catalogue) => Arc::clone(catalogue) as Arc<dyn Catalogue>,
            Self::Postgres(catalogue) => Arc::clone(catalogue) as Arc<dyn Catalogue>,
        }
    }

    /// As a source or target of a migration.
    pub fn database(&self) -> Database<'_> {
        match self {
            Self::Sqlite(catalogue) => Database::Sqlite(catalogue),
            Self::Postgres(catalogue) => Database::Postgres(catalogue),
        }
    }

    /// The file's catalogue, for what only files can.
    pub fn in_file(&self, what: &str) -> Result<&SqliteCatalogue> {
        match self {
            Self::Sqlite(catalogue) => Ok(catalogue),
            Self::Postgres(_) => Err(Error::new(
                holdfast_base::ErrorKind::Unsupported,
                format!(
                    "{what} copies a catalogue in a file; this one is in PostgreSQL: see docs/operating/cluster.md"
                ),
            )),
        }
    }

    /// Closes it.
    pub async fn close(self) -> Result<()> {
        match self {
            Self::Sqlite(catalogue) => catalogue.close().await,
            Self::Postgres(catalogue) => catalogue.close().await,
        }
    }
}

/// This machine's name, for people.
pub fn host_name() -> String {
    let uname = rustix::system::uname();
    uname.nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_a_url_is_refused_and_not_repeated() {
        for url in ["postgres://ana:hunter2@db/drive", "postgres://ana@db/drive?password=hunter2"] {
            let error = refuse_password(url).expect_err("refused").to_string();
            assert!(!error.contains("hunter2") && error.contains("password_file"), "{error}");
        }
        for url in ["postgres://ana@db:5432/drive", "postgres://ana@[::1]:5432/drive?sslmode=disable"] {
            refuse_password(url).expect("has none");
        }
    }
}
