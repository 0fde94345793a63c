//! The encoding of a zip archive that is written front to back (PKWARE APPNOTE 6.3): bytes out, no input or output of its own.
//!
//! Every file is of the method Deflate, the only one a reader can find the end of without having seen the directory; what will
//! not shrink is framed in stored blocks, at 5 bytes in 64 KiB and next to no work. Sums and sizes follow the content. Names are UTF-8, times
//! are UTC (the older field, of two seconds' precision) and exact to the second (extended timestamp). Numbers over 32 bits use zip64.
//!
//! Limits: the directory is kept in memory until the end, [`DIRECTORY_BYTES_MAX`] at most.

use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use holdfast_base::{Error, ErrorKind, Result};
use time::OffsetDateTime;

/// Longest directory: some 150,000 entries with paths of 50 bytes.
pub(super) const DIRECTORY_BYTES_MAX: usize = 16 << 20;

/// A file of at least so many bytes gets sizes of 64 bits: less than 4 GiB, since framing adds a little.
const LARGE_BYTES: u64 = 0xf000_0000;

const MAX_16: u64 = u16::MAX as u64;
const MAX_32: u64 = u32::MAX as u64;

/// Bits 3 (sums follow the content) and 11 (the name is UTF-8).
const FILE_FLAGS: u16 = 1 << 3 | 1 << 11;
const FOLDER_FLAGS: u16 = 1 << 11;
const DEFLATE: u16 = 8;
/// Made on Unix, by a program that knows version 4.5.
const MADE_BY: u16 = 0x032d;
const FILE_MODE: u32 = 0o100_644 << 16;
/// The last bit is for DOS.
const FOLDER_MODE: u32 = 0o040_755 << 16 | 0x10;

/// What an entry begins with.
#[derive(Debug)]
pub(super) struct Head<'a> {
    /// Path with slashes; a folder's ends in one.
    pub(super) path: &'a str,
    pub(super) modified_ms: i64,
    /// The content's size, which it has to keep to; none is a folder.
    pub(super) size: Option<u64>,
}

/// What is known of a file's content when it is over.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    crc: u32,
    packed: u64,
    plain: u64,
}

/// An archive being written. Every method appends what it has to say to `out`.
#[derive(Debug, Default)]
pub(super) struct Zip {
    written: u64,
    directory: Vec<u8>,
    entries: u64,
}

impl Zip {
    /// Begins an entry; a folder is whole with it.
    pub(super) fn begin(&mut self, head: &Head<'_>, out: &mut Vec<u8>) -> Result<Begun> {
        let times = Times::of(head.modified_ms);
        let begun = Begun { offset: self.written, large: head.size.is_some_and(|size| size >= LARGE_BYTES), times };
        let name = u16::try_from(head.path.len()).map_err(|_| Error::invalid("a path is too long for an archive"))?;
        let start = out.len();
        put32(out, 0x0403_4b50);
        begun.put_common(out, head.size.is_some());
        // Sum and sizes: later.
        put32(out, 0);
        let later = if begun.large { u32::MAX } else { 0 };
        put32(out, later);
        put32(out, later);
        put16(out, name);
        put16(out, 9 + if begun.large { 20 } else { 0 });
        out.extend_from_slice(head.path.as_bytes());
        times.put_extra(out);
        if begun.large {
            put16(out, 1);
            put16(out, 16);
            out.extend_from_slice(&[0; 16]);
        }
        self.written += (out.len() - start) as u64;
        if head.size.is_none() {
            self.list(head, &begun, Sums::default())?;
        }
        Ok(begun)
    }

