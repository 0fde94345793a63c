//! One block, sealed: identified, compressed, encrypted, and framed as a record that can lie in a pack.
//!
//! ```text
//! record   = frame(32) ‖ block id(32) ‖ header(32) ‖ ciphertext(packed bytes) ‖ tag(16) ‖ sum(8)
//! frame    = "HFBK" ‖ record bytes(u32) ‖ check(8) ‖ space uid(16)
//! header   = version(1) ‖ cipher(1) ‖ codec(1) ‖ 0(1) ‖ raw bytes(u32) ‖ packed bytes(u32) ‖ 0(4) ‖ salt(16)
//! ```
//! Numbers are little-endian. The *id* is BLAKE3 of the plaintext, keyed for the space. The *cipher* is AES-256-GCM with
//! a key of its own for each sealing: HKDF-SHA256-Expand of the space's block key with the id and a fresh random salt. The
//! salt is there because the same plaintext may be packed differently another time (other codec, other zstd): without it
//! two different messages would share key and nonce. With it the nonce can be zero. Id and header are authenticated.
//! The *check* is the start of BLAKE3 over the rest of frame and id; it lets a scan tell a record from debris. The *sum* is
//! XXH3-64 of all before it; it lets an operator without any key find bits that flipped on the disk (against malice there is the
//! tag). A tiny content in the catalogue is the same record without frame and sum.
//!
//! Buffers: plaintext is gathered in a buffer whose first [`RECORD_PREFIX_BYTES`] bytes are room for frame, id and header, so that
//! a block that does not shrink is encrypted where it lies and never copied.

use crate::aside::IdHasher;
use crate::codec::{Codec, CodecId, Compressor, Decompressor};
use crate::keys::SpaceKey;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk, Salt};
use holdfast_base::limits::BLOCK_BYTES_MAX;
use holdfast_base::{BlockId, Error, Result, Uid};
use xxhash_rust::xxh3::xxh3_64;

/// Version of the block format that is written.
const VERSION: u8 = 1;
/// The number of AES-256-GCM with a derived key; others have room.
const CIPHER_AES_256_GCM: u8 = 1;
const MAGIC: [u8; 4] = *b"HFBK";
/// Bytes of a record's frame.
pub const FRAME_BYTES: usize = 32;
const HEADER_BYTES: usize = 32;
const TAG_BYTES: usize = 16;
const SALT_BYTES: usize = 16;
const SUM_BYTES: usize = 8;
/// Bytes before the ciphertext in a record, left free at the start of a plaintext buffer.
pub const RECORD_PREFIX_BYTES: usize = FRAME_BYTES + BlockId::BYTES + HEADER_BYTES;
/// Bytes a record has more than its packed content.
pub const RECORD_OVERHEAD_BYTES: usize = RECORD_PREFIX_BYTES + TAG_BYTES + SUM_BYTES;

/// The keys of one space that seal its blocks and authenticate its manifests.
#[derive(Clone)]
pub struct BlockKeys {
    space: Uid,
    id_key: [u8; 32],
    pub(crate) manifest_key: [u8; 32],
    block_key: Prk,
}

impl BlockKeys {
    /// Derives them from the space's data key (HKDF-SHA256, RFC 5869).
    pub fn derive(space: Uid, key: &SpaceKey) -> Self {
        let root = Salt::new(HKDF_SHA256, b"holdfast space v1").extract(key.expose());
        Self {
            space,
            id_key: expand(&root, &[b"block id", &space.0]),
            manifest_key: expand(&root, &[b"manifest", &space.0]),
            block_key: Prk::new_less_safe(HKDF_SHA256, &expand(&root, &[b"block key", &space.0])),
        }
    }

    /// The random name of the space.
    pub const fn space(&self) -> Uid {
        self.space
    }

    /// The id of a block with this plaintext in this space.
    pub fn id(&self, plain: &[u8]) -> BlockId {
        BlockId(*blake3::keyed_hash(&self.id_key, plain).as_bytes())
    }

    /// Computes such an id from pieces.
    pub fn id_hasher(&self) -> IdHasher {
        IdHasher::new(&self.id_key)
    }

