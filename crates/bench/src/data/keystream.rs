//! Bytes that nothing can compress, the same for the same seed on every machine.
//!
//! The stream is BLAKE3's extendable output: several GB/s on one core, seekable, and defined by a published standard
//! rather than by the version of a random-number library.

use std::io::{self, Write};

const PIECE_BYTES: usize = 1 << 20;

fn stream(seed: u64, what: &str) -> blake3::OutputReader {
    let mut hasher = blake3::Hasher::new_derive_key("holdfast bench 2026 test data");
    hasher.update(&seed.to_le_bytes());
    hasher.update(what.as_bytes());
    hasher.finalize_xof()
}

/// Writes `bytes` bytes of the stream of `seed`.
pub(crate) fn write(out: &mut impl Write, seed: u64, bytes: u64) -> io::Result<()> {
    let mut reader = stream(seed, "large");
    let mut piece = vec![0_u8; PIECE_BYTES];
    let mut left = bytes;
    while left > 0 {
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE_BYTES);
        reader.fill(&mut piece[..count]);
        out.write_all(&piece[..count])?;
        left -= count as u64;
    }
    Ok(())
}

/// Fills `buffer` with the content of small file `index` of run `run`: about a microsecond for 4 KiB.
pub(crate) fn small_content(seed: u64, run: u64, index: u64, buffer: &mut [u8]) {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    hasher.update(&run.to_le_bytes());
    hasher.update(&index.to_le_bytes());
    hasher.finalize_xof().fill(buffer);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_bytes_and_a_longer_stream_begins_with_the_shorter() -> io::Result<()> {
        let (mut short, mut long) = (Vec::new(), Vec::new());
        write(&mut short, 1, 1000)?;
        write(&mut long, 1, PIECE_BYTES as u64 + 17)?;
        assert_eq!((short.len(), long.len()), (1000, PIECE_BYTES + 17));
        assert_eq!(short, long[..1000]);
        Ok(())
    }

    #[test]
    fn small_files_differ_by_seed_run_and_index() {
        let content = |seed, run, index| {
            let mut buffer = [0_u8; 64];
            small_content(seed, run, index, &mut buffer);
            buffer
        };
        let base = content(1, 2, 3);
        assert_eq!(base, content(1, 2, 3));
        for other in [content(9, 2, 3), content(1, 9, 3), content(1, 2, 9)] {
            assert_ne!(base, other);
        }
    }
}
