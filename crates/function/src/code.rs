//! A function's folder as its program has it: what its policy makes of the machine, with the code at a fixed place.
//!
//! The code is at [`FOLDER`], to be read and executed, whatever the policy says, and a policy may say nothing else of it: what is there on the machine is another folder.
//! What keeps a policy from being held as it is written is told when the function is deployed, and again at each start, since the machine's files may have changed.

use crate::manifest::Manifest;
use crate::name::Name;
use holdfast_base::{Error, ErrorKind, Result};
use holdfast_confine::{Plan, Unheld};
use holdfast_policy::{Network, Operations, Policy, Rule, Scope, Settings, TEXT_MAX_BYTES};
use holdfast_sandbox::{Access as MountAccess, Device, Limits, Mount, Network as Net, Root, Sandbox, Source};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Where a function's program finds its own folder. Relative paths of the policy begin here, and so does the program.
pub const FOLDER: &str = "/function";

/// The variable that tells a program its function's name.
const NAME_VARIABLE: &str = "HOLDFAST_FUNCTION";

/// Where programs are looked for if the policy says nothing of `PATH`: the folders of the file system hierarchy standard.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

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
    let plan = Plan::of(policy).map_err(|unheld| unsupported(refused(policy, &unheld)))?;
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

fn refused(policy: &Policy, unheld: &[Unheld]) -> String {
    let lines = unheld.iter().map(|Unheld { rule, reason }| {
        match rule.and_then(|number| Some((number, policy.rules().get(number)?))) {
            Some((number, rule)) => format!("rule {} ({rule}): {reason}", number + 1),
            None => reason.clone(),
        }
    });
    let lines: Vec<_> = lines.collect();
    format!(
        "mounts, which hold the policies of functions, do not hold this one here exactly:\n  {}",
        lines.join("\n  ")
    )
}

/// The sandbox of a function, but for its streams.
pub(crate) fn sandbox(name: &Name, manifest: &Manifest, policy: &Policy, code: &Path) -> Result<Sandbox> {
    let settings = &policy.settings;
    Ok(Sandbox {
        environment: environment(settings, name, std::env::vars_os()),
        folder: settings.directory.clone().unwrap_or_else(|| FOLDER.into()),
        view: view(policy, code)?,
        devices: devices(settings),
        proc: true,
        network: network(settings),
        limits: limits(settings),
        ..Sandbox::new(&manifest.command)
    })
}

// The same as of `holdfast run`, whose mapping is not public.

fn environment(
    settings: &Settings,
    name: &Name,
    callers: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    let said = &settings.environment;
    let kept =
        |name: &OsStr| name.to_str().is_some_and(|name| said.keep.contains(name) && !said.set.contains_key(name));
    let mut all: Vec<_> = callers.filter(|(name, _)| kept(name)).collect();
    all.extend(said.set.iter().map(|(name, value)| (name.into(), value.into())));
    for (usual, value) in [("PATH", PATH), (NAME_VARIABLE, name.as_str())] {
        if !all.iter().any(|(name, _)| name == usual) {
            all.push((usual.into(), value.into()));
        }
    }
    all
}

fn devices(settings: &Settings) -> Vec<Device> {
    let named = |device: &holdfast_policy::Device| Device::ALL.into_iter().find(|known| known.name() == device.name());
    settings.devices.iter().filter_map(named).collect()
}

fn network(settings: &Settings) -> Net {
    match &settings.network {
        Network::None => Net::None,
        Network::All => Net::All,
        Network::Ports { connect, bind } => {
            Net::Ports { connect: connect.iter().copied().collect(), bind: bind.iter().copied().collect() }
        }
    }
}

fn limits(settings: &Settings) -> Limits {
    let limits = &settings.limits;
    Limits {
        cpu_s: limits.cpu_seconds,
        memory_bytes: limits.memory,
        processes: limits.processes,
        wall_s: None,
        open_files: limits.open_files,
        file_bytes: limits.file_size,
    }
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
