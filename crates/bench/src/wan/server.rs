//! The server of files for tools that speak HTTP: a process of its own on the far host, so that what it costs can be told.
//!
//! HTTP/1.1 with kept connections, GET and HEAD, one range of bytes, and a page that lists the folder. A thread for each connection; the
//! kernel copies from file to socket. Limits: 256 connections, 16 KiB of head.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;

const CONNECTIONS_MAX: usize = 256;
const HEAD_BYTES_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;

/// Serves until the process ends.
pub(crate) fn serve(address: SocketAddr, folder: &Path) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
    let (folder, open) = (Arc::new(folder.to_owned()), Arc::new(AtomicUsize::new(0)));
    for stream in listener.incoming() {
        // What was wrong with one connection is no reason to refuse the next.
        let Ok(stream) = stream else { continue };
        if open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
            open.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (folder, open) = (Arc::clone(&folder), Arc::clone(&open));
        std::thread::spawn(move || {
            // It ends with an error when the client goes away.
            let _ = answer_all(stream, &folder);
            open.fetch_sub(1, Ordering::Relaxed);
        });
    }
    Ok(())
}

/// What is asked for.
struct Asked {
    head_only: bool,
    path: String,
    /// First byte, and the last if it was given.
    range: Option<(u64, Option<u64>)>,
    close: bool,
}

fn answer_all(mut stream: TcpStream, folder: &Path) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    while let Some(asked) = read_head(&mut stream, &mut buffer)? {
        let close = asked.close;
        answer(&mut stream, folder, &asked)?;
        if close {
            break;
        }
    }
    Ok(())
}

/// The next request; `None` when there is no further one.
fn read_head(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Option<Asked>> {
    loop {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        let parsed = request.parse(buffer).map_err(io::Error::other)?;
        if let httparse::Status::Complete(length) = parsed {
            let header = |name: &str| {
                let found = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
                std::str::from_utf8(found.value).ok()
            };
            let asked = Asked {
                head_only: request.method == Some("HEAD"),
                path: request.path.unwrap_or("/").to_owned(),
                range: header("range").and_then(range),
                close: header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
                    || request.version == Some(0),
            };
            buffer.drain(..length);
            return Ok(Some(asked));
        }
        let mut piece = [0; 4096];
        let length = stream.read(&mut piece)?;
        if length == 0 || buffer.len() + length > HEAD_BYTES_MAX {
            return Ok(None);
        }
        buffer.extend_from_slice(&piece[..length]);
    }
}

/// `bytes=FIRST-` and `bytes=FIRST-LAST`. Others are answered with the whole file, as RFC 9110 allows (section 14.2).
fn range(value: &str) -> Option<(u64, Option<u64>)> {
    let (first, last) = value.strip_prefix("bytes=")?.split_once('-')?;
    let last = if last.is_empty() { None } else { Some(last.parse().ok()?) };
    Some((first.parse().ok()?, last))
}

fn answer(stream: &mut TcpStream, folder: &Path, asked: &Asked) -> io::Result<()> {
    let name = asked.path.trim_start_matches('/');
    if name.is_empty() {
        return send(
            stream,
            "200 OK",
            "Content-Type: text/html; charset=utf-8\r\n",
            page(folder)?.as_bytes(),
            asked.head_only,
        );
    }
    // The names in the folder are this program's own and need no decoding.
    let file = Some(name)
        .filter(|name| !name.contains('/') && !name.starts_with('.'))
        .map(|name| File::open(folder.join(name)));
    let Some(Ok(mut file)) = file else { return send(stream, "404 Not Found", "", b"not found\n", asked.head_only) };
    let bytes = file.metadata()?.len();
    let (first, last) = asked.range.map_or((0, bytes.saturating_sub(1)), |(first, last)| {
        (first, last.unwrap_or(u64::MAX).min(bytes.saturating_sub(1)))
    });
    if asked.range.is_some() && (first > last || first >= bytes) {
        return send(
            stream,
            "416 Range Not Satisfiable",
            &format!("Content-Range: bytes */{bytes}\r\n"),
            b"",
            asked.head_only,
        );
    }
    let length = if bytes == 0 { 0 } else { last - first + 1 };
    let status = if asked.range.is_some() { "206 Partial Content" } else { "200 OK" };
    let mut head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nAccept-Ranges: bytes\r\nContent-Type: application/octet-stream\r\n\
         Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
    );
    if asked.range.is_some() {
        let _ = write!(head, "Content-Range: bytes {first}-{last}/{bytes}\r\n");
    }
    stream.write_all(format!("{head}\r\n").as_bytes())?;
    if !asked.head_only {
        file.seek(SeekFrom::Start(first))?;
        io::copy(&mut file.take(length), stream)?;
    }
    Ok(())
}

