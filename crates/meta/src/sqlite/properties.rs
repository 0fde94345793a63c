//! Dead properties and the modification time.

use super::SqliteCatalogue;
use super::fault::{Done, refuse};
use super::lock_check::{self, Change};
use super::sql;
use super::state::SpaceState;
use super::tx::Tx;
use super::walk::walk;
use crate::catalogue::Guard;
use crate::types::{Node, Property, PropertyChange};
use holdfast_base::limits::PROPERTIES_BYTES_MAX;
use holdfast_base::{DrivePath, ErrorKind, NodeId, Result, SpaceId};
use rusqlite::Connection;

impl SqliteCatalogue {
    pub(super) async fn change_properties_op(
        &self,
        space: SpaceId,
        path: &DrivePath,
        changes: &[PropertyChange],
        guard: &Guard,
    ) -> Result<Node> {
        let (path, changes, guard) = (path.clone(), changes.to_vec(), guard.clone());
        self.writer().submit("change_properties", move |tx| change(tx, space, &path, &changes, &guard)).await
    }
}

/// Dead properties of nodes, in the order asked for; nodes without any are left out.
pub(super) fn of_nodes(connection: &Connection, nodes: &[NodeId]) -> Done<Vec<(NodeId, Vec<Property>)>> {
    let mut found = Vec::new();
    for &node in nodes {
        let sql = "SELECT namespace, name, xml FROM property WHERE node_id = ?1 ORDER BY namespace, name";
        let properties = sql::all(connection, sql, [node.0], |row| {
            Ok(Property { namespace: row.get(0)?, name: row.get(1)?, xml: row.get(2)? })
        })?;
        if !properties.is_empty() {
            found.push((node, properties));
        }
    }
    Ok(found)
}

fn change(tx: &Tx<'_>, space: SpaceId, path: &DrivePath, changes: &[PropertyChange], guard: &Guard) -> Done<Node> {
    let mut state = SpaceState::load(tx, space)?;
    let spot = walk(tx, space, state.root, path)?;
    spot.expect(guard.expect)?;
    let mut node = spot.existing()?.clone();
    lock_check::check(tx, &mut state, &spot, Change::Modify, guard)?;
    for change in changes {
        match change {
            PropertyChange::Set(property) => {
                let sql = "INSERT INTO property (node_id, namespace, name, xml) VALUES (?1, ?2, ?3, ?4) \
                           ON CONFLICT (node_id, namespace, name) DO UPDATE SET xml = excluded.xml";
                sql::run(tx, sql, (node.id.0, &property.namespace, &property.name, &property.xml))?;
            }
            PropertyChange::Remove { namespace, name } => {
                let sql = "DELETE FROM property WHERE node_id = ?1 AND namespace = ?2 AND name = ?3";
                sql::run(tx, sql, (node.id.0, namespace, name))?;
            }
            PropertyChange::Modified(modified_ms) => node.modified_ms = *modified_ms,
        }
    }
    let sql = "SELECT count(*), coalesce(sum(length(CAST(namespace AS BLOB)) + length(CAST(name AS BLOB)) + \
               length(CAST(xml AS BLOB))), 0) FROM property WHERE node_id = ?1";
    let (count, bytes): (i64, usize) = sql::only(tx, sql, [node.id.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if bytes > PROPERTIES_BYTES_MAX {
        return refuse(
            ErrorKind::TooLarge,
            format!("the properties of {path} would have more than {PROPERTIES_BYTES_MAX} bytes"),
        );
    }
    node.has_properties = count > 0;
    node.seq = state.next_seq();
    let sql = "UPDATE node SET modified_ms = ?2, has_properties = ?3, seq = ?4 WHERE id = ?1";
    sql::run(tx, sql, (node.id.0, node.modified_ms, node.has_properties, node.seq))?;
    state.save(tx)?;
    Ok(node)
}
