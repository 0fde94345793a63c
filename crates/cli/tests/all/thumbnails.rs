//! Thumbnails at the built program: pictures, what is none, what is meant to do harm, and many at once.

use crate::common::{Drive, OTHER_PASSWORD, PASSWORD, call, json};
use crate::shares::Stage;
use holdfast_testkit::http::{Client, Request, Response};
use holdfast_testkit::server::TestServer;
use image::{DynamicImage, GrayImage, ImageFormat, Rgb, RgbImage};
use serde_json::json;
use std::io::Cursor;
use std::time::{Duration, Instant};

fn encoded(picture: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    picture.write_to(&mut out, format).expect("encodes");
    out.into_inner()
}

/// A picture that is another for each seed.
fn photo(seed: u8, width: u32, height: u32) -> Vec<u8> {
    let colour = |x: u32, y: u32| Rgb([x.to_le_bytes()[0], y.to_le_bytes()[0], seed]);
    encoded(&DynamicImage::ImageRgb8(RgbImage::from_fn(width, height, colour)), ImageFormat::Jpeg)
}

/// one that takes a worker some tenths of a second: 30 megapixels.
fn slow_picture() -> Vec<u8> {
    let grey = GrayImage::from_fn(5_500, 5_500, |x, y| image::Luma([(x ^ y).to_le_bytes()[0]]));
    encoded(&DynamicImage::ImageLuma8(grey), ImageFormat::Png)
}

fn crc_of(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
    })
}

/// A chunk of a PNG.
fn chunk(kind: [u8; 4], data: &[u8]) -> Vec<u8> {
    let body = [&kind, data].concat();
    let length = u32::try_from(data.len()).expect("fits").to_be_bytes();
    [&length[..], &body, &crc_of(&body).to_be_bytes()].concat()
}

/// A PNG that says it is that large, and has a line of content.
fn bomb(width: u32, height: u32) -> Vec<u8> {
    let small = encoded(&DynamicImage::ImageRgb8(RgbImage::new(64, 64)), ImageFormat::Png);
    let head = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 2, 0, 0, 0]].concat();
    [&small[..8], &chunk(*b"IHDR", &head), &small[33..]].concat()
}

/// A good PNG with a text of 20 MiB before its content.
fn with_text() -> Vec<u8> {
    let small = encoded(&DynamicImage::ImageRgb8(RgbImage::new(64, 64)), ImageFormat::Png);
    let text = [b"Comment\0".as_slice(), &vec![b'x'; 20 << 20]].concat();
    [&small[..33], &chunk(*b"tEXt", &text), &small[33..]].concat()
}

fn put(client: &mut Client, name: &str, content: Vec<u8>) {
    let answer = client.put(&format!("/dav/ana/{name}"), content).expect("answers");
    assert!([201, 204].contains(&answer.status), "{name}: {}", answer.status);
}

fn thumbnail(client: &mut Client, name: &str) -> Response {
    call(client, "GET", &format!("/api/v1/thumbnails/ana/{name}"), None)
}

fn size_of(answer: &Response) -> (u32, u32) {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let picture = image::load_from_memory_with_format(&answer.body, ImageFormat::Jpeg).expect("is a JPEG");
    (picture.width(), picture.height())
}

/// Processor time in ticks of each worker of a server, by its id.
fn workers(server: &TestServer) -> Vec<(i32, u64)> {
    let entries = std::fs::read_dir("/proc").expect("is there");
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    ids.filter_map(|id| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let is_ours = fields[1] == server.pid().to_string() && fields[0] != "Z";
        is_ours.then(|| fields[11].parse().ok()).flatten().map(|ticks| (id, ticks))
    })
    .collect()
}

