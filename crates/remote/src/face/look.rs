//! What is at a path, in one call: what a transfer would ask for one after the other, a round trip each.

use super::operate::done;
use super::seat::Seat;
use crate::wire::{LIST_MAX, Seen};
use bytes::Bytes;
use holdfast_auth::Session;
use holdfast_base::{DrivePath, Result};
use holdfast_drive::engine::Engine;
use holdfast_drive::engine::sealed::LAYOUTS_MAX;
use holdfast_drive::{Entry, NodeKind};

/// Goes down a path as far as it is there, and looks at what it finds.
pub(super) async fn look(
    engine: &Engine,
    seat: &Seat,
    who: &Session,
    (path, contents): (&DrivePath, u32),
) -> Result<Bytes> {
    let tree = &seat.tree;
    let mut way: Vec<Entry> = tree.entry(tree.root()).await?.into_iter().collect();
    for name in path.names() {
        let Some(folder) = way.last().filter(|last| last.node.kind == NodeKind::Folder) else { break };
        let Some(found) = tree.lookup(folder.node.id, name).await? else { break };
        way.push(found);
    }
    let found = way.last().filter(|_| way.len() > path.names().len());
    let members = match found.filter(|found| found.node.kind == NodeKind::Folder) {
        Some(folder) => tree.list(folder.node.id, None, LIST_MAX).await?,
        None => Vec::new(),
    };
    let files = members.iter().chain(found).filter_map(|entry| entry.node.content);
    let most = usize::try_from(contents).unwrap_or(LAYOUTS_MAX).min(LAYOUTS_MAX);
    let asked: Vec<_> = files.take(most).collect();
    let contents = if asked.is_empty() { Vec::new() } else { engine.layouts(who, &seat.space, asked).await? };
    Ok(done(Seen { way, members, contents: contents.into_iter().flatten().collect() }))
}
