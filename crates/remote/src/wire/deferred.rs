//! What a mount that answers first hands over, and what becomes of it. Content is empty or sealed; nothing else goes this way.
//!
//! A batch fits a message by its parts: 256 changes with 4,176 bytes of sealed content, a name and some numbers each are below 1.2 MiB. What has blocks has them behind
//! the message ([`Call::ApplyWith`](super::Call::ApplyWith)), and their ids in it, which are fewer bytes.
//!
//! Removals and renames came after the others (numbers 4 to 6). A client sends them only to a server that knows [`Call::Locks`](super::Call::Locks), which
//! came with them, and such a client alone is told [`Applied::Late`].

use super::cbor::{Reader, Writer};
use super::fault::{of_parts, parts};
use super::values::{Value, record};
use bytes::Bytes;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{BlockId, Error, Result, Uid};
use holdfast_drive::{Applied, Batch, Compression, Deferred, NewContent, NewEntry, Rewrite, StagedBlock, StagedRun};

/// Longest message of an error in an answer that has many.
const MESSAGE_BYTES_MAX: usize = 400;

fn unknown() -> Error {
    Error::invalid("the message is not one of this protocol")
}

impl Value for [u8; 16] {
    fn put(&self, out: &mut Writer) {
        out.bytes(self);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self> {
        from.bytes()?.try_into().map_err(|_| unknown())
    }
}

impl Value for Uid {
    fn put(&self, out: &mut Writer) {
        self.0.put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self> {
        Value::get(from).map(Self)
    }
}

impl Value for Compression {
    fn put(&self, out: &mut Writer) {
        let (number, level) = match self {
            Self::None => (0_u64, 0),
            Self::Lz4 => (1, 0),
            Self::Zstd(level) => (2, i64::from(*level)),
        };
        (number, level).put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self> {
        match <(u64, i64)>::get(from)? {
            (0, 0) => Ok(Self::None),
            (1, 0) => Ok(Self::Lz4),
            (2, level @ 1..=19) => i8::try_from(level).map(Self::Zstd).map_err(|_| unknown()),
            _ => Err(unknown()),
        }
    }
}

impl Value for NewContent {
    fn put(&self, out: &mut Writer) {
        match self {
            Self::Empty => out.null(),
            Self::Inline { size, nonce, tag, sealed } => {
                out.array(4);
                size.put(out);
                nonce.put(out);
                tag.put(out);
                out.bytes(sealed);
            }
            // The blocks themselves come behind the message; where they are is each machine's own affair.
            Self::Blocks { size, block_bytes: _, nonce, tag, runs } if let [run] = &runs[..] => {
                out.array(5);
                size.put(out);
                nonce.put(out);
                tag.put(out);
                run.tag.put(out);
                run.blocks.iter().map(|block| block.id).collect::<Vec<_>>().put(out);
            }
            // Whoever reads this refuses it.
            Self::Blocks { .. } | Self::Staged { .. } => out.array(0),
        }
    }

