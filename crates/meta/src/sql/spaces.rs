//! Spaces.

use super::accounts::{by_id, no_account};
use super::codec::{compression, compression_text, signed};
use super::engine::{Engine, Ops, Scope};
use super::fault::{Done, refuse};
use super::query as sql;
use super::seam::{Link, Row};
use super::slots;
use super::tree_write::insert_node;
use super::tx::Tx;
use super::uploads::abandon;
use crate::catalogue::{Change, Noted, Touched};
use crate::types::{Compression, NewSpace, Node, NodeKind, Retention, Space, SpaceChange, Usage};
use holdfast_base::name::check_account_name;
use holdfast_base::{AccountId, ContentId, Error, ErrorKind, NodeId, Result, SpaceId, Uid};

/// Columns of [`space`].
macro_rules! space_columns {
    () => {
        "space.id, space.uid, space.name, owner_id, home, root_id, compression, retention_days, versions_max, bytes_max, \
         space.quota_bytes, used_bytes, version_bytes, reserved_bytes, raw_bytes, sealed_bytes, seq, space.created_ms, \
         thinned_ms IS NOT NULL"
    };
}

pub(super) use space_columns;

/// How many [`space_columns`] there are.
pub(super) const SPACE_COLUMNS: usize = 19;

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn create_space(&self, new: NewSpace) -> Result<Space> {
        let work = move |tx: &Tx<'_>| {
            by_id(tx, new.owner)?.ok_or_else(no_account)?;
            let row = NewRow {
                uid: new.uid,
                name: &new.name,
                owner: new.owner,
                home: false,
                wrapped_key: &new.wrapped_key,
                quota_bytes: new.quota_bytes,
                now_ms: new.now_ms,
            };
            let id = insert_space(tx, &row)?;
            find(tx, id)?.ok_or_else(|| no_space().into())
        };
        self.0.write("create_space", Scope::Administration, work).await
    }

    pub(super) async fn change_space(&self, id: SpaceId, change: SpaceChange) -> Result<Space> {
        self.0.write("change_space", Scope::Administration, move |tx| self::change(tx, id, &change)).await
    }

    pub(super) async fn remove_space(&self, id: SpaceId) -> Result<()> {
        let work = move |tx: &Tx<'_>| {
            if find(tx, id)?.ok_or_else(no_space)?.home {
                return refuse(ErrorKind::Conflict, "a home space goes with its account and not alone");
            }
            remove_space(tx, id)
        };
        self.0.write("remove_space", Scope::Administration, work).await
    }
}

pub(super) fn no_space() -> Error {
    Error::not_found("there is no such space")
}

/// A space about to be made.
pub(super) struct NewRow<'n> {
    pub(super) uid: Uid,
    pub(super) name: &'n str,
    pub(super) owner: AccountId,
    pub(super) home: bool,
    pub(super) wrapped_key: &'n [u8],
    pub(super) quota_bytes: Option<u64>,
    pub(super) now_ms: i64,
}

/// Makes a space with its root folder, sums and first member.
pub(super) fn insert_space(tx: &Tx<'_>, new: &NewRow<'_>) -> Done<SpaceId> {
    check_account_name(new.name)?;
    if sql::first(tx, "SELECT 1 FROM space WHERE name = ?1", [new.name], |_| Ok(()))?.is_some() {
        return refuse(ErrorKind::AlreadyExists, format!("a space named {} exists already", new.name));
    }
    let (id, root) = (SpaceId(tx.new_id()?), tx.new_id()?);
    let retention = Retention::default();
    let sql = "INSERT INTO space (id, uid, name, owner_id, home, root_id, compression, retention_days, quota_bytes, \
               created_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    let compression = compression_text(Compression::default());
    let quota = new.quota_bytes.map(signed);
    let values =
        (id.0, &new.uid.0, new.name, new.owner.0, new.home, root, compression, retention.days, quota, new.now_ms);
    sql::put(tx, sql, values)?;
    let sql = "INSERT INTO space_sum (space_id, seq, used_bytes, version_bytes, reserved_bytes, raw_bytes, sealed_bytes, \
               locks, versions_dropped, sweep, thinned_ms) VALUES (?1, 1, 0, 0, 0, 0, 0, 0, 0, 0, ?2)";
    sql::put(tx, sql, (id.0, retention.thin.then_some(new.now_ms)))?;
    let node = Node {
        id: NodeId(root),
        space: id,
        parent: None,
        name: String::new(),
        kind: NodeKind::Folder,
        content: None,
        size: 0,
        seq: 1,
        created_ms: new.now_ms,
        modified_ms: new.now_ms,
        has_properties: false,
    };
    insert_node(tx, 0, &id.to_string(), &node)?;
    let sql = "INSERT INTO member (space_id, account_id, role, wrapped_key) VALUES (?1, ?2, 2, ?3)";
    sql::put(tx, sql, (id.0, new.owner.0, new.wrapped_key))?;
    let change = Change { space: id, since: 0, seq: 1, by: 0 };
    tx.changed(Noted { change, touched: Touched::All, maker: 0 });
    Ok(id)
}

