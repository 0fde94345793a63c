//! An answer's status line and headers. What is kept of them borrows from the buffer they were read into, because a
//! load generator reads many thousands a second.

use std::mem::MaybeUninit;

use super::body::Framing;
use super::{HttpError, MAX_HEADERS};

/// What a client needs of an answer's head.
pub(crate) struct Head<'b> {
    pub(crate) status: u16,
    pub(crate) framing: Framing,
    /// Whether the server keeps the connection.
    pub(crate) keep: bool,
    pub(crate) content_range: Option<&'b str>,
    pub(crate) server: Option<&'b str>,
}

impl Head<'_> {
    /// Whether this is no answer yet: another head follows (RFC 9110 section 15.2).
    pub(crate) fn is_interim(&self) -> bool {
        (100..200).contains(&self.status)
    }

    /// Where the body of the answer to `method` ends (RFC 9112 section 6.3).
    pub(crate) fn framing_for(&self, method: &str) -> Framing {
        let no_body = method == "HEAD" || self.status == 204 || self.status == 304;
        if no_body { Framing::Length(0) } else { self.framing }
    }
}

/// Parses a complete head; `None` when more bytes are needed.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Head<'_>, usize)>, HttpError> {
    let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut answer = httparse::Response::new(&mut []);
    let malformed = |what: &str| HttpError::Malformed(what.to_owned());
    let parser = httparse::ParserConfig::default();
    let length = match parser.parse_response_with_uninit_headers(&mut answer, bytes, &mut headers) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(malformed(&error.to_string())),
    };
    let status = answer.code.ok_or_else(|| malformed("no status"))?;
    let mut head = Head {
        status,
        framing: Framing::UntilClose,
        keep: answer.version == Some(1),
        content_range: None,
        server: None,
    };
    let mut content_length = None;
    let mut chunked = false;
    for header in answer.headers.iter() {
        let value = std::str::from_utf8(header.value).map_or("", str::trim);
        if header.name.eq_ignore_ascii_case("content-length") {
            content_length = Some(value.parse().map_err(|_| malformed("Content-Length is no number"))?);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            chunked = value.to_ascii_lowercase().contains("chunked");
        } else if header.name.eq_ignore_ascii_case("connection") {
            head.keep = !value.eq_ignore_ascii_case("close") && (head.keep || value.eq_ignore_ascii_case("keep-alive"));
        } else if header.name.eq_ignore_ascii_case("content-range") {
            head.content_range = Some(value);
        } else if header.name.eq_ignore_ascii_case("server") {
            head.server = Some(value);
        }
    }
    // RFC 9112 section 6.3: chunked wins over a length.
    if chunked {
        head.framing = Framing::Chunked;
    } else if let Some(length) = content_length {
        head.framing = Framing::Length(length);
    }
    Ok(Some((head, length)))
}
