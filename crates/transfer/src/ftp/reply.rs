//! What a server answers: three digits and text, on one line or several (RFC 959 section 4.2).

use holdfast_base::{Error, ErrorKind, Result};
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// Bytes of a line, of a reply as of a listing: four times the longest path.
pub(super) const LINE_BYTES_MAX: usize = 16 << 10;
/// Lines of a reply: greetings of some servers are long.
const REPLY_LINES_MAX: usize = 512;
/// Characters of a server's words that are repeated to a person.
const SHOWN_CHARS: usize = 200;

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The number that says what is meant.
    pub code: u16,
    /// The text of each line, without the number in the first and the last one.
    pub lines: Vec<String>,
}

impl Reply {
    /// Whether it is done.
    pub(super) fn is_done(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// The reply, if it says that it is done.
    pub(super) fn done(self, doing: &str, usual: ErrorKind) -> Result<Self> {
        if self.is_done() { Ok(self) } else { Err(self.refused(doing, usual)) }
    }

    /// The text of the last line.
    pub(super) fn text(&self) -> &str {
        self.lines.last().map_or("", String::as_str)
    }

    /// Why something was not done. `usual` is what a refusal means that does not say why.
    pub(super) fn refused(&self, doing: &str, usual: ErrorKind) -> Error {
        let said: String = self.text().chars().filter(|c| !c.is_control()).take(SHOWN_CHARS).collect();
        Error::new(self.kind(usual), format!("{doing}: the server answered {} {said}", self.code))
    }

    fn kind(&self, usual: ErrorKind) -> ErrorKind {
        let said = self.text().to_ascii_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
        match self.code {
            452 | 552 => ErrorKind::NoSpace,
            400.. if says(&["no space", "disk full", "quota"]) => ErrorKind::NoSpace,
            // 522 is of servers whose data connections must go on with the session of TLS; another connection has another one.
            400..500 | 503 | 522 | 530 => ErrorKind::Unavailable,
            501 => ErrorKind::InvalidInput,
            521 | 532..=537 | 553 => ErrorKind::Forbidden,
            550 if says(&["no such", "not found", "not exist", "cannot find", "can't find"]) => ErrorKind::NotFound,
            550 if says(&["not empty"]) => ErrorKind::Conflict,
            550 if says(&["denied", "permission", "not permitted", "read-only", "overwrite"]) => ErrorKind::Forbidden,
            550 if says(&["exists"]) => ErrorKind::AlreadyExists,
            550 => usual,
            _ => ErrorKind::Unsupported,
        }
    }
}

/// Reads a line without its end; none where there is no more.
pub(super) async fn line(from: &mut (impl AsyncBufRead + Unpin)) -> Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    loop {
        let some = match from.fill_buf().await {
            Ok(some) => some,
            // The end of a listing is confirmed by the reply that follows it, so TLS need not say so.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => &[],
            Err(error) => return Err(broke(error)),
        };
        if some.is_empty() {
            return Ok((!line.is_empty()).then_some(line));
        }
        let end = some.iter().position(|byte| *byte == b'\n');
        line.extend_from_slice(&some[..end.unwrap_or(some.len())]);
        let taken = end.map_or(some.len(), |end| end + 1);
        from.consume(taken);
        if line.len() > LINE_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("the server sent a line of over {LINE_BYTES_MAX} bytes"),
            ));
        }
        if end.is_some() {
            line.pop_if(|last| *last == b'\r');
            return Ok(Some(line));
        }
    }
}

/// Reads a reply.
pub(super) async fn read(from: &mut (impl AsyncBufRead + Unpin)) -> Result<Reply> {
    let first = next(from).await?;
    let (code, goes_on) = begins(&first).ok_or_else(|| no_ftp(&first))?;
    let mut reply = Reply { code, lines: vec![first.get(4..).unwrap_or_default().to_owned()] };
    if !goes_on {
        return Ok(reply);
    }
    while reply.lines.len() < REPLY_LINES_MAX {
        let line = next(from).await?;
        if begins(&line) == Some((code, false)) {
            reply.lines.push(line.get(4..).unwrap_or_default().to_owned());
            return Ok(reply);
        }
        reply.lines.push(line);
    }
    Err(Error::new(ErrorKind::TooLarge, format!("the server sent a reply of over {REPLY_LINES_MAX} lines")))
}

async fn next(from: &mut (impl AsyncBufRead + Unpin)) -> Result<String> {
    let line = line(from).await?.ok_or_else(|| Error::unavailable("the server closed the connection"))?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// The number that a line begins with, and whether more lines follow.
fn begins(line: &str) -> Option<(u16, bool)> {
    let digits = line.get(..3).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    let goes_on = match line.as_bytes().get(3) {
        None | Some(b' ') => false,
        Some(b'-') => true,
        Some(_) => return None,
    };
    Some((digits.parse().ok().filter(|code| (100..600).contains(code))?, goes_on))
}

fn no_ftp(line: &str) -> Error {
    let shown: String = line.chars().filter(|c| !c.is_control()).take(40).collect();
    Error::new(ErrorKind::Unsupported, format!("what answers there does not speak FTP: it said {shown:?}"))
}

pub(super) fn broke(error: std::io::Error) -> Error {
    Error::unavailable("the connection broke").with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn reply(text: &[u8]) -> Result<Reply> {
        read(&mut &*text).await
    }

    #[tokio::test]
    async fn replies_have_one_line_or_end_with_their_number() {
        let one = reply(b"220 ready\r\n221 x\r\n").await.expect("reads");
        assert_eq!((one.code, one.text()), (220, "ready"));
        let many = reply(b"211-Features:\r\n MDTM\r\n211x\r\n212 no\r\n211 End\r\n").await.expect("reads");
        assert_eq!((many.code, many.lines.len(), many.text()), (211, 5, "End"));
        assert_eq!(reply(b"226\n").await.expect("reads").code, 226);
    }

    #[tokio::test]
    async fn what_is_no_reply_or_too_long_is_refused() {
        assert_eq!(reply(b"HTTP/1.1 400 Bad Request\r\n").await.expect_err("HTTP").kind(), ErrorKind::Unsupported);
        assert_eq!(reply(b"999 x\r\n").await.expect_err("no code").kind(), ErrorKind::Unsupported);
        assert!(reply(b"").await.expect_err("closed").is_temporary());
        assert!(reply(b"220-a\r\n").await.expect_err("closed within").is_temporary());
        assert_eq!(reply(&vec![b'2'; 20_000]).await.expect_err("long").kind(), ErrorKind::TooLarge);
        let endless = [b"220-a\r\n".as_slice(), &b" b\r\n".repeat(600)].concat();
        assert_eq!(reply(&endless).await.expect_err("many lines").kind(), ErrorKind::TooLarge);
    }

    #[test]
    fn what_a_server_says_decides_whether_it_is_tried_again() {
        for (code, text, kind) in [
            (421, "too many", ErrorKind::Unavailable),
            (451, "local error", ErrorKind::Unavailable),
            (451, "No space left on device", ErrorKind::NoSpace),
            (552, "over quota", ErrorKind::NoSpace),
            (550, "a: No such file or directory", ErrorKind::NotFound),
            (550, "Permission denied.", ErrorKind::Forbidden),
            (550, "Failed to open file.", ErrorKind::WrongKind),
            (502, "not implemented", ErrorKind::Unsupported),
        ] {
            let reply = Reply { code, lines: vec![text.to_owned()] };
            assert_eq!(reply.refused("reading", ErrorKind::WrongKind).kind(), kind, "{code} {text}");
        }
    }
}
