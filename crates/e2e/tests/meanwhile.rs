//! What becomes of a transfer in whose middle something is decided against it: the share is taken back or expires, its rights or the member's
//! are lessened, their account is disabled, the quota is reached. A download that has begun goes on to its end. An upload is refused at its end, and what it
//! had reserved is given back.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use holdfast_e2e::Outcome;
use holdfast_e2e::browser::{Page, Upload};
use holdfast_e2e::care::expect_clean;
use holdfast_e2e::rig::{NAME, PASSWORD, Rig};
use holdfast_testkit::data::incompressible;
use holdfast_testkit::http::{Client, Request, Response};
use serde_json::{Value, json};

/// Somebody with whom a folder is shared.
const OTHER: &str = "ben";
const OTHER_PASSWORD: &str = "a ladder of wet granite";
/// What they call it.
const VIEW: &str = "trip%20(ann)";
/// Several times what sockets on the way and the server's read-ahead hold.
const BYTES: usize = 40 << 20;
/// Where something is decided.
const MIDDLE: usize = 6 << 20;
/// Time for what was sent to be received: whatever is decided after it finds a transfer under way.
const UNDER_WAY: Duration = Duration::from_millis(400);
/// When a share ends that ends soon.
const SOON_MS: i64 = 1_500;

/// One way of ending what somebody came in through.
type End = fn(&mut Page, &Value) -> Outcome;

struct Stage {
    rig: Rig,
    ann: Page,
    ben: Client,
    content: Vec<u8>,
}

impl Stage {
    fn new() -> Outcome<Self> {
        let rig = Rig::new()?;
        rig.server.add_account(OTHER, OTHER_PASSWORD)?;
        let mut ann = Page::signed_in(&rig.server, NAME, PASSWORD)?;
        ann.call("POST", "/folders/ann/trip", &Value::Null)?.expect_status(201)?;
        let ben = rig.server.client_of(OTHER, OTHER_PASSWORD);
        Ok(Self { rig, ann, ben, content: incompressible(1, BYTES) })
    }

    fn share(&mut self, more: &Value) -> Outcome<Value> {
        self.ann.share(NAME, "/trip", more)
    }

    fn visit(&self, share: &Value) -> Outcome<Page> {
        Page::visit(&self.rig.server, share, None)
    }

    /// Makes ben a member, or one of another role, or none.
    fn member(&mut self, role: Option<&str>) -> Outcome {
        let (method, body) = role.map_or(("DELETE", Value::Null), |role| ("PUT", json!({"role": role})));
        self.ann.call(method, "/spaces/ann/members/ben", &body)?.expect_status(204)?;
        Ok(())
    }

    /// Sends a request with the stage's content, and in its middle decides something.
    fn send(
        &mut self,
        mut client: Client,
        request: &Request,
        decide: impl FnOnce(&mut Page) -> Outcome,
    ) -> Outcome<Response> {
        let mut ann = self.ann.clone();
        let mut body = Interrupted {
            content: &self.content,
            at: 0,
            decide: Some(|| {
                std::thread::sleep(UNDER_WAY);
                decide(&mut ann)
            }),
        };
        Ok(client.send_from(request, BYTES as u64, &mut body)?)
    }

    /// The same as the part of an upload that is all of it.
    fn send_upload(
        &mut self,
        page: &Page,
        upload: &Upload,
        decide: impl FnOnce(&mut Page) -> Outcome,
    ) -> Outcome<Response> {
        let part = page
            .tus("PATCH", upload)
            .header("Upload-Offset", "0")
            .header("Content-Type", "application/offset+octet-stream");
        self.send(page.client.clone(), &part, decide)
    }

