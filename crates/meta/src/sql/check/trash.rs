//! What hangs in the limbo of a space: trash with its entry, purged subtrees with theirs, and nothing else.

use super::Checker;
use crate::sql::fault::Done;
use crate::sql::subtree::sizes_of;

pub(super) fn check(checker: &mut Checker<'_>) -> Done<()> {
    entries_without_node(checker)?;
    nodes_without_entry(checker)?;
    sizes(checker)
}

fn entries_without_node(checker: &mut Checker<'_>) -> Done<()> {
    let sql = "SELECT trash.id FROM trash WHERE NOT EXISTS \
               (SELECT 1 FROM node WHERE node.id = node_id AND parent_id = -trash.space_id)";
    for entry in checker.ids(sql)? {
        let sql = "DELETE FROM trash WHERE id = ?1";
        let message = format!("trash entry {entry} has no node in the trash");
        checker.mend("trash-orphan", message, false, sql, [entry], "removed the entry")?;
    }
    Ok(())
}

fn nodes_without_entry(checker: &mut Checker<'_>) -> Done<()> {
    let sql = "SELECT id, space_id, kind, substr(name, 1, 1) = 'g' OR NOT EXISTS (SELECT 1 FROM space WHERE space.id = space_id) \
               FROM node WHERE parent_id < 0 AND NOT EXISTS (SELECT 1 FROM garbage WHERE node_id = node.id) \
               AND NOT EXISTS (SELECT 1 FROM trash WHERE node_id = node.id)";
    let nodes: Vec<(i64, i64, i64, bool)> =
        checker.rows(sql, (), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    for (node, space, kind, purged) in nodes {
        let message = format!("node {node} of space {space} is neither in a folder nor in the trash");
        if purged {
            let sql = "INSERT INTO garbage (node_id) VALUES (?1)";
            checker.mend("node-limbo", message, false, sql, [node], "marked it for removal")?;
            continue;
        }
        let entry = checker.mender.map_or(Ok(0), super::Tx::new_id)?;
        let sql = "INSERT INTO trash (id, space_id, node_id, kind, path, deleted_ms, by_id) \
                   SELECT ?1, ?2, ?3, ?4, ?5, modified_ms, 0 FROM node WHERE id = ?3";
        let path = format!("/recovered-{node}");
        let what = format!("put it into the trash as {path}");
        checker.mend("node-limbo", message, false, sql, (entry, space, node, kind, path), &what)?;
    }
    Ok(())
}

/// Sums kept in entries.
fn sizes(checker: &mut Checker<'_>) -> Done<()> {
    let sql = "SELECT id, node_id, bytes, version_bytes, nodes FROM trash WHERE bytes IS NOT NULL \
               AND EXISTS (SELECT 1 FROM node WHERE node.id = node_id)";
    let mut wrong = Vec::new();
    let mut entries: Vec<(i64, i64, (i64, i64, i64))> = Vec::new();
    checker.each(sql, (), |row| {
        entries.push((row.get(0)?, row.get(1)?, (row.get(2)?, row.get(3)?, row.get(4)?)));
        Ok(())
    })?;
    for (entry, node, kept) in entries {
        let counted = sizes_of(checker.link, node)?;
        if kept != (counted.bytes, counted.version_bytes, counted.nodes) {
            wrong.push(entry);
        }
    }
    for entry in wrong {
        let sql = "UPDATE trash SET bytes = NULL, version_bytes = NULL, nodes = NULL WHERE id = ?1";
        let message = format!("trash entry {entry} does not say rightly what is below it");
        checker.mend("trash-sum", message, false, sql, [entry], "it will be counted anew")?;
    }
    Ok(())
}
