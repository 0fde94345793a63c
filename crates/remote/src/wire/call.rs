//! The operations, and what changes.

use super::cbor::{Reader, Writer};
use super::values::{Value, record};
use bytes::Bytes;
use holdfast_base::{
    BlockId, ByteRange, ContentId, DrivePath, Error, ErrorKind, NodeId, NodeName, Result, SpaceId, Uid,
};
use holdfast_drive::posix_locks::{Held, Kept, LockAsk, LockKey};
use holdfast_drive::{
    Applied, Batch, Compression, Content, Durable, Entry, Expect, NameTaken, NewAttributes, NewName, NewNode, Posix,
    Rename, Save, Unlink, XattrRule,
};

/// Defines [`Call`] with its encoding, so that an operation is one line here: its number, its name, its fields.
macro_rules! calls {
    ($($(#[$doc:meta])* $number:literal $name:ident($($field:ident: $type:ty),*);)*) => {
        /// An operation of [`Tree`](holdfast_drive::Tree).
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Call {
            $($(#[$doc])* $name($($type),*),)*
        }

        impl Call {
            /// What it is called in figures.
            pub const fn name(&self) -> &'static str {
                match self { $(Self::$name(..) => stringify!($name)),* }
            }
        }

        impl Value for Call {
            fn put(&self, out: &mut Writer) {
                match self {
                    $(Self::$name($($field),*) => {
                        out.array(1 $(+ { let _ = $field; 1 })*);
                        out.unsigned($number);
                        $($field.put(out);)*
                    })*
                }
            }

            fn get(from: &mut Reader<'_>) -> Result<Self> {
                let items = from.array()?;
                match from.unsigned()? {
                    $($number => {
                        let call = Self::$name($(<$type>::get(from)?),*);
                        if items == 1 $(+ { let _ = stringify!($field); 1 })* { Ok(call) } else { Err(unknown()) }
                    })*
                    _ => Err(unknown()),
                }
            }
        }
    };
}

/// How the answer to an operation begins that a server does not know, from the first one on.
const UNKNOWN: &str = "the server does not know this operation";

fn unknown() -> Error {
    Error::invalid(format!("{UNKNOWN}: is it older than this program?"))
}

/// Whether a server answered that it does not know an operation.
pub(crate) fn is_unknown(error: &Error) -> bool {
    error.kind() == ErrorKind::InvalidInput && error.message().starts_with(UNKNOWN)
}

calls! {
    /// Who is this; answers [`Hello`].
    0 Hello();
    /// Answers an entry, or none.
    1 Entry(node: NodeId);
    /// Answers an entry, or none.
    2 Lookup(folder: NodeId, name: NodeName);
    /// Answers up to so many entries, [`LIST_MAX`](super::LIST_MAX) at most.
    3 List(folder: NodeId, after: Option<NodeName>, limit: u32);
    /// Answers [`Room`](holdfast_drive::Room).
    4 Room();
    /// Answers [`Opened`].
    5 Open(content: ContentId);
    /// Answers these bytes of a content, a block at most.
    6 Read(content: ContentId, range: ByteRange);
    /// Answers the entry that was made.
    7 Create(new: NewNode, content: Bytes, durable: Durable);
    /// The content follows the frame; answers the entry.
    8 Save(save: Save);
    /// Answers the entry.
    9 SetAttributes(node: NodeId, change: NewAttributes, usual: Posix);
    /// Answers the node.
    10 Unlink(unlink: Unlink);
    /// Answers [`Renamed`](holdfast_drive::Renamed).
    11 Rename(rename: Rename);
    /// Answers nothing.
    12 Hold(nodes: Vec<NodeId>, until_ms: i64);
    /// Answers nothing.
    13 LetGo(node: NodeId);
    /// Answers names with values.
    14 Xattrs(node: NodeId);
    /// Name, value and rule; attributes of what has none, and the time. Answers the entry.
    15 SetXattr(node: NodeId, change: (String, Option<Bytes>, XattrRule), usual: (Posix, i64));
    /// Answers nothing.
    16 Settle();
    /// Answers nothing.
    17 MayChange();
    /// Up to so many numbers for this space, [`NUMBERS_MAX`](super::NUMBERS_MAX) at most; answers the first, and the one after the last.
    18 Reserve(space: SpaceId, count: u32);
    /// Answers [`Keys`].
    19 Keys();
    /// Changes of this space; answers [`Handed`].
    20 Apply(space: SpaceId, batch: Batch, durable: Durable);
    /// What the catalogue knows of contents, [`LAYOUTS_MAX`](holdfast_drive::engine::sealed::LAYOUTS_MAX) at most; answers a
    /// [`Content`] or none for each.
    21 Layouts(contents: Vec<ContentId>);
    /// A part of a content's manifest; answers [`ManifestChunk`](holdfast_drive::ManifestChunk).
    22 Manifest(content: ContentId, chunk: u64);
    /// A block of a content as a record; answers that, without a frame.
    23 Record(content: ContentId, index: u64);
    /// Whether the space has blocks, [`ASKED_MAX`](holdfast_drive::engine::sealed::ASKED_MAX) at most; answers true or false for each.
    24 HasBlocks(ids: Vec<BlockId>);
    /// Makes a file of one block, or gives it another version.
    25 Put(file: Put);
    /// Begins a resumable upload, or finds the one that was begun with the same words; answers [`Sent`].
    26 Begin(upload: Begin);
    /// Goes on with one at this byte; sealed blocks follow the frame (`drive::engine::sealed`). Answers [`Sent`].
    27 Continue(upload: Uid, offset: u64);
    /// Makes the file of an upload that has all its bytes; answers [`Sent`].
    28 Finish(upload: Uid, name_taken: NameTaken);
    /// Gives an upload up.
    29 Abandon(upload: Uid);
    /// Nothing is sent, and these bytes of a content stand behind what is kept; answers the entry.
    32 Extend(save: Save, tail: (ContentId, ByteRange));
    /// What is at a path of the space, with the members of a folder, and what is known of this many of their contents,
    /// [`LAYOUTS_MAX`](holdfast_drive::engine::sealed::LAYOUTS_MAX) at most; answers [`Seen`].
    30 Look(path: DrivePath, contents: u32);
    /// Answers whether anything in the space is locked by another face. A server that knows this takes removals and renames with [`Self::Apply`].
    33 Locks();
    /// Begins a session of locks, or comes back with what it has; see [`Locking`](holdfast_drive::posix_locks::Locking) for this and what follows. Answers
    /// nothing.
    34 Attach(session: u64, kept: Vec<Kept>);
    /// Answers a [`LockAnswer`](holdfast_drive::posix_locks::LockAnswer), and, to whoever has the lock now, the file's entry.
    35 AskLock(session: u64, ask: LockAsk);
    /// Answers nothing.
    36 TakeBack(session: u64, ticket: u64);
    /// Answers nothing.
    37 LeaveOnly(session: u64, key: LockKey, owner: u64, left: Vec<Held>);
    /// Answers nothing.
    38 YieldWhole(session: u64, key: LockKey, number: u64, held: Vec<Held>);
    /// Waits for so many ms at most; answers keys with numbers.
    39 Recalls(session: u64, wait_ms: u32);
    /// Answers nothing.
    40 Leave(session: u64);
    /// As [`Self::Put`], and the file has these tags from then on.
    41 PutTagged(file: Put, tags: Vec<String>);
    /// As [`Self::Begin`], and the file will have these tags. A server that does not know this takes no tags from transfers.
    42 BeginTagged(upload: Begin, tags: Vec<String>);
    /// Answers the number of the last operation that the server knows, [`Call::LAST`]; one that is older does not know this either.
    43 Operations();
    /// As [`Self::Continue`], with some of the part's entries, each numbered, while other requests bring the others: those under the same random number.
    /// The first goes on with the upload and answers [`Sent`], the others nothing.
    44 Lane(upload: Uid, offset: u64, part: u64, is_first: bool);
    /// Another name for a file; attributes of what has none. Answers its entry.
    45 Link(link: NewName, usual: Posix);
    /// As [`Self::Record`], behind so many bytes of it.
    46 RecordRest(content: ContentId, index: u64, bytes: u64);
    /// As [`Self::Save`], without whole blocks of it: those of the base that stay, and those of zeros, each kind as ranges of their numbers
    /// ([`LeftOut`](holdfast_drive::LeftOut)). The rest of the content follows the frame.
    47 SavePart(save: Save, stay: Vec<(u64, u64)>, zeros: Vec<(u64, u64)>);
    /// As [`Self::Apply`], with blocks: the records of those that its contents have follow the frame as entries, in order
    /// ([`sealed`](holdfast_drive::engine::sealed)).
    48 ApplyWith(space: SpaceId, batch: Batch, durable: Durable);
    /// Which changes of a journal the space has, by their numbers, as many as a batch has at most; answers true or false for each.
    49 Answered(space: SpaceId, journal: [u8; 16], numbers: Vec<u64>);
    /// The mount believes nothing any more, by a number as of [`Self::Heard`]. Answers none.
    51 Forgot(number: u64);
    /// The mount says what it has heard of, each time with a greater number: all up to this [`Event::Asked`]; and whether it has forgotten all since the last such word was answered. Answers whether it may believe for
    /// [`TERM`](holdfast_drive::engine::BELIEF_TERM) from when it sent this; none if nobody waits for it to hear of changes.
    52 Heard(number: u64, asked: u64, forgot: bool);
}

impl Call {
    /// The number of the last operation.
    pub const LAST: u64 = 52;
    /// That of [`Self::Answered`]: a server that knows it takes what waits in a spool.
    pub(crate) const ANSWERED: u64 = 49;
}

/// What a client is told first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The protocol's version.
    pub version: u64,
    /// What the space is called.
    pub name: String,
    /// Its number.
    pub space: SpaceId,
    /// Its root.
    pub root: NodeId,
}

/// A content that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// Its size in bytes.
    pub size: u64,
    /// See [`OpenContent::grain`](holdfast_drive::OpenContent::grain).
    pub grain: Option<u64>,
}

/// A file of one sealed block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    /// Where in the space.
    pub path: DrivePath,
    /// Bytes of its content.
    pub size: u64,
    /// The time of its content.
    pub modified_ms: i64,
    /// What has to be there.
    pub expect: Expect,
    /// The block's id if the space has it, or its record.
    pub entry: Bytes,
}

