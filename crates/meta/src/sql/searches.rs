//! Saved searches: what an account looks for again and again.
//!
//! A saved search names the folder for what is put into it by row, so it goes where the folder goes. It holds no list of what it finds: that is
//! looked for each time, so it is never behind.
//!
//! **Limits.** [`SEARCHES_MAX`] of an account, and those of any query.

use super::codec::{node_kind, node_kind_number, rows, signed};
use super::engine::{Engine, Ops, Scope};
use super::fault::{Done, refuse};
use super::query as sql;
use super::seam::{Link, Row, Value, damaged};
use super::search::check_query;
use super::shares::place;
use super::tx::Tx;
use crate::types::{
    MediaGroup, NewSearch, SEARCHES_MAX, SavedSearch, SearchChange, SearchQuery, WhichSearch, tags_of_text,
    tags_to_text,
};
use holdfast_base::limits::NAME_BYTES_MAX;
use holdfast_base::{AccountId, Error, ErrorKind, NodeId, NodeName, Result, SpaceId};

/// Columns of [`search`].
const COLUMNS: &str = "id, account_id, name, words, space, kind, media, min_bytes, max_bytes, after_ms, before_ms, within_days, \
                       tags, folder_id, created_ms, changed_ms";

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn save_search(&self, new: NewSearch) -> Result<SavedSearch> {
        check(new.space.as_deref(), &new.query)?;
        self.0.write("save_search", Scope::Alone, move |tx| save(tx, &new)).await
    }

    pub(super) async fn change_search(&self, account: AccountId, id: i64, change: SearchChange) -> Result<SavedSearch> {
        if let Some((space, query)) = &change.query {
            check(space.as_deref(), query)?;
        }
        self.0.write("change_search", Scope::Alone, move |tx| self::change(tx, account, id, &change)).await
    }

    pub(super) async fn remove_search(&self, account: AccountId, id: i64) -> Result<()> {
        let work = move |tx: &Tx<'_>| match sql::run(
            tx,
            "DELETE FROM saved_search WHERE id = ?1 AND account_id = ?2",
            (id, account.0),
        )? {
            0 => Err(no_search().into()),
            _ => Ok(()),
        };
        self.0.write("remove_search", Scope::Alone, work).await
    }
}

fn no_search() -> Error {
    Error::not_found("there is no such saved search")
}

fn check(space: Option<&str>, query: &SearchQuery) -> Result<()> {
    if space.is_some_and(|space| space.is_empty() || space.len() > NAME_BYTES_MAX) {
        return Err(Error::invalid("this cannot be the name of a space"));
    }
    check_query(query)
}

/// An account's saved searches, by name.
pub(super) fn of_account(link: &dyn Link, account: AccountId) -> Done<Vec<SavedSearch>> {
    some(link, "account_id = ?1", &[Value::Integer(account.0)])
}

/// One of them.
pub(super) fn find(link: &dyn Link, account: AccountId, which: &WhichSearch) -> Done<Option<SavedSearch>> {
    let (condition, value) = match which {
        WhichSearch::Id(id) => ("account_id = ?1 AND id = ?2", Value::Integer(*id)),
        WhichSearch::Name(name) => ("account_id = ?1 AND name = ?2", Value::Text(name)),
    };
    Ok(some(link, condition, &[Value::Integer(account.0), value])?.pop())
}

