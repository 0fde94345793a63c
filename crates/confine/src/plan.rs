//! Which mechanism holds which rule.
//!
//! A policy says what may be done to paths, a view what is mounted where; they are the same only if the machine's files agree. So planning looks at what each
//! entry's path is now:
//!
//! - A rule about a path *itself* becomes a mount over that file. Over a folder, it would take in what is below, which the rule does not.
//! - What is not there cannot be mounted over. If the rule allows less than the folder around it, the program could make it: the rule would not hold.
//!   If it allows no more than looking, nothing is lost, and the entry waits for the next start. If it allows writing where the folder around it does not, the
//!   program would be refused what the policy allows, so that is told as well.

use holdfast_policy::{Access, Decision, NotAView, Policy, UnixSockets, ViewEntry};
use holdfast_sandbox::{Access as MountAccess, Mount, Root};
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What enforces a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// A mount in the program's own view, at no cost per call.
    Mount,
    /// Nothing has to: what is around it says the same.
    Around,
    /// The path is not there, and nothing can be done to it until it is.
    Absent,
}

impl fmt::Display for Held {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Mount => "a mount in its view",
            Self::Around => "the view around it",
            Self::Absent => "nothing: the path is not there now, and stays out of the view until the next start",
        })
    }
}

/// An entry of the view, and what holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The path.
    pub path: PathBuf,
    /// What may be done there.
    pub access: Access,
    /// What enforces it.
    pub held: Held,
}

/// A rule that nothing here enforces exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unheld {
    /// The rule, by its place in the policy; none where it is the default or what several rules say together.
    pub rule: Option<usize>,
    /// Why not, in words that follow the rule's own.
    pub reason: String,
}

/// How a policy is held.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is there before any entry.
    pub root: Root,
    /// What is mounted.
    pub view: Vec<Mount>,
    /// Each entry, and what holds it.
    pub lines: Vec<Line>,
    /// Whether programs outside can hand something over, so that Landlock lies behind the mounts for all files and not for streams alone.
    pub unix_sockets: bool,
}

impl Plan {
    /// Plans a policy on this machine.
    ///
    /// # Errors
    /// All rules that cannot be held, with the reasons.
    pub fn of(policy: &Policy) -> Result<Self, Vec<Unheld>> {
        let entries = policy.as_view().map_err(|reasons| reasons.into_iter().map(unheld).collect::<Vec<_>>())?;
        let root = root_of(policy, &entries);
        let unix_sockets = policy.settings.unix_sockets != UnixSockets::None;
        let mut plan = Self { root, view: Vec::new(), lines: Vec::new(), unix_sockets };
        let mut wrong = Vec::new();
        // Folders come before what is below them, so those around an entry are the last ones passed.
        let mut around: Vec<&ViewEntry> = Vec::new();
        for entry in &entries {
            while around.last().is_some_and(|last| !entry.path.starts_with(&last.path)) {
                around.pop();
            }
            match held(entry, around.last().map_or(Access::Hidden, |last| last.access)) {
                Ok(held) => plan.add(entry, held),
                Err(reason) => wrong.push(Unheld { rule: rule_about(policy, &entry.path), reason }),
            }
            if !entry.exact {
                around.push(entry);
            }
        }
        if wrong.is_empty() { Ok(plan) } else { Err(wrong) }
    }

    /// Folders that may only be read, where a FIFO can be written to all the same: a mount that is read-only keeps nobody from that, and Landlock, if there is
    /// need of it at all, takes nothing away inside of what it has granted.
    pub fn open_to_fifos(&self) -> Vec<&Path> {
        let mut around = vec![(Path::new("/"), self.root == Root::Host || !self.unix_sockets)];
        let mut open = Vec::new();
        for line in self.lines.iter().filter(|line| line.held == Held::Mount) {
            while around.last().is_some_and(|(last, _)| !line.path.starts_with(last)) {
                around.pop();
            }
            let in_written = around.iter().any(|(_, written)| *written);
            if in_written && matches!(line.access, Access::ReadOnly | Access::ReadExec) {
                open.push(line.path.as_path());
            }
            around.push((&line.path, access_of(line.access).writes()));
        }
        open
    }

    fn add(&mut self, entry: &ViewEntry, held: Held) {
        self.lines.push(Line { path: entry.path.clone(), access: entry.access, held });
        if held == Held::Mount {
            self.view.push(Mount::new(&entry.path, access_of(entry.access)));
        }
    }
}

fn unheld(NotAView { rule, reason }: NotAView) -> Unheld {
    Unheld { rule, reason }
}

/// The machine's own root only where everything in it may be used: any other access to all of it is an entry.
fn root_of(policy: &Policy, entries: &[ViewEntry]) -> Root {
    let all = entries.iter().any(|entry| entry.path == Path::new("/") && entry.access == Access::All);
    if all || (entries.is_empty() && policy.default() == Decision::Allow) { Root::Host } else { Root::Empty }
}

pub(crate) fn access_of(access: Access) -> MountAccess {
    match access {
        Access::Hidden => MountAccess::Hidden,
        Access::ReadOnly => MountAccess::ReadOnly,
        Access::ReadExec => MountAccess::ReadExec,
        Access::Writable => MountAccess::Writable,
        Access::All => MountAccess::All,
    }
}

