//! Second factors and passkeys, and the challenges that were answered.

use super::accounts::{by_id, count_generation, no_account};
use super::codec::{self, account_columns};
use super::engine::{Engine, Ops, Scope};
use super::fault::{Done, refuse};
use super::query as sql;
use super::seam::{Link, Row};
use super::tx::Tx;
use crate::types::{Account, Factors, NewPasskey, Passkey, Ticket, Totp};
use holdfast_base::{AccountId, Error, ErrorKind, Result};

/// Expired challenges removed with each one that is answered.
const SWEPT: i64 = 16;

macro_rules! passkey_columns {
    () => {
        "passkey.id, passkey.account_id, passkey.credential, passkey.public_key, passkey.label, passkey.sealed, \
         passkey.counter, passkey.created_ms, passkey.used_ms"
    };
}

/// How many columns [`passkey_columns`] are.
const PASSKEY_COLUMNS: usize = 9;

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn put_totp(&self, account: AccountId, sealed: Vec<u8>, step: i64, now_ms: i64) -> Result<()> {
        let work = move |tx: &Tx<'_>| {
            by_id(tx, account)?.ok_or_else(no_account)?;
            let sql = "INSERT INTO totp (account_id, sealed, last_step, created_ms) VALUES (?1, ?2, ?3, ?4) \
                       ON CONFLICT DO NOTHING";
            if sql::run(tx, sql, (account.0, &sealed, step, now_ms))? == 0 {
                return refuse(ErrorKind::AlreadyExists, "codes are switched on already");
            }
            count_generation(tx, account)
        };
        self.0.write("put_totp", Scope::Administration, work).await
    }

    pub(super) async fn use_totp(&self, account: AccountId, step: i64) -> Result<bool> {
        // One statement, so that of two nodes with the same code one is refused.
        let sql = "UPDATE totp SET last_step = ?2 WHERE account_id = ?1 AND last_step < ?2";
        self.0.write("use_totp", Scope::Alone, move |tx| Ok(sql::run(tx, sql, (account.0, step))? == 1)).await
    }

    pub(super) async fn remove_totp(&self, account: AccountId) -> Result<()> {
        let work = move |tx: &Tx<'_>| {
            if sql::run(tx, "DELETE FROM totp WHERE account_id = ?1", [account.0])? == 0 {
                return Err(Error::not_found("codes are not switched on").into());
            }
            count_generation(tx, account)
        };
        self.0.write("remove_totp", Scope::Administration, work).await
    }

    pub(super) async fn remove_factors(&self, account: AccountId) -> Result<()> {
        let work = move |tx: &Tx<'_>| {
            by_id(tx, account)?.ok_or_else(no_account)?;
            sql::put(tx, "DELETE FROM totp WHERE account_id = ?1", [account.0])?;
            sql::put(tx, "DELETE FROM passkey WHERE account_id = ?1", [account.0])?;
            count_generation(tx, account)
        };
        self.0.write("remove_factors", Scope::Administration, work).await
    }

    pub(super) async fn add_passkey(
        &self,
        account: AccountId,
        new: NewPasskey,
        ticket: Ticket,
        now_ms: i64,
    ) -> Result<Passkey> {
        let work = move |tx: &Tx<'_>| {
            by_id(tx, account)?.ok_or_else(no_account)?;
            if !spend(tx, ticket, now_ms)? {
                return refuse(ErrorKind::Conflict, "this challenge was answered before: begin again");
            }
            if by_credential(tx, &new.credential)?.is_some() {
                return refuse(ErrorKind::AlreadyExists, "this passkey is known already");
            }
            let passkey = insert(tx, account, &new, now_ms)?;
            count_generation(tx, account)?;
            Ok(passkey)
        };
        self.0.write("add_passkey", Scope::Administration, work).await
    }

    pub(super) async fn use_passkey(&self, id: i64, counter: u32, ticket: Ticket, now_ms: i64) -> Result<bool> {
        let work = move |tx: &Tx<'_>| {
            if !spend(tx, ticket, now_ms)? {
                return refuse(ErrorKind::Unauthenticated, "this challenge was answered before: begin again");
            }
            // Two nodes that see the same counter of a copied authenticator: one of them is refused.
            let sql = "UPDATE passkey SET counter = ?2, used_ms = ?3 WHERE id = ?1 \
                       AND (counter < ?2 OR (counter = 0 AND ?2 = 0))";
            Ok(sql::run(tx, sql, (id, counter, now_ms))? == 1)
        };
        self.0.write("use_passkey", Scope::Alone, work).await
    }

    pub(super) async fn rename_passkey(&self, account: AccountId, id: i64, label: String) -> Result<()> {
        let work = move |tx: &Tx<'_>| {
            let sql = "UPDATE passkey SET label = ?3 WHERE id = ?1 AND account_id = ?2";
            found(sql::run(tx, sql, (id, account.0, &label))?)
        };
        self.0.write("rename_passkey", Scope::Alone, work).await
    }

    pub(super) async fn remove_passkey(&self, account: AccountId, id: i64) -> Result<()> {
        let work = move |tx: &Tx<'_>| {
            found(sql::run(tx, "DELETE FROM passkey WHERE id = ?1 AND account_id = ?2", (id, account.0))?)?;
            count_generation(tx, account)
        };
        self.0.write("remove_passkey", Scope::Administration, work).await
    }

    pub(super) async fn spend_ticket(&self, ticket: Ticket, now_ms: i64) -> Result<bool> {
        self.0.write("spend_ticket", Scope::Alone, move |tx| spend(tx, ticket, now_ms)).await
    }

    pub(super) async fn drive_key(&self, name: &str, proposed: [u8; 32]) -> Result<[u8; 32]> {
        let name = name.to_owned();
        let work = move |tx: &Tx<'_>| {
            let sql = "INSERT INTO drive_key (name, key) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
            sql::put(tx, sql, (&name, &proposed))?;
            sql::only(tx, "SELECT key FROM drive_key WHERE name = ?1", [&name], |row| row.get(0))
        };
        self.0.write("drive_key", Scope::Alone, work).await
    }
}

