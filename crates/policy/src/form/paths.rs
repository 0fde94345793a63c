//! Paths and patterns in a policy.

use super::reader::{Reader, Value};
use super::{PATH_MAX_BYTES, PATH_MAX_PARTS, PATTERNS_MAX, PATTERNS_MAX_BYTES};
use crate::{Scope, text};
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// How a key says that its path is meant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A tree, or a pattern where there is a wildcard in it.
    Path,
    File,
    Dir,
    Tree,
    Glob,
}

/// The keys of the long form, with what they mean.
pub(super) const KINDS: [(&str, Kind); 5] =
    [("path", Kind::Path), ("file", Kind::File), ("dir", Kind::Dir), ("tree", Kind::Tree), ("glob", Kind::Glob)];

impl Reader<'_> {
    /// Where a rule applies.
    pub(super) fn scope(&mut self, kind: Kind, written: &str, at: Range<usize>) -> Option<Scope> {
        let literal = written.starts_with(text::LITERAL);
        let pattern = kind == Kind::Glob || kind == Kind::Path && !literal && text::is_pattern(written);
        if pattern {
            return self.pattern(written, at).map(Scope::Glob);
        }
        let path = self.path(written, at)?;
        Some(match kind {
            Kind::File => Scope::Exact(path),
            Kind::Dir => Scope::Below(path),
            _ => Scope::Tree(path),
        })
    }

    /// A path: absolute or below the base, as text or as `bytes:`.
    pub(super) fn path(&mut self, written: &str, at: Range<usize>) -> Option<PathBuf> {
        match self.try_path(written) {
            Ok(path) => Some(path),
            Err(text) => {
                self.wrong(at, text);
                None
            }
        }
    }

    /// The path of a value.
    pub(super) fn path_of(&mut self, value: &Value<'_>, what: &str) -> Option<PathBuf> {
        let written = self.text(value, what)?;
        self.path(written, value.span())
    }

    /// The other path of a call, as the call has it: the target of a symbolic link may be relative, and is compared as it is.
    pub(super) fn target(&mut self, written: &str, at: Range<usize>) -> Option<PathBuf> {
        match literal(written).and_then(bounded) {
            Ok(bytes) => Some(PathBuf::from(OsStr::from_bytes(&bytes))),
            Err(text) => {
                self.wrong(at, text);
                None
            }
        }
    }

    /// Said once, of the first that is too many.
    fn too_many_patterns(&mut self, at: Range<usize>) {
        if !std::mem::replace(&mut self.patterns_exceeded, true) {
            self.wrong(
                at,
                format!("a policy has at most {PATTERNS_MAX} patterns, of {PATTERNS_MAX_BYTES} bytes together"),
            );
        }
    }

    fn try_path(&self, written: &str) -> Result<PathBuf, String> {
        let bytes = bounded(literal(written)?)?;
        normal(self.base, &bytes)
    }

    /// A pattern of absolute paths.
    pub(super) fn pattern(&mut self, written: &str, at: Range<usize>) -> Option<String> {
        self.patterns += 1;
        self.pattern_bytes += self.base.as_os_str().len() + written.len();
        if self.patterns > PATTERNS_MAX || self.pattern_bytes > PATTERNS_MAX_BYTES {
            self.too_many_patterns(at);
            return None;
        }
        match try_pattern(self.base, written) {
            Ok(pattern) => Some(pattern),
            Err(text) => {
                self.wrong(at, text);
                None
            }
        }
    }
}

/// Refuses what a shell would expand: nobody does here, and a rule for a path that is not there protects nothing.
fn expanded_by_nobody(written: &str) -> Result<(), String> {
    let variable = written.match_indices('$').any(|(at, _)| {
        let next = written[at + 1..].chars().next();
        !written[..at].ends_with('\\')
            && next.is_some_and(|next| next == '{' || next == '_' || next.is_ascii_alphabetic())
    });
    if written.starts_with('~') || variable {
        let how = "write the path out, or begin it with `bytes:` if it is really called so";
        return Err(format!("`~` and `$NAME` are not expanded in a policy: {how}"));
    }
    Ok(())
}

/// The bytes of a name that is written as text or as `bytes:`.
fn literal(written: &str) -> Result<Vec<u8>, String> {
    if let Some(literal) = written.strip_prefix(text::LITERAL) {
        return text::read_literal(literal);
    }
    expanded_by_nobody(written)?;
    Ok(written.as_bytes().to_vec())
}

/// What can be a path at all.
fn bounded(bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    if bytes.is_empty() {
        return Err("an empty path names nothing".into());
    }
    if bytes.contains(&0) {
        return Err("no path has a NUL in it".into());
    }
    if bytes.len() > PATH_MAX_BYTES {
        return Err(format!("{} bytes are more than the {PATH_MAX_BYTES} a path may have", bytes.len()));
    }
    Ok(bytes)
}

/// A path without `.`, double slashes and one at the end.
fn normal(base: &Path, bytes: &[u8]) -> Result<PathBuf, String> {
    let path = Path::new(OsStr::from_bytes(bytes));
    if path.is_relative() && base.is_relative() {
        return Err("a relative path, and there is no folder it could begin at".into());
    }
    let whole = base.join(path);
    if whole.as_os_str().len() > PATH_MAX_BYTES {
        return Err(format!("{} bytes are more than the {PATH_MAX_BYTES} a path may have", whole.as_os_str().len()));
    }
    if whole.components().count() > PATH_MAX_PARTS {
        return Err(format!("more than the {PATH_MAX_PARTS} parts a path may have"));
    }
    let mut normal = PathBuf::from("/");
    for part in whole.components() {
        match part {
            std::path::Component::Normal(name) => normal.push(name),
            std::path::Component::ParentDir => {
                return Err("`..` in a path: where it leads depends on symbolic links; write the path out".into());
            }
            _ => {}
        }
    }
    Ok(normal)
}

fn try_pattern(base: &Path, written: &str) -> Result<String, String> {
    if written.starts_with(text::LITERAL) {
        return Err("`bytes:` makes a name literal, and a pattern is none; use `file`, `dir` or `tree`".into());
    }
    expanded_by_nobody(written)?;
    if written.contains('\0') {
        return Err("no path has a NUL in it".into());
    }
    let whole = if written.starts_with('/') {
        written.to_owned()
    } else {
        let base = base.to_str().filter(|_| base.is_absolute());
        let base = base.ok_or("a relative pattern, and no folder in UTF-8 it could begin at")?;
        format!("{}/{written}", globset::escape(base.trim_end_matches('/')))
    };
    if whole.len() > PATH_MAX_BYTES {
        return Err(format!("{} bytes are more than the {PATH_MAX_BYTES} a pattern may have", whole.len()));
    }
    let parts: Vec<_> = whole.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") {
        return Err("`..` in a pattern matches nothing; write the path out".into());
    }
    if parts.len() > PATH_MAX_PARTS {
        return Err(format!("more than the {PATH_MAX_PARTS} parts a pattern may have"));
    }
    if parts.is_empty() {
        return Err("an empty pattern matches nothing".into());
    }
    let normal = format!("/{}", parts.join("/"));
    globset::GlobSet::new([crate::index::compile(&normal).map_err(|error| format!("{error}"))?])
        .map_err(|error| format!("{error}"))?;
    Ok(normal)
}
