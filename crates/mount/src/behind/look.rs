//! What there is, with what waits: look-ups, listings, and what has to be known before a change is answered.

use super::view::Child;
use super::{ABSENT, ABSENT_MAX, Shared, key_of};
use holdfast_base::limits::PATH_DEPTH_MAX;
use holdfast_base::{Error, NodeId, NodeName, Result};
use holdfast_drive::Entry;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Members of a folder that are asked for at a time to see whether there is one.
const LOOKED_AT: usize = 64;

impl Shared {
    /// What a node is; `opens` is whether that is asked to open it.
    pub(super) async fn entry(&self, node: NodeId, opens: bool) -> Result<Option<Entry>> {
        let touched = {
            let state = self.state.lock();
            if let Some(entry) = state.view.shown(node) {
                return Ok(Some(entry));
            }
            if state.view.is_gone(node) {
                return Ok(None);
            }
            state.view.touched(node)
        };
        let mut entry = if opens { self.inner.entry_to_open(node).await? } else { self.inner.entry(node).await? };
        if let (Some(entry), Some(touched)) = (&mut entry, touched) {
            touched.show(entry);
        }
        Ok(entry)
    }

    pub(super) async fn lookup(&self, folder: NodeId, name: &NodeName) -> Result<Option<Entry>> {
        let now = self.inner.unchanged();
        {
            let state = self.state.lock();
            match state.view.child(folder, name.as_str()) {
                Child::Is(entry) => return Ok(Some(entry)),
                Child::IsNone => return Ok(None),
                Child::Unknown if state.fresh.lacks(folder, key_of(folder, name.as_str()), now) => return Ok(None),
                Child::Unknown => {}
            }
        }
        let generation = self.generation(folder).load(Ordering::Acquire);
        let found = self.inner.lookup(folder, name).await?;
        let mut state = self.state.lock();
        if let Some(mut entry) = found {
            if let Some(waiting) = state.view.entry(entry.node.id) {
                // It was put beside another file, and more of it waits.
                let mut waiting = waiting.clone();
                (waiting.node.parent, waiting.node.name) = (entry.node.parent, entry.node.name);
                entry = waiting;
            }
            state.view.show(&mut entry);
            return Ok(Some(entry));
        }
        if self.generation(folder).load(Ordering::Acquire) == generation {
            if state.absent.len() >= ABSENT_MAX {
                state.absent.clear();
            }
            state.absent.insert(key_of(folder, name.as_str()), Instant::now());
        }
        Ok(None)
    }

    /// Whether a name is taken, as far as it was asked for a moment ago.
    pub(super) async fn is_taken(&self, folder: NodeId, name: &NodeName) -> Result<bool> {
        {
            let mut state = self.state.lock();
            let asked = state.absent.remove(&key_of(folder, name.as_str()));
            if asked.is_some_and(|asked| asked.elapsed() < ABSENT) {
                return Ok(matches!(state.view.child(folder, name.as_str()), Child::Is(_)));
            }
        }
        Ok(self.lookup(folder, name).await?.is_some())
    }

    /// A name in a folder may mean something from now on.
    pub(super) fn may_be_named(&self, folder: NodeId, name: &NodeName) {
        self.changes(folder);
        self.state.lock().named(folder, name);
    }

    /// Up to `limit` members of a folder after a name.
    pub(super) async fn list(&self, folder: NodeId, after: Option<&NodeName>, limit: usize) -> Result<Vec<Entry>> {
        // What waits is asked first: what is handed over meanwhile is in both rather than in none.
        let (waiting, is_new) = {
            let state = self.state.lock();
            (state.view.members(folder, after, limit), state.view.is_new(folder))
        };
        let (mut found, mut last) = (BTreeMap::new(), after.cloned());
        // Of one that is new, the catalogue has nothing that is not here as well.
        let mut more = !is_new;
        while more {
            let there = self.inner.list(folder, last.as_ref(), limit).await?;
            let is_end = there.len() < limit;
            last = there.last().map(|entry| NodeName::new(&entry.node.name)).transpose()?;
            let state = self.state.lock();
            for mut entry in there {
                if !waiting.contains_key(&entry.node.name) {
                    state.view.show(&mut entry);
                    found.insert(entry.node.name.clone(), entry);
                }
            }
            drop(state);
            // Of a page, some may be gone here.
            more = !is_end && found.len() < limit;
        }
        if waiting.is_empty() {
            return Ok(found.into_values().collect());
        }
        // Beyond what was asked for, the next page tells: up to there all names are known.
        let end = if found.len() >= limit { found.keys().next_back().cloned() } else { None };
        for (name, entry) in waiting {
            if let Some(entry) = entry.filter(|_| end.as_ref().is_none_or(|end| name <= *end)) {
                found.insert(name, entry);
            }
        }
        Ok(found.into_values().take(limit).collect())
    }

    /// Whether a folder has no members.
    pub(super) async fn is_empty(&self, folder: NodeId) -> Result<bool> {
        if self.state.lock().view.has_members(folder) {
            return Ok(false);
        }
        Ok(self.list(folder, None, LOOKED_AT).await?.is_empty())
    }

    /// Whether a folder is another one, or below it.
    pub(super) async fn is_below(&self, folder: NodeId, other: NodeId) -> Result<bool> {
        let (root, mut at) = (self.inner.root(), folder);
        for _ in 0..=PATH_DEPTH_MAX {
            if at == other {
                return Ok(true);
            }
            if at == root {
                return Ok(false);
            }
            let entry = self.entry(at, false).await?;
            let parent = entry.and_then(|entry| entry.node.parent);
            at = parent.ok_or_else(|| Error::not_found("the folder was removed"))?;
        }
        Err(Error::damaged("folders of the drive contain each other; run holdfast check"))
    }
}
