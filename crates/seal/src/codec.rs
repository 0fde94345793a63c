//! Compression of one block, and the probe that decides whether to try.
//!
//! Contexts are kept and reused: making a zstd context costs more than compressing a small block with it. The probe reads
//! 16 KiB of a block in four places. If their bytes are spread less evenly than compressed or encrypted data is, the block
//! is worth compressing; if they are even, LZ4 has a look for repeats. A block that was tried and did not shrink by one
//! part in 32 is stored as it was: decompressing it would cost more than the space is worth.

use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{Error, Result};
use std::sync::LazyLock;
use zstd::zstd_safe::{CCtx, CParameter, DCtx};

/// How the bytes inside a sealed block are encoded. The number is the format's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum CodecId {
    /// As they are.
    None = 0,
    /// LZ4 block format.
    Lz4 = 1,
    /// One zstd frame.
    Zstd = 2,
}

impl CodecId {
    /// Reads the number of the format.
    pub(crate) fn from_byte(byte: u8) -> Result<Self> {
        match byte {
            0 => Ok(Self::None),
            1 => Ok(Self::Lz4),
            2 => Ok(Self::Zstd),
            other => Err(Error::damaged(format!("a block has the unknown codec {other}"))),
        }
    }
}

/// What to compress new blocks with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// Nothing.
    None,
    /// LZ4.
    Lz4,
    /// Zstandard at a level from 1 to 19.
    Zstd(i8),
}

/// Blocks below this are not compressed: a zstd frame around so little saves less than it costs.
const COMPRESS_BYTES_MIN: usize = 128;
/// Bytes of each sample of the probe, and how many.
const SAMPLE_BYTES: usize = 4 * 1_024;
const SAMPLES: usize = 4;
/// Bits per byte above which a sample is as even as compressed or encrypted data (16 KiB of random bytes measure 7.99).
const EVEN_BITS: f64 = 7.85;

/// Logarithm of zstd's window: a whole block.
const WINDOW_LOG: u32 = BLOCK_BYTES.ilog2();

/// Compression contexts of one worker.
pub(crate) struct Compressor {
    zstd: CCtx<'static>,
    level: Option<i8>,
}

impl Compressor {
    pub(crate) fn new() -> Self {
        Self { zstd: CCtx::create(), level: None }
    }

    /// Appends `plain`, compressed, to `out`; none (and `out` as before) if it does not shrink enough to be worth it.
    pub(crate) fn compress(&mut self, codec: Codec, plain: &[u8], out: &mut Vec<u8>) -> Option<CodecId> {
        if codec == Codec::None || plain.len() < COMPRESS_BYTES_MIN || !worth_compressing(plain) {
            return None;
        }
        let start = out.len();
        let room = plain.len() - plain.len() / 32;
        let id = match codec {
            Codec::None => return None,
            Codec::Lz4 => compress_lz4(plain, out).map(|()| CodecId::Lz4),
            Codec::Zstd(level) => self.compress_zstd(level, plain, out).map(|()| CodecId::Zstd),
        };
        if id.is_none() || out.len() - start > room {
            out.truncate(start);
            return None;
        }
        id
    }

    fn compress_zstd(&mut self, level: i8, plain: &[u8], out: &mut Vec<u8>) -> Option<()> {
        if self.level != Some(level) {
            self.zstd.set_parameter(CParameter::CompressionLevel(i32::from(level.clamp(1, 19)))).ok()?;
            // Levels 1 and 2 look back over half a block or less; over all of it, level 1 stores 3 % less in the same time.
            self.zstd.set_parameter(CParameter::WindowLog(WINDOW_LOG)).ok()?;
            // The block header states the length and the tag proves the content: the frame repeats neither.
            self.zstd.set_parameter(CParameter::ChecksumFlag(false)).ok()?;
            self.zstd.set_parameter(CParameter::ContentSizeFlag(false)).ok()?;
            self.level = Some(level);
        }
        let start = out.len();
        out.reserve(zstd::zstd_safe::compress_bound(plain.len()));
        let mut cursor = std::io::Cursor::new(out);
        cursor.set_position(start as u64);
        self.zstd.compress2(&mut cursor, plain).ok()?;
        Some(())
    }
}

fn compress_lz4(plain: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    out.resize(start + lz4_flex::block::get_maximum_output_size(plain.len()), 0);
    let len = lz4_flex::block::compress_into(plain, &mut out[start..]).ok()?;
    out.truncate(start + len);
    Some(())
}

/// Decompression contexts of one worker.
pub(crate) struct Decompressor {
    zstd: DCtx<'static>,
}

impl Decompressor {
    pub(crate) fn new() -> Self {
        Self { zstd: DCtx::create() }
    }

    /// Decompresses `packed` into `out`, which is cleared first and must come to exactly `raw_bytes`.
    pub(crate) fn decompress(
        &mut self,
        codec: CodecId,
        packed: &[u8],
        raw_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        out.clear();
        match codec {
            CodecId::None => out.extend_from_slice(packed),
            CodecId::Lz4 => {
                out.resize(raw_bytes, 0);
                let len = lz4_flex::block::decompress_into(packed, out)
                    .map_err(|error| Error::damaged("a block does not decompress").with_source(error))?;
                out.truncate(len);
            }
            CodecId::Zstd => {
                out.reserve_exact(raw_bytes);
                self.zstd.decompress(out, packed).map_err(|code| {
                    Error::damaged("a block does not decompress").with_source(zstd::zstd_safe::get_error_name(code))
                })?;
            }
        }
        if out.len() == raw_bytes {
            Ok(())
        } else {
            Err(Error::damaged("a block has not the length its header states"))
        }
    }
}

