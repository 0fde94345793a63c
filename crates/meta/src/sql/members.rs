//! Members of spaces, and spaces as their members see them.

use super::accounts::{by_id, no_account};
use super::codec::{self, role_number};
use super::engine::{Engine, Ops, Scope};
use super::fault::{Done, refuse};
use super::lock_check::end_locks_of;
use super::query as sql;
use super::resumable;
use super::seam::Link;
use super::shares;
use super::spaces::{SPACE_COLUMNS, find, no_space, space, space_columns};
use super::tx::Tx;
use crate::types::{Membership, Role, Space};
use holdfast_base::{AccountId, Error, ErrorKind, Result, SpaceId};

/// Columns of a membership, after [`space_columns`].
macro_rules! member_columns {
    () => {
        "member.space_id, member.account_id, account.name, member.role, member.wrapped_key"
    };
}

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn put_member(
        &self,
        space: SpaceId,
        account: AccountId,
        role: Role,
        wrapped_key: Vec<u8>,
    ) -> Result<()> {
        let work = move |tx: &Tx<'_>| put(tx, space, account, role, &wrapped_key);
        self.0.write("put_member", Scope::Administration, work).await
    }

    pub(super) async fn remove_member(&self, space: SpaceId, account: AccountId) -> Result<()> {
        self.0.write("remove_member", Scope::Administration, move |tx| remove(tx, space, account)).await
    }
}

/// Adds a member, or changes its role and key.
pub(super) fn put(tx: &Tx<'_>, space: SpaceId, account: AccountId, role: Role, wrapped_key: &[u8]) -> Done<()> {
    tx.lock_space(space)?;
    find(tx, space)?.ok_or_else(no_space)?;
    by_id(tx, account)?.ok_or_else(no_account)?;
    if role != Role::Owner {
        less_than_owner(tx, space, account, role)?;
    }
    let sql = "INSERT INTO member (space_id, account_id, role, wrapped_key) VALUES (?1, ?2, ?3, ?4) \
               ON CONFLICT (space_id, account_id) DO UPDATE SET role = excluded.role, wrapped_key = excluded.wrapped_key";
    sql::put(tx, sql, (space.0, account.0, role_number(role), wrapped_key))
}

/// Gives a member another role; its key stays.
pub(super) fn set_role(tx: &Tx<'_>, space: SpaceId, account: AccountId, role: Role) -> Done<()> {
    tx.lock_space(space)?;
    if role != Role::Owner {
        less_than_owner(tx, space, account, role)?;
    }
    let sql = "UPDATE member SET role = ?3 WHERE space_id = ?1 AND account_id = ?2";
    sql::put(tx, sql, (space.0, account.0, role_number(role)))
}

/// What ends with an owner, and what ends with a writer.
fn less_than_owner(tx: &Tx<'_>, space: SpaceId, account: AccountId, role: Role) -> Done<()> {
    keep_an_owner(tx, space, account)?;
    shares::end_made_by(tx, space, account)?;
    if role == Role::Reader {
        resumable::abandon_all(tx, Some(space), account)?;
    }
    Ok(())
}

/// Removes a member with what it has under way there.
pub(super) fn remove(tx: &Tx<'_>, space: SpaceId, account: AccountId) -> Done<()> {
    tx.lock_space(space)?;
    keep_an_owner(tx, space, account)?;
    if sql::run(tx, "DELETE FROM member WHERE space_id = ?1 AND account_id = ?2", (space.0, account.0))? == 0 {
        return Err(Error::not_found("the account is not a member of the space").into());
    }
    end_locks_of(tx, space, account)?;
    shares::end_made_by(tx, space, account)?;
    resumable::abandon_all(tx, Some(space), account)
}

/// `Conflict` if `account` is the only owner among the members.
fn keep_an_owner(tx: &Tx<'_>, space: SpaceId, account: AccountId) -> Done<()> {
    let sql = "SELECT coalesce(sum(CASE WHEN account_id = ?2 THEN 1 ELSE 0 END), 0), count(*) FROM member WHERE space_id = ?1 AND role = 2";
    let (own, owners): (i64, i64) = sql::only(tx, sql, (space.0, account.0), |row| Ok((row.get(0)?, row.get(1)?)))?;
    if own == 1 && owners == 1 {
        return refuse(ErrorKind::Conflict, "a space needs an owner: make somebody else one first");
    }
    Ok(())
}

/// A space by name, with an account's membership if it has one.
pub(super) fn by_name(link: &dyn Link, name: &str, account: AccountId) -> Done<Option<(Space, Option<Membership>)>> {
    let sql = concat!(
        "SELECT ",
        space_columns!(),
        ", ",
        member_columns!(),
        " FROM space JOIN space_sum ON space_sum.space_id = space.id \
          LEFT JOIN member ON member.space_id = space.id AND member.account_id = ?2 \
          LEFT JOIN account ON account.id = member.account_id WHERE space.name = ?1"
    );
    sql::first(link, sql, (name, account.0), |row| {
        let is_member = row.get::<Option<i64>>(SPACE_COLUMNS)?.is_some();
        let membership = is_member.then(|| codec::membership(row, SPACE_COLUMNS)).transpose()?;
        Ok((space(row)?, membership))
    })
}

/// The spaces an account is a member of: its home first, then by name.
pub(super) fn of_account(link: &dyn Link, account: AccountId) -> Done<Vec<(Space, Membership)>> {
    let sql = concat!(
        "SELECT ",
        space_columns!(),
        ", ",
        member_columns!(),
        " FROM member JOIN space ON space.id = member.space_id JOIN space_sum ON space_sum.space_id = space.id \
          JOIN account ON account.id = member.account_id WHERE member.account_id = ?1 \
          ORDER BY CASE WHEN home <> 0 AND owner_id = ?1 THEN 0 ELSE 1 END, space.name"
    );
    sql::all(link, sql, [account.0], |row| Ok((space(row)?, codec::membership(row, SPACE_COLUMNS)?)))
}

/// A space's members in name order.
pub(super) fn of_space(link: &dyn Link, space: SpaceId) -> Done<Vec<Membership>> {
    let sql = concat!(
        "SELECT ",
        member_columns!(),
        " FROM member JOIN account ON account.id = account_id WHERE space_id = ?1 ORDER BY account.name"
    );
    sql::all(link, sql, [space.0], |row| codec::membership(row, 0))
}
