//! What waits, for whoever looks after the mount.

use super::Shared;
use holdfast_drive::{Deferred, REFUSED_SHOWN_MAX, Waiting};
use std::time::Duration;

/// Longest that a look waits for the lock, which is held while the journal is synced: a disk that hangs must not hang the look.
const LOOK_TIME: Duration = Duration::from_millis(500);

impl Shared {
    /// How much waits and why; none if that cannot be looked at now.
    pub(super) fn waiting(&self) -> Option<Waiting> {
        let state = self.state.try_lock_for(LOOK_TIME)?;
        let oldest_ns = state.queue.iter().chain(&state.parked).map(|(_, change)| made_ns(change)).min();
        let name_of = |change: &Deferred| {
            let (node, taken) = (change.node(), change.names().next().map(|(_, name)| name.as_str().to_owned()));
            let shown = state.view.entry(node).map(|entry| entry.node.name.clone());
            shown.or(taken).unwrap_or_else(|| format!("#{node}"))
        };
        let refused = state.queue.iter().chain(&state.parked);
        let refused =
            refused.filter_map(|(number, change)| Some((name_of(change), state.refused.get(number)?.clone())));
        Some(Waiting {
            changes: state.view.changes(),
            bytes: state.journal.bytes(),
            unsynced_bytes: state.unsynced_bytes(),
            oldest_ns,
            refused: state.refused.len() as u64,
            reasons: refused.take(REFUSED_SHOWN_MAX).collect(),
            failure: state.failure.as_ref().map(|(_, message)| message.clone()),
        })
    }
}

/// When a change was made: its program's clock is this machine's.
const fn made_ns(change: &Deferred) -> i64 {
    match change {
        Deferred::Create { new, .. } => new.posix.ctime_ns,
        Deferred::Save { rewrite, .. } => rewrite.posix.ctime_ns,
        Deferred::Attributes { change, .. } => change.ctime_ns,
        Deferred::Unlink { unlink, .. } => unlink.leave.now_ns,
        Deferred::Rename { rename, .. } => rename.leave.now_ns,
        Deferred::Passed { now_ns, .. } => *now_ns,
    }
}
