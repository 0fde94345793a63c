//! The client: one account, one connection, the methods of HTTP and `WebDAV`.

use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::multistatus::{Resource, parse_multistatus};
use super::request::Request;
use super::response::{Response, read_response};

/// How long to wait for a connection, a byte sent or a byte received. A hung server must fail the
/// test; a slow machine must not.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A client with one account and one keep-alive connection.
#[derive(Debug)]
pub struct Client {
    address: SocketAddr,
    authorization: Option<String>,
    timeout: Duration,
    connection: Option<BufReader<TcpStream>>,
}

impl Clone for Client {
    /// The same account on a connection of its own.
    fn clone(&self) -> Self {
        Self { authorization: self.authorization.clone(), timeout: self.timeout, ..Self::new(self.address) }
    }
}

impl Client {
    /// A client without an account.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, authorization: None, timeout: TIMEOUT, connection: None }
    }

    /// The same client with Basic authentication (RFC 7617).
    #[must_use]
    pub fn with_account(mut self, name: &str, password: &str) -> Self {
        let token = STANDARD.encode(format!("{name}:{password}"));
        self.authorization = Some(format!("Basic {token}"));
        self
    }

    /// The same client with another limit on waiting.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self.connection = None;
        self
    }

    /// Where it connects to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The absolute URL of a path, for `Destination` and `If`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{}", self.address, super::encode_path(path))
    }

    /// Sends a request and reads the whole answer.
    pub fn send(&mut self, request: &Request) -> io::Result<Response> {
        let mut body = Vec::new();
        let response = self.exchange(request, None, &mut body)?;
        Ok(Response { body, ..response })
    }

    /// Sends a request and reads the body of the answer into `out`.
    pub fn send_to(&mut self, request: &Request, out: &mut impl Write) -> io::Result<Response> {
        self.exchange(request, None, out)
    }

    /// Sends a request whose body is read from `body`, `length` bytes of it.
    pub fn send_from(&mut self, request: &Request, length: u64, body: &mut impl Read) -> io::Result<Response> {
        let mut answer = Vec::new();
        let response = self.exchange(request, Some((length, body)), &mut answer)?;
        Ok(Response { body: answer, ..response })
    }

    fn exchange(
        &mut self,
        request: &Request,
        body: Option<(u64, &mut dyn Read)>,
        out: &mut impl Write,
    ) -> io::Result<Response> {
        let mut connection = self.take_connection()?;
        let host = self.address.to_string();
        let mut common = vec![("Host", host.as_str())];
        if let Some(authorization) = &self.authorization {
            common.push(("Authorization", authorization));
        }
        // A server may answer and close before it has read all (413): the answer counts, not the
        // broken pipe.
        let sent = request.write(&common, body, connection.get_mut());
        let answer = read_response(&mut connection, request.method == "HEAD", out);
        let (response, reusable) =
            answer.map_err(|error| sent.as_ref().err().map_or(error, |e| io::Error::new(e.kind(), e.to_string())))?;
        if reusable && sent.is_ok() {
            self.connection = Some(connection);
        }
        Ok(response)
    }

    /// The kept connection if it is still good, else a new one.
    fn take_connection(&mut self) -> io::Result<BufReader<TcpStream>> {
        if let Some(kept) = self.connection.take() {
            let stream = kept.get_ref();
            stream.set_nonblocking(true)?;
            let idle = stream.peek(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
            stream.set_nonblocking(false)?;
            if idle {
                return Ok(kept);
            }
        }
        self.connect()
    }

    fn connect(&self) -> io::Result<BufReader<TcpStream>> {
        let stream = TcpStream::connect_timeout(&self.address, self.timeout)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(self.timeout))?;
        stream.set_write_timeout(Some(self.timeout))?;
        Ok(BufReader::new(stream))
    }

    /// A new connection on which any bytes can be sent, in pieces, with pauses, and dropped.
    pub fn raw(&self) -> io::Result<RawConnection> {
        let connection = self.connect()?;
        Ok(RawConnection { connection })
    }

    /// The value of the `Authorization` field, for raw requests.
    pub fn authorization(&self) -> Option<&str> {
        self.authorization.as_deref()
    }

    /// GET.
    pub fn get(&mut self, path: &str) -> io::Result<Response> {
        self.send(&Request::new("GET", path))
    }

    /// GET of a range as in RFC 9110 section 14.1.2, such as `bytes=0-9`.
    pub fn get_range(&mut self, path: &str, range: &str) -> io::Result<Response> {
        self.send(&Request::new("GET", path).header("Range", range))
    }

    /// HEAD.
    pub fn head(&mut self, path: &str) -> io::Result<Response> {
        self.send(&Request::new("HEAD", path))
    }

    /// OPTIONS.
    pub fn options(&mut self, path: &str) -> io::Result<Response> {
        self.send(&Request::new("OPTIONS", path))
    }

    /// PUT.
    pub fn put(&mut self, path: &str, body: impl Into<Vec<u8>>) -> io::Result<Response> {
        self.send(&Request::new("PUT", path).body(body))
    }

    /// PUT of a body that is made while it is sent.
    pub fn put_stream(&mut self, path: &str, length: u64, body: &mut impl Read) -> io::Result<Response> {
        self.send_from(&Request::new("PUT", path), length, body)
    }

    /// DELETE.
    pub fn delete(&mut self, path: &str) -> io::Result<Response> {
        self.send(&Request::new("DELETE", path))
    }

    /// MKCOL.
    pub fn mkcol(&mut self, path: &str) -> io::Result<Response> {
        self.send(&Request::new("MKCOL", path))
    }

    /// COPY of everything below `from`.
    pub fn copy(&mut self, from: &str, to: &str, overwrite: bool) -> io::Result<Response> {
        self.send(&self.transfer("COPY", from, to, overwrite))
    }

    /// MOVE.
    pub fn rename(&mut self, from: &str, to: &str, overwrite: bool) -> io::Result<Response> {
        self.send(&self.transfer("MOVE", from, to, overwrite))
    }

    /// A COPY or MOVE to be sent, with more fields if wanted.
    pub fn transfer(&self, method: &str, from: &str, to: &str, overwrite: bool) -> Request {
        Request::new(method, from)
            .header("Destination", self.url(to))
            .header("Overwrite", if overwrite { "T" } else { "F" })
    }

    /// PROPFIND of all properties; `depth` is `0`, `1` or `infinity`.
    pub fn propfind(&mut self, path: &str, depth: &str) -> io::Result<Response> {
        self.send(&Request::new("PROPFIND", path).header("Depth", depth))
    }

    /// PROPFIND, read.
    pub fn list(&mut self, path: &str, depth: &str) -> io::Result<Vec<Resource>> {
        let answer = self.propfind(path, depth)?.expect_status(207)?;
        parse_multistatus(&answer.text())
    }

    /// PROPPATCH that sets (`Some`) or removes (`None`) properties of one namespace.
    pub fn proppatch(&mut self, path: &str, namespace: &str, changes: &[(&str, Option<&str>)]) -> io::Result<Response> {
        self.send(&Request::proppatch(path, namespace, changes))
    }

    /// LOCK for writing; `scope` is `exclusive` or `shared`. The token is in `Lock-Token`.
    pub fn lock(&mut self, path: &str, scope: &str, depth: &str) -> io::Result<Response> {
        self.send(&Request::lock(path, scope, depth))
    }

    /// UNLOCK; `token` without angle brackets.
    pub fn unlock(&mut self, path: &str, token: &str) -> io::Result<Response> {
        self.send(&Request::new("UNLOCK", path).header("Lock-Token", format!("<{token}>")))
    }
}

/// A connection for requests that no correct client would send.
#[derive(Debug)]
pub struct RawConnection {
    connection: BufReader<TcpStream>,
}

impl RawConnection {
    /// Sends bytes as they are.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.connection.get_mut().write_all(bytes)
    }

    /// Reads one answer.
    pub fn read(&mut self) -> io::Result<Response> {
        let mut body = Vec::new();
        let (response, _) = read_response(&mut self.connection, false, &mut body)?;
        Ok(Response { body, ..response })
    }

    /// Says that nothing more will be sent.
    pub fn finish_writing(&mut self) -> io::Result<()> {
        match self.connection.get_ref().shutdown(std::net::Shutdown::Write) {
            // The server has answered and closed already.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            done => done,
        }
    }

    /// Whether the server has closed, waiting for it at most the client's timeout.
    pub fn is_closed(&mut self) -> bool {
        matches!(self.connection.get_ref().peek(&mut [0]), Ok(0))
    }
}
