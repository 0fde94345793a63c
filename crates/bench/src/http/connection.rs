//! One connection: requests out, answers in, the connection kept when the server allows it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use super::body::{BodyReader, Framing, Piece};
use super::head;
use super::stream::{Stream, is_tick};
use super::{BUFFER_BYTES, Endpoint, HttpError};

/// What a request carries.
#[derive(Clone, Copy)]
pub(crate) enum Body<'a> {
    None,
    Bytes(&'a [u8]),
    /// The first `bytes` bytes of a file.
    File {
        file: &'a File,
        bytes: u64,
    },
}

/// One request. `path` and `headers` go out as they are: the caller has encoded them.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) headers: &'a [(&'a str, &'a str)],
    pub(crate) body: Body<'a>,
}

/// What came back. Times count from the first byte of the request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_range: Option<String>,
    pub(crate) server: Option<String>,
    pub(crate) body_bytes: u64,
    pub(crate) first_byte: Duration,
    pub(crate) total: Duration,
}

/// A connection that reopens itself when the server has closed it, and counts how often.
pub(crate) struct Connection<'e> {
    endpoint: &'e Endpoint,
    stream: Option<Stream>,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    opened: u64,
    /// Whether the open stream has carried an answer: only then can it have gone stale between two requests.
    used: bool,
    deadline: Deadline,
}

/// When the running request has to give up.
#[derive(Clone, Copy)]
struct Deadline {
    begun: Instant,
    moved: Instant,
}

impl<'e> Connection<'e> {
    /// Opens the connection now, so that a timed request does not pay for it.
    pub(crate) fn open(endpoint: &'e Endpoint) -> Result<Self, HttpError> {
        let stream = endpoint.open()?;
        let now = Instant::now();
        Ok(Self {
            endpoint,
            stream: Some(stream),
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            opened: 1,
            used: false,
            deadline: Deadline { begun: now, moved: now },
        })
    }

    /// How often the server made it open a new connection after the first.
    pub(crate) fn reopened(&self) -> u64 {
        self.opened - 1
    }

    /// Sends `request` and hands the answer's body to `sink` piece by piece, whatever the status.
    ///
    /// A kept connection that turns out to be closed is opened anew once; the time of that counts.
    pub(crate) fn send(
        &mut self,
        request: &Request<'_>,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), HttpError>,
    ) -> Result<Answer, HttpError> {
        let begun = Instant::now();
        let kept = self.stream.is_some() && self.used;
        match self.send_once(request, begun, sink) {
            Err(error) if kept && error.is_stale_connection() => self.send_once(request, begun, sink),
            other => other,
        }
    }

