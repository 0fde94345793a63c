//! A client of resumable uploads that lies: about where it is, how much it sends, what it sends, and what it wants; and one that asks for more than
//! its share. Each lie gets a clear refusal, what was acknowledged stays, and the upload can still be finished by somebody honest.

use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_e2e::Outcome;
use holdfast_e2e::browser::{Page, Upload, metadata};
use holdfast_e2e::care::expect_clean;
use holdfast_e2e::rig::{NAME, PASSWORD, Rig};
use holdfast_testkit::data::incompressible;
use holdfast_testkit::http::{Request, Response};
use serde_json::{Value, json};

/// What an upload has: two blocks and a part of one.
const BYTES: usize = (2 << 20) + 4_321;
/// Unfinished uploads of an account, and of the visitor of a link.
const ACCOUNT_MAX: usize = 1_000;
const VISIT_MAX: usize = 100;
/// Requests of a storm, on each of its connections.
const STORM: usize = 300;
const CONNECTIONS: usize = 6;
/// What a visitor says that they will send.
const LARGE_BYTES: u64 = 1_000_000_000;

struct Stage {
    rig: Rig,
    ann: Page,
    content: Vec<u8>,
}

impl Stage {
    fn new() -> Outcome<Self> {
        Self::with(&[])
    }

    fn with(variables: &[(&str, &str)]) -> Outcome<Self> {
        let rig = Rig::with(|options| {
            variables.iter().fold(options, |options, (name, value)| options.environment(name, value))
        })?;
        let ann = Page::signed_in(&rig.server, NAME, PASSWORD)?;
        Ok(Self { rig, ann, content: incompressible(1, BYTES) })
    }

    fn begin(&mut self, name: &str) -> Outcome<Upload> {
        self.ann.begin(BYTES, &[("space", NAME), ("path", name)])
    }

    fn send(&mut self, request: &Request) -> Outcome<Response> {
        Ok(self.ann.client.send(request)?)
    }

    /// An honest client goes on from where the upload stands, and gets the file.
    fn finish(&mut self, upload: &Upload, name: &str) -> Outcome {
        let at = self.ann.offset(upload)?;
        let rest = self.content[at..].to_vec();
        self.ann.send_part(upload, at, &rest)?.expect_status(204)?;
        assert!(self.ann.get(&format!("/content/{NAME}/{name}"))?.body == self.content, "{name} differs");
        Ok(())
    }

    fn end(mut self) -> Outcome {
        assert_eq!(self.ann.reserved(NAME)?, 0);
        self.rig.stop()?;
        expect_clean(self.rig.server.options())
    }
}

/// A refusal: a problem with a sentence, and nothing else.
fn refused(answer: &Response, statuses: &[u16], what: &str) -> Outcome {
    assert!(statuses.contains(&answer.status), "{what}: {} {}", answer.status, answer.text());
    let problem: Value = serde_json::from_slice(&answer.body).map_err(|error| format!("{what}: {error}"))?;
    assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{what}: {problem}");
    assert_eq!(answer.header("Tus-Resumable"), Some("1.0.0"), "{what}");
    Ok(())
}

#[test]
fn numbers_that_cannot_be_are_refused() -> Outcome {
    let mut stage = Stage::new()?;
    for (length, statuses) in [
        ("-1", &[400][..]),
        ("+5", &[400]),
        ("1e3", &[400]),
        ("5.0", &[400]),
        ("0x10", &[400]),
        ("five", &[400]),
        ("", &[400]),
        ("18446744073709551615", &[413]),
        ("18446744073709551616", &[400]),
        ("99999999999999999999999999999999999999", &[400]),
        ("17592186044417", &[413]),
        // The largest there can be, on a disk that has no room for it.
        ("17592186044416", &[507]),
    ] {
        let answer = stage.ann.creation(length, &[("space", NAME), ("path", "f")])?;
        refused(&answer, statuses, &format!("Upload-Length: {length}"))?;
    }
    let upload = stage.begin("f")?;
    stage.ann.send_part(&upload, 0, &stage.content[..1_000])?.expect_status(204)?;
    for (offset, status) in [
        ("0", 409),
        ("999", 409),
        ("1001", 409),
        ("2101473", 409),
        ("18446744073709551615", 409),
        ("18446744073709551616", 400),
        ("-1000", 400),
        ("1000.0", 400),
        ("1000, 1000", 400),
        ("", 400),
    ] {
        let part = stage.ann.tus("PATCH", &upload).header("Upload-Offset", offset);
        let part = part.header("Content-Type", "application/offset+octet-stream").body(&stage.content[1_000..2_000]);
        refused(&stage.send(&part)?, &[status], &format!("Upload-Offset: {offset}"))?;
    }
    // Twice, and different; and a length that is another now, which is not this version's to change.
    let part = stage.ann.part(&upload, 1_000, &stage.content[1_000..2_000]);
    refused(&stage.send(&part.clone().header("Upload-Offset", "7"))?, &[400], "two offsets")?;
    for length in ["5", "99999999999", "-1"] {
        let answer = stage
            .send(&stage.ann.part(&upload, stage.ann.clone().offset(&upload)?, b"").header("Upload-Length", length))?;
        assert!(matches!(answer.status, 204 | 400), "{}", answer.text());
    }
    let head = stage.send(&stage.ann.tus("HEAD", &upload))?.expect_status(200)?;
    assert_eq!(
        (head.header("Upload-Offset"), head.header("Upload-Length")),
        (Some("1000"), Some(BYTES.to_string().as_str()))
    );
    stage.finish(&upload, "f")?;
    stage.end()
}