    fn cipher(&self, id: BlockId, salt: &[u8]) -> LessSafeKey {
        let info: [&[u8]; 3] = [b"block v1", &id.0, salt];
        let okm = self.block_key.expand(&info, &AES_256_GCM).expect("32 bytes are within HKDF's limit");
        LessSafeKey::new(UnboundKey::from(okm))
    }
}

impl Drop for BlockKeys {
    fn drop(&mut self) {
        use zeroize::Zeroize;
        self.id_key.zeroize();
        self.manifest_key.zeroize();
    }
}

/// Length of key material asked of HKDF.
struct KeyBytes;
impl aws_lc_rs::hkdf::KeyType for KeyBytes {
    fn len(&self) -> usize {
        32
    }
}

fn expand(prk: &Prk, info: &[&[u8]]) -> [u8; 32] {
    let mut key = [0; 32];
    prk.expand(info, KeyBytes).and_then(|okm| okm.fill(&mut key)).expect("32 bytes are within HKDF's limit");
    key
}

/// Seals blocks; one a worker thread, because it keeps compression contexts.
pub struct Sealer(Compressor);

impl Default for Sealer {
    fn default() -> Self {
        Self(Compressor::new())
    }
}

impl Sealer {
    /// Seals the block whose plaintext is `buffer[RECORD_PREFIX_BYTES..]` and whose id (by [`BlockKeys::id`]) is `id`. The record
    /// is left in `buffer` or, if it was compressed, in `spare` (cleared first); the other one keeps its allocation for
    /// reuse. Returned in the order (record, other).
    pub fn seal(
        &mut self,
        keys: &BlockKeys,
        id: BlockId,
        codec: Codec,
        mut buffer: Vec<u8>,
        mut spare: Vec<u8>,
    ) -> Result<(Vec<u8>, Vec<u8>)> {
        let raw_bytes = buffer.len() - RECORD_PREFIX_BYTES;
        if raw_bytes > BLOCK_BYTES_MAX {
            return Err(Error::internal("a block is over its limit"));
        }
        spare.clear();
        spare.resize(RECORD_PREFIX_BYTES, 0);
        let compressed = self.0.compress(codec, &buffer[RECORD_PREFIX_BYTES..], &mut spare);
        if compressed.is_some() {
            std::mem::swap(&mut buffer, &mut spare);
        }
        finish_record(keys, id, compressed.unwrap_or(CodecId::None), raw_bytes, &mut buffer)?;
        Ok((buffer, spare))
    }
}

/// Fills in the prefix of `record`, encrypts what follows it, and appends the tag.
fn finish_record(keys: &BlockKeys, id: BlockId, codec: CodecId, raw_bytes: usize, record: &mut Vec<u8>) -> Result<()> {
    let packed_bytes = record.len() - RECORD_PREFIX_BYTES;
    let mut salt = [0; SALT_BYTES];
    aws_lc_rs::rand::fill(&mut salt).map_err(|_| Error::unavailable("the system gives no random bytes"))?;
    let (prefix, packed) = record.split_at_mut(RECORD_PREFIX_BYTES);
    prefix[FRAME_BYTES..FRAME_BYTES + BlockId::BYTES].copy_from_slice(&id.0);
    let header = &mut prefix[FRAME_BYTES + BlockId::BYTES..];
    header[..4].copy_from_slice(&[VERSION, CIPHER_AES_256_GCM, codec as u8, 0]);
    header[4..8].copy_from_slice(&le32(raw_bytes)?);
    header[8..12].copy_from_slice(&le32(packed_bytes)?);
    header[12..16].fill(0);
    header[16..].copy_from_slice(&salt);
    let tag = keys
        .cipher(id, &salt)
        .seal_in_place_separate_tag(zero_nonce(), Aad::from(&prefix[FRAME_BYTES..]), packed)
        .map_err(|_| Error::internal("encryption failed"))?;
    record.extend_from_slice(tag.as_ref());
    write_frame(keys.space, record)?;
    let sum = xxh3_64(record);
    record.extend_from_slice(&sum.to_le_bytes());
    Ok(())
}