fn held(entry: &ViewEntry, around: Access) -> Result<Held, String> {
    let at = entry.path.display();
    if entry.path == Path::new("/") {
        return Ok(if matches!(entry.access, Access::All | Access::Hidden) { Held::Around } else { Held::Mount });
    }
    match fs::metadata(&entry.path) {
        Ok(found) if entry.exact && found.is_dir() => {
            Err(format!("it is about {at} itself, which is a folder, and a mount takes in what is below"))
        }
        Ok(_) => Ok(Held::Mount),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => absent(entry, around),
        Err(error) => Err(format!("{at} cannot be looked at: {error}")),
    }
}

fn absent(entry: &ViewEntry, around: Access) -> Result<Held, String> {
    let at = entry.path.display();
    let writes = |access: Access| matches!(access, Access::Writable | Access::All);
    if entry.access == around {
        return Ok(Held::Around);
    }
    if writes(around) {
        return Err(format!("{at} is not there, and the program, which may write around it, could make it"));
    }
    if writes(entry.access) {
        return Err(format!(
            "{at} is not there, so nothing can be mounted over it: make it, or let the program write to its folder"
        ));
    }
    Ok(Held::Absent)
}

/// The last rule that names a path.
fn rule_about(policy: &Policy, path: &Path) -> Option<usize> {
    policy.rules().iter().rposition(|rule| rule.scope.folder() == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> Policy {
        Policy::from_toml("p.toml", Path::new("/"), text.as_bytes()).expect("a policy")
    }

    #[test]
    fn an_allow_list_of_trees_is_a_view_over_an_empty_root() {
        let plan = Plan::of(&policy("default = \"deny\"\n[files]\n\"/usr\" = \"read+exec\"\n\"/tmp\" = \"write\"\n"))
            .expect("a view");
        assert_eq!(plan.root, Root::Empty);
        assert_eq!(plan.view, [Mount::new("/tmp", MountAccess::Writable), Mount::new("/usr", MountAccess::ReadExec)]);
    }

    #[test]
    fn what_could_be_made_although_it_is_refused_is_not_held() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().display();
        let text = format!("default = \"deny\"\n[files]\n\"{at}\" = \"all\"\n\"{at}/secret\" = \"none\"\n");
        let wrong = Plan::of(&policy(&text)).expect_err("the file could be made");
        assert!(wrong[0].reason.contains("could make it"), "{wrong:?}");
        fs::write(folder.path().join("secret"), "s").expect("a file");
        assert_eq!(Plan::of(&policy(&text)).expect("there is something to mount over").view.len(), 2);
    }

    #[test]
    fn the_nearest_folder_around_an_entry_counts_and_not_the_one_before_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().display();
        fs::create_dir_all(folder.path().join("a/b")).expect("folders");
        fs::create_dir(folder.path().join("c")).expect("a folder");
        // What is in `a/b`, the entry before, is not around `c/absent`.
        let text =
            |rest: &str| format!("default = \"deny\"\n[files]\n\"{at}\" = \"read\"\n\"{at}/a/b\" = \"all\"\n{rest}");
        let absent = |path: &str| text(&format!("\"{at}/{path}\" = \"none\"\n"));
        let plan = Plan::of(&policy(&absent("c/absent"))).expect("nobody can make it");
        assert_eq!(plan.lines.last().map(|line| line.held), Some(Held::Absent));
        let wrong = Plan::of(&policy(&absent("a/b/absent"))).expect_err("it could be made");
        assert!(wrong[0].reason.contains("could make it"), "{wrong:?}");
    }

    #[test]
    fn where_a_fifo_can_be_written_is_known() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().display();
        for sub in ["beside", "work/read", "work/none/read"] {
            fs::create_dir_all(folder.path().join(sub)).expect("a folder");
        }
        let entries = format!(
            "[files]\n\"{at}/beside\" = \"read\"\n\"{at}/work\" = \"all\"\n\"{at}/work/none\" = \"none\"\n\"{at}/work/none/read\" = \"read\"\n\"{at}/work/read\" = \"read+exec\"\n"
        );
        let open = |setting: &str| {
            let plan = Plan::of(&policy(&format!("{setting}\n{entries}"))).expect("a view");
            let within = |path: &Path| path.strip_prefix(folder.path()).expect("below").display().to_string();
            plan.open_to_fifos().into_iter().map(within).collect::<Vec<_>>()
        };
        assert_eq!(open("default = \"deny\""), ["work/none/read", "work/read"]);
        let all = ["beside", "work/none/read", "work/read"];
        assert_eq!(open("default = \"allow\""), all);
        assert_eq!(open("unix-sockets = \"none\""), all);
    }

    #[test]
    fn a_pattern_is_not_held_and_says_why() {
        let wrong = Plan::of(&policy("default = \"allow\"\n[[rule]]\ndeny = [\"write\"]\npath = \"/tmp/*.log\"\n"))
            .expect_err("a pattern");
        assert_eq!(wrong[0].rule, Some(0));
    }
}
