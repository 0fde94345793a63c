//! A hash of a row's values, kept in the row.
//!
//! SQLite does not check what it reads: a bit that flips inside a value is a different value and nothing more. Tables whose
//! values are written down nowhere else carry a stored generated column `sum = row_sum(values…)`, computed here by XXH3 (not
//! against an attacker, who could compute it too, but against disks), and `check` compares.
//!
//! The function is part of the file format: the same values must give the same sum for ever.

use rusqlite::Connection;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Registers `row_sum` on a connection; without it no row of the catalogue can be written.
pub(super) fn register(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_scalar_function("row_sum", -1, flags, |context| Ok(row_sum(context)))
}

fn row_sum(context: &Context<'_>) -> i64 {
    let sum = (0..context.len()).fold(0, |sum, index| add(sum, context.get_raw(index)));
    i64::from_le_bytes(sum.to_le_bytes())
}

/// Chains one value to a sum. The kind of the value is hashed with it, so that null, 0, "" and an empty blob all differ.
fn add(sum: u64, value: ValueRef<'_>) -> u64 {
    let (kind, bytes): (u64, &[u8]) = match value {
        ValueRef::Null => (1, &[]),
        ValueRef::Integer(number) => return xxh3_64_with_seed(&number.to_le_bytes(), sum ^ 2),
        ValueRef::Real(number) => return xxh3_64_with_seed(&number.to_le_bytes(), sum ^ 3),
        ValueRef::Text(text) => (4, text),
        ValueRef::Blob(blob) => (5, blob),
    };
    xxh3_64_with_seed(bytes, sum ^ kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(values: &str) -> i64 {
        let connection = Connection::open_in_memory().expect("opens");
        register(&connection).expect("registers");
        connection.query_row(&format!("SELECT row_sum({values})"), [], |row| row.get(0)).expect("computes")
    }

    #[test]
    fn values_that_look_alike_have_different_sums() {
        let alike = ["NULL", "0", "''", "x''", "0.0", "'0'", "x'30'", "NULL, NULL", "0, 0", "'a', 'b'", "'ab', ''"];
        let mut sums: Vec<i64> = alike.iter().map(|values| sum(values)).collect();
        sums.sort_unstable();
        sums.dedup();
        assert_eq!(sums.len(), alike.len());
    }

    #[test]
    fn the_sum_is_part_of_the_format_and_never_changes() {
        assert_eq!(sum("1, 'a', x'ff', NULL"), GOLDEN);
    }

    const GOLDEN: i64 = 55_755_209_165_514_541;
}
