//! The seam between operations and engines: values, rows, and a connection that runs statements.
//!
//! Operations write plain SQL with parameters `?1`, `?2`, … and hand over [`Params`]; an engine sees a slice of [`Value`]s and
//! answers rows through [`Columns`]. Both are small enough that the cost beside a statement is some nanoseconds a column.
//! Booleans are the integers 0 and 1 in both databases, and every integer has 64 bits.
//!
//! **Round trips.** To a database in the same process a statement costs itself; over a network it costs waiting as well. So
//! what needs no answer is *put* ([`Link::put`]): an engine may keep it back and send it together with the next statement
//! whose answer somebody waits for. What runs the same statement many times says so ([`Link::run_many`],
//! [`Link::query_many`]), and an engine may send all of them before it waits.

use super::fault::{DatabaseError, Done, Fault, Trouble};
use holdfast_base::{Error, ErrorKind};
use std::sync::Arc;

/// What an operation has to know of the database it speaks to; everything else is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// SQLite: one writer, so that nothing needs a row lock; in this process, so that many small statements cost little.
    Sqlite,
    /// PostgreSQL and what is compatible with it: row locks, and a network between.
    Postgres,
}

/// A value of the database, borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'v> {
    /// No value.
    Null,
    /// Every number and truth value.
    Integer(i64),
    /// UTF-8.
    Text(&'v str),
    /// Bytes.
    Blob(&'v [u8]),
}

/// A value that outlives the call that gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Owned {
    /// See [`Value::Null`].
    Null,
    /// See [`Value::Integer`].
    Integer(i64),
    /// See [`Value::Text`].
    Text(Box<str>),
    /// See [`Value::Blob`].
    Blob(Box<[u8]>),
}

impl Owned {
    /// A copy of a value.
    pub(crate) fn of(value: Value<'_>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Integer(number) => Self::Integer(number),
            Value::Text(text) => Self::Text(text.into()),
            Value::Blob(bytes) => Self::Blob(bytes.into()),
        }
    }

    /// As a value.
    pub(crate) const fn value(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Integer(number) => Value::Integer(*number),
            Self::Text(text) => Value::Text(text),
            Self::Blob(bytes) => Value::Blob(bytes),
        }
    }
}

/// Something that goes into a parameter.
pub(crate) trait ToValue {
    /// As a value.
    fn value(&self) -> Value<'_>;
}

/// Something that comes out of a column.
pub(crate) trait FromValue: Sized {
    /// From a value; none if the value is of another kind or out of range.
    fn from_value(value: Value<'_>) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl FromValue for $number {
            #[inline]
            fn from_value(value: Value<'_>) -> Option<Self> {
                match value {
                    Value::Integer(number) => number.try_into().ok(),
                    _ => None,
                }
            }
        })*
    };
}
numbers!(i64, u64, u32, usize);

impl FromValue for bool {
    #[inline]
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Integer(number) => Some(number != 0),
            _ => None,
        }
    }
}

impl FromValue for String {
    #[inline]
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text.to_owned()),
            _ => None,
        }
    }
}

impl FromValue for Vec<u8> {
    #[inline]
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Blob(bytes) => Some(bytes.to_vec()),
            _ => None,
        }
    }
}

impl<const N: usize> FromValue for [u8; N] {
    #[inline]
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Blob(bytes) => bytes.try_into().ok(),
            _ => None,
        }
    }
}

impl<T: FromValue> FromValue for Option<T> {
    #[inline]
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}

impl ToValue for i64 {
    #[inline]
    fn value(&self) -> Value<'_> {
        Value::Integer(*self)
    }
}

impl ToValue for u32 {
    #[inline]
    fn value(&self) -> Value<'_> {
        Value::Integer(i64::from(*self))
    }
}

impl ToValue for bool {
    #[inline]
    fn value(&self) -> Value<'_> {
        Value::Integer(i64::from(*self))
    }
}

impl ToValue for str {
    #[inline]
    fn value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl ToValue for String {
    #[inline]
    fn value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl ToValue for [u8] {
    #[inline]
    fn value(&self) -> Value<'_> {
        Value::Blob(self)
    }
}

impl<const N: usize> ToValue for [u8; N] {
    #[inline]
    fn value(&self) -> Value<'_> {
        Value::Blob(self)
    }
}

impl ToValue for Vec<u8> {
    #[inline]
    fn value(&self) -> Value<'_> {
        Value::Blob(self)
    }
}

impl ToValue for Value<'_> {
    #[inline]
    fn value(&self) -> Value<'_> {
        *self
    }
}

