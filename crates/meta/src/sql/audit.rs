//! The log of who did what: written with the change it speaks of, or in batches.

use super::codec::rows;
use super::engine::{Engine, Ops, Scope};
use super::fault::Done;
use super::query as sql;
use super::seam::{Link, Value};
use super::tx::Tx;
use crate::types::{AuditEntry, AuditNote, AuditQuery};
use holdfast_base::Result;
use std::fmt::Write;

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn add_audit(&self, notes: Vec<AuditNote>) -> Result<()> {
        let notes: Vec<AuditNote> = notes.into_iter().map(AuditNote::bounded).collect();
        let work = move |tx: &Tx<'_>| notes.iter().try_for_each(|note| insert(tx, note));
        self.0.write("add_audit", Scope::Alone, work).await
    }

    pub(super) async fn trim_audit(&self, oldest_ms: i64, rows_max: usize, limit: usize) -> Result<usize> {
        let work = move |tx: &Tx<'_>| {
            let sql = "SELECT at_ms, id FROM audit ORDER BY at_ms DESC, id DESC LIMIT 1 OFFSET ?1";
            let beyond = sql::first(tx, sql, [rows(rows_max)], |row| Ok((row.get::<i64>(0)?, row.get::<i64>(1)?)))?;
            let (at_ms, id) = beyond.unwrap_or((i64::MIN, 0));
            let sql = "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at_ms < ?1 OR (at_ms, id) <= (?2, ?3) \
                       ORDER BY at_ms, id LIMIT ?4)";
            sql::run(tx, sql, (oldest_ms, at_ms, id, rows(limit)))
        };
        self.0.write("trim_audit", Scope::Alone, work).await
    }
}

/// Writes an entry, whose texts are in bounds.
pub(super) fn insert(tx: &Tx<'_>, note: &AuditNote) -> Done<()> {
    let sql = "INSERT INTO audit (id, at_ms, account, address, node, action, object, detail, result) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    let AuditNote { at_ms, account, address, node, action, object, detail, result } = note;
    sql::put(tx, sql, (tx.new_id()?, *at_ms, account, address, node, action, object, detail, result))
}

/// Entries, the newest first.
pub(super) fn find(link: &dyn Link, query: &AuditQuery) -> Done<Vec<AuditEntry>> {
    let mut params: Vec<Value<'_>> = vec![
        Value::Integer(query.from_ms.unwrap_or(i64::MIN)),
        Value::Integer(query.to_ms.unwrap_or(i64::MAX)),
        Value::Integer(rows(query.limit)),
    ];
    let mut sql = String::from(
        "SELECT id, at_ms, account, address, node, action, object, detail, result FROM audit WHERE at_ms >= ?1 AND at_ms < ?2",
    );
    let texts = [(&query.account, "account = ?"), (&query.address, "address = ?")];
    for (text, condition) in texts {
        if let Some(text) = text {
            params.push(Value::Text(text));
            let _ = write!(sql, " AND {condition}{}", params.len());
        }
    }
    if let Some(action) = &query.action {
        params.push(Value::Text(action));
        let place = params.len();
        let _ = write!(sql, " AND substr(action, 1, length(?{place})) = ?{place}");
    }
    if let Some((at_ms, id)) = query.before {
        params.extend([Value::Integer(at_ms), Value::Integer(id)]);
        let _ = write!(sql, " AND (at_ms, id) < (?{}, ?{})", params.len() - 1, params.len());
    }
    sql.push_str(" ORDER BY at_ms DESC, id DESC LIMIT ?3");
    sql::all(link, &sql, params.as_slice(), |row| {
        let note = AuditNote {
            at_ms: row.get(1)?,
            account: row.get(2)?,
            address: row.get(3)?,
            node: row.get(4)?,
            action: row.get(5)?,
            object: row.get(6)?,
            detail: row.get(7)?,
            result: row.get(8)?,
        };
        Ok(AuditEntry { id: row.get(0)?, note })
    })
}
