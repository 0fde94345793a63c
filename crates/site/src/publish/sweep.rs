//! Removing what is no longer needed: snapshots beyond the number kept, content nothing names, what a killed publish left.

use super::index;
use crate::layout::{HISTORY, INCOMING, LIVE, OBJECTS, SNAPSHOTS};
use crate::limits::{HISTORY_MAX, UNREFERENCED_MS};
use crate::settings::Pointer;
use crate::store::Store;
use holdfast_base::{ErrorKind, Result};
use holdfast_drive::{Expect, Node};
use std::collections::BTreeSet;

/// Sweeps, right after a pointer was set: `pointer` and its node's count.
pub(crate) async fn sweep(store: &Store, keep: usize, pointer: &(Pointer, i64), now_ms: i64) -> Result<()> {
    let all = store.members(SNAPSHOTS).await?;
    let (kept, old) = divide(&all, keep, &pointer.0);
    let mut removed = 0;
    for node in old {
        if !still(store, pointer.1).await? {
            return Ok(());
        }
        store.remove(&format!("{SNAPSHOTS}/{}", node.name), Expect::Seq(node.seq)).await?;
        removed += 1;
    }
    removed += sweep_objects(store, &kept, pointer.1, now_ms).await?;
    for node in store.members(INCOMING).await?.into_iter().filter(|node| is_old(node, now_ms)) {
        store.remove(&format!("{INCOMING}/{}", node.name), Expect::Seq(node.seq)).await?;
        removed += 1;
    }
    let history = store.members(HISTORY).await?;
    for node in &history[..history.len().saturating_sub(HISTORY_MAX)] {
        store.remove(&format!("{HISTORY}/{}", node.name), Expect::Any).await?;
        removed += 1;
    }
    if removed > 0 {
        // Only owners may; for others the trash empties itself with time.
        match store.drive.purge_trash(&store.who, &store.space, None).await {
            Err(error) if error.kind() != ErrorKind::Forbidden => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The names of snapshots that are kept, and the nodes of those that are not.
fn divide<'a>(all: &'a [Node], keep: usize, pointer: &Pointer) -> (BTreeSet<&'a str>, Vec<&'a Node>) {
    let named: BTreeSet<&str> = pointer.named().collect();
    let first_kept = all.len().saturating_sub(keep);
    let (mut kept, mut old) = (BTreeSet::new(), Vec::new());
    for (at, node) in all.iter().enumerate() {
        let name = node.name.strip_suffix(".json").unwrap_or(&node.name);
        if at >= first_kept || named.contains(name) {
            kept.insert(name);
        } else {
            old.push(node);
        }
    }
    (kept, old)
}

async fn sweep_objects(store: &Store, kept: &BTreeSet<&str>, seq: i64, now_ms: i64) -> Result<usize> {
    let old: Vec<Node> = store.members(OBJECTS).await?.into_iter().filter(|node| is_old(node, now_ms)).collect();
    if old.is_empty() {
        return Ok(0);
    }
    let mut needed = BTreeSet::new();
    for snapshot in kept {
        needed.extend(
            index(store, snapshot).await?.iter().flat_map(super::Index::objects).map(|object| object.to_string()),
        );
    }
    let mut removed = 0;
    for node in old.iter().filter(|node| !needed.contains(&node.name)) {
        if !still(store, seq).await? {
            break;
        }
        store.remove(&format!("{OBJECTS}/{}", node.name), Expect::Seq(node.seq)).await?;
        removed += 1;
    }
    Ok(removed)
}

/// Whether the pointer still is the one this sweep belongs to.
async fn still(store: &Store, seq: i64) -> Result<bool> {
    Ok(store.walk(LIVE).await?.and_then(|walk| walk.node().map(|node| node.seq)) == Some(seq))
}

fn is_old(node: &Node, now_ms: i64) -> bool {
    now_ms - node.modified_ms > UNREFERENCED_MS
}