    fn send_once(
        &mut self,
        request: &Request<'_>,
        begun: Instant,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), HttpError>,
    ) -> Result<Answer, HttpError> {
        self.deadline = Deadline { begun, moved: Instant::now() };
        (self.start, self.end) = (0, 0);
        let mut stream = if let Some(stream) = self.stream.take() {
            stream
        } else {
            self.opened += 1;
            self.used = false;
            self.endpoint.open()?
        };
        // On any error below `stream` is dropped: a connection in an unknown state is never used again.
        let sent = self.write_request(&mut stream, request);
        if let Err(error) = sent {
            // A server may refuse a body before it has read it (413, 507, 401): its answer explains more than a
            // broken pipe does.
            if !error.is_stale_connection() {
                return Err(error);
            }
            return self.read_answer(&mut stream, request.method, sink).map(|(answer, _)| answer).map_err(|_| error);
        }
        let (answer, keep) = self.read_answer(&mut stream, request.method, sink)?;
        if keep {
            self.stream = Some(stream);
            self.used = true;
        }
        Ok(answer)
    }

    fn write_request(&mut self, stream: &mut Stream, request: &Request<'_>) -> Result<(), HttpError> {
        let mut head = format!("{} {} HTTP/1.1\r\n{}", request.method, request.path, self.endpoint.fixed_headers);
        for (name, value) in request.headers {
            head.push_str(name);
            head.push_str(": ");
            head.push_str(value);
            head.push_str("\r\n");
        }
        let length = match request.body {
            Body::None => None,
            Body::Bytes(bytes) => Some(bytes.len() as u64),
            Body::File { bytes, .. } => Some(bytes),
        };
        if let Some(length) = length {
            head.push_str("Content-Length: ");
            head.push_str(&length.to_string());
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        let mut message = head.into_bytes();
        if let Body::Bytes(bytes) = request.body
            && bytes.len() <= BUFFER_BYTES
        {
            message.extend_from_slice(bytes); // One segment and one system call for a small file.
            return self.write_all(stream, &message);
        }
        self.write_all(stream, &message)?;
        match request.body {
            Body::None => Ok(()),
            Body::Bytes(bytes) => self.write_all(stream, bytes),
            Body::File { file, bytes } => self.write_file(stream, file, bytes),
        }
    }

    fn write_all(&mut self, stream: &mut Stream, mut bytes: &[u8]) -> Result<(), HttpError> {
        while !bytes.is_empty() {
            let result = stream.write(bytes);
            let count = self.moved(result, "sending")?;
            bytes = &bytes[count..];
        }
        self.flush(stream)
    }

    fn write_file(&mut self, stream: &mut Stream, file: &File, bytes: u64) -> Result<(), HttpError> {
        let mut sent = 0;
        while sent < bytes {
            match stream.send_file(file, sent, bytes - sent) {
                Ok(0) => return Err(HttpError::ShortFile { expected: bytes, sent }),
                result => sent += self.moved(result, "sending")? as u64,
            }
        }
        self.flush(stream)
    }

    fn flush(&mut self, stream: &mut Stream) -> Result<(), HttpError> {
        loop {
            match stream.flush() {
                Ok(()) => return Ok(()),
                Err(error) => self.moved(Err(error), "sending")?,
            };
        }
    }

    /// Turns the result of one system call into the count of bytes it moved; 0 means "only a tick passed".
    fn moved(&mut self, result: io::Result<usize>, phase: &'static str) -> Result<usize, HttpError> {
        let limits = self.endpoint.limits;
        match result {
            Ok(count) => {
                let now = Instant::now();
                self.deadline.moved = now;
                if now.duration_since(self.deadline.begun) > limits.total {
                    return Err(HttpError::TooSlow { after: limits.total, phase });
                }
                Ok(count)
            }
            Err(error) if is_tick(&error) => {
                self.endpoint.check_interrupt()?;
                if self.deadline.moved.elapsed() >= limits.stall {
                    return Err(HttpError::Stalled { after: limits.stall, phase });
                }
                if self.deadline.begun.elapsed() >= limits.total {
                    return Err(HttpError::TooSlow { after: limits.total, phase });
                }
                Ok(0)
            }
            Err(source) => Err(HttpError::Io { phase, source }),
        }
    }

    /// Reads more into the buffer behind `end`; `Ok(0)` is the end of the stream.
    fn fill(&mut self, stream: &mut Stream) -> Result<usize, HttpError> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.buffer.len() {
            return Err(HttpError::Malformed(format!("a header or chunk line is longer than {BUFFER_BYTES} bytes")));
        }
        loop {
            let result = stream.read(&mut self.buffer[self.end..]);
            let at_end = matches!(result, Ok(0));
            let count = self.moved(result, "waiting for the answer")?;
            self.end += count;
            if at_end || count > 0 {
                return Ok(count);
            }
        }
    }

    /// Bytes read and not yet taken.
    fn pending(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    fn take(&mut self, count: usize) {
        self.start += count;
    }

    fn read_answer(
        &mut self,
        stream: &mut Stream,
        method: &str,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), HttpError>,
    ) -> Result<(Answer, bool), HttpError> {
        loop {
            if self.pending().is_empty() && self.fill(stream)? == 0 {
                return Err(HttpError::ClosedBeforeAnswer);
            }
            let first_byte = self.deadline.begun.elapsed();
            let Some((mut answer, framing, head_keeps)) = self.read_head(stream, method)? else {
                continue; // An interim answer; the real one follows.
            };
            answer.first_byte = first_byte;
            answer.body_bytes = self.read_body(stream, framing, sink)?;
            answer.total = self.deadline.begun.elapsed();
            let keep = head_keeps && framing != Framing::UntilClose && self.pending().is_empty();
            return Ok((answer, keep));
        }
    }

    /// Reads one head; `None` for an interim one. Tells the body's framing and whether the server keeps the connection.
    fn read_head(&mut self, stream: &mut Stream, method: &str) -> Result<Option<(Answer, Framing, bool)>, HttpError> {
        loop {
            if let Some((head, length)) = head::parse(self.pending())? {
                let answer = Answer {
                    status: head.status,
                    content_range: head.content_range.map(str::to_owned),
                    server: head.server.map(str::to_owned),
                    ..Answer::default()
                };
                let found = (!head.is_interim()).then(|| (answer, head.framing_for(method), head.keep));
                self.take(length);
                return Ok(found);
            }
            if self.fill(stream)? == 0 {
                return Err(HttpError::Malformed("the connection closed inside the headers".to_owned()));
            }
        }
    }

    /// Hands the whole body to `sink` and returns its length.
    fn read_body(
        &mut self,
        stream: &mut Stream,
        framing: Framing,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), HttpError>,
    ) -> Result<u64, HttpError> {
        let mut body = BodyReader::new(framing);
        loop {
            match body.next(self.pending())? {
                Piece::Content(count) => {
                    sink(&self.pending()[..count])?;
                    self.take(count);
                }
                Piece::Framing(count) => self.take(count),
                Piece::End => return Ok(body.got()),
                Piece::More => {
                    if self.fill(stream)? == 0 {
                        body.finish()?;
                        return Ok(body.got());
                    }
                }
            }
        }
    }
}