#[test]
fn what_an_upload_is_said_to_become_is_read_with_care() -> Outcome {
    let mut stage = Stage::new()?;
    let encoded = |value: &[u8]| STANDARD.encode(value);
    let deep = "a/".repeat(1_025) + "f";
    let many: Vec<String> = (0..65).map(|number| format!("key{number} YQ==")).collect();
    let garbage: Vec<(String, &[u16])> = vec![
        ("path".to_owned(), &[400, 409]),
        ("path !!!!".to_owned(), &[400]),
        ("path YQ".to_owned(), &[400]),
        ("path YQ==,path Yg==".to_owned(), &[400]),
        ("path YQ== YQ==".to_owned(), &[400]),
        (format!("path {}", encoded(b"../f")), &[400]),
        (format!("path {}", encoded(b"a/../../f")), &[400]),
        (format!("path {}", encoded(b"a\0b")), &[400]),
        (format!("path {}", encoded(&[0xff, 0xfe])), &[400, 409]),
        (format!("path {}", encoded(deep.as_bytes())), &[413]),
        (format!("path {}", encoded("n".repeat(256).as_bytes())), &[413]),
        (format!("path {}", encoded("n/".repeat(17_000).as_bytes())), &[400, 413]),
        (format!("path {}", "A".repeat(60_000)), &[413]),
        (many.join(","), &[400]),
        (format!("space {},path Zg==", encoded(b"nobody")), &[404]),
        (format!("space {},path Zg==", encoded(&[b'x'; 5_000])), &[400, 404]),
        (format!("space {},path Zg==", encoded(b"\n\r")), &[400, 404]),
        (format!("filename {}", encoded(b"a/b")), &[400]),
        (format!("filename {}", encoded(b"..")), &[400]),
        (format!("path Zg==,modified_ms {}", encoded(b"99999999999999999999")), &[400]),
        (format!("path Zg==,modified_ms {}", encoded(b"soon")), &[400]),
        (format!("path Zg==,conflict {}", encoded(b"ask")), &[400]),
        (format!("path Zg==,if_match {}", encoded(b"\"")), &[400, 412]),
        (format!("path Zg==,if_match {},conflict {}", encoded(b"\"1-1\""), encoded(b"fail")), &[400]),
    ];
    for (text, statuses) in &garbage {
        let shown: String = text.chars().take(80).collect();
        let request = stage.ann.request("POST", "/uploads").header("Tus-Resumable", "1.0.0");
        let request = request.header("Upload-Length", "5").header("Upload-Metadata", text.as_str());
        refused(&stage.send(&request)?, statuses, &shown)?;
    }
    assert_eq!(stage.ann.json("GET", "/uploads", &Value::Null, 200)?, json!([]));
    assert_eq!(stage.ann.reserved(NAME)?, 0);
    // Times that no clock shows are no reason to break.
    for (number, modified) in [i64::MIN.to_string(), i64::MAX.to_string(), "-1".to_owned()].into_iter().enumerate() {
        let name = format!("dated{number}");
        let begun = stage.ann.creation(0, &[("space", NAME), ("path", &name), ("modified_ms", &modified)])?;
        assert!(matches!(begun.status, 201 | 400), "{modified}: {}", begun.text());
        if begun.status == 201 {
            stage.ann.get(&format!("/nodes/{NAME}/{name}"))?.expect_status(200)?;
            stage.rig.client().propfind("/dav/ann", "1")?.expect_status(207)?;
            stage.rig.client().get(&format!("/dav/ann/{name}"))?.expect_status(200)?;
        }
    }
    // What is not for this drive is kept as it was sent, and told so, and in no other way.
    let strange = metadata(&[("space", NAME), ("path", "strange"), ("x-\u{7f}", "?")]);
    let request = stage.ann.request("POST", "/uploads").header("Tus-Resumable", "1.0.0").header("Upload-Length", "5");
    let answer = stage.send(&request.header("Upload-Metadata", strange))?;
    assert!(matches!(answer.status, 201 | 400), "{}", answer.text());
    if let Some(address) = answer.header("Location") {
        let upload = Upload { address: address.to_owned(), length: 5 };
        stage.send(&stage.ann.tus("DELETE", &upload))?.expect_status(204)?;
    }
    stage.end()
}

