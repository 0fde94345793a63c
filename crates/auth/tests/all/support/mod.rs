//! A drive's accounts on a real catalogue in a temporary folder, with a clock moved by hand and the cheapest Argon2id.

#![allow(dead_code, reason = "every test file uses its part")]

use holdfast_auth::{Accounts, AuthOptions, Authenticator, Created, Credential, NewPerson, Secret, Session};
use holdfast_base::{ErrorKind, ManualClock, Result};
use holdfast_meta::Catalogue;
use holdfast_meta::sqlite::{Options, SqliteCatalogue};
use holdfast_seal::keys::Argon2Params;
use std::net::IpAddr;
use std::sync::Arc;

/// A password that passes the check, and another.
pub(crate) const GOOD: &str = "velvet cactus ninety umbrella";
pub(crate) const BETTER: &str = "granite walrus eleven teapot";

/// When the tests begin: an arbitrary moment.
pub(crate) const START_MS: i64 = 1_800_000_000_000;

pub(crate) struct World {
    pub(crate) catalogue: Arc<dyn Catalogue>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) options: AuthOptions,
    pub(crate) auth: Authenticator,
    pub(crate) accounts: Accounts,
    pub(crate) folder: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(AuthOptions::default())
    }

    pub(crate) fn with(mut options: AuthOptions) -> Self {
        options.argon2 = Argon2Params { memory_kib: 8, passes: 1, lanes: 1 };
        let folder = tempfile::tempdir().expect("temporary folder");
        let catalogue: Arc<dyn Catalogue> = open(&folder);
        let clock = Arc::new(ManualClock::new(START_MS));
        let auth = Authenticator::new(catalogue.clone(), clock.clone(), options.clone()).expect("authenticator");
        let accounts = auth.accounts();
        Self { catalogue, clock, options, auth, accounts, folder }
    }

    /// Another process on the same catalogue.
    pub(crate) fn elsewhere(&self) -> Authenticator {
        Authenticator::new(self.catalogue.clone(), self.clock.clone(), self.options.clone()).expect("authenticator")
    }

    /// Makes an account with the password [`GOOD`].
    pub(crate) async fn person(&self, name: &str) -> Created {
        let person = NewPerson { name: name.into(), password: Some(Secret::new(GOOD)), ..NewPerson::default() };
        self.accounts.create(person).await.expect("account")
    }

    /// Signs in from the machine itself.
    pub(crate) async fn sign_in(&self, name: &str, secret: &str) -> Result<Arc<Session>> {
        self.auth.sign_in(&basic(name, secret), None).await
    }

    /// Signs in from an address and answers how it went; a session is `None`.
    pub(crate) async fn from(&self, address: &str, name: &str, secret: &str) -> Option<ErrorKind> {
        let peer: IpAddr = address.parse().expect("address");
        self.auth.sign_in(&basic(name, secret), Some(peer)).await.err().map(|error| error.kind())
    }

    pub(crate) fn argon2_runs(&self) -> u64 {
        self.auth.stats().argon2_runs
    }
}

fn open(folder: &tempfile::TempDir) -> Arc<dyn Catalogue> {
    Arc::new(SqliteCatalogue::open(&folder.path().join("catalogue.db"), &Options::default()).expect("catalogue"))
}

pub(crate) fn basic(name: &str, secret: &str) -> Credential {
    Credential::Basic { name: name.into(), secret: Secret::new(secret) }
}

pub(crate) fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.expect_err("must fail").kind()
}
