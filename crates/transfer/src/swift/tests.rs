//! Against a real service, and a proxy that does harm.

use super::*;
use crate::Options;
use crate::other::testing::{assert_same, done, goes_there_and_comes_back, local, moved, options, random};
use holdfast_auth::Secret;
use holdfast_testkit::services::ask;
use holdfast_testkit::services::swift::{Swift as Service, SwiftOptions as ServiceOptions};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn service() -> &'static Service {
    static SWIFT: OnceLock<std::io::Result<Service>> = OnceLock::new();
    let started = SWIFT.get_or_init(|| Service::start(ServiceOptions::default()));
    started.as_ref().unwrap_or_else(|error| panic!("Swift must start: {error}"))
}

fn folder() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("test {}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn opened(container: &str, key: &str) -> Arc<dyn Site> {
    let url = SiteUrl::parse(&format!("swift://{container}/")).expect("an address");
    let login = Login {
        user: Some(Service::USER.into()),
        password: Some(Secret::new(key)),
        endpoint: Some(service().auth_url()),
        ..Login::default()
    };
    Arc::new(SwiftSite::new(&url, &login).expect("opens"))
}

fn site() -> Arc<dyn Site> {
    opened(Service::CONTAINER, Service::KEY)
}

fn here() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Segments that the service has of an object.
fn segments(path: &str) -> usize {
    let credentials = [("X-Auth-User", Service::USER), ("X-Auth-Key", Service::KEY)];
    let (_, answer) = ask(service().port, "GET", "/auth/v1.0", &credentials).expect("signs in");
    let line = answer.lines().find(|line| line.to_ascii_lowercase().starts_with("x-auth-token:")).expect("a token");
    let token = line.split_once(':').expect("a header").1.trim().to_owned();
    let prefix = outgoing::segments_of(path);
    let list = format!("/v1/AUTH_test/{}_segments?prefix={prefix}", Service::CONTAINER);
    let (_, answer) = ask(service().port, "GET", &list, &[("X-Auth-Token", &token)]).expect("answers");
    answer.lines().filter(|line| line.starts_with(&prefix)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_goes_to_a_container_and_comes_back_and_a_second_run_moves_nothing() {
    goes_there_and_comes_back(&site(), &folder(), 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_one_folder_are_listed_in_pages() {
    let (here, back, at, site) = (here(), here(), folder(), site());
    for number in 0..1_200 {
        std::fs::write(here.path().join(format!("f{number}")), number.to_string()).expect("writes");
    }
    let patient = || Options { retry_for: Duration::from_mins(2), stall: Duration::from_mins(2), ..options() };
    done((&local(here.path()), "/"), (&site, &at), patient()).await;
    assert_eq!(done((&local(here.path()), "/"), (&site, &at), patient()).await.same, 1_200);
    done((&site, &at), (&local(back.path()), "/"), patient()).await;
    assert_same(here.path(), back.path(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_that_ended_keeps_its_segments_and_those_of_another_content_go() {
    let (here, back, at) = (here(), here(), folder());
    let key = format!("{at}/large");
    let file = here.path().join("large");
    std::fs::write(&file, random(1, 41 << 20)).expect("writes");
    {
        let (source, site) = (local(here.path()), site());
        let slow = Options { rate: Some(16 << 20), ..options() };
        let pushing = moved((&source, "/"), (&site, &at), slow);
        let until = async {
            while segments(&key) < 2 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        // Dropped on the spot, as a kill does it.
        tokio::select! { _ = pushing => panic!("it was done too soon"), () = until => {} }
    }
    let counts = done((&local(here.path()), "/"), (&site(), &at), options()).await;
    println!("{} bytes stood", counts.stood_bytes);
    assert!(counts.stood_bytes >= 8 << 20, "{}", counts.stood_bytes);
    done((&site(), &at), (&local(back.path()), "/"), options()).await;
    assert_same(here.path(), back.path(), 1);
    assert_eq!(segments(&key), 6);
    std::fs::write(&file, random(2, 17 << 20)).expect("writes");
    done((&local(here.path()), "/"), (&site(), &at), options()).await;
    assert_eq!(segments(&key), 3);
    std::fs::write(&file, b"small").expect("writes");
    done((&local(here.path()), "/"), (&site(), &at), options()).await;
    assert_eq!(segments(&key), 0);
    done((&site(), &at), (&local(back.path()), "/"), options()).await;
    assert_same(here.path(), back.path(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_key_ends_all_and_a_missing_container_is_named() {
    for (container, key, kind) in
        [(Service::CONTAINER, "wrong", ErrorKind::Unauthenticated), ("missing", Service::KEY, ErrorKind::NotFound)]
    {
        let error = moved((&opened(container, key), "/"), (&local(here().path()), "/"), options()).await;
        let error = error.expect_err("refused");
        assert_eq!(error.kind(), kind, "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_changes_is_never_mixed_and_what_somebody_else_put_there_is_not_replaced() {
    let (at, site) = (folder(), site());
    let path = DrivePath::parse(&format!("{at}/f")).expect("a path");
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
