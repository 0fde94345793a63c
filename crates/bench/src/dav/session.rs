//! WebDAV requests inside one bench folder, with the statuses that count as success.

use crate::data::DataFile;
use crate::http::{Answer, Body, Connection, Endpoint, HttpError, Request};

/// Largest PROPFIND answer kept: 10,000 entries with all properties are about 10 MB.
const MAX_LISTING_BYTES: usize = 1 << 30;

/// Why a step of a workload failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{method} {path}: {source}")]
    Http { method: &'static str, path: String, source: HttpError },
    #[error("{method} {path}: status {status}, expected {expected}")]
    Status { method: &'static str, path: String, status: u16, expected: &'static str },
    #[error("{what}: {why}")]
    Wrong { what: String, why: String },
    #[error("{failed} of {of} requests failed, the first: {first}")]
    Some { failed: u64, of: u64, first: String },
    #[error("cannot connect: {0}")]
    Connect(HttpError),
}

impl Failure {
    /// Whether this is only the user's wish to stop.
    pub(crate) fn is_interrupt(&self) -> bool {
        matches!(self, Self::Http { source: HttpError::Interrupted, .. } | Self::Connect(HttpError::Interrupted))
    }
}

/// One connection to one target; names are relative to its bench folder.
pub(crate) struct Session<'e> {
    connection: Connection<'e>,
    base: &'e str,
}

type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), HttpError>;

impl<'e> Session<'e> {
    /// Connects now, so that what follows can be timed without it.
    pub(crate) fn open(endpoint: &'e Endpoint, base: &'e str) -> Result<Self, Failure> {
        Ok(Self { connection: Connection::open(endpoint).map_err(Failure::Connect)?, base })
    }

    pub(crate) fn reopened(&self) -> u64 {
        self.connection.reopened()
    }

    pub(crate) fn put(&mut self, name: &str, content: &[u8]) -> Result<Answer, Failure> {
        let body = Body::Bytes(content);
        self.send("PUT", name, &[], body, &mut ignore, &[200, 201, 204], "200, 201 or 204")
    }

    pub(crate) fn put_file(&mut self, name: &str, data: &DataFile) -> Result<Answer, Failure> {
        let body = Body::File { file: &data.file, bytes: data.bytes };
        self.send("PUT", name, &[], body, &mut ignore, &[200, 201, 204], "200, 201 or 204")
    }

    /// GET of a whole file, whose length must be `bytes`.
    pub(crate) fn get(&mut self, name: &str, bytes: u64, sink: Sink<'_>) -> Result<Answer, Failure> {
        let answer = self.send("GET", name, &[], Body::None, sink, &[200], "200")?;
        self.check_length(name, answer, bytes)
    }

    /// GET of `length` bytes from `offset` of a file of `bytes` bytes; the answer must be 206 and say so.
    pub(crate) fn get_range(
        &mut self,
        name: &str,
        (offset, length): (u64, u64),
        bytes: u64,
        sink: Sink<'_>,
    ) -> Result<Answer, Failure> {
        let last = offset + length - 1;
        let range = format!("bytes={offset}-{last}");
        let answer = self.send("GET", name, &[("Range", &range)], Body::None, sink, &[206], "206")?;
        let wanted = format!("bytes {offset}-{last}/{bytes}");
        if answer.content_range.as_deref() != Some(&wanted) {
            let why = format!("Content-Range is {:?}, expected {wanted:?}", answer.content_range);
            return Err(Failure::Wrong { what: self.path(name), why });
        }
        self.check_length(name, answer, length)
    }

    pub(crate) fn delete(&mut self, name: &str) -> Result<Answer, Failure> {
        self.send("DELETE", name, &[], Body::None, &mut ignore, &[200, 202, 204], "200, 202 or 204")
    }

    pub(crate) fn make_folder(&mut self, name: &str) -> Result<Answer, Failure> {
        self.send("MKCOL", name, &[], Body::None, &mut ignore, &[201], "201")
    }

    /// PROPFIND; the answer's XML is appended to `listing`, which the caller has emptied.
    pub(crate) fn propfind(
        &mut self,
        name: &str,
        depth: &str,
        query: &str,
        listing: &mut Vec<u8>,
    ) -> Result<Answer, Failure> {
        let headers = [("Depth", depth), ("Content-Type", "application/xml; charset=utf-8")];
        let mut keep = |bytes: &[u8]| {
            if listing.len() + bytes.len() > MAX_LISTING_BYTES {
                return Err(HttpError::Content(format!("a listing of more than {MAX_LISTING_BYTES} bytes")));
            }
            listing.extend_from_slice(bytes);
            Ok(())
        };
        self.send("PROPFIND", name, &headers, Body::Bytes(query.as_bytes()), &mut keep, &[207], "207")
    }

    fn path(&self, name: &str) -> String {
        format!("{}{name}", self.base)
    }

    fn check_length(&self, name: &str, answer: Answer, bytes: u64) -> Result<Answer, Failure> {
        if answer.body_bytes == bytes {
            return Ok(answer);
        }
        let why = format!("{} bytes came, expected {bytes}", answer.body_bytes);
        Err(Failure::Wrong { what: self.path(name), why })
    }

    #[expect(clippy::too_many_arguments, reason = "the one place where all parts of a request meet")]
    fn send(
        &mut self,
        method: &'static str,
        name: &str,
        headers: &[(&str, &str)],
        body: Body<'_>,
        sink: Sink<'_>,
        good: &[u16],
        expected: &'static str,
    ) -> Result<Answer, Failure> {
        let path = self.path(name);
        let request = Request { method, path: &path, headers, body };
        match self.connection.send(&request, sink) {
            Ok(answer) if good.contains(&answer.status) => Ok(answer),
            Ok(answer) => Err(Failure::Status { method, path, status: answer.status, expected }),
            Err(source) => Err(Failure::Http { method, path, source }),
        }
    }
}

/// The sink for answers whose bytes nobody looks at.
#[expect(clippy::unnecessary_wraps, reason = "a sink can fail")]
pub(crate) fn ignore(_bytes: &[u8]) -> Result<(), HttpError> {
    Ok(())
}
