//! As much of HTTP/1.1 as the proxy and the token server need: requests with a length, answers up to their end.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};

/// A request, as the proxy saw it.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// `GET`.
    pub method: String,
    /// With its query.
    pub path: String,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Request {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// Reads one request; none if the client has gone.
pub fn read_request(from: &mut impl Read) -> io::Result<Option<Request>> {
    let Some(head) = read_head(from)? else { return Ok(None) };
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let mut word = || words.next().unwrap_or_default().to_owned();
    let (method, path) = (word(), word());
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    Ok(Some(Request { method, path, headers, body }))
}

/// Reads up to the empty line.
fn read_head(from: &mut impl Read) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if from.read(&mut byte)? == 0 {
            return Ok(None);
        }
        head.push(byte[0]);
    }
    String::from_utf8(head).map(Some).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Sends a request to the service and answers the head and the body, without its framing.
pub(super) fn forward(request: &Request, port: u16) -> io::Result<(String, Vec<u8>)> {
    let mut service = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    service.set_nodelay(true)?;
    let mut head = format!("{} {} HTTP/1.1\r\n", request.method, request.path);
    for (name, value) in request.headers.iter().filter(|(name, _)| name.as_str() != "connection") {
        head.extend([name, ": ", value, "\r\n"]);
    }
    service.write_all((head + "connection: close\r\n\r\n").as_bytes())?;
    // The service may answer and close before it has read everything.
    let _ = service.write_all(&request.body);
    let mut reader = BufReader::new(service);
    let cut = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let head = read_head(&mut reader)?.ok_or_else(cut)?;
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let mut body = Vec::new();
    if chunked {
        read_chunks(&mut reader, &mut body)?;
    } else if request.method != "HEAD" {
        reader.read_to_end(&mut body)?;
    }
    Ok((head, body))
}

fn read_chunks(reader: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let digits = line.trim().split(';').next().unwrap_or_default();
        let length =
            usize::from_str_radix(digits, 16).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let begin = body.len();
        body.resize(begin + length, 0);
        reader.read_exact(&mut body[begin..])?;
        reader.read_line(&mut line)?;
        if length == 0 {
            return Ok(());
        }
    }
}