/// Whether a block is likely to shrink.
fn worth_compressing(plain: &[u8]) -> bool {
    if plain.len() <= SAMPLE_BYTES * SAMPLES {
        return is_uneven(plain);
    }
    let mut sample = [0u8; SAMPLE_BYTES * SAMPLES];
    let stride = (plain.len() - SAMPLE_BYTES) / (SAMPLES - 1);
    for (number, part) in sample.chunks_exact_mut(SAMPLE_BYTES).enumerate() {
        let start = number * stride;
        part.copy_from_slice(&plain[start..start + SAMPLE_BYTES]);
    }
    is_uneven(&sample)
}

fn is_uneven(sample: &[u8]) -> bool {
    // A short sample of even bytes measures fewer bits (n bytes cannot show more than log2 n), so it is always tried.
    if sample.len() < SAMPLE_BYTES || bits_per_byte(sample) < EVEN_BITS {
        return true;
    }
    let mut packed = vec![0u8; lz4_flex::block::get_maximum_output_size(sample.len())];
    lz4_flex::block::compress_into(sample, &mut packed).is_ok_and(|len| len < sample.len() - sample.len() / 32)
}

/// Shannon entropy of the byte values (order 0), in bits per byte.
fn bits_per_byte(sample: &[u8]) -> f64 {
    // Bytes that follow each other are counted apart: the same one twice would wait for its count to be written.
    let mut counts = [[0u32; 256]; 4];
    let (fours, rest) = sample.as_chunks::<4>();
    for four in fours {
        for (counts, byte) in counts.iter_mut().zip(four) {
            counts[usize::from(*byte)] += 1;
        }
    }
    for byte in rest {
        counts[0][usize::from(*byte)] += 1;
    }
    let weighted: f64 = (0..256).map(|byte| weight(counts.iter().map(|counts| counts[byte]).sum())).sum();
    let total = sample.len() as f64;
    total.log2() - weighted / total
}

/// n log2 n. Of even bytes none is much more frequent than others, so logarithms of large numbers are seldom asked for.
fn weight(count: u32) -> f64 {
    const KNOWN: usize = 128;
    static WEIGHTS: LazyLock<[f64; KNOWN]> = LazyLock::new(|| std::array::from_fn(|count| weigh(count as f64)));
    let weigh_now = || weigh(f64::from(count));
    usize::try_from(count).ok().and_then(|count| WEIGHTS.get(count).copied()).unwrap_or_else(weigh_now)
}

fn weigh(count: f64) -> f64 {
    if count > 0.0 { count * count.log2() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_data::{even_bytes, text};

    fn round_trip(codec: Codec, plain: &[u8]) -> Option<CodecId> {
        let mut packed = vec![7; 3];
        let id = Compressor::new().compress(codec, plain, &mut packed);
        assert_eq!(packed[..3], [7; 3], "what was there stays");
        if let Some(id) = id {
            let mut out = vec![1, 2];
            Decompressor::new().decompress(id, &packed[3..], plain.len(), &mut out).expect("decompresses");
            assert_eq!(out, plain);
        } else {
            assert_eq!(packed.len(), 3);
        }
        id
    }

    #[test]
    fn entropy_is_what_its_definition_says() {
        for plain in [even_bytes(4_097), text(5_001), vec![7; 300], vec![1, 2, 3]] {
            let mut counts = std::collections::BTreeMap::<u8, u32>::new();
            for byte in &plain {
                *counts.entry(*byte).or_default() += 1;
            }
            let shares = counts.values().map(|count| f64::from(*count) / plain.len() as f64);
            let bits: f64 = shares.map(|share| -share * share.log2()).sum();
            assert!((bits_per_byte(&plain) - bits).abs() < 1e-9, "{} bytes", plain.len());
        }
    }

    #[test]
    fn text_shrinks_with_every_codec_and_comes_back() {
        for bytes in [200, 5_000, 1 << 20] {
            let plain = text(bytes);
            assert_eq!(round_trip(Codec::Zstd(1), &plain), Some(CodecId::Zstd));
            assert_eq!(round_trip(Codec::Zstd(19), &plain), Some(CodecId::Zstd));
            assert_eq!(round_trip(Codec::Lz4, &plain), Some(CodecId::Lz4));
            assert_eq!(round_trip(Codec::None, &plain), None);
        }
    }

    #[test]
    fn even_bytes_are_left_alone() {
        for bytes in [0, 1, 100, 4_096, 20_000, 1 << 20] {
            assert_eq!(round_trip(Codec::Zstd(1), &even_bytes(bytes)), None, "{bytes}");
        }
    }

    #[test]
    fn even_bytes_that_repeat_are_found_by_the_probe() {
        let plain = even_bytes(1_000).repeat(40);
        assert_eq!(round_trip(Codec::Zstd(1), &plain), Some(CodecId::Zstd));
    }

    #[test]
    fn garbage_never_decompresses_to_more_than_was_stated() {
        let mut out = Vec::new();
        let mut packed = Vec::new();
        Compressor::new().compress(Codec::Zstd(1), &vec![0; 1 << 20], &mut packed).expect("shrinks");
        for codec in [CodecId::Zstd, CodecId::Lz4, CodecId::None] {
            assert!(Decompressor::new().decompress(codec, &packed, 1_000, &mut out).is_err(), "{codec:?}");
            assert!(out.capacity() <= 2 << 20);
        }
    }
}
