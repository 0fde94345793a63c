//! Folders that a program changes without changing them: what it did is kept apart, to be looked at, made true, or forgotten.

use holdfast_base::{Error, ErrorKind, Result};
use holdfast_sandbox::layer::{self, Change, Changes, LayerError};
use std::io::Write;
use std::path::PathBuf;

/// A folder whose changes are kept apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// The folder, which stays as it is.
    pub path: PathBuf,
    /// An existing folder, outside of the other, for what is changed.
    pub changes: PathBuf,
}

/// What was changed, in the order of the paths.
///
/// # Errors
/// `Conflict` while a program runs with it.
pub fn changes(copy: &Copy) -> Result<Vec<Change>> {
    Changes::read(&copy.path, &copy.changes).map_err(failed)
}

/// Makes the changes in the folder itself, durably, and forgets them; says what was changed. Killed at any point, it can be run again and finishes.
///
/// # Errors
/// `Conflict` while a program runs with it.
pub fn commit(copy: &Copy) -> Result<Vec<Change>> {
    layer::commit(&copy.path, &copy.changes).map_err(failed)
}

/// Writes the changes as an archive in the form of a layer of an image (OCI image layer specification): tar, with whiteouts for what is gone.
///
/// # Errors
/// `Conflict` while a program runs with it.
pub fn patch(copy: &Copy, to: &mut impl Write) -> Result<()> {
    layer::patch(&copy.path, &copy.changes, to).map_err(failed)
}

/// Forgets the changes.
///
/// # Errors
/// `Conflict` while a program runs with it.
pub fn discard(copy: &Copy) -> Result<()> {
    layer::discard(&copy.changes).map_err(failed)
}

#[expect(clippy::needless_pass_by_value, reason = "it is for map_err")]
fn failed(error: LayerError) -> Error {
    let kind = match &error {
        LayerError::Used(_) => ErrorKind::Conflict,
        LayerError::TooMany(_) => ErrorKind::TooLarge,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, error.to_string())
}
