//! Running one statement, without ceremony.

use super::fault::Done;
use super::seam::{Flow, Link, Params, Row, Value, damaged};
use std::fmt::Write;

/// Runs a statement that answers nothing; gives the number of rows it changed.
pub(crate) fn run(link: &dyn Link, sql: &str, params: impl Params) -> Done<usize> {
    params.with(|values| link.run(sql, values))
}

/// Runs a statement whose answer nobody needs; see [`Link::put`].
pub(crate) fn put(link: &dyn Link, sql: &str, params: impl Params) -> Done<()> {
    params.with(|values| link.put(sql, values))
}

/// The first row of a query, if there is one.
pub(crate) fn first<T>(
    link: &dyn Link,
    sql: &str,
    params: impl Params,
    read: impl Fn(&Row<'_>) -> Done<T>,
) -> Done<Option<T>> {
    let mut found = None;
    let mut take = |row: &Row<'_>| {
        found = Some(read(row)?);
        Ok(Flow::Enough)
    };
    params.with(|values| link.query(sql, values, &mut take))?;
    Ok(found)
}

/// The only row of a query that always has one (an aggregate).
pub(crate) fn only<T>(link: &dyn Link, sql: &str, params: impl Params, read: impl Fn(&Row<'_>) -> Done<T>) -> Done<T> {
    first(link, sql, params, read)?.ok_or_else(|| damaged("a row is missing").into())
}

/// Every row of a query; the caller bounds it.
pub(crate) fn all<T>(
    link: &dyn Link,
    sql: &str,
    params: impl Params,
    read: impl Fn(&Row<'_>) -> Done<T>,
) -> Done<Vec<T>> {
    let mut rows = Vec::new();
    let mut take = |row: &Row<'_>| {
        rows.push(read(row)?);
        Ok(Flow::On)
    };
    params.with(|values| link.query(sql, values, &mut take))?;
    Ok(rows)
}

/// A statement that inserts so many rows of so many columns.
pub(crate) fn insertion(into: &str, columns: usize, rows: usize) -> String {
    let row = |row: usize| {
        let values: Vec<String> = (1..=columns).map(|column| format!("?{}", row * columns + column)).collect();
        format!("({})", values.join(", "))
    };
    let rows: Vec<String> = (0..rows).map(row).collect();
    format!("INSERT INTO {into} VALUES {}", rows.join(", "))
}

/// Ids in one list at most: a power of two, so that lists are of few lengths and each statement stays prepared.
const LIST_IDS: usize = 256;

/// Calls `run` with the inside of an `IN (…)` and the ids it stands for, as often as the number of ids takes. The list's parameters
/// begin at `?1`; an id may be in it twice.
pub(crate) fn in_lists(ids: &[i64], run: impl FnMut(&str, &[Value<'_>]) -> Done<()>) -> Done<()> {
    in_lists_after(&[], ids, run)
}

/// The same after other parameters.
pub(crate) fn in_lists_after(
    before: &[Value<'_>],
    ids: &[i64],
    mut run: impl FnMut(&str, &[Value<'_>]) -> Done<()>,
) -> Done<()> {
    for part in ids.chunks(LIST_IDS) {
        let Some(&last) = part.last() else { continue };
        let places = part.len().next_power_of_two();
        let mut inside = String::with_capacity(places * 5);
        for place in 0..places {
            let comma = if place == 0 { "" } else { ", " };
            // Writing to a string cannot fail.
            let _ = write!(inside, "{comma}?{}", before.len() + place + 1);
        }
        let mut params = before.to_vec();
        params.extend(part.iter().map(|&id| Value::Integer(id)));
        params.resize(before.len() + places, Value::Integer(last));
        run(&inside, &params)?;
    }
    Ok(())
}
