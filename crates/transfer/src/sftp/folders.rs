//! Folders below the root, each looked at once: what is passed on the way to something must be a folder, and no link.

use super::item::{self, Sort, sort};
use super::session::Session;
use crate::site::Item;
use holdfast_base::{DrivePath, Error, ErrorKind, NodeName, Result};
use parking_lot::Mutex;
use std::collections::HashSet;

/// Folders that are remembered; then it is begun anew.
const KNOWN_MAX: usize = 16_384;

/// The folder that a site is.
pub(super) struct Root {
    path: String,
    known: Mutex<HashSet<DrivePath>>,
}

impl Root {
    pub(super) fn new(path: &str) -> Self {
        Self { path: path.to_owned(), known: Mutex::default() }
    }

    /// The server's path of something below, whatever is on the way.
    pub(super) fn at(&self, path: &DrivePath) -> String {
        let root = self.path.trim_end_matches('/');
        let path = path.names().iter().fold(root.to_owned(), |path, name| format!("{path}/{name}"));
        if path.is_empty() { "/".into() } else { path }
    }

    /// The server's path of a folder to which no link leads.
    pub(super) async fn folder(&self, session: &Session, path: &DrivePath) -> Result<String> {
        for depth in 1..=path.names().len() {
            let above = DrivePath::from_names(path.names()[..depth].to_vec())?;
            if self.known.lock().contains(&above) {
                continue;
            }
            let at = self.at(&above);
            let attrs = session.look(&at).await?.map_err(|status| status.error("looking at", &at))?;
            if sort(&attrs) != Sort::Folder {
                let what = format!("{at} is no folder, or a symbolic link, which is not followed");
                return Err(Error::new(ErrorKind::WrongKind, what));
            }
            let mut known = self.known.lock();
            if known.len() >= KNOWN_MAX {
                known.clear();
            }
            known.insert(above);
        }
        Ok(self.at(path))
    }

    /// A folder is removed.
    pub(super) fn forget(&self, path: &DrivePath) {
        self.known.lock().remove(path);
    }

    /// The root itself, which has no name in itself.
    pub(super) async fn look(&self, session: &Session) -> Result<Item> {
        let attrs = session.look(&self.at(&DrivePath::root())).await?;
        let attrs = attrs.map_err(|status| status.error("looking at", &self.path))?;
        let name = self.path.rsplit('/').next().and_then(|name| NodeName::new(name).ok());
        item::plain(name.map_or_else(|| NodeName::new("root"), Ok)?, &attrs)
    }
}
