//! One change as bytes, and as a frame of the journal.
//!
//! ```text
//! frame   length of what follows the sum (u32) | XXH3-64 of it (u64) | number (u64) | change or mark
//! change  a byte that says which, then its fields; integers little-endian, texts and bytes after their length (u32)
//! mark    a byte of 0, and what is known of the frames around it
//! ```

use holdfast_base::{BlockId, ContentId, Error, NodeId, NodeName, PackId, Result};
use holdfast_drive::{
    Deferred, Leave, NewAttributes, NewContent, NewEntry, NodeKind, Place, Posix, Rename, Rewrite, Special,
    StagedBlock, StagedRun, Taken, Unlink,
};
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of a frame before its number.
const HEAD_BYTES: usize = 12;
/// Largest body of a frame: sealed content of 4 KiB or the places of 64 blocks, two names, and some numbers, with room.
const BODY_BYTES_MAX: usize = 64 << 10;

/// What a frame holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Frame {
    /// A change, by its number.
    Change(u64, Deferred),
    /// Behind the change of this number.
    Mark(u64, Mark),
}

/// What is known of a journal at a place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Mark {
    /// What follows was answered after the space had changed so many times; a catalogue that counts fewer has lost what came before it.
    pub(super) seq: Option<i64>,
    /// Changes up to this number are on disk.
    pub(super) synced: u64,
}

/// Appends a change.
pub(super) fn write(out: &mut Vec<u8>, number: u64, change: &Deferred) -> Result<()> {
    framed(out, number, |writer| writer.change(change))
}

/// Appends a mark.
pub(super) fn write_mark(out: &mut Vec<u8>, number: u64, mark: Mark) -> Result<()> {
    framed(out, number, |writer| {
        writer.u8(0);
        writer.option(mark.seq, Writer::i64);
        writer.u64(mark.synced);
        Ok(())
    })
}

fn framed(out: &mut Vec<u8>, number: u64, body_of: impl FnOnce(&mut Writer<'_>) -> Result<()>) -> Result<()> {
    let start = out.len();
    out.extend_from_slice(&[0; HEAD_BYTES]);
    let mut writer = Writer(out);
    writer.u64(number);
    body_of(&mut writer)?;
    let body = start + HEAD_BYTES;
    let length = out.len() - body;
    if length > BODY_BYTES_MAX {
        out.truncate(start);
        return Err(Error::internal("a change is too large for the journal"));
    }
    let sum = xxh3_64(&out[body..]);
    out[start..start + 4].copy_from_slice(&u32::try_from(length).unwrap_or(0).to_le_bytes());
    out[start + 4..body].copy_from_slice(&sum.to_le_bytes());
    Ok(())
}

/// The frame at the beginning of `bytes`, with its length; none if there is no whole and sound one.
pub(super) fn read(bytes: &[u8]) -> Option<(Frame, usize)> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<8>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok().filter(|length| *length <= BODY_BYTES_MAX)?;
    let body = rest.get(..length)?;
    if xxh3_64(body) != u64::from_le_bytes(*sum) {
        return None;
    }
    read_body(body).map(|frame| (frame, HEAD_BYTES + length))
}

fn read_body(body: &[u8]) -> Option<Frame> {
    let mut reader = Reader(body);
    let number = reader.u64()?;
    let frame = match reader.u8()? {
        0 => Frame::Mark(number, Mark { seq: reader.option(Reader::i64)?, synced: reader.u64()? }),
        kind => Frame::Change(number, reader.change(kind)?),
    };
    reader.0.is_empty().then_some(frame)
}

/// Reads anything that may be in a journal, for tests with bytes nobody meant.
pub(crate) fn read_anything(bytes: &[u8]) {
    let _ = read(bytes);
    if let Some(frame) = read_body(bytes) {
        let mut again = Vec::new();
        let written = match &frame {
            Frame::Change(number, change) => write(&mut again, *number, change),
            Frame::Mark(number, mark) => write_mark(&mut again, *number, *mark),
        };
        assert!(written.is_ok() || bytes.len() > BODY_BYTES_MAX, "what was read can be written");
        if written.is_ok() {
            assert_eq!(&again[HEAD_BYTES..], bytes, "as it was read");
            assert_eq!(read(&again), Some((frame, again.len())));
        }
    }
}

struct Writer<'o>(&'o mut Vec<u8>);

