//! Extended attributes: small values by name, of any node.

use super::bonds;
use super::engine::{Engine, Ops, Scope};
use super::fault::{Done, refuse};
use super::posix::{for_change, put};
use super::posix_write::refusal;
use super::query as sql;
use super::seam::Link;
use super::state::SpaceState;
use super::tx::Tx;
use crate::catalogue::Guard;
use crate::types::{Durable, Entry, Posix, XATTRS_BYTES_MAX, XattrRule};
use holdfast_base::{Error, ErrorKind, NodeId, Result, SpaceId};

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn set_xattr(
        &self,
        space: SpaceId,
        node: NodeId,
        (name, value, rule): (String, Option<Vec<u8>>, XattrRule),
        (usual, now_ns): (Posix, i64),
        guard: &Guard,
    ) -> Result<Entry> {
        let guard = guard.clone();
        let work = move |tx: &Tx<'_>| {
            let mut state = SpaceState::load_for(tx, space, &guard)?;
            let mut entry = for_change(tx, &mut state, node, &guard)?;
            let xattrs = set(tx, entry.node.id, &name, value.as_deref(), rule)?;
            let posix = Posix { xattrs, ctime_ns: now_ns, ..entry.attributes(&usual) };
            put(tx, entry.node.id, &posix)?;
            entry.posix = Some(posix);
            for other in bonds::follow_attributes(tx, &mut state, &entry)? {
                write(tx, other.id, &name, value.as_deref())?;
            }
            state.next_seq_in(entry.node.parent.into_iter().chain([entry.node.id]));
            state.save(tx)?;
            Ok(entry)
        };
        self.0.submit_when("set_xattr", Scope::Space(space), work, refusal, Durable::Soon).await
    }
}

/// All of a node, by name.
pub(super) fn of_node(link: &dyn Link, node: NodeId) -> Done<Vec<(String, Vec<u8>)>> {
    let sql = "SELECT name, value FROM xattr WHERE node_id = ?1 ORDER BY name";
    sql::all(link, sql, [node.0], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Sets or removes one; answers how many there are then.
fn set(tx: &Tx<'_>, node: NodeId, name: &str, value: Option<&[u8]>, rule: XattrRule) -> Done<u32> {
    let all = of_node(tx, node)?;
    let there = all.iter().any(|(other, _)| other == name);
    let count = u32::try_from(all.len()).unwrap_or(u32::MAX);
    let Some(value) = value else {
        if !there {
            return Err(Error::not_found("there is no such extended attribute").into());
        }
        write(tx, node, name, None)?;
        return Ok(count - 1);
    };
    match rule {
        XattrRule::Create if there => return refuse(ErrorKind::AlreadyExists, "the extended attribute exists already"),
        XattrRule::Replace if !there => return Err(Error::not_found("there is no such extended attribute").into()),
        _ => {}
    }
    let others = all.iter().filter(|(other, _)| other != name);
    let bytes: usize = others.map(|(name, value)| name.len() + value.len()).sum();
    if bytes + name.len() + value.len() > XATTRS_BYTES_MAX {
        return refuse(
            ErrorKind::TooLarge,
            format!("extended attributes of a node can have {XATTRS_BYTES_MAX} bytes in all"),
        );
    }
    write(tx, node, name, Some(value))?;
    Ok(count + u32::from(!there))
}

/// Writes one, or takes it away.
fn write(tx: &Tx<'_>, node: NodeId, name: &str, value: Option<&[u8]>) -> Done<()> {
    let Some(value) = value else {
        return sql::put(tx, "DELETE FROM xattr WHERE node_id = ?1 AND name = ?2", (node.0, name));
    };
    let sql = "INSERT INTO xattr (node_id, name, value) VALUES (?1, ?2, ?3) \
               ON CONFLICT (node_id, name) DO UPDATE SET value = excluded.value";
    sql::put(tx, sql, (node.0, name, value))
}