/// An account's factors.
pub(super) fn of_account(link: &dyn Link, account: AccountId) -> Done<Factors> {
    let sql = "SELECT sealed, last_step, created_ms FROM totp WHERE account_id = ?1";
    let totp = sql::first(link, sql, [account.0], |row| {
        Ok(Totp { sealed: row.get(0)?, last_step: row.get(1)?, created_ms: row.get(2)? })
    })?;
    let sql = concat!("SELECT ", passkey_columns!(), " FROM passkey WHERE account_id = ?1 ORDER BY id");
    Ok(Factors { totp, passkeys: sql::all(link, sql, [account.0], passkey)? })
}

/// A passkey by the credential's id, with its account.
pub(super) fn by_credential(link: &dyn Link, credential: &[u8]) -> Done<Option<(Account, Passkey)>> {
    let sql = concat!(
        "SELECT ",
        passkey_columns!(),
        ", ",
        account_columns!(),
        " FROM passkey JOIN account ON account.id = passkey.account_id WHERE credential = ?1"
    );
    sql::first(link, sql, [credential], |row| Ok((codec::account(row, PASSKEY_COLUMNS)?, passkey(row)?)))
}

fn passkey(row: &Row<'_>) -> Done<Passkey> {
    Ok(Passkey {
        id: row.get(0)?,
        account: AccountId(row.get(1)?),
        credential: row.get(2)?,
        public_key: row.get(3)?,
        label: row.get(4)?,
        sealed: row.get(5)?,
        counter: row.get(6)?,
        created_ms: row.get(7)?,
        used_ms: row.get(8)?,
    })
}

fn insert(tx: &Tx<'_>, account: AccountId, new: &NewPasskey, now_ms: i64) -> Done<Passkey> {
    let id = tx.new_id()?;
    let sql = "INSERT INTO passkey (id, account_id, credential, public_key, label, sealed, counter, created_ms, used_ms) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, NULL)";
    let values =
        (id, account.0, &new.credential, &new.public_key, &new.label, new.sealed.as_ref(), new.counter, now_ms);
    sql::put(tx, sql, values)?;
    Ok(Passkey {
        id,
        account,
        credential: new.credential.clone(),
        public_key: new.public_key.clone(),
        label: new.label.clone(),
        sealed: new.sealed.clone(),
        counter: new.counter,
        created_ms: now_ms,
        used_ms: None,
    })
}

/// Notes that a challenge was answered; false if it was before.
fn spend(tx: &Tx<'_>, ticket: Ticket, now_ms: i64) -> Done<bool> {
    let sql = "DELETE FROM used_ticket WHERE id IN \
               (SELECT id FROM used_ticket WHERE expires_ms < ?1 ORDER BY expires_ms LIMIT ?2)";
    sql::put(tx, sql, (now_ms, SWEPT))?;
    let sql = "INSERT INTO used_ticket (id, expires_ms) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    Ok(sql::run(tx, sql, (&ticket.id, ticket.expires_ms))? == 1)
}

fn found(rows: usize) -> Done<()> {
    if rows == 0 { Err(Error::not_found("there is no such passkey").into()) } else { Ok(()) }
}
