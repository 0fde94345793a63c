//! Content as it was before it was put into a mail (RFC 2045 section 6), piece by piece.
//!
//! What is not well-formed is decoded as mail programs do: characters that base64 has not are passed over, and what begins with `=` and is no code of
//! quoted-printable stays.

use super::words::hexadecimal;
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);
/// White space at the end of a line is no content, but more of it than this is.
const HELD_MAX: usize = 1 << 10;

/// How content is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// As it is: 7bit, 8bit and binary.
    Plain,
    /// Base64.
    Base64,
    /// Quoted-printable.
    Quoted,
}

impl Encoding {
    /// The encoding that a head names; none if nobody knows it.
    pub fn named(name: &[u8]) -> Option<Self> {
        Some(match name.trim_ascii().to_ascii_lowercase().as_slice() {
            b"" | b"7bit" | b"8bit" | b"binary" => Self::Plain,
            b"base64" => Self::Base64,
            b"quoted-printable" => Self::Quoted,
            _ => return None,
        })
    }

    /// About how many bytes are written with so many: lines of base64 have 76 characters and an end of two.
    pub(super) const fn about(self, written: u64) -> u64 {
        match self {
            Self::Plain | Self::Quoted => written,
            Self::Base64 => written / 78 * 57 + written % 78 * 3 / 4,
        }
    }
}

/// Content on its way.
#[derive(Debug)]
pub struct Decoder {
    encoding: Encoding,
    /// What means something only together with what comes.
    held: Vec<u8>,
}

impl Decoder {
    /// At the beginning.
    pub const fn new(encoding: Encoding) -> Self {
        Self { encoding, held: Vec::new() }
    }

    /// Decodes a piece.
    pub fn feed(&mut self, piece: &[u8], to: &mut Vec<u8>) {
        match self.encoding {
            Encoding::Plain => to.extend_from_slice(piece),
            Encoding::Base64 => self.base64(piece, to),
            Encoding::Quoted => piece.iter().for_each(|byte| self.quoted(*byte, to)),
        }
    }

    /// Decodes what is left when all has come.
    pub fn end(&mut self, to: &mut Vec<u8>) {
        match self.encoding {
            Encoding::Plain => {}
            Encoding::Base64 => self.end_base64(to),
            // A last line without an end: white space is none of it, nor is a line end that was announced.
            Encoding::Quoted
                if self.held.first() == Some(&b'=') && self.held.get(1).is_some_and(u8::is_ascii_hexdigit) =>
            {
                to.append(&mut self.held);
            }
            Encoding::Quoted => self.held.clear(),
        }
    }

