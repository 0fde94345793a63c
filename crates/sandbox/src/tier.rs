//! Without namespaces.

use crate::error::Error;
use crate::sandbox::Sandbox;

pub(crate) fn refuse(_sandbox: &Sandbox) -> Error {
    Error::NeedsNamespaces(Vec::new())
}