#[test]
fn a_picture_has_thumbnails_of_two_sizes_and_a_client_that_has_them_is_told_so() {
    let drive = Drive::new();
    let server = drive.start();
    let mut ana = server.client_of("ana", PASSWORD);
    put(&mut ana, "photo.jpg", photo(1, 3_000, 2_000));
    let small = thumbnail(&mut ana, "photo.jpg");
    assert_eq!(size_of(&small), (256, 171));
    assert_eq!(size_of(&thumbnail(&mut ana, "photo.jpg?size=1024")), (1024, 683));
    let header = |name: &str| small.header(name).unwrap_or_default().to_owned();
    assert_eq!(header("content-type"), "image/jpeg");
    assert_eq!(header("cache-control"), "private, no-cache");
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert!(header("content-security-policy").contains("sandbox"));
    let again = |tag: &str| {
        Request::with_target("GET", "/api/v1/thumbnails/ana/photo.jpg").header("if-none-match", tag.to_owned())
    };
    let known = ana.send(&again(&header("etag"))).expect("answers");
    assert_eq!((known.status, known.body.len(), known.header("etag")), (304, 0, small.header("etag")));
    // Renamed, it is the same picture; written anew, another.
    call(
        &mut ana,
        "POST",
        "/api/v1/move",
        Some(
            &json!({"items": [{"from": {"space": "ana", "path": "/photo.jpg"}, "to": {"space": "ana", "path": "/p.jpg"}}], "conflict": "fail"}),
        ),
    );
    assert_eq!(thumbnail(&mut ana, "p.jpg").header("etag"), small.header("etag"));
    put(&mut ana, "p.jpg", photo(2, 3_000, 2_000));
    let other = thumbnail(&mut ana, "p.jpg");
    assert!(other.status == 200 && other.header("etag") != small.header("etag") && other.body != small.body);
}

#[test]
fn what_is_no_picture_has_none_and_nobody_sees_what_they_may_not_read() {
    let drive = Drive::new();
    let server = drive.start();
    let mut ana = server.client_of("ana", PASSWORD);
    put(&mut ana, "photo.jpg", photo(1, 300, 200));
    put(&mut ana, "notes.txt", b"text".to_vec());
    put(&mut ana, "empty.png", Vec::new());
    assert_eq!(ana.mkcol("/dav/ana/folder.jpg").expect("answers").status, 201);
    for (path, status) in [
        ("notes.txt", 404),
        ("empty.png", 404),
        ("nothing.png", 404),
        ("folder.jpg", 409),
        ("photo.jpg?size=9000", 400),
        ("photo.jpg?size=x", 400),
        ("photo.jpg?width=256", 400),
    ] {
        assert_eq!(thumbnail(&mut ana, path).status, status, "{path}");
    }
    assert_eq!(thumbnail(&mut server.client_of("ben", OTHER_PASSWORD), "photo.jpg").status, 404);
    assert_eq!(thumbnail(&mut server.client(), "photo.jpg").status, 401);
    drop(server);
    let server = drive.start_with(&[], &[("HOLDFAST_THUMBNAILS__WORKERS", "0")]);
    let mut ana = server.client_of("ana", PASSWORD);
    assert_eq!(thumbnail(&mut ana, "photo.jpg").status, 404, "none are made");
}

#[test]
fn hostile_pictures_have_none_and_do_no_harm() {
    let drive = Drive::new();
    let server = drive.start();
    let mut ana = server.client_of("ana", PASSWORD);
    let good = photo(1, 600, 400);
    put(&mut ana, "good.jpg", good.clone());
    assert_eq!(thumbnail(&mut ana, "good.jpg").status, 200);
    let before = server.rss_peak().expect("is running");
    let png = encoded(&DynamicImage::ImageRgb8(RgbImage::new(900, 900)), ImageFormat::Png);
    let gif_bomb =
        [b"GIF89a".as_slice(), &[0xff, 0xff, 0xff, 0xff, 0xf7, 0, 0], &[0; 768], b"\x2c\0\0\0\0\xff\xff\xff\xff\0\x08"]
            .concat();
    for (name, content) in [
        ("bomb.png", bomb(60_000, 60_000)),
        ("larger.png", bomb(u32::MAX / 2, u32::MAX / 2)),
        ("within.png", bomb(8_000, 8_000)),
        ("bomb.gif", gif_bomb),
        ("cut.png", png[..png.len() / 2].to_vec()),
        ("cut.jpg", good[..200].to_vec()),
        ("garbage.jpg", (0..100_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0]).collect()),
        ("page.png", b"<html><script>alert(1)</script></html>".to_vec()),
        ("riff.webp", [b"RIFF\xff\xff\xff\xffWEBPVP8X".as_slice(), &[0xff; 64]].concat()),
        ("long.jpg", vec![0xff; 33 << 20]),
    ] {
        put(&mut ana, name, content);
        let answer = thumbnail(&mut ana, name);
        assert_eq!(answer.status, 404, "{name}");
        assert!(answer.text().contains("no thumbnail"), "{name}: {}", answer.text());
        assert_eq!(thumbnail(&mut ana, name).status, 404, "{name}, remembered");
    }
    put(&mut ana, "text.png", with_text());
    let text = thumbnail(&mut ana, "text.png").status;
    assert!([200, 404].contains(&text), "a long text: {text}");
    let grown = server.rss_peak().expect("is running").saturating_sub(before);
    assert!(grown < 160 << 20, "the server grew by {} MiB", grown >> 20);
    put(&mut ana, "good.jpg", photo(2, 600, 400));
    assert_eq!(thumbnail(&mut ana, "good.jpg").status, 200);
    assert!(workers(&server).len() <= 2);
}