    /// Counts content that was sent.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.written += bytes as u64;
    }

    /// Ends a file.
    pub(super) fn end(&mut self, head: &Head<'_>, begun: &Begun, sums: Sums, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        put32(out, 0x0807_4b50);
        put32(out, sums.crc);
        if begun.large {
            put64(out, sums.packed);
            put64(out, sums.plain);
        } else {
            put32(out, fitting(sums.packed));
            put32(out, fitting(sums.plain));
        }
        self.written += (out.len() - start) as u64;
        self.list(head, begun, sums)
    }

    /// Adds an entry to the directory.
    fn list(&mut self, head: &Head<'_>, begun: &Begun, sums: Sums) -> Result<()> {
        let out = &mut self.directory;
        if out.len() + head.path.len() + 100 > DIRECTORY_BYTES_MAX {
            return Err(Error::new(ErrorKind::TooLarge, "an archive cannot have so many entries"));
        }
        let mut wide = Vec::new();
        for number in [sums.plain, sums.packed, begun.offset] {
            if number >= MAX_32 {
                put64(&mut wide, number);
            }
        }
        let extra = 9 + if wide.is_empty() { 0 } else { 4 + wide.len() };
        put32(out, 0x0201_4b50);
        put16(out, MADE_BY);
        begun.put_common(out, head.size.is_some());
        put32(out, sums.crc);
        put32(out, fitting(sums.packed));
        put32(out, fitting(sums.plain));
        put16(out, clipped16(head.path.len() as u64));
        put16(out, clipped16(extra as u64));
        // No comment, first disk, nothing known of the content.
        out.extend_from_slice(&[0; 6]);
        put32(out, if head.size.is_some() { FILE_MODE } else { FOLDER_MODE });
        put32(out, fitting(begun.offset));
        out.extend_from_slice(head.path.as_bytes());
        begun.times.put_extra(out);
        if !wide.is_empty() {
            put16(out, 1);
            put16(out, clipped16(wide.len() as u64));
            out.extend_from_slice(&wide);
        }
        self.entries += 1;
        Ok(())
    }

    /// The directory and the archive's end.
    pub(super) fn finish(self) -> Vec<u8> {
        let (at, bytes, entries) = (self.written, self.directory.len() as u64, self.entries);
        let mut out = self.directory;
        if entries >= MAX_16 || at >= MAX_32 || bytes >= MAX_32 {
            put32(&mut out, 0x0606_4b50);
            put64(&mut out, 44);
            put16(&mut out, MADE_BY);
            put16(&mut out, 45);
            // One disk, this one.
            put64(&mut out, 0);
            for number in [entries, entries, bytes, at] {
                put64(&mut out, number);
            }
            put32(&mut out, 0x0706_4b50);
            put32(&mut out, 0);
            put64(&mut out, at + bytes);
            put32(&mut out, 1);
        }
        put32(&mut out, 0x0605_4b50);
        put32(&mut out, 0);
        put16(&mut out, clipped16(entries));
        put16(&mut out, clipped16(entries));
        put32(&mut out, fitting(bytes));
        put32(&mut out, fitting(at));
        put16(&mut out, 0);
        out
    }
}

/// An entry that was begun.
#[derive(Debug)]
pub(super) struct Begun {
    offset: u64,
    large: bool,
    times: Times,
}

impl Begun {
    /// What the head before the content and the one in the directory have in common.
    fn put_common(&self, out: &mut Vec<u8>, is_file: bool) {
        put16(out, if self.large { 45 } else { 20 });
        put16(out, if is_file { FILE_FLAGS } else { FOLDER_FLAGS });
        put16(out, if is_file { DEFLATE } else { 0 });
        put16(out, self.times.dos_time);
        put16(out, self.times.dos_date);
    }
}

#[derive(Debug, Clone, Copy)]
struct Times {
    dos_time: u16,
    dos_date: u16,
    unix: u32,
}

impl Times {
    /// What lies outside of a field's years becomes their nearest end.
    fn of(modified_ms: i64) -> Self {
        let seconds = modified_ms.div_euclid(1_000);
        // 1980-01-01 and 2107-12-31: what the older field can say.
        let at = OffsetDateTime::from_unix_timestamp(seconds.clamp(315_532_800, 4_354_819_199));
        let at = at.unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let year = u16::try_from(at.year() - 1980).unwrap_or(0);
        Self {
            dos_time: u16::from(at.hour()) << 11 | u16::from(at.minute()) << 5 | u16::from(at.second() / 2),
            dos_date: year << 9 | u16::from(u8::from(at.month())) << 5 | u16::from(at.day()),
            // Readers take it for signed.
            unix: u32::try_from(seconds.clamp(0, i64::from(i32::MAX))).unwrap_or(0),
        }
    }

    /// The extended timestamp: 9 bytes.
    fn put_extra(self, out: &mut Vec<u8>) {
        put16(out, 0x5455);
        put16(out, 5);
        out.push(1);
        put32(out, self.unix);
    }
}

/// The content of one file on its way through Deflate.
pub(super) struct Packer {
    deflate: Compress,
    crc: Crc,
}

impl Packer {
    /// One that compresses quickly, or one that only frames.
    pub(super) fn new(compresses: bool) -> Self {
        let level = if compresses { Compression::fast() } else { Compression::none() };
        Self { deflate: Compress::new(level, false), crc: Crc::new() }
    }

    /// Takes a piece of content; the last is empty.
    pub(super) fn pack(&mut self, piece: &[u8]) -> Result<Vec<u8>> {
        self.crc.update(piece);
        let flush = if piece.is_empty() { FlushCompress::Finish } else { FlushCompress::None };
        let mut out = Vec::with_capacity(piece.len() / 2 + (64 << 10));
        let mut left = piece;
        loop {
            let taken = self.deflate.total_in();
            let status = self
                .deflate
                .compress_vec(left, &mut out, flush)
                .map_err(|error| Error::internal("Deflate failed").with_source(error))?;
            left = left.get(usize::try_from(self.deflate.total_in() - taken).unwrap_or(0)..).unwrap_or_default();
            let took_all = !piece.is_empty() && left.is_empty() && out.len() < out.capacity();
            if took_all || status == Status::StreamEnd {
                return Ok(out);
            }
            out.reserve(64 << 10);
        }
    }

