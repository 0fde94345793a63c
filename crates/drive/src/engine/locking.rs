//! A space's locks, in the table of this process.

use super::Engine;
use crate::posix_locks::{Held, Kept, LEASE_TRUSTED, LockAnswer, LockAsk, LockKey, Locking};
use async_trait::async_trait;
use holdfast_base::{AccountId, Result, SpaceId};
use std::time::Duration;

/// See [`Locking`].
pub(super) struct EngineLocks {
    engine: Engine,
    of: (SpaceId, AccountId),
    /// Who asks is on another machine, and may be gone without a word.
    far: bool,
}

impl EngineLocks {
    pub(super) const fn new(engine: Engine, of: (SpaceId, AccountId), far: bool) -> Self {
        Self { engine, of, far }
    }

    const fn id(&self, session: u64) -> (SpaceId, AccountId, u64) {
        (self.of.0, self.of.1, session)
    }
}

#[async_trait]
impl Locking for EngineLocks {
    fn lease(&self) -> Option<Duration> {
        self.far.then_some(LEASE_TRUSTED)
    }

    async fn attach(&self, session: u64, kept: Vec<Kept>) -> Result<()> {
        self.engine.shared.locks.attach(self.id(session), self.far, kept)
    }

    async fn ask(&self, session: u64, ask: LockAsk) -> Result<LockAnswer> {
        self.engine.shared.locks.ask(self.id(session), ask).await
    }

    async fn take_back(&self, session: u64, ticket: u64) -> Result<()> {
        self.engine.shared.locks.take_back(self.id(session), ticket)
    }

    async fn leave_only(&self, session: u64, key: LockKey, owner: u64, left: Vec<Held>) -> Result<()> {
        self.engine.shared.locks.leave_only(self.id(session), key, owner, &left)
    }

    async fn yield_whole(&self, session: u64, key: LockKey, number: u64, held: Vec<Held>) -> Result<()> {
        self.engine.shared.locks.yield_whole(self.id(session), key, number, &held)
    }

    async fn recalls(&self, session: u64, wait: Duration) -> Result<Vec<(LockKey, u64)>> {
        self.engine.shared.locks.recalls(self.id(session), wait).await
    }

    async fn leave(&self, session: u64) -> Result<()> {
        self.engine.shared.locks.leave(self.id(session));
        Ok(())
    }
}
