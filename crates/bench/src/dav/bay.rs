//! One target with its bench folder: made at the start, deleted at the end whatever happens.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::session::{Failure, Session};
use super::{DavOptions, TargetSpec, remove};
use crate::http::{Endpoint, HttpError, Limits};
use crate::shared::trust;

/// Time for a connection to come up, here and at the clean-up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Deleting a folder of some 50,000 files takes the slowest server seen about two minutes.
const CLEAN_UP_TIMEOUT: Duration = Duration::from_mins(10);

/// A target and the state of its bench folder.
pub(crate) struct Bay {
    pub(crate) spec: TargetSpec,
    endpoint: Endpoint,
    /// Path of the bench folder, with slashes at both ends.
    folder: String,
    created: bool,
    /// The `Server` header, when the target sends one.
    pub(crate) server: Option<String>,
}

impl Bay {
    pub(crate) fn new(
        spec: &TargetSpec,
        options: &DavOptions,
        name: &str,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, HttpError> {
        let trust = trust(options.insecure, options.ca_file.as_ref());
        let limits = Limits { connect: CONNECT_TIMEOUT, stall: options.stall_timeout, total: options.request_timeout };
        let credentials = spec.credentials.as_ref().map(|(user, password)| (user.as_str(), password.as_str()));
        let endpoint = Endpoint::new(&spec.url, credentials, &trust, limits, stop)?;
        let folder = format!("{}{name}/", spec.url.path());
        Ok(Self { spec: spec.clone(), endpoint, folder, created: false, server: None })
    }

    /// Makes the bench folder.
    pub(crate) fn set_up(&mut self) -> Result<(), Failure> {
        let mut session = Session::open(&self.endpoint, &self.folder)?;
        let answer = session.make_folder("")?;
        self.server = answer.server;
        self.created = true;
        Ok(())
    }

    /// A new connection for requests inside the bench folder.
    pub(crate) fn session(&self) -> Result<Session<'_>, Failure> {
        Session::open(&self.endpoint, &self.folder)
    }

    /// Deletes the bench folder and all in it, even after an interrupt.
    pub(crate) fn clean_up(&mut self) -> Result<(), Failure> {
        if !std::mem::take(&mut self.created) {
            return Ok(());
        }
        let limits = Limits { connect: CONNECT_TIMEOUT, stall: CLEAN_UP_TIMEOUT, total: CLEAN_UP_TIMEOUT };
        let endpoint = self.endpoint.for_clean_up(limits);
        remove::tree(&mut Session::open(&endpoint, "/")?, self.folder.trim_start_matches('/'), 0)
    }
}

impl Drop for Bay {
    fn drop(&mut self) {
        // Only when a panic or an early return skipped the orderly clean-up; there is nobody left to tell.
        let _ = self.clean_up();
    }
}
