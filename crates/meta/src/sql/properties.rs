//! Dead properties and the modification time.

use super::bonds;
use super::engine::{Engine, Ops, Scope};
use super::fault::{Done, refuse};
use super::index::note;
use super::lock_check::{self, Change};
use super::query as sql;
use super::seam::{Link, Value};
use super::state::SpaceState;
use super::tx::Tx;
use super::walk::walk;
use crate::catalogue::Guard;
use crate::types::{Node, Property, PropertyChange, TAG_NAMESPACE};
use holdfast_base::limits::PROPERTIES_BYTES_MAX;
use holdfast_base::{DrivePath, ErrorKind, NodeId, Result, SpaceId};

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn change_properties(
        &self,
        space: SpaceId,
        path: &DrivePath,
        changes: &[PropertyChange],
        guard: &Guard,
    ) -> Result<Node> {
        let (path, changes, guard) = (path.clone(), changes.to_vec(), guard.clone());
        self.0
            .write("change_properties", Scope::Space(space), move |tx| change(tx, space, &path, &changes, &guard))
            .await
    }
}

/// Dead properties of nodes, in the order asked for; nodes without any are left out.
pub(super) fn of_nodes(link: &dyn Link, nodes: &[NodeId]) -> Done<Vec<(NodeId, Vec<Property>)>> {
    let sql = "SELECT namespace, name, xml FROM property WHERE node_id = ?1 ORDER BY namespace, name";
    let ids: Vec<Value<'_>> = nodes.iter().map(|node| Value::Integer(node.0)).collect();
    let mut found: Vec<(NodeId, Vec<Property>)> = Vec::new();
    link.query_many(sql, 1, &ids, &mut |index, row| {
        let property = Property { namespace: row.get(0)?, name: row.get(1)?, xml: row.get(2)? };
        match (nodes.get(index), found.last_mut()) {
            (Some(node), Some((last, properties))) if last == node => properties.push(property),
            (Some(&node), _) => found.push((node, vec![property])),
            (None, _) => {}
        }
        Ok(())
    })?;
    Ok(found)
}

/// Sets or replaces a property. There is no unique index to lean on: names may be longer than a key of every database.
fn set(tx: &Tx<'_>, node: i64, property: &Property) -> Done<()> {
    let row = (node, &property.namespace, &property.name, &property.xml);
    let sql = "UPDATE property SET xml = ?4 WHERE node_id = ?1 AND namespace = ?2 AND name = ?3";
    if sql::run(tx, sql, row)? == 0 {
        sql::put(tx, "INSERT INTO property (node_id, namespace, name, xml) VALUES (?1, ?2, ?3, ?4)", row)?;
    }
    Ok(())
}

fn change(tx: &Tx<'_>, space: SpaceId, path: &DrivePath, changes: &[PropertyChange], guard: &Guard) -> Done<Node> {
    let mut state = SpaceState::load_for(tx, space, guard)?;
    let spot = walk(tx, space, state.root, path)?;
    spot.expect(guard.expect)?;
    let mut node = spot.existing()?.clone();
    lock_check::check(tx, &mut state, &spot, Change::Modify, guard)?;
    let mut tagged = false;
    for change in changes {
        match change {
            PropertyChange::Set(property) => {
                tagged |= property.namespace == TAG_NAMESPACE;
                set(tx, node.id.0, property)?;
            }
            PropertyChange::Remove { namespace, name } => {
                tagged |= namespace == TAG_NAMESPACE;
                let sql = "DELETE FROM property WHERE node_id = ?1 AND namespace = ?2 AND name = ?3";
                sql::put(tx, sql, (node.id.0, namespace, name))?;
            }
            PropertyChange::Modified(modified_ms) => node.modified_ms = *modified_ms,
        }
    }
    let sql = "SELECT count(*), \
               CAST(coalesce(sum(octet_length(namespace) + octet_length(name) + octet_length(xml)), 0) AS BIGINT) FROM property WHERE node_id = ?1";
    let (count, bytes): (i64, usize) = sql::only(tx, sql, [node.id.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if bytes > PROPERTIES_BYTES_MAX {
        return refuse(
            ErrorKind::TooLarge,
            format!("the properties of {path} would have more than {PROPERTIES_BYTES_MAX} bytes"),
        );
    }
    node.has_properties = count > 0;
    node.seq = state.next_seq_in(node.parent.into_iter().chain([node.id]));
    let sql = "UPDATE node SET modified_ms = ?2, has_properties = ?3, seq = ?4 WHERE id = ?1";
    sql::put(tx, sql, (node.id.0, node.modified_ms, node.has_properties, node.seq))?;
    if changes.iter().any(|change| matches!(change, PropertyChange::Modified(_))) {
        // Properties are of a name, times of the file.
        for other in bonds::others(tx, &state, node.id)? {
            bonds::follow_time(tx, node.modified_ms, &other)?;
            state.is_of_more();
        }
    }
    if tagged {
        note(tx, space, node.id.0)?;
    }
    state.save(tx)?;
    Ok(node)
}
