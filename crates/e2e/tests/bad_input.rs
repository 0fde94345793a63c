//! Requests no correct client sends: each gets the right status and a message that helps, leaves nothing behind, and the next request
//! works. Faults of the data directory are in `bad_data.rs`.

use std::time::Duration;

use holdfast_e2e::Outcome;
use holdfast_e2e::care::expect_clean;
use holdfast_e2e::engines::Store;
use holdfast_e2e::knob::knob;
use holdfast_e2e::rig::{HOME, NAME, PASSWORD, Rig};
use holdfast_testkit::data::incompressible;
use holdfast_testkit::http::{Client, Request, Response};

/// A message that helps has a few words.
const HELPFUL_BYTES: usize = 20;

/// Sends a request that must be refused with one of these statuses and a message.
fn refused(client: &mut Client, request: &Request, statuses: &[u16]) -> Outcome<Response> {
    let answer = client.send(request)?;
    let text = answer.text();
    if !statuses.contains(&answer.status) || text.len() < HELPFUL_BYTES {
        return Err(format!("{} «{text}» instead of {statuses:?}", answer.status).into());
    }
    for leak in [PASSWORD, "/tmp/", "panicked", "src/"] {
        assert!(!text.contains(leak), "{text} tells {leak}");
    }
    Ok(answer)
}

/// The names in the home folder.
fn names(client: &mut Client) -> Outcome<Vec<String>> {
    let listed = client.list(&format!("{HOME}/"), "1")?;
    Ok(listed.into_iter().map(|member| member.path).filter(|path| path != HOME).collect())
}

/// What every test ends with: nothing was left behind, a file can be put and got, and the drive is sound.
fn goes_on(rig: &Rig, expected: &[&str]) -> Outcome {
    let mut client = rig.client();
    assert_eq!(names(&mut client)?, expected);
    let content = incompressible(9, 1_500_000);
    client.put(&format!("{HOME}/next"), content.clone())?.expect_status(201)?;
    assert!(client.get(&format!("{HOME}/next"))?.body == content);
    client.delete(&format!("{HOME}/next"))?.expect_status(204)?;
    expect_clean(rig.server.options())
}

#[test]
fn wrong_passwords_and_unknown_spaces_tell_nothing() -> Outcome {
    let rig = Rig::new()?;
    let get = Request::new("GET", &format!("{HOME}/"));
    let wrong = refused(&mut rig.server.client_of(NAME, "not-the-password-at-all"), &get, &[401])?;
    assert!(wrong.header("www-authenticate").is_some());
    let nobody = refused(&mut rig.server.client_of("nobody", "not-the-password-at-all"), &get, &[401])?;
    assert_eq!(wrong.text(), nobody.text(), "who exists must not be told");
    refused(&mut rig.server.client(), &get, &[401])?;

    rig.server.add_account("ben", "copper-lantern-drifts-nine")?;
    let mut client = rig.client();
    let secret = refused(&mut client, &Request::new("GET", "/dav/ben/"), &[403, 404])?;
    let absent = refused(&mut client, &Request::new("GET", "/dav/nowhere/"), &[403, 404])?;
    let told = (secret.status, secret.text().replace("\"ben\"", "\"nowhere\""));
    assert_eq!(told, (absent.status, absent.text()), "which spaces exist must not be told");
    refused(&mut client, &Request::new("PUT", "/dav/ben/file").body("x"), &[403, 404])?;
    goes_on(&rig, &[])
}

#[test]
fn paths_that_cannot_be_are_refused() -> Outcome {
    let rig = Rig::new()?;
    let mut client = rig.client();
    let long = format!("{HOME}/{}", "x".repeat(256));
    let targets = [
        "/dav/ann/../../../etc/passwd",
        "/dav/ann/%2e%2e/%2e%2e/catalogue.db",
        "/dav/ann/a/..%2f..%2fb",
        "/dav/ann/nul%00byte",
        "/dav/ann/%ff%fe",
        "/dav/ann/%c3%28",
        "/dav/ann/%zz",
        &long,
    ];
    for target in targets {
        for method in ["PUT", "MKCOL"] {
            let request = Request::with_target(method, target);
            let request = if method == "PUT" { request.body("content") } else { request };
            refused(&mut client, &request, &[400, 403, 404, 405, 409, 414])
                .map_err(|error| format!("{method} {target}: {error}"))?;
        }
        let copy = Request::new("COPY", HOME).header("Destination", format!("http://{}{target}", client.address()));
        refused(&mut client, &copy, &[400, 403, 404, 405, 409, 414]).map_err(|e| format!("COPY to {target}: {e}"))?;
        let status = client.send(&Request::with_target("GET", target))?.status;
        assert!((400..500).contains(&status), "GET {target}: {status}");
    }
    goes_on(&rig, &[])
}

