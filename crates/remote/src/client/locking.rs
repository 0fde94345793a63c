//! A space's locks, in the server's table.

use super::Shared;
use super::link::Link;
use crate::wire::Call;
use async_trait::async_trait;
use holdfast_base::{ErrorKind, Result};
use holdfast_drive::Entry;
use holdfast_drive::posix_locks::{Held, Kept, LEASE_TRUSTED, LockAnswer, LockAsk, LockKey, Locking};
use std::sync::Arc;
use std::time::Duration;

/// A session that nobody has.
const NOBODY: u64 = 0;

/// See [`Locking`].
pub(super) struct RemoteLocks(pub(super) Arc<Shared>);

/// Whether the server has a table: an older one does not know it, and one of several nodes none for all.
pub(super) async fn has_any(link: &Link) -> Result<bool> {
    match link.ask::<Vec<(LockKey, u64)>>(&Call::Recalls(NOBODY, 0)).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::PreconditionFailed => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(false),
        Err(error) => Err(error),
    }
}

impl RemoteLocks {
    /// What a call may wait for: its answer has to come within the deadline.
    fn at_most(&self, wait: Duration) -> u32 {
        u32::try_from(wait.min(self.0.link.deadline() / 2).as_millis()).unwrap_or(u32::MAX)
    }

    /// The server says what a file is now. The stream of changes may not have told yet that it changed.
    fn learn(&self, entry: &Entry) {
        let names = &self.0.names;
        if names.entry(entry.node.id).as_ref() != Some(entry) {
            names.forget();
            names.learn(names.mark(), entry);
        }
    }
}

#[async_trait]
impl Locking for RemoteLocks {
    fn lease(&self) -> Option<Duration> {
        Some(LEASE_TRUSTED)
    }

    async fn attach(&self, session: u64, kept: Vec<Kept>) -> Result<()> {
        self.0.link.ask(&Call::Attach(session, kept)).await
    }

    async fn ask(&self, session: u64, ask: LockAsk) -> Result<LockAnswer> {
        let wait_ms = self.at_most(Duration::from_millis(u64::from(ask.wait_ms)));
        let call = Call::AskLock(session, LockAsk { wait_ms, ..ask });
        let (answer, entry): (LockAnswer, Option<Entry>) = self.0.link.ask(&call).await?;
        if let Some(entry) = &entry {
            self.learn(entry);
        }
        Ok(answer)
    }

    async fn take_back(&self, session: u64, ticket: u64) -> Result<()> {
        self.0.link.ask(&Call::TakeBack(session, ticket)).await
    }

    async fn leave_only(&self, session: u64, key: LockKey, owner: u64, left: Vec<Held>) -> Result<()> {
        self.0.link.ask(&Call::LeaveOnly(session, key, owner, left)).await
    }

    async fn yield_whole(&self, session: u64, key: LockKey, number: u64, held: Vec<Held>) -> Result<()> {
        self.0.link.ask(&Call::YieldWhole(session, key, number, held)).await
    }

    async fn recalls(&self, session: u64, wait: Duration) -> Result<Vec<(LockKey, u64)>> {
        self.0.link.ask(&Call::Recalls(session, self.at_most(wait))).await
    }

    async fn leave(&self, session: u64) -> Result<()> {
        self.0.link.ask(&Call::Leave(session)).await
    }
}
