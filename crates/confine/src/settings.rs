//! What a policy says besides files, as the sandbox's.

use holdfast_policy::Settings;
use holdfast_sandbox::{Device, Limits, Network};
use std::ffi::{OsStr, OsString};

/// Where programs are looked for if the policy says nothing of `PATH`: the folders of the file system hierarchy standard.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

pub(crate) fn network(settings: &Settings) -> Network {
    use holdfast_policy::Network as Policy;
    match &settings.network {
        Policy::None => Network::None,
        Policy::All => Network::All,
        Policy::Ports { connect, bind } => {
            Network::Ports { connect: connect.iter().copied().collect(), bind: bind.iter().copied().collect() }
        }
    }
}

pub(crate) fn devices(settings: &Settings) -> Vec<Device> {
    let named = |device: &holdfast_policy::Device| Device::ALL.into_iter().find(|known| known.name() == device.name());
    settings.devices.iter().filter_map(named).collect()
}

pub(crate) fn limits(settings: &Settings) -> Limits {
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

/// The variables that the program has, of those the caller has.
pub(crate) fn environment(
    settings: &Settings,
    callers: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
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
