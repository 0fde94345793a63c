//! Bonds: nodes of one are files of its space, in the tree, with one content and one set of attributes; and a number means one file.
//!
//! What is left of a space that is gone goes as it is.
//!
//! A name that does not fit with the others is made a file of its own, with the content it has: nothing is lost by that.

use super::Checker;
use crate::sql::bonds::part;
use crate::sql::fault::Done;
use crate::sql::query as sql;
use holdfast_base::{NodeId, SpaceId};

pub(super) fn check(checker: &mut Checker<'_>) -> Done<()> {
    orphans(checker)?;
    removed(checker)?;
    contents(checker)?;
    attributes(checker)?;
    numbers(checker)?;
    alone(checker)
}

fn orphans(checker: &mut Checker<'_>) -> Done<()> {
    let sql = "SELECT node_id FROM bond WHERE NOT EXISTS \
               (SELECT 1 FROM node WHERE node.id = bond.node_id AND node.space_id = bond.space_id AND kind = 1)";
    for node in checker.ids(sql)? {
        let sql = "DELETE FROM bond WHERE node_id = ?1";
        let message = format!("node {node} is no file of its space, and is said to be a name of one");
        checker.mend("bond-orphan", message, false, sql, [node], "removed that")?;
    }
    Ok(())
}

/// What is not in the tree has left its bond.
fn removed(checker: &mut Checker<'_>) -> Done<()> {
    let sql = "WITH RECURSIVE below (id, kind) AS ( \
                   SELECT id, kind FROM node WHERE parent_id < 0 \
                   UNION ALL SELECT node.id, node.kind FROM below JOIN node ON parent_id = below.id WHERE below.kind = 0) \
               SELECT below.id, bond.space_id FROM below JOIN bond ON bond.node_id = below.id WHERE EXISTS \
                   (SELECT 1 FROM bond AS other WHERE other.space_id = bond.space_id AND other.bond_id = bond.bond_id \
                    AND other.node_id <> bond.node_id) AND EXISTS (SELECT 1 FROM space WHERE space.id = bond.space_id)";
    for (node, space) in checker.rows(sql, (), |row| Ok((row.get(0)?, row.get(1)?)))? {
        let message = format!("node {node} was removed, and is a name of a file that has others");
        leaves(checker, "bond-removed", message, (node, space))?;
    }
    Ok(())
}

/// A name of a file: its bond, space and node, and the content it has.
type Name = (i64, i64, i64, Option<i64>);

fn contents(checker: &mut Checker<'_>) -> Done<()> {
    let sql = "SELECT bond.bond_id, bond.space_id, node.id, content_id FROM bond JOIN node ON node.id = bond.node_id \
               ORDER BY bond.space_id, bond.bond_id, node.seq DESC, node.id";
    let (mut first, mut differ): (Option<Name>, Vec<(i64, i64)>) = (None, Vec::new());
    checker.each(sql, (), |row| {
        let name: Name = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        match first {
            Some((bond, space, _, content)) if (bond, space) == (name.0, name.1) => {
                if content != name.3 {
                    differ.push((name.2, space));
                }
            }
            _ => first = Some(name),
        }
        Ok(())
    })?;
    for (node, space) in differ {
        let message = format!("node {node} has not the content of the file that it is a name of");
        leaves(checker, "bond-content", message, (node, space))?;
    }
    Ok(())
}

/// Notes a finding about a name; repair makes it a file of its own.
fn leaves(checker: &mut Checker<'_>, code: &str, message: String, (node, space): (i64, i64)) -> Done<()> {
    let repaired = match checker.mender {
        Some(tx) => {
            part(tx, SpaceId(space), NodeId(node))?;
            Some("made it a file of its own".to_owned())
        }
        None => None,
    };
    checker.found(code, message, false, repaired);
    Ok(())
}

