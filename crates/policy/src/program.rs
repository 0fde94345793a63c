//! Which programs a rule is about.

use crate::text;
use globset::{GlobBuilder, GlobSet};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// How a rule names a program, least exact first. A more exact name beats a less exact one at the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Who {
    /// No program is named: the rule is about all.
    Any,
    /// By a pattern of its path, or of its file name.
    Glob,
    /// By its file name.
    Name,
    /// By its path.
    Path,
}

/// Programs by path, by file name and by pattern.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    paths: BTreeSet<PathBuf>,
    names: BTreeSet<OsString>,
    globs: BTreeSet<String>,
    compiled: GlobSet,
}

impl PartialEq for Programs {
    fn eq(&self, other: &Self) -> bool {
        self.paths == other.paths && self.names == other.names && self.globs == other.globs
    }
}

impl Programs {
    /// Programs by absolute path, by file name (without `/`), and by pattern: one without `/` is about file names.
    ///
    /// # Errors
    /// A pattern that is none.
    pub fn new(
        paths: impl IntoIterator<Item = PathBuf>,
        names: impl IntoIterator<Item = OsString>,
        globs: impl IntoIterator<Item = String>,
    ) -> Result<Self, globset::Error> {
        let (paths, names, globs) = (
            paths.into_iter().collect::<BTreeSet<_>>(),
            names.into_iter().collect::<BTreeSet<_>>(),
            globs.into_iter().collect::<BTreeSet<_>>(),
        );
        let mut set = GlobSet::builder();
        for glob in &globs {
            // A pattern of a file name is one of any path that ends in it.
            let whole = if glob.starts_with('/') { glob.clone() } else { format!("/**/{glob}") };
            set.add(GlobBuilder::new(&whole).literal_separator(true).backslash_escape(true).build()?);
        }
        Ok(Self { paths, names, globs, compiled: set.build()? })
    }

    /// Those of one file name.
    pub fn named(name: impl Into<OsString>) -> Self {
        Self { names: BTreeSet::from([name.into()]), ..Self::default() }
    }

    /// That of one path.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { paths: BTreeSet::from([path.into()]), ..Self::default() }
    }

    /// Whether a program is among those named in one way.
    pub fn has(&self, who: Who, program: &Path) -> bool {
        match who {
            Who::Any => true,
            Who::Glob => self.compiled.is_match(program),
            Who::Name => program.file_name().is_some_and(|name| self.names.contains(name)),
            Who::Path => self.paths.contains(program),
        }
    }

    /// The bytes of those named by path, and of those named by file name.
    pub(crate) fn literal(&self) -> (impl Iterator<Item = &[u8]>, impl Iterator<Item = &[u8]>) {
        (self.paths.iter().map(|path| path.as_os_str().as_bytes()), self.names.iter().map(|name| name.as_bytes()))
    }

    /// The ways in which it names programs.
    pub fn ways(&self) -> impl Iterator<Item = Who> {
        let ways = [
            (Who::Path, self.paths.is_empty()),
            (Who::Name, self.names.is_empty()),
            (Who::Glob, self.globs.is_empty()),
        ];
        ways.into_iter().filter(|(_, none)| !none).map(|(who, _)| who)
    }

    /// The programs as a policy in TOML has them, before quoting.
    pub fn written(&self) -> Vec<String> {
        let literal = |bytes: &OsStr| text::write(bytes.as_bytes());
        let paths = self.paths.iter().map(|path| literal(path.as_os_str()));
        let names = self.names.iter().map(|name| literal(name));
        paths.chain(names).chain(self.globs.iter().cloned()).collect()
    }

    /// A program of each kind it names, to try a policy with; patterns are left out.
    pub fn samples(&self) -> impl Iterator<Item = PathBuf> {
        self.paths.iter().cloned().chain(self.names.iter().map(|name| Path::new("/").join(name)))
    }
}

impl fmt::Display for Programs {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.written().join(" or "))
    }
}
