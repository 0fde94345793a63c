//! Where gates have to stand, and the view around them.
//!
//! Rules that name arguments of reading and writing take a gate before their folder. If what is left around those folders is no view either, the rules that are in the way
//! get gates as well, until it is one. So only the folders of such rules pay for being asked, and everything else costs nothing.

use crate::plan::{Plan, Unheld};
use holdfast_policy::{NotAView, Policy, Rule, Scope};
use holdfast_sandbox::{Access, Mount, Source};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// What serves file systems (`fuse`(4)).
const DEVICE: &str = "/dev/fuse";

/// Folders that gates stand before, and what is around them.
#[derive(Clone, Debug)]
pub struct Gates {
    /// The folders, none inside of another.
    pub folders: Vec<PathBuf>,
    /// The view around them.
    pub around: Plan,
    /// The rules that gates decide by, by their places in the policy.
    pub rules: Vec<usize>,
}

impl Gates {
    /// Finds the folders for a policy on this machine.
    ///
    /// # Errors
    /// All rules that neither gates nor the view around them hold, with the reasons.
    pub(crate) fn of(policy: &Policy) -> Result<Self, Vec<Unheld>> {
        let asking = policy.rules_of_each_call();
        if let Err(error) = File::options().read(true).write(true).open(DEVICE) {
            let reason =
                format!("it takes a file system that decides about each call, and {DEVICE} cannot be opened: {error}");
            return Err(asking.into_iter().map(|rule| Unheld { rule: Some(rule), reason: reason.clone() }).collect());
        }
        let mut folders = Vec::new();
        let mut wanted: Vec<_> =
            asking.into_iter().map(|rule| Unheld { rule: Some(rule), reason: String::new() }).collect();
        loop {
            if !add(policy, &mut folders, &wanted)? {
                return Err(wanted);
            }
            match Plan::of(&policy.around(&folders)) {
                Ok(around) => return Self::proven(policy, folders, around),
                // By its place in what is left.
                Err(unheld) => wanted = named(&policy.rules_around(&folders), unheld),
            }
        }
    }

    /// The same folders under another policy.
    pub(crate) fn before(policy: &Policy, folders: &[PathBuf]) -> Result<Self, Vec<Unheld>> {
        let left = policy.rules_around(folders);
        let around = Plan::of(&policy.around(folders)).map_err(|unheld| named(&left, unheld))?;
        Self::proven(policy, folders.to_owned(), around)
    }

    fn proven(policy: &Policy, folders: Vec<PathBuf>, around: Plan) -> Result<Self, Vec<Unheld>> {
        let beyond = policy.beyond_gates(&folders);
        if !beyond.is_empty() {
            return Err(beyond.into_iter().map(|NotAView { rule, reason }| Unheld { rule, reason }).collect());
        }
        let left = policy.rules_around(&folders);
        let rules = (0..policy.rules().len()).filter(|rule| !left.contains(rule)).collect();
        Ok(Self { folders, around, rules })
    }

    /// The view with the gates in it.
    pub(crate) fn view(&self) -> Vec<Mount> {
        let outside = |mount: &&Mount| !self.folders.iter().any(|folder| mount.path.starts_with(folder));
        let served = |folder: &PathBuf| Mount::new(folder, Access::All).from(Source::Served);
        self.around.view.iter().filter(outside).cloned().chain(self.folders.iter().map(served)).collect()
    }
}

fn named(left: &[usize], unheld: Vec<Unheld>) -> Vec<Unheld> {
    let name = |it: Unheld| Unheld { rule: it.rule.and_then(|rule| left.get(rule).copied()), ..it };
    unheld.into_iter().map(name).collect()
}

/// Adds the folders of rules, and says whether there was any that is not there yet.
fn add(policy: &Policy, folders: &mut Vec<PathBuf>, wanted: &[Unheld]) -> Result<bool, Vec<Unheld>> {
    let before = folders.clone();
    let mut wrong = Vec::new();
    for one in wanted {
        let found = one.rule.map(|rule| folder_of(policy, &policy.rules()[rule]));
        match found.unwrap_or_else(|| Err(one.reason.clone())) {
            Ok(folder) if folders.iter().any(|known| folder.starts_with(known)) => {}
            Ok(folder) => {
                folders.retain(|known| !known.starts_with(&folder));
                folders.push(folder);
            }
            Err(reason) => wrong.push(Unheld { rule: one.rule, reason: join(&one.reason, &reason) }),
        }
    }
    folders.sort();
    if wrong.is_empty() { Ok(*folders != before) } else { Err(wrong) }
}

fn join(first: &str, second: &str) -> String {
    if first.is_empty() || first == second { second.to_owned() } else { format!("{first}; and {second}") }
}

/// The folder whose gate decides about all that a rule is about: the nearest that is there, and that every program may find.
fn folder_of(policy: &Policy, rule: &Rule) -> Result<PathBuf, String> {
    let named = rule.scope.folder();
    let is_folder = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    // Rules about a file are about a name in its folder, whatever is there.
    let begin = if matches!(rule.scope, Scope::Exact(_)) && !is_folder(&named) {
        named.parent().unwrap_or(&named)
    } else {
        &named
    };
    let mut around = begin.ancestors().filter(|path| is_folder(path) && policy.is_found_by_all(path));
    let Some(folder) = around.next().filter(|folder| *folder != Path::new("/")) else {
        return Err(format!(
            "no folder below the root has all that it is about ({}), and no gate stands before the root",
            named.display()
        ));
    };
    match fs::canonicalize(folder) {
        Ok(real) if real == folder => Ok(folder.to_owned()),
        Ok(real) => Err(format!("{} is reached by a symbolic link; name {}", folder.display(), real.display())),
        Err(error) => Err(format!("{} cannot be looked at: {error}", folder.display())),
    }
}