#[test]
fn more_bytes_than_declared_and_other_bytes_than_promised_do_not_count() -> Outcome {
    let mut stage = Stage::new()?;
    let upload = stage.begin("f")?;
    let long = [&stage.content[..], b"more"].concat();
    refused(&stage.ann.send_part(&upload, 0, &long)?, &[413], "a part that says it is longer")?;
    assert_eq!(stage.ann.offset(&upload)?, 0);

    // One that does not say how long it is.
    let mut raw = stage.ann.client.raw()?;
    let cookie = stage.ann.cookie.clone().ok_or("no cookie")?;
    let head = format!(
        "PATCH {} HTTP/1.1\r\nHost: drive.example\r\nSec-Fetch-Site: same-origin\r\nCookie: {cookie}\r\nTus-Resumable: 1.0.0\r\n\
         Upload-Offset: 0\r\nContent-Type: application/offset+octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
        upload.address
    );
    raw.write(head.as_bytes())?;
    raw.write(&[format!("{:x}\r\n", long.len()).as_bytes(), &long, b"\r\n0\r\n\r\n"].concat())?;
    let answer = raw.read()?;
    refused(&answer, &[413], "a part that is longer")?;
    assert!(stage.ann.offset(&upload)? < BYTES, "no file is made of what was too long");
    assert_eq!(stage.ann.get(&format!("/nodes/{NAME}/f"))?.status, 404);

    let other = stage.begin("g")?;
    let wrong = |algorithm: &str, bytes: usize| format!("{algorithm} {}", STANDARD.encode(vec![0; bytes]));
    for (checksum, status) in [
        (wrong("sha1", 20), 460),
        (wrong("sha256", 32), 460),
        (wrong("md5", 16), 460),
        (wrong("blake3", 32), 460),
        (wrong("sha1", 19), 400),
        (wrong("crc32", 4), 400),
        ("sha1".to_owned(), 400),
        ("sha1 !".to_owned(), 400),
        (format!("sha1 {}", "A".repeat(50_000)), 400),
    ] {
        let part =
            stage.ann.part(&other, 0, &stage.content[..1 << 20 | 5]).header("Upload-Checksum", checksum.as_str());
        refused(&stage.send(&part)?, &[status], &checksum[..checksum.len().min(60)])?;
        assert_eq!(stage.ann.offset(&other)?, 0, "{status}");
    }
    stage.finish(&other, "g")?;
    // Bodies of no type, and of others.
    for kind in
        [None, Some("text/plain"), Some("multipart/form-data; boundary=x"), Some("application/offset+octet-stream-x")]
    {
        let part =
            stage.ann.tus("PATCH", &upload).header("Upload-Offset", "0").maybe_header("Content-Type", kind).body("x");
        refused(&stage.send(&part)?, &[415], "another type")?;
    }
    stage.finish(&upload, "f")?;
    stage.end()
}

#[test]
fn of_many_who_continue_one_upload_at_once_one_does() -> Outcome {
    let mut stage = Stage::new()?;
    for round in 0..4 {
        let name = format!("f{round}");
        let upload = stage.begin(&name)?;
        let statuses: Vec<u16> = thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    let (mut page, upload, content) = (stage.ann.clone(), &upload, &stage.content);
                    scope.spawn(move || page.send_part(upload, 0, content).map(|answer| answer.status))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().map_err(|_| "a client panicked")?).collect::<Outcome<_>>()
        })?;
        assert_eq!(statuses.iter().filter(|status| **status == 204).count(), 1, "{statuses:?}");
        assert!(statuses.iter().all(|status| matches!(status, 204 | 404 | 409)), "{statuses:?}");
        assert!(stage.ann.get(&format!("/content/{NAME}/{name}"))?.body == stage.content);
    }
    // A connection that is silent keeps nobody out, and what it still sends does not count.
    let upload = stage.begin("silent")?;
    let mut silent = stage.ann.open_part(&upload, 0)?;
    silent.write(&stage.content[..100_000])?;
    thread::sleep(Duration::from_millis(300));
    stage.finish(&upload, "silent")?;
    silent.write(&stage.content[100_000..]).ok();
    assert!(silent.read().is_ok_and(|answer| matches!(answer.status, 404 | 409)));
    assert!(stage.ann.get(&format!("/content/{NAME}/silent"))?.body == stage.content);
    stage.end()
}