/// Sends bytes as they are and reads the answer, whatever it is.
fn raw(client: &Client, head: &str, body: &[u8], finish: bool) -> Outcome<Response> {
    let mut connection = client.raw()?;
    let authorization = client.authorization().ok_or("no account")?;
    connection
        .write(format!("{head}\r\nHost: {}\r\nAuthorization: {authorization}\r\n\r\n", client.address()).as_bytes())?;
    connection.write(body)?;
    if finish {
        connection.finish_writing()?;
    }
    Ok(connection.read()?)
}

#[test]
fn bodies_that_are_not_what_was_announced_change_nothing() -> Outcome {
    let rig = Rig::new()?;
    let mut client = rig.client();
    client.put(&format!("{HOME}/old"), "old content")?.expect_status(201)?;
    let short = incompressible(1, 100_000);
    for path in ["old", "new"] {
        let put = format!("PUT {HOME}/{path} HTTP/1.1\r\nContent-Length: 5000000");
        // The connection is half closed: what is missing will never come.
        let status = raw(&client, &put, &short, true).map(|answer| answer.status);
        assert!(!matches!(status, Ok(200..300)), "a short body was taken: {status:?}");
        for broken in ["5\r\nab", "zz\r\nabc\r\n0\r\n\r\n", "3\r\nabcde\r\n0\r\n\r\n", "ffffffffffffffffff\r\nx"] {
            let put = format!("PUT {HOME}/{path} HTTP/1.1\r\nTransfer-Encoding: chunked");
            let status = raw(&client, &put, broken.as_bytes(), true).map(|answer| answer.status);
            assert!(!matches!(status, Ok(200..300)), "{broken:?} was taken: {status:?}");
        }
        // Two lengths, and both framings: what smuggles requests.
        for framing in [
            "Content-Length: 3\r\nContent-Length: 5",
            "Content-Length: 3\r\nTransfer-Encoding: chunked",
            "Content-Length: -1",
        ] {
            let answer =
                raw(&client, &format!("PUT {HOME}/{path} HTTP/1.1\r\n{framing}"), b"3\r\nabc\r\n0\r\n\r\n", true);
            let status = answer.map(|answer| answer.status);
            assert!(matches!(status, Ok(200..300 | 400..500) | Err(_)), "{framing}: {status:?}");
        }
    }
    // Both framings at once may be taken as chunked (RFC 9112 section 6.3), then the body is what the chunks say.
    for (path, old) in [("old", Some("old content")), ("new", None)] {
        let answer = client.get(&format!("{HOME}/{path}"))?;
        let found = (answer.status == 200).then(|| answer.text());
        assert!(found.as_deref() == old || found.as_deref() == Some("abc"), "{path}: {found:?}");
        client.delete(&format!("{HOME}/{path}"))?;
    }
    // Longer than declared: the rest is the next request, and none.
    let long = format!("PUT {HOME}/long HTTP/1.1\r\nContent-Length: 3");
    assert_eq!(raw(&client, &long, b"abcdefgh", true)?.status, 201);
    assert_eq!(client.get(&format!("{HOME}/long"))?.text(), "abc");
    goes_on(&rig, &["/dav/ann/long"])
}

#[test]
fn clients_that_vanish_or_stall_in_an_upload_leave_nothing() -> Outcome {
    // A short patience, so that the test need not wait long for the server's.
    let rig = Rig::with(|options| options.environment("HOLDFAST_LIMITS__STALL_TIMEOUT_S", "1"))?;
    let client = rig.client().with_timeout(Duration::from_mins(1));
    let authorization = client.authorization().ok_or("no account")?.to_owned();
    let head = |name: &str| {
        format!(
            "PUT {HOME}/{name} HTTP/1.1\r\nHost: x\r\nAuthorization: {authorization}\r\nContent-Length: 60000000\r\n\r\n"
        )
    };
    let piece = incompressible(1, 3_000_000);
    for number in 0..8 {
        let mut connection = client.raw()?;
        connection.write(head(&format!("vanished{number}")).as_bytes())?;
        connection.write(&piece)?;
        drop(connection);
    }
    let mut stalled = client.raw()?;
    stalled.write(head("stalled").as_bytes())?;
    stalled.write(&piece)?;
    let answer = stalled.read()?;
    assert_eq!(answer.status, 408, "{}", answer.text());
    goes_on(&rig, &[])
}

