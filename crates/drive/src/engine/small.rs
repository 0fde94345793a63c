//! Content that is small enough to lie in the catalogue, sealed where it is asked for: nothing is stored, and nobody is waited for.
//!
//! A client on another machine does the same with keys of its own ([`super::far`]).

use super::upload::{INLINE_RAW_BYTES_MAX, INLINE_SEALED_BYTES_MAX};
use super::workers::with_tools;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{BlockId, Error, ErrorKind, Result};
use holdfast_meta::{Compression, MANIFEST_CHUNK_BLOCKS, NewContent, StagedBlock, StagedRun};
use holdfast_seal::block::{RECORD_PREFIX_BYTES, inline_bytes, inline_part};
use holdfast_seal::{BlockKeys, Codec};

/// What a space's blocks are compressed with.
pub const fn codec_of(compression: Compression) -> Codec {
    match compression {
        Compression::None => Codec::None,
        Compression::Lz4 => Codec::Lz4,
        Compression::Zstd(level) => Codec::Zstd(level),
    }
}

/// Content that was sealed where it was asked for.
pub enum Sealed {
    /// It fits the catalogue.
    Small(NewContent),
    /// It does not; as the block that it is, if it was sealed.
    Large(Option<SealedBlock>),
}

impl Sealed {
    /// The content, if it is small enough.
    pub fn small(self) -> Option<NewContent> {
        match self {
            Self::Small(content) => Some(content),
            Self::Large(_) => None,
        }
    }
}

/// A block that is sealed, and nowhere.
pub struct SealedBlock {
    /// Its id.
    pub id: BlockId,
    /// Bytes of its plaintext.
    pub size: u64,
    /// Its record.
    pub record: Vec<u8>,
}

/// Seals; none if it turns out too large.
pub fn seal(keys: &BlockKeys, codec: Codec, plain: &[u8]) -> Result<Option<NewContent>> {
    if plain.len() > INLINE_SEALED_BYTES_MAX && codec == Codec::None {
        return Ok(None);
    }
    match seal_any(keys, codec, plain)? {
        Sealed::Small(content) => Ok(Some(content)),
        Sealed::Large(_) => Ok(None),
    }
}

/// Seals what is not too much to be sealed at once.
pub fn seal_any(keys: &BlockKeys, codec: Codec, plain: &[u8]) -> Result<Sealed> {
    if plain.is_empty() {
        return Ok(Sealed::Small(NewContent::Empty));
    }
    if plain.len() > INLINE_RAW_BYTES_MAX {
        return Ok(Sealed::Large(None));
    }
    let mut buffer = Vec::with_capacity(RECORD_PREFIX_BYTES + plain.len());
    buffer.resize(RECORD_PREFIX_BYTES, 0);
    buffer.extend_from_slice(plain);
    let id = keys.id(plain);
    let record = with_tools(|tools| {
        let spare = std::mem::take(&mut tools.spare);
        let (record, spare) = tools.sealer.seal(keys, id, codec, buffer, spare)?;
        tools.spare = spare;
        Ok::<_, Error>(record)
    })?;
    let (size, sealed) = (plain.len() as u64, inline_part(&record));
    if sealed.len() > INLINE_SEALED_BYTES_MAX {
        return Ok(Sealed::Large(Some(SealedBlock { id, size, record })));
    }
    let nonce = holdfast_seal::keys::random_bytes()?;
    let tag = keys.content_tag(&nonce, size, 0);
    Ok(Sealed::Small(NewContent::Inline { size, nonce, tag, sealed: sealed.to_vec() }))
}

/// Opens what was sealed so.
pub fn open(keys: &BlockKeys, content: &NewContent) -> Result<Vec<u8>> {
    match content {
        NewContent::Empty => Ok(Vec::new()),
        NewContent::Inline { size, nonce, tag, sealed } => {
            if keys.content_tag(nonce, *size, 0) != *tag {
                return Err(Error::damaged("a tiny content fails its integrity check"));
            }
            let plain = with_tools(|tools| tools.opener.open_inline(keys, sealed))?;
            if plain.len() as u64 != *size {
                return Err(Error::damaged("a tiny content has not the size it is said to have"));
            }
            Ok(plain)
        }
        NewContent::Blocks { .. } | NewContent::Staged { .. } => {
            Err(Error::internal("content in blocks is not opened here"))
        }
    }
}

/// Looks at what a client says it sealed so, without opening it: that it has the size that is paid for, is within the limits, and has a
/// tag by this space's key. What is in it is between the client and whoever reads it.
pub(crate) fn look_at(keys: &BlockKeys, content: &NewContent) -> Result<()> {
    let refuse = |why: &str| Err(Error::new(ErrorKind::InvalidInput, why));
    let (size, nonce, tag, sealed) = match content {
        NewContent::Empty => return Ok(()),
        NewContent::Inline { size, nonce, tag, sealed } => (*size, nonce, tag, sealed),
        NewContent::Blocks { size, block_bytes, nonce, tag, runs } => {
            return look_at_blocks(keys, (*size, *block_bytes), (nonce, tag), runs);
        }
        NewContent::Staged { .. } => return refuse("an upload comes another way"),
    };
    if size == 0 || size > INLINE_RAW_BYTES_MAX as u64 || sealed.len() > INLINE_SEALED_BYTES_MAX {
        return refuse("the sealed content is larger than what a catalogue's row takes, or empty");
    }
    if inline_bytes(sealed) != Some(size) {
        return refuse("the sealed content has not the shape or the size that it is said to have");
    }
    if keys.content_tag(nonce, size, 0) != *tag {
        return refuse("the content was not sealed with this space's key");
    }
    Ok(())
}