    /// Nothing is reserved any more, at once or as soon as the server has noticed.
    fn expect_nothing_reserved(&mut self) -> Outcome {
        let began = Instant::now();
        loop {
            match self.ann.reserved(NAME)? {
                0 => return Ok(()),
                some if began.elapsed() > Duration::from_secs(5) => {
                    return Err(format!("{some} bytes stay reserved").into());
                }
                _ => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    fn end(mut self, files: &[&str]) -> Outcome {
        let folder = self.ann.json("GET", "/folders/ann/trip", &Value::Null, 200)?;
        let entries = folder["entries"].as_array().ok_or("no entries")?;
        let names: Vec<&str> = entries.iter().filter_map(|entry| entry["name"].as_str()).collect();
        assert_eq!(names, files);
        self.expect_nothing_reserved()?;
        self.rig.stop()?;
        expect_clean(self.rig.server.options())
    }
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

fn address(share: &Value) -> Outcome<String> {
    Ok(format!("/shares/{}", share["id"].as_str().ok_or("no id")?))
}

fn take_back(ann: &mut Page, share: &Value) -> Outcome {
    ann.call("DELETE", &address(share)?, &Value::Null)?.expect_status(204)?;
    Ok(())
}

fn change(ann: &mut Page, share: &Value, change: &Value) -> Outcome {
    ann.call("PATCH", &address(share)?, change)?.expect_status(200)?;
    Ok(())
}

/// Lets it expire and waits until it has.
fn expire(ann: &mut Page, share: &Value) -> Outcome {
    let end = now_ms() + SOON_MS;
    change(ann, share, &json!({"expires_ms": end}))?;
    while now_ms() <= end {
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// A body in whose middle something is decided.
struct Interrupted<'b, D> {
    content: &'b [u8],
    at: usize,
    decide: Option<D>,
}

impl<D: FnOnce() -> Outcome> Read for Interrupted<'_, D> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at >= MIDDLE
            && let Some(decide) = self.decide.take()
        {
            decide().map_err(io::Error::other)?;
        }
        let part = out.len().min(self.content.len() - self.at);
        out[..part].copy_from_slice(&self.content[self.at..self.at + part]);
        self.at += part;
        Ok(part)
    }
}

/// A reader of an answer who decides something when they have its beginning.
struct Decider<D> {
    read: Vec<u8>,
    decide: Option<D>,
}

impl<D: FnOnce() -> Outcome> Write for Decider<D> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.read.extend_from_slice(bytes);
        if self.read.len() >= 1 << 20
            && let Some(decide) = self.decide.take()
        {
            decide().map_err(io::Error::other)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_download_that_has_begun_goes_on_to_its_end() -> Outcome {
    let mut stage = Stage::new()?;
    stage.ann.put("/content/ann/trip/film.bin", &stage.content.clone())?.expect_status(201)?;
    let read =
        |client: &mut Client, request: &Request, content: &[u8], decide: &mut dyn FnMut() -> Outcome| -> Outcome {
            let mut decider = Decider { read: Vec::new(), decide: Some(decide) };
            let answer = client.send_to(request, &mut decider)?;
            assert_eq!(answer.status, 200);
            assert!(decider.decide.is_none() && decider.read == content, "it ended after {} bytes", decider.read.len());
            Ok(())
        };
    let password: End = |ann, share| change(ann, share, &json!({"password": "a plain word"}));
    for end in [take_back as End, expire, password] {
        let share = stage.share(&json!({"access": "read"}))?;
        let mut visit = stage.visit(&share)?;
        let request = visit.request("GET", "/content/link/film.bin");
        let mut ann = stage.ann.clone();
        read(&mut visit.client, &request, &stage.content, &mut || end(&mut ann, &share))?;
        assert_eq!(visit.client.send(&request)?.status, 401, "and no other begins");
    }
    let share = stage.share(&json!({"access": "read", "account": OTHER}))?;
    let request = Request::with_target("GET", &format!("/dav/{VIEW}/film.bin"));
    let mut ann = stage.ann.clone();
    read(&mut stage.ben, &request, &stage.content, &mut || take_back(&mut ann, &share))?;
    stage.ben.send(&request)?.expect_status(404)?;
    stage.member(Some("reader"))?;
    let request = Request::with_target("GET", "/dav/ann/trip/film.bin");
    read(&mut stage.ben, &request, &stage.content, &mut || {
        ann.call("DELETE", "/spaces/ann/members/ben", &Value::Null)?.expect_status(204)?;
        Ok(())
    })?;
    stage.ben.send(&request)?.expect_status(404)?;
    stage.end(&["film.bin"])
}

#[test]
fn a_visitor_s_upload_is_refused_at_its_end_when_its_link_ended_in_its_middle() -> Outcome {
    let mut stage = Stage::new()?;
    let less: End = |ann, share| change(ann, share, &json!({"access": "read"}));
    let password: End = |ann, share| change(ann, share, &json!({"password": "a plain word"}));
    for (access, end) in [
        ("upload", take_back as End),
        ("write", take_back),
        ("write", expire),
        ("upload", expire),
        ("write", less),
        ("upload", password),
    ] {
        let share = stage.share(&json!({"access": access}))?;
        let mut visit = stage.visit(&share)?;
        let upload = visit.begin(BYTES, &[("space", "link"), ("path", "late.bin")])?;
        let answer = stage.send_upload(&visit, &upload, |ann| end(ann, &share))?;
        assert_eq!(answer.status, 404, "{access}: {}", answer.text());
        stage.expect_nothing_reserved()?;
        assert_eq!(visit.client.send(&visit.tus("HEAD", &upload))?.status, 401);
    }
    stage.end(&[])
}

#[test]
fn an_upload_through_a_share_is_refused_at_its_end_when_the_share_allows_it_no_more() -> Outcome {
    let mut stage = Stage::new()?;
    let less: End = |ann, share| change(ann, share, &json!({"access": "read"}));
    for end in [take_back as End, expire, less] {
        for dav in [true, false] {
            let share = stage.share(&json!({"access": "write", "account": OTHER}))?;
            let answer = if dav {
                let put = Request::with_target("PUT", &format!("/dav/{VIEW}/late.bin"));
                stage.send(stage.ben.clone(), &put, |ann| end(ann, &share))?
            } else {
                let mut ben = Page::signed_in(&stage.rig.server, OTHER, OTHER_PASSWORD)?;
                let upload = ben.begin(BYTES, &[("space", "trip (ann)"), ("path", "late.bin")])?;
                stage.send_upload(&ben, &upload, |ann| end(ann, &share))?
            };
            assert_eq!(answer.status, 404, "{}", answer.text());
            stage.expect_nothing_reserved()?;
            // One that expired or allows less is there still, and a folder is shared once with an account.
            stage.ann.call("DELETE", &address(&share)?, &Value::Null)?;
        }
    }
    stage.end(&[])
}

#[test]
fn an_upload_of_a_member_is_refused_at_its_end_when_they_may_write_no_more() -> Outcome {
    let mut stage = Stage::new()?;
    for (role, status) in [(None, 404), (Some("reader"), 403)] {
        for dav in [true, false] {
            stage.member(Some("editor"))?;
            let change = |ann: &mut Page| -> Outcome {
                let (method, body) = role.map_or(("DELETE", Value::Null), |role: &str| ("PUT", json!({"role": role})));
                ann.call(method, "/spaces/ann/members/ben", &body)?.expect_status(204)?;
                Ok(())
            };
            let answer = if dav {
                stage.send(stage.ben.clone(), &Request::with_target("PUT", "/dav/ann/trip/late.bin"), change)?
            } else {
                let mut ben = Page::signed_in(&stage.rig.server, OTHER, OTHER_PASSWORD)?;
                let upload = ben.begin(BYTES, &[("space", NAME), ("path", "trip/late.bin")])?;
                stage.send_upload(&ben, &upload, change)?
            };
            // What was being uploaded in parts is given up with the role: it is not there any more.
            assert_eq!(answer.status, if dav { status } else { 404 }, "{role:?}, {dav}: {}", answer.text());
            stage.expect_nothing_reserved()?;
        }
    }
    stage.end(&[])
}

#[test]
fn an_upload_of_a_disabled_account_is_refused_at_its_end() -> Outcome {
    let mut stage = Stage::new()?;
    stage.rig.server.options().run_ok(&["account", "admin", NAME, "true"], b"")?;
    stage.member(Some("editor"))?;
    let share = json!({"access": "write", "account": OTHER});
    stage.share(&share)?;
    for place in ["ann/trip", "trip%20(ann)"] {
        for way in ["WebDAV", "API", "parts"] {
            let disable = |ann: &mut Page| -> Outcome {
                ann.call("PATCH", "/accounts/ben", &json!({"disabled": true}))?.expect_status(200)?;
                Ok(())
            };
            let mut ben = Page::signed_in(&stage.rig.server, OTHER, OTHER_PASSWORD)?;
            let answer = match way {
                "WebDAV" => {
                    let put = Request::with_target("PUT", &format!("/dav/{place}/late.bin"));
                    stage.send(stage.ben.clone(), &put, disable)?
                }
                "API" => {
                    let put = ben.request("PUT", &format!("/content/{place}/late.bin"));
                    stage.send(ben.client.clone(), &put, disable)?
                }
                _ => {
                    let (space, path) =
                        place.split_once('/').map_or(("trip (ann)", "late.bin"), |(space, _)| (space, "trip/late.bin"));
                    let upload = ben.begin(BYTES, &[("space", space), ("path", path)])?;
                    stage.send_upload(&ben, &upload, disable)?
                }
            };
            // As with a role: what was being uploaded in parts is given up at once, and not there any more.
            let expected = if way == "parts" { 404 } else { 403 };
            assert_eq!(answer.status, expected, "{place}, {way}: {}", answer.text());
            stage.expect_nothing_reserved()?;
            stage.ann.call("PATCH", "/accounts/ben", &json!({"disabled": false}))?.expect_status(200)?;
        }
    }
    stage.end(&[])
}

#[test]
fn a_quota_reached_in_the_middle_refuses_and_keeps_nothing_that_was_not_acknowledged() -> Outcome {
    const QUOTA: usize = 50 << 20;
    let mut stage = Stage::new()?;
    stage.rig.server.options().run_ok(&["space", "set", NAME, "--quota", &QUOTA.to_string()], b"")?;
    // Of unknown length: nobody can know before.
    let mut raw = stage.rig.client().raw()?;
    let authorization = stage.rig.client().authorization().ok_or("no account")?.to_owned();
    let head = format!(
        "PUT /dav/ann/trip/endless HTTP/1.1\r\nHost: x\r\nAuthorization: {authorization}\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    raw.write(head.as_bytes())?;
    let mut sent = 0;
    for piece in stage.content.iter().copied().cycle().take(2 * BYTES).collect::<Vec<u8>>().chunks(1 << 20) {
        // Each block is another: equal ones would be stored once, and count all the same.
        let framed = [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
        if raw.write(&framed).is_err() {
            break;
        }
        sent += piece.len();
    }
    assert!(sent > QUOTA / 2);
    raw.write(b"0\r\n\r\n").ok();
    assert_eq!(raw.read()?.status, 507);
    stage.expect_nothing_reserved()?;

    // What a member declares is reserved: the second is refused before a byte.
    let pairs = |name: &'static str| [("space", NAME), ("path", name)];
    let mut ann = stage.ann.clone();
    let first = ann.begin(BYTES, &pairs("trip/first"))?;
    assert_eq!(ann.creation(BYTES, &pairs("trip/second"))?.status, 507);
    ann.client.send(&ann.tus("DELETE", &first))?.expect_status(204)?;

    // What visitors declare is not: the room is theirs whose bytes come, and the other can go on when there is room again.
    let share = stage.share(&json!({"access": "upload"}))?;
    let (mut one, mut two) = (stage.visit(&share)?, stage.visit(&share)?);
    let names = |name: &'static str| [("space", "link"), ("path", name)];
    let (slow, fast) = (one.begin(BYTES, &names("slow"))?, two.begin(BYTES, &names("fast"))?);
    one.send_part(&slow, 0, &stage.content[..15 << 20])?.expect_status(204)?;
    assert_eq!(stage.ann.reserved(NAME)?, 15 << 20);
    let refused = two.send_part(&fast, 0, &stage.content)?;
    assert_eq!(refused.status, 507, "{}", refused.text());
    let told = two.offset(&fast)?;
    assert!(told <= QUOTA - (15 << 20), "{told}");
    one.client.send(&one.tus("DELETE", &slow))?.expect_status(204)?;
    two.send_part(&fast, told, &stage.content[told..])?.expect_status(204)?;
    assert!(stage.ann.get("/content/ann/trip/fast")?.body == stage.content);
    stage.end(&["fast"])
}