fn some(link: &dyn Link, which: &str, values: &[Value<'_>]) -> Done<Vec<SavedSearch>> {
    let sql = format!("SELECT {COLUMNS} FROM saved_search WHERE {which} ORDER BY name LIMIT {SEARCHES_MAX}");
    let mut found = sql::all(link, &sql, values, search)?;
    for saved in &mut found {
        let Some(folder) = saved.folder else { continue };
        let sql = "SELECT space_id FROM node WHERE id = ?1";
        let space = sql::first(link, sql, [folder.0], |row| Ok(SpaceId(row.get(0)?)))?;
        saved.place = space.zip(place(link, folder)?.map(|(path, _)| path));
    }
    Ok(found)
}

fn search(row: &Row<'_>) -> Done<SavedSearch> {
    let media = row.get::<Option<String>>(6)?.map(|name| name.parse::<MediaGroup>()).transpose();
    let kind = row.get::<Option<i64>>(5)?.map(|_| node_kind(row, 5)).transpose()?;
    Ok(SavedSearch {
        id: row.get(0)?,
        account: AccountId(row.get(1)?),
        name: NodeName::new(&row.get::<String>(2)?)?,
        space: row.get(4)?,
        query: SearchQuery {
            text: row.get(3)?,
            kind,
            group: media.map_err(|_| damaged("a saved search has no type of files that there is"))?,
            min_bytes: row.get(7)?,
            max_bytes: row.get(8)?,
            after_ms: row.get(9)?,
            before_ms: row.get(10)?,
            within_days: row.get(11)?,
            tags: tags_of_text(&row.get::<String>(12)?)?,
            ..SearchQuery::default()
        },
        folder: row.get::<Option<i64>>(13)?.map(NodeId),
        place: None,
        created_ms: row.get(14)?,
        changed_ms: row.get(15)?,
    })
}

fn save(tx: &Tx<'_>, new: &NewSearch) -> Done<SavedSearch> {
    tx.lock_account(new.account)?;
    let sql = "SELECT count(*) FROM saved_search WHERE account_id = ?1";
    let count: i64 = sql::only(tx, sql, [new.account.0], |row| row.get(0))?;
    if count >= rows(SEARCHES_MAX) {
        let message = format!("an account can save {SEARCHES_MAX} searches: remove some that are no longer needed");
        return refuse(ErrorKind::Conflict, message);
    }
    refuse_taken(tx, new.account, &new.name, None)?;
    let id = tx.new_id()?;
    let sql = "INSERT INTO saved_search (id, account_id, name, words, space, kind, media, min_bytes, max_bytes, after_ms, before_ms, \
               tags, folder_id, created_ms, changed_ms) VALUES (?1, ?2, ?3, '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '', ?4, ?5, ?5)";
    sql::put(tx, sql, (id, new.account.0, new.name.as_str(), new.folder.map(|folder| folder.0), new.now_ms))?;
    set_query(tx, id, new.space.as_deref(), &new.query)?;
    find(tx, new.account, &WhichSearch::Id(id))?.ok_or_else(|| no_search().into())
}

fn set_query(tx: &Tx<'_>, id: i64, space: Option<&str>, query: &SearchQuery) -> Done<()> {
    let sql = "UPDATE saved_search SET words = ?2, space = ?3, kind = ?4, media = ?5, min_bytes = ?6, max_bytes = ?7, after_ms = ?8, \
               before_ms = ?9, within_days = ?10, tags = ?11 WHERE id = ?1";
    let tags = tags_to_text(&query.tags);
    let values = (
        id,
        &query.text,
        space,
        query.kind.map(node_kind_number),
        query.group.map(MediaGroup::name),
        query.min_bytes.map(signed),
        query.max_bytes.map(signed),
        query.after_ms,
        query.before_ms,
        query.within_days,
        &tags,
    );
    sql::put(tx, sql, values)
}

fn refuse_taken(tx: &Tx<'_>, account: AccountId, name: &NodeName, own: Option<i64>) -> Done<()> {
    let sql = "SELECT id FROM saved_search WHERE account_id = ?1 AND name = ?2";
    let other: Option<i64> = sql::first(tx, sql, (account.0, name.as_str()), |row| row.get(0))?;
    if other.is_some() && other != own {
        return refuse(ErrorKind::AlreadyExists, format!("there is a saved search {:?} already", name.as_str()));
    }
    Ok(())
}

fn change(tx: &Tx<'_>, account: AccountId, id: i64, change: &SearchChange) -> Done<SavedSearch> {
    tx.lock_account(account)?;
    let sql = "UPDATE saved_search SET changed_ms = ?3 WHERE id = ?1 AND account_id = ?2";
    if sql::run(tx, sql, (id, account.0, change.now_ms))? == 0 {
        return Err(no_search().into());
    }
    if let Some(name) = &change.name {
        refuse_taken(tx, account, name, Some(id))?;
        sql::put(tx, "UPDATE saved_search SET name = ?2 WHERE id = ?1", (id, name.as_str()))?;
    }
    if let Some((space, query)) = &change.query {
        set_query(tx, id, space.as_deref(), query)?;
    }
    if let Some(folder) = change.folder {
        let sql = "UPDATE saved_search SET folder_id = ?2 WHERE id = ?1";
        sql::put(tx, sql, (id, folder.map(|folder| folder.0)))?;
    }
    find(tx, account, &WhichSearch::Id(id))?.ok_or_else(|| no_search().into())
}
