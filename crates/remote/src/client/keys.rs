//! Sealing on this side: with what the server has of the account's keys, and the token's secret that opens it.

use crate::wire::Keys;
use bytes::Bytes;
use holdfast_auth::{Secret, Token};
use holdfast_base::limits::BLOCK_BYTES_MAX;
use holdfast_base::{BlockId, Error, Result};
use holdfast_drive::engine::small::{self, Sealed};
use holdfast_drive::{Content, ManifestChunk, NewContent, StagedBlock};
use holdfast_seal::block::{RECORD_OVERHEAD_BYTES, RECORD_PREFIX_BYTES};
use holdfast_seal::keys::{CredentialKind, SlotContext, open_slot};
use holdfast_seal::{BlockKeys, Codec, Opener, Sealer};
use std::cell::RefCell;

thread_local! {
    /// What a thread keeps between blocks.
    static TOOLS: RefCell<(Sealer, Opener, Vec<u8>)> = RefCell::default();
}

/// The keys of a space.
pub(super) struct Sealing {
    keys: BlockKeys,
    codec: Codec,
}

impl Sealing {
    /// Opens the slot with the token's secret, and the space's key with what is in it.
    pub(super) fn open(keys: &Keys, token: &Secret) -> Result<Self> {
        let token = Token::parse(token.expose()).ok_or_else(|| Error::invalid("this is no app token"))?;
        let context = SlotContext { kind: CredentialKind::Token, account: keys.account, lookup: token.lookup() };
        let account = open_slot(context, token.secret(), &keys.slot)
            .map_err(|error| error.context("the key that the server has for this app token"))?;
        let key = account.unwrap_space_key(keys.space_uid, &keys.wrapped)?;
        let codec = small::codec_of(keys.compression);
        Ok(Self { keys: BlockKeys::derive(keys.space_uid, &key), codec })
    }

    /// With these keys, for bytes that nobody meant.
    pub(super) const fn of(keys: BlockKeys) -> Self {
        Self { keys, codec: Codec::None }
    }

    pub(super) fn seal(&self, plain: &[u8]) -> Result<Sealed> {
        small::seal_any(&self.keys, self.codec, plain)
    }

    /// A content of these blocks.
    pub(super) fn content(&self, size: u64, blocks: Vec<StagedBlock>) -> Result<NewContent> {
        small::of_blocks(&self.keys, size, blocks)
    }

    pub(super) fn open_small(&self, content: &NewContent) -> Result<Vec<u8>> {
        small::open(&self.keys, content)
    }

    /// The id of a block.
    pub(super) fn id(&self, plain: &[u8]) -> BlockId {
        self.keys.id(plain)
    }

    /// A block as a record.
    pub(super) fn seal_block(&self, id: BlockId, plain: &[u8]) -> Result<Bytes> {
        let mut buffer = Vec::with_capacity(plain.len() + RECORD_OVERHEAD_BYTES);
        buffer.resize(RECORD_PREFIX_BYTES, 0);
        buffer.extend_from_slice(plain);
        TOOLS.with_borrow_mut(|(sealer, _, spare)| {
            let (record, other) = sealer.seal(&self.keys, id, self.codec, buffer, std::mem::take(spare))?;
            *spare = other;
            Ok(record.into())
        })
    }

    /// Opens a record, which must be this block.
    pub(super) fn open_block(&self, id: BlockId, record: Bytes) -> Result<Bytes> {
        let (plain, start) = TOOLS.with_borrow_mut(|(_, opener, spare)| {
            let (plain, start, other) = opener.open(&self.keys, id, record.into(), std::mem::take(spare))?;
            *spare = other;
            Ok::<_, Error>((plain, start))
        })?;
        let plain = Bytes::from(plain).slice(start..);
        if self.keys.id(&plain) != id {
            return Err(Error::damaged(format!("block {id} is not what it is said to be")));
        }
        Ok(plain)
    }

    /// Seals something that is kept on this machine by a name: it opens by that name only. None if it is larger than what is sealed at once.
    pub(super) fn seal_kept(&self, name: &str, plain: &[u8]) -> Result<Option<Vec<u8>>> {
        if plain.len() > BLOCK_BYTES_MAX {
            return Ok(None);
        }
        let mut buffer = Vec::with_capacity(plain.len() + RECORD_OVERHEAD_BYTES);
        buffer.resize(RECORD_PREFIX_BYTES, 0);
        buffer.extend_from_slice(plain);
        let id = self.id_of_name(name);
        let (record, _) = TOOLS.with_borrow_mut(|(sealer, _, spare)| {
            sealer.seal(&self.keys, id, self.codec, buffer, std::mem::take(spare))
        })?;
        Ok(Some(record))
    }

