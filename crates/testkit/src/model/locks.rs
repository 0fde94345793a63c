//! Which locks an operation meets (RFC 4918 sections 6 and 7).

use super::tree::{Lock, Model, Op, TreePath};

/// The locks that matter to an operation.
pub(super) struct Met<'a> {
    /// Locks that refuse it with 423 unless their tokens come with it.
    pub(super) sure: Vec<&'a Lock>,
    /// Locks of which the RFC does not say whether they refuse it: one on a folder, depth 0, when a
    /// member is replaced but no member comes or goes.
    pub(super) unsure: Vec<&'a Lock>,
}

impl Model {
    fn locks_where(&self, wanted: impl Fn(&Lock) -> bool) -> Vec<&Lock> {
        self.locks.iter().filter(|lock| wanted(lock)).collect()
    }

    /// Locks on a path: taken there, or on a folder above for everything below.
    fn covering(&self, path: &TreePath) -> Vec<&Lock> {
        self.locks_where(|lock| lock.covers(path))
    }

    /// Locks taken on a path or below it.
    pub(super) fn locks_within(&self, path: &TreePath) -> Vec<&Lock> {
        self.locks_where(|lock| lock.root.is_within(path))
    }

    fn covering_parent(&self, path: &TreePath) -> Vec<&Lock> {
        path.parent().map_or_else(Vec::new, |parent| self.covering(&parent))
    }

    /// Locks met by removing a path: on it, below it, and on the folder that loses a member.
    fn met_by_removal(&self, path: &TreePath) -> Vec<&Lock> {
        let mut met = self.covering(path);
        met.extend(self.locks_within(path));
        met.extend(self.covering_parent(path));
        met
    }

    /// Locks met by putting something at a path, in place of what is there.
    fn met_by_placing(&self, path: &TreePath) -> Met<'_> {
        if self.node(path).is_none() {
            // A lock on nothing cannot be: LOCK makes a file there.
            return Met { sure: self.covering_parent(path), unsure: Vec::new() };
        }
        let mut sure = self.covering(path);
        sure.extend(self.locks_within(path));
        Met { sure, unsure: self.covering_parent(path) }
    }

    /// The locks that an operation meets.
    pub(super) fn met(&self, op: &Op) -> Met<'_> {
        let sure = match op {
            Op::Get { .. } | Op::Unlock { .. } => Vec::new(),
            Op::Put { path, .. } if self.node(path).is_some() => self.covering(path),
            Op::Lock { path, .. } if self.node(path).is_some() => Vec::new(),
            Op::Put { path, .. } | Op::Mkcol { path, .. } | Op::Lock { path, .. } => self.covering_parent(path),
            Op::Delete { path, .. } => self.met_by_removal(path),
            Op::Copy { to, .. } => return self.met_by_placing(to),
            Op::Move { from, to, .. } => {
                let mut met = self.met_by_placing(to);
                met.sure.extend(self.met_by_removal(from));
                return met;
            }
            Op::Proppatch { path, .. } => self.covering(path),
        };
        Met { sure, unsure: Vec::new() }
    }

    /// Locks that exclude a new one, whatever tokens come with it.
    pub(super) fn conflicting(&self, path: &TreePath, deep: bool, exclusive: bool) -> Vec<&Lock> {
        self.locks_where(|lock| {
            let overlaps = lock.covers(path) || (deep && lock.root.is_within(path));
            overlaps && (lock.exclusive || exclusive)
        })
    }

    /// Roots and tokens to send with an operation that brings its tokens.
    pub(super) fn tokens_for(&self, op: &Op) -> Vec<&Lock> {
        if !op.brings_tokens() {
            return Vec::new();
        }
        let met = self.met(op);
        let mut locks = met.sure;
        locks.extend(met.unsure);
        locks.sort_by(|a, b| a.token.cmp(&b.token));
        locks.dedup_by(|a, b| a.token == b.token);
        locks
    }
}

impl Lock {
    fn covers(&self, path: &TreePath) -> bool {
        self.root == *path || (self.deep && path.is_within(&self.root))
    }
}

impl Op {
    /// Whether the tokens of the locks it meets are sent with it.
    pub(super) fn brings_tokens(&self) -> bool {
        match self {
            Self::Get { .. } | Self::Unlock { .. } => false,
            Self::Put { tokens, .. }
            | Self::Delete { tokens, .. }
            | Self::Mkcol { tokens, .. }
            | Self::Copy { tokens, .. }
            | Self::Move { tokens, .. }
            | Self::Proppatch { tokens, .. }
            | Self::Lock { tokens, .. } => *tokens,
        }
    }
}