/// An upload that begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begin {
    /// Where in the space it is to be.
    pub path: DrivePath,
    /// Bytes it will have.
    pub length: u64,
    /// If something is there at its end.
    pub name_taken: NameTaken,
    /// The version it replaces, if it may replace no other.
    pub expect_seq: Option<i64>,
    /// The time of its content.
    pub modified_ms: i64,
    /// Which source in which version, in the client's words.
    pub key: String,
}

/// How far an upload is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// Its name.
    pub upload: Uid,
    /// Bytes it has, durably.
    pub offset: u64,
    /// Whether it has all bytes and the file could not be made.
    pub waits: bool,
    /// The file it became, with its count of changes.
    pub node: Option<(NodeId, i64)>,
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// From the space's root down, as far as it is there: one more than the path has names if all of it is.
    pub way: Vec<Entry>,
    /// If a folder is there, its first members: fewer than [`LIST_MAX`](super::LIST_MAX) are all.
    pub members: Vec<Entry>,
    /// Contents of those, or of the file that is there.
    pub contents: Vec<Content>,
}

/// What a client needs to seal by itself, beside the secret of its token; see [`HandedKeys`](holdfast_drive::engine::far::HandedKeys).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    /// The account's random name.
    pub account: Uid,
    /// The slot that the token opens.
    pub slot: Bytes,
    /// The space.
    pub space: SpaceId,
    /// Its random name.
    pub space_uid: Uid,
    /// Its key, wrapped for the account.
    pub wrapped: Bytes,
    /// How its content is compressed.
    pub compression: Compression,
}

