//! Shares: below one node of a space, what an account or whoever knows a link may do.
//!
//! A share names a node by its row, so it goes where the node goes; it leads nowhere while that is in the trash, and ends when it is gone for good. Whoever changes
//! something through a share says where its node was when the path was made ([`Through`](crate::types::Through)). That, and that the share is still there, is tested
//! in the transaction of the change ([`check`]), so nothing is changed outside the folder, or after the share was taken back.
//!
//! A visit that ends takes the uploads along that nobody else could continue.
//!
//! **Limits.** [`SHARES_BY_ACCOUNT_MAX`], [`SHARES_WITH_ACCOUNT_MAX`], [`VISITS_PER_LINK_MAX`]. What a visit downloaded is written down only
//! for links with a limit, and so is never more than that.

use super::codec::{self, rows, signed};
use super::engine::{Engine, Ops, Reading, Scope};
use super::fault::{Done, refuse};
use super::query as sql;
use super::seam::{Link, Row, Value, damaged};
use super::spaces::{SPACE_COLUMNS, space, space_columns};
use super::state::SpaceState;
use super::tx::Tx;
use super::uploads::abandon;
use super::walk::walk;
use crate::catalogue::Guard;
use crate::types::{
    Access, LinkLock, NewShare, NewVisit, NodeKind, SHARES_BY_ACCOUNT_MAX, SHARES_WITH_ACCOUNT_MAX, Share, ShareChange,
    Shared, VISITS_PER_LINK_MAX, Visit,
};
use holdfast_base::limits::PATH_DEPTH_MAX;
use holdfast_base::{AccountId, ContentId, DrivePath, Error, ErrorKind, NodeId, NodeName, Result, SpaceId, Uid};

/// Names that are tried where one is taken.
const NAMES_TRIED_MAX: u32 = 1_000;
/// Columns of [`share`], after [`space_columns`].
const COLUMNS: &str = "share.id, share.uid, share.space_id, share.node_id, share.by_id, maker.name, maker.disabled, \
    share.account_id, grantee.name, share.name, share.label, share.access, share.wrapped_key, share.sealed, share.proof, \
    share.secret, share.has_password, share.expires_ms, share.downloads_max, share.downloads, share.created_ms";
/// Where they come from.
const FROM: &str = "share JOIN space ON space.id = share.space_id JOIN space_sum ON space_sum.space_id = space.id \
    JOIN account maker ON maker.id = share.by_id LEFT JOIN account grantee ON grantee.id = share.account_id";

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn put_share(&self, new: NewShare) -> Result<Shared> {
        let space = new.space;
        self.0.write("put_share", Scope::Space(space), move |tx| put(tx, &new)).await
    }

    pub(super) async fn change_share(&self, id: i64, change: ShareChange) -> Result<Shared> {
        let space = self.space_of_share(id).await?;
        self.0.write("change_share", Scope::Space(space), move |tx| self::change(tx, space, id, &change)).await
    }

    pub(super) async fn remove_share(&self, id: i64) -> Result<()> {
        let space = self.space_of_share(id).await?;
        let work = move |tx: &Tx<'_>| {
            tx.lock_space(space)?;
            remove(tx, id)
        };
        self.0.write("remove_share", Scope::Space(space), work).await
    }

    async fn space_of_share(&self, id: i64) -> Result<SpaceId> {
        let find = move |link: &dyn Link| {
            sql::first(link, "SELECT space_id FROM share WHERE id = ?1", [id], |row| Ok(SpaceId(row.get(0)?)))
        };
        self.0.read(Reading::Point, find).await?.ok_or_else(no_share)
    }

    pub(super) async fn begin_visit(&self, new: NewVisit) -> Result<Visit> {
        let space = self.space_of_share(new.share).await?;
        self.0.write("begin_visit", Scope::Space(space), move |tx| begin_visit(tx, space, &new)).await
    }

    pub(super) async fn end_visit(&self, id: i64) -> Result<()> {
        let find = move |link: &dyn Link| {
            let sql = "SELECT space_id FROM share JOIN visit ON share_id = share.id WHERE visit.id = ?1";
            sql::first(link, sql, [id], |row| Ok(SpaceId(row.get(0)?)))
        };
        let Some(space) = self.0.read(Reading::Point, find).await? else { return Ok(()) };
        let work = move |tx: &Tx<'_>| {
            tx.lock_space(space)?;
            end_visits(tx, "id = ?1", &[Value::Integer(id)])
        };
        self.0.write("end_visit", Scope::Space(space), work).await
    }

    pub(super) async fn count_download(&self, visit: &Visit, node: NodeId, seq: i64) -> Result<()> {
        let (visit, space) = (visit.clone(), self.space_of_share(visit.share).await?);
        let work = move |tx: &Tx<'_>| {
            tx.lock_space(space)?;
            count_download(tx, &visit, node, seq)
        };
        self.0.write("count_download", Scope::Space(space), work).await
    }
}

