//! What each layer does, seen through faults planned below it. Time is tokio's paused clock.

use super::fault::{Fault, Faults, Gate};
use super::limit::{Concurrency, Limit};
use super::metrics::Metrics;
use super::retry::{Policy, Retry};
use super::timeout::{Timeout, Times};
use super::*;
use crate::memory::MemoryStore;
use bytes::Bytes;
use futures_util::future::join_all;
use holdfast_base::ErrorKind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use std::collections::HashMap;
use std::time::Duration;

const NAME: PackName = PackName([9; 16]);

/// A store with one pack, `NAME`, that holds "abc", and the faults to come.
async fn faulty() -> (Arc<dyn BlobStore>, Arc<Faults>) {
    let faults = Arc::new(Faults::default());
    let store = Layered::sharing(Arc::new(MemoryStore::new()), Arc::clone(&faults));
    store.put(NAME, abc()).await.expect("puts");
    (Arc::new(store), faults)
}

fn abc() -> Vec<Bytes> {
    vec![Bytes::from_static(b"abc")]
}

async fn read_abc(store: &dyn BlobStore) -> Result<Vec<u8>> {
    store.read(NAME, 0, 3, Vec::new()).await
}

#[tokio::test]
async fn a_planned_fault_meets_the_call_it_was_planned_for_and_no_other() {
    let (store, faults) = faulty().await;
    faults.on(Operation::Read, 2, Fault::FailBefore(ErrorKind::Unavailable));
    faults.on(Operation::Read, 3, Fault::FlipBit(1));
    assert_eq!(read_abc(&*store).await.expect("the first is fine"), b"abc");
    assert_eq!(read_abc(&*store).await.expect_err("the second fails").kind(), ErrorKind::Unavailable);
    assert_eq!(read_abc(&*store).await.expect("the third is flipped"), b"cbc");
    assert_eq!(read_abc(&*store).await.expect("the fourth is fine"), b"abc");
}

#[tokio::test]
async fn a_fault_after_the_call_leaves_what_the_call_did() {
    let (store, faults) = faulty().await;
    faults.on(Operation::Delete, 1, Fault::FailAfter(ErrorKind::Unavailable));
    assert!(store.delete(NAME).await.is_err());
    assert_eq!(store.len(NAME).await.expect("answers"), None);
}

#[tokio::test]
async fn a_failed_call_finishes_an_appender() {
    for operation in [Operation::Append, Operation::Sync] {
        let (store, faults) = faulty().await;
        let mut appender = store.append(PackName([1; 16])).await.expect("begins");
        faults.on(operation, 1, Fault::FailBefore(ErrorKind::NoSpace));
        let first = appender.append(abc()).await.map(drop);
        let second = appender.sync().await;
        assert_eq!(first.and(second).expect_err("planned").kind(), ErrorKind::NoSpace);
        assert!(appender.append(abc()).await.is_err() && appender.sync().await.is_err());
    }
}

#[tokio::test]
async fn a_sync_covers_what_was_appended_before_it_even_if_it_runs_later() {
    let memory = MemoryStore::new();
    let faults = Arc::new(Faults::default());
    let gate = Arc::new(Gate::default());
    let store = Layered::sharing(Arc::new(memory.clone()), Arc::clone(&faults));
    let mut appender = store.append(NAME).await.expect("begins");
    appender.append(abc()).await.expect("appends");
    faults.on(Operation::Sync, 1, Fault::Wait(Arc::clone(&gate)));
    let sync = tokio::spawn(appender.sync());
    gate.wait_for_arrival().await;
    appender.append(abc()).await.expect("appends go on while a sync runs");
    gate.open();
    sync.await.expect("ends").expect("syncs");
    memory.lose_power();
    assert_eq!(memory.len(NAME).await.expect("answers"), Some(3));
}

#[tokio::test(start_paused = true)]
async fn an_idempotent_call_is_tried_again_until_it_works() {
    let (store, faults) = faulty().await;
    faults.on(Operation::Read, 1, Fault::FailBefore(ErrorKind::Unavailable));
    faults.on(Operation::Read, 2, Fault::FailAfter(ErrorKind::TooManyRequests { retry_after_s: 2 }));
    let retried = Layered::new(store, Retry::new("test", Policy::default()));
    let begun = tokio::time::Instant::now();
    assert_eq!(read_abc(&retried).await.expect("the third try works"), b"abc");
    assert!(begun.elapsed() >= Duration::from_secs(2), "the store said when to come back");
    assert_eq!(faults.calls(Operation::Read), 3);
}

