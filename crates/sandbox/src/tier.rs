//! Without namespaces: Landlock and seccomp alone, for views that these can hold.
//!
//! Landlock grants, and takes nothing away inside of what it has granted. So a view is held if no entry allows less than one around it, and if every content is
//! from its own path. Whatever else was asked for is refused by name.
//!
//! There is no namespace whose end ends its processes. Init adopts every process whose parent has ended instead, and when it is to end it kills its children until
//! none is left. It is told to through its socket; somebody who kills init itself lets the rest live on.

use crate::error::{Error, Unheld};
use crate::landlock::{self, WITH_SCOPES};
use crate::plan::{Resolved, is_copy};
use crate::sandbox::{Access, Root, Sandbox, Source};
use std::path::Path;

/// What is weaker than with namespaces, beyond what is refused.
pub const WITHOUT_NAMESPACES: [&str; 5] = [
    "names, attributes and link targets of all files that the account may look at can be read",
    "attributes (permissions, owners, times, extended ones) cannot be changed anywhere, also where the view is writable",
    "a loader or an interpreter that can be executed runs whatever it can read",
    "the processes of the machine can be seen, though not signalled or traced",
    "the program can outlive its sandbox if somebody kills the sandbox's first process with SIGKILL",
];

/// Lists all that cannot be held.
pub(crate) fn check(sandbox: &Sandbox, entries: &[Resolved], abi: u32) -> Result<(), Error> {
    let unsupported = |why: String| Error::Unsupported { what: "a view without namespaces".to_owned(), why };
    if abi < WITH_SCOPES {
        return Err(unsupported(format!(
            "it needs Landlock ABI {WITH_SCOPES} (Linux 6.12), and this kernel has {abi}"
        )));
    }
    if !Path::new("/proc/thread-self/children").exists() {
        let why = "this kernel does not list the children of a process (CONFIG_PROC_CHILDREN), or /proc is missing";
        return Err(unsupported(why.to_owned()));
    }
    let mut unheld = Vec::new();
    let mut refuse = |what: String, why| unheld.push(Unheld { what, why });
    for (place, entry) in entries.iter().enumerate() {
        let what = || entry.path.display().to_string();
        if is_copy(&entry.source) || matches!(entry.source, Source::Folder(_) | Source::Served) {
            refuse(what(), "its content is from elsewhere, which takes a mount");
        }
        let around = entries[..place].iter().rev().find(|other| entry.path.starts_with(&other.path));
        if around.is_some_and(|around| !landlock::includes(entry.access, around.access)) {
            refuse(what(), "it allows less than what is around it, which Landlock cannot");
        }
    }
    let features = [
        (sandbox.root == Root::Host, "the machine's root", "its devices and /proc cannot be taken out of it"),
        (sandbox.proc, "/proc", "it would show the processes of the machine"),
        (sandbox.tmp_bytes.is_some(), "a private /tmp", "it takes a mount"),
        (sandbox.widen, "rights that are widened later", "Landlock cannot"),
        (sandbox.limits.processes.is_some(), "a limit of processes", "the account's other processes would count"),
    ];
    for (_, what, why) in features.into_iter().filter(|(asked, ..)| *asked) {
        refuse(what.to_owned(), why);
    }
    if unheld.is_empty() { Ok(()) } else { Err(Error::NeedsNamespaces(unheld)) }
}

/// Entries that grant something.
pub(crate) fn shown(entries: &[Resolved]) -> impl Iterator<Item = &Resolved> {
    entries.iter().filter(|entry| entry.access != Access::Hidden)
}
