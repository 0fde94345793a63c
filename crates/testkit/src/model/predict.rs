//! Which statuses RFC 4918 (and RFC 9110 for GET and PUT) allows for an operation.

use super::tree::{Model, Op, TreePath};

/// Statuses a correct server may answer with. When several things are wrong, any of them may be
/// named. Both lists filled means that the RFC leaves open whether the operation succeeds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prediction {
    /// Statuses that say it was done.
    pub success: Vec<u16>,
    /// Statuses that say nothing was changed.
    pub failure: Vec<u16>,
}

impl Prediction {
    /// Whether a status is allowed.
    pub fn allows(&self, status: u16) -> bool {
        self.success.contains(&status) || self.failure.contains(&status)
    }
}

/// The folder that should hold the path is missing, or is a file.
const NO_PARENT: &[u16] = &[409];
const PARENT_IS_FILE: &[u16] = &[409, 403];
/// Refused by a lock.
const LOCKED: &[u16] = &[423];
/// Refused by a lock that may be on another resource, which a multistatus may name.
const LOCKED_ELSEWHERE: &[u16] = &[423, 207];
/// A GET of a folder shows a page, is sent elsewhere, or is refused: not this model's matter.
const FOLDER_PAGE: &[u16] = &[200, 301, 302, 307, 308, 403, 405];

impl Model {
    /// What a correct server answers.
    pub fn predict(&self, op: &Op) -> Prediction {
        let success = self.success_of(op);
        let mut failure = self.failures_of(op);
        let met = self.met(op);
        let tokens = op.brings_tokens();
        if !met.sure.is_empty() && !tokens {
            failure.extend(match op {
                // Its success is a multistatus, too.
                Op::Proppatch { .. } => LOCKED,
                _ => LOCKED_ELSEWHERE,
            });
        }
        if failure.is_empty() {
            let open = !met.unsure.is_empty() && !tokens;
            failure.extend(if open { LOCKED_ELSEWHERE } else { &[] });
            return Prediction { success, failure };
        }
        Prediction { success: Vec::new(), failure }
    }

    /// Statuses for an operation that nothing stands against.
    fn success_of(&self, op: &Op) -> Vec<u16> {
        let exists = |path| self.node(path).is_some();
        match op {
            Op::Get { path } if self.is_folder(path) => FOLDER_PAGE.to_vec(),
            Op::Get { .. } => vec![200],
            Op::Put { path, .. } if exists(path) => vec![204, 200],
            Op::Lock { path, .. } if exists(path) => vec![200],
            Op::Copy { to, .. } | Op::Move { to, .. } if exists(to) => vec![204],
            Op::Put { .. } | Op::Mkcol { .. } | Op::Copy { .. } | Op::Move { .. } | Op::Lock { .. } => vec![201],
            Op::Proppatch { .. } => vec![207],
            Op::Delete { .. } | Op::Unlock { .. } => vec![204],
        }
    }

    /// Statuses for everything that stands against an operation, locks apart.
    fn failures_of(&self, op: &Op) -> Vec<u16> {
        let mut failures = Vec::new();
        match op {
            Op::Get { path } | Op::Delete { path, .. } | Op::Proppatch { path, .. } => {
                failures.extend(self.missing(path));
            }
            Op::Put { path, .. } => {
                failures.extend(self.no_place(path));
                if self.is_folder(path) {
                    failures.extend([405, 409]);
                }
            }
            Op::Mkcol { path, .. } => {
                failures.extend(self.no_place(path));
                if self.node(path).is_some() {
                    failures.push(405);
                }
            }
            Op::Copy { from, to, overwrite, .. } | Op::Move { from, to, overwrite, .. } => {
                failures.extend(self.missing(from));
                failures.extend(self.no_place(to));
                if from == to {
                    failures.push(403);
                } else if to.is_within(from) {
                    failures.extend([403, 409]);
                }
                if self.node(to).is_some() && !overwrite {
                    failures.push(412);
                }
            }
            Op::Lock { path, deep, exclusive, .. } => {
                failures.extend(self.no_place(path));
                if !self.conflicting(path, *deep, *exclusive).is_empty() {
                    failures.extend(LOCKED_ELSEWHERE);
                }
            }
            Op::Unlock { path } => {
                if !self.locks.iter().any(|lock| lock.root == *path) {
                    failures.extend([409, 400, 403, 404, 412]);
                }
            }
        }
        failures
    }

    fn missing(&self, path: &TreePath) -> Option<u16> {
        self.node(path).is_none().then_some(404)
    }

    /// Why nothing can be put at a path.
    fn no_place(&self, path: &TreePath) -> &'static [u16] {
        let above = std::iter::successors(path.parent(), TreePath::parent);
        let file_above = above.filter_map(|folder| self.node(&folder)).any(|node| node.content.is_some());
        let parent = path.parent();
        match parent {
            _ if file_above => PARENT_IS_FILE,
            Some(parent) if self.node(&parent).is_none() => NO_PARENT,
            _ => &[],
        }
    }

    /// Whether the RFC says what the operation does. The rest is not worth sending.
    pub fn is_settled(&self, op: &Op) -> bool {
        match op {
            Op::Copy { from, to, .. } | Op::Move { from, to, .. } => {
                let into_itself = from != to && to.is_within(from) && matches!(op, Op::Copy { .. });
                let over_ancestor = from != to && from.is_within(to);
                let over_lock = self.node(to).is_some() && !self.locks_within(to).is_empty();
                !into_itself && !over_ancestor && !over_lock
            }
            _ => true,
        }
    }
}
