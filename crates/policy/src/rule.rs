//! One rule: what it allows and refuses, where, to which programs, for which arguments.

use crate::program::Programs;
use crate::{Conditions, Operations, text};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a rule applies. Paths are absolute, without `.`, `..`, and `/` at the end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// A path and nothing else.
    Exact(PathBuf),
    /// Everything below a folder, and not the folder.
    Below(PathBuf),
    /// A file, or a folder and everything below it.
    Tree(PathBuf),
    /// Every path that a pattern matches: `*` and `?` stop at `/`, `**` does not, `[…]`, `{…,…}`, and `\` before a character that is meant literally.
    Glob(String),
}

impl Scope {
    /// The path that is named, or the folder of a pattern's part before its first wildcard.
    pub fn folder(&self) -> PathBuf {
        match self {
            Self::Exact(path) | Self::Below(path) | Self::Tree(path) => path.clone(),
            Self::Glob(pattern) => literal_folder(pattern),
        }
    }

    /// Whether it may be about a folder or something in it.
    pub(crate) fn may_be_in(&self, folder: &Path) -> bool {
        match self {
            Self::Exact(path) => path.starts_with(folder),
            Self::Below(_) | Self::Tree(_) | Self::Glob(_) => {
                let own = self.folder();
                own.starts_with(folder) || folder.starts_with(own)
            }
        }
    }

    /// The word for it in a policy, with its path or pattern as it is written there.
    pub fn written(&self) -> (&'static str, String) {
        let path = |path: &Path| text::write(path.as_os_str().as_bytes());
        match self {
            Self::Exact(at) => ("file", path(at)),
            Self::Below(at) => ("dir", path(at)),
            Self::Tree(at) => ("tree", path(at)),
            Self::Glob(pattern) => ("glob", pattern.clone()),
        }
    }
}

/// The folders of a pattern up to its first part with a wildcard or an escape.
fn literal_folder(pattern: &str) -> PathBuf {
    let mut parts: Vec<_> = pattern.split('/').skip(1).collect();
    // The last part is never the folder: what a pattern matches lies in it.
    parts.pop();
    let literal = parts.into_iter().take_while(|part| !text::is_pattern(part));
    literal.fold(PathBuf::from("/"), |folder, part| folder.join(part))
}

impl fmt::Display for Scope {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, path) = self.written();
        match self {
            Self::Exact(_) => write!(out, "{path} itself"),
            Self::Below(_) => write!(out, "all below {path}"),
            Self::Tree(_) => write!(out, "{path} and all below"),
            Self::Glob(_) => write!(out, "what matches {path}"),
        }
    }
}

/// One rule of a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// What it allows.
    pub allow: Operations,
    /// What it refuses; never also in `allow`.
    pub deny: Operations,
    /// Where.
    pub scope: Scope,
    /// To which programs; to all where it is `None`.
    pub programs: Option<Arc<Programs>>,
    /// For which arguments.
    pub conditions: Conditions,
    /// Whether it is of the short form, which rules of the long form at the same place beat.
    pub entry: bool,
    /// The line it is written in, 0 where it was not read from text.
    pub line: usize,
}

impl Rule {
    /// What the short form says: exactly these operations, no other, to all programs.
    pub fn entry(scope: Scope, allow: Operations) -> Self {
        let deny = Operations::ALL.without(allow);
        Self { allow, deny, scope, programs: None, conditions: Conditions::default(), entry: true, line: 0 }
    }

    /// A rule of the long form for all programs and arguments.
    pub fn new(scope: Scope, allow: Operations, deny: Operations) -> Self {
        Self { entry: false, deny: deny.without(allow), ..Self::entry(scope, allow) }
    }

    /// The same for some programs.
    #[must_use]
    pub fn by(mut self, programs: Programs) -> Self {
        self.programs = Some(Arc::new(programs));
        self
    }

    /// The same for some arguments.
    #[must_use]
    pub fn when(mut self, conditions: Conditions) -> Self {
        self.conditions = conditions;
        self
    }

    /// The operations it says anything about.
    pub fn operations(&self) -> Operations {
        self.allow.with(self.deny)
    }

    /// Whether it is about all programs and all arguments.
    pub fn is_unconditional(&self) -> bool {
        self.programs.is_none() && self.conditions == Conditions::default()
    }
}

/// The normal form that `explain` shows.
impl fmt::Display for Rule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.allow.is_empty(), self.deny.is_empty()) {
            (true, true) => write!(out, "say nothing of {}", self.scope)?,
            (false, true) => write!(out, "allow {} on {}", self.allow, self.scope)?,
            (true, false) => write!(out, "deny {} on {}", self.deny, self.scope)?,
            (false, false) if self.operations() == Operations::ALL => {
                write!(out, "allow {} and nothing else on {}", self.allow, self.scope)?;
            }
            (false, false) => write!(out, "allow {} and deny {} on {}", self.allow, self.deny, self.scope)?,
        }
        if let Some(programs) = &self.programs {
            write!(out, " to {programs}")?;
        }
        if self.conditions.count() > 0 {
            write!(out, " when {}", self.conditions)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_pattern_ends_before_its_first_wildcard() {
        for (pattern, folder) in
            [("/a/b/*.log", "/a/b"), ("/a/*/c", "/a"), ("/**", "/"), ("/a/b", "/a"), (r"/a/\[/x", "/a"), ("/*", "/")]
        {
            assert_eq!(literal_folder(pattern), Path::new(folder), "{pattern}");
        }
    }

    #[test]
    fn a_rule_reads_as_a_sentence() {
        let conditions = Conditions { length: Some(100), ..Conditions::default() };
        let rule = Rule::new(Scope::Below("/a".into()), Operations::NONE, Operations::of(&[crate::Operation::Read]))
            .by(Programs::named("sh"))
            .when(conditions);
        assert_eq!(rule.to_string(), "deny read on all below /a to sh when length = 100");
        assert_eq!(
            Rule::entry(Scope::Tree("/b".into()), Operations::ALL).to_string(),
            "allow everything on /b and all below"
        );
    }
}
