//! An answer's status line and headers.

use super::body::Framing;
use super::{HttpError, MAX_HEADERS};

/// What the client needs of an answer's head.
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) framing: Framing,
    /// Whether the server keeps the connection.
    pub(super) keep: bool,
    pub(super) content_range: Option<String>,
    pub(super) server: Option<String>,
}

/// Parses a complete head; `None` when more bytes are needed.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Head, usize)>, HttpError> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut answer = httparse::Response::new(&mut headers);
    let malformed = |what: &str| HttpError::Malformed(what.to_owned());
    let length = match answer.parse(bytes) {
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
            head.content_range = Some(value.to_owned());
        } else if header.name.eq_ignore_ascii_case("server") {
            head.server = Some(value.to_owned());
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
