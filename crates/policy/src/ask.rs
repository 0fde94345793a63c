//! What is asked of a policy, and what it answers.

use crate::Operation;
use std::path::Path;

/// One thing a program wants to do.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The executable that asks, as an absolute path in the program's own view.
    pub program: &'a Path,
    /// What it wants.
    pub operation: Operation,
    /// To what: an absolute path without `.`, `..` and symbolic links, the last part of it included where the call follows it.
    pub path: &'a Path,
    /// The call's arguments, for rules that name them.
    pub arguments: Arguments<'a>,
}

/// Arguments of a call that a rule may name. What a call does not have is `None`, and a rule that names it does not apply.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arguments<'a> {
    /// Bytes to read or write, or to sync.
    pub length: Option<u64>,
    /// Where in the file.
    pub offset: Option<i64>,
    /// Where `offset` counts from (`lseek(2)`).
    pub whence: Option<i32>,
    /// Bits of permission.
    pub mode: Option<u32>,
    /// A device's number.
    pub device: Option<u64>,
    /// The owner to be.
    pub uid: Option<u32>,
    /// The group to be.
    pub gid: Option<u32>,
    /// Flags of `open(2)` or of a look-up.
    pub flags: Option<u64>,
    /// The other path of a link or a move, or the target of a symbolic link.
    pub other: Option<&'a Path>,
    /// The size to be.
    pub size: Option<u64>,
    /// First and one past the last byte of a mapping in the file.
    pub range: Option<(u64, u64)>,
}

/// What a policy says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it may.
    pub allowed: bool,
    /// The rule that says so, by its place in the policy; the default where there is none.
    pub rule: Option<usize>,
}

/// Whoever decides: a policy, or what stands in for it while it is exchanged, or watched to learn one.
pub trait Judge: Send + Sync {
    /// Says whether the request is allowed. Called for each system call: it must be quick, and must not block.
    fn judge(&self, request: &Request<'_>) -> Verdict;

    /// Whether requests for this operation can be refused at all. Where not, its calls need not be looked at.
    fn decides(&self, operation: Operation) -> bool {
        let _ = operation;
        true
    }

    /// Whether the answer to a request can depend on which program asks.
    fn names_programs(&self) -> bool {
        true
    }

    /// Whether every program may look up everything in a folder, whatever it is named.
    fn finds_all(&self, folder: &Path) -> bool {
        let _ = folder;
        false
    }

    /// Whether a request is allowed, or would be with arguments of a call that are not known yet: of reading and writing, when a file is opened.
    fn could_allow(&self, request: &Request<'_>) -> bool {
        self.judge(request).allowed
    }

    /// The rules that decide about each call of reading or writing a file, by their places; none where that is decided once, when it is opened.
    fn of_each_call(&self, path: &Path) -> Vec<usize> {
        let _ = path;
        Vec::new()
    }
}
