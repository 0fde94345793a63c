//! A drive's catalogue and accounts for a command, beside a running server or without one: either database lets several processes in.

use crate::args::{DataArg, UserArg};
use crate::secret;
use holdfast_auth::{Accounts, AuthOptions, Proof, Session};
use holdfast_base::{Clock, Error, Result, SystemClock};
use holdfast_blob::BlobStore;
use holdfast_meta::{Catalogue, Guard, Membership, Role, Space};
use holdfast_server::engines::OpenCatalogue;
use holdfast_server::{DataDir, ServerConfig};
use std::sync::Arc;

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
        Guard { account: who.account, expect: holdfast_meta::Expect::Any, tokens: Vec::new(), now_ms }
    }

    /// Closes it.
    pub(crate) async fn close(self) -> Result<()> {
        drop(self.accounts);
        drop(self.catalogue);
        self.opened.close().await
    }
}
