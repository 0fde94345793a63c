//! A function's folder as its program has it: what its policy makes of the machine, with the code at a fixed place.
//!
//! The code is at [`FOLDER`], to be read and executed, whatever the policy says, and a policy may say nothing else of it: what is there on the machine is another folder.
//! What keeps a policy from being held as it is written is told when the function is deployed, and again at each start, since the machine's files may have changed.

use crate::manifest::Manifest;
use crate::name::Name;
use holdfast_base::{Error, ErrorKind, Result};
use holdfast_confine::{Plan, lines_of};
use holdfast_policy::{Operations, Policy, Rule, Scope, TEXT_MAX_BYTES};
use holdfast_sandbox::{Access as MountAccess, Mount, Root, Sandbox, Source};
use std::fs::File;
use std::io::Read;
use std::path::Path;

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

/// The view of a policy, with the code in it.
pub(crate) fn view(policy: &Policy, code: &Path) -> Result<Vec<Mount>> {
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
    let plan = Plan::of(policy).map_err(|unheld| {
        let why = "mounts, which hold the policies of functions, do not hold this one here exactly";
        unsupported(format!("{why}:{}", lines_of(policy, &unheld)))
    })?;
    if plan.root == Root::Host {
        return Err(unsupported("a function's policy names what it may see: it begins with default = \"deny\"".into()));
    }
    if plan.view.iter().any(|mount| mount.path == Path::new("/")) {
        return Err(unsupported("a function's policy names the folders it may see, and not / itself".into()));
    }
    let own = |path: &Path| path.starts_with(FOLDER);
    let mut view: Vec<Mount> = plan.view.into_iter().filter(|mount| !own(&mount.path)).collect();
    view.push(Mount::new(FOLDER, MountAccess::ReadExec).from(Source::Folder(code.to_owned())));
    Ok(view)
}

/// Whether a rule about the code says what holds for it anyway.
fn says_the_same(rule: &Rule) -> bool {
    matches!(&rule.scope, Scope::Tree(path) if path == Path::new(FOLDER))
        && rule.is_unconditional()
        && rule.allow == Operations::READ_EXEC
}

/// The sandbox of a function, but for its streams.
pub(crate) fn sandbox(name: &Name, manifest: &Manifest, policy: &Policy, code: &Path) -> Result<Sandbox> {
    let mut sandbox = holdfast_confine::sandbox(&policy.settings, &manifest.command, Path::new(FOLDER));
    sandbox.view = view(policy, code)?;
    if !sandbox.environment.iter().any(|(variable, _)| variable == NAME_VARIABLE) {
        sandbox.environment.push((NAME_VARIABLE.into(), name.as_str().into()));
    }
    Ok(sandbox)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view_of(text: &str) -> Result<Vec<Mount>> {
        view(&read("p.toml", text.as_bytes())?, Path::new("/srv/code"))
    }

    #[test]
    fn the_code_is_in_every_view_and_no_policy_says_otherwise() {
        for text in ["", "[files]\n\"/function\" = \"read+exec\"\n", "[files]\n\".\" = \"read+exec\"\n"] {
            let view = view_of(text).expect("a view");
            assert_eq!(view.len(), 1, "{text}");
            assert_eq!((view[0].path.as_path(), view[0].access), (Path::new(FOLDER), MountAccess::ReadExec));
            assert_eq!(view[0].source, Source::Folder("/srv/code".into()));
        }
        for text in ["\"/function\" = \"all\"", "\"/function\" = \"read\"", "\"secret\" = \"none\""] {
            let error = view_of(&format!("[files]\n{text}\n")).expect_err("refused");
            assert!(error.message().contains("the function's own code"), "{error}");
        }
    }

    #[test]
    fn what_mounts_do_not_hold_is_refused_by_name() {
        for (text, why) in [
            ("default = \"allow\"", "begins with default"),
            ("[limits]\nseconds = 5", "function.toml"),
            ("[[rule]]\nallow = [\"read\"]\npath = \"/tmp/*.log\"", "rule 1"),
        ] {
            let error = view_of(text).expect_err("refused");
            assert!(error.message().contains(why), "{error}");
        }
    }
}
