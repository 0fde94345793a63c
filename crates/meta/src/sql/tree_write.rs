//! Making folders and writing files.

use super::bonds;
use super::codec::{node_kind_number, signed};
use super::contents;
use super::engine::{Engine, Ops, Scope};
use super::fault::{Done, Fault, refuse};
use super::index;
use super::lock_check::{self, Change};
use super::query as sql;
use super::seam::{Link, Value};
use super::state::SpaceState;
use super::tags;
use super::tx::Tx;
use super::versions;
use super::walk::walk;
use crate::catalogue::{Changed, Guard, Missing};
use crate::types::{NewContent, Node, NodeKind, Tag};
use holdfast_base::{DrivePath, ErrorKind, NodeId, Result, SpaceId};
use std::sync::LazyLock;

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn make_folder(&self, space: SpaceId, path: &DrivePath, guard: &Guard) -> Result<Node> {
        let (path, guard) = (path.clone(), guard.clone());
        self.0.write("make_folder", Scope::Space(space), move |tx| make_folder(tx, space, &path, &guard)).await
    }

    pub(super) async fn commit_file(
        &self,
        space: SpaceId,
        path: &DrivePath,
        content: NewContent,
        modified_ms: i64,
        tags: &[Tag],
        guard: &Guard,
    ) -> Result<std::result::Result<Changed, Missing>> {
        let (path, tags, guard) = (path.clone(), tags.to_vec(), guard.clone());
        let work = move |tx: &Tx<'_>| {
            let mut state = SpaceState::load_for(tx, space, &guard)?;
            let changed = commit_file(tx, &mut state, &path, &content, modified_ms, &guard)?;
            let changed = tags::add_to_written(tx, &mut state, &path, changed, &tags, &guard)?;
            state.save(tx)?;
            Ok(Ok(changed))
        };
        self.0.submit("commit_file", Scope::Space(space), work, missing_is_an_answer).await
    }
}

/// Missing blocks are an answer of their own, not an error.
pub(super) fn missing_is_an_answer<T>(fault: Fault) -> Result<std::result::Result<T, Missing>> {
    match fault {
        Fault::Missing(missing) => Ok(Err(*missing)),
        fault => Err(fault.into()),
    }
}

fn make_folder(tx: &Tx<'_>, space: SpaceId, path: &DrivePath, guard: &Guard) -> Done<Node> {
    let mut state = SpaceState::load_for(tx, space, guard)?;
    let spot = walk(tx, space, state.root, path)?;
    spot.expect(guard.expect)?;
    if spot.node.is_some() {
        return refuse(ErrorKind::AlreadyExists, format!("{path} exists already"));
    }
    let parent = spot.parent()?;
    lock_check::check(tx, &mut state, &spot, Change::Add, guard)?;
    let node = Node {
        id: NodeId(tx.new_id()?),
        space,
        parent: Some(NodeId(parent)),
        name: spot.name().to_owned(),
        kind: NodeKind::Folder,
        content: None,
        size: 0,
        seq: state.next_seq_in([NodeId(parent)]),
        created_ms: guard.now_ms,
        modified_ms: guard.now_ms,
        has_properties: false,
    };
    new_node(tx, &node)?;
    state.save(tx)?;
    Ok(node)
}