fn no_share() -> Error {
    Error::not_found("there is no such share: it was taken back, or has expired")
}

/// A share by its random name.
pub(super) fn by_uid(link: &dyn Link, uid: Uid) -> Done<Option<Shared>> {
    Ok(some(link, "share.uid = ?1", &[Value::Blob(&uid.0)], 1)?.pop())
}

/// A share by row.
pub(super) fn by_id(link: &dyn Link, id: i64) -> Done<Option<Shared>> {
    Ok(some(link, "share.id = ?1", &[Value::Integer(id)], 1)?.pop())
}

/// What an account calls by this name.
pub(super) fn by_name(link: &dyn Link, account: AccountId, name: &str) -> Done<Option<Shared>> {
    let values = [Value::Integer(account.0), Value::Text(name)];
    Ok(some(link, "share.account_id = ?1 AND share.name = ?2", &values, 1)?.pop())
}

/// Shares with an account, by name.
pub(super) fn with_account(link: &dyn Link, account: AccountId) -> Done<Vec<Shared>> {
    some(link, "share.account_id = ?1", &[Value::Integer(account.0)], SHARES_WITH_ACCOUNT_MAX)
}

/// Shares that an account made.
pub(super) fn by_account(link: &dyn Link, account: AccountId) -> Done<Vec<Shared>> {
    some(link, "share.by_id = ?1", &[Value::Integer(account.0)], SHARES_BY_ACCOUNT_MAX)
}

/// Shares of a node of a space, or of all.
pub(super) fn of_space(link: &dyn Link, space: SpaceId, node: Option<NodeId>) -> Done<Vec<Shared>> {
    let (node, limit) = (node.map_or(0, |node| node.0), 10 * SHARES_BY_ACCOUNT_MAX);
    let values = [Value::Integer(space.0), Value::Integer(node)];
    some(link, "share.space_id = ?1 AND (?2 = 0 OR share.node_id = ?2)", &values, limit)
}

/// A visit with its link.
pub(super) fn visit(link: &dyn Link, lookup: &str) -> Done<Option<(Visit, Shared)>> {
    let sql = "SELECT id, share_id, sealed, expires_ms FROM visit WHERE lookup = ?1";
    let found = sql::first(link, sql, [lookup], |row| {
        Ok(Visit { id: row.get(0)?, share: row.get(1)?, sealed: row.get(2)?, expires_ms: row.get(3)?, limited: false })
    })?;
    let Some(visit) = found else { return Ok(None) };
    let shared = by_id(link, visit.share)?;
    Ok(shared.map(|shared| (Visit { limited: shared.share.downloads_max.is_some(), ..visit }, shared)))
}

/// `NotFound` unless what a guard comes in through is still there, and where it was.
pub(super) fn check(tx: &Tx<'_>, state: &SpaceState, guard: &Guard) -> Done<()> {
    for through in guard.through.iter().filter(|through| through.space == state.id) {
        // A link is as good as whoever made it: shut out, they have none.
        let sql = "SELECT node_id FROM share JOIN account ON account.id = by_id WHERE share.id = ?1 \
                   AND (expires_ms IS NULL OR expires_ms > ?2) AND (share.account_id IS NOT NULL OR disabled = 0) \
                   AND access >= ?3";
        let least = i64::from(through.writes);
        let node: Option<i64> = sql::first(tx, sql, (through.share, guard.now_ms, least), |row| row.get(0))?;
        let there = walk(tx, state.id, state.root, &through.base)?.node.map(|node| node.id.0);
        if node.is_none() || node != there {
            return Err(no_share().into());
        }
    }
    Ok(())
}

/// Ends the shares that an account made in a space in which it is no owner any more.
pub(super) fn end_made_by(tx: &Tx<'_>, space: SpaceId, account: AccountId) -> Done<()> {
    let sql = "SELECT id FROM share WHERE space_id = ?1 AND by_id = ?2 ORDER BY id";
    let made: Vec<i64> = sql::all(tx, sql, (space.0, account.0), |row| row.get(0))?;
    made.into_iter().try_for_each(|share| remove(tx, share))
}