/// What became of a batch.
#[derive(Debug)]
pub struct Handed {
    /// An answer for each change, in order.
    pub answers: Vec<Result<Applied>>,
    /// The folders whose members it changed, as they are after it.
    pub folders: Vec<Entry>,
}

record! {
    Put: 5 { path, size, modified_ms, expect, entry }
    Begin: 6 { path, length, name_taken, expect_seq, modified_ms, key }
    Sent: 4 { upload, offset, waits, node }
    Seen: 3 { way, members, contents }
    Keys: 6 { account, slot, space, space_uid, wrapped, compression }
    Handed: 2 { answers, folders }
    Hello: 4 { version, name, space, root }
    Opened: 2 { size, grain }
}

/// What a client that listens is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Nothing happened, and the server is there.
    Beat,
    /// The space changed; its count after that.
    Changed(i64),
    /// Changes were missed: whatever is known may be wrong.
    Gap,
    /// The same as [`Self::Changed`], by the mount that listens and nobody else; and at the beginning of a stream, with the count after which no change is
    /// missed.
    Own(i64),
    /// The same as [`Self::Changed`], in these folders if it names any; and others wait for the mount's word that it has heard of it ([`Call::Heard`]), by the first number.
    Asked(u64, i64, Option<Vec<NodeId>>),
    /// A sign of life, with the count of changes of which none was about anything that the mount was answered about since it was last told of one.
    Past(i64),
}

impl Value for Event {
    fn put(&self, out: &mut Writer) {
        match self {
            Self::Beat => (0_u64, None::<i64>).put(out),
            Self::Changed(seq) => (1_u64, Some(*seq)).put(out),
            Self::Gap => (2_u64, None::<i64>).put(out),
            Self::Own(seq) => (3_u64, Some(*seq)).put(out),
            Self::Past(seq) => (5_u64, Some(*seq)).put(out),
            Self::Asked(ask, seq, folders) => {
                out.array(2);
                6_u64.put(out);
                out.array(3);
                ask.put(out);
                seq.put(out);
                folders.put(out);
            }
        }
    }

    fn get(from: &mut Reader<'_>) -> Result<Self> {
        from.array_of(2)?;
        let number = u64::get(from)?;
        if number == 6 {
            let (ask, seq, folders) = Value::get(from)?;
            return Ok(Self::Asked(ask, seq, folders));
        }
        match (number, Option::get(from)?) {
            (0, None) => Ok(Self::Beat),
            (1, Some(seq)) => Ok(Self::Changed(seq)),
            (2, None) => Ok(Self::Gap),
            (3, Some(seq)) => Ok(Self::Own(seq)),
            (5, Some(seq)) => Ok(Self::Past(seq)),
            _ => Err(unknown()),
        }
    }
}
