//! The S3 store against a real service: SeaweedFS.

mod support;

use bytes::Bytes;
use holdfast_base::ErrorKind;
use holdfast_blob::layer::{Options, standard};
use holdfast_blob::s3::{Conditional, CredentialSource, Credentials, S3Options, open};
use holdfast_blob::{BlobStore, PackEntry, Secret};
use std::sync::Arc;
use std::time::Duration;
use support::{assert_holds, content, name, now, parts, s3_options};

async fn opened(options: S3Options) -> impl BlobStore {
    open(&options).await.expect("opens")
}

mod conformance {
    use super::*;
    holdfast_blob::conformance_suite!(|| ((), now(opened(s3_options(None)))));
}

/// What a service gets that ignores conditions.
mod conformance_without_conditions {
    use super::*;
    holdfast_blob::conformance_suite!(|| {
        let options = S3Options { conditional: Conditional::Off, ..s3_options(None) };
        ((), now(opened(options)))
    });
}

#[tokio::test]
async fn a_pack_of_many_parts_is_one_object_in_the_list() {
    let store = opened(s3_options(None)).await;
    let bytes = content((23 << 20) + 7);
    let mut appender = store.append(name(1)).await.expect("begins");
    for (index, piece) in bytes.chunks(1 << 20).enumerate() {
        assert_eq!(appender.append(parts(piece)).await.expect("appends"), (index as u64) << 20);
    }
    assert_eq!(store.len(name(1)).await.expect("answers"), Some(bytes.len() as u64), "before the sync");
    appender.sync().await.expect("syncs");
    assert_holds(&store, name(1), &bytes).await;
    let entry = PackEntry { name: name(1), bytes: bytes.len() as u64 };
    assert_eq!(store.list(None, 10).await.expect("lists"), [entry]);
    for (offset, len) in [((5 << 20) - 1, 2), ((10 << 20) - 5, 6 << 20), (bytes.len() - 1, 1)] {
        let read = store.read(name(1), offset as u64, len, Vec::new()).await.expect("reads");
        assert!(read == bytes[offset..offset + len], "{len} bytes at {offset}");
    }
    let taken = store.put(name(1), parts(&bytes)).await;
    assert_eq!(taken.expect_err("a large pack has a name too").kind(), ErrorKind::AlreadyExists);
}

#[tokio::test]
async fn several_packs_are_removed_at_once_and_what_is_gone_is_no_error() {
    let store = opened(s3_options(None)).await;
    for number in 1..=5 {
        store.put(name(number), parts(b"x")).await.expect("puts");
    }
    store.delete_many(&[name(1), name(3), name(9), name(5)]).await.expect("removes");
    let left: Vec<_> = store.list(None, 10).await.expect("lists").iter().map(|pack| pack.name).collect();
    assert_eq!(left, [name(2), name(4)]);
}

#[tokio::test]
async fn what_is_no_pack_is_not_listed_and_pages_go_past_it() {
    let options = s3_options(None);
    let above =
        S3Options { prefix: options.prefix.rsplit_once('/').expect("a prefix").0.to_owned(), ..options.clone() };
    let store = opened(options).await;
    store.put(name(1), parts(b"x")).await.expect("puts");
    let above = opened(above).await;
    above.put(name(7), parts(b"y")).await.expect("puts");
    let seen = above.list(None, 1).await.expect("lists");
    assert_eq!(seen, [PackEntry { name: name(7), bytes: 1 }], "not the one in the folder below");
}

#[tokio::test]
async fn parts_of_a_pack_that_will_not_be_are_swept_when_they_are_old() {
    let options = s3_options(None);
    let store = opened(options.clone()).await;
    let mut appender = store.append(name(1)).await.expect("begins");
    appender.append(parts(&content(12 << 20))).await.expect("appends");
    assert_eq!(store.sweep(Duration::from_hours(1)).await.expect("sweeps"), 0, "too young");
    // As a crash leaves it: nobody tidies up.
    std::mem::forget(appender);
    let after_the_crash = opened(options).await;
    assert_eq!(after_the_crash.list(None, 10).await.expect("lists"), []);
    assert_eq!(after_the_crash.sweep(Duration::ZERO).await.expect("sweeps"), 1);
    assert_eq!(after_the_crash.sweep(Duration::ZERO).await.expect("sweeps"), 0);
}

#[tokio::test]
async fn wrong_credentials_say_so_and_a_missing_bucket_is_named() {
    let with = |id: &str, secret: &str| {
        let credentials =
            Credentials { access_key_id: id.into(), secret_access_key: Secret::new(secret), session_token: None };
        S3Options { credentials: CredentialSource::Given(credentials), ..s3_options(None) }
    };
    for options in [with("drive", "hunter2"), with("nobody", "only-for-tests")] {
        let error = open(&options).await.err().expect("refused");
        assert_eq!(error.kind(), ErrorKind::Forbidden, "{error:?}");
        assert!(error.message().contains("key") && !format!("{error:?}").contains("hunter2"), "{error:?}");
    }
    let error = open(&S3Options { bucket: "no-such-bucket".into(), ..s3_options(None) }).await.err().expect("refused");
    assert!(error.message().contains("no-such-bucket"), "{error:?}");
    assert_eq!(error.kind(), ErrorKind::Conflict);
}

#[tokio::test]
async fn nobody_there_is_unavailable_within_a_bounded_time() {
    // A port that nothing listens on: it was free a moment ago.
    let port = holdfast_testkit::services::free_port().expect("a port");
    let options = s3_options(Some(format!("http://127.0.0.1:{port}")));
    assert_eq!(open(&options).await.err().expect("nobody").kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn many_small_packs_side_by_side_through_all_layers() {
    let store = standard(Arc::new(opened(s3_options(None)).await), Options::default());
    let writes = (0..200_u8).map(|number| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let mut appender = store.append(name(number)).await.expect("begins");
            appender.append(vec![Bytes::from(vec![number; 1_000])]).await.expect("appends");
            appender.sync().await.expect("syncs");
            assert_holds(&*store, name(number), &[number; 1_000]).await;
        })
    });
    for write in writes.collect::<Vec<_>>() {
        write.await.expect("ends");
    }
    assert_eq!(store.list(None, 1_000).await.expect("lists").len(), 200);
}