/// Ends the shares of nodes of a space that are gone for good.
pub(super) fn end_lost(tx: &Tx<'_>, space: SpaceId) -> Done<()> {
    let sql = "SELECT id FROM share WHERE space_id = ?1 \
               AND NOT EXISTS (SELECT 1 FROM node WHERE node.id = share.node_id) ORDER BY id";
    let lost: Vec<i64> = sql::all(tx, sql, [space.0], |row| row.get(0))?;
    lost.into_iter().try_for_each(|share| remove(tx, share))
}

fn some(link: &dyn Link, which: &str, values: &[Value<'_>], limit: usize) -> Done<Vec<Shared>> {
    let sql = format!(
        "SELECT {}, {COLUMNS} FROM {FROM} WHERE {which} ORDER BY share.name, share.id LIMIT {limit}",
        space_columns!()
    );
    let mut found = sql::all(link, &sql, values, |row| {
        Ok(Shared { space: space(row)?, share: share(row, SPACE_COLUMNS)?, place: None })
    })?;
    for shared in &mut found {
        shared.place = place(link, shared.share.node)?;
    }
    Ok(found)
}

/// Where a node is, unless it is in the trash or gone.
pub(super) fn place(link: &dyn Link, node: NodeId) -> Done<Option<(DrivePath, NodeKind)>> {
    let sql = "WITH RECURSIVE up (level, parent_id, name, kind) AS ( \
                   SELECT CAST(0 AS BIGINT), parent_id, name, kind FROM node WHERE id = ?1 \
                   UNION ALL SELECT level + 1, node.parent_id, node.name, node.kind FROM up JOIN node ON node.id = up.parent_id \
                   WHERE up.parent_id > 0 AND level < ?2) \
               SELECT parent_id, name, kind FROM up ORDER BY level DESC";
    let chain = sql::all(link, sql, (node.0, rows(PATH_DEPTH_MAX)), |row| {
        Ok((row.get::<i64>(0)?, row.get::<String>(1)?, codec::node_kind(row, 2)?))
    })?;
    let (Some((0, ..)), Some(&(.., kind))) = (chain.first(), chain.last()) else { return Ok(None) };
    let names = chain.iter().skip(1).map(|(_, name, _)| NodeName::new(name)).collect::<Result<_>>()?;
    Ok(Some((DrivePath::from_names(names)?, kind)))
}

fn share(row: &Row<'_>, first: usize) -> Done<Share> {
    let account = row.get::<Option<i64>>(first + 7)?.map(AccountId);
    let link = account.is_none().then(|| lock(row, first + 13)).transpose()?;
    Ok(Share {
        id: row.get(first)?,
        uid: Uid(row.get(first + 1)?),
        space: SpaceId(row.get(first + 2)?),
        node: NodeId(row.get(first + 3)?),
        by: AccountId(row.get(first + 4)?),
        by_name: row.get(first + 5)?,
        by_disabled: row.get(first + 6)?,
        account,
        account_name: row.get::<Option<String>>(first + 8)?.unwrap_or_default(),
        name: row.get(first + 9)?,
        label: row.get(first + 10)?,
        access: match row.get::<i64>(first + 11)? {
            0 => Access::Read,
            1 => Access::Write,
            2 => Access::Upload,
            other => return Err(damaged(format!("{other} is nothing a share allows")).into()),
        },
        wrapped_key: row.get(first + 12)?,
        link,
        expires_ms: row.get(first + 17)?,
        downloads_max: row.get(first + 18)?,
        downloads: row.get(first + 19)?,
        created_ms: row.get(first + 20)?,
    })
}

fn lock(row: &Row<'_>, first: usize) -> Done<LinkLock> {
    Ok(LinkLock {
        sealed: row.get(first)?,
        proof: row.get(first + 1)?,
        secret: row.get(first + 2)?,
        has_password: row.get(first + 3)?,
    })
}

/// 0 is reading; whatever is more changes something.
const fn access_number(access: Access) -> i64 {
    match access {
        Access::Read => 0,
        Access::Write => 1,
        Access::Upload => 2,
    }
}

fn put(tx: &Tx<'_>, new: &NewShare) -> Done<Shared> {
    tx.lock_space(new.space)?;
    let at = place(tx, new.node)?.ok_or_else(|| Error::not_found("what is to be shared was removed"))?;
    if new.link.is_none() && at.1 != NodeKind::Folder {
        return refuse(
            ErrorKind::WrongKind,
            "only a folder is shared with an account: make a link, or share its folder",
        );
    }
    refuse_too_many(tx, "by_id", new.by, SHARES_BY_ACCOUNT_MAX)?;
    let mut name = String::new();
    if let Some((account, wanted)) = &new.with {
        refuse_too_many(tx, "account_id", *account, SHARES_WITH_ACCOUNT_MAX)?;
        let sql = "SELECT 1 FROM share WHERE account_id = ?1 AND node_id = ?2";
        if sql::first(tx, sql, (account.0, new.node.0), |_| Ok(()))?.is_some() {
            return refuse(ErrorKind::AlreadyExists, "this folder is shared with that account already: change that");
        }
        name = free_name(tx, *account, wanted)?;
    }
    let id = tx.new_id()?;
    insert(tx, id, &name, new)?;
    by_id(tx, id)?.ok_or_else(|| no_share().into())
}

fn refuse_too_many(tx: &Tx<'_>, column: &str, account: AccountId, most: usize) -> Done<()> {
    let sql = format!("SELECT count(*) FROM share WHERE {column} = ?1");
    let count: usize = sql::only(tx, &sql, [account.0], |row| row.get(0))?;
    if count >= most {
        let message = format!("an account can have {most} shares at most: take some back that are no longer needed");
        return refuse(ErrorKind::Conflict, message);
    }
    Ok(())
}

/// `wanted`, or that with a number.
fn free_name(tx: &Tx<'_>, account: AccountId, wanted: &str) -> Done<String> {
    let wanted = NodeName::new(wanted)?;
    for number in 1..NAMES_TRIED_MAX {
        let name = if number == 1 { wanted.clone() } else { wanted.numbered(number) };
        let sql = "SELECT 1 FROM share WHERE account_id = ?1 AND name = ?2";
        if sql::first(tx, sql, (account.0, name.as_str()), |_| Ok(()))?.is_none() {
            return Ok(name.as_str().to_owned());
        }
    }
    refuse(ErrorKind::Conflict, "too many folders of this name are shared with that account")
}

fn insert(tx: &Tx<'_>, id: i64, name: &str, new: &NewShare) -> Done<()> {
    let sql = "INSERT INTO share (id, uid, space_id, node_id, by_id, account_id, name, label, access, wrapped_key, sealed, proof, \
               secret, has_password, expires_ms, downloads_max, downloads, created_ms) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, 0, ?17)";
    let integer = |value: Option<i64>| value.map_or(Value::Null, Value::Integer);
    let bytes = |of: fn(&LinkLock) -> &[u8]| Value::Blob(new.link.as_ref().map_or(&[][..], of));
    let values = [
        Value::Integer(id),
        Value::Blob(&new.uid.0),
        Value::Integer(new.space.0),
        Value::Integer(new.node.0),
        Value::Integer(new.by.0),
        integer(new.with.as_ref().map(|(account, _)| account.0)),
        Value::Text(name),
        Value::Text(&new.label),
        Value::Integer(access_number(new.access)),
        Value::Blob(&new.wrapped_key),
        bytes(|link| &link.sealed),
        bytes(|link| &link.proof),
        bytes(|link| &link.secret),
        Value::Integer(new.link.as_ref().is_some_and(|link| link.has_password).into()),
        integer(new.expires_ms),
        integer(new.downloads_max.map(signed)),
        Value::Integer(new.now_ms),
    ];
    tx.put(sql, &values)
}

fn change(tx: &Tx<'_>, space: SpaceId, id: i64, change: &ShareChange) -> Done<Shared> {
    tx.lock_space(space)?;
    if let Some(label) = &change.label {
        sql::put(tx, "UPDATE share SET label = ?2 WHERE id = ?1", (id, label))?;
    }
    if let Some(expires_ms) = change.expires_ms {
        sql::put(tx, "UPDATE share SET expires_ms = ?2 WHERE id = ?1", (id, expires_ms))?;
    }
    if let Some(most) = change.downloads_max {
        let sql = "UPDATE share SET downloads_max = ?2, downloads = 0 WHERE id = ?1";
        sql::put(tx, sql, (id, most.map(signed)))?;
        let sql = "DELETE FROM visit_download WHERE visit_id IN (SELECT id FROM visit WHERE share_id = ?1)";
        sql::put(tx, sql, [id])?;
    }
    if let Some(access) = change.access {
        sql::put(tx, "UPDATE share SET access = ?2 WHERE id = ?1", (id, access_number(access)))?;
    }
    if let Some((lock, wrapped_key)) = &change.lock {
        let sql =
            "UPDATE share SET sealed = ?2, proof = ?3, secret = ?4, has_password = ?5, wrapped_key = ?6 WHERE id = ?1";
        sql::put(tx, sql, (id, &lock.sealed, &lock.proof, &lock.secret, lock.has_password, wrapped_key))?;
    }
    if change.access.is_some() || change.lock.is_some() {
        end_visits(tx, "share_id = ?1", &[Value::Integer(id)])?;
    }
    if change.access == Some(Access::Read) {
        abandon_those(tx, "share_id = ?1", &[Value::Integer(id)])?;
    }
    by_id(tx, id)?.ok_or_else(|| no_share().into())
}

/// Takes a share back, and gives up what is being uploaded through it.
fn remove(tx: &Tx<'_>, id: i64) -> Done<()> {
    abandon_those(tx, "share_id = ?1", &[Value::Integer(id)])?;
    // Its visits go with the row.
    if sql::run(tx, "DELETE FROM share WHERE id = ?1", [id])? == 0 {
        return Err(no_share().into());
    }
    Ok(())
}

/// Gives up unfinished uploads.
fn abandon_those(tx: &Tx<'_>, which: &str, values: &[Value<'_>]) -> Done<()> {
    let sql = format!("SELECT content_id FROM resumable WHERE {which} AND node_id IS NULL ORDER BY content_id");
    let uploads: Vec<i64> = sql::all(tx, &sql, values, |row| row.get(0))?;
    uploads.into_iter().try_for_each(|upload| abandon(tx, ContentId(upload)))
}

