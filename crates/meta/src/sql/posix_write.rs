//! Making nodes and changing them by number.

use super::bonds;
use super::codec::signed;
use super::contents::{self, Bytes};
use super::engine::{Engine, Ops, Scope};
use super::fault::{Done, Fault, refuse};
use super::lock_check::Change;
use super::posix::{End, for_change, put, touch};
use super::query as sql;
use super::state::SpaceState;
use super::tree_write::{missing_is_an_answer, new_node, set_content};
use super::tx::Tx;
use super::versions;
use crate::catalogue::{Guard, Missing};
use crate::types::{Durable, Entry, NewAttributes, NewEntry, Node, NodeKind, Posix, Rewrite, Special, to_ms};
use holdfast_base::{ErrorKind, NodeId, Result, SpaceId};

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn create_entry(
        &self,
        space: SpaceId,
        new: NewEntry,
        guard: &Guard,
        durable: Durable,
    ) -> Result<std::result::Result<Entry, Missing>> {
        let guard = guard.clone();
        let work = move |tx: &Tx<'_>| create(tx, space, &new, &guard).map(Ok);
        self.0.submit_when("create_entry", Scope::Space(space), work, missing_is_an_answer, durable).await
    }

    pub(super) async fn rewrite(
        &self,
        space: SpaceId,
        rewrite: Rewrite,
        guard: &Guard,
        durable: Durable,
    ) -> Result<std::result::Result<Entry, Missing>> {
        let guard = guard.clone();
        let work = move |tx: &Tx<'_>| rewrite_file(tx, space, &rewrite, &guard).map(Ok);
        self.0.submit_when("rewrite", Scope::Space(space), work, missing_is_an_answer, durable).await
    }

    pub(super) async fn set_attributes(
        &self,
        space: SpaceId,
        node: NodeId,
        change: NewAttributes,
        usual: Posix,
        guard: &Guard,
        durable: Durable,
    ) -> Result<Entry> {
        let guard = guard.clone();
        let work = move |tx: &Tx<'_>| {
            let mut state = SpaceState::load_for(tx, space, &guard)?;
            let entry = change_attributes(tx, &mut state, node, &change, &usual, &guard)?;
            state.save(tx)?;
            Ok(entry)
        };
        self.0.submit_when("set_attributes", Scope::Space(space), work, refusal, durable).await
    }

    pub(super) async fn settle(&self) -> Result<()> {
        self.0.probe().await
    }
}

/// A refusal as an error.
pub(super) fn refusal<T>(fault: Fault) -> Result<T> {
    Err(fault.into())
}

fn create(tx: &Tx<'_>, space: SpaceId, new: &NewEntry, guard: &Guard) -> Done<Entry> {
    let mut state = SpaceState::load_for(tx, space, guard)?;
    let end = End::new(tx, &state, new.parent, &new.name)?;
    let spot = end.spot(tx, &mut state, |_| Change::Add, guard)?;
    if spot.node.is_some() {
        return refuse(ErrorKind::AlreadyExists, format!("{} exists already", spot.path));
    }
    let bytes = contents::insert(tx, &mut state, &new.content)?;
    let entry = add_entry(tx, &mut state, NodeId(tx.new_id()?), new, bytes, guard.now_ms)?;
    touch(tx, new.parent, new.posix.ctime_ns)?;
    state.save(tx)?;
    Ok(entry)
}

/// Adds a node, whose place is free, with content that has its row. The caller notes that the folder changed, and saves the state.
pub(super) fn add_entry(
    tx: &Tx<'_>,
    state: &mut SpaceState,
    id: NodeId,
    new: &NewEntry,
    bytes: Bytes,
    created_ms: i64,
) -> Done<Entry> {
    if new.kind == NodeKind::Folder && (bytes.content.is_some() || new.posix.special != Special::None) {
        return refuse(ErrorKind::InvalidInput, "a folder has no content, and is nothing else");
    }
    state.used += signed(bytes.size);
    let node = Node {
        id,
        space: state.id,
        parent: Some(new.parent),
        name: new.name.as_str().to_owned(),
        kind: new.kind,
        content: bytes.content,
        size: bytes.size,
        seq: state.next_seq_in([new.parent]),
        created_ms,
        modified_ms: to_ms(new.posix.mtime_ns),
        has_properties: false,
    };
    new_node(tx, &node)?;
    put(tx, node.id, &new.posix)?;
    Ok(Entry::new(node, Some(new.posix)))
}

fn rewrite_file(tx: &Tx<'_>, space: SpaceId, rewrite: &Rewrite, guard: &Guard) -> Done<Entry> {
    let mut state = SpaceState::load_for(tx, space, guard)?;
    let old = for_change(tx, &mut state, rewrite.node, guard)?;
    if old.node.kind != NodeKind::File {
        return refuse(ErrorKind::WrongKind, "this is a folder");
    }
    if old.node.content != rewrite.base {
        return refuse(ErrorKind::PreconditionFailed, "the file was changed meanwhile");
    }
    let bytes = contents::insert(tx, &mut state, &rewrite.content)?;
    let entry = replace_content(tx, &mut state, old, rewrite, bytes, guard)?;
    state.save(tx)?;
    Ok(entry)
}

/// Gives a file, which may be changed, content that has its row. The caller saves the state.
pub(super) fn replace_content(
    tx: &Tx<'_>,
    state: &mut SpaceState,
    Entry { node: old, posix, bond }: Entry,
    rewrite: &Rewrite,
    bytes: Bytes,
    guard: &Guard,
) -> Done<Entry> {
    state.used += signed(bytes.size);
    let (content, size, modified_ms) = (bytes.content, bytes.size, to_ms(rewrite.posix.mtime_ns));
    let node = Node { content, size, seq: state.next_seq_in(old.parent), modified_ms, ..old.clone() };
    if rewrite.keep {
        versions::supersede(tx, state, &old, guard)?;
    } else {
        versions::let_go(tx, state, &old)?;
    }
    set_content(tx, &node)?;
    let xattrs = posix.map_or(0, |posix| posix.xattrs);
    let posix = Posix { xattrs, special: Special::None, ..rewrite.posix };
    put(tx, node.id, &posix)?;
    for other in bonds::follow(tx, state, &node, rewrite.keep, guard)? {
        put(tx, other.id, &posix)?;
    }
    Ok(Entry { node, posix: Some(posix), bond })
}

/// Changes attributes. The caller saves the state.
pub(super) fn change_attributes(
    tx: &Tx<'_>,
    state: &mut SpaceState,
    node: NodeId,
    change: &NewAttributes,
    usual: &Posix,
    guard: &Guard,
) -> Done<Entry> {
    let mut entry = for_change(tx, state, node, guard)?;
    let posix = change.of(entry.attributes(usual));
    let node = entry.node.id;
    put(tx, node, &posix)?;
    entry.posix = Some(posix);
    let modified_ms = to_ms(posix.mtime_ns);
    if entry.node.modified_ms != modified_ms {
        entry.node.modified_ms = modified_ms;
        sql::put(tx, "UPDATE node SET modified_ms = ?2 WHERE id = ?1", (node.0, modified_ms))?;
    }
    bonds::follow_attributes(tx, state, &entry)?;
    // Those who follow the space look again; the entity tag of the content stays.
    state.next_seq_in(entry.node.parent.into_iter().chain([entry.node.id]));
    Ok(entry)
}