    fn get(from: &mut Reader<'_>) -> Result<Self> {
        if from.null() {
            return Ok(Self::Empty);
        }
        let items = from.array()?;
        let (size, nonce, tag) = (Value::get(from)?, Value::get(from)?, Value::get(from)?);
        match items {
            4 => Ok(Self::Inline { size, nonce, tag, sealed: Bytes::get(from)?.to_vec() }),
            5 => {
                let (of_chunk, ids): (_, Vec<BlockId>) = (Value::get(from)?, Value::get(from)?);
                let blocks = ids.into_iter().map(|id| StagedBlock { id, written: None }).collect();
                let runs = vec![StagedRun { chunk: 0, first: 0, blocks, tag: of_chunk }];
                let block_bytes = u32::try_from(BLOCK_BYTES).map_err(|_| unknown())?;
                Ok(Self::Blocks { size, block_bytes, nonce, tag, runs })
            }
            _ => Err(unknown()),
        }
    }
}

record! {
    NewEntry: 5 { parent, name, kind, posix, content }
    Rewrite: 5 { node, base, content, posix, keep }
    Batch: 2 { journal, changes }
}

impl Value for Deferred {
    fn put(&self, out: &mut Writer) {
        match self {
            Self::Create { id, new, content_id } => {
                out.array(4);
                out.unsigned(0);
                id.put(out);
                new.put(out);
                content_id.put(out);
            }
            Self::Save { rewrite, content_id, at } => {
                out.array(4);
                out.unsigned(1);
                rewrite.put(out);
                content_id.put(out);
                at.put(out);
            }
            Self::Attributes { node, change, usual } => {
                out.array(4);
                out.unsigned(2);
                node.put(out);
                change.put(out);
                usual.put(out);
            }
            Self::Unlink { unlink, node, content } => {
                out.array(4);
                out.unsigned(4);
                unlink.put(out);
                node.put(out);
                content.put(out);
            }
            Self::Rename { rename, node, other } => {
                out.array(4);
                out.unsigned(5);
                rename.put(out);
                node.put(out);
                other.put(out);
            }
            Self::Passed { node, folder, now_ns } => {
                out.array(4);
                out.unsigned(6);
                node.put(out);
                folder.put(out);
                now_ns.put(out);
            }
        }
    }

    fn get(from: &mut Reader<'_>) -> Result<Self> {
        let items = from.array()?;
        Ok(match (from.unsigned()?, items) {
            (0, 4) => {
                let (id, new, content_id) = (Value::get(from)?, Value::get(from)?, Value::get(from)?);
                Self::Create { id, new, content_id }
            }
            (1, 4) => {
                let (rewrite, content_id, at) = (Value::get(from)?, Value::get(from)?, Value::get(from)?);
                Self::Save { rewrite, content_id, at }
            }
            (2, 4) => {
                let (node, change, usual) = (Value::get(from)?, Value::get(from)?, Value::get(from)?);
                Self::Attributes { node, change, usual }
            }
            // 3 was a removal that did not say of which content; nobody ever sent one.
            (4, 4) => {
                let (unlink, node, content) = (Value::get(from)?, Value::get(from)?, Value::get(from)?);
                Self::Unlink { unlink, node, content }
            }
            (5, 4) => {
                let (rename, node, other) = (Value::get(from)?, Value::get(from)?, Value::get(from)?);
                Self::Rename { rename, node, other }
            }
            (6, 4) => {
                let (node, folder, now_ns) = (Value::get(from)?, Value::get(from)?, Value::get(from)?);
                Self::Passed { node, folder, now_ns }
            }
            _ => return Err(unknown()),
        })
    }
}

/// An answer to one change: what became of it, or why nothing did.
impl Value for Result<Applied> {
    fn put(&self, out: &mut Writer) {
        out.array(2);
        match self {
            Ok(Applied::Made(entry)) => {
                out.unsigned(0);
                entry.put(out);
            }
            Ok(Applied::Aside(entry)) => {
                out.unsigned(1);
                entry.put(out);
            }
            Ok(Applied::Gone(node)) => {
                out.unsigned(2);
                node.put(out);
            }
            Ok(Applied::Before) => {
                out.unsigned(3);
                out.null();
            }
            Ok(Applied::Late) => {
                out.unsigned(5);
                out.null();
            }
            Err(error) => {
                out.unsigned(4);
                parts(error, MESSAGE_BYTES_MAX).put(out);
            }
        }
    }

    fn get(from: &mut Reader<'_>) -> Result<Self> {
        from.array_of(2)?;
        Ok(match from.unsigned()? {
            0 => Ok(Applied::Made(Value::get(from)?)),
            1 => Ok(Applied::Aside(Value::get(from)?)),
            2 => Ok(Applied::Gone(Value::get(from)?)),
            3 => {
                <()>::get(from)?;
                Ok(Applied::Before)
            }
            4 => Err(of_parts(Value::get(from)?)),
            5 => {
                <()>::get(from)?;
                Ok(Applied::Late)
            }
            _ => return Err(unknown()),
        })
    }
}