/// Ends visits of links of one space, which is locked.
fn end_visits(tx: &Tx<'_>, which: &str, values: &[Value<'_>]) -> Done<()> {
    let sql = format!("SELECT id FROM visit WHERE {which} ORDER BY id");
    let visits: Vec<i64> = sql::all(tx, &sql, values, |row| row.get(0))?;
    for visit in visits {
        abandon_those(tx, "visit_id = ?1", &[Value::Integer(visit)])?;
        sql::put(tx, "DELETE FROM visit WHERE id = ?1", [visit])?;
    }
    Ok(())
}

fn begin_visit(tx: &Tx<'_>, space: SpaceId, new: &NewVisit) -> Done<Visit> {
    tx.lock_space(space)?;
    let sql = "SELECT downloads_max FROM share WHERE id = ?1";
    let limit = sql::first(tx, sql, [new.share], |row| row.get::<Option<i64>>(0))?.ok_or_else(no_share)?;
    let share = Value::Integer(new.share);
    end_visits(tx, "share_id = ?1 AND expires_ms <= ?2", &[share, Value::Integer(new.now_ms)])?;
    let count: usize = sql::only(tx, "SELECT count(*) FROM visit WHERE share_id = ?1", [new.share], |row| row.get(0))?;
    if count >= VISITS_PER_LINK_MAX {
        end_visits(tx, "id = (SELECT min(id) FROM visit WHERE share_id = ?1)", &[share])?;
    }
    let id = tx.new_id()?;
    let sql =
        "INSERT INTO visit (id, share_id, lookup, sealed, created_ms, expires_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    sql::put(tx, sql, (id, new.share, &new.lookup, &new.sealed, new.now_ms, new.expires_ms))?;
    let limited = limit.is_some();
    Ok(Visit { id, share: new.share, sealed: new.sealed.clone(), expires_ms: new.expires_ms, limited })
}