/// Makes content the current version of the file at `path`; the caller saves the space's state.
pub(super) fn commit_file(
    tx: &Tx<'_>,
    state: &mut SpaceState,
    path: &DrivePath,
    content: &NewContent,
    modified_ms: i64,
    guard: &Guard,
) -> Done<Changed> {
    let space = state.id;
    let spot = walk(tx, space, state.root, path)?;
    spot.expect(guard.expect)?;
    if spot.node.as_ref().is_some_and(|node| node.kind == NodeKind::Folder) {
        return refuse(ErrorKind::WrongKind, format!("{path} is a folder"));
    }
    let parent = spot.parent()?;
    let change = if spot.node.is_some() { Change::Modify } else { Change::Add };
    lock_check::check(tx, state, &spot, change, guard)?;
    let bytes = contents::insert(tx, state, content)?;
    state.used += signed(bytes.size);
    let seq = state.next_seq_in([NodeId(parent)]);
    if let Some(old) = &spot.node {
        let node = Node { content: bytes.content, size: bytes.size, seq, modified_ms, ..old.clone() };
        versions::supersede(tx, state, old, guard)?;
        set_content(tx, &node)?;
        bonds::follow(tx, state, &node, true, guard)?;
        Ok(Changed { node, created: false })
    } else {
        let node = Node {
            id: NodeId(tx.new_id()?),
            space,
            parent: Some(NodeId(parent)),
            name: spot.name().to_owned(),
            kind: NodeKind::File,
            content: bytes.content,
            size: bytes.size,
            seq,
            created_ms: guard.now_ms,
            modified_ms,
            has_properties: false,
        };
        new_node(tx, &node)?;
        Ok(Changed { node, created: true })
    }
}

/// Inserts a node below a folder.
pub(super) fn new_node(tx: &Tx<'_>, node: &Node) -> Done<()> {
    let parent = node.parent.map_or(0, |parent| parent.0);
    insert_node(tx, parent, &node.name, node)?;
    index::note(tx, node.space, node.id.0)
}

/// Columns of a node's row that are written.
const COLUMNS: usize = 11;
/// Rows of one statement of [`insert_nodes`].
const ROWS: usize = 64;

/// Inserts a node at a key of its own (a root, or below the space's limbo).
pub(super) fn insert_node(tx: &Tx<'_>, parent: i64, name: &str, node: &Node) -> Done<()> {
    static ONE: LazyLock<String> = LazyLock::new(|| insertion(1));
    tx.put(&ONE, &values(parent, name, node))
}

/// Inserts members of a folder. In a database over a network many rows of one statement cost little more than one.
pub(super) fn insert_nodes(tx: &Tx<'_>, parent: i64, nodes: &[Node]) -> Done<()> {
    static MANY: LazyLock<String> = LazyLock::new(|| insertion(ROWS));
    let (many, rest) = nodes.as_chunks::<ROWS>();
    for nodes in many {
        tx.put(&MANY, nodes.each_ref().map(|node| values(parent, &node.name, node)).as_flattened())?;
    }
    rest.iter().try_for_each(|node| insert_node(tx, parent, &node.name, node))?;
    index::note_all(tx, nodes)
}

fn insertion(rows: usize) -> String {
    const INTO: &str =
        "node (parent_id, name, id, space_id, kind, content_id, size, seq, created_ms, modified_ms, has_properties)";
    sql::insertion(INTO, COLUMNS, rows)
}

fn values<'v>(parent: i64, name: &'v str, node: &Node) -> [Value<'v>; COLUMNS] {
    [
        Value::Integer(parent),
        Value::Text(name),
        Value::Integer(node.id.0),
        Value::Integer(node.space.0),
        Value::Integer(node_kind_number(node.kind)),
        node.content.map_or(Value::Null, |content| Value::Integer(content.0)),
        Value::Integer(signed(node.size)),
        Value::Integer(node.seq),
        Value::Integer(node.created_ms),
        Value::Integer(node.modified_ms),
        Value::Integer(node.has_properties.into()),
    ]
}

/// Writes a file's new content, with what changes beside it.
pub(super) fn set_content(tx: &Tx<'_>, node: &Node) -> Done<()> {
    let sql =
        "UPDATE node SET content_id = ?3, size = ?4, seq = ?5, modified_ms = ?6 WHERE parent_id = ?1 AND name = ?2";
    let values = (
        node.parent.map_or(0, |parent| parent.0),
        &node.name,
        node.content.map(|content| content.0),
        signed(node.size),
        node.seq,
        node.modified_ms,
    );
    sql::put(tx, sql, values)?;
    // Whatever it was, to whoever wrote it, it is a file: not a link that leads where the new bytes say.
    sql::put(tx, "UPDATE posix SET kind = 0 WHERE node_id = ?1 AND kind <> 0", [node.id.0])
}