#[tokio::test(start_paused = true)]
async fn tries_have_a_bound_and_the_last_error_is_reported() {
    let (store, faults) = faulty().await;
    faults.always(Operation::Len, Fault::FailBefore(ErrorKind::Timeout));
    let retried = Layered::new(store, Retry::new("test", Policy::default()));
    assert_eq!(retried.len(NAME).await.expect_err("never works").kind(), ErrorKind::Timeout);
    assert_eq!(faults.calls(Operation::Len), u64::from(Policy::default().tries_max));
}

#[tokio::test]
async fn what_must_not_be_repeated_or_cannot_pass_is_tried_once() {
    let (store, faults) = faulty().await;
    let retried = Layered::new(store, Retry::new("test", Policy::default()));
    let mut appender = retried.append(PackName([1; 16])).await.expect("begins");
    for operation in [Operation::Put, Operation::Begin, Operation::Append] {
        faults.always(operation, Fault::FailBefore(ErrorKind::Unavailable));
    }
    faults.always(Operation::Read, Fault::FailBefore(ErrorKind::Damaged));
    let before = Operation::ALL.map(|operation| faults.calls(operation));
    assert!(retried.put(PackName([2; 16]), abc()).await.is_err());
    assert!(retried.append(PackName([2; 16])).await.is_err());
    assert!(appender.append(abc()).await.is_err());
    assert!(read_abc(&retried).await.is_err());
    let after = Operation::ALL.map(|operation| faults.calls(operation));
    assert_eq!(after.iter().sum::<u64>() - before.iter().sum::<u64>(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_takes_too_long_is_given_up_and_finishes_its_appender() {
    let (store, faults) = faulty().await;
    let timed = Layered::new(store, Timeout::new(Times::default()));
    let mut appender = timed.append(PackName([1; 16])).await.expect("begins");
    for operation in [Operation::Read, Operation::Sync] {
        faults.always(operation, Fault::Wait(Arc::default()));
    }
    assert_eq!(read_abc(&timed).await.expect_err("stuck").kind(), ErrorKind::Timeout);
    assert_eq!(appender.sync().await.expect_err("stuck").kind(), ErrorKind::Timeout);
    assert_eq!(appender.append(abc()).await.expect_err("finished").kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn no_more_calls_run_at_once_than_the_limit_and_all_get_their_turn() {
    let (store, faults) = faulty().await;
    let gate = Arc::new(Gate::default());
    faults.always(Operation::Read, Fault::Wait(Arc::clone(&gate)));
    let limited = Arc::new(Layered::new(store, Limit::new("test", Concurrency { calls_max: 2 })));
    let reads: Vec<_> = (0..5)
        .map(|_| {
            let limited = Arc::clone(&limited);
            tokio::spawn(async move { read_abc(&*limited).await })
        })
        .collect();
    gate.wait_for_arrival().await;
    gate.wait_for_arrival().await;
    // Everything that can run has run: the test has one thread and each task stops at the limit or at the gate.
    tokio::task::yield_now().await;
    assert_eq!(faults.calls(Operation::Read), 2);
    gate.open();
    for read in join_all(reads).await {
        assert_eq!(read.expect("ends").expect("reads"), b"abc");
    }
}

#[tokio::test]
async fn calls_bytes_and_failures_are_counted_by_operation() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _installed = ::metrics::set_default_local_recorder(&recorder);
    let (store, faults) = faulty().await;
    let measured = Layered::new(store, Metrics::new("memory"));
    faults.on(Operation::Read, 2, Fault::FailBefore(ErrorKind::TooManyRequests { retry_after_s: 1 }));
    assert!(read_abc(&measured).await.is_ok() && read_abc(&measured).await.is_err());
    let counters: HashMap<String, u64> = snapshotter
        .snapshot()
        .into_vec()
        .into_iter()
        .filter(|(key, ..)| key.key().labels().any(|label| label.value() == "read"))
        .filter_map(|(key, _, _, value)| match value {
            DebugValue::Counter(count) => Some((key.key().name().to_owned(), count)),
            DebugValue::Gauge(level) => {
                assert!(level.abs() < f64::EPSILON, "nothing runs any more");
                None
            }
            DebugValue::Histogram(times) => {
                assert_eq!(times.len(), 2);
                None
            }
        })
        .collect();
    assert_eq!(counters["holdfast_store_calls_total"], 2);
    assert_eq!(counters["holdfast_store_bytes_total"], 3);
    assert_eq!(counters["holdfast_store_failures_total"], 1);
}

mod conformance {
    use super::*;

    crate::conformance_suite!(|| {
        let memory: Arc<dyn BlobStore> = Arc::new(MemoryStore::new());
        // The suite takes a store by value; a layer without faults is one.
        ((), Layered::new(standard(memory, Options::default()), Faults::default()))
    });
}