fn send(stream: &mut TcpStream, status: &str, headers: &str, body: &[u8], head_only: bool) -> io::Result<()> {
    let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes())?;
    stream.write_all(if head_only { b"" } else { body })
}

fn page(folder: &Path) -> io::Result<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort_unstable();
    let mut page = String::from("<!doctype html><html><head><title>/</title></head><body>\n");
    for name in names {
        let _ = writeln!(page, "<a href=\"{name}\">{name}</a>");
    }
    Ok(page + "</body></html>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server of a folder with one file of ten bytes.
    fn start() -> (tempfile::TempDir, SocketAddr) {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("ten"), "0123456789").expect("written");
        fs::write(folder.path().join("empty"), "").expect("written");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        drop(listener);
        let path = folder.path().to_owned();
        std::thread::spawn(move || serve(address, &path));
        while TcpStream::connect(address).is_err() {
            std::thread::yield_now();
        }
        (folder, address)
    }

    fn ask(address: SocketAddr, head: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("connected");
        stream.write_all(format!("{head}\r\nConnection: close\r\n\r\n").as_bytes()).expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("text");
        text
    }

    #[test]
    fn files_and_parts_of_them_are_served_and_nothing_outside_the_folder() {
        let (_folder, address) = start();
        for (asked, status, body) in [
            ("GET /ten HTTP/1.1", "200 OK", "0123456789"),
            ("HEAD /ten HTTP/1.1", "200 OK", ""),
            ("GET /ten HTTP/1.1\r\nRange: bytes=3-5", "206 Partial Content", "345"),
            ("GET /ten HTTP/1.1\r\nRange: bytes=8-", "206 Partial Content", "89"),
            ("GET /ten HTTP/1.1\r\nRange: bytes=8-100", "206 Partial Content", "89"),
            ("GET /ten HTTP/1.1\r\nRange: bytes=10-", "416 Range Not Satisfiable", ""),
            ("GET /ten HTTP/1.1\r\nRange: bytes=-3", "200 OK", "0123456789"),
            ("GET /empty HTTP/1.1", "200 OK", ""),
            ("GET /../ten HTTP/1.1", "404 Not Found", "not found\n"),
            ("GET /.hidden HTTP/1.1", "404 Not Found", "not found\n"),
            ("GET /none HTTP/1.1", "404 Not Found", "not found\n"),
        ] {
            let text = ask(address, asked);
            assert!(
                text.starts_with(&format!("HTTP/1.1 {status}\r\n")) && text.ends_with(&format!("\r\n\r\n{body}")),
                "{asked}: {text}"
            );
        }
        assert!(ask(address, "GET / HTTP/1.1").contains("<a href=\"ten\">"));
        assert!(ask(address, "GET /ten HTTP/1.1\r\nRange: bytes=3-5").contains("Content-Range: bytes 3-5/10\r\n"));
    }

    #[test]
    fn a_connection_is_kept_and_an_endless_head_is_not_read() {
        let (_folder, address) = start();
        let mut stream = TcpStream::connect(address).expect("connected");
        stream
            .write_all(b"GET /ten HTTP/1.1\r\n\r\nHEAD /ten HTTP/1.1\r\n\r\nGET /ten HTTP/1.0\r\n\r\n")
            .expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("it closes after the last");
        assert_eq!((text.matches("200 OK").count(), text.matches("0123456789").count()), (3, 2));
        let mut stream = TcpStream::connect(address).expect("connected");
        // It may be closed while this is being written.
        let _ = stream.write_all(&vec![b'x'; 64 << 10]);
        assert!(stream.read_to_end(&mut Vec::new()).is_err() || stream.write_all(b"x").is_err());
    }
}