/// Removes a space: O(trash entries and uploads) now, its tree and content by and by.
pub(super) fn remove_space(tx: &Tx<'_>, id: SpaceId) -> Done<()> {
    tx.lock_space(id)?;
    let uploads: Vec<i64> =
        sql::all(tx, "SELECT content_id FROM upload WHERE space_id = ?1", [id.0], |row| row.get(0))?;
    for upload in uploads {
        abandon(tx, ContentId(upload))?;
    }
    sql::put(tx, "DELETE FROM resumable WHERE space_id = ?1", [id.0])?;
    let sql = "SELECT account_id, id FROM slot WHERE space_id = ?1 ORDER BY account_id, id";
    let scoped: Vec<(i64, i64)> = sql::all(tx, sql, [id.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (account, slot) in scoped {
        // A token for this space only must not come to mean any space, nor another one.
        slots::remove(tx, AccountId(account), slot)?;
    }
    sql::put(tx, "DELETE FROM node_lock WHERE space_id = ?1", [id.0])?;
    sql::put(
        tx,
        "INSERT INTO garbage (node_id) SELECT root_id FROM space WHERE id = ?1 ON CONFLICT DO NOTHING",
        [id.0],
    )?;
    // From here on no path leads into the space.
    let sql = "UPDATE node SET parent_id = -space_id, name = 'g' || CAST(id AS TEXT) WHERE parent_id = 0 AND name = ?1";
    sql::put(tx, sql, [id.to_string()])?;
    sql::put(
        tx,
        "INSERT INTO garbage (node_id) SELECT node_id FROM trash WHERE space_id = ?1 ON CONFLICT DO NOTHING",
        [id.0],
    )?;
    sql::put(tx, "DELETE FROM trash WHERE space_id = ?1", [id.0])?;
    // Sums and memberships go with the row.
    sql::put(tx, "DELETE FROM space WHERE id = ?1", [id.0])?;
    Ok(())
}

fn change(tx: &Tx<'_>, id: SpaceId, change: &SpaceChange) -> Done<Space> {
    tx.lock_space(id)?;
    let mut space = find(tx, id)?.ok_or_else(no_space)?;
    space.compression = change.compression.unwrap_or(space.compression);
    space.quota_bytes = change.quota_bytes.unwrap_or(space.quota_bytes);
    if let Some(retention) = change.retention {
        let lowered = retention.versions_max.unwrap_or(u32::MAX) < space.retention.versions_max.unwrap_or(u32::MAX);
        if lowered {
            sql::put(tx, "UPDATE space_sum SET sweep = 1 WHERE space_id = ?1", [id.0])?;
        }
        if retention.thin != space.retention.thin {
            // From the beginning: of what there is nothing was looked at.
            sql::put(
                tx,
                "UPDATE space_sum SET thinned_ms = ?2 WHERE space_id = ?1",
                (id.0, retention.thin.then_some(0_i64)),
            )?;
        }
        space.retention = retention;
    }
    if let Some(owner) = change.owner {
        hand_over(tx, &mut space, owner)?;
    }
    let sql = "UPDATE space SET compression = ?2, retention_days = ?3, versions_max = ?4, bytes_max = ?5, quota_bytes = ?6, \
               owner_id = ?7 WHERE id = ?1";
    let bounds = (space.retention.days, space.retention.versions_max, space.retention.bytes_max.map(signed));
    let text = compression_text(space.compression);
    sql::put(tx, sql, (id.0, text, bounds.0, bounds.1, bounds.2, space.quota_bytes.map(signed), space.owner.0))?;
    Ok(space)
}

/// Makes a member the one whose quota the space counts against. Its key is in its membership already.
fn hand_over(tx: &Tx<'_>, space: &mut Space, owner: AccountId) -> Done<()> {
    if space.owner == owner {
        return Ok(());
    }
    if space.home {
        return refuse(ErrorKind::Conflict, "a home space belongs to its account and cannot be handed over");
    }
    let account = by_id(tx, owner)?.ok_or_else(no_account)?;
    let sql = "UPDATE member SET role = 2 WHERE space_id = ?1 AND account_id = ?2";
    if sql::run(tx, sql, (space.id.0, owner.0))? == 0 {
        let message = format!("{} is not a member of the space: add it first, then hand the space over", account.name);
        return refuse(ErrorKind::Conflict, message);
    }
    super::state::admit_owner(tx, &account, space)?;
    space.owner = owner;
    Ok(())
}

/// A space from [`space_columns`].
pub(super) fn space(row: &Row<'_>) -> Done<Space> {
    Ok(Space {
        id: SpaceId(row.get(0)?),
        uid: Uid(row.get(1)?),
        name: row.get(2)?,
        owner: AccountId(row.get(3)?),
        home: row.get(4)?,
        root: NodeId(row.get(5)?),
        compression: compression(row, 6)?,
        retention: Retention {
            days: row.get(7)?,
            versions_max: row.get(8)?,
            bytes_max: row.get(9)?,
            thin: row.get(18)?,
        },
        quota_bytes: row.get(10)?,
        usage: Usage {
            used_bytes: row.get(11)?,
            version_bytes: row.get(12)?,
            reserved_bytes: row.get(13)?,
            stored_raw_bytes: row.get(14)?,
            stored_sealed_bytes: row.get(15)?,
        },
        seq: row.get(16)?,
        created_ms: row.get(17)?,
    })
}

/// A space by row.
pub(super) fn find(link: &dyn Link, id: SpaceId) -> Done<Option<Space>> {
    let sql =
        concat!("SELECT ", space_columns!(), " FROM space JOIN space_sum ON space_id = space.id WHERE space.id = ?1");
    sql::first(link, sql, [id.0], space)
}

/// All spaces in name order.
pub(super) fn all(link: &dyn Link) -> Done<Vec<Space>> {
    let sql =
        concat!("SELECT ", space_columns!(), " FROM space JOIN space_sum ON space_id = space.id ORDER BY space.name");
    sql::all(link, sql, (), space)
}