#[test]
fn a_declared_length_of_a_tebibyte_is_answered_before_its_body() -> Outcome {
    let rig = Rig::new()?;
    if rig.place.engines.store != Store::Fs {
        // An object service has room for anything: there it is the quota that says no.
        assert!(rig.run(&["space", "set", NAME, "--quota", "10G"], b"")?.status.success());
    }
    let client = rig.client();
    let head = format!("PUT {HOME}/huge HTTP/1.1\r\nContent-Length: {}\r\nExpect: 100-continue", 1_u64 << 40);
    let answer = raw(&client, &head, b"", false)?;
    assert_eq!(answer.status, 507, "{}", answer.text());
    assert!(answer.text().len() > HELPFUL_BYTES);
    let more = format!("PUT {HOME}/huge HTTP/1.1\r\nContent-Length: {}", u64::MAX);
    let status = raw(&client, &more, b"x", true)?.status;
    // 431 is what the HTTP library says to a number it cannot hold.
    assert!(matches!(status, 400 | 413 | 431 | 507), "{status}");
    goes_on(&rig, &[])
}

#[test]
fn hostile_xml_is_refused_quickly() -> Outcome {
    let rig = Rig::new()?;
    let mut client = rig.client();
    let entities = "<!DOCTYPE x [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;\">\
                    <!ENTITY c \"&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;\">]><D:propfind xmlns:D=\"DAV:\"><D:prop><x>&c;</x></D:prop></D:propfind>";
    let external = "<!DOCTYPE x [<!ENTITY a SYSTEM \"file:///etc/passwd\">]><D:propfind xmlns:D=\"DAV:\"><D:prop><x>&a;</x></D:prop></D:propfind>";
    let deep = format!("{}{}", "<a>".repeat(100_000), "</a>".repeat(100_000));
    let large = format!("<D:propfind xmlns:D=\"DAV:\"><D:prop>{}</D:prop></D:propfind>", "<D:x/>".repeat(500_000));
    let broken = "<D:propfind xmlns:D=\"DAV:\"><D:prop>";
    let binary = "\u{0}\u{1}\u{2} not XML at all";
    for body in [entities, external, &deep, &large, broken, binary] {
        for (method, path) in [("PROPFIND", HOME), ("PROPPATCH", HOME), ("LOCK", "/dav/ann/locked")] {
            let request = Request::new(method, path).header("Depth", "0").body(body);
            let answer = refused(&mut client, &request, &[400, 413, 422])
                .map_err(|error| format!("{method} {body:.60}: {error}"))?;
            assert!(!answer.text().contains("root:"), "a file of the machine was told");
        }
    }
    goes_on(&rig, &[])
}

#[test]
fn huge_sets_of_headers_are_refused() -> Outcome {
    let rig = Rig::new()?;
    let client = rig.client();
    let many = "\r\nX-Header: value".repeat(5000);
    let long = format!("\r\nX-Long: {}", "x".repeat(1 << 20));
    for headers in [many, long] {
        // The server may close before it has read all: then the client finds out when it writes.
        let status = raw(&client, &format!("GET {HOME}/ HTTP/1.1{headers}"), b"", false).map(|answer| answer.status);
        assert!(matches!(status, Ok(431) | Err(_)), "{status:?}");
    }
    let fits = format!("GET {HOME}/ HTTP/1.1\r\nX-Long: {}", "x".repeat(30_000));
    assert_eq!(raw(&client, &fits, b"", false)?.status, 200);
    goes_on(&rig, &[])
}

