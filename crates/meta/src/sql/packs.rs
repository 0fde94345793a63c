//! Packs and the places of blocks.

use super::blocks::{add_all_live, add_to};
use super::codec::{self, block_columns, pack_columns, signed};
use super::engine::{Engine, Ops, Reading, Scope};
use super::fault::{Done, refuse};
use super::query as sql;
use super::seam::{Link, Row, Value};
use super::tx::Tx;
use crate::catalogue::MovedBlock;
use crate::cluster::InstanceId;
use crate::types::{BlockPlace, Pack};
use holdfast_base::{BlockId, Error, ErrorKind, PackId, PackName, Result, SpaceId};
use std::collections::BTreeSet;

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn open_pack(&self, name: PackName, instance: InstanceId, now_ms: i64) -> Result<PackId> {
        let work = move |tx: &Tx<'_>| {
            let id = tx.new_id()?;
            let sql = "INSERT INTO pack (id, name, state, total_bytes, live_bytes, created_ms, instance_id) \
                       VALUES (?1, ?2, 0, 0, 0, ?3, ?4) ON CONFLICT (name) DO NOTHING";
            if sql::run(tx, sql, (id, &name.0, now_ms, instance.0))? == 0 {
                return refuse(ErrorKind::AlreadyExists, "a pack of this name exists");
            }
            Ok(PackId(id))
        };
        self.0.write("open_pack", Scope::Alone, work).await
    }

    pub(super) async fn seal_pack(&self, pack: PackId, total_bytes: u64) -> Result<()> {
        let work = move |tx: &Tx<'_>| {
            let sql = "UPDATE pack SET state = 1, total_bytes = ?2 WHERE id = ?1 AND state < 2";
            let changed = sql::run(tx, sql, (pack.0, signed(total_bytes)))?;
            if changed == 0 { Err(no_pack().into()) } else { Ok(()) }
        };
        self.0.write("seal_pack", Scope::Alone, work).await
    }

    pub(super) async fn packs(&self, after: Option<PackId>, limit: usize) -> Result<Vec<Pack>> {
        self.0
            .read(Reading::Scan, move |link| {
                let sql = concat!("SELECT ", pack_columns!(), " FROM pack WHERE id > ?1 ORDER BY id LIMIT ?2");
                sql::all(link, sql, (after.map_or(0, |pack| pack.0), codec::rows(limit)), codec::pack)
            })
            .await
    }

    pub(super) async fn pack_blocks(
        &self,
        pack: PackId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<(SpaceId, BlockPlace)>> {
        self.0.read(Reading::Scan, move |link| {
            let sql = concat!(
                "SELECT block.space_id, ",
                block_columns!(),
                " FROM block JOIN pack ON pack.id = pack_id WHERE pack_id = ?1 AND \"offset\" >= ?2 ORDER BY \"offset\" LIMIT ?3"
            );
            let read = |row: &Row<'_>| Ok((SpaceId(row.get(0)?), codec::block_place(row, 1)?));
            sql::all(link, sql, (pack.0, signed(from), codec::rows(limit)), read)
        })
        .await
    }

    pub(super) async fn move_blocks(&self, moves: Vec<MovedBlock>) -> Result<usize> {
        self.0.write("move_blocks", Scope::Alone, move |tx| move_blocks(tx, &moves)).await
    }

    pub(super) async fn dead_packs(&self, limit: usize) -> Result<Vec<Pack>> {
        let candidates = |link: &dyn Link| {
            let sql = "SELECT EXISTS (SELECT 1 FROM pack WHERE live_bytes = 0 AND state = 1)";
            sql::only(link, sql, (), |row| row.get::<bool>(0))
        };
        if self.0.read(Reading::Point, candidates).await? {
            let work = move |tx: &Tx<'_>| {
                let sql = "UPDATE pack SET state = 2 WHERE live_bytes = 0 AND state = 1 AND id IN \
                           (SELECT id FROM pack WHERE live_bytes = 0 AND state = 1 ORDER BY id LIMIT ?1)";
                sql::run(tx, sql, [codec::rows(limit)])
            };
            self.0.write("dead_packs", Scope::Alone, work).await?;
        }
        self.0
            .read(Reading::Scan, move |link| {
                let sql = concat!(
                    "SELECT ",
                    pack_columns!(),
                    " FROM pack WHERE live_bytes = 0 AND state = 2 ORDER BY id LIMIT ?1"
                );
                sql::all(link, sql, [codec::rows(limit)], codec::pack)
            })
            .await
    }

    pub(super) async fn forget_pack(&self, pack: PackId) -> Result<()> {
        let work = move |tx: &Tx<'_>| {
            if sql::run(tx, "DELETE FROM pack WHERE id = ?1 AND state = 2 AND live_bytes = 0", [pack.0])? == 1 {
                return Ok(());
            }
            match sql::first(tx, "SELECT 1 FROM pack WHERE id = ?1", [pack.0], |_| Ok(()))? {
                Some(()) => refuse(ErrorKind::Conflict, "only a dead pack can be forgotten"),
                None => Err(no_pack().into()),
            }
        };
        self.0.write("forget_pack", Scope::Alone, work).await
    }
}

