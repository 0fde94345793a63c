//! Tags that authenticate a file's manifest: which blocks, in which order, and how long the file is.
//!
//! A manifest is kept in the catalogue in chunks of block ids. A chunk's tag is keyed BLAKE3 over the content's random nonce, the
//! chunk's number and its ids, so a chunk cannot be altered, swapped with another, or moved to another file; the content's
//! own tag covers nonce, size and block size. Each block's id then authenticates its bytes.

use crate::block::BlockKeys;
use holdfast_base::BlockId;

/// Bytes of a tag: 128 bits, since a forger without the key has one try a read.
pub const MANIFEST_TAG_BYTES: usize = 16;

impl BlockKeys {
    /// Tag of chunk `index` of the content with this `nonce`, which holds `ids`.
    pub fn chunk_tag(&self, nonce: &[u8; 16], index: u64, ids: impl IntoIterator<Item = BlockId>) -> [u8; 16] {
        let mut hasher = blake3::Hasher::new_keyed(&self.manifest_key);
        hasher.update(b"chunk v1").update(nonce).update(&index.to_le_bytes());
        for id in ids {
            hasher.update(&id.0);
        }
        short_tag(&hasher)
    }

    /// Tag of the block `id` as what an upload with this `nonce` has after `blocks` full blocks.
    pub fn tail_tag(&self, nonce: &[u8; 16], blocks: u64, id: BlockId) -> [u8; 16] {
        let mut hasher = blake3::Hasher::new_keyed(&self.manifest_key);
        hasher.update(b"tail v1").update(nonce).update(&blocks.to_le_bytes()).update(&id.0);
        short_tag(&hasher)
    }

    /// Tag of a content as a whole.
    pub fn content_tag(&self, nonce: &[u8; 16], size: u64, block_bytes: u32) -> [u8; 16] {
        let mut hasher = blake3::Hasher::new_keyed(&self.manifest_key);
        hasher.update(b"content v1").update(nonce).update(&size.to_le_bytes()).update(&block_bytes.to_le_bytes());
        short_tag(&hasher)
    }
}

fn short_tag(hasher: &blake3::Hasher) -> [u8; MANIFEST_TAG_BYTES] {
    let mut tag = [0; MANIFEST_TAG_BYTES];
    tag.copy_from_slice(&hasher.finalize().as_bytes()[..MANIFEST_TAG_BYTES]);
    tag
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SpaceKey;
    use holdfast_base::Uid;

    #[test]
    fn a_tag_depends_on_everything_it_covers() {
        let keys = BlockKeys::derive(Uid([1; 16]), &SpaceKey::from_bytes([1; 32]));
        let (a, b) = (BlockId([1; 32]), BlockId([2; 32]));
        let tags = [
            keys.chunk_tag(&[0; 16], 0, [a, b]),
            keys.chunk_tag(&[0; 16], 0, [b, a]),
            keys.chunk_tag(&[0; 16], 0, [a]),
            keys.chunk_tag(&[0; 16], 1, [a, b]),
            keys.chunk_tag(&[1; 16], 0, [a, b]),
            keys.tail_tag(&[0; 16], 0, a),
            keys.tail_tag(&[0; 16], 0, b),
            keys.tail_tag(&[0; 16], 1, a),
            keys.tail_tag(&[1; 16], 0, a),
            keys.content_tag(&[0; 16], 5, 1 << 20),
            keys.content_tag(&[0; 16], 6, 1 << 20),
            keys.content_tag(&[0; 16], 5, 1 << 21),
            keys.content_tag(&[1; 16], 5, 1 << 20),
        ];
        let distinct: std::collections::HashSet<_> = tags.iter().collect();
        assert_eq!(distinct.len(), tags.len());
    }
}
