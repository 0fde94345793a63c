//! Reading an answer's body in the three ways HTTP/1.1 frames it (RFC 9112 section 6).
//!
//! [`BodyReader`] does no input itself: it is shown the bytes that were read so far and says what they are, so that the
//! blocking client and the event loop of the load generator read bodies by the same code.

use super::HttpError;

/// Longest chunk-size line, extensions included.
const MAX_CHUNK_LINE_BYTES: usize = 1024;

/// Where a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

/// What the next bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    /// So many bytes of content, at least one.
    Content(usize),
    /// So many bytes of framing, to be passed over.
    Framing(usize),
    /// Cannot be told before more is read.
    More,
    /// None: the body is complete.
    End,
}

/// The position in one body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyReader {
    state: State,
    /// Bytes of content so far.
    got: u64,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Length { whole: u64, left: u64 },
    UntilClose,
    ChunkSize,
    Chunk { left: u64 },
    ChunkEnd,
    Trailer,
    Complete,
}

impl BodyReader {
    pub(crate) fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::Length(whole) => State::Length { whole, left: whole },
            Framing::Chunked => State::ChunkSize,
            Framing::UntilClose => State::UntilClose,
        };
        Self { state, got: 0 }
    }

    /// Bytes of content so far.
    pub(crate) fn got(&self) -> u64 {
        self.got
    }

    /// Says what `pending` begins with; the caller takes that away before it asks again.
    pub(crate) fn next(&mut self, pending: &[u8]) -> Result<Piece, HttpError> {
        match self.state {
            State::Complete | State::Length { left: 0, .. } => Ok(Piece::End),
            _ if pending.is_empty() => Ok(Piece::More),
            State::UntilClose => Ok(self.content(u64::MAX, pending).1),
            State::Length { whole, left } => {
                let (left, piece) = self.content(left, pending);
                self.state = State::Length { whole, left };
                Ok(piece)
            }
            State::Chunk { left } => {
                let (left, piece) = self.content(left, pending);
                self.state = if left == 0 { State::ChunkEnd } else { State::Chunk { left } };
                Ok(piece)
            }
            State::ChunkSize | State::ChunkEnd | State::Trailer => self.line(pending),
        }
    }

    /// Tells whether a body that was not complete yet may end with the connection.
    pub(crate) fn finish(&self) -> Result<(), HttpError> {
        match self.state {
            State::Complete | State::UntilClose | State::Length { left: 0, .. } => Ok(()),
            State::Length { whole, left } => Err(HttpError::ShortAnswer { expected: whole, got: whole - left }),
            State::ChunkSize | State::Chunk { .. } | State::ChunkEnd | State::Trailer => Err(HttpError::ShortChunk),
        }
    }

    fn content(&mut self, left: u64, pending: &[u8]) -> (u64, Piece) {
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(pending.len());
        self.got += count as u64;
        (left - count as u64, Piece::Content(count))
    }

    /// One line of the framing: a chunk's size, the line end behind it, or a trailer.
    fn line(&mut self, pending: &[u8]) -> Result<Piece, HttpError> {
        let Some(at) = pending.iter().take(MAX_CHUNK_LINE_BYTES).position(|&byte| byte == b'\n') else {
            if pending.len() >= MAX_CHUNK_LINE_BYTES {
                return Err(HttpError::Malformed("a chunk-size line is too long".to_owned()));
            }
            return Ok(Piece::More);
        };
        let line = pending[..at].strip_suffix(b"\r").unwrap_or(&pending[..at]);
        self.state = match (self.state, line.is_empty()) {
            (State::ChunkSize, _) => match parse_chunk_size(line)? {
                0 => State::Trailer,
                left => State::Chunk { left },
            },
            (State::ChunkEnd, true) => State::ChunkSize,
            (State::ChunkEnd, false) => {
                return Err(HttpError::Malformed("a chunk is longer than its size says".to_owned()));
            }
            // Trailers, up to the empty line.
            (_, false) => State::Trailer,
            (_, true) => State::Complete,
        };
        Ok(Piece::Framing(at + 1))
    }
}

fn parse_chunk_size(line: &[u8]) -> Result<u64, HttpError> {
    let text = std::str::from_utf8(line).unwrap_or("");
    let digits = text.split(';').next().unwrap_or("").trim();
    u64::from_str_radix(digits, 16).map_err(|_| HttpError::Malformed(format!("chunk size {digits:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_size_is_hexadecimal_and_its_extensions_are_ignored() {
        assert_eq!(parse_chunk_size(b"1aF").ok(), Some(0x1af));
        assert_eq!(parse_chunk_size(b"10 ; name=value").ok(), Some(16));
    }

    #[test]
    fn a_chunk_size_that_is_no_number_or_overflows_is_refused() {
        for line in [&b""[..], b"xyz", b"-1", b"fffffffffffffffff", b"\xff"] {
            assert!(parse_chunk_size(line).is_err(), "{line:?}");
        }
    }

    /// Reads a whole body out of `bytes` that come in pieces of `step`; gives the content and what is left over.
    fn read(framing: Framing, bytes: &[u8], step: usize) -> Result<(Vec<u8>, Vec<u8>), HttpError> {
        let mut reader = BodyReader::new(framing);
        let (mut content, mut pending) = (Vec::new(), Vec::new());
        let mut pieces = bytes.chunks(step);
        loop {
            match reader.next(&pending)? {
                Piece::Content(count) => content.extend(pending.drain(..count)),
                Piece::Framing(count) => drop(pending.drain(..count)),
                Piece::End => break,
                Piece::More => {
                    if let Some(piece) = pieces.next() {
                        pending.extend_from_slice(piece);
                    } else {
                        reader.finish()?;
                        break;
                    }
                }
            }
        }
        assert_eq!(reader.got(), content.len() as u64);
        pending.extend(pieces.flatten());
        Ok((content, pending))
    }

    #[test]
    fn a_body_is_the_same_however_it_is_cut_into_pieces() -> Result<(), HttpError> {
        let chunked = b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: 1\r\n\r\nHTTP";
        for step in 1..=chunked.len() {
            assert_eq!(read(Framing::Chunked, chunked, step)?, (b"abcde".to_vec(), b"HTTP".to_vec()));
            assert_eq!(read(Framing::Length(4), b"abcdHTTP", step)?, (b"abcd".to_vec(), b"HTTP".to_vec()));
            assert_eq!(read(Framing::UntilClose, b"all of it", step)?, (b"all of it".to_vec(), Vec::new()));
        }
        Ok(())
    }

    #[test]
    fn a_body_that_ends_early_is_an_error_that_says_how() {
        assert!(matches!(read(Framing::Length(9), b"abc", 2), Err(HttpError::ShortAnswer { expected: 9, got: 3 })));
        for text in ["", "5", "5\r\nabc", "3\r\nabc", "3\r\nabc\r\n0\r\n"] {
            assert!(matches!(read(Framing::Chunked, text.as_bytes(), 2), Err(HttpError::ShortChunk)), "{text:?}");
        }
    }
}