    /// What is known when the last piece was taken.
    pub(super) fn sums(&self) -> Sums {
        Sums { crc: self.crc.sum(), packed: self.deflate.total_out(), plain: self.deflate.total_in() }
    }
}

fn put16(out: &mut Vec<u8>, number: u16) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

/// The number, or what says that it is written elsewhere, wider.
fn fitting(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn clipped16(number: u64) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(zip: &mut Zip, out: &mut Vec<u8>, path: &str, size: u64, content: &[u8]) {
        let head = Head { path, modified_ms: 1_700_000_001_500, size: Some(size) };
        let begun = zip.begin(&head, out).expect("begins");
        let mut packer = Packer::new(true);
        for piece in content.chunks(1 << 20).chain([&[][..]]) {
            let bytes = packer.pack(piece).expect("packs");
            zip.sent(bytes.len());
            out.extend_from_slice(&bytes);
        }
        zip.end(&head, &begun, packer.sums(), out).expect("ends");
    }

    #[test]
    fn content_comes_out_as_it_went_in_compressed_or_framed() {
        let zeros = vec![0; 5_000_000];
        let noise: Vec<u8> = (0..3_000_000u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        for (content, compresses) in [(&noise[..], false), (&noise[..], true), (&zeros[..], true), (&[], false)] {
            let mut packer = Packer::new(compresses);
            let mut out = Vec::new();
            for piece in content.chunks(1 << 20).chain([&[][..]]) {
                out.extend(packer.pack(piece).expect("packs"));
            }
            let mut plain = Vec::with_capacity(content.len() + 1);
            let mut inflate = flate2::Decompress::new(false);
            let status = inflate.decompress_vec(&out, &mut plain, flate2::FlushDecompress::Finish).expect("unpacks");
            assert!(status == Status::StreamEnd && plain == content);
            let sums = packer.sums();
            assert_eq!((sums.packed, sums.plain), (out.len() as u64, content.len() as u64));
            assert!(compresses || out.len() <= content.len() + content.len() / 1_000 + 16);
        }
    }

    #[test]
    fn numbers_over_32_bits_are_written_wide() {
        let (mut zip, mut out) = (Zip::default(), Vec::new());
        file(&mut zip, &mut out, "small", 1, b"x");
        assert!(!out.windows(4).any(|bytes| bytes == [1, 0, 16, 0]), "a small file needs none");
        file(&mut zip, &mut out, "large", 5 << 30, b"x");
        zip.sent(5 << 30);
        file(&mut zip, &mut out, "far", 1, b"x");
        let end = zip.finish();
        let far = end.windows(3).rposition(|bytes| bytes == b"far").expect("is listed");
        // After the name: 9 bytes of times, then zip64 with the offset alone.
        assert_eq!(end[far + 12..far + 16], [1, 0, 8, 0]);
        let offset = u64::from_le_bytes(end[far + 16..far + 24].try_into().expect("8 bytes"));
        assert!(offset > 5 << 30, "{offset}");
        assert_eq!(end[end.len() - 98..][..4], 0x0606_4b50u32.to_le_bytes());
        assert_eq!(end[end.len() - 42..][..4], 0x0706_4b50u32.to_le_bytes());
        assert_eq!(end[end.len() - 6..][..4], [0xff; 4], "the directory begins beyond 32 bits");
    }

    #[test]
    fn a_directory_that_grows_too_long_is_refused() {
        let (mut zip, mut out) = (Zip::default(), Vec::new());
        let path = "x".repeat(60_000);
        let head = Head { path: &path, modified_ms: 0, size: None };
        let refused = (0..300).find_map(|_| zip.begin(&head, &mut out).err());
        assert_eq!(refused.expect("is refused").kind(), ErrorKind::TooLarge);
        assert!(zip.directory.len() <= DIRECTORY_BYTES_MAX);
    }

    #[test]
    fn times_outside_of_a_field_s_years_are_its_ends() {
        assert_eq!(Times::of(i64::MIN).dos_date, 1 << 5 | 1);
        assert_eq!(Times::of(i64::MAX).dos_date >> 9, 127);
        let then = Times::of(1_700_000_001_500);
        assert_eq!(
            (then.unix, then.dos_date >> 9, then.dos_date >> 5 & 15, then.dos_date & 31),
            (1_700_000_001, 43, 11, 14)
        );
    }
}
