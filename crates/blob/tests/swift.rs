//! The Swift store against a real service: OpenStack Swift, all in one.

mod support;

use holdfast_base::ErrorKind;
use holdfast_blob::swift::{Auth, SwiftOptions, open};
use holdfast_blob::{BlobStore, PackEntry, Secret};
use holdfast_testkit::services::ask;
use holdfast_testkit::services::identity::Identity;
use holdfast_testkit::services::proxy::Proxy;
use holdfast_testkit::services::swift::{Swift, SwiftOptions as ServiceOptions};
use std::sync::Arc;
use std::time::Duration;
use support::{assert_holds, content, name, now, parts, swift, swift_options};

async fn opened(options: SwiftOptions) -> impl BlobStore {
    open(&options).await.expect("opens")
}

mod conformance {
    use super::*;
    holdfast_blob::conformance_suite!(|| ((), now(opened(swift_options(None)))));
}

/// A token of the test's own.
fn token() -> String {
    let credentials = [("X-Auth-User", Swift::USER), ("X-Auth-Key", Swift::KEY)];
    let (_, answer) = ask(swift().port, "GET", "/auth/v1.0", &credentials).expect("signs in");
    let line = answer.lines().find(|line| line.to_ascii_lowercase().starts_with("x-auth-token:")).expect("a token");
    line.split_once(':').expect("a header").1.trim().to_owned()
}

/// Names of the segments below a prefix.
fn segments(prefix: &str) -> Vec<String> {
    let path = format!("/v1/AUTH_test/packs_segments?prefix={prefix}");
    let (status, answer) = ask(swift().port, "GET", &path, &[("X-Auth-Token", &token())]).expect("answers");
    assert!(status / 100 == 2, "{answer}");
    let body = answer.split_once("\r\n\r\n").expect("a body").1;
    body.lines().filter(|line| line.starts_with(prefix)).map(ToOwned::to_owned).collect()
}

#[tokio::test]
async fn a_pack_of_many_segments_is_one_object_and_its_segments_go_with_it() {
    let options = swift_options(None);
    let prefix = options.prefix.clone();
    let store = opened(options).await;
    let bytes = content((17 << 20) + 7);
    let mut appender = store.append(name(1)).await.expect("begins");
    for piece in bytes.chunks(1 << 20) {
        appender.append(parts(piece)).await.expect("appends");
    }
    appender.sync().await.expect("syncs");
    assert_holds(&store, name(1), &bytes).await;
    assert_eq!(store.list(None, 10).await.expect("lists"), [PackEntry { name: name(1), bytes: bytes.len() as u64 }]);
    for (offset, len) in [((5 << 20) - 1, 2), ((10 << 20) - 5, 6 << 20), (bytes.len() - 1, 1)] {
        let read = store.read(name(1), offset as u64, len, Vec::new()).await.expect("reads");
        assert!(read == bytes[offset..offset + len], "{len} bytes at {offset}");
    }
    let taken = store.put(name(1), parts(&bytes)).await;
    assert_eq!(taken.expect_err("a large pack has a name too").kind(), ErrorKind::AlreadyExists);
    assert_eq!(segments(&prefix).len(), 4, "the refused put sent none");
    store.delete(name(1)).await.expect("removes");
    assert_eq!(store.len(name(1)).await.expect("answers"), None);
    assert_eq!(segments(&prefix), Vec::<String>::new());
}

#[tokio::test]
async fn large_and_small_packs_are_removed_at_once() {
    let options = swift_options(None);
    let prefix = options.prefix.clone();
    let store = opened(options).await;
    for number in 1..=4 {
        store.put(name(number), parts(b"x")).await.expect("puts");
    }
    store.put(name(5), parts(&content(6 << 20))).await.expect("puts");
    store.delete_many(&[name(1), name(3), name(9), name(5)]).await.expect("removes");
    let left: Vec<_> = store.list(None, 10).await.expect("lists").iter().map(|pack| pack.name).collect();
    assert_eq!(left, [name(2), name(4)]);
    assert_eq!(segments(&prefix), Vec::<String>::new());
}

#[tokio::test]
async fn segments_that_no_manifest_names_are_swept_when_they_are_old() {
    let options = swift_options(None);
    let prefix = options.prefix.clone();
    let store = opened(options.clone()).await;
    let bytes = content(12 << 20);
    store.put(name(2), parts(&bytes)).await.expect("puts");
    let mut appender = store.append(name(1)).await.expect("begins");
    appender.append(parts(&bytes)).await.expect("appends");
    // As a crash leaves it: nobody tidies up.
    std::mem::forget(appender);
    while segments(&prefix).len() < 5 {
        tokio::task::yield_now().await;
    }
    let after_the_crash = opened(options).await;
    assert_eq!(after_the_crash.sweep(Duration::from_hours(1)).await.expect("sweeps"), 0, "too young");
    assert_eq!(after_the_crash.sweep(Duration::ZERO).await.expect("sweeps"), 1);
    assert_eq!(segments(&prefix).len(), 3, "those of the other pack stay");
    assert_holds(&after_the_crash, name(2), &bytes).await;
}