/// `HOLDFAST_ENTRIES` sets how many.
#[test]
fn a_folder_of_very_many_entries_works() -> Outcome {
    let rig = Rig::new()?;
    let entries = knob("HOLDFAST_ENTRIES", 100_000_usize);
    let folder = format!("{HOME}/many");
    rig.client().mkcol(&folder)?.expect_status(201)?;
    std::thread::scope(|scope| {
        let put = |part: usize| {
            let (mut client, folder) = (rig.client(), &folder);
            scope.spawn(move || -> Outcome {
                for number in (part..entries).step_by(8) {
                    client.put(&format!("{folder}/entry{number:06}"), number.to_string())?.expect_status(201)?;
                }
                Ok(())
            })
        };
        let parts: Vec<_> = (0..8).map(put).collect();
        parts.into_iter().try_for_each(|part| part.join().map_err(|_| "a client panicked")?)
    })?;
    let mut client = rig.client();
    assert_eq!(client.list(&format!("{folder}/"), "1")?.len(), entries + 1);
    let page = client.get(&format!("{folder}/"))?.expect_status(200)?;
    assert!(page.text().contains("entry000000"));
    assert_eq!(client.get(&format!("{folder}/entry000042"))?.text(), "42");
    println!("{entries} entries: peak {} MiB", rig.server.rss_peak()? >> 20);
    client.delete(&folder)?.expect_status(204)?;
    goes_on(&rig, &[])
}

#[test]
fn a_thousand_levels_of_folders_work_and_more_than_the_limit_are_refused() -> Outcome {
    let rig = Rig::new()?;
    let mut client = rig.client();
    let mut path = HOME.to_owned();
    let mut made = 0;
    let refusal = loop {
        path.push_str("/d");
        let answer = client.mkcol(&path)?;
        if answer.status != 201 {
            break answer;
        }
        made += 1;
    };
    println!("{made} levels, then {}: {}", refusal.status, refusal.text());
    assert!((1000..=1024).contains(&made) && matches!(refusal.status, 403 | 409 | 414), "{made}, {}", refusal.status);
    let deep = format!("{HOME}{}/file", "/d".repeat(1000));
    client.put(&deep, "deep")?.expect_status(201)?;
    assert_eq!(client.get(&deep)?.text(), "deep");
    client.rename(&format!("{HOME}/d"), &format!("{HOME}/e"), false)?.expect_status(201)?;
    assert_eq!(client.get(&deep.replacen("/d", "/e", 2).replacen("/eav", "/dav", 1))?.text(), "deep");
    client.delete(&format!("{HOME}/e"))?.expect_status(204)?;
    goes_on(&rig, &[])
}

#[test]
fn a_lock_that_is_never_released_ends_by_itself() -> Outcome {
    let rig = Rig::new()?;
    let mut client = rig.client();
    let path = format!("{HOME}/file");
    client.put(&path, "content")?.expect_status(201)?;
    let body = "<D:lockinfo xmlns:D=\"DAV:\"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>";
    let lock = Request::new("LOCK", &path).header("Depth", "0").header("Timeout", "Second-2").body(body);
    client.send(&lock)?.expect_status(200)?;
    refused(&mut client, &Request::new("PUT", &path).body("other"), &[423])?;
    let mut tries = 0;
    // Tried until it ends; each try is a request, so the machine is not kept busy for nothing.
    while client.put(&path, "other")?.status == 423 {
        tries += 1;
        assert!(tries < 100, "the lock never ends");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(client.get(&path)?.text(), "other");
    goes_on(&rig, &["/dav/ann/file"])
}

#[test]
fn many_uploads_on_one_connection_keep_it_and_a_cut_one_leaves_the_old_file() -> Outcome {
    let rig = Rig::new()?;
    let mut client = rig.client();
    let path = format!("{HOME}/file");
    // Bodies of many sizes: large reads of one must not be taken for a long head of the next.
    for (number, bytes) in
        [0, 10, 200_000, 206_000, 4000, 200_000, 1_000_000, 131_072, 131_073].into_iter().cycle().take(90).enumerate()
    {
        let content = incompressible(number as u64, bytes);
        let status = client.put(&path, content)?.status;
        assert!(matches!(status, 201 | 204), "upload {number} of {bytes} bytes: {status}");
    }
    let before = client.get(&path)?.body;
    let authorization = client.authorization().ok_or("no account")?;
    let mut cut = client.raw()?;
    let head =
        format!("PUT {path} HTTP/1.1\r\nHost: x\r\nAuthorization: {authorization}\r\nContent-Length: 50000000\r\n\r\n");
    cut.write(head.as_bytes())?;
    cut.write(&incompressible(1, 5_000_000))?;
    drop(cut);
    assert!(client.get(&path)?.body == before, "a cut upload changed the file");
    goes_on(&rig, &["/dav/ann/file"])
}
