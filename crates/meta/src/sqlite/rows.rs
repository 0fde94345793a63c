//! The hash each row keeps of its own values.
//!
//! Which columns a table's `sum` covers is read from the schema, so a table added later is covered without a word here.

use crate::sql::check::Checker;
use crate::sql::fault::Done;
use crate::sql::seam::{Row, Value};

pub(super) fn check(checker: &mut Checker<'_>) -> Done<()> {
    let sql = "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%row_sum(%' ORDER BY name";
    let tables: Vec<(String, String)> = checker.rows(sql, (), |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (table, definition) in tables {
        let Some(call) = call(&definition) else { continue };
        let sql = format!(
            "SELECT group_concat(name) FROM (SELECT name FROM pragma_table_info('{table}') WHERE pk > 0 ORDER BY pk)"
        );
        let keys: Vec<String> = checker.rows(&sql, (), |row| row.get(0))?;
        let Some(key) = keys.first() else { continue };
        let sql = format!("SELECT {key} FROM {table} WHERE sum <> {call}");
        for row in checker.rows(&sql, (), describe)? {
            let message = format!("{table} ({key}) = ({row}): a value of this row was changed on disk");
            checker.found("row-value", message, true, None);
        }
    }
    Ok(())
}

/// The `row_sum(…)` of a table definition.
fn call(definition: &str) -> Option<&str> {
    let start = definition.find("row_sum(")?;
    let end = definition[start..].find(')')? + start;
    definition.get(start..=end)
}

/// The key of a row, for a person.
fn describe(row: &Row<'_>) -> Done<String> {
    let mut values = Vec::new();
    for column in 0..row.columns() {
        values.push(match row.value(column)? {
            Value::Null => "null".to_owned(),
            Value::Integer(number) => number.to_string(),
            Value::Text(text) => format!("{text:?}"),
            Value::Blob(bytes) => bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}")),
        });
    }
    Ok(values.join(", "))
}