fn write_frame(space: Uid, record: &mut [u8]) -> Result<()> {
    let record_bytes = le32(record.len() + SUM_BYTES)?;
    record[..4].copy_from_slice(&MAGIC);
    record[4..8].copy_from_slice(&record_bytes);
    record[16..FRAME_BYTES].copy_from_slice(&space.0);
    let check = frame_check(record);
    record[8..16].copy_from_slice(&check);
    Ok(())
}

/// The check over the frame's other fields and the id.
fn frame_check(record: &[u8]) -> [u8; 8] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&record[..8]).update(&record[16..FRAME_BYTES + BlockId::BYTES]);
    let mut check = [0; 8];
    check.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    check
}

fn le32(value: usize) -> Result<[u8; 4]> {
    u32::try_from(value).map(u32::to_le_bytes).map_err(|_| Error::internal("a block is over its limit"))
}

/// Zero is safe: every sealing has a key of its own (see the module).
fn zero_nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

/// The part of a record that the catalogue keeps of a tiny content.
pub fn inline_part(record: &[u8]) -> &[u8] {
    &record[FRAME_BYTES..record.len() - SUM_BYTES]
}

/// Bytes of the plaintext of a tiny content, as far as that can be told without a key: none if it is cut, or is of a shape that nothing sealed
/// has. What is stored is never more than the plaintext and 80 bytes, so whoever pays for the one pays for the other.
pub fn inline_bytes(sealed: &[u8]) -> Option<u64> {
    let header = Header::parse(sealed.get(BlockId::BYTES..BlockId::BYTES + HEADER_BYTES)?).ok()?;
    let is_whole = sealed.len() == BlockId::BYTES + HEADER_BYTES + header.packed_bytes + TAG_BYTES;
    let is_packed = match header.codec {
        CodecId::None => header.packed_bytes == header.raw_bytes,
        CodecId::Lz4 | CodecId::Zstd => header.packed_bytes < header.raw_bytes,
    };
    (is_whole && is_packed).then_some(header.raw_bytes as u64)
}

/// Whether a whole record is as it was written, as far as can be told without a key: block `id` of `space`, right length, right sum.
pub fn record_is_intact(space: Uid, id: BlockId, record: &[u8]) -> bool {
    let Some((body, sum)) = record.split_last_chunk::<SUM_BYTES>() else { return false };
    read_record_head(record)
        .is_some_and(|head| head.space == space && head.id == id && head.record_bytes as usize == record.len())
        && xxh3_64(body).to_le_bytes() == *sum
}

/// What a record's frame and id say, readable without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHead {
    /// Bytes of the whole record.
    pub record_bytes: u32,
    /// The block's space.
    pub space: Uid,
    /// The block.
    pub id: BlockId,
    /// Bytes of its plaintext.
    pub raw_bytes: u32,
}

