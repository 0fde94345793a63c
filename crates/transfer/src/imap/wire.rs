//! Answers as they come: lines with literals, of which each has a bound.
//!
//! Who writes a mail decides how large the server's description of it is. So an answer that is too large is read to its end and thrown away, up to
//! [`PASSED_OVER_MAX`], and only what it is about is told; the connection stays in step, and one message does not hide all others.

use super::answer::{Answer, literal_at_end, parse};
use crate::signs::Signs;
use holdfast_base::{Error, ErrorKind, Result};
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// Bytes of content that are asked for at a time.
pub(super) const CHUNK: u64 = 1 << 20;
/// Bytes of an answer: a chunk, and all that may be around it or stand alone.
const ANSWER_BYTES_MAX: usize = 2 << 20;
/// Bytes of a larger answer that are read to get past it.
const PASSED_OVER_MAX: u64 = 256 << 20;

/// Reads an answer.
pub(super) async fn read(from: &mut (impl AsyncBufRead + Unpin), signs: &Signs) -> Result<Answer> {
    let mut coming = Coming::default();
    loop {
        let line_at = coming.kept.len();
        coming.line(from, signs).await?;
        // What was cut off cannot be in a line that announces a literal: its end is kept apart.
        let literal = literal_at_end(if coming.cut { &coming.tail } else { &coming.kept[line_at..] });
        let Some(count) = literal else { break };
        coming.keep(b"\r\n");
        coming.literal(from, count, signs).await?;
    }
    parse(&coming.kept, coming.cut)
}

/// An answer that is being read.
#[derive(Default)]
struct Coming {
    kept: Vec<u8>,
    /// It is larger than what is kept.
    cut: bool,
    /// The end of the line that is being read, where it is not kept.
    tail: Vec<u8>,
    passed: u64,
}

/// Enough for a literal's size.
const TAIL: usize = 32;

impl Coming {
    fn keep(&mut self, bytes: &[u8]) {
        let room = if self.cut { 0 } else { ANSWER_BYTES_MAX - self.kept.len() };
        let (fits, bytes) = bytes.split_at(room.min(bytes.len()));
        self.kept.extend_from_slice(fits);
        if bytes.is_empty() {
            return;
        }
        if !self.cut {
            self.cut = true;
            self.tail.extend_from_slice(&self.kept[self.kept.len().saturating_sub(TAIL)..]);
        }
        self.passed += bytes.len() as u64;
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(TAIL)..]);
        self.tail.drain(..self.tail.len().saturating_sub(TAIL));
    }

    /// Reads to the end of a line, which is not kept.
    async fn line(&mut self, from: &mut (impl AsyncBufRead + Unpin), signs: &Signs) -> Result<()> {
        loop {
            let some = filled(from, signs).await?;
            let end = some.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(some.len(), |end| end + 1);
            self.keep(&some[..end.unwrap_or(some.len())]);
            from.consume(taken);
            self.bounded()?;
            if end.is_some() {
                let line = if self.cut { &mut self.tail } else { &mut self.kept };
                line.pop_if(|last| *last == b'\r');
                return Ok(());
            }
        }
    }

    async fn literal(&mut self, from: &mut (impl AsyncBufRead + Unpin), count: u64, signs: &Signs) -> Result<()> {
        let mut left = count;
        while left > 0 {
            let some = filled(from, signs).await?;
            let taken = usize::try_from(left).unwrap_or(usize::MAX).min(some.len());
            self.keep(&some[..taken]);
            from.consume(taken);
            left -= taken as u64;
            self.bounded()?;
        }
        self.tail.clear();
        Ok(())
    }

    fn bounded(&self) -> Result<()> {
        if self.passed > PASSED_OVER_MAX {
            return Err(Error::new(ErrorKind::TooLarge, "the server sends an answer that does not end"));
        }
        Ok(())
    }
}

async fn filled<'f>(from: &'f mut (impl AsyncBufRead + Unpin), signs: &Signs) -> Result<&'f [u8]> {
    let some = from.fill_buf().await.map_err(broke)?;
    if some.is_empty() {
        return Err(Error::unavailable("the server closed the connection"));
    }
    signs.alive();
    Ok(some)
}

pub(super) fn broke(error: std::io::Error) -> Error {
    Error::unavailable("the connection broke").with_source(error)
}

#[cfg(test)]
mod tests {
    use super::super::answer::Value;
    use super::*;

    async fn all(mut bytes: &[u8]) -> Vec<Result<Answer>> {
        let mut answers = Vec::new();
        while !bytes.is_empty() {
            answers.push(read(&mut bytes, &Signs::default()).await);
        }
        answers
    }

    #[tokio::test]
    async fn literals_belong_to_the_line_that_announces_them() {
        let answers = all(b"* 1 FETCH (A {4}\r\n\r\n{9 B {0}\r\n)\r\n* 2 EXISTS\n").await;
        let data = [("A", b"\r\n{9".as_slice()), ("B", b"")];
        let data = data.map(|(name, bytes)| (name.to_owned(), Value::Text(bytes.to_vec())));
        assert!(matches!(&answers[..], [Ok(Answer::Fetch(1, found)), Ok(Answer::Exists(2))] if *found == data));
    }

    #[tokio::test]
    async fn an_answer_that_is_too_large_is_passed_over_and_the_next_one_is_read() {
        let line =
            [b"* 7 FETCH (X ".as_slice(), &vec![b'('; ANSWER_BYTES_MAX], b" {5}\r\n* 9 \n)\r\n* 2 EXISTS\r\n"].concat();
        let answers = all(&line).await;
        assert!(matches!(&answers[..], [Ok(Answer::BadFetch(7, _)), Ok(Answer::Exists(2))]), "{answers:?}");
        let large = ANSWER_BYTES_MAX + 1;
        let literal =
            [format!("* 8 FETCH (X {{{large}}}\r\n").as_bytes(), &vec![b'\n'; large], b")\r\n* 2 EXISTS\r\n"].concat();
        let answers = all(&literal).await;
        assert!(matches!(&answers[..], [Ok(Answer::BadFetch(8, _)), Ok(Answer::Exists(2))]), "{answers:?}");
    }

    #[tokio::test]
    async fn an_answer_that_does_not_end_is_refused_and_one_that_breaks_off_is_tried_again() {
        let mut endless = tokio::io::BufReader::new(tokio::io::repeat(b'x'));
        assert_eq!(read(&mut endless, &Signs::default()).await.expect_err("endless").kind(), ErrorKind::TooLarge);
        for half in [b"".as_slice(), b"* OK", b"* 1 FETCH (A {4}\r\nab"] {
            assert!(read(&mut &*half, &Signs::default()).await.expect_err("half").is_temporary());
        }
    }
}
