//! Against a real service, and a proxy that does harm.

use super::*;
use crate::Options;
use crate::options::Links;
use crate::other::testing::{assert_same, done, goes_there_and_comes_back, local, moved, moved_until, options, random};
use holdfast_auth::Secret as Password;
use holdfast_testkit::services::proxy::{Fault, Proxy, Request};
use holdfast_testkit::services::seaweed::Seaweed;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;

fn seaweed() -> &'static Seaweed {
    static SEAWEED: OnceLock<std::io::Result<Seaweed>> = OnceLock::new();
    SEAWEED.get_or_init(Seaweed::start).as_ref().unwrap_or_else(|error| panic!("SeaweedFS must start: {error}"))
}

/// A folder of the bucket that no other test has.
fn folder() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("test {}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn login(endpoint: String, secret: &str) -> Login {
    Login {
        user: Some(Seaweed::ACCESS_KEY_ID.into()),
        password: Some(Password::new(secret)),
        endpoint: Some(endpoint),
        ..Login::default()
    }
}

fn opened(bucket: &str, endpoint: String, secret: &str, journals: &std::path::Path) -> Arc<dyn Site> {
    let url = SiteUrl::parse(&format!("s3://{bucket}/")).expect("an address");
    let mut site = S3Site::new(&url, &login(endpoint, secret)).expect("opens");
    Arc::get_mut(&mut site.inner).expect("nobody else has it").journals = Some(journals.to_owned());
    Arc::new(site)
}

struct Rig {
    site: Arc<dyn Site>,
    here: tempfile::TempDir,
    journals: tempfile::TempDir,
    at: String,
}

impl Rig {
    fn new() -> Self {
        let (here, journals) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let site = opened(Seaweed::BUCKET, seaweed().endpoint(), Seaweed::SECRET_ACCESS_KEY, journals.path());
        Self { site, here, journals, at: folder() }
    }

    /// With a proxy before the service.
    fn through_a_proxy() -> (Self, Arc<Proxy>) {
        let proxy = Arc::new(Proxy::start(seaweed().s3_port).expect("a proxy"));
        let rig = Self::new();
        let site = opened(Seaweed::BUCKET, proxy.url(), Seaweed::SECRET_ACCESS_KEY, rig.journals.path());
        (Self { site, ..rig }, proxy)
    }

    fn source(&self) -> Arc<dyn Site> {
        local(self.here.path())
    }

    fn path(&self, name: &str) -> DrivePath {
        DrivePath::parse(&format!("{}/{name}", self.at)).expect("a path")
    }

    async fn put(&self, key: &str, bytes: &[u8]) {
        let url = SiteUrl::parse(&format!("s3://{}/", Seaweed::BUCKET)).expect("an address");
        let site = S3Site::new(&url, &login(seaweed().endpoint(), Seaweed::SECRET_ACCESS_KEY)).expect("opens");
        let body =
            body_of(&site.inner.bucket, vec![Bytes::copy_from_slice(bytes)], &Moving::default()).await.expect("sums");
        let call = holdfast_blob::s3::Call::new(http::Method::PUT).key(&format!("{}/{key}", self.at)).body(body);
        let reply = site.inner.bucket.send(call).await.expect("puts");
        assert!(reply.answer.status.is_success(), "{key}: {}", reply.answer.status);
    }
}

