//! Accounts.

use super::codec::{self, account_columns, signed};
use super::engine::{Engine, Ops, Scope};
use super::fault::{Done, refuse};
use super::lock_check::end_locks_of;
use super::query as sql;
use super::resumable;
use super::seam::Link;
use super::slots::insert_slot;
use super::spaces::{NewRow, insert_space, remove_space};
use super::tx::Tx;
use crate::types::{Account, AccountChange, NewAccount};
use holdfast_base::name::check_account_name;
use holdfast_base::{AccountId, Error, ErrorKind, Result, SpaceId};

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn create_account(&self, new: NewAccount) -> Result<Account> {
        self.0.write("create_account", Scope::Administration, move |tx| create(tx, &new)).await
    }

    pub(super) async fn change_account(&self, id: AccountId, change: AccountChange) -> Result<Account> {
        let work = move |tx: &Tx<'_>| {
            if change.disabled == Some(true) {
                shut_out(tx, id)?;
            }
            tx.lock_account(id)?;
            let mut account = by_id(tx, id)?.ok_or_else(no_account)?;
            if change == AccountChange::default() {
                return Ok(account);
            }
            account.admin = change.admin.unwrap_or(account.admin);
            account.disabled = change.disabled.unwrap_or(account.disabled);
            account.quota_bytes = change.quota_bytes.unwrap_or(account.quota_bytes);
            account.generation += 1;
            let sql = "UPDATE account SET admin = ?2, disabled = ?3, quota_bytes = ?4, generation = ?5 WHERE id = ?1";
            let values = (id.0, account.admin, account.disabled, account.quota_bytes.map(signed), account.generation);
            sql::put(tx, sql, values)?;
            Ok(account)
        };
        self.0.write("change_account", Scope::Administration, work).await
    }

    pub(super) async fn remove_account(&self, id: AccountId) -> Result<()> {
        self.0.write("remove_account", Scope::Administration, move |tx| remove(tx, id)).await
    }
}

/// Waits for what an account is changing at this moment, and gives up what it uploads in parts: whatever ends later is refused
/// ([`SpaceState::load_for`](super::state::SpaceState::load_for)).
fn shut_out(tx: &Tx<'_>, id: AccountId) -> Done<()> {
    let sql = "SELECT space_id FROM member WHERE account_id = ?1 UNION SELECT space_id FROM share WHERE account_id = ?1 \
               UNION SELECT space_id FROM resumable WHERE account_id = ?1 ORDER BY 1";
    let spaces: Vec<i64> = sql::all(tx, sql, [id.0], |row| row.get(0))?;
    spaces.into_iter().try_for_each(|space| tx.lock_space(SpaceId(space)))?;
    resumable::abandon_all(tx, None, id)
}

pub(super) fn no_account() -> Error {
    Error::not_found("there is no such account")
}

/// An account by row.
pub(super) fn by_id(link: &dyn Link, id: AccountId) -> Done<Option<Account>> {
    let sql = concat!("SELECT ", account_columns!(), " FROM account WHERE id = ?1");
    sql::first(link, sql, [id.0], |row| codec::account(row, 0))
}

/// An account by name.
pub(super) fn by_name(link: &dyn Link, name: &str) -> Done<Option<Account>> {
    let sql = concat!("SELECT ", account_columns!(), " FROM account WHERE name = ?1");
    sql::first(link, sql, [name], |row| codec::account(row, 0))
}

/// All accounts in name order.
pub(super) fn all(link: &dyn Link) -> Done<Vec<Account>> {
    let sql = concat!("SELECT ", account_columns!(), " FROM account ORDER BY name");
    sql::all(link, sql, (), |row| codec::account(row, 0))
}

/// Voids cached sign-ins of an account.
pub(super) fn count_generation(tx: &Tx<'_>, account: AccountId) -> Done<()> {
    sql::put(tx, "UPDATE account SET generation = generation + 1 WHERE id = ?1", [account.0])?;
    Ok(())
}

/// Makes an account with its home space and slots.
pub(super) fn create(tx: &Tx<'_>, new: &NewAccount) -> Done<Account> {
    check_account_name(&new.name)?;
    if by_name(tx, &new.name)?.is_some() {
        return refuse(ErrorKind::AlreadyExists, format!("an account named {} exists already", new.name));
    }
    let account = Account {
        id: AccountId(tx.new_id()?),
        uid: new.uid,
        name: new.name.clone(),
        admin: new.admin,
        disabled: false,
        public_key: new.public_key,
        quota_bytes: new.quota_bytes,
        generation: 1,
        created_ms: new.now_ms,
    };
    let sql = "INSERT INTO account (id, uid, name, admin, disabled, public_key, quota_bytes, generation, created_ms) \
               VALUES (?1, ?2, ?3, ?4, 0, ?5, ?6, ?7, ?8)";
    let quota = account.quota_bytes.map(signed);
    let values = (
        account.id.0,
        &account.uid.0,
        &account.name,
        account.admin,
        &account.public_key,
        quota,
        account.generation,
        account.created_ms,
    );
    sql::put(tx, sql, values)?;
    let home = NewRow {
        uid: new.home_uid,
        name: &account.name,
        owner: account.id,
        home: true,
        wrapped_key: &new.home_wrapped_key,
        quota_bytes: None,
        now_ms: new.now_ms,
    };
    insert_space(tx, &home)?;
    for slot in &new.slots {
        insert_slot(tx, account.id, slot, new.now_ms)?;
    }
    Ok(account)
}

fn remove(tx: &Tx<'_>, id: AccountId) -> Done<()> {
    by_id(tx, id)?.ok_or_else(no_account)?;
    let sql = "SELECT space.name FROM space JOIN member ON space_id = space.id AND account_id <> ?1 \
               WHERE owner_id = ?1 AND home = 0 LIMIT 1";
    if let Some(name) = sql::first(tx, sql, [id.0], |row| row.get::<String>(0))? {
        return refuse(
            ErrorKind::Conflict,
            format!("the account owns the space {name}, which has other members: hand it over or remove it first"),
        );
    }
    let sql = "SELECT space.name FROM space JOIN member AS own ON own.space_id = space.id AND own.account_id = ?1 \
               WHERE owner_id <> ?1 AND own.role = 2 AND NOT EXISTS \
               (SELECT 1 FROM member WHERE space_id = space.id AND role = 2 AND account_id <> ?1) LIMIT 1";
    if let Some(name) = sql::first(tx, sql, [id.0], |row| row.get::<String>(0))? {
        return refuse(ErrorKind::Conflict, format!("the account is the last owner of the space {name}"));
    }
    let sql = "SELECT id FROM space WHERE owner_id = ?1 ORDER BY id";
    let owned: Vec<i64> = sql::all(tx, sql, [id.0], |row| row.get(0))?;
    for space in owned {
        remove_space(tx, SpaceId(space))?;
    }
    // What it has locked lies in spaces of others.
    let sql = "SELECT DISTINCT space_id FROM node_lock WHERE account_id = ?1 ORDER BY space_id";
    let locked: Vec<i64> = sql::all(tx, sql, [id.0], |row| row.get(0))?;
    for space in locked {
        end_locks_of(tx, SpaceId(space), id)?;
    }
    resumable::abandon_all(tx, None, id)?;
    // Slots, memberships and traffic go with the row.
    sql::put(tx, "DELETE FROM account WHERE id = ?1", [id.0])?;
    Ok(())
}
