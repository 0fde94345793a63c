//! What the tests of the object stores share: one running service for a test binary, a store with a prefix of its own for
//! each test.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use bytes::Bytes;
use holdfast_base::PackName;
use holdfast_blob::s3::{Conditional, CredentialSource, Credentials, S3Options};
use holdfast_blob::swift::{Auth, SwiftOptions};
use holdfast_blob::{BlobStore, Secret, Times, object};
use holdfast_testkit::services::seaweed::Seaweed;
use holdfast_testkit::services::swift::{Swift, SwiftOptions as ServiceOptions};
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The SeaweedFS of this test binary.
pub(crate) fn seaweed() -> &'static Seaweed {
    static SEAWEED: OnceLock<io::Result<Seaweed>> = OnceLock::new();
    // One try for all tests, so that they do not each wait for what cannot be had.
    SEAWEED.get_or_init(Seaweed::start).as_ref().unwrap_or_else(|error| panic!("SeaweedFS must start: {error}"))
}

/// The Swift of this test binary.
pub(crate) fn swift() -> &'static Swift {
    static SWIFT: OnceLock<io::Result<Swift>> = OnceLock::new();
    let started = SWIFT.get_or_init(|| Swift::start(ServiceOptions::default()));
    started.as_ref().unwrap_or_else(|error| panic!("Swift must start: {error}"))
}

/// A prefix that no other store of this process has.
pub(crate) fn prefix() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("test-{}/{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The smallest parts that S3 takes, so that tests of large packs need not be larger.
pub(crate) const PART_BYTES: usize = 5 << 20;

/// How packs are sent in tests.
pub(crate) const OBJECTS: object::Options =
    object::Options { part_bytes: PART_BYTES as u64, parts_in_flight_max: 3, confirm: true };

/// A patience that lets tests of stalls end soon, and is long for a service on this machine.
pub(crate) const SHORT: Times = Times {
    connect: Duration::from_secs(2),
    answer: Duration::from_secs(3),
    stall: Duration::from_secs(3),
    bytes_per_second_min: 1 << 20,
};

/// Options for the SeaweedFS of this binary, at its own address or at a proxy's.
pub(crate) fn s3_options(endpoint: Option<String>) -> S3Options {
    let mut options = S3Options::new(Seaweed::BUCKET);
    options.endpoint = Some(endpoint.unwrap_or_else(|| seaweed().endpoint()));
    options.prefix = prefix();
    options.conditional = Conditional::Auto;
    options.credentials = CredentialSource::Given(Credentials {
        access_key_id: Seaweed::ACCESS_KEY_ID.into(),
        secret_access_key: Secret::new(Seaweed::SECRET_ACCESS_KEY),
        session_token: None,
    });
    options.objects = OBJECTS;
    options
}

/// Options for the Swift of this binary, signing in at its own port or at a proxy's.
pub(crate) fn swift_options(port: Option<u16>) -> SwiftOptions {
    let url = format!("http://127.0.0.1:{}/auth/v1.0", port.unwrap_or_else(|| swift().port));
    let auth = Auth::TempAuth { url, user: Swift::USER.into(), key: Secret::new(Swift::KEY) };
    let mut options = SwiftOptions::new(auth, Swift::CONTAINER);
    options.prefix = prefix();
    options.objects = OBJECTS;
    options
}

/// Runs a future where the suite wants a value: it makes its stores in a function that cannot wait.
pub(crate) fn now<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    std::thread::scope(|scope| {
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        scope.spawn(move || runtime().block_on(work)).join().expect("ends")
    })
}

/// A name.
pub(crate) fn name(number: u8) -> PackName {
    PackName([number; 16])
}

/// Bytes without a short period.
pub(crate) fn content(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| next()).collect();
    bytes.truncate(len);
    bytes
}

/// Cut into parts, as the drive hands them over.
pub(crate) fn parts(bytes: &[u8]) -> Vec<Bytes> {
    bytes.chunks(300_001).map(Bytes::copy_from_slice).collect()
}

/// Asserts that a pack holds these bytes and no others.
pub(crate) async fn assert_holds(store: &dyn BlobStore, pack: PackName, bytes: &[u8]) {
    assert_eq!(store.len(pack).await.expect("answers"), Some(bytes.len() as u64));
    let read = store.read(pack, 0, bytes.len(), Vec::new()).await.expect("reads");
    assert!(read == bytes, "content of {pack}");
}
