//! A drive's catalogue and accounts for a command, beside a running server or without one: either database lets several processes in.

use crate::args::{DataArg, UserArg};
use crate::secret;
use holdfast_auth::{Accounts, AuthOptions, Proof, Session};
use holdfast_base::{Clock, Error, Result, SystemClock};
use holdfast_blob::BlobStore;
use holdfast_meta::{Catalogue, Guard, Membership, Role, Space};
use holdfast_server::data_dir::DataLock;
use holdfast_server::engines::OpenCatalogue;
use holdfast_server::{DataDir, ServerConfig};
use std::sync::Arc;
use std::time::Duration;

/// A node that was seen within this time is taken for one that runs.
const RUNNING: Duration = Duration::from_secs(15);

/// An opened drive.
pub(crate) struct Local {
    pub(crate) directory: DataDir,
    pub(crate) config: ServerConfig,
    pub(crate) opened: OpenCatalogue,
    pub(crate) catalogue: Arc<dyn Catalogue>,
    pub(crate) accounts: Accounts,
}

impl Local {
    /// Opens the drive of a command.
    pub(crate) async fn open(data: &DataArg) -> Result<Self> {
        Self::at(DataDir::open(&data.data)?, data).await
    }

    /// Opens the drive, which is made if there is none.
    pub(crate) async fn open_or_init(data: &DataArg) -> Result<Self> {
        Self::at(DataDir::open_or_init(&data.data)?, data).await
    }

    async fn at(directory: DataDir, data: &DataArg) -> Result<Self> {
        let config = data.config()?;
        let opened = config.catalogue.open(&directory).await?;
        let catalogue = opened.shared();
        let accounts = Accounts::new(catalogue.clone(), Arc::new(SystemClock), &AuthOptions::default())?;
        Ok(Self { directory, config, opened, catalogue, accounts })
    }

    /// The store of packs, as it is below any cache.
    pub(crate) async fn store(&self) -> Result<Arc<dyn BlobStore>> {
        Ok(self.config.store.open(&self.directory).await?.1)
    }

    /// Makes sure that no node serves the drive: on this data directory none can begin until the lock is dropped, and of others none
    /// was seen lately.
    pub(crate) async fn alone(&self) -> Result<DataLock> {
        let lock = self.directory.lock()?;
        if self.catalogue.is_shared() {
            let cluster = self.catalogue.cluster().await?;
            let lately_ms = i64::try_from(RUNNING.as_millis()).unwrap_or(i64::MAX);
            if let Some(node) = cluster.instances.iter().find(|node| node.seen_ms > cluster.now_ms - lately_ms) {
                return Err(Error::conflict(format!("node {} is running: stop every node first", node.name)));
            }
        }
        Ok(lock)
    }

    /// Signs the command's account in.
    pub(crate) async fn sign_in(&self, user: &UserArg) -> anyhow::Result<Session> {
        let password = secret::present(&user.user, user.password_file.as_deref())?;
        Ok(self.accounts.open(&user.user, Proof::Password(&password)).await?)
    }

    /// A space by name, with the account's membership, which must be at least `least`.
    pub(crate) async fn space(&self, who: &Session, name: &str, least: Role) -> Result<(Space, Membership)> {
        match self.catalogue.space_by_name(name, who.account).await? {
            Some((space, Some(membership))) if membership.role >= least => Ok((space, membership)),
            Some((_, Some(_))) => Err(Error::forbidden(format!("{} may not do this in {name:?}", who.name))),
            _ => Err(Error::not_found(format!("{} has no space {name:?}", who.name))),
        }
    }

    /// A guard for a change by the account, without conditions.
    pub(crate) fn guard(who: &Session) -> Guard {
        let now_ms = SystemClock.now_ms();
        Guard {
            account: who.account,
            expect: holdfast_meta::Expect::Any,
            tokens: Vec::new(),
            through: Vec::new(),
            now_ms,
            mount: 0,
        }
    }

    /// Closes it.
    pub(crate) async fn close(self) -> Result<()> {
        drop(self.accounts);
        drop(self.catalogue);
        self.opened.close().await
    }
}