#[tokio::test]
async fn a_token_that_is_refused_is_renewed_once_for_all_who_met_it() {
    let service = Swift::start(ServiceOptions::default()).expect("Swift starts");
    let proxy = Arc::new(Proxy::start(service.port).expect("a proxy"));
    let store = Arc::new(opened(swift_options(Some(proxy.port()))).await);
    store.put(name(1), parts(b"abc")).await.expect("puts");
    service.forget_tokens().expect("forgets");
    proxy.clear();
    let reads: Vec<_> = (0..20)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.read(name(1), 0, 3, Vec::new()).await })
        })
        .collect();
    for read in reads {
        assert_eq!(read.await.expect("ends").expect("reads"), b"abc");
    }
    let sign_ins = proxy.seen().iter().filter(|request| request.path.starts_with("/auth")).count();
    assert_eq!(sign_ins, 1);
}

#[tokio::test]
async fn a_token_is_renewed_before_it_ends() {
    // Shorter than the margin: every call finds that it ends too soon and signs in anew.
    let identity = Identity::start(swift().port, 60).expect("starts");
    let store = opened(keystone(&identity, Identity::PASSWORD)).await;
    let before = identity.granted();
    store.put(name(1), parts(b"abc")).await.expect("puts");
    assert!(identity.granted() > before, "renewed without having been refused");
}

fn keystone(identity: &Identity, password: &str) -> SwiftOptions {
    let auth = Auth::Password {
        url: identity.url(),
        user: Identity::USER.into(),
        user_domain: "Default".into(),
        project: Identity::PROJECT.into(),
        project_domain: "Default".into(),
        password: Secret::new(password),
    };
    SwiftOptions { auth, region: Some("south".into()), ..swift_options(None) }
}

#[tokio::test]
async fn keystone_signs_in_by_password_and_by_application_credential_and_one_token_lasts() {
    let identity = Identity::start(swift().port, 3_600).expect("starts");
    let credential = Auth::ApplicationCredential {
        url: identity.url(),
        id: Identity::CREDENTIAL.into(),
        secret: Secret::new(Identity::SECRET),
    };
    let by_password = keystone(&identity, Identity::PASSWORD);
    let by_credential = SwiftOptions { auth: credential, ..by_password.clone() };
    for (number, options) in [(1, by_password), (2, by_credential)] {
        let store = opened(options).await;
        store.put(name(number), parts(b"abc")).await.expect("puts");
        assert_holds(&store, name(number), b"abc").await;
        assert_eq!(identity.granted(), u64::from(number));
    }
}

#[tokio::test]
async fn wrong_credentials_say_so_and_a_missing_container_is_named() {
    let identity = Identity::start(swift().port, 3_600).expect("starts");
    let wrong_key = Auth::TempAuth { url: swift().auth_url(), user: Swift::USER.into(), key: Secret::new("wrong") };
    for options in [keystone(&identity, "wrong"), SwiftOptions { auth: wrong_key, ..swift_options(None) }] {
        let error = open(&options).await.err().expect("refused");
        assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{error:?}");
    }
    let error =
        open(&SwiftOptions { container: "missing".into(), ..swift_options(None) }).await.err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.message().contains("missing"), "{error:?}");
    let east = SwiftOptions { region: Some("east".into()), ..keystone(&identity, Identity::PASSWORD) };
    let error = open(&east).await.err().expect("refused");
    assert!(error.message().contains("north, south"), "{error:?}");
}

#[tokio::test]
async fn a_quota_is_room_and_a_full_container_is_no_space() {
    let service = Swift::start(ServiceOptions::default()).expect("Swift starts");
    let store = opened(swift_options(Some(service.port))).await;
    assert_eq!(store.room().await.expect("answers"), None);
    let credentials = [("X-Auth-User", Swift::USER), ("X-Auth-Key", Swift::KEY)];
    let (_, answer) = ask(service.port, "GET", "/auth/v1.0", &credentials).expect("signs in");
    let line = answer.lines().find(|line| line.to_ascii_lowercase().starts_with("x-auth-token:")).expect("a token");
    let token = line.split_once(':').expect("a header").1.trim();
    let quota = [("X-Auth-Token", token), ("X-Container-Meta-Quota-Bytes", "1000")];
    let (status, _) = ask(service.port, "POST", "/v1/AUTH_test/packs", &quota).expect("answers");
    assert_eq!(status, 204);
    let store = opened(swift_options(Some(service.port))).await;
    let room = store.room().await.expect("answers").expect("a quota");
    assert_eq!((room.total_bytes, room.free_bytes), (1_000, 1_000));
    assert_eq!(store.put(name(1), parts(&content(2_000))).await.expect_err("full").kind(), ErrorKind::NoSpace);
    assert_eq!(store.len(name(1)).await.expect("answers"), None);
}
