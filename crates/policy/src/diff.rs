//! Which decisions change from one policy to another.
//!
//! Both are asked at every path that one of them names, at a name below each, at a name for each pattern, for a program nobody names and for each that is named, without
//! arguments and with those that are named. Where two patterns meet in one name only, the difference may be missed.

use crate::{Arguments, Conditions, Limits, Network, Operations, Policy, Scope, Settings, glob};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

/// How many places, programs and arguments are asked about together at most: some seconds' work. Beyond, the difference says that it is not complete.
pub const ASKED_MAX: usize = 200_000;
/// As many rules for one place cost nothing beside the rest of an answer.
const CROWD: usize = 50;
/// How many bytes the paths of the places may have together, for the same reason.
const PLACES_MAX_BYTES: usize = 4 << 20;

/// A program nobody names.
const NOBODY: &str = "/\u{1}";

/// What changes at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The path, or the folder whose content it is.
    pub path: PathBuf,
    /// Whether it is about what is below the path and not named otherwise.
    pub below: bool,
    /// For which program, where it is not for all.
    pub program: Option<PathBuf>,
    /// For which arguments, in words, where it is not for all.
    pub arguments: String,
    /// What was refused and is allowed.
    pub gained: Operations,
    /// What was allowed and is refused.
    pub lost: Operations,
}

impl fmt::Display for Change {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}{}", if self.below { "below " } else { "" }, self.path.display())?;
        if let Some(program) = &self.program {
            write!(out, " by {}", program.display())?;
        }
        if !self.arguments.is_empty() {
            write!(out, " when {}", self.arguments)?;
        }
        let parts = [("newly allowed", self.gained), ("newly refused", self.lost)];
        let parts: Vec<_> =
            parts.iter().filter(|(_, set)| !set.is_empty()).map(|(word, set)| format!("{word}: {set}")).collect();
        write!(out, ": {}", parts.join("; "))
    }
}

/// The difference of two policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// What changes about files.
    pub files: Vec<Change>,
    /// What changes about the rest, in words.
    pub settings: Vec<String>,
    /// Whether everything was asked.
    pub complete: bool,
}

impl Difference {
    /// Whether no decision changes.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.settings.is_empty()
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        self.files.iter().try_for_each(|change| writeln!(out, "{change}"))?;
        if !self.complete {
            writeln!(out, "and maybe more: the policies are too large to be asked about everything")?;
        }
        Ok(())
    }
}

/// What changes from one policy to another.
pub fn diff(before: &Policy, after: &Policy) -> Difference {
    let (places, all) = places(before, after);
    let who = programs(before, after);
    let how = arguments(before, after);
    let mut difference = Difference { settings: settings(&before.settings, &after.settings), ..Difference::default() };
    let each = (who.len() * how.len()).max(1);
    // Where many rules are for one place, each answer takes longer.
    let most = ASKED_MAX / (before.crowd().max(after.crowd()) / CROWD).max(1);
    difference.complete = all && places.len() * each <= most;
    let mut below = BTreeMap::new();
    for (path, kind) in places.iter().take(most / each) {
        let asked = if *kind { &child(path, &places) } else { path };
        let general = change(before, after, asked, Path::new(NOBODY), Arguments::default());
        let above = path.parent().and_then(|parent| nearest(&below, if *kind { parent } else { path }));
        if *kind {
            below.insert(path.clone(), general);
        }
        let mut say = |program: Option<&PathBuf>, arguments: String, (gained, lost): (Operations, Operations)| {
            let change =
                Change { path: path.clone(), below: *kind, program: program.cloned(), arguments, gained, lost };
            difference.files.push(change);
        };
        let nothing = (Operations::NONE, Operations::NONE);
        // What changes here as it does all around is said once, of the folder.
        if general != above.unwrap_or(nothing) && general != nothing {
            say(None, String::new(), general);
        }
        for (program, conditions) in
            who.iter().flat_map(|program| how.iter().map(move |conditions| (program, conditions)))
        {
            let path = program.as_deref().unwrap_or(Path::new(NOBODY));
            let special = change(before, after, asked, path, conditions.sample());
            if special != general && special != nothing {
                say(program.as_ref(), conditions.to_string(), special);
            }
        }
    }
    difference
}

type Changed = (Operations, Operations);

fn nearest(below: &BTreeMap<PathBuf, Changed>, path: &Path) -> Option<Changed> {
    path.ancestors().find_map(|above| below.get(above)).copied()
}

fn change(before: &Policy, after: &Policy, path: &Path, program: &Path, arguments: Arguments<'_>) -> Changed {
    let (before, after) = (before.allowed(program, path, arguments), after.allowed(program, path, arguments));
    (after.without(before), before.without(after))
}

/// Paths by themselves (`false`) and folders for what is below them (`true`), folders before what is in them; and whether those are all.
fn places(before: &Policy, after: &Policy) -> (BTreeSet<(PathBuf, bool)>, bool) {
    let mut bytes = 0;
    let mut places = BTreeSet::from([("/".into(), false), ("/".into(), true)]);
    for rule in before.rules().iter().chain(after.rules()) {
        let folder = rule.scope.folder();
        let below = !matches!(rule.scope, Scope::Exact(_));
        for above in folder.ancestors() {
            let new = places.insert((above.to_owned(), false));
            bytes += if new { above.as_os_str().len() } else { 0 };
            if !new {
                break;
            }
        }
        if bytes > PLACES_MAX_BYTES {
            return (places, false);
        }
        if let Scope::Glob(pattern) = &rule.scope {
            places.extend(glob::sample(pattern).map(|path| (path, false)));
        }
        if below {
            places.insert((folder, true));
        }
    }
    (places, true)
}