#[test]
fn a_storm_of_questions_gets_answers_and_stops_nobody() -> Outcome {
    let mut stage = Stage::new()?;
    let upload = stage.begin("f")?;
    let mut slow = stage.ann.open_part(&upload, 0)?;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..CONNECTIONS)
            .map(|_| {
                let (mut page, upload) = (stage.ann.clone(), &upload);
                scope.spawn(move || -> Outcome {
                    let mut last = 0;
                    for _ in 0..STORM {
                        let offset = page.offset(upload)?;
                        assert!(offset >= last, "it went back from {last} to {offset}");
                        last = offset;
                    }
                    Ok(())
                })
            })
            .collect();
        for piece in stage.content.chunks(BYTES / 10 + 1) {
            slow.write(piece)?;
            thread::sleep(Duration::from_millis(20));
        }
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a client panicked")?)
    })?;
    assert_eq!(slow.read()?.status, 204);
    assert!(stage.ann.get(&format!("/content/{NAME}/f"))?.body == stage.content);
    stage.end()
}

/// Begins uploads of so many bytes on several connections until each is refused; how many there are.
fn flood(page: &Page, pairs: &[(&str, &str)], bytes: u64, most: usize) -> Outcome<usize> {
    let until_refused = |mut page: Page| -> Outcome<usize> {
        for count in 0..=most {
            let answer = page.creation(bytes, pairs)?;
            if answer.status != 201 {
                refused(&answer, &[429], "one more")?;
                assert!(answer.header("Retry-After").is_some());
                return Ok(count);
            }
        }
        Err("there is no limit".into())
    };
    thread::scope(|scope| {
        let until_refused = &until_refused;
        let begin = |_| {
            let page = page.clone();
            scope.spawn(move || until_refused(page))
        };
        let threads: Vec<_> = (0..CONNECTIONS).map(begin).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a client panicked")?).sum()
    })
}

#[test]
fn a_flood_of_beginnings_ends_at_a_limit_and_costs_others_nothing() -> Outcome {
    let mut stage = Stage::new()?;
    stage.ann.call("POST", "/folders/ann/box", &Value::Null)?.expect_status(201)?;
    let share = stage.ann.share(NAME, "/box", &json!({"access": "upload"}))?;
    // A visitor takes no room by asking for it, and not all that may be begun.
    let visit = Page::visit(&stage.rig.server, &share, None)?;
    assert_eq!(flood(&visit, &[("space", "link"), ("path", "f")], LARGE_BYTES, VISIT_MAX)?, VISIT_MAX);
    assert_eq!(stage.ann.reserved(NAME)?, 0);
    let mut other = Page::visit(&stage.rig.server, &share, None)?;
    let honest = other.begin(BYTES, &[("space", "link"), ("path", "honest")])?;
    other.send_part(&honest, 0, &stage.content)?.expect_status(204)?;
    // Who leaves takes along what they have begun.
    let mut visit = visit;
    visit.call("DELETE", "/session", &Value::Null)?.expect_status(204)?;

    let pairs = [("space", NAME), ("path", "g"), ("conflict", "keep-both")];
    assert_eq!(flood(&stage.ann, &pairs, 10, ACCOUNT_MAX)?, ACCOUNT_MAX);
    stage.rig.client().put("/dav/ann/others", "go on")?.expect_status(201)?;
    let listed = stage.ann.json("GET", "/uploads", &Value::Null, 200)?;
    let ids: Vec<String> = listed
        .as_array()
        .ok_or("no list")?
        .iter()
        .filter_map(|upload| Some(upload["id"].as_str()?.to_owned()))
        .collect();
    assert_eq!(ids.len(), ACCOUNT_MAX);
    for id in ids {
        let request = stage.ann.request("DELETE", &format!("/uploads/{id}")).header("Tus-Resumable", "1.0.0");
        stage.send(&request)?.expect_status(204)?;
    }
    let upload = stage.begin("f")?;
    stage.finish(&upload, "f")?;
    stage.end()
}

#[test]
fn a_body_that_trickles_is_taken_and_one_that_stops_keeps_what_came() -> Outcome {
    let mut stage = Stage::with(&[("HOLDFAST_LIMITS__STALL_TIMEOUT_S", "2")])?;
    let upload = stage.begin("f")?;
    let mut trickle = stage.ann.open_part(&upload, 0)?;
    let mut sent = 0;
    // Longer than the limit, which is on silence.
    for byte in &stage.content[..8] {
        trickle.write(&[*byte])?;
        sent += 1;
        thread::sleep(Duration::from_millis(500));
    }
    let answer = trickle.read()?;
    assert_eq!(answer.status, 408, "{}", answer.text());
    assert_eq!(stage.ann.offset(&upload)?, sent);
    stage.finish(&upload, "f")?;
    stage.end()
}
