//! What the object stores do when the network and the service do harm: the same faults for S3 and Swift, made by a proxy
//! in front of the real services. Whatever happens, waiting is bounded, the error says what it was, and nothing is
//! acknowledged that is not there.

mod support;

use holdfast_base::{ErrorKind, Result};
use holdfast_blob::layer::{Options, standard};
use holdfast_blob::{BlobStore, s3, swift};
use holdfast_testkit::services::proxy::{Fault, Proxy, Request};
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{
    PART_BYTES, SHORT, assert_holds, content, name, parts, s3_options, seaweed, swift as service, swift_options,
};

/// A store behind a proxy, and the same store without it.
struct Rig {
    proxy: Proxy,
    /// Without layers: a fault is met once.
    bare: Arc<dyn BlobStore>,
    /// As the drive has it.
    layered: Arc<dyn BlobStore>,
    /// What is really there.
    direct: Arc<dyn BlobStore>,
}

async fn s3_rig() -> Rig {
    let proxy = Proxy::start(seaweed().s3_port).expect("a proxy");
    let direct = s3_options(None);
    let behind = s3::S3Options { endpoint: Some(proxy.url()), times: SHORT, ..direct.clone() };
    let bare: Arc<dyn BlobStore> = Arc::new(s3::open(&behind).await.expect("opens"));
    let direct = Arc::new(s3::open(&direct).await.expect("opens"));
    Rig { layered: standard(Arc::clone(&bare), Options::default()), bare, direct, proxy }
}

async fn swift_rig() -> Rig {
    let proxy = Proxy::start(service().port).expect("a proxy");
    let direct = swift_options(None);
    let behind = swift::SwiftOptions { auth: swift_options(Some(proxy.port())).auth, times: SHORT, ..direct.clone() };
    let bare: Arc<dyn BlobStore> = Arc::new(swift::open(&behind).await.expect("opens"));
    let direct = Arc::new(swift::open(&direct).await.expect("opens"));
    Rig { layered: standard(Arc::clone(&bare), Options::default()), bare, direct, proxy }
}

