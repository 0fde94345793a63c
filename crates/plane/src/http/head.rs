//! Heads of messages, as RFC 9112 writes them.

use super::{ExchangeError, FIELDS_MAX, HEAD_BYTES_MAX};
use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version};

const END: &[u8] = b"\r\n\r\n";

/// A request's head. The authority is told in the field `host`, as it is on TCP.
pub(super) fn write_request<B>(request: &Request<B>) -> BytesMut {
    let mut head = BytesMut::new();
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    head.extend_from_slice(format!("{} {target} HTTP/1.1\r\n", request.method()).as_bytes());
    if let Some(authority) = request.uri().authority().filter(|_| !request.headers().contains_key(HOST)) {
        head.extend_from_slice(format!("host: {authority}\r\n").as_bytes());
    }
    write_fields(request.headers(), &mut head);
    head
}

/// An answer's head.
pub(super) fn write_response<B>(response: &Response<B>) -> BytesMut {
    let mut head = BytesMut::from(format!("HTTP/1.1 {}\r\n", response.status()).as_bytes());
    write_fields(response.headers(), &mut head);
    head
}

fn write_fields(fields: &HeaderMap, head: &mut BytesMut) {
    // What is said of a connection of TCP means nothing here.
    for (name, value) in fields.iter().filter(|(name, _)| **name != CONNECTION && **name != TRANSFER_ENCODING) {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
}

/// The head at the beginning of a message, and the content behind it.
fn split(message: &Bytes) -> Result<(Bytes, Bytes), ExchangeError> {
    let within = &message[..message.len().min(HEAD_BYTES_MAX)];
    let end = within.windows(END.len()).position(|window| window == END).ok_or(ExchangeError::Nonsense("no head, or a very long one"))?;
    Ok((message.slice(..end + END.len()), message.slice(end + END.len()..)))
}

/// Reads a request's head; what follows it is content.
pub(super) fn read_request(message: &Bytes) -> Result<(Request<()>, Bytes), ExchangeError> {
    let (head, content) = split(message)?;
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut read = httparse::Request::new(&mut fields);
    read.parse(&head).map_err(|_| ExchangeError::Nonsense("no head of a request"))?;
    let method = read.method.and_then(|method| Method::from_bytes(method.as_bytes()).ok());
    let target = read.path.filter(|target| target.starts_with('/') || *target == "*");
    let uri = target.and_then(|target| target.parse::<Uri>().ok());
    let (Some(method), Some(uri)) = (method, uri) else { return Err(ExchangeError::Nonsense("no method or no target")) };
    let mut request = Request::new(());
    (*request.method_mut(), *request.uri_mut(), *request.version_mut()) = (method, uri, Version::HTTP_2);
    *request.headers_mut() = read_fields(read.headers)?;
    Ok((request, content))
}

/// Reads an answer's head; what follows it is content.
pub(super) fn read_response(message: &Bytes) -> Result<(Response<()>, Bytes), ExchangeError> {
    let (head, content) = split(message)?;
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut read = httparse::Response::new(&mut fields);
    read.parse(&head).map_err(|_| ExchangeError::Nonsense("no head of an answer"))?;
    let status = read.code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or(ExchangeError::Nonsense("no status"))?;
    let mut response = Response::new(());
    *response.status_mut() = status;
    *response.headers_mut() = read_fields(read.headers)?;
    Ok((response, content))
}

fn read_fields(fields: &[httparse::Header<'_>]) -> Result<HeaderMap, ExchangeError> {
    let mut map = HeaderMap::with_capacity(fields.len());
    for field in fields {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| ExchangeError::Nonsense("no name of a field"))?;
        let value = HeaderValue::from_bytes(field.value).map_err(|_| ExchangeError::Nonsense("no value of a field"))?;
        map.append(name, value);
    }
    Ok(map)
}

/// Reads anything a peer may send, for tests with bytes nobody meant.
#[doc(hidden)]
pub fn read_anything(bytes: &[u8]) {
    let message = Bytes::copy_from_slice(bytes);
    if let Ok((request, _)) = read_request(&message) {
        let (again, _) = read_request(&write_request(&request).freeze()).expect("what was read can be written");
        assert_eq!((again.method(), again.uri()), (request.method(), request.uri()));
    }
    let _ = read_response(&message);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_is_read_as_it_was_written() {
        let request = Request::put("https://drive.example:8443/dav/a%20b?x=1").header("x-a", "b").header(CONNECTION, "close");
        let mut message = write_request(&request.body(()).expect("sound"));
        message.extend_from_slice(b"content");
        let (request, content) = read_request(&message.freeze()).expect("reads");
        assert_eq!((request.method(), request.uri().to_string()), (&Method::PUT, "/dav/a%20b?x=1".to_owned()));
        assert_eq!(request.headers()[HOST], "drive.example:8443");
        assert_eq!((request.headers().len(), &content[..]), (2, &b"content"[..]));
    }

    #[test]
    fn what_is_no_head_is_refused() {
        for bad in ["", "GET / HTTP/1.1\r\n", "GET http://other/ HTTP/1.1\r\n\r\n", "\r\n\r\n", "G T / HTTP/1.1\r\n\r\n"] {
            assert!(read_request(&Bytes::from(bad)).is_err(), "{bad:?}");
        }
        let long = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(HEAD_BYTES_MAX));
        assert!(read_request(&Bytes::from(long)).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, tail: Vec<u8>) {
            read_anything(&bytes);
            read_anything(&[b"PUT /a HTTP/1.1\r\nhost: x\r\n".as_slice(), &tail, END].concat());
        }
    }
}