/// The same for blocks that came with it, each of which was looked at then.
fn look_at_blocks(
    keys: &BlockKeys,
    (size, block_bytes): (u64, u32),
    (nonce, tag): (&[u8; 16], &[u8; 16]),
    runs: &[StagedRun],
) -> Result<()> {
    let [StagedRun { chunk: 0, first: 0, blocks, tag: of_chunk }] = runs else {
        return Err(Error::invalid("the content has not the blocks that it is said to have"));
    };
    if blocks.iter().any(|block| block.written.is_none()) {
        return Err(Error::invalid("a content's blocks did not come with it"));
    }
    let is_whole =
        blocks.len() as u64 == size.div_ceil(BLOCK_BYTES as u64) && u64::from(block_bytes) == BLOCK_BYTES as u64;
    if size == 0 || !is_whole || blocks.len() > MANIFEST_CHUNK_BLOCKS {
        return Err(Error::invalid("the content has not the blocks that its size needs"));
    }
    let ids = blocks.iter().map(|block| block.id);
    if keys.content_tag(nonce, size, block_bytes) != *tag || keys.chunk_tag(nonce, 0, ids) != *of_chunk {
        return Err(Error::invalid("the content was not sealed with this space's key"));
    }
    Ok(())
}

/// A content of these blocks, each of the full size but the last, as a catalogue takes it. They fit one part of a manifest.
pub fn of_blocks(keys: &BlockKeys, size: u64, blocks: Vec<StagedBlock>) -> Result<NewContent> {
    let block_bytes = u32::try_from(BLOCK_BYTES).unwrap_or(u32::MAX);
    let nonce = holdfast_seal::keys::random_bytes()?;
    let tag = keys.content_tag(&nonce, size, block_bytes);
    let of_chunk = keys.chunk_tag(&nonce, 0, blocks.iter().map(|block| block.id));
    let runs = vec![StagedRun { chunk: 0, first: 0, blocks, tag: of_chunk }];
    Ok(NewContent::Blocks { size, block_bytes, nonce, tag, runs })
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_base::Uid;
    use holdfast_seal::SpaceKey;

    fn keys(byte: u8) -> BlockKeys {
        BlockKeys::derive(Uid([byte; 16]), &SpaceKey::from_bytes([byte; 32]))
    }

    #[test]
    fn what_is_sealed_passes_and_opens_and_what_lies_about_itself_is_refused() {
        let (ours, theirs) = (keys(1), keys(2));
        let noise: Vec<u8> = (0..4_096_u32).map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect();
        let sevens = vec![7; 60_000];
        for (codec, plain) in [(Codec::None, &noise[..9]), (Codec::Zstd(1), &sevens[..]), (Codec::Lz4, &noise[..])] {
            let content = seal(&ours, codec, plain).expect("seals").expect("is small");
            look_at(&ours, &content).expect("passes");
            assert_eq!(open(&ours, &content).expect("opens"), plain);
            assert!(look_at(&theirs, &content).is_err(), "another space's");
            let NewContent::Inline { size, nonce, tag, sealed } = content else { unreachable!("it is inline") };
            // With the key, a client may make tags as it likes.
            let lie = |size: u64, sealed: &[u8]| NewContent::Inline {
                size,
                nonce,
                tag: ours.content_tag(&nonce, size, 0),
                sealed: sealed.to_vec(),
            };
            assert!(look_at(&ours, &lie(size - 1, &sealed)).is_err(), "fewer bytes than are stored");
            assert!(look_at(&ours, &lie(size, &sealed[..sealed.len() - 1])).is_err(), "cut");
            assert!(look_at(&ours, &lie(size, &[&sealed[..], &[0]].concat())).is_err(), "longer");
            assert!(look_at(&ours, &lie(0, &[])).is_err(), "nothing at all");
            let mut small = sealed.clone();
            // The header's number of plain bytes: a lie that the size follows is refused where more is stored than is paid for.
            small[36..40].copy_from_slice(&1_u32.to_le_bytes());
            assert!(look_at(&ours, &lie(1, &small)).is_err(), "the size of a byte for {} bytes", sealed.len());
            let tag = [tag[0] ^ 1; 16];
            assert!(look_at(&ours, &NewContent::Inline { size, nonce, tag, sealed }).is_err());
        }
        assert!(seal(&ours, Codec::None, &[1; 5_000]).expect("tries").is_none());
    }
}
