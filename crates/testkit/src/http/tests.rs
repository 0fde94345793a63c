use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use super::response::read_response;
use super::*;

/// A server that gives each request on one connection the next of `answers`, and returns the heads.
fn serve(answers: Vec<&'static str>) -> std::io::Result<(Client, std::thread::JoinHandle<String>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let client = Client::new(listener.local_addr()?);
    let work = move || -> std::io::Result<String> {
        let (stream, _) = listener.accept()?;
        let mut input = BufReader::new(stream);
        let mut seen = String::new();
        for answer in answers {
            let mut length = 0;
            loop {
                let mut line = String::new();
                input.read_line(&mut line)?;
                if let Some(value) = line.strip_prefix("Content-Length: ") {
                    length = value.trim().parse().unwrap_or(0);
                }
                seen.push_str(&line);
                if line == "\r\n" {
                    break;
                }
            }
            let mut body = vec![0; length];
            input.read_exact(&mut body)?;
            seen.push_str(&String::from_utf8_lossy(&body));
            input.get_mut().write_all(answer.as_bytes())?;
        }
        Ok(seen)
    };
    let thread = std::thread::spawn(move || work().expect("the client sends whole requests"));
    Ok((client, thread))
}

#[test]
fn requests_share_a_connection_and_carry_account_and_encoded_path() -> std::io::Result<()> {
    let (client, server) = serve(vec![
        "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n\r\n",
    ])?;
    let mut client = client.with_account("ann", "pw");
    assert_eq!(client.put("/dav/a b/\u{e9}", "body")?.status, 201);
    assert_eq!(client.get("/x")?.text(), "abcde");
    assert_eq!(client.rename("/x", "/y", false)?.status, 204);
    let seen = server.join().expect("the server ends");
    assert!(seen.contains("PUT /dav/a%20b/%C3%A9 HTTP/1.1\r\n"));
    assert!(seen.contains("Authorization: Basic YW5uOnB3\r\n"));
    assert!(seen.contains("Content-Length: 4\r\n\r\nbody"));
    assert!(seen.contains("Overwrite: F\r\n"));
    Ok(())
}

#[test]
fn a_cut_answer_is_an_error() {
    for answer in [
        "",
        "HTTP/1.1 200 OK\r\nContent-Le",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    ] {
        let result = read_response(&mut answer.as_bytes(), false, &mut Vec::new());
        assert!(result.is_err(), "{answer}");
    }
}

#[test]
fn a_multistatus_is_read_with_namespaces_entities_and_statuses() -> std::io::Result<()> {
    let xml = r#"<?xml version="1.0"?><d:multistatus xmlns:d="DAV:" xmlns:z="urn:z">
      <d:response><d:href>http://h:1/dav/s/a%20b/</d:href>
        <d:propstat><d:prop><d:resourcetype><d:collection/></d:resourcetype>
          <z:note>one &amp; <z:b>two</z:b> &#233;</z:note><z:empty/></d:prop>
          <d:status>HTTP/1.1 200 OK</d:status></d:propstat>
        <d:propstat><d:prop><d:getetag/></d:prop>
          <d:status>HTTP/1.1 404 Not Found</d:status></d:propstat></d:response>
      <d:response><d:href>/dav/s/f</d:href><d:propstat><d:prop>
          <d:getcontentlength>12</d:getcontentlength></d:prop>
          <d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>
      <d:response><d:href>/dav/s/g</d:href><d:status>HTTP/1.1 423 Locked</d:status></d:response>
    </d:multistatus>"#;
    let found = parse_multistatus(xml)?;
    assert_eq!(found.len(), 3);
    assert_eq!((found[0].path.as_str(), found[0].is_folder), ("/dav/s/a b", true));
    assert_eq!(found[0].property("urn:z", "note"), Some("one & two \u{e9}"));
    assert_eq!(found[0].property("urn:z", "empty"), Some(""));
    assert_eq!(found[0].etag(), None);
    assert_eq!((found[1].length(), found[1].is_folder), (Some(12), false));
    assert_eq!(found[2].status, Some(423));
    assert!(parse_multistatus(&xml[..xml.len() - 30]).is_err());
    Ok(())
}
