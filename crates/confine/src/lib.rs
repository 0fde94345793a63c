//! A program under a policy: what enforces each rule, starting it, and changing what it may do while it runs.
//!
//! ```text
//! way       which mechanism holds the policy
//!   plan      which mount holds which rule, looking at this machine's files
//!   gates     which folders take a file system that decides about each call
//! run       starts the sandbox
//!   settings  environment, network, UNIX sockets, devices and limits of a policy, as the sandbox's
//!   brokered  who answers the calls of a program that mounts do not hold
//!   gated     who answers the calls in such folders
//!     audit     the log of what was refused, of both
//!       recent  the last of it, for whoever asks
//!   learn     what a program needs, noted while it is allowed, and written as a policy
//!   change    another policy while it runs
//!     revoke    what is open, taken back under that
//!   copy      folders whose changes are kept apart
//! control   a socket of each running program: list, freeze, thaw, kill, another policy, what was refused
//! ```
//!
//! **It never fails open.** A policy is enforced exactly, or the program is not started and the rules that cannot be held are named.
//!
//! Three mechanisms hold rules about files. A *view* is made of mounts and Landlock and costs nothing per call. What a view cannot say (single operations, programs,
//! arguments, patterns) a *broker* holds: the kernel stops the program at the calls that are to be decided, and the supervisor makes them. What a broker is not asked about
//! (offset and length of each read and write) a *gate* holds: a file system before the folders of such rules, in a view of everything else.

mod audit;
mod brokered;
mod change;
pub mod control;
mod copy;
mod gated;
mod gates;
mod learn;
mod plan;
mod recent;
mod revoke;
mod run;
mod settings;
mod way;

pub use brokered::Watch;
pub use copy::{Copy, changes, commit, discard, patch};
pub use gates::Gates;
pub use holdfast_sandbox::layer::Change;
pub use holdfast_sandbox::{Outcome, Status};
pub use learn::{Notes, Written};
pub use plan::{Held, Line, Plan, Unheld};
pub use recent::{Decided, RuleWords};
pub use revoke::{Ended, Revoked};
pub use run::{Command, Confined, failed, lines_of};
pub use settings::{Bound, bounds, sandbox};
pub use way::Way;
