//! A program under a policy: what enforces each rule, starting it, and changing what it may do while it runs.
//!
//! ```text
//! plan      which mechanism holds which rule, looking at this machine's files; refuses what nothing holds
//! settings  environment, network, devices and limits of a policy, as the sandbox's
//! run       starts the sandbox
//! copy      folders whose changes are kept apart
//! control   a socket of each running sandbox: list, freeze, thaw, kill, another policy
//! ```
//!
//! **It never fails open.** A policy is enforced exactly, or the program is not started and the rules that cannot be held are named.
//!
//! Today one mechanism holds rules about files: a *view*, which mounts and Landlock make at no cost per call. What a view cannot say (single operations,
//! programs, arguments, patterns) is refused by [`Plan::of`], with the reason for each rule.

pub mod control;
mod copy;
mod plan;
mod run;
mod settings;

pub use copy::{Copy, changes, commit, discard, patch};
pub use holdfast_sandbox::layer::Change;
pub use holdfast_sandbox::{Outcome, Status};
pub use plan::{Held, Line, Plan, Unheld};
pub use run::{Command, Confined};
