//! A function's folder as its program has it: what its policy makes of the machine, with the code at a fixed place.
//!
//! The code is at [`FOLDER`], to be read and executed, whatever the policy says, and a policy may say nothing else of it: what is there on the machine is another folder.
//! What keeps a policy from being held as it is written is told when the function is deployed, and again at each start, since the machine's files may have changed.

use crate::manifest::Manifest;
use crate::name::Name;
use holdfast_base::{Error, ErrorKind, Result};
use holdfast_confine::{Plan, Way, bounds, lines_of};
use holdfast_policy::{Decision, Operations, Policy, Rule, Scope, TEXT_MAX_BYTES};
use holdfast_sandbox::Root;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where a function's program finds its own folder. Relative paths of the policy begin here, and so does the program.
pub const FOLDER: &str = "/function";

/// The variable that tells a program its function's name.
const NAME_VARIABLE: &str = "HOLDFAST_FUNCTION";

/// Reads the policy of a folder. `shown` is what mistakes call the folder.
pub(crate) fn policy(folder: &Path, shown: &Path, manifest: &Manifest) -> Result<Policy> {
    let Some(file) = &manifest.policy else { return read("no policy", b"") };
    let name = shown.join(file).display().to_string();
    let at = |error: std::io::Error| Error::from(error).context(&name);
    let mut text = Vec::new();
    File::open(folder.join(file)).map_err(at)?.take(TEXT_MAX_BYTES as u64 + 1).read_to_end(&mut text).map_err(at)?;
    read(&name, &text)
}

fn read(name: &str, text: &[u8]) -> Result<Policy> {
    Policy::from_toml(name, Path::new(FOLDER), text).map_err(|mistakes| Error::invalid(mistakes.to_string()))
}

/// Tells the program its function's name, if its policy says nothing of that variable.
pub(crate) fn name(policy: &mut Policy, name: &Name) {
    let set = &mut policy.settings.environment.set;
    set.entry(NAME_VARIABLE.to_owned()).or_insert_with(|| name.as_str().to_owned());
}

/// What holds the policy of a function on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// Mounts and Landlock, at no cost per call.
    View,
    /// The same, with file systems that decide about each call before these folders.
    Gates(Vec<PathBuf>),
    /// A broker, which is asked about calls and makes them.
    Broker,
}

impl fmt::Display for Held {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::View => out.write_str("mounts"),
            Self::Broker => out.write_str("a broker"),
            Self::Gates(folders) => {
                let folders: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
                write!(out, "gates before {}", folders.join(", "))
            }
        }
    }
}

/// What holds a policy here, and all that is said besides of the policy of a function.
///
/// # Errors
/// Why nothing does.
pub(crate) fn held(policy: &Policy) -> Result<Held> {
    let unsupported = |why: String| Error::new(ErrorKind::Unsupported, why);
    if policy.settings.limits.seconds.is_some() {
        return Err(Error::invalid(
            "a function's policy has no limit `seconds`, which would count while an instance waits: say it in function.toml",
        ));
    }
    if let Some(rule) =
        policy.rules().iter().find(|rule| rule.scope.folder().starts_with(FOLDER) && !says_the_same(rule))
    {
        return Err(unsupported(format!(
            "{rule}: but all of {FOLDER}, the function's own code, can be read and executed, and not changed"
        )));
    }
    if policy.default() == Decision::Allow {
        return Err(unsupported("a function's policy names what it may see: it begins with default = \"deny\"".into()));
    }
    let way =
        Way::of(policy, false).map_err(|unheld| unsupported(format!("{NOT_HELD}:{}", lines_of(policy, &unheld))))?;
    let (held, around) = match way {
        Way::View(plan) => (Held::View, Some(plan)),
        Way::Gates { gates, .. } => (Held::Gates(gates.folders), Some(gates.around)),
        Way::Broker { .. } => (Held::Broker, None),
    };
    let shows_all = |plan: &Plan| plan.root == Root::Host || plan.view.iter().any(|mount| mount.path == Path::new("/"));
    if around.as_ref().is_some_and(shows_all) {
        return Err(unsupported("a function's policy names the folders it may see, and not / itself".into()));
    }
    let unbounded: String = bounds(&policy.settings)
        .into_iter()
        .filter_map(|bound| Some(format!("\n  {}: {}", bound.limit, bound.held.err()?)))
        .collect();
    if unbounded.is_empty() { Ok(held) } else { Err(unsupported(format!("{NOT_HELD}:{unbounded}"))) }
}

const NOT_HELD: &str = "this policy cannot be enforced here exactly";

/// Whether a rule about the code says what holds for it anyway.
fn says_the_same(rule: &Rule) -> bool {
    matches!(&rule.scope, Scope::Tree(path) if path == Path::new(FOLDER))
        && rule.is_unconditional()
        && rule.allow == Operations::READ_EXEC
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_of(text: &str) -> Result<Held> {
        held(&read("p.toml", text.as_bytes())?)
    }

    #[test]
    fn no_policy_says_anything_else_of_the_code() {
        for text in ["", "[files]\n\"/function\" = \"read+exec\"\n", "[files]\n\".\" = \"read+exec\"\n"] {
            assert_eq!(held_of(text).expect("a view"), Held::View, "{text}");
        }
        for text in ["\"/function\" = \"all\"", "\"/function\" = \"read\"", "\"secret\" = \"none\""] {
            let error = held_of(&format!("[files]\n{text}\n")).expect_err("refused");
            assert!(error.message().contains("the function's own code"), "{error}");
        }
    }

    #[test]
    fn what_is_not_held_is_refused_by_name() {
        for (text, why) in [
            ("default = \"allow\"", "begins with default"),
            ("[files]\n\"/\" = \"read\"", "not / itself"),
            ("[limits]\nseconds = 5", "function.toml"),
            ("[[rule]]\nallow = [\"read\"]\npath = \"/usr\"\narguments = { flags = 0 }", "rule 1"),
        ] {
            let error = held_of(text).expect_err("refused");
            assert!(error.message().contains(why), "{error}");
        }
    }

    #[test]
    fn what_mounts_do_not_hold_a_broker_does() {
        let text = "[[rule]]\nallow = [\"read\"]\npath = \"/tmp/*.log\"";
        assert_eq!(held_of(text).expect("held"), Held::Broker);
    }
}