/// A name in a folder that neither policy has.
fn child(folder: &Path, places: &BTreeSet<(PathBuf, bool)>) -> PathBuf {
    let mut name = String::from("\u{1}");
    while places.contains(&(folder.join(&name), false)) {
        name.push('\u{1}');
    }
    folder.join(name)
}

fn programs(before: &Policy, after: &Policy) -> Vec<Option<PathBuf>> {
    let rules = before.rules().iter().chain(after.rules());
    let named: BTreeSet<_> =
        rules.filter_map(|rule| rule.programs.as_ref()).flat_map(|programs| programs.samples()).collect();
    std::iter::once(None).chain(named.into_iter().map(Some)).collect()
}

fn arguments(before: &Policy, after: &Policy) -> Vec<Conditions> {
    let mut all = vec![Conditions::default()];
    let mut seen = BTreeSet::new();
    for rule in before.rules().iter().chain(after.rules()) {
        if rule.conditions.count() > 0 && seen.insert(rule.conditions.named()) {
            all.push(rule.conditions.clone());
        }
    }
    all
}

fn settings(before: &Settings, after: &Settings) -> Vec<String> {
    let mut changes = Vec::new();
    let mut say = |what: &str, before: String, after: String| {
        if before != after {
            changes.push(format!("{what}: was {before}, is {after}"));
        }
    };
    let directory = |settings: &Settings| {
        settings.directory.as_ref().map_or("that of the caller".into(), |path| path.display().to_string())
    };
    say("directory", directory(before), directory(after));
    say("network", network(&before.network), network(&after.network));
    say("UNIX sockets", before.unix_sockets.word().into(), after.unix_sockets.word().into());
    let devices = |settings: &Settings| list(settings.devices.iter().map(|device| device.name().to_owned()));
    say("devices", devices(before), devices(after));
    let kept = |settings: &Settings| list(settings.environment.keep.iter().cloned());
    say("variables that are kept", kept(before), kept(after));
    let set =
        |settings: &Settings| list(settings.environment.set.iter().map(|(name, value)| format!("{name}={value:?}")));
    say("variables that are set", set(before), set(after));
    for ((name, before), (_, after)) in before.limits.named().into_iter().zip(after.limits.named()) {
        let show = |limit: Option<u64>| limit.map_or("that of the caller".into(), |most| Limits::written(name, most));
        say(name, show(before), show(after));
    }
    changes
}

fn network(network: &Network) -> String {
    match network {
        Network::None => "none".into(),
        Network::All => "all".into(),
        Network::Ports { connect, bind } => {
            let ports = |ports: &BTreeSet<u16>| list(ports.iter().map(u16::to_string));
            format!("TCP to {} and from {}", ports(connect), ports(bind))
        }
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    let items: Vec<_> = items.collect();
    if items.is_empty() { "none".into() } else { items.join(", ") }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn between(before: &str, after: &str) -> Vec<String> {
        let read = |text: &str| Policy::from_toml("p", Path::new("/"), text.as_bytes()).unwrap();
        let difference = diff(&read(before), &read(after));
        assert!(difference.complete);
        difference.to_string().lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_same_policy_written_otherwise_is_no_difference() {
        let other = "[[rule]]\nallow = [\"lookup\", \"getattr\", \"readdir\", \"statfs\"]\npath = \"/a\"\n";
        assert_eq!(between("[files]\n\"/a\" = \"list\"", other), [""; 0]);
    }

    #[test]
    fn a_change_is_said_once_where_it_begins() {
        let before = "[files]\n\"/w\" = \"all\"\n\"/w/.git\" = \"read\"\n";
        let after = "[files]\n\"/w\" = \"write\"\n\"/w/.git\" = \"read\"\n";
        assert_eq!(between(before, after), ["/w: newly refused: exec", "below /w: newly refused: exec"]);
    }

    #[test]
    fn changes_for_a_program_and_for_arguments_are_told_apart() {
        let before = "[files]\n\"/w\" = \"all\"\n";
        let deny = "[[rule]]\ndeny = [\"unlink\"]\nfile = \"/w/a\"\nprogram = \"/bin/sh\"\n[[rule]]\ndeny = [\"read\"]\nfile = \"/w/b\"\narguments = { length = 7 }";
        let lines = between(before, &format!("{before}{deny}"));
        assert!(lines.contains(&"/w/a by /bin/sh: newly refused: unlink".to_owned()), "{lines:?}");
        assert!(lines.contains(&"/w/b when length = 7: newly refused: read".to_owned()), "{lines:?}");
    }

    #[test]
    fn changes_beside_files_are_told_too() {
        let lines = between(
            "",
            "network = \"all\"\nunix-sockets = \"none\"\ndevices = [\"null\"]\n[limits]\nmemory = \"1M\"\n[environment]\nkeep = [\"PATH\"]\n",
        );
        let expected = [
            "network: was none, is all",
            "UNIX sockets: was all, is none",
            "devices: was none, is null",
            "variables that are kept: was none, is PATH",
            "memory: was that of the caller, is 1048576",
        ];
        assert_eq!(lines, expected);
    }
}
