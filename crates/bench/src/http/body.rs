//! Reading an answer's body in the three ways HTTP/1.1 frames it (RFC 9112 section 6).

use super::HttpError;
use super::connection::Connection;
use super::stream::Stream;

/// Longest chunk-size line, extensions included.
const MAX_CHUNK_LINE_BYTES: usize = 1024;

/// Where a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), HttpError>;

/// Hands the whole body to `sink` and returns its length.
pub(super) fn read(
    connection: &mut Connection<'_>,
    stream: &mut Stream,
    framing: Framing,
    sink: Sink<'_>,
) -> Result<u64, HttpError> {
    match framing {
        Framing::Length(length) => {
            let got = read_exactly(connection, stream, length, sink)?;
            if got == length { Ok(got) } else { Err(HttpError::ShortAnswer { expected: length, got }) }
        }
        Framing::UntilClose => read_exactly(connection, stream, u64::MAX, sink),
        Framing::Chunked => read_chunks(connection, stream, sink),
    }
}

/// Reads `length` bytes, or fewer when the stream ends before.
fn read_exactly(
    connection: &mut Connection<'_>,
    stream: &mut Stream,
    length: u64,
    sink: Sink<'_>,
) -> Result<u64, HttpError> {
    let mut got = 0;
    while got < length {
        if connection.pending().is_empty() && connection.fill(stream)? == 0 {
            break;
        }
        let pending = connection.pending();
        let count = usize::try_from(length - got).unwrap_or(usize::MAX).min(pending.len());
        sink(&pending[..count])?;
        connection.take(count);
        got += count as u64;
    }
    Ok(got)
}

fn read_chunks(connection: &mut Connection<'_>, stream: &mut Stream, sink: Sink<'_>) -> Result<u64, HttpError> {
    let mut total = 0;
    loop {
        let size = read_line(connection, stream, parse_chunk_size)?;
        if size == 0 {
            // Trailers, up to the empty line.
            while read_line(connection, stream, |line| Ok(line.len()))? > 0 {}
            return Ok(total);
        }
        if read_exactly(connection, stream, size, sink)? < size {
            return Err(HttpError::ShortChunk);
        }
        total += size;
        let rest = read_line(connection, stream, |line| Ok(line.len()))?;
        if rest > 0 {
            return Err(HttpError::Malformed("a chunk is longer than its size says".to_owned()));
        }
    }
}

/// Reads one line, gives it to `parse` without its line end, and returns what that made of it.
fn read_line<T>(
    connection: &mut Connection<'_>,
    stream: &mut Stream,
    parse: impl Fn(&[u8]) -> Result<T, HttpError>,
) -> Result<T, HttpError> {
    loop {
        let pending = connection.pending();
        if let Some(at) = pending.iter().take(MAX_CHUNK_LINE_BYTES).position(|&byte| byte == b'\n') {
            let line = pending[..at].strip_suffix(b"\r").unwrap_or(&pending[..at]);
            let parsed = parse(line)?;
            connection.take(at + 1);
            return Ok(parsed);
        }
        if pending.len() >= MAX_CHUNK_LINE_BYTES {
            return Err(HttpError::Malformed("a chunk-size line is too long".to_owned()));
        }
        if connection.fill(stream)? == 0 {
            return Err(HttpError::ShortChunk);
        }
    }
}

fn parse_chunk_size(line: &[u8]) -> Result<u64, HttpError> {
    let text = std::str::from_utf8(line).unwrap_or("");
    let digits = text.split(';').next().unwrap_or("").trim();
    u64::from_str_radix(digits, 16).map_err(|_| HttpError::Malformed(format!("chunk size {digits:?}")))
}

#[cfg(test)]
mod tests {
    use super::parse_chunk_size;

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
}