fn attributes(checker: &mut Checker<'_>) -> Done<()> {
    let columns = ["kind", "mode", "uid", "gid", "rdev", "atime_ns", "mtime_ns", "ctime_ns", "xattrs"];
    let differ = columns.map(|column| format!("own.{column} IS DISTINCT FROM first.{column}")).join(" OR ");
    let sql = format!(
        "SELECT bond.node_id, head.node_id FROM (SELECT space_id, bond_id, min(node_id) AS node_id FROM bond \
             GROUP BY space_id, bond_id HAVING count(*) > 1) AS head \
         JOIN bond ON bond.space_id = head.space_id AND bond.bond_id = head.bond_id AND bond.node_id <> head.node_id \
         JOIN node AS mine ON mine.id = bond.node_id JOIN node AS theirs ON theirs.id = head.node_id \
         LEFT JOIN posix AS own ON own.node_id = bond.node_id LEFT JOIN posix AS first ON first.node_id = head.node_id \
         WHERE mine.modified_ms <> theirs.modified_ms OR {differ} \
             OR EXISTS (SELECT name, value FROM xattr WHERE node_id = mine.id \
                 EXCEPT SELECT name, value FROM xattr WHERE node_id = theirs.id) \
             OR EXISTS (SELECT name, value FROM xattr WHERE node_id = theirs.id \
                 EXCEPT SELECT name, value FROM xattr WHERE node_id = mine.id)"
    );
    let differ: Vec<(i64, i64)> = checker.rows(&sql, (), |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (node, other) in differ {
        let repaired = match checker.mender {
            Some(tx) => {
                let columns = columns.join(", ");
                for (table, columns) in [("posix", columns.as_str()), ("xattr", "name, value")] {
                    sql::put(tx, &format!("DELETE FROM {table} WHERE node_id = ?1"), [node])?;
                    let sql = format!(
                        "INSERT INTO {table} (node_id, {columns}) SELECT ?1, {columns} FROM {table} WHERE node_id = ?2"
                    );
                    sql::put(tx, &sql, (node, other))?;
                }
                let sql = "UPDATE node SET modified_ms = (SELECT modified_ms FROM node AS other WHERE other.id = ?2) WHERE id = ?1";
                sql::put(tx, sql, (node, other))?;
                Some(format!("took those of node {other}"))
            }
            None => None,
        };
        let message = format!("node {node} has not the attributes of node {other}, though they are one file");
        checker.found("bond-attributes", message, false, repaired);
    }
    Ok(())
}

/// The number of a file is that of one of its nodes, or of none.
fn numbers(checker: &mut Checker<'_>) -> Done<()> {
    let sql = "SELECT DISTINCT space_id, bond_id FROM bond WHERE EXISTS (SELECT 1 FROM node WHERE node.id = bond_id) AND NOT EXISTS \
               (SELECT 1 FROM bond AS own WHERE own.node_id = bond.bond_id AND own.bond_id = bond.bond_id)";
    let taken: Vec<(i64, i64)> = checker.rows(sql, (), |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (space, number) in taken {
        let new = checker.mender.map_or(Ok(0), super::Tx::new_id)?;
        let sql = "UPDATE bond SET bond_id = ?3 WHERE space_id = ?1 AND bond_id = ?2";
        let message = format!("a file is known by the number {number}, which another has");
        let what = format!("gave it the number {new}");
        checker.mend("bond-number", message, false, sql, (space, number, new), &what)?;
    }
    Ok(())
}

/// Who has no other name, and the number of its own, needs no bond.
fn alone(checker: &mut Checker<'_>) -> Done<()> {
    let sql = "SELECT node_id FROM bond WHERE node_id = bond_id AND NOT EXISTS (SELECT 1 FROM bond AS other \
               WHERE other.space_id = bond.space_id AND other.bond_id = bond.bond_id AND other.node_id <> bond.node_id) \
               AND EXISTS (SELECT 1 FROM space WHERE space.id = bond.space_id)";
    for node in checker.ids(sql)? {
        let sql = "DELETE FROM bond WHERE node_id = ?1";
        let message = format!("node {node} is a name of a file with others, and there are none");
        checker.mend("bond-alone", message, false, sql, [node], "made it an ordinary file")?;
    }
    Ok(())
}