impl Writer<'_> {
    fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn i64(&mut self, value: i64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn count(&mut self, value: usize) {
        // More is beyond what a frame may have.
        self.u32(u32::try_from(value).unwrap_or(u32::MAX));
    }

    fn block(&mut self, block: &StagedBlock) {
        self.0.extend_from_slice(&block.id.0);
        self.option(block.written, |writer, place| {
            writer.i64(place.pack.0);
            writer.u64(place.offset);
            writer.u32(place.sealed_bytes);
            writer.u32(place.raw_bytes);
        });
    }

    fn bytes(&mut self, value: &[u8]) {
        self.count(value.len());
        self.0.extend_from_slice(value);
    }

    fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.u8(value.is_some().into());
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn place(&mut self, parent: NodeId, name: &NodeName) {
        self.i64(parent.0);
        self.bytes(name.as_str().as_bytes());
    }

    fn leave(&mut self, leave: &Leave) {
        self.i64(leave.now_ns);
        self.option(leave.held_until_ms, Self::i64);
        self.i64(leave.forget_after_ms);
    }

    fn posix(&mut self, posix: &Posix) {
        self.u8(special_number(posix.special));
        for value in [posix.mode, posix.uid, posix.gid, posix.rdev, posix.xattrs] {
            self.u32(value);
        }
        for value in [posix.atime_ns, posix.mtime_ns, posix.ctime_ns] {
            self.i64(value);
        }
    }

    fn content(&mut self, content: &NewContent, id: ContentId) -> Result<()> {
        self.i64(id.0);
        match content {
            NewContent::Empty => self.u8(0),
            NewContent::Inline { size, nonce, tag, sealed } => {
                self.u8(1);
                self.u64(*size);
                self.0.extend_from_slice(nonce);
                self.0.extend_from_slice(tag);
                self.bytes(sealed);
            }
            NewContent::Blocks { size, block_bytes, nonce, tag, runs } => {
                self.u8(2);
                self.u64(*size);
                self.u32(*block_bytes);
                self.0.extend_from_slice(nonce);
                self.0.extend_from_slice(tag);
                self.count(runs.len());
                for run in runs {
                    self.u64(run.chunk);
                    self.count(run.first);
                    self.0.extend_from_slice(&run.tag);
                    self.count(run.blocks.len());
                    run.blocks.iter().for_each(|block| self.block(block));
                }
            }
            NewContent::Staged { .. } => return Err(Error::internal("what is staged does not go into the journal")),
        }
        Ok(())
    }

    fn change(&mut self, change: &Deferred) -> Result<()> {
        match change {
            Deferred::Create { id, new, content_id } => {
                self.u8(1);
                self.i64(id.0);
                self.place(new.parent, &new.name);
                self.u8((new.kind == NodeKind::Folder).into());
                self.posix(&new.posix);
                self.content(&new.content, *content_id)?;
            }
            Deferred::Save { rewrite, content_id, at } => {
                self.u8(2);
                self.i64(rewrite.node.0);
                self.place(at.0, &at.1);
                self.option(rewrite.base, |writer, base| writer.i64(base.0));
                self.u8(rewrite.keep.into());
                self.posix(&rewrite.posix);
                self.content(&rewrite.content, *content_id)?;
            }
            Deferred::Attributes { node, change, usual } => {
                self.u8(3);
                self.i64(node.0);
                for value in [change.mode, change.uid, change.gid] {
                    self.option(value, Self::u32);
                }
                for value in [change.atime_ns, change.mtime_ns] {
                    self.option(value, Self::i64);
                }
                self.i64(change.ctime_ns);
                self.posix(usual);
            }
            Deferred::Unlink { unlink, node, content } => {
                self.u8(5);
                self.i64(node.0);
                self.option(*content, |writer, content| writer.i64(content.0));
                self.place(unlink.parent, &unlink.name);
                self.u8(unlink.folder.into());
                self.leave(&unlink.leave);
            }
            Deferred::Rename { rename, node, other } => {
                self.u8(6);
                self.i64(node.0);
                self.option(*other, |writer, (other, content)| {
                    writer.i64(other.0);
                    writer.option(content, |writer, content| writer.i64(content.0));
                });
                self.place(rename.from.0, &rename.from.1);
                self.place(rename.to.0, &rename.to.1);
                self.u8(match rename.taken {
                    Taken::Replace => 0,
                    Taken::Refuse => 1,
                    Taken::Exchange => 2,
                });
                self.leave(&rename.leave);
            }
            Deferred::Passed { node, folder, now_ns } => {
                self.u8(7);
                self.i64(node.0);
                self.i64(folder.0);
                self.i64(*now_ns);
            }
        }
        Ok(())
    }
}

struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (value, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*value)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[value]| value)
    }

    fn bool(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    fn bytes(&mut self) -> Option<&'b [u8]> {
        let length = self.count()?;
        let (value, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(value)
    }

    #[expect(
        clippy::option_option,
        reason = "none is a frame that ends too early, a none in it a value that is not there"
    )]
    fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        if self.bool()? { read(self).map(Some) } else { Some(None) }
    }

    fn place(&mut self) -> Option<(NodeId, NodeName)> {
        let parent = NodeId(self.i64()?);
        let name = std::str::from_utf8(self.bytes()?).ok()?;
        Some((parent, NodeName::new(name).ok()?))
    }

    fn leave(&mut self) -> Option<Leave> {
        let (now_ns, held_until_ms) = (self.i64()?, self.option(Self::i64)?);
        Some(Leave { now_ns, held_until_ms, forget_after_ms: self.i64()? })
    }

    fn posix(&mut self) -> Option<Posix> {
        let special = special(self.u8()?)?;
        let (mode, uid, gid, rdev, xattrs) = (self.u32()?, self.u32()?, self.u32()?, self.u32()?, self.u32()?);
        let (atime_ns, mtime_ns, ctime_ns) = (self.i64()?, self.i64()?, self.i64()?);
        Some(Posix { special, mode, uid, gid, rdev, atime_ns, mtime_ns, ctime_ns, xattrs })
    }

    fn content(&mut self) -> Option<(NewContent, ContentId)> {
        let id = ContentId(self.i64()?);
        let content = match self.u8()? {
            0 => NewContent::Empty,
            1 => {
                let (size, nonce, tag) = (self.u64()?, self.array()?, self.array()?);
                NewContent::Inline { size, nonce, tag, sealed: self.bytes()?.to_vec() }
            }
            2 => {
                let (size, block_bytes, nonce, tag) = (self.u64()?, self.u32()?, self.array()?, self.array()?);
                let runs = self.many(|reader| {
                    let (chunk, first, tag) = (reader.u64()?, reader.count()?, reader.array()?);
                    Some(StagedRun { chunk, first, blocks: reader.many(Self::block)?, tag })
                })?;
                NewContent::Blocks { size, block_bytes, nonce, tag, runs }
            }
            _ => return None,
        };
        Some((content, id))
    }

    fn count(&mut self) -> Option<usize> {
        usize::try_from(self.u32()?).ok()
    }

    fn many<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        // Nothing is set aside for a count that the bytes do not bear out.
        (0..self.count()?).map(|_| read(self)).collect()
    }

    fn block(&mut self) -> Option<StagedBlock> {
        let id = BlockId(self.array()?);
        let written = self.option(|reader| {
            let (pack, offset) = (PackId(reader.i64()?), reader.u64()?);
            Some(Place { pack, offset, sealed_bytes: reader.u32()?, raw_bytes: reader.u32()? })
        })?;
        Some(StagedBlock { id, written })
    }

    fn change(&mut self, kind: u8) -> Option<Deferred> {
        Some(match kind {
            1 => {
                let id = NodeId(self.i64()?);
                let (parent, name) = self.place()?;
                let kind = if self.bool()? { NodeKind::Folder } else { NodeKind::File };
                let posix = self.posix()?;
                let (content, content_id) = self.content()?;
                Deferred::Create { id, new: NewEntry { parent, name, kind, posix, content }, content_id }
            }
            2 => {
                let node = NodeId(self.i64()?);
                let at = self.place()?;
                let base = self.option(|reader| reader.i64().map(ContentId))?;
                let (keep, posix) = (self.bool()?, self.posix()?);
                let (content, content_id) = self.content()?;
                Deferred::Save { rewrite: Rewrite { node, base, content, posix, keep }, content_id, at }
            }
            3 => {
                let node = NodeId(self.i64()?);
                let (mode, uid, gid) = (self.option(Self::u32)?, self.option(Self::u32)?, self.option(Self::u32)?);
                let (atime_ns, mtime_ns) = (self.option(Self::i64)?, self.option(Self::i64)?);
                let change = NewAttributes { mode, uid, gid, atime_ns, mtime_ns, ctime_ns: self.i64()? };
                Deferred::Attributes { node, change, usual: self.posix()? }
            }
            // 4 was a removal that did not say of which content; none was ever written.
            5 => {
                let node = NodeId(self.i64()?);
                let content = self.option(|reader| reader.i64().map(ContentId))?;
                let (parent, name) = self.place()?;
                let (folder, leave) = (self.bool()?, self.leave()?);
                Deferred::Unlink { unlink: Unlink { parent, name, folder, leave }, node, content }
            }
            6 => {
                let node = NodeId(self.i64()?);
                let other = self.option(|reader| {
                    let other = NodeId(reader.i64()?);
                    Some((other, reader.option(|reader| reader.i64().map(ContentId))?))
                })?;
                let (from, to) = (self.place()?, self.place()?);
                let taken = match self.u8()? {
                    0 => Taken::Replace,
                    1 => Taken::Refuse,
                    2 => Taken::Exchange,
                    _ => return None,
                };
                Deferred::Rename { rename: Rename { from, to, taken, leave: self.leave()? }, node, other }
            }
            7 => {
                let (node, folder) = (NodeId(self.i64()?), NodeId(self.i64()?));
                Deferred::Passed { node, folder, now_ns: self.i64()? }
            }
            _ => return None,
        })
    }
}

/// Part of the format.
const fn special_number(special: Special) -> u8 {
    match special {
        Special::None => 0,
        Special::Link => 1,
        Special::Fifo => 2,
        Special::Socket => 3,
        Special::Character => 4,
        Special::Block => 5,
    }
}

const fn special(number: u8) -> Option<Special> {
    Some(match number {
        0 => Special::None,
        1 => Special::Link,
        2 => Special::Fifo,
        3 => Special::Socket,
        4 => Special::Character,
        5 => Special::Block,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
