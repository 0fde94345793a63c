//! Reading an answer: status line, fields, and a body in any framing of RFC 9112 section 6.

use std::io::{self, BufRead, Read, Write};

/// Bytes of status line and fields; a server that sends more is broken.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Fields in one answer.
const MAX_FIELDS: usize = 100;
/// Bytes in one line of a chunked body.
const MAX_LINE_BYTES: u64 = 1024;

/// An answer.
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Fields, as sent.
    pub headers: Vec<(String, String)>,
    /// The body; empty when it went to a writer.
    pub body: Vec<u8>,
}

impl Response {
    /// The first field of this name, in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let field = self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        field.map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Whether the status is 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Itself, or an error that shows what came instead of `status`.
    pub fn expect_status(self, status: u16) -> io::Result<Self> {
        if self.status == status {
            return Ok(self);
        }
        let text: String = self.text().chars().take(500).collect();
        let message = format!("status {} instead of {status}: {text}", self.status);
        Err(io::Error::other(message))
    }
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Reads one answer, its body into `out`. Says also whether the connection can be used again.
pub(crate) fn read_response(
    input: &mut impl BufRead,
    head_only: bool,
    out: &mut impl Write,
) -> io::Result<(Response, bool)> {
    loop {
        let (response, reusable) = read_head(input)?;
        match response.status {
            101 => return Ok((response, false)),
            100..200 => {}
            204 | 304 => return Ok((response, reusable)),
            _ if head_only => return Ok((response, reusable)),
            _ => {
                let framed = read_body(&response, input, out)?;
                return Ok((response, reusable && framed));
            }
        }
    }
}

fn read_head(input: &mut impl BufRead) -> io::Result<(Response, bool)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let room = (MAX_HEAD_BYTES - head.len()) as u64;
        if input.by_ref().take(room).read_until(b'\n', &mut head)? == 0 {
            let what = if head.is_empty() { "no answer" } else { "a cut or endless head" };
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
        }
    }
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut parsed = httparse::Response::new(&mut fields);
    parsed.parse(&head).map_err(|e| broken(&e.to_string()))?;
    let status = parsed.code.ok_or_else(|| broken("no status"))?;
    let version = parsed.version;
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let response = Response {
        status,
        headers: parsed.headers.iter().map(|field| (field.name.to_owned(), text(field.value))).collect(),
        body: Vec::new(),
    };
    let closes = response.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    Ok((response, version == Some(1) && !closes))
}

/// Reads the body; says whether its end was marked.
fn read_body(response: &Response, input: &mut impl BufRead, out: &mut impl Write) -> io::Result<bool> {
    let chunked = response.header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked"));
    if chunked {
        read_chunks(input, out)?;
        return Ok(true);
    }
    let Some(length) = response.header("content-length") else {
        io::copy(input, out)?;
        return Ok(false);
    };
    let length = length.parse().map_err(|_| broken("bad Content-Length"))?;
    copy_exactly(input, out, length)?;
    Ok(true)
}

fn read_chunks(input: &mut impl BufRead, out: &mut impl Write) -> io::Result<()> {
    loop {
        let line = read_line(input)?;
        let digits = line.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(digits, 16).map_err(|_| broken("bad chunk size"))?;
        if size == 0 {
            break;
        }
        copy_exactly(input, out, size)?;
        if !read_line(input)?.is_empty() {
            return Err(broken("a chunk longer than it says"));
        }
    }
    while !read_line(input)?.is_empty() {}
    Ok(())
}

fn read_line(input: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    input.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
    match line.strip_suffix(b"\r\n") {
        Some(line) => Ok(String::from_utf8_lossy(line).into_owned()),
        None => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a cut chunked body")),
    }
}

fn copy_exactly(input: &mut impl BufRead, out: &mut impl Write, length: u64) -> io::Result<()> {
    if io::copy(&mut input.by_ref().take(length), out)? == length {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a cut body"))
}