fn is(method: &'static str) -> impl Fn(&Request) -> bool + Send + 'static {
    move |request| request.method == method
}

/// A request that sends a part of a large pack.
fn part(request: &Request) -> bool {
    request.method == "PUT" && (request.path.contains("partNumber=") || request.path.contains("_segments/"))
}

/// The request that makes the parts an object.
fn completion(request: &Request) -> bool {
    let s3 = request.method == "POST" && request.path.contains("uploadId=");
    s3 || request.method == "PUT" && request.path.contains("multipart-manifest=put")
}

impl Rig {
    async fn read(&self) -> Result<Vec<u8>> {
        self.bare.read(name(1), 10, 100_000, Vec::new()).await
    }

    async fn append(&self, number: u8, bytes: &[u8]) -> Result<()> {
        let mut appender = self.layered.append(name(number)).await?;
        appender.append(parts(bytes)).await?;
        appender.sync().await
    }
}

/// Reads that are cut, late, wrong, short or long.
async fn reads(rig: Rig) {
    let bytes = content(200_000);
    rig.direct.put(name(1), parts(&bytes)).await.expect("puts");
    let slow_down = Fault::Answer(503, "", "<Error><Code>SlowDown</Code></Error>");
    for (fault, kind) in [
        (Fault::Answer(500, "", ""), ErrorKind::Unavailable),
        (slow_down, ErrorKind::Unavailable),
        (Fault::Answer(429, "Retry-After: 3\r\n", ""), ErrorKind::TooManyRequests { retry_after_s: 3 }),
        (Fault::CutAnswer, ErrorKind::Unavailable),
        (Fault::CutBodyAfter(50_000), ErrorKind::Unavailable),
        (Fault::Stall, ErrorKind::Timeout),
        (Fault::StallBodyAfter(50_000), ErrorKind::Timeout),
        (Fault::ShortenAnswer(1), ErrorKind::Damaged),
        (Fault::LengthenAnswer(1), ErrorKind::Damaged),
        (Fault::Answer(404, "", ""), ErrorKind::NotFound),
        (Fault::Answer(403, "", ""), ErrorKind::Unavailable),
        (Fault::Answer(200, "", "<html>a login page</html>"), ErrorKind::Damaged),
        (Fault::Answer(302, "Location: http://127.0.0.1:1/\r\n", ""), ErrorKind::Internal),
    ] {
        rig.proxy.on(1, fault.clone(), is("GET"));
        let begun = Instant::now();
        let error = rig.read().await.expect_err("a fault");
        assert_eq!(error.kind(), kind, "{fault:?}: {error:?}");
        // Not a speed: the longest that the times allow, many times over.
        assert!(begun.elapsed() < Duration::from_mins(1), "{fault:?}");
        assert!(rig.read().await.expect("reads") == bytes[10..100_010], "after {fault:?}");
    }
    // Of content the drive's own seals tell; a store hands on what it gets.
    rig.proxy.on(1, Fault::ChangeAnswer(5), is("GET"));
    assert!(rig.read().await.expect("reads") != bytes[10..100_010]);
    // The layers try again what may pass.
    for fault in [Fault::Answer(503, "", ""), Fault::CutBodyAfter(7), Fault::StallBodyAfter(7)] {
        rig.proxy.on(1, fault.clone(), is("GET"));
        let read = rig.layered.read(name(1), 10, 100_000, Vec::new()).await;
        assert!(read.expect("the second try works") == bytes[10..100_010], "{fault:?}");
    }
}

/// Small packs whose put is refused, cut, changed or whose answer is lost.
async fn puts_that_recover(rig: Rig) {
    let bytes = content(100_000);
    for (number, fault) in (1..).zip([
        Fault::Answer(500, "", ""),
        Fault::Answer(503, "", "<Error><Code>SlowDown</Code></Error>"),
        Fault::CutBefore,
        // The service has it; the next try finds the name taken, by itself.
        Fault::CutAnswer,
        Fault::Stall,
        Fault::ChangeRequest(77),
    ]) {
        rig.proxy.on(1, fault.clone(), is("PUT"));
        rig.append(number, &bytes).await.unwrap_or_else(|error| panic!("{fault:?}: {error:?}"));
        assert_holds(&*rig.direct, name(number), &bytes).await;
    }
}

/// A service that fails for longer than we try, or that lies.
async fn puts_that_fail(rig: Rig) {
    let bytes = content(100_000);
    for (number, fault, times, kind) in [
        (1, Fault::Answer(503, "", ""), usize::MAX, ErrorKind::Unavailable),
        (2, Fault::CutBefore, usize::MAX, ErrorKind::Unavailable),
        (3, Fault::Answer(403, "", ""), usize::MAX, ErrorKind::Unavailable),
        (4, Fault::Answer(507, "", ""), usize::MAX, ErrorKind::NoSpace),
        // Said to be stored, and missing: seen by asking.
        (5, Fault::Swallow, 1, ErrorKind::Damaged),
    ] {
        rig.proxy.on(times, fault.clone(), is("PUT"));
        let error = rig.append(number, &bytes).await.expect_err("a fault");
        assert_eq!(error.kind(), kind, "{fault:?}: {error:?}");
        assert_eq!(rig.direct.len(name(number)).await.expect("answers"), None, "{fault:?}");
        assert_eq!(rig.layered.len(name(number)).await.expect("answers"), None, "{fault:?}");
        rig.proxy.clear();
    }
    rig.append(9, &bytes).await.expect("all is well again");
}

/// Large packs of which a part, or the end, goes wrong.
async fn large_packs(rig: Rig) {
    let bytes = content(12 << 20);
    for (number, fault) in
        (1..).zip([Fault::Answer(500, "", ""), Fault::CutBefore, Fault::CutAnswer, Fault::ChangeRequest(100)])
    {
        rig.proxy.on(1, fault.clone(), part);
        if !matches!(fault, Fault::ChangeRequest(_)) {
            rig.proxy.on(1, fault.clone(), completion);
        }
        rig.append(number, &bytes).await.unwrap_or_else(|error| panic!("{fault:?}: {error:?}"));
        assert_holds(&*rig.direct, name(number), &bytes).await;
        rig.proxy.clear();
    }
    for (number, what) in [(20, part as fn(&Request) -> bool), (21, completion)] {
        rig.proxy.on(usize::MAX, Fault::Answer(500, "", ""), what);
        assert_eq!(rig.append(number, &bytes).await.expect_err("a fault").kind(), ErrorKind::Unavailable);
        assert_eq!(rig.direct.len(name(number)).await.expect("answers"), None);
        rig.proxy.clear();
    }
}

/// Abandoned calls leave no connections and no places taken.
async fn nothing_leaks(rig: Rig) {
    let bytes = content(100_000);
    rig.direct.put(name(1), parts(&bytes)).await.expect("puts");
    rig.proxy.on(usize::MAX, Fault::Stall, |request| matches!(request.method.as_str(), "GET" | "PUT"));
    let calls: Vec<_> = (2..40)
        .map(|number| {
            let store = Arc::clone(&rig.bare);
            tokio::spawn(async move {
                if number % 2 == 0 {
                    let _ = store.read(name(1), 0, 10, Vec::new()).await;
                } else if let Ok(mut appender) = store.append(name(number)).await {
                    // More parts than there are places for.
                    let _ = appender.append(parts(&content(5 * PART_BYTES))).await;
                    let _ = appender.sync().await;
                }
            })
        })
        .collect();
    while rig.proxy.seen().len() < 19 {
        tokio::task::yield_now().await;
    }
    for call in calls {
        call.abort();
        let _ = call.await;
    }
    rig.proxy.clear();
    // With the places that the abandoned ones held.
    let large = content(4 * PART_BYTES);
    rig.append(50, &large).await.expect("there are places");
    assert_holds(&*rig.layered, name(50), &large).await;
    drop((rig.bare, rig.layered));
    // The pool goes with the stores, and with it every connection.
    while rig.proxy.open_connections() > 0 {
        tokio::task::yield_now().await;
    }
}

macro_rules! faults {
    ($($service:ident, $rig:expr;)*) => {
        $(mod $service {
            use super::*;

            #[tokio::test]
            async fn reads_that_go_wrong_are_told_apart_and_do_not_last() {
                reads($rig.await).await;
            }

            #[tokio::test]
            async fn puts_that_go_wrong_once_succeed_and_are_there() {
                puts_that_recover($rig.await).await;
            }

            #[tokio::test]
            async fn puts_that_go_wrong_for_good_fail_and_are_not_there() {
                puts_that_fail($rig.await).await;
            }

            #[tokio::test]
            async fn parts_and_ends_of_large_packs_go_wrong_without_harm() {
                large_packs($rig.await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn abandoned_calls_leave_nothing_behind() {
                nothing_leaks($rig.await).await;
            }
        })*
    };
}

faults! {
    s3_store, s3_rig();
    swift_store, swift_rig();
}
