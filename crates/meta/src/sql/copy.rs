//! Copying: O(nodes), and no content is touched but for its reference count.
//!
//! The copy grows in the space's limbo and takes its place when it is whole. So a folder can be copied into itself (the copy
//! is never part of what is walked), and what is replaced at the destination may be part of what was copied.

use super::codec::{self, node_columns, signed};
use super::contents;
use super::engine::{Engine, Ops, Scope};
use super::fault::Done;
use super::index::note;
use super::posix;
use super::query as sql;
use super::relocate::{both_ends, check_destination};
use super::remove::discard;
use super::state::SpaceState;
use super::tags;
use super::tree_write::{insert_node, insert_nodes};
use super::tx::Tx;
use crate::catalogue::{Changed, Guard, Relocation};
use crate::types::{Node, NodeKind};
use holdfast_base::{NodeId, Result};

/// Members read from a folder at once, so that a folder of any size takes bounded memory.
const MEMBERS: usize = 256;

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn copy(&self, relocation: &Relocation, guard: &Guard) -> Result<Changed> {
        let (relocation, guard) = (relocation.clone(), guard.clone());
        self.0.write("copy", Scope::Space(relocation.space), move |tx| copy(tx, &relocation, &guard)).await
    }
}

fn copy(tx: &Tx<'_>, relocation: &Relocation, guard: &Guard) -> Done<Changed> {
    let mut state = SpaceState::load_for(tx, relocation.space, guard)?;
    let (source, destination) = both_ends(tx, &state, relocation, guard)?;
    let to = destination.parent()?;
    check_destination(tx, &mut state, &destination, guard)?;
    let seq = state.next_seq();
    let mut copier = Copier { tx, state: &mut state, seq, now_ms: guard.now_ms, folders: Vec::new() };
    let original = source.existing()?;
    let limbo = copier.state.limbo();
    contents::add_refs(tx, original.content.into_iter())?;
    let top = copier.one(original)?;
    posix::copy(tx, std::iter::once((original.id, top.id)))?;
    insert_node(tx, limbo, &format!("m{}", top.id), &top)?;
    note(tx, top.space, top.id.0)?;
    if relocation.deep {
        copier.below()?;
    }
    let created = destination.node.is_none();
    if !created {
        discard(tx, &mut state, &destination, guard)?;
    }
    let node = Node { parent: Some(NodeId(to)), name: destination.name().to_owned(), ..top };
    sql::put(tx, "UPDATE node SET parent_id = ?2, name = ?3 WHERE id = ?1", (node.id.0, to, &node.name))?;
    let changed = Changed { node, created };
    let changed = tags::add_to_written(tx, &mut state, &relocation.to, changed, &relocation.tags, guard)?;
    state.save(tx)?;
    Ok(changed)
}

struct Copier<'c, 't> {
    tx: &'c Tx<'t>,
    state: &'c mut SpaceState,
    seq: i64,
    now_ms: i64,
    /// Folders whose members are still to be copied: original and copy.
    folders: Vec<(i64, i64)>,
}

impl Copier<'_, '_> {
    /// The copy of a node whose content was counted, with its properties, without what is below it. Its row and attributes are for the caller to insert.
    fn one(&mut self, original: &Node) -> Done<Node> {
        let id = self.tx.new_id()?;
        let node = Node { id: NodeId(id), parent: None, seq: self.seq, created_ms: self.now_ms, ..original.clone() };
        self.state.used += signed(original.size);
        if original.has_properties {
            let sql = "INSERT INTO property (node_id, namespace, name, xml) \
                       SELECT ?2, namespace, name, xml FROM property WHERE node_id = ?1";
            sql::put(self.tx, sql, (original.id.0, id))?;
        }
        if original.kind == NodeKind::Folder {
            self.folders.push((original.id.0, id));
        }
        Ok(node)
    }

    /// Copies what is below the folders copied so far. Gives up as soon as it is over quota.
    fn below(&mut self) -> Done<()> {
        while let Some((original, copy)) = self.folders.pop() {
            let mut after = String::new();
            loop {
                let sql = concat!(
                    "SELECT ",
                    node_columns!(),
                    " FROM node WHERE parent_id = ?1 AND name > ?2 ORDER BY name LIMIT ?3"
                );
                let members = sql::all(self.tx, sql, (original, &after, codec::rows(MEMBERS)), codec::node)?;
                contents::add_refs(self.tx, members.iter().filter_map(|member| member.content))?;
                let copies = members.iter().map(|member| self.one(member)).collect::<Done<Vec<Node>>>()?;
                insert_nodes(self.tx, copy, &copies)?;
                posix::copy(self.tx, members.iter().map(|member| member.id).zip(copies.iter().map(|copy| copy.id)))?;
                self.state.admit(self.tx)?;
                match members.into_iter().next_back() {
                    Some(last) => after = last.name,
                    None => break,
                }
            }
        }
        Ok(())
    }
}
