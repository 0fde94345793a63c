//! Calls about locks: some of them wait, though never beyond the server's end.

use super::operate::done;
use super::seat::Seat;
use crate::wire::Call;
use bytes::Bytes;
use holdfast_base::{Error, ErrorKind, Result};
use holdfast_drive::posix_locks::{LockAnswer, Locking};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Longest that a call waits: far less than what anybody in between takes for a connection that hangs.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Whether a call is about locks.
pub(super) const fn is_one(call: &Call) -> bool {
    matches!(
        call,
        Call::Attach(..)
            | Call::AskLock(..)
            | Call::TakeBack(..)
            | Call::LeaveOnly(..)
            | Call::YieldWhole(..)
            | Call::Recalls(..)
            | Call::Leave(_)
    )
}

/// Does what a call asks for.
pub(super) async fn operate(seat: &Seat, call: Call, mut stopping: watch::Receiver<bool>) -> Result<Bytes> {
    let locks = seat.tree.locking().ok_or_else(|| {
        Error::new(ErrorKind::Unsupported, "this drive may have several nodes: locks hold within one mount only")
    })?;
    tokio::select! {
        answered = answer(seat, &locks, call) => answered,
        _ = stopping.wait_for(|stopping| *stopping) => Err(Error::unavailable("the server is about to stop")),
    }
}

async fn answer(seat: &Seat, locks: &Arc<dyn Locking>, call: Call) -> Result<Bytes> {
    match call {
        Call::Attach(session, kept) => locks.attach(session, kept).await.map(done),
        Call::AskLock(session, mut ask) => {
            ask.wait_ms = ask.wait_ms.min(u32::try_from(WAIT_MAX.as_millis()).unwrap_or(u32::MAX));
            let answer = locks.ask(session, ask).await?;
            // What the holder before saved is there by now.
            let entry = match answer {
                LockAnswer::Exact | LockAnswer::Whole(_) => seat.tree.entry(ask.key.node).await?,
                _ => None,
            };
            Ok(done((answer, entry)))
        }
        Call::TakeBack(session, ticket) => locks.take_back(session, ticket).await.map(done),
        Call::LeaveOnly(session, key, owner, left) => locks.leave_only(session, key, owner, left).await.map(done),
        Call::YieldWhole(session, key, number, held) => locks.yield_whole(session, key, number, held).await.map(done),
        Call::Recalls(session, wait_ms) => {
            let wait = Duration::from_millis(u64::from(wait_ms)).min(WAIT_MAX);
            locks.recalls(session, wait).await.map(done)
        }
        Call::Leave(session) => locks.leave(session).await.map(done),
        _ => Err(Error::internal("this call is not about locks")),
    }
}