    fn base64(&mut self, piece: &[u8], to: &mut Vec<u8>) {
        for part in piece.split_inclusive(|byte| *byte == b'=') {
            self.held.extend(part.iter().filter(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/')));
            if part.ends_with(b"=") {
                // Some programs put one text of base64 after another.
                self.end_base64(to);
                continue;
            }
            let whole = self.held.len() / 4 * 4;
            // Nothing but its characters is in it, so it can be decoded.
            let _ = BASE64.decode_vec(&self.held[..whole], to);
            self.held.drain(..whole);
        }
    }

    fn end_base64(&mut self, to: &mut Vec<u8>) {
        // One character alone is less than a byte.
        let most = if self.held.len() % 4 == 1 { self.held.len() - 1 } else { self.held.len() };
        let _ = BASE64.decode_vec(&self.held[..most], to);
        self.held.clear();
    }

    /// Held is a `=` with what may belong to it, or white space that may be at the end of a line.
    fn quoted(&mut self, byte: u8, to: &mut Vec<u8>) {
        match (self.held.first(), byte) {
            (Some(b'='), _) => self.coded(byte, to),
            (_, b' ' | b'\t' | b'\r') => {
                self.held.push(byte);
                if self.held.len() > HELD_MAX {
                    to.append(&mut self.held);
                }
            }
            (Some(_), b'\n') => {
                let ends = self.held.ends_with(b"\r");
                self.held.clear();
                to.extend_from_slice(if ends { b"\r\n" } else { b"\n" });
            }
            (_, b'=') => {
                to.append(&mut self.held);
                self.held.push(b'=');
            }
            _ => {
                to.append(&mut self.held);
                to.push(byte);
            }
        }
    }

    fn coded(&mut self, byte: u8, to: &mut Vec<u8>) {
        self.held.push(byte);
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
        match &self.held[1..] {
            // The line goes on with the next one.
            [spaces @ .., b'\n'] if spaces.iter().all(is_space) => self.held.clear(),
            spaces if spaces.iter().all(is_space) && spaces.len() < HELD_MAX => {}
            [digit] if digit.is_ascii_hexdigit() => {}
            digits => match hexadecimal(digits) {
                Some(code) => {
                    to.push(code);
                    self.held.clear();
                }
                None => self.not_coded(to),
            },
        }
    }

    /// It was no code: the `=` stays, and what follows is looked at anew.
    fn not_coded(&mut self, to: &mut Vec<u8>) {
        let held = std::mem::take(&mut self.held);
        to.push(b'=');
        held[1..].iter().for_each(|byte| self.quoted(*byte, to));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(encoding: Encoding, pieces: &[&[u8]]) -> Vec<u8> {
        let (mut decoder, mut to) = (Decoder::new(encoding), Vec::new());
        for piece in pieces {
            decoder.feed(piece, &mut to);
        }
        decoder.end(&mut to);
        to
    }

    #[test]
    fn base64_is_decoded_whatever_is_between_its_characters() {
        for (written, read) in [
            (b"YWJj\r\nZGU=\r\n".as_slice(), b"abcde".as_slice()),
            (b"YW Jj!", b"abc"),
            (b"YQ==YmM=", b"abc"),
            (b"YWI", b"ab"),
            (b"YWJjZ", b"abc"),
            (b"=", b""),
            (b"", b""),
        ] {
            assert_eq!(decoded(Encoding::Base64, &[written]), read);
        }
    }

    #[test]
    fn quoted_printable_is_decoded_line_by_line() {
        for (written, read) in [
            (b"a=3Db=\r\nc=3dd \t\r\nx\n".as_slice(), b"a=bc=d\r\nx\n".as_slice()),
            (b"= \t\r\nx", b"x"),
            (b"50=2 =ZZ =", b"50=2 =ZZ "),
            (b"a b =20\r\n", b"a b  \r\n"),
            (b"=\nx=", b"x"),
            (b"==41", b"=A"),
            (b"a  ", b"a"),
            (b"a=4", b"a=4"),
        ] {
            let found = decoded(Encoding::Quoted, &[written]);
            assert_eq!(
                found,
                read,
                "{} is read as {}",
                String::from_utf8_lossy(written),
                String::from_utf8_lossy(&found)
            );
        }
    }

    proptest! {
        #[test]
        fn base64_reads_back_however_it_is_cut(content: Vec<u8>, width in 1..80_usize, step in 1..90_usize) {
            let written = base64::engine::general_purpose::STANDARD.encode(&content);
            let lines: Vec<u8> = written.as_bytes().chunks(width).flat_map(|line| [line, b"\r\n"].concat()).collect();
            prop_assert_eq!(decoded(Encoding::Base64, &lines.chunks(step).collect::<Vec<_>>()), content);
        }

        #[test]
        fn what_is_decoded_does_not_depend_on_where_it_is_cut(written in "[=a-fA-F0-9 \\t\\r\\n]{0,60}", step in 1..9_usize) {
            for encoding in [Encoding::Plain, Encoding::Base64, Encoding::Quoted] {
                let whole = decoded(encoding, &[written.as_bytes()]);
                prop_assert!(whole.len() <= written.len());
                prop_assert_eq!(decoded(encoding, &written.as_bytes().chunks(step).collect::<Vec<_>>()), whole);
            }
        }
    }
}
