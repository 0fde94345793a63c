//! Makers of test data: equal seeds give equal bytes, on every machine and in every version.
//!
//! Streams implement [`std::io::Read`], so a test of 8 GiB needs no 8 GiB of memory.

mod names;
mod tree;

use std::io::{self, Read};

pub use names::hard_names;
pub use tree::{TreeFile, TreeSpec, write_tree};

use crate::rng::Prng;

/// What kind of bytes to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Random: no compressor shrinks it.
    Incompressible,
    /// Lines that look like C: zstd level 1 shrinks it to about a fifth.
    SourceText,
}

/// `len` bytes of a kind.
pub fn bytes(kind: Kind, seed: u64, len: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(len);
    stream(kind, seed, len as u64).read_to_end(&mut out).expect("a stream of made bytes cannot fail");
    out
}

/// `len` bytes that do not compress.
pub fn incompressible(seed: u64, len: usize) -> Vec<u8> {
    bytes(Kind::Incompressible, seed, len)
}

/// `len` bytes like source code.
pub fn source_text(seed: u64, len: usize) -> Vec<u8> {
    bytes(Kind::SourceText, seed, len)
}

/// The same bytes as [`bytes`], made while they are read.
pub fn stream(kind: Kind, seed: u64, len: u64) -> Stream {
    Stream { kind, rng: Prng::new(seed), piece: Vec::new(), used: 0, left: len }
}

/// Bytes that are made while they are read.
#[derive(Debug)]
pub struct Stream {
    kind: Kind,
    rng: Prng,
    piece: Vec<u8>,
    used: usize,
    left: u64,
}

/// Random bytes made at once: enough to make the bookkeeping free, small enough for the cache.
const PIECE_BYTES: usize = 8192;

impl Read for Stream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.used == self.piece.len() {
            self.piece.clear();
            self.used = 0;
            match self.kind {
                Kind::Incompressible => {
                    self.piece.resize(PIECE_BYTES, 0);
                    self.rng.fill(&mut self.piece);
                }
                Kind::SourceText => push_function(&mut self.rng, &mut self.piece),
            }
        }
        let ready = &self.piece[self.used..];
        let limit = usize::try_from(self.left).unwrap_or(usize::MAX);
        let count = ready.len().min(out.len()).min(limit);
        out[..count].copy_from_slice(&ready[..count]);
        self.used += count;
        self.left -= count as u64;
        Ok(count)
    }
}

const WORDS: [&str; 40] = [
    "page", "inode", "lock", "queue", "buffer", "device", "state", "index", "count", "flags", "offset", "length",
    "owner", "parent", "entry", "table", "cache", "handle", "request", "block", "sector", "super", "mount", "root",
    "path", "name", "link", "group", "limit", "timer", "event", "channel", "region", "frame", "packet", "socket",
    "address", "register", "clock", "signal",
];
const VERBS: [&str; 12] =
    ["get", "put", "init", "free", "alloc", "find", "update", "check", "insert", "remove", "read", "write"];

fn identifier(rng: &mut Prng) -> String {
    format!("{}_{}", rng.pick(&WORDS), rng.pick(&WORDS))
}

/// One made-up C function.
fn push_function(rng: &mut Prng, out: &mut Vec<u8>) {
    let (subject, verb) = (identifier(rng), rng.pick(&VERBS));
    let mut text = format!(
        "/*\n * {verb} the {} of a {}; the caller holds the {} lock.\n */\n\
         static int {subject}_{verb}(struct {subject} *{}, unsigned long {})\n{{\n",
        rng.pick(&WORDS),
        rng.pick(&WORDS),
        rng.pick(&WORDS),
        rng.pick(&WORDS),
        rng.pick(&WORDS),
    );
    for _ in 0..=rng.below(14) {
        let (a, b) = (identifier(rng), identifier(rng));
        let number = rng.below(4096);
        let statement = match rng.below(5) {
            0 => format!("\tif (!{a}->{b})\n\t\treturn -EINVAL;\n"),
            1 => format!("\t{a}->{b} = {number};\n"),
            2 => format!("\tfor (i = 0; i < {a}->{b}; i++)\n\t\t{b}[i] = {a}_{verb}({b}, i);\n"),
            3 => format!("\tspin_lock(&{a}->lock);\n\t{b} |= 0x{number:04x};\n\tspin_unlock(&{a}->lock);\n"),
            _ => format!("\tret = {a}_{verb}({b}, {number});\n\tif (ret < 0)\n\t\tgoto out;\n"),
        };
        text.push_str(&statement);
    }
    text.push_str("\treturn 0;\n}\n\n");
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_bytes_and_a_short_stream_is_a_prefix_of_a_long_one() {
        for kind in [Kind::Incompressible, Kind::SourceText] {
            let long = bytes(kind, 3, 50_000);
            assert_eq!(long.len(), 50_000);
            assert_eq!(bytes(kind, 3, 777), long[..777]);
            assert_ne!(bytes(kind, 4, 777), long[..777]);
        }
    }

    #[test]
    fn random_bytes_use_every_value_about_equally() {
        let mut counts = [0_u32; 256];
        for byte in incompressible(1, 256 * 1000) {
            counts[usize::from(byte)] += 1;
        }
        assert!(counts.iter().all(|count| (800..1200).contains(count)));
    }

    #[test]
    fn text_is_text() {
        let text = String::from_utf8(source_text(1, 10_000)).expect("ASCII");
        assert!(text.lines().count() > 200);
    }
}