impl<T: ToValue> ToValue for Option<T> {
    #[inline]
    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, ToValue::value)
    }
}

impl<T: ToValue + ?Sized> ToValue for &T {
    #[inline]
    fn value(&self) -> Value<'_> {
        (**self).value()
    }
}

/// The parameters of one statement: a tuple, an array, or `()`.
pub(crate) trait Params {
    /// Hands them over as a slice.
    fn with<R>(self, run: impl FnOnce(&[Value<'_>]) -> R) -> R;
}

impl Params for () {
    fn with<R>(self, run: impl FnOnce(&[Value<'_>]) -> R) -> R {
        run(&[])
    }
}

impl<T: ToValue, const N: usize> Params for [T; N] {
    fn with<R>(self, run: impl FnOnce(&[Value<'_>]) -> R) -> R {
        run(&self.each_ref().map(ToValue::value))
    }
}

impl Params for &[Value<'_>] {
    fn with<R>(self, run: impl FnOnce(&[Value<'_>]) -> R) -> R {
        run(self)
    }
}

macro_rules! tuples {
    ($($($name:ident $place:tt),+;)+) => {
        $(impl<$($name: ToValue),+> Params for ($($name,)+) {
            fn with<R>(self, run: impl FnOnce(&[Value<'_>]) -> R) -> R {
                run(&[$(self.$place.value()),+])
            }
        })+
    };
}
tuples! {
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
    A 0, B 1, C 2, D 3, E 4;
    A 0, B 1, C 2, D 3, E 4, F 5;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10;
}

/// The columns of a row, as an engine gives them.
pub(crate) trait Columns {
    /// One value.
    fn value(&self, column: usize) -> Done<Value<'_>>;
    /// How many there are.
    fn count(&self) -> usize;
}

/// A row of an answer.
pub(crate) struct Row<'r>(&'r dyn Columns);

impl<'r> Row<'r> {
    /// Of an engine's row.
    pub(crate) fn new(columns: &'r dyn Columns) -> Self {
        Self(columns)
    }

    /// A column as a value of ours. What does not fit is damage.
    #[inline]
    pub(crate) fn get<T: FromValue>(&self, column: usize) -> Done<T> {
        match T::from_value(self.0.value(column)?) {
            Some(value) => Ok(value),
            None => Err(other_kind(column)),
        }
    }

    /// A column as it is.
    pub(crate) fn value(&self, column: usize) -> Done<Value<'_>> {
        self.0.value(column)
    }

    /// How many columns there are.
    pub(crate) fn columns(&self) -> usize {
        self.0.count()
    }
}

#[cold]
fn other_kind(column: usize) -> Fault {
    damaged(format!("column {column} is of another kind")).into()
}

/// A value that cannot be what was written.
pub(crate) fn damaged(what: impl Into<String>) -> DatabaseError {
    DatabaseError {
        kind: ErrorKind::Damaged,
        message: super::fault::DAMAGED,
        trouble: Trouble::Statement,
        cause: Arc::new(Error::damaged(what)),
    }
}

/// Whether a query goes on after a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// To the next row.
    On,
    /// Enough was seen.
    Enough,
}

/// Takes the rows of an answer one by one. It runs no statements: the answer may still be on its way.
pub(crate) type Each<'e> = &'e mut dyn FnMut(&Row<'_>) -> Done<Flow>;

/// Takes the rows of many answers, each with the number of the parameters it answers.
pub(crate) type EachOfMany<'e> = &'e mut dyn FnMut(usize, &Row<'_>) -> Done<()>;

/// A connection.
pub(crate) trait Link {
    /// Which database this is.
    fn dialect(&self) -> Dialect;
    /// Runs a statement and answers how many rows it changed.
    fn run(&self, sql: &str, params: &[Value<'_>]) -> Done<usize>;
    /// Runs a statement whose answer nobody needs: at once, or before the next one that is waited for.
    fn put(&self, sql: &str, params: &[Value<'_>]) -> Done<()>;
    /// Runs a query.
    fn query(&self, sql: &str, params: &[Value<'_>], each: Each<'_>) -> Done<()>;
    /// Runs a statement once for every `width` of `params`, in order, and answers how many rows each changed.
    fn run_many(&self, sql: &str, width: usize, params: &[Value<'_>]) -> Done<Vec<usize>>;
    /// Runs a query once for every `width` of `params`, in order.
    fn query_many(&self, sql: &str, width: usize, params: &[Value<'_>], each: EachOfMany<'_>) -> Done<()>;
}
