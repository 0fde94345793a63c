//! Against Apache, the drive's own WebDAV, and a proxy that does harm.

use super::*;
use crate::Options;
use crate::other::testing::{assert_same, done, goes_there_and_comes_back, local, moved, options, random};
use holdfast_auth::Secret;
use holdfast_testkit::server::ServerOptions;
use holdfast_testkit::services::apache::Apache;
use holdfast_testkit::services::proxy::{Fault, Proxy};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn apache() -> &'static Apache {
    static APACHE: OnceLock<std::io::Result<Apache>> = OnceLock::new();
    APACHE.get_or_init(Apache::start).as_ref().unwrap_or_else(|error| panic!("Apache must start: {error}"))
}

fn folder() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("test {}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn login(password: &str) -> Login {
    Login { user: Some(Apache::USER.into()), password: Some(Secret::new(password)), ..Login::default() }
}

async fn opened(port: u16, login: &Login) -> Arc<dyn Site> {
    let url = SiteUrl::parse(&format!("http://127.0.0.1:{port}/")).expect("an address");
    Arc::new(DavSite::destination(&url, login).await.expect("opens").0)
}

async fn site() -> Arc<dyn Site> {
    opened(apache().port, &login(Apache::PASSWORD)).await
}

fn here() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_goes_to_apache_and_comes_back_and_a_second_run_moves_nothing() {
    goes_there_and_comes_back(&site().await, &folder(), 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_files_of_one_folder_are_listed() {
    let (here, back, at, site) = (here(), here(), folder(), site().await);
    for number in 0..3_000 {
        std::fs::write(here.path().join(format!("f{number}")), number.to_string()).expect("writes");
    }
    done((&local(here.path()), "/"), (&site, &at), options()).await;
    assert_eq!(done((&local(here.path()), "/"), (&site, &at), options()).await.same, 3_000);
    done((&site, &at), (&local(back.path()), "/"), options()).await;
    assert_same(here.path(), back.path(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_ends_all() {
    let url = SiteUrl::parse(&format!("http://127.0.0.1:{}/", apache().port)).expect("an address");
    let error = DavSite::destination(&url, &login("wrong")).await.err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{error:?}");
    let (site, path) = DavSite::source(&url, &login("wrong")).expect("an address");
    let error =
        moved((&(Arc::new(site) as Arc<dyn Site>), &path.to_string()), (&local(here().path()), "/"), options()).await;
    assert_eq!(error.expect_err("refused").kind(), ErrorKind::Unauthenticated);
    let elsewhere = SiteUrl::parse("http://dav.example.org/x").expect("an address");
    assert_eq!(DavSite::source(&elsewhere, &login("x")).err().expect("plain").kind(), ErrorKind::InvalidInput);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_wants_a_digest_gets_one_and_a_wrong_password_ends_all() {
    let apache = Apache::start_with_digest().expect("Apache must start");
    let site = opened(apache.port, &login(Apache::PASSWORD)).await;
    goes_there_and_comes_back(&site, &folder(), 1).await;
    let url = SiteUrl::parse(&format!("http://127.0.0.1:{}/", apache.port)).expect("an address");
    let error = DavSite::destination(&url, &login("wrong")).await.err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_breaks_on_the_way_begins_anew_and_leaves_nothing_behind() {
    let (here, back, at) = (here(), here(), folder());
    let proxy = Proxy::start(apache().port).expect("a proxy");
    let site = opened(proxy.port(), &login(Apache::PASSWORD)).await;
    std::fs::write(here.path().join("large"), random(1, 12 << 20)).expect("writes");
    proxy.on(1, Fault::CutBefore, |request| request.method == "PUT");
    proxy.on(1, Fault::CutAnswer, |request| request.method == "MOVE");
    proxy.on(1, Fault::Answer(503, "", ""), |request| request.method == "PROPPATCH");
    done((&local(here.path()), "/"), (&site, &at), options()).await;
    proxy.clear();
    proxy.on(2, Fault::CutBodyAfter(500_000), |request| request.method == "GET");
    done((&site, &at), (&local(back.path()), "/"), options()).await;
    assert_same(here.path(), back.path(), 1);
    let there: Vec<_> = std::fs::read_dir(apache().files().join(&at))
        .expect("lists")
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert!(there.iter().all(|name| name == "large" || name == ".DAV"), "{there:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_that_ended_is_begun_anew_and_its_part_is_removed_when_another_version_comes() {
    let (here, back, at, site) = (here(), here(), folder(), site().await);
    let file = here.path().join("large");
    std::fs::write(&file, random(2, 30 << 20)).expect("writes");
    let parts = || {
        let entries = std::fs::read_dir(apache().files().join(&at)).into_iter().flatten().flatten();
        entries.filter(|entry| is_part(&entry.file_name().to_string_lossy())).count()
    };
    {
        let source = local(here.path());
        let slow = Options { rate: Some(8 << 20), ..options() };
        let pushing = moved((&source, "/"), (&site, &at), slow);
        let until = async {
            while parts() == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! { _ = pushing => panic!("it was done too soon"), () = until => {} }
    }
    std::fs::write(&file, random(3, 29 << 20)).expect("writes");
    let again = self::site().await;
    done((&local(here.path()), "/"), (&again, &at), options()).await;
    assert_eq!(parts(), 0);
    done((&again, &at), (&local(back.path()), "/"), options()).await;
    assert_same(here.path(), back.path(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_changes_is_never_mixed_and_what_somebody_else_put_there_is_not_replaced() {
    let (at, site) = (folder(), site().await);
    let path = DrivePath::parse(&format!("{at}/f")).expect("a path");
    site.make_folder(&path.parent().expect("a folder")).await.expect("makes");
    let put = |bytes: &'static [u8], replaces| {
        let (site, path) = (Arc::clone(&site), path.clone());
        async move {
            let key = format!("{bytes:?}");
            let file = Wanted {
                path,
                size: bytes.len() as u64,
                modified_ns: Some(7),
                mode: None,
                key,
                replaces,
                tags: Vec::new(),
            };
            let mut incoming = site.begin(&file).await?;
            incoming.write(bytes.into()).await?;
            incoming.finish().await
        }
    };
    let first = put(b"first", None).await.expect("puts");
    assert_eq!(first.modified_ns, Some(7));
    assert_eq!(put(b"other", None).await.expect_err("taken").kind(), ErrorKind::PreconditionFailed);
    let content = site.open(&path, &first).await.expect("opens");
    put(b"second", Some(first.clone())).await.expect("replaces");
    assert_eq!(put(b"third", Some(first.clone())).await.expect_err("changed").kind(), ErrorKind::PreconditionFailed);
    let range = holdfast_base::ByteRange { start: 0, end: 5 };
    assert_eq!(content.read(range).await.expect_err("changed").kind(), ErrorKind::PreconditionFailed);
    assert_eq!(site.remove(&path, &first).await.expect_err("changed").kind(), ErrorKind::PreconditionFailed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_lies_about_lengths_gives_no_file() {
    let (here, at) = (here(), folder());
    let proxy = Proxy::start(apache().port).expect("a proxy");
    let site = opened(proxy.port(), &login(Apache::PASSWORD)).await;
    std::fs::write(here.path().join("f"), random(4, 100_000)).expect("writes");
    done((&local(here.path()), "/"), (&site, &at), options()).await;
    for fault in [Fault::ShortenAnswer(10), Fault::LengthenAnswer(10)] {
        proxy.clear();
        proxy.on(1_000, fault.clone(), |request| request.method == "GET");
        let back = self::here();
        let impatient = Options { retry_for: Duration::from_secs(1), ..options() };
        let report = moved((&site, &at), (&local(back.path()), "/"), impatient).await.expect("ends");
        assert_eq!(report.counts.failed, 1, "{fault:?}");
        assert!(!back.path().join("f").exists(), "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_keeps_no_times_is_compared_by_size_and_by_when_it_stored_a_file() {
    let (here, at) = (here(), folder());
    let proxy = Proxy::start(apache().port).expect("a proxy");
    proxy.on(1_000, Fault::Answer(403, "", ""), |request| request.method == "PROPPATCH");
    let site = opened(proxy.port(), &login(Apache::PASSWORD)).await;
    let file = here.path().join("f");
    std::fs::write(&file, b"first").expect("writes");
    let long_ago = std::time::SystemTime::now() - Duration::from_hours(1);
    std::fs::File::options().write(true).open(&file).expect("opens").set_modified(long_ago).expect("sets");
    assert_eq!(done((&local(here.path()), "/"), (&site, &at), options()).await.files, 1);
    assert_eq!(done((&local(here.path()), "/"), (&site, &at), options()).await.same, 1);
    let later = std::time::SystemTime::now() + Duration::from_mins(1);
    std::fs::File::options().write(true).open(&file).expect("opens").set_modified(later).expect("sets");
    assert_eq!(done((&local(here.path()), "/"), (&site, &at), options()).await.files, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_goes_to_a_drive_over_webdav_and_comes_back() {
    let folder = here();
    let server = ServerOptions::new(folder.path().join("data"));
    server.add_account("ann", "flat-otter-mends-violet-kettle").expect("makes");
    let server = server.start().expect("starts");
    let url = SiteUrl::parse(&format!("{}/dav/ann/", server.url())).expect("an address");
    let site = DavSite::destination(&url, &login("flat-otter-mends-violet-kettle")).await.expect("opens").0;
    // The header has whole seconds.
    goes_there_and_comes_back(&(Arc::new(site) as Arc<dyn Site>), "/", 1_000_000_000).await;
}
