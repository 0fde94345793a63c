//! Credentials: read from files or the environment, never printed, wiped from memory when dropped.

use holdfast_base::{Error, Result};
use std::fmt;
use std::path::Path;
use zeroize::Zeroizing;

/// A password, key or token.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

/// Files of credentials are a few lines.
const FILE_BYTES_MAX: u64 = 64 << 10;

impl Secret {
    /// Takes over a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The first line of a file.
    pub fn from_file(path: &Path) -> Result<Self> {
        let text = read_file(path)?;
        match text.lines().next().map(str::trim) {
            Some(line) if !line.is_empty() => Ok(Self::new(line)),
            _ => Err(Error::invalid(format!("{} should hold a secret in its first line and is empty", path.display()))),
        }
    }

    /// An environment variable, if it is set to something.
    pub fn from_environment(name: &str) -> Option<Self> {
        std::env::var(name).ok().filter(|value| !value.is_empty()).map(Self::new)
    }

    /// The secret itself.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// The text of a small file with secrets.
pub(crate) fn read_file(path: &Path) -> Result<Zeroizing<String>> {
    let failed = |error: std::io::Error| Error::invalid(format!("{} cannot be read: {error}", path.display()));
    let length = std::fs::metadata(path).map_err(failed)?.len();
    if length > FILE_BYTES_MAX {
        return Err(Error::invalid(format!("{} is too large for a file of credentials", path.display())));
    }
    std::fs::read_to_string(path).map(Zeroizing::new).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_the_first_line_of_its_file_and_is_not_printed() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), "hunter2\nsecond line\n").expect("writes");
        let secret = Secret::from_file(file.path()).expect("reads");
        assert_eq!(secret.reveal(), "hunter2");
        assert!(!format!("{secret:?}").contains("hunter2"));
    }

    #[test]
    fn an_empty_or_missing_file_is_named() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let path = file.path().to_owned();
        let error = Secret::from_file(&path).expect_err("empty");
        assert!(error.message().contains(&path.display().to_string()), "{error}");
        drop(file);
        assert!(Secret::from_file(&path).is_err());
    }
}