fn no_pack() -> Error {
    Error::not_found("there is no such pack")
}

fn move_blocks(tx: &Tx<'_>, moves: &[MovedBlock]) -> Done<usize> {
    let mut count = 0;
    let mut live = Vec::new();
    let spaces: BTreeSet<SpaceId> = moves.iter().map(|moved| moved.space).collect();
    spaces.into_iter().try_for_each(|space| tx.lock_space(space))?;
    for MovedBlock { space, id, from, to } in moves {
        let sql = "UPDATE block SET pack_id = ?5, \"offset\" = ?6, sealed_bytes = ?7 \
                   WHERE space_id = ?1 AND id = ?2 AND pack_id = ?3 AND \"offset\" = ?4 AND sealed_bytes = ?8";
        let new = (to.pack.0, signed(to.offset), to.sealed_bytes);
        let old = (from.pack.0, signed(from.offset), from.sealed_bytes);
        let values = (space.0, &id.0, old.0, old.1, new.0, new.1, new.2, old.2);
        if sql::run(tx, sql, values)? == 0 {
            continue;
        }
        count += 1;
        add_to(&mut live, from.pack.0, -i64::from(from.sealed_bytes));
        add_to(&mut live, to.pack.0, i64::from(to.sealed_bytes));
        let grown = i64::from(to.sealed_bytes) - i64::from(from.sealed_bytes);
        if grown != 0 {
            sql::put(
                tx,
                "UPDATE space_sum SET sealed_bytes = sealed_bytes + ?2 WHERE space_id = ?1",
                (space.0, grown),
            )?;
        }
    }
    add_all_live(tx, &mut live)?;
    Ok(count)
}

/// Where blocks lie: one answer for each id, in order.
pub(super) fn places(link: &dyn Link, space: SpaceId, ids: &[BlockId]) -> Done<Vec<Option<BlockPlace>>> {
    let sql = concat!(
        "SELECT ",
        block_columns!(),
        " FROM block JOIN pack ON pack.id = pack_id WHERE space_id = ?1 AND block.id = ?2"
    );
    let keys: Vec<Value<'_>> = ids.iter().flat_map(|id| [Value::Integer(space.0), Value::Blob(&id.0)]).collect();
    let mut places = vec![None; ids.len()];
    link.query_many(sql, 2, &keys, &mut |index, row| {
        if let Some(place) = places.get_mut(index) {
            *place = Some(codec::block_place(row, 0)?);
        }
        Ok(())
    })?;
    Ok(places)
}

/// Every block in (space, id) order.
pub(super) fn all_blocks(
    link: &dyn Link,
    after: Option<(SpaceId, BlockId)>,
    limit: usize,
) -> Done<Vec<(SpaceId, BlockPlace, u64)>> {
    let (space, id) = after.map_or((i64::MIN, BlockId([0; 32])), |(space, id)| (space.0, id));
    let sql = concat!(
        "SELECT block.space_id, block.refs, ",
        block_columns!(),
        " FROM block JOIN pack ON pack.id = pack_id WHERE (space_id, block.id) > (?1, ?2) \
          ORDER BY space_id, block.id LIMIT ?3"
    );
    let read = |row: &Row<'_>| Ok((SpaceId(row.get(0)?), codec::block_place(row, 2)?, row.get(1)?));
    sql::all(link, sql, (space, &id.0, codec::rows(limit)), read)
}