/// Reads the first [`RECORD_PREFIX_BYTES`] bytes of a record; none if they are not the start of one.
pub fn read_record_head(bytes: &[u8]) -> Option<RecordHead> {
    let head = bytes.get(..RECORD_PREFIX_BYTES)?;
    if head[..4] != MAGIC || frame_check(head) != head[8..16] {
        return None;
    }
    let record_bytes = u32_at(head, 4);
    let header = Header::parse(&head[FRAME_BYTES + BlockId::BYTES..]).ok()?;
    (record_bytes as usize == header.packed_bytes + RECORD_OVERHEAD_BYTES).then_some(())?;
    Some(RecordHead {
        record_bytes,
        space: Uid::from_slice(&head[16..FRAME_BYTES]).ok()?,
        id: BlockId::from_slice(&head[FRAME_BYTES..FRAME_BYTES + BlockId::BYTES]).ok()?,
        raw_bytes: u32::try_from(header.raw_bytes).ok()?,
    })
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

struct Header {
    codec: CodecId,
    raw_bytes: usize,
    packed_bytes: usize,
}

impl Header {
    fn parse(bytes: &[u8]) -> Result<Self> {
        if bytes[0] != VERSION || bytes[1] != CIPHER_AES_256_GCM {
            return Err(Error::damaged("a block has an unknown version or cipher: was it written by a newer program?"));
        }
        let header = Self {
            codec: CodecId::from_byte(bytes[2])?,
            raw_bytes: u32_at(bytes, 4) as usize,
            packed_bytes: u32_at(bytes, 8) as usize,
        };
        if header.raw_bytes > BLOCK_BYTES_MAX || header.packed_bytes > BLOCK_BYTES_MAX {
            return Err(Error::damaged("a block's header states a length over the limit"));
        }
        Ok(header)
    }
}

/// Opens blocks; one a worker thread, because it keeps decompression contexts.
pub struct Opener(Decompressor);

impl Default for Opener {
    fn default() -> Self {
        Self(Decompressor::new())
    }
}

impl Opener {
    /// Opens a record, which is decrypted where it lies, and checks that it is block `id`. Answers the plaintext (in `record`
    /// itself, or in `spare` if it was compressed) as (buffer, start of the plaintext in it, other buffer).
    pub fn open(
        &mut self,
        keys: &BlockKeys,
        id: BlockId,
        mut record: Vec<u8>,
        mut spare: Vec<u8>,
    ) -> Result<(Vec<u8>, usize, Vec<u8>)> {
        let head = read_record_head(&record);
        if head.is_none_or(|head| head.space != keys.space || head.record_bytes as usize != record.len()) {
            return Err(Error::damaged(format!("block {id}: what lies in its place is no block of this space")));
        }
        record.truncate(record.len().saturating_sub(SUM_BYTES));
        let (codec, raw_bytes, end) = decrypt(keys, id, FRAME_BYTES, &mut record)?;
        if codec == CodecId::None {
            record.truncate(end);
            return Ok((record, RECORD_PREFIX_BYTES, spare));
        }
        self.0.decompress(codec, &record[RECORD_PREFIX_BYTES..end], raw_bytes, &mut spare)?;
        Ok((spare, 0, record))
    }

    /// Opens a record without its frame, as the catalogue keeps tiny contents.
    pub fn open_inline(&mut self, keys: &BlockKeys, sealed: &[u8]) -> Result<Vec<u8>> {
        let id = BlockId::from_slice(sealed.get(..BlockId::BYTES).ok_or_else(short)?)?;
        let mut record = sealed.to_vec();
        let (codec, raw_bytes, end) = decrypt(keys, id, 0, &mut record)?;
        let start = RECORD_PREFIX_BYTES - FRAME_BYTES;
        if codec == CodecId::None {
            record.truncate(end);
            record.drain(..start);
            return Ok(record);
        }
        let mut out = Vec::new();
        self.0.decompress(codec, &record[start..end], raw_bytes, &mut out)?;
        Ok(out)
    }
}

fn short() -> Error {
    Error::damaged("a block is cut short")
}

/// Decrypts in place a record whose id starts at `id_start`; answers codec, plaintext bytes, and where the packed bytes end.
fn decrypt(keys: &BlockKeys, id: BlockId, id_start: usize, record: &mut [u8]) -> Result<(CodecId, usize, usize)> {
    let start = id_start + BlockId::BYTES + HEADER_BYTES;
    let header = Header::parse(record.get(id_start + BlockId::BYTES..start).ok_or_else(short)?)?;
    if record.len() != start + header.packed_bytes + TAG_BYTES {
        return Err(short().context(format!("block {id}")));
    }
    if record[id_start..id_start + BlockId::BYTES] != id.0 {
        return Err(Error::damaged(format!("block {id}: another block lies in its place")));
    }
    let (head, packed) = record.split_at_mut(start);
    let cipher = keys.cipher(id, &head[start - SALT_BYTES..]);
    cipher
        .open_in_place(zero_nonce(), Aad::from(&head[id_start..]), packed)
        .map_err(|_| Error::damaged(format!("block {id} fails its integrity check")))?;
    if header.codec == CodecId::None && header.raw_bytes != header.packed_bytes {
        return Err(Error::damaged(format!("block {id} contradicts itself about its length")));
    }
    Ok((header.codec, header.raw_bytes, start + header.packed_bytes))
}

#[cfg(test)]
mod tests;
