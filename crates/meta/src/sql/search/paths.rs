//! The folders above nodes: whether they lead to a root, what they are called, and which words their names have.
//!
//! Each folder is read once a search, all folders of a level together.

use super::words_in;
use crate::sql::fault::Done;
use crate::sql::query::{self as sql, in_lists};
use crate::sql::seam::Link;
use crate::words::Folded;
use holdfast_base::limits::PATH_DEPTH_MAX;
use std::collections::HashMap;

/// Folders that are read for one query.
const FOLDERS_MAX: usize = 8_192;

#[derive(Debug)]
struct Folder {
    parent: i64,
    name: String,
    /// Words of its name, or of the tree's as far as it is known.
    own: u16,
}

/// Folders that were read.
#[derive(Debug)]
pub(in crate::sql) struct Folders {
    words: Vec<String>,
    known: HashMap<i64, Folder>,
}

impl Folders {
    /// None yet; `words` are those of the query.
    pub(in crate::sql) fn new(words: &[String]) -> Self {
        Self { words: words.to_vec(), known: HashMap::new() }
    }

    /// Reads folders and what is above them; false if they are too many.
    pub(super) fn load(&mut self, link: &dyn Link, folders: &[i64]) -> Done<bool> {
        let mut wanted = folders.to_vec();
        for _ in 0..=PATH_DEPTH_MAX {
            wanted.retain(|id| *id > 0 && !self.known.contains_key(id));
            wanted.sort_unstable();
            wanted.dedup();
            if wanted.is_empty() {
                return Ok(true);
            }
            let room = FOLDERS_MAX.saturating_sub(self.known.len());
            if room == 0 {
                return Ok(false);
            }
            wanted.truncate(room);
            let mut above = Vec::new();
            in_lists(&wanted, |list, ids| {
                let sql = format!("SELECT id, parent_id, name FROM node WHERE id IN ({list})");
                let rows = sql::all(link, &sql, ids, |row| {
                    Ok((row.get::<i64>(0)?, row.get::<i64>(1)?, row.get::<String>(2)?))
                })?;
                for (id, parent, name) in rows {
                    above.push(parent);
                    // A root's name is not its own.
                    let own = if parent > 0 { words_in(&Folded::new(&name), &self.words) } else { 0 };
                    self.known.insert(id, Folder { parent, name, own });
                }
                Ok(())
            })?;
            let complete = wanted.len() < room;
            wanted = above;
            if !complete {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The words in the names from this folder up, if it is in the tree: a chain that ends elsewhere is in the trash, or purged.
    pub(super) fn words(&self, folder: i64) -> Option<u16> {
        let (mut at, mut words) = (folder, 0);
        for _ in 0..=PATH_DEPTH_MAX {
            let folder = self.known.get(&at)?;
            words |= folder.own;
            if folder.parent == 0 {
                return Some(words);
            }
            at = folder.parent;
        }
        None
    }

    /// The same up to one of these folders, if it is below one or none are given: what is above those has no part in it.
    pub(super) fn words_within(&self, folder: i64, roots: Option<&[i64]>) -> Option<u16> {
        let Some(roots) = roots else { return self.words(folder) };
        let (mut at, mut words) = (folder, 0);
        for _ in 0..=PATH_DEPTH_MAX {
            let folder = self.known.get(&at)?;
            words |= folder.own;
            if roots.contains(&at) {
                return self.words(at).map(|_| words);
            }
            at = folder.parent;
        }
        None
    }

    /// The names from the root to this folder, the root's left out.
    pub(super) fn names(&self, folder: i64) -> Vec<&str> {
        let mut names = Vec::new();
        let mut at = self.known.get(&folder);
        while let Some(folder) = at.filter(|folder| folder.parent > 0 && names.len() <= PATH_DEPTH_MAX) {
            names.push(folder.name.as_str());
            at = self.known.get(&folder.parent);
        }
        names.reverse();
        names
    }

    /// Those of the nodes that are in the tree, and below one of `roots` if any are given, in the same order.
    pub(in crate::sql) fn live(&mut self, link: &dyn Link, nodes: &[i64], roots: Option<&[i64]>) -> Done<Vec<i64>> {
        let mut parents: HashMap<i64, i64> = HashMap::new();
        in_lists(nodes, |list, ids| {
            let sql = format!("SELECT id, parent_id FROM node WHERE id IN ({list})");
            parents.extend(sql::all(link, &sql, ids, |row| Ok((row.get::<i64>(0)?, row.get::<i64>(1)?)))?);
            Ok(())
        })?;
        self.load(link, &parents.values().copied().collect::<Vec<_>>())?;
        let is_live = |node: &i64| {
            parents.get(node).is_some_and(|parent| *parent > 0 && self.words_within(*parent, roots).is_some())
        };
        Ok(nodes.iter().copied().filter(is_live).collect())
    }
}
