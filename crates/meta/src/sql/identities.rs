//! Who accounts are at providers, and the memberships that a provider's groups give.

use super::accounts::{by_id, create, no_account};
use super::codec::{self, account_columns, role_number};
use super::engine::{Engine, Ops, Scope};
use super::fault::{Done, refuse};
use super::members;
use super::query as sql;
use super::seam::{Link, Row};
use super::tx::Tx;
use crate::types::{Account, Identity, NewAccount, NewIdentity, OpenGrant, Role};
use holdfast_base::{AccountId, Error, ErrorKind, Result, SpaceId};

macro_rules! identity_columns {
    () => {
        "identity.id, identity.account_id, identity.issuer, identity.subject, identity.label, identity.created_ms, \
         identity.used_ms"
    };
}

/// How many columns [`identity_columns`] are.
const IDENTITY_COLUMNS: usize = 7;

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn link_identity(&self, account: AccountId, new: NewIdentity, now_ms: i64) -> Result<Identity> {
        let work = move |tx: &Tx<'_>| {
            by_id(tx, account)?.ok_or_else(no_account)?;
            insert(tx, account, &new, now_ms)
        };
        self.0.write("link_identity", Scope::Administration, work).await
    }

    pub(super) async fn create_linked_account(&self, new: NewAccount, identity: NewIdentity) -> Result<Account> {
        let work = move |tx: &Tx<'_>| {
            let account = create(tx, &new)?;
            insert(tx, account.id, &identity, new.now_ms)?;
            Ok(account)
        };
        self.0.write("create_linked_account", Scope::Administration, work).await
    }

    pub(super) async fn unlink_identity(&self, account: AccountId, id: i64) -> Result<()> {
        let work = move |tx: &Tx<'_>| {
            if sql::run(tx, "DELETE FROM identity WHERE id = ?1 AND account_id = ?2", (id, account.0))? == 0 {
                return Err(Error::not_found("there is no such linked identity").into());
            }
            Ok(())
        };
        self.0.write("unlink_identity", Scope::Administration, work).await
    }

    pub(super) async fn touch_identity(&self, id: i64, now_ms: i64) -> Result<()> {
        let work = move |tx: &Tx<'_>| sql::put(tx, "UPDATE identity SET used_ms = ?2 WHERE id = ?1", (id, now_ms));
        self.0.write("touch_identity", Scope::Alone, work).await
    }

    pub(super) async fn wish_grants(
        &self,
        account: AccountId,
        issuer: &str,
        wanted: Vec<(SpaceId, Role)>,
    ) -> Result<()> {
        let issuer = issuer.to_owned();
        let work = move |tx: &Tx<'_>| {
            by_id(tx, account)?.ok_or_else(no_account)?;
            take_back(tx, account, &issuer, &wanted)?;
            wanted.iter().try_for_each(|&(space, role)| wish(tx, account, &issuer, space, role))
        };
        self.0.write("wish_grants", Scope::Administration, work).await
    }

    pub(super) async fn make_grant(
        &self,
        space: SpaceId,
        account: AccountId,
        role: Role,
        wrapped_key: Vec<u8>,
    ) -> Result<bool> {
        let work = move |tx: &Tx<'_>| {
            let sql =
                "UPDATE space_grant SET made = 1 WHERE account_id = ?1 AND space_id = ?2 AND role = ?3 AND made = 0";
            if sql::run(tx, sql, (account.0, space.0, role_number(role)))? == 0 {
                return Ok(false);
            }
            members::put(tx, space, account, role, &wrapped_key)?;
            Ok(true)
        };
        self.0.write("make_grant", Scope::Administration, work).await
    }
}

/// Takes memberships back that the groups of this issuer gave and no longer give.
fn take_back(tx: &Tx<'_>, account: AccountId, issuer: &str, wanted: &[(SpaceId, Role)]) -> Done<()> {
    let sql = "SELECT space_id, made FROM space_grant WHERE account_id = ?1 AND issuer = ?2 ORDER BY space_id";
    let given: Vec<(i64, bool)> =
        sql::all(tx, sql, (account.0, issuer), |row| Ok((row.get(0)?, row.get::<i64>(1)? != 0)))?;
    for (space, made) in given {
        if wanted.iter().any(|(wanted, _)| wanted.0 == space) {
            continue;
        }
        sql::put(tx, "DELETE FROM space_grant WHERE account_id = ?1 AND space_id = ?2", (account.0, space))?;
        if made && is_member(tx, SpaceId(space), account)?.is_some() {
            members::remove(tx, SpaceId(space), account)?;
        }
    }
    Ok(())
}

