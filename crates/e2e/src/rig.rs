//! A drive under test: data directory, account, running server.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use holdfast_testkit::http::Client;
use holdfast_testkit::server::{ServerOptions, TestServer};
use rustix::process::Signal;

use crate::Outcome;
use crate::engines::{Engines, Place};
use crate::objects::Objects;
use crate::wait::until;

/// The account of every test.
pub const NAME: &str = "ann";
/// Its password.
pub const PASSWORD: &str = "flat-otter-mends-violet-kettle";
/// Its home space in the `WebDAV` tree.
pub const HOME: &str = "/dav/ann";

/// How long a reclaim may take before it counts as hung.
const RECLAIM_LIMIT: Duration = Duration::from_mins(5);

/// A drive in a temporary folder, with a running server.
#[derive(Debug)]
pub struct Rig {
    /// The server; replaced when a test starts it again.
    pub server: TestServer,
    /// Its database and its place in a store.
    pub place: Place,
    folder: tempfile::TempDir,
}

impl Rig {
    /// A new drive with one account, served with the default options.
    pub fn new() -> Outcome<Self> {
        Self::with(|options| options)
    }

    /// A new drive, served with changed options.
    pub fn with(change: impl FnOnce(ServerOptions) -> ServerOptions) -> Outcome<Self> {
        Self::on(Engines::of_environment()?.place()?, change)
    }

    /// The same in this place.
    pub fn on(place: Place, change: impl FnOnce(ServerOptions) -> ServerOptions) -> Outcome<Self> {
        let folder = tempfile::tempdir()?;
        let options = change(place.options(&folder.path().join("data"))?);
        options.add_account(NAME, PASSWORD)?;
        Ok(Self { server: options.start()?, place, folder })
    }

    /// A client signed in as the account.
    pub fn client(&self) -> Client {
        self.server.client_of(NAME, PASSWORD)
    }

    /// Asks the server to reclaim until that finds nothing to do: meanwhile what small packs hold is on the disk twice.
    pub fn reclaim(&self) -> Outcome {
        let reclaims = || self.server.log().matches(" reclaimed ").count();
        loop {
            let before = reclaims();
            self.server.signal(Signal::USR1)?;
            // The regular reclaim may have been under way: then it is the one after.
            until("a reclaim ended", RECLAIM_LIMIT, || reclaims() > before)?;
            let log = self.server.log();
            let last = log.lines().rfind(|line| line.contains(" reclaimed ")).unwrap_or_default();
            if last.contains("packs_rewritten: 0, packs_deleted: 0") {
                return Ok(());
            }
        }
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The drive's packs, behind its back.
    pub fn objects(&self) -> Outcome<Objects> {
        self.place.objects(&self.data())
    }

    /// A folder beside the data directory, for what a test needs.
    pub fn scratch(&self) -> &Path {
        self.folder.path()
    }

    /// Stops the server in good order, if it runs.
    pub fn stop(&mut self) -> Outcome {
        if self.server.is_running() {
            let status = self.server.terminate()?;
            if !status.success() {
                return Err(format!("the server stopped with {status}\n{}", self.server.log()).into());
            }
        }
        Ok(())
    }

    /// Starts the server again on the same data.
    pub fn start_again(&mut self) -> Outcome {
        self.server = self.server.start_again()?;
        Ok(())
    }

    /// Runs a command on the data directory.
    pub fn run(&self, arguments: &[&str], input: &[u8]) -> Outcome<Output> {
        Ok(self.server.options().run(arguments, input)?)
    }
}

/// Makes an app token of the account: it signs in without the work a password costs, which counts in tests that start a server
/// hundreds of times.
pub fn make_token(options: &ServerOptions) -> Outcome<String> {
    let arguments = ["token", "create", "tests", "--user", NAME, "--password-file", "-", "--json"];
    let answer: serde_json::Value = serde_json::from_str(&options.run_ok(&arguments, PASSWORD.as_bytes())?)?;
    Ok(answer["token"].as_str().ok_or("no token was shown")?.to_owned())
}
