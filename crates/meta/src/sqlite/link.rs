//! SQLite's side of the seam: a connection with cached statements, and its rows.

use crate::sql::fault::Done;
use crate::sql::seam::{Columns, Dialect, Each, EachOfMany, Flow, Link, Row, Value, damaged};
use rusqlite::types::{Null, ValueRef};
use rusqlite::{CachedStatement, Connection, Statement};

impl Link for Connection {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn run(&self, sql: &str, params: &[Value<'_>]) -> Done<usize> {
        Ok(prepare(self, sql, params)?.raw_execute()?)
    }

    fn put(&self, sql: &str, params: &[Value<'_>]) -> Done<()> {
        self.run(sql, params).map(drop)
    }

    fn query(&self, sql: &str, params: &[Value<'_>], each: Each<'_>) -> Done<()> {
        let mut statement = prepare(self, sql, params)?;
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            if each(&Row::new(row))? == Flow::Enough {
                break;
            }
        }
        Ok(())
    }

    fn run_many(&self, sql: &str, width: usize, params: &[Value<'_>]) -> Done<Vec<usize>> {
        let mut statement = self.prepare_cached(sql)?;
        let mut counts = Vec::with_capacity(params.len() / width.max(1));
        for params in params.chunks_exact(width.max(1)) {
            bind(&mut statement, params)?;
            counts.push(statement.raw_execute()?);
        }
        Ok(counts)
    }

    fn query_many(&self, sql: &str, width: usize, params: &[Value<'_>], each: EachOfMany<'_>) -> Done<()> {
        let mut statement = self.prepare_cached(sql)?;
        for (index, params) in params.chunks_exact(width.max(1)).enumerate() {
            bind(&mut statement, params)?;
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next()? {
                each(index, &Row::new(row))?;
            }
        }
        Ok(())
    }
}

fn prepare<'c>(connection: &'c Connection, sql: &str, params: &[Value<'_>]) -> rusqlite::Result<CachedStatement<'c>> {
    let mut statement = connection.prepare_cached(sql)?;
    bind(&mut statement, params)?;
    Ok(statement)
}

fn bind(statement: &mut Statement<'_>, params: &[Value<'_>]) -> rusqlite::Result<()> {
    for (index, value) in params.iter().enumerate() {
        match *value {
            Value::Null => statement.raw_bind_parameter(index + 1, Null)?,
            Value::Integer(number) => statement.raw_bind_parameter(index + 1, number)?,
            Value::Text(text) => statement.raw_bind_parameter(index + 1, text)?,
            Value::Blob(bytes) => statement.raw_bind_parameter(index + 1, bytes)?,
        }
    }
    Ok(())
}

impl Columns for rusqlite::Row<'_> {
    fn value(&self, column: usize) -> Done<Value<'_>> {
        match self.get_ref(column) {
            Ok(ValueRef::Integer(number)) => Ok(Value::Integer(number)),
            Ok(ValueRef::Null) => Ok(Value::Null),
            Ok(ValueRef::Text(bytes)) => match std::str::from_utf8(bytes) {
                Ok(text) => Ok(Value::Text(text)),
                Err(_) => Err(damaged(format!("column {column} is no text")).into()),
            },
            Ok(ValueRef::Blob(bytes)) => Ok(Value::Blob(bytes)),
            Ok(ValueRef::Real(_)) => Err(damaged(format!("column {column} is a fraction")).into()),
            Err(error) => Err(error.into()),
        }
    }

    fn count(&self) -> usize {
        self.as_ref().column_count()
    }
}