/// Notes a membership that is to be, or gives one that these groups gave another role. One that a person gave is left alone.
fn wish(tx: &Tx<'_>, account: AccountId, issuer: &str, space: SpaceId, role: Role) -> Done<()> {
    let given = "SELECT made FROM space_grant WHERE account_id = ?1 AND space_id = ?2";
    let made = sql::first(tx, given, (account.0, space.0), |row| Ok(row.get::<i64>(0)? != 0))?;
    match (made, is_member(tx, space, account)?) {
        (None, Some(_)) => return Ok(()),
        (Some(true), Some(now)) => {
            if now != role_number(role) {
                members::set_role(tx, space, account, role)?;
            }
            let sql = "UPDATE space_grant SET role = ?3 WHERE account_id = ?1 AND space_id = ?2";
            return sql::put(tx, sql, (account.0, space.0, role_number(role)));
        }
        _ => {}
    }
    let sql = "INSERT INTO space_grant (account_id, space_id, issuer, role, made) VALUES (?1, ?2, ?3, ?4, 0) \
               ON CONFLICT (account_id, space_id) DO UPDATE SET issuer = excluded.issuer, role = excluded.role, made = 0";
    sql::put(tx, sql, (account.0, space.0, issuer, role_number(role)))
}

fn is_member(tx: &Tx<'_>, space: SpaceId, account: AccountId) -> Done<Option<i64>> {
    let sql = "SELECT role FROM member WHERE space_id = ?1 AND account_id = ?2";
    sql::first(tx, sql, (space.0, account.0), |row| row.get(0))
}

/// An account's identities, the oldest first.
pub(super) fn of_account(link: &dyn Link, account: AccountId) -> Done<Vec<Identity>> {
    let sql = concat!("SELECT ", identity_columns!(), " FROM identity WHERE account_id = ?1 ORDER BY id");
    sql::all(link, sql, [account.0], identity)
}

/// Who somebody of a provider is here.
pub(super) fn find(link: &dyn Link, issuer: &str, subject: &str) -> Done<Option<(Account, Identity)>> {
    let sql = concat!(
        "SELECT ",
        identity_columns!(),
        ", ",
        account_columns!(),
        " FROM identity JOIN account ON account.id = identity.account_id WHERE issuer = ?1 AND subject = ?2"
    );
    sql::first(link, sql, (issuer, subject), |row| Ok((codec::account(row, IDENTITY_COLUMNS)?, identity(row)?)))
}

/// Wishes that an owner of spaces can fulfil, and those of the account itself, up to a limit.
pub(super) fn open_grants(link: &dyn Link, owner: AccountId, limit: i64) -> Done<Vec<OpenGrant>> {
    let sql = "SELECT space_grant.space_id, space_grant.account_id, space_grant.role, account.public_key FROM member \
               JOIN space_grant ON space_grant.space_id = member.space_id JOIN account ON account.id = space_grant.account_id \
               WHERE member.account_id = ?1 AND member.role = 2 AND made = 0 \
               ORDER BY space_grant.space_id, space_grant.account_id LIMIT ?2";
    sql::all(link, sql, (owner.0, limit), grant)
}

/// What an account still waits for.
pub(super) fn awaited_grants(link: &dyn Link, account: AccountId) -> Done<Vec<OpenGrant>> {
    let sql = "SELECT space_grant.space_id, space_grant.account_id, space_grant.role, account.public_key FROM space_grant \
               JOIN account ON account.id = space_grant.account_id WHERE account_id = ?1 AND made = 0 ORDER BY space_id";
    sql::all(link, sql, [account.0], grant)
}

fn grant(row: &Row<'_>) -> Done<OpenGrant> {
    Ok(OpenGrant {
        space: SpaceId(row.get(0)?),
        account: AccountId(row.get(1)?),
        role: codec::role(row, 2)?,
        public_key: row.get(3)?,
    })
}

fn identity(row: &Row<'_>) -> Done<Identity> {
    Ok(Identity {
        id: row.get(0)?,
        account: AccountId(row.get(1)?),
        issuer: row.get(2)?,
        subject: row.get(3)?,
        label: row.get(4)?,
        created_ms: row.get(5)?,
        used_ms: row.get(6)?,
    })
}

fn insert(tx: &Tx<'_>, account: AccountId, new: &NewIdentity, now_ms: i64) -> Done<Identity> {
    if find(tx, &new.issuer, &new.subject)?.is_some() {
        return refuse(ErrorKind::AlreadyExists, "this identity belongs to an account already");
    }
    let id = tx.new_id()?;
    let sql = "INSERT INTO identity (id, account_id, issuer, subject, label, created_ms, used_ms) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, NULL)";
    sql::put(tx, sql, (id, account.0, &new.issuer, &new.subject, &new.label, now_ms))?;
    Ok(Identity {
        id,
        account,
        issuer: new.issuer.clone(),
        subject: new.subject.clone(),
        label: new.label.clone(),
        created_ms: now_ms,
        used_ms: None,
    })
}
