//! What a policy says besides files, as the sandbox's.

use holdfast_policy::Settings;
use holdfast_sandbox::{Device, Limits, Network, Sandbox};
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Where programs are looked for if the policy says nothing of `PATH`: the folders of the file system hierarchy standard.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The sandbox of a policy, but for its files: of these words, beginning in `folder` if the policy says nothing. Its variables are of those that this process has.
pub fn sandbox(settings: &Settings, words: &[impl AsRef<OsStr>], folder: &Path) -> Sandbox {
    Sandbox {
        environment: environment(settings, std::env::vars_os()),
        folder: settings.directory.clone().unwrap_or_else(|| folder.to_owned()),
        devices: devices(settings),
        // Of its own processes: programs look for themselves there, and nothing of the machine is in it.
        proc: true,
        network: network(settings),
        limits: limits(settings),
        ..Sandbox::new(words)
    }
}

fn network(settings: &Settings) -> Network {
    use holdfast_policy::Network as Policy;
    match &settings.network {
        Policy::None => Network::None,
        Policy::All => Network::All,
        Policy::Ports { connect, bind } => {
            Network::Ports { connect: connect.iter().copied().collect(), bind: bind.iter().copied().collect() }
        }
    }
}

fn devices(settings: &Settings) -> Vec<Device> {
    let named = |device: &holdfast_policy::Device| Device::ALL.into_iter().find(|known| known.name() == device.name());
    settings.devices.iter().filter_map(named).collect()
}

fn limits(settings: &Settings) -> Limits {
    let limits = &settings.limits;
    Limits {
        cpu_s: limits.cpu_seconds,
        memory_bytes: limits.memory,
        processes: limits.processes,
        wall_s: limits.seconds,
        open_files: limits.open_files,
        file_bytes: limits.file_size,
    }
}

/// A limit of a policy, and what it bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The key of the policy.
    pub limit: &'static str,
    /// How much.
    pub most: u64,
    /// What may use so much, and what happens then.
    pub of: &'static str,
}

/// What the limits of a policy bound on this kernel. All of them are of processes (`setrlimit`(2)) but that of processes and the clock: control groups, which count memory
/// and processor time of many together, are an ordinary account's only where somebody has given it some.
pub fn bounds(settings: &Settings) -> Vec<Bound> {
    let limits = &settings.limits;
    let all = [
        ("cpu-seconds", limits.cpu_seconds, "of each process, which is ended by SIGXCPU"),
        (
            "memory",
            limits.memory,
            "address space of each process, whose calls for more fail; all together at most so much for each of the `processes`",
        ),
        ("processes", limits.processes, "all together, threads among them; starting more fails"),
        ("seconds", limits.seconds, "all together, by the clock; then all is killed"),
        ("open-files", limits.open_files, "of each process; opening more fails"),
        ("file-size", limits.file_size, "of each file that is written; the program is ended by SIGXFSZ"),
    ];
    all.into_iter().filter_map(|(limit, most, of)| Some(Bound { limit, most: most?, of })).collect()
}

/// The variables that the program has, of those the caller has.
fn environment(settings: &Settings, callers: impl Iterator<Item = (OsString, OsString)>) -> Vec<(OsString, OsString)> {
    let environment = &settings.environment;
    let kept = |name: &OsStr| {
        name.to_str().is_some_and(|name| environment.keep.contains(name) && !environment.set.contains_key(name))
    };
    let mut all: Vec<_> = callers.filter(|(name, _)| kept(name)).collect();
    all.extend(environment.set.iter().map(|(name, value)| (name.into(), value.into())));
    if !all.iter().any(|(name, _)| name == "PATH") {
        all.push(("PATH".into(), PATH.into()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_limit_says_what_it_bounds() {
        let mut settings = Settings::default();
        assert_eq!(bounds(&settings), []);
        settings.limits.memory = Some(1024);
        settings.limits.seconds = Some(5);
        let told: Vec<_> = bounds(&settings).iter().map(|bound| (bound.limit, bound.most)).collect();
        assert_eq!(told, [("memory", 1024), ("seconds", 5)]);
    }

    #[test]
    fn nothing_of_the_environment_is_handed_on_that_is_not_named() {
        let mut settings = Settings::default();
        settings.environment.keep = BTreeSet::from(["LANG".into(), "HOME".into()]);
        settings.environment.set.insert("HOME".into(), "/work".into());
        let callers =
            [("LANG", "C"), ("HOME", "/root"), ("SECRET", "x")].map(|(name, value)| (name.into(), value.into()));
        let expected =
            [("LANG", "C"), ("HOME", "/work"), ("PATH", PATH)].map(|(name, value)| (name.into(), value.into()));
        assert_eq!(environment(&settings, callers.into_iter()), expected);
    }
}