/// Counts a download once a visit; `Forbidden` where the link's limit is reached.
fn count_download(tx: &Tx<'_>, visit: &Visit, node: NodeId, seq: i64) -> Done<()> {
    let sql = "SELECT downloads_max, downloads FROM share JOIN visit ON share_id = share.id WHERE visit.id = ?1";
    let found = sql::first(tx, sql, [visit.id], |row| Ok((row.get::<Option<i64>>(0)?, row.get::<i64>(1)?)))?;
    let Some((most, count)) = found else { return Err(no_share().into()) };
    let Some(most) = most else { return Ok(()) };
    let sql = "SELECT 1 FROM visit_download WHERE visit_id = ?1 AND node_id = ?2 AND seq = ?3";
    if sql::first(tx, sql, (visit.id, node.0, seq), |_| Ok(()))?.is_some() {
        return Ok(());
    }
    if count >= most {
        return refuse(ErrorKind::Forbidden, "this link has been used for as many downloads as it allows");
    }
    let sql = "INSERT INTO visit_download (visit_id, node_id, seq) VALUES (?1, ?2, ?3)";
    sql::put(tx, sql, (visit.id, node.0, seq))?;
    sql::put(tx, "UPDATE share SET downloads = downloads + 1 WHERE id = ?1", [visit.share])
}
