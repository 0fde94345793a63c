//! Nodes: every one hangs below a folder, a root, or a known place of the limbo; its properties and versions belong to it.

use super::Checker;
use crate::sql::fault::Done;
use crate::sql::query as sql;

pub(super) fn check(checker: &mut Checker<'_>) -> Done<()> {
    roots(checker)?;
    orphans(checker)?;
    cycles(checker)?;
    properties(checker)?;
    attributes(checker)?;
    versions(checker)?;
    counts(checker)
}

/// Every space has its root, and nothing else hangs where roots do.
fn roots(checker: &mut Checker<'_>) -> Done<()> {
    let sql = "SELECT space.id, root_id, created_ms FROM space WHERE NOT EXISTS \
               (SELECT 1 FROM node WHERE parent_id = 0 AND name = CAST(space.id AS TEXT) AND id = root_id AND kind = 0)";
    let missing: Vec<(i64, i64, i64)> = checker.rows(sql, (), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    for (space, root, created_ms) in missing {
        let sql = "INSERT INTO node (parent_id, name, id, space_id, kind, size, seq, created_ms, modified_ms, \
                   has_properties) VALUES (0, CAST(?1 AS TEXT), ?2, ?1, 0, 0, 1, ?3, ?3, 0)";
        let message = format!("space {space} has no root folder");
        checker.mend("space-root", message, true, sql, (space, root, created_ms), "made an empty one")?;
    }
    let sql = "SELECT id FROM node WHERE parent_id = 0 AND NOT EXISTS (SELECT 1 FROM space WHERE root_id = node.id) \
               AND NOT EXISTS (SELECT 1 FROM garbage WHERE node_id = node.id)";
    for node in checker.ids(sql)? {
        let sql = "INSERT INTO garbage (node_id) VALUES (?1)";
        let message = format!("node {node} is the root of a space that is gone");
        checker.mend("node-space", message, false, sql, [node], "marked it for removal")?;
    }
    Ok(())
}

/// Nodes without a parent go to the root of their space under a name of their own.
fn orphans(checker: &mut Checker<'_>) -> Done<()> {
    let sql = "SELECT node.id, root_id FROM node LEFT JOIN space ON space.id = space_id WHERE parent_id > 0 \
               AND NOT EXISTS (SELECT 1 FROM node AS folder WHERE folder.id = node.parent_id AND folder.kind = 0)";
    let orphans: Vec<(i64, Option<i64>)> = checker.rows(sql, (), |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (node, root) in orphans {
        let message = format!("node {node} is in a folder that does not exist");
        if let Some(root) = root {
            let name = format!("recovered-{node}");
            let what = format!("put it into the root of its space as {name}");
            let sql = "UPDATE node SET parent_id = ?2, name = ?3 WHERE id = ?1";
            checker.mend("node-parent", message, false, sql, (node, root, name), &what)?;
        } else {
            let repaired = match checker.mender {
                Some(tx) => {
                    let sql = "UPDATE node SET parent_id = -space_id, name = 'g' || CAST(id AS TEXT) WHERE id = ?1";
                    sql::put(tx, sql, [node])?;
                    sql::put(tx, "INSERT INTO garbage (node_id) VALUES (?1) ON CONFLICT DO NOTHING", [node])?;
                    Some("its space is gone: marked it for removal".to_owned())
                }
                None => None,
            };
            checker.found("node-parent", message, false, repaired);
        }
    }
    Ok(())
}

/// What no root leads to, though each has a parent, goes in a circle.
fn cycles(checker: &mut Checker<'_>) -> Done<()> {
    let sql = "WITH RECURSIVE below (id, kind) AS ( \
                   SELECT id, kind FROM node WHERE parent_id <= 0 OR NOT EXISTS \
                       (SELECT 1 FROM node AS folder WHERE folder.id = node.parent_id AND folder.kind = 0) \
                   UNION ALL \
                   SELECT node.id, node.kind FROM below JOIN node ON parent_id = below.id WHERE below.kind = 0) \
               SELECT (SELECT count(*) FROM node) - count(*) FROM below";
    let unreachable = checker.ids(sql)?.first().copied().unwrap_or(0);
    if unreachable != 0 {
        checker.found("node-cycle", format!("{unreachable} nodes cannot be reached from any root"), true, None);
    }
    Ok(())
}

fn properties(checker: &mut Checker<'_>) -> Done<()> {
    let sql = "SELECT DISTINCT node_id FROM property WHERE NOT EXISTS (SELECT 1 FROM node WHERE node.id = node_id)";
    for node in checker.ids(sql)? {
        let sql = "DELETE FROM property WHERE node_id = ?1";
        let message = format!("there are properties of node {node}, which does not exist");
        checker.mend("property-orphan", message, false, sql, [node], "removed them")?;
    }
    let sql = "SELECT id FROM node WHERE has_properties <> \
               CASE WHEN EXISTS (SELECT 1 FROM property WHERE node_id = node.id) THEN 1 ELSE 0 END";
    for node in checker.ids(sql)? {
        let sql = "UPDATE node SET has_properties = \
                   CASE WHEN EXISTS (SELECT 1 FROM property WHERE node_id = node.id) THEN 1 ELSE 0 END WHERE id = ?1";
        let message = format!("node {node} does not say rightly whether it has properties");
        checker.mend("node-properties", message, false, sql, [node], "set it right")?;
    }
    Ok(())
}

/// What a mount knows of a node.
fn attributes(checker: &mut Checker<'_>) -> Done<()> {
    for (table, what) in [("posix", "attributes"), ("xattr", "extended attributes"), ("held", "a hold")] {
        let sql = format!(
            "SELECT DISTINCT node_id FROM {table} WHERE NOT EXISTS (SELECT 1 FROM node WHERE node.id = node_id)"
        );
        for node in checker.ids(&sql)? {
            let sql = format!("DELETE FROM {table} WHERE node_id = ?1");
            let message = format!("there is {what} of node {node}, which does not exist");
            checker.mend("posix-orphan", message, false, &sql, [node], "removed it")?;
        }
    }
    let sql = "SELECT node_id FROM posix WHERE xattrs <> \
               (SELECT count(*) FROM xattr WHERE xattr.node_id = posix.node_id) \
               UNION SELECT node_id FROM xattr WHERE NOT EXISTS (SELECT 1 FROM posix WHERE posix.node_id = xattr.node_id) \
               AND EXISTS (SELECT 1 FROM node WHERE node.id = node_id)";
    for node in checker.ids(sql)? {
        let sql = "INSERT INTO posix (node_id, kind, mode, uid, gid, rdev, atime_ns, mtime_ns, ctime_ns, xattrs) \
                   SELECT ?1, 0, 384, 0, 0, 0, 0, 0, 0, count(*) FROM xattr WHERE node_id = ?1 \
                   ON CONFLICT (node_id) DO UPDATE SET xattrs = excluded.xattrs";
        let message = format!("node {node} does not say rightly how many extended attributes it has");
        checker.mend("posix-xattrs", message, false, sql, [node], "set it right")?;
    }
    Ok(())
}

fn versions(checker: &mut Checker<'_>) -> Done<()> {
    let sql = "SELECT DISTINCT node_id FROM version WHERE NOT EXISTS (SELECT 1 FROM node WHERE node.id = node_id)";
    for node in checker.ids(sql)? {
        let sql = "DELETE FROM version WHERE node_id = ?1";
        let message = format!("there are old versions of node {node}, which does not exist");
        checker.mend("version-orphan", message, false, sql, [node], "removed them")?;
    }
    Ok(())
}

/// A space counts its changes; no node can have changed later.
fn counts(checker: &mut Checker<'_>) -> Done<()> {
    let sql = "SELECT id FROM space WHERE NOT EXISTS (SELECT 1 FROM space_sum WHERE space_id = space.id)";
    for space in checker.ids(sql)? {
        let sql = "INSERT INTO space_sum (space_id, seq, used_bytes, version_bytes, reserved_bytes, raw_bytes, sealed_bytes, \
                   locks, versions_dropped, sweep) VALUES (?1, 1, 0, 0, 0, 0, 0, 0, 0, 1)";
        checker.mend("space-sums", format!("space {space} has no sums"), false, sql, [space], "made them")?;
    }
    let sql = "SELECT node.space_id, max(node.seq) AS latest FROM node JOIN space_sum USING (space_id) \
               GROUP BY node.space_id HAVING max(node.seq) > max(space_sum.seq)";
    let behind: Vec<(i64, i64)> = checker.rows(sql, (), |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (space, latest) in behind {
        let sql = "UPDATE space_sum SET seq = ?2 WHERE space_id = ?1";
        let message = format!("space {space} counted fewer changes than its nodes show");
        checker.mend("space-seq", message, false, sql, (space, latest), "set the count right")?;
    }
    Ok(())
}