#[test]
fn a_worker_that_is_killed_in_the_middle_is_replaced() {
    let drive = Drive::new();
    let server = drive.start();
    let mut ana = server.client_of("ana", PASSWORD);
    put(&mut ana, "small.jpg", photo(1, 60, 40));
    put(&mut ana, "slow.png", slow_picture());
    assert_eq!(thumbnail(&mut ana, "small.jpg").status, 200);
    let [(id, began)] = workers(&server)[..] else { panic!("there is one worker") };
    let asking = std::thread::spawn({
        let mut ana = server.client_of("ana", PASSWORD);
        move || thumbnail(&mut ana, "slow.png")
    });
    let until = Instant::now() + Duration::from_secs(20);
    while workers(&server).iter().any(|(worker, ticks)| *worker == id && *ticks < began + 3) {
        assert!(Instant::now() < until, "the worker does not work");
        std::thread::sleep(Duration::from_millis(2));
    }
    let pid = rustix::process::Pid::from_raw(id).expect("an id");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("is there");
    assert_eq!(size_of(&asking.join().expect("answers")), (256, 256));
    assert!(workers(&server).iter().all(|(worker, _)| *worker != id));
}

#[test]
fn two_hundred_at_once_are_answered_or_told_to_come_back() {
    const REQUESTS: u8 = 200;
    let drive = Drive::new();
    let server = drive.start();
    let mut ana = server.client_of("ana", PASSWORD);
    for seed in 0..REQUESTS {
        put(&mut ana, &format!("{seed}.jpg"), photo(seed, 640, 480));
    }
    let asking: Vec<_> = (0..REQUESTS)
        .map(|seed| {
            let mut client = server.client_of("ana", PASSWORD);
            std::thread::spawn(move || thumbnail(&mut client, &format!("{seed}.jpg")))
        })
        .collect();
    let answers: Vec<Response> = asking.into_iter().map(|thread| thread.join().expect("answers")).collect();
    for answer in &answers {
        match answer.status {
            200 => assert_eq!(size_of(answer), (256, 192)),
            503 => assert!(answer.header("retry-after").is_some()),
            other => panic!("{other}: {}", answer.text()),
        }
    }
    assert!(answers.iter().any(|answer| answer.status == 200));
    assert!(workers(&server).len() <= 2, "{:?}", workers(&server));
    // Nothing is left of the crowd: each is to be had.
    for seed in (0..REQUESTS).step_by(20) {
        assert_eq!(thumbnail(&mut ana, &format!("{seed}.jpg")).status, 200);
    }
}

#[test]
fn a_worker_can_do_nothing_but_work() {
    let drive = Drive::empty();
    let output = drive.options.command().expect("is built").args(["thumbnail-worker", "--prove"]).env_clear().output();
    let output = output.expect("runs");
    let attempts: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).expect("is JSON");
    assert!(attempts.len() >= 12);
    for attempt in &attempts {
        assert_eq!(attempt["refused"], true, "{attempt}");
    }
    assert!(output.status.success());
    assert!(!drive.ok(&["--help"], "").contains("thumbnail-worker"), "it is not for people");
}

#[test]
fn a_link_shows_thumbnails_but_not_where_downloads_are_counted_and_not_into_a_drop_box() {
    let mut stage = Stage::new();
    let answer = stage.ana.put("/dav/ana/private/trip/p.jpg", photo(1, 600, 300)).expect("answers");
    assert_eq!(answer.status, 201);
    let path = "/thumbnails/link/p.jpg";
    let share = stage.share(&json!({"access": "read"}));
    let mut visitor = stage.opened(&share);
    assert_eq!(size_of(&visitor.get(path)), (256, 128));
    assert_eq!(visitor.get("/thumbnails/ana/private/trip/p.jpg").status, 404);
    let counted = stage.share(&json!({"access": "read", "downloads_max": 5}));
    let mut visitor = stage.opened(&counted);
    assert_eq!(visitor.get(path).status, 403);
    assert_eq!(json(&visitor.get("/session"), 200)["downloads_left"], 5);
    let drop_box = stage.share(&json!({"access": "upload"}));
    assert_eq!(stage.opened(&drop_box).get(path).status, 403);
}
