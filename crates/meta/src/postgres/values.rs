//! Values on their way to PostgreSQL and back, in its binary format.

use crate::sql::fault::Done;
use crate::sql::seam::{Columns, Value, damaged};
use bytes::BytesMut;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

/// The type a parameter is declared with, so that the server need not guess; null leaves it to the server.
pub(super) const fn type_of(value: Value<'_>) -> Type {
    match value {
        Value::Null => Type::UNKNOWN,
        Value::Integer(_) => Type::INT8,
        Value::Text(_) => Type::TEXT,
        Value::Blob(_) => Type::BYTEA,
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self, of: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match *self {
            Value::Null => Ok(IsNull::Yes),
            Value::Integer(number) if *of == Type::INT8 => number.to_sql(of, out),
            Value::Text(text) if *of == Type::TEXT || *of == Type::VARCHAR => text.to_sql(of, out),
            Value::Blob(bytes) if *of == Type::BYTEA => bytes.to_sql(of, out),
            _ => Err(format!("{self:?} is no {of}").into()),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl Columns for Row {
    fn value(&self, column: usize) -> Done<Value<'_>> {
        let Some(found) = self.columns().get(column) else {
            return Err(damaged(format!("there is no column {column}")).into());
        };
        let value = match *found.type_() {
            Type::INT8 => get::<i64>(self, column)?.map(Value::Integer),
            Type::INT4 => get::<i32>(self, column)?.map(|number| Value::Integer(number.into())),
            Type::BOOL => get::<bool>(self, column)?.map(|truth| Value::Integer(truth.into())),
            Type::TEXT | Type::VARCHAR => get(self, column)?.map(Value::Text),
            Type::BYTEA => get(self, column)?.map(Value::Blob),
            ref other => return Err(damaged(format!("column {column} is of type {other}")).into()),
        };
        Ok(value.unwrap_or(Value::Null))
    }

    fn count(&self) -> usize {
        self.len()
    }
}

fn get<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Done<Option<T>> {
    Ok(row.try_get(column)?)
}