    /// Opens such a thing, which must have been sealed by this name.
    pub(super) fn open_kept(&self, name: &str, sealed: Vec<u8>) -> Result<Bytes> {
        let id = self.id_of_name(name);
        let (plain, start) = TOOLS.with_borrow_mut(|(_, opener, spare)| {
            let (plain, start, other) = opener.open(&self.keys, id, sealed, std::mem::take(spare))?;
            *spare = other;
            Ok::<_, Error>((plain, start))
        })?;
        Ok(Bytes::from(plain).slice(start..))
    }

    /// Names have ids as blocks have; that a file should have this for its content and nothing else, and be taken for what is kept, fails when it is read.
    fn id_of_name(&self, name: &str) -> BlockId {
        self.keys.id(format!("holdfast mount cache v1\0{name}").as_bytes())
    }

    /// Whether what the server says of a content was said by somebody with the space's key.
    pub(super) fn look_at(&self, content: &Content) -> Result<()> {
        if self.keys.content_tag(&content.nonce, content.size, content.block_bytes) == content.tag {
            return Ok(());
        }
        Err(Error::damaged("what the server says of a file's content fails its integrity check"))
    }

    /// Opens a tiny content.
    pub(super) fn open_inline(&self, content: &Content) -> Result<Bytes> {
        let sealed = content.inline.as_deref().unwrap_or_default();
        let plain = TOOLS.with_borrow_mut(|(_, opener, _)| opener.open_inline(&self.keys, sealed))?;
        if plain.len() as u64 == content.size {
            Ok(plain.into())
        } else {
            Err(Error::damaged("a tiny content has not its size"))
        }
    }

    /// Whether a part of a manifest belongs to a content.
    pub(super) fn look_at_chunk(&self, content: &Content, chunk: &ManifestChunk) -> Result<()> {
        if self.keys.chunk_tag(&content.nonce, chunk.index, chunk.blocks.iter().copied()) == chunk.tag {
            return Ok(());
        }
        Err(Error::damaged("a file's manifest fails its integrity check"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_base::{ContentId, ErrorKind, SpaceId, Uid};
    use holdfast_seal::SpaceKey;

    fn sealing(byte: u8) -> Sealing {
        let keys = BlockKeys::derive(Uid([byte; 16]), &SpaceKey::from_bytes([byte; 32]));
        Sealing { keys, codec: Codec::Zstd(1) }
    }

    #[test]
    fn a_server_that_answers_with_something_else_is_found_out() {
        let (ours, theirs) = (sealing(1), sealing(2));
        let (one, two) = (ours.id(b"one"), ours.id(b"two"));
        let record = ours.seal_block(one, b"one").expect("sealed");
        assert_eq!(ours.open_block(one, record.clone()).expect("opened"), &b"one"[..]);
        let mut flipped = record.to_vec();
        flipped[100] ^= 1;
        // Sealed by a member under the id of another block: it opens, and is not that.
        let poisoned = ours.seal_block(two, b"one").expect("sealed");
        let foreign = theirs.seal_block(theirs.id(b"one"), b"one").expect("sealed");
        for (what, id, lie) in [
            ("another block", two, record.clone()),
            ("a flipped bit", one, flipped.into()),
            ("cut short", one, record.slice(..record.len() - 1)),
            ("something else under its id", two, poisoned),
            ("another space's", one, foreign),
            ("nothing", one, Bytes::new()),
        ] {
            assert_eq!(ours.open_block(id, lie).expect_err(what).kind(), ErrorKind::Damaged, "{what}");
        }

        let (nonce, size, block_bytes) = ([7; 16], 6, 3);
        let tag = ours.keys.content_tag(&nonce, size, block_bytes);
        let content =
            Content { id: ContentId(1), space: SpaceId(1), size, block_bytes, nonce, tag, inline: None, blocks: 2 };
        ours.look_at(&content).expect("is ours");
        assert!(ours.look_at(&Content { size: 3, ..content.clone() }).is_err(), "a shorter file");
        assert!(theirs.look_at(&content).is_err());
        let tag = ours.keys.chunk_tag(&nonce, 0, [one, two]);
        let chunk = |index, blocks: &[BlockId]| ManifestChunk { index, blocks: blocks.to_vec(), tag };
        ours.look_at_chunk(&content, &chunk(0, &[one, two])).expect("is ours");
        for lie in [chunk(0, &[two, one]), chunk(0, &[one]), chunk(1, &[one, two])] {
            assert!(ours.look_at_chunk(&content, &lie).is_err(), "{lie:?}");
        }
    }
}
