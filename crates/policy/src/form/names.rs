//! How programs are named.

use super::reader::{Reader, Value};
use super::roles::Roles;
use crate::{Programs, text};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

impl Reader<'_> {
    /// The programs of a rule: a role, a path, a file name, a pattern, or a list of the last three.
    pub(super) fn programs(&mut self, value: &Value<'_>, roles: &Roles) -> Option<Arc<Programs>> {
        if let Some(role) = value.get_ref().as_str().and_then(|text| text.strip_prefix('@')) {
            return self.role(&roles.programs, role, "role of programs", value.span());
        }
        self.program_list(value).map(Arc::new)
    }

    /// A list of programs by path, file name and pattern.
    pub(super) fn program_list(&mut self, value: &Value<'_>) -> Option<Programs> {
        let (mut paths, mut names, mut globs) = (Vec::new(), Vec::new(), Vec::new());
        let values = Self::several(value);
        if values.is_empty() {
            self.wrong(value.span(), "a list without programs: such a rule never applies");
            return None;
        }
        for value in values {
            let written = self.text(value, "a program")?;
            let literal = written.strip_prefix(text::LITERAL);
            if literal.is_none() && written.starts_with('@') {
                self.wrong(value.span(), "a role stands alone and not in a list");
            } else if literal.is_none() && text::is_pattern(written) {
                globs.extend(self.program_pattern(written, value));
            } else if literal.unwrap_or(written).contains('/') {
                paths.extend(self.path(written, value.span()));
            } else {
                names.extend(self.program_name(written, value));
            }
        }
        match Programs::new(paths, names, globs) {
            Ok(programs) => Some(programs),
            Err(error) => {
                self.wrong(value.span(), error.to_string());
                None
            }
        }
    }

    fn program_pattern(&mut self, written: &str, value: &Value<'_>) -> Option<String> {
        let path = written.contains('/');
        let pattern =
            self.pattern(if path { written.to_owned() } else { format!("/{written}") }.as_str(), value.span())?;
        Some(if path { pattern } else { written.to_owned() })
    }

    fn program_name(&mut self, written: &str, value: &Value<'_>) -> Option<std::ffi::OsString> {
        // A name is checked as the path it would have in the root.
        let name = match written.strip_prefix(text::LITERAL) {
            Some(literal) => format!("{}/{literal}", text::LITERAL),
            None => format!("/{written}"),
        };
        let path = self.path(&name, value.span())?;
        let file_name = path.file_name().map(|name| OsStr::from_bytes(name.as_bytes()).to_owned());
        if file_name.is_none() {
            self.wrong(value.span(), "a program has a name");
        }
        file_name
    }
}
