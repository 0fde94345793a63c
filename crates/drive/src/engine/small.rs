//! Content that is small enough to lie in the catalogue, sealed where it is asked for: nothing is stored, and nobody is waited for.

use super::Engine;
use super::access::Entered;
use super::upload::{INLINE_RAW_BYTES_MAX, INLINE_SEALED_BYTES_MAX};
use super::workers::with_tools;
use holdfast_base::{Error, Result};
use holdfast_meta::NewContent;
use holdfast_seal::block::{RECORD_PREFIX_BYTES, inline_part};
use holdfast_seal::{BlockKeys, Codec};
use std::sync::Arc;

impl Engine {
    /// Seals; none if it turns out too large.
    pub(crate) fn seal_small(
        &self,
        entered: &Entered,
        keys: Arc<BlockKeys>,
        plain: &[u8],
    ) -> Result<Option<NewContent>> {
        if plain.is_empty() {
            return Ok(Some(NewContent::Empty));
        }
        let target = self.target(entered, keys)?;
        let hopeless = plain.len() > INLINE_SEALED_BYTES_MAX && target.codec == Codec::None;
        if plain.len() > INLINE_RAW_BYTES_MAX || hopeless {
            return Ok(None);
        }
        let mut buffer = Vec::with_capacity(RECORD_PREFIX_BYTES + plain.len());
        buffer.resize(RECORD_PREFIX_BYTES, 0);
        buffer.extend_from_slice(plain);
        let id = target.keys.id(plain);
        let sealed = with_tools(|tools| {
            let spare = std::mem::take(&mut tools.spare);
            let (record, spare) = tools.sealer.seal(&target.keys, id, target.codec, buffer, spare)?;
            tools.spare = spare;
            Ok::<_, Error>(inline_part(&record).to_vec())
        })?;
        if sealed.len() > INLINE_SEALED_BYTES_MAX {
            return Ok(None);
        }
        let size = plain.len() as u64;
        let tag = target.keys.content_tag(&target.nonce, size, 0);
        Ok(Some(NewContent::Inline { size, nonce: target.nonce, tag, sealed }))
    }

    /// Opens what was sealed so.
    pub(crate) fn open_small(keys: &BlockKeys, content: &NewContent) -> Result<Vec<u8>> {
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
}
