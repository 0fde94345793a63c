//! Credential slots.

use super::accounts::{by_id, count_generation, no_account};
use super::codec::{self, account_columns, slot_columns, slot_kind_number};
use super::engine::{Engine, Ops, Scope};
use super::fault::{Done, refuse};
use super::query as sql;
use super::seam::Link;
use super::tx::Tx;
use crate::types::{Account, NewSlot, Slot, SlotKind};
use holdfast_base::{AccountId, Error, ErrorKind, Result};

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn put_slot(&self, account: AccountId, slot: NewSlot, now_ms: i64) -> Result<Slot> {
        let work = move |tx: &Tx<'_>| {
            by_id(tx, account)?.ok_or_else(no_account)?;
            if !slot.kind.has_lookup() && remove_kind(tx, account, slot.kind, None)? > 0 {
                count_generation(tx, account)?;
            }
            insert_slot(tx, account, &slot, now_ms)
        };
        self.0.write("put_slot", Scope::Administration, work).await
    }

    pub(super) async fn replace_password(
        &self,
        account: AccountId,
        slot: NewSlot,
        keep: Option<i64>,
        now_ms: i64,
    ) -> Result<Slot> {
        let work = move |tx: &Tx<'_>| {
            by_id(tx, account)?.ok_or_else(no_account)?;
            remove_kind(tx, account, SlotKind::Password, None)?;
            remove_kind(tx, account, SlotKind::Session, keep)?;
            count_generation(tx, account)?;
            insert_slot(tx, account, &slot, now_ms)
        };
        self.0.write("replace_password", Scope::Administration, work).await
    }

    pub(super) async fn remove_slot(&self, account: AccountId, slot: i64) -> Result<()> {
        self.0.write("remove_slot", Scope::Administration, move |tx| remove(tx, account, slot)).await
    }

    pub(super) async fn touch_slot(&self, slot: i64, now_ms: i64) -> Result<()> {
        let work = move |tx: &Tx<'_>| sql::put(tx, "UPDATE slot SET used_ms = ?2 WHERE id = ?1", (slot, now_ms));
        self.0.write("touch_slot", Scope::Alone, work).await
    }
}

/// The account's slots, oldest first.
pub(super) fn of_account(link: &dyn Link, account: AccountId) -> Done<Vec<Slot>> {
    let sql = concat!("SELECT ", slot_columns!(), " FROM slot WHERE account_id = ?1 ORDER BY id");
    sql::all(link, sql, [account.0], |row| codec::slot(row, 0))
}

/// The slot with this kind and lookup, with its account.
pub(super) fn by_lookup(link: &dyn Link, kind: SlotKind, lookup: &str) -> Done<Option<(Account, Slot)>> {
    let sql = concat!(
        "SELECT ",
        slot_columns!(),
        ", ",
        account_columns!(),
        " FROM slot JOIN account ON account.id = account_id WHERE lookup <> '' AND lookup = ?1 AND kind = ?2"
    );
    let values = (lookup, slot_kind_number(kind));
    sql::first(link, sql, values, |row| Ok((codec::account(row, 11)?, codec::slot(row, 0)?)))
}

/// Removes an account's slots of a kind, but `keep`.
fn remove_kind(tx: &Tx<'_>, account: AccountId, kind: SlotKind, keep: Option<i64>) -> Done<usize> {
    let sql = "DELETE FROM slot WHERE account_id = ?1 AND kind = ?2 AND id <> ?3";
    // Ids begin at 1.
    sql::run(tx, sql, (account.0, slot_kind_number(kind), keep.unwrap_or(0)))
}

/// Removes a slot and voids cached sign-ins.
pub(super) fn remove(tx: &Tx<'_>, account: AccountId, slot: i64) -> Done<()> {
    if sql::run(tx, "DELETE FROM slot WHERE id = ?1 AND account_id = ?2", (slot, account.0))? == 0 {
        return Err(Error::not_found("the account has no such credential").into());
    }
    count_generation(tx, account)
}

/// Adds a slot; `AlreadyExists` if its lookup is taken.
pub(super) fn insert_slot(tx: &Tx<'_>, account: AccountId, new: &NewSlot, now_ms: i64) -> Done<Slot> {
    if by_lookup(tx, new.kind, &new.lookup)?.is_some() {
        return refuse(ErrorKind::AlreadyExists, "a credential with this id exists already");
    }
    if let Some(space) = new.space
        && sql::first(tx, "SELECT 1 FROM space WHERE id = ?1", [space.0], |_| Ok(()))?.is_none()
    {
        return Err(Error::not_found("there is no such space").into());
    }
    let id = tx.new_id()?;
    let sql = "INSERT INTO slot (id, account_id, kind, lookup, label, read_only, space_id, sealed, created_ms, used_ms, \
               expires_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, NULL, ?10)";
    let values = (
        id,
        account.0,
        slot_kind_number(new.kind),
        &new.lookup,
        &new.label,
        new.read_only,
        new.space.map(|space| space.0),
        &new.sealed,
        now_ms,
        new.expires_ms,
    );
    sql::put(tx, sql, values)?;
    Ok(Slot {
        id,
        account,
        kind: new.kind,
        lookup: new.lookup.clone(),
        label: new.label.clone(),
        read_only: new.read_only,
        space: new.space,
        sealed: new.sealed.clone(),
        created_ms: now_ms,
        used_ms: None,
        expires_ms: new.expires_ms,
    })
}
