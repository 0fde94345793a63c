//! What a confined program may do: policies, the two forms they are written in, and the decision.
//!
//! A [`Policy`] is read from TOML (`form`) or from the pair of files that `BoesFS` had (`pair`), and answers a [`Request`] with a [`Verdict`]: that is all
//! that whoever enforces it needs ([`Judge`]). Where a policy only parts the tree into what is hidden, read, executed and written, it can say so
//! ([`Policy::as_view`]), and then nobody needs to be asked. `check`, `diff`, [`Policy::describe`] and [`Learned`] are for people who write
//! policies; docs/policy.md is their reference.
//!
//! Nothing here reads a file or knows how a decision is enforced. Every text has limits (`form`), and what is read is either understood whole or refused
//! with all mistakes.
//!
//! ```
//! use holdfast_policy::{Arguments, Judge, Operation, Policy, Request};
//! use std::path::Path;
//!
//! let text = br#"
//!     [files]
//!     "/usr" = "read+exec"
//!     "/work" = "all"
//!     "/work/.git" = "read"
//! "#;
//! let policy = Policy::from_toml("policy.toml", Path::new("/work"), text)?;
//! let request = Request {
//!     program: Path::new("/usr/bin/python3"),
//!     operation: Operation::Write,
//!     path: Path::new("/work/.git/config"),
//!     arguments: Arguments::default(),
//! };
//! assert!(!policy.judge(&request).allowed);
//! assert!(policy.as_view().is_ok());
//! # Ok::<(), holdfast_policy::Mistakes>(())
//! ```

mod ask;
mod check;
mod conditions;
mod diff;
mod each;
mod form;
mod glob;
mod index;
mod learn;
mod mistake;
mod operation;
mod operations;
mod pair;
mod policy;
mod program;
mod rule;
mod settings;
mod text;
mod view;

pub use ask::{Arguments, Judge, Request, Verdict};
pub use check::{Report, check, check_pair};
pub use conditions::{ARGUMENTS, Conditions};
pub use diff::{ASKED_MAX, Change, Difference, diff};
pub use each::PIECE_BYTES_MAX;
pub use form::{PATH_MAX_BYTES, PATH_MAX_PARTS, PATTERNS_MAX, PATTERNS_MAX_BYTES, RULES_MAX, TEXT_MAX_BYTES};
pub use learn::{Found, LEARNED_MAX, LearnOptions, Learned};
pub use mistake::{Lines, MISTAKES_MAX, Mistake, Mistakes, unknown};
pub use operation::Operation;
pub use operations::{GROUPS, Operations};
pub use pair::{PairOptions, Subject};
pub use policy::{Decision, NoPattern, Policy};
pub use program::{Programs, Who};
pub use rule::{Rule, Scope};
pub use settings::{Device, Environment, Limits, Network, Settings, UnixSockets};
pub use view::{Access, NotAView, VIEW_PATHS_MAX, View, ViewEntry};