fn is_part(request: &Request) -> bool {
    request.method == "PUT" && request.path.contains("partNumber")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_goes_to_a_bucket_and_comes_back_and_a_second_run_moves_nothing() {
    let rig = Rig::new();
    goes_there_and_comes_back(&rig.site, &rig.at, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_objects_of_one_folder_are_listed_in_pages() {
    let rig = Rig::new();
    for number in 0..3_000 {
        std::fs::write(rig.here.path().join(format!("f{number}")), number.to_string()).expect("writes");
    }
    assert_eq!(done((&rig.source(), "/"), (&rig.site, &rig.at), options()).await.files, 3_000);
    let counts = done((&rig.source(), "/"), (&rig.site, &rig.at), options()).await;
    assert_eq!((counts.files, counts.same), (0, 3_000));
    let back = tempfile::tempdir().expect("a folder");
    done((&rig.site, &rig.at), (&local(back.path()), "/"), options()).await;
    assert_same(rig.here.path(), back.path(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_that_ended_in_the_middle_sends_only_what_is_missing() {
    let (rig, proxy) = Rig::through_a_proxy();
    std::fs::write(rig.here.path().join("large"), random(1, 121 << 20)).expect("writes");
    let parts = |proxy: &Proxy| proxy.seen().iter().filter(|request| is_part(request)).count();
    {
        let source = rig.source();
        let pushing = moved((&source, "/"), (&rig.site, &rig.at), options());
        let until = async {
            // Four are sent side by side, so five have arrived.
            while parts(&proxy) < 9 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        // Dropped on the spot, as a kill does it.
        tokio::select! { _ = pushing => panic!("it was done too soon"), () = until => {} }
    }
    let before = parts(&proxy);
    let site = opened(Seaweed::BUCKET, proxy.url(), Seaweed::SECRET_ACCESS_KEY, rig.journals.path());
    let counts = done((&rig.source(), "/"), (&site, &rig.at), options()).await;
    let all = parts(&proxy);
    println!("{before} parts were begun before the end, {} after it, {} bytes stood", all - before, counts.stood_bytes);
    // Of those begun all but four were there, in whatever order they came to an end, and were not sent again.
    assert!((16 - before..=16 - (before - 4)).contains(&(all - before)), "{} of 16", all - before);
    let back = tempfile::tempdir().expect("a folder");
    done((&rig.site, &rig.at), (&local(back.path()), "/"), options()).await;
    assert_same(rig.here.path(), back.path(), 1);
    assert_eq!(std::fs::read_dir(rig.journals.path()).expect("lists").count(), 0, "its journal is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_that_was_stopped_goes_on_and_its_sum_is_of_all() {
    let rig = Rig::new();
    std::fs::write(rig.here.path().join("large"), random(2, 8 << 20)).expect("writes");
    done((&rig.source(), "/"), (&rig.site, &rig.at), options()).await;
    let back = tempfile::tempdir().expect("a folder");
    let (stop, stopping) = watch::channel(false);
    let destination = local(back.path());
    let slow = Options { rate: Some(2 << 20), ..options() };
    let pulling = moved_until((&rig.site, &rig.at), (&destination, "/"), slow, stopping);
    let until = async {
        let part = || {
            std::fs::read_dir(back.path()).expect("lists").flatten().any(|entry| {
                entry.file_name().to_string_lossy().ends_with(".part")
                    && entry.metadata().is_ok_and(|about| about.len() > 3 << 20)
            })
        };
        while !part() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        stop.send_replace(true);
    };
    let (report, ()) = tokio::join!(pulling, until);
    assert!(report.expect("stops").stopped);
    let counts = done((&rig.site, &rig.at), (&destination, "/"), options()).await;
    assert!(counts.stood_bytes >= 2 << 20, "{}", counts.stood_bytes);
    assert_same(rig.here.path(), back.path(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_secret_ends_all_and_a_missing_bucket_is_named() {
    let rig = Rig::new();
    let back = tempfile::tempdir().expect("a folder");
    for (bucket, secret, kind) in [
        (Seaweed::BUCKET, "wrong", ErrorKind::Unauthenticated),
        ("missing", Seaweed::SECRET_ACCESS_KEY, ErrorKind::NotFound),
    ] {
        let site = opened(bucket, seaweed().endpoint(), secret, rig.journals.path());
        let error = moved((&site, "/"), (&local(back.path()), "/"), options()).await.expect_err("refused");
        assert_eq!(error.kind(), kind, "{error:?}");
        std::fs::write(rig.here.path().join("f"), b"f").expect("writes");
        let error = moved((&rig.source(), "/"), (&site, "/"), options()).await.expect_err("refused");
        assert_eq!(error.kind(), kind, "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_breaks_on_the_way_is_asked_for_again_and_what_is_changed_on_it_is_found_out() {
    let (rig, proxy) = Rig::through_a_proxy();
    std::fs::write(rig.here.path().join("large"), random(3, 20 << 20)).expect("writes");
    std::fs::write(rig.here.path().join("small"), random(4, 100_000)).expect("writes");
    proxy.on(1, Fault::ChangeRequest(1_000), is_part);
    proxy.on(1, Fault::CutBefore, is_part);
    proxy.on(1, Fault::Answer(503, "Retry-After: 1\r\n", "<Error><Code>SlowDown</Code></Error>"), |request| {
        request.method == "PUT" && request.path.ends_with("small")
    });
    done((&rig.source(), "/"), (&rig.site, &rig.at), options()).await;
    proxy.clear();
    proxy.on(2, Fault::CutBodyAfter(1_000_000), |request| request.method == "GET" && request.path.ends_with("large"));
    proxy.on(1, Fault::ChangeAnswer(5_000), |request| request.method == "GET" && request.path.ends_with("small"));
    let back = tempfile::tempdir().expect("a folder");
    done((&rig.site, &rig.at), (&local(back.path()), "/"), options()).await;
    assert_same(rig.here.path(), back.path(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_was_lost_is_no_second_object_and_no_failure() {
    let (rig, proxy) = Rig::through_a_proxy();
    std::fs::write(rig.here.path().join("large"), random(5, 20 << 20)).expect("writes");
    std::fs::write(rig.here.path().join("small"), random(6, 1_000)).expect("writes");
    proxy.on(1, Fault::CutAnswer, |request| request.method == "PUT" && request.path.ends_with("small"));
    proxy.on(1, Fault::CutAnswer, |request| request.method == "POST" && request.path.contains("uploadId"));
    let counts = done((&rig.source(), "/"), (&rig.site, &rig.at), options()).await;
    assert_eq!(counts.same + counts.files, 2);
    let back = tempfile::tempdir().expect("a folder");
    done((&rig.site, &rig.at), (&local(back.path()), "/"), options()).await;
    assert_same(rig.here.path(), back.path(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_lies_about_lengths_gives_no_file() {
    let (rig, proxy) = Rig::through_a_proxy();
    std::fs::write(rig.here.path().join("f"), random(7, 100_000)).expect("writes");
    done((&rig.source(), "/"), (&rig.site, &rig.at), options()).await;
    for fault in [Fault::ShortenAnswer(10), Fault::LengthenAnswer(10)] {
        proxy.clear();
        proxy.on(1_000, fault.clone(), |request| request.method == "GET" && request.path.ends_with("/f"));
        let back = tempfile::tempdir().expect("a folder");
        let impatient = Options { retry_for: Duration::from_secs(1), ..options() };
        let report = moved((&rig.site, &rig.at), (&local(back.path()), "/"), impatient).await.expect("ends");
        assert_eq!(report.counts.failed, 1, "{fault:?}");
        assert!(!back.path().join("f").exists(), "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_changes_while_it_is_read_is_never_mixed() {
    let rig = Rig::new();
    rig.put("f", &random(8, 6 << 20)).await;
    let item = rig.site.look(&rig.path("f")).await.expect("looks").expect("is there");
    let content = rig.site.open(&rig.path("f"), &item).await.expect("opens");
    let first = holdfast_base::ByteRange { start: 0, end: 1_000 };
    assert_eq!(content.read(first).await.expect("reads").len(), 1_000);
    rig.put("f", &random(9, 6 << 20)).await;
    assert_eq!(content.read(first).await.expect_err("changed").kind(), ErrorKind::PreconditionFailed);
    assert_eq!(
        rig.site.remove(&rig.path("f"), &item).await.expect_err("changed").kind(),
        ErrorKind::PreconditionFailed
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_put_there_is_not_replaced() {
    let rig = Rig::new();
    for size in [100, 20 << 20] {
        rig.put("f", b"theirs").await;
        let bytes = Bytes::from(random(10, size));
        let wanted = |replaces| Wanted {
            path: rig.path("f"),
            size: size as u64,
            modified_ns: Some(7),
            mode: None,
            key: format!("key {size}"),
            replaces,
            tags: Vec::new(),
        };
        let item = rig.site.look(&rig.path("f")).await.expect("looks").expect("is there");
        assert_eq!(
            stored_at(&rig.site, &wanted(None), &bytes).await.expect_err("taken").kind(),
            ErrorKind::PreconditionFailed
        );
        rig.put("f", b"theirs, changed").await;
        let outcome = stored_at(&rig.site, &wanted(Some(item)), &bytes).await;
        assert_eq!(outcome.expect_err("changed").kind(), ErrorKind::PreconditionFailed);
        let item = rig.site.look(&rig.path("f")).await.expect("looks").expect("is there");
        let made = stored_at(&rig.site, &wanted(Some(item)), &bytes).await.expect("replaces");
        let now = rig.site.look(&rig.path("f")).await.expect("looks").expect("is there");
        assert_eq!((now.version, now.size, now.modified_ns), (made.version, size as u64, Some(7)));
    }
}

async fn stored_at(site: &Arc<dyn Site>, wanted: &Wanted, bytes: &Bytes) -> Result<Item> {
    let mut incoming = site.begin(wanted).await?;
    let mut rest = bytes.slice(usize::try_from(incoming.stands_at()).expect("small")..);
    while !rest.is_empty() {
        let next = rest.split_to(rest.len().min(usize::try_from(incoming.grain()).expect("small")));
        incoming.write(next).await?;
    }
    incoming.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn links_are_refused_or_left_out() {
    let rig = Rig::new();
    std::os::unix::fs::symlink("elsewhere", rig.here.path().join("link")).expect("links");
    let report = moved((&rig.source(), "/"), (&rig.site, &rig.at), options()).await.expect("ends");
    assert_eq!((report.counts.failed, report.failures[0].kind), (1, ErrorKind::Unsupported));
    done((&rig.source(), "/"), (&rig.site, &rig.at), Options { links: Links::Skip, ..options() }).await;
}
