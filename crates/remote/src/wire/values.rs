//! Values as CBOR: each type once, in both directions.

use super::cbor::{Reader, Writer};
use bytes::Bytes;
use holdfast_base::{BlockId, ByteRange, ContentId, DrivePath, Error, NodeId, NodeName, Result, SpaceId};
use holdfast_drive::{
    Bond, Content, Durable, Entry, Expect, Leave, ManifestChunk, NameTaken, NewAttributes, NewName, NewNode, Node,
    NodeKind, Posix, Rename, Renamed, Room, Save, Special, Taken, Unlink, XattrRule,
};

/// Items that room is made for before they are read.
const RESERVED_MAX: usize = 1_024;

/// What can be part of a message.
pub(crate) trait Value: Sized {
    fn put(&self, out: &mut Writer);
    fn get(from: &mut Reader<'_>) -> Result<Self>;
}

macro_rules! by {
    ($($type:ty: $self:ident, $out:ident => $put:expr, $from:ident => $get:expr;)*) => {
        $(impl Value for $type {
            fn put(&$self, $out: &mut Writer) { $put }
            fn get($from: &mut Reader<'_>) -> Result<Self> { $get }
        })*
    };
}

by! {
    u64: self, out => out.unsigned(*self), from => from.unsigned();
    i64: self, out => out.signed(*self), from => from.signed();
    u32: self, out => out.unsigned(u64::from(*self)),
        from => u32::try_from(from.unsigned()?).map_err(|_| Error::invalid("a number is too large"));
    bool: self, out => out.boolean(*self), from => from.boolean();
    String: self, out => out.text(self), from => Ok(from.text()?.to_owned());
    Bytes: self, out => out.bytes(self), from => Ok(Bytes::copy_from_slice(from.bytes()?));
    (): self, out => out.null(), from => if from.null() { Ok(()) } else { Err(Error::invalid("nothing was to be here")) };
    NodeId: self, out => out.signed(self.0), from => from.signed().map(Self);
    ContentId: self, out => out.signed(self.0), from => from.signed().map(Self);
    SpaceId: self, out => out.signed(self.0), from => from.signed().map(Self);
    NodeName: self, out => out.text(self.as_str()), from => Self::new(from.text()?);
    DrivePath: self, out => out.text(&self.to_string()), from => Self::parse(from.text()?);
    BlockId: self, out => out.bytes(&self.0), from => Self::from_slice(from.bytes()?);
}

impl Value for ByteRange {
    fn put(&self, out: &mut Writer) {
        (self.start, self.end).put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self> {
        let (start, end) = Value::get(from)?;
        if start > end { Err(Error::invalid("a range ends before it begins")) } else { Ok(Self { start, end }) }
    }
}

impl<T: Value> Value for Option<T> {
    fn put(&self, out: &mut Writer) {
        match self {
            Some(value) => value.put(out),
            None => out.null(),
        }
    }

    fn get(from: &mut Reader<'_>) -> Result<Self> {
        if from.null() { Ok(None) } else { T::get(from).map(Some) }
    }
}

impl<T: Value> Value for Vec<T> {
    fn put(&self, out: &mut Writer) {
        out.array(self.len() as u64);
        for item in self {
            item.put(out);
        }
    }

    fn get(from: &mut Reader<'_>) -> Result<Self> {
        let count = from.array()?;
        let mut items = Self::with_capacity(count.min(RESERVED_MAX));
        for _ in 0..count {
            items.push(T::get(from)?);
        }
        Ok(items)
    }
}

macro_rules! tuple {
    ($count:literal: $($name:ident $number:tt),*) => {
        impl<$($name: Value),*> Value for ($($name,)*) {
            fn put(&self, out: &mut Writer) {
                out.array($count);
                $(self.$number.put(out);)*
            }

            fn get(from: &mut Reader<'_>) -> Result<Self> {
                from.array_of($count)?;
                Ok(($($name::get(from)?,)*))
            }
        }
    };
}

tuple!(2: A 0, B 1);
tuple!(3: A 0, B 1, C 2);

/// A structure is the array of its fields.
macro_rules! record {
    ($($type:ident: $count:literal { $($field:ident),* $(,)? })*) => {
        $(impl $crate::wire::values::Value for $type {
            fn put(&self, out: &mut $crate::wire::cbor::Writer) {
                out.array($count);
                $($crate::wire::values::Value::put(&self.$field, out);)*
            }

            fn get(from: &mut $crate::wire::cbor::Reader<'_>) -> holdfast_base::Result<Self> {
                from.array_of($count)?;
                // Fields are evaluated in the order they are written in.
                Ok(Self { $($field: $crate::wire::values::Value::get(from)?),* })
            }
        })*
    };
}
pub(crate) use record;

/// An enumeration without fields is a number.
macro_rules! choice {
    ($($type:ident { $($name:ident = $number:literal),* $(,)? })*) => {
        $(impl Value for $type {
            fn put(&self, out: &mut Writer) {
                out.unsigned(match self { $(Self::$name => $number),* });
            }

            fn get(from: &mut Reader<'_>) -> Result<Self> {
                match from.unsigned()? {
                    $($number => Ok(Self::$name),)*
                    _ => Err(Error::invalid(concat!("no such ", stringify!($type)))),
                }
            }
        })*
    };
}
pub(crate) use choice;

choice! {
    NodeKind { Folder = 0, File = 1 }
    Special { None = 0, Link = 1, Fifo = 2, Socket = 3, Character = 4, Block = 5 }
    Durable { Now = 0, Soon = 1 }
    NameTaken { Fail = 0, Replace = 1, KeepBoth = 2 }
    Taken { Replace = 0, Refuse = 1, Exchange = 2 }
    XattrRule { Any = 0, Create = 1, Replace = 2 }
}

impl Value for Content {
    fn put(&self, out: &mut Writer) {
        out.array(8);
        self.id.put(out);
        self.space.put(out);
        self.size.put(out);
        self.block_bytes.put(out);
        self.nonce.put(out);
        self.tag.put(out);
        match &self.inline {
            Some(sealed) => out.bytes(sealed),
            None => out.null(),
        }
        self.blocks.put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self> {
        from.array_of(8)?;
        Ok(Self {
            id: Value::get(from)?,
            space: Value::get(from)?,
            size: Value::get(from)?,
            block_bytes: Value::get(from)?,
            nonce: Value::get(from)?,
            tag: Value::get(from)?,
            inline: Option::<Bytes>::get(from)?.map(Vec::from),
            blocks: Value::get(from)?,
        })
    }
}

/// That of a file with several names has what they have in common as well. It is told to those only who say that they know it ([`super::BONDS`]).
impl Value for Entry {
    fn put(&self, out: &mut Writer) {
        out.array(if self.bond.is_some() { 3 } else { 2 });
        self.node.put(out);
        self.posix.put(out);
        if let Some(bond) = &self.bond {
            bond.put(out);
        }
    }

    fn get(from: &mut Reader<'_>) -> Result<Self> {
        let items = from.array()?;
        let (node, posix) = (Value::get(from)?, Value::get(from)?);
        match items {
            2 => Ok(Self { node, posix, bond: None }),
            3 => Ok(Self { node, posix, bond: Some(Value::get(from)?) }),
            _ => Err(Error::invalid("an entry has two parts or three")),
        }
    }
}

impl Value for Expect {
    fn put(&self, out: &mut Writer) {
        match self {
            Self::Any => (0_u64, None::<i64>).put(out),
            Self::Absent => (1_u64, None::<i64>).put(out),
            Self::Present => (2_u64, None::<i64>).put(out),
            Self::Seq(seq) => (3_u64, Some(*seq)).put(out),
        }
    }

    fn get(from: &mut Reader<'_>) -> Result<Self> {
        match <(u64, Option<i64>)>::get(from)? {
            (0, None) => Ok(Self::Any),
            (1, None) => Ok(Self::Absent),
            (2, None) => Ok(Self::Present),
            (3, Some(seq)) => Ok(Self::Seq(seq)),
            _ => Err(Error::invalid("no such condition")),
        }
    }
}

record! {
    ManifestChunk: 3 { index, blocks, tag }
    Node: 11 { id, space, parent, name, kind, content, size, seq, created_ms, modified_ms, has_properties }
    Posix: 9 { special, mode, uid, gid, rdev, atime_ns, mtime_ns, ctime_ns, xattrs }
    Bond: 2 { number, names }
    NewName: 4 { node, parent, name, now_ns }
    Room: 2 { used_bytes, free_bytes }
    NewNode: 4 { parent, name, kind, posix }
    Save: 7 { node, base, body, size, posix, keep, durable }
    NewAttributes: 6 { mode, uid, gid, atime_ns, mtime_ns, ctime_ns }
    Leave: 3 { now_ns, held_until_ms, forget_after_ms }
    Unlink: 4 { parent, name, folder, leave }
    Rename: 4 { from, to, taken, leave }
    Renamed: 2 { entry, other }
}
