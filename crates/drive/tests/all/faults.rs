//! A store that fails at any call: the write that met it fails cleanly, nothing acknowledged is lost, the next one works.

use crate::common::{Rig, at, even_bytes};
use holdfast_base::{ByteRange, Error, ErrorKind};
use holdfast_blob::layer::fault::{Fault, Faults};
use holdfast_blob::layer::{Layered, Operation};
use holdfast_blob::memory::MemoryStore;
use holdfast_drive::Drive;
use holdfast_drive::care::{JobOptions, Jobs};
use std::sync::Arc;
use std::time::Duration;

const MIB: usize = 1 << 20;

pub(crate) async fn faulty() -> (Rig, Arc<Faults>) {
    let (memory, faults) = (MemoryStore::new(), Arc::new(Faults::default()));
    let store = Layered::sharing(Arc::new(memory.clone()), faults.clone());
    (Rig::with_store(memory, Arc::new(store)).await, faults)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_meets_a_fault_changes_nothing_and_the_next_one_works() {
    let (rig, faults) = faulty().await;
    let kept = even_bytes(0, 3 * MIB);
    rig.put("kept", &kept).await.expect("writes");
    let (mut failures, mut round) = (0, 0);
    for operation in [Operation::Begin, Operation::Append, Operation::Sync] {
        for nth in 1..12 {
            for fault in [Fault::FailBefore(ErrorKind::Unavailable), Fault::FailAfter(ErrorKind::NoSpace)] {
                // Other bytes every time: what the space has already is not written again.
                round += 2;
                faults.on(operation, nth, fault);
                let content = even_bytes(round, 30 * MIB);
                match rig.put("file", &content).await {
                    Ok(_) => assert!(rig.get("file").await.expect("reads") == content),
                    Err(error) => {
                        assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::NoSpace), "{error:?}");
                        failures += 1;
                    }
                }
                faults.clear();
                let after = even_bytes(round + 1, 2 * MIB);
                rig.put("file", &after).await.expect("works again");
                assert!(rig.get("file").await.expect("reads") == after);
                assert!(rig.get("kept").await.expect("reads") == kept);
            }
        }
    }
    assert!(failures > 20, "the faults were met: {failures}");
    rig.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_meets_a_fault_is_an_error_and_never_other_bytes() {
    let (rig, faults) = faulty().await;
    let content = even_bytes(1, 5 * MIB);
    rig.put("file", &content).await.expect("writes");
    for nth in 1..=5 {
        // What was opened is not read again; this is about what is read.
        rig.engine.give_memory_back();
        faults.on(Operation::Read, nth, Fault::FailBefore(ErrorKind::Unavailable));
        match rig.get("file").await {
            // A block fetched ahead that fails is fetched again when it is its turn.
            Ok(read) => assert!(nth > 1 && read == content),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable),
        }
        faults.clear();
        faults.always(Operation::Read, Fault::FailBefore(ErrorKind::Unavailable));
        let block = ByteRange { start: (nth - 1) << 20, end: nth << 20 };
        let part = content.chunks(MIB).nth(usize::try_from(nth - 1).expect("small")).expect("is there");
        assert_eq!(unopened(&rig, block, part).await.kind(), ErrorKind::Unavailable);
        faults.clear();
        // One flipped bit on the way may be the cable's; the block is read again before it is called damaged.
        faults.always(Operation::Read, Fault::FlipBit(nth * 1_000_003));
        assert_eq!(unopened(&rig, block, part).await.kind(), ErrorKind::Damaged);
        faults.clear();
        assert!(rig.get("file").await.expect("reads") == content);
    }
}

/// What reading a range ends in once no block of it is in memory: a fetch ahead for an earlier reader lands when it lands.
async fn unopened(rig: &Rig, range: ByteRange, content: &[u8]) -> Error {
    for _ in 0..1_000 {
        rig.engine.give_memory_back();
        match rig.get_range("file", range).await {
            Ok(read) => assert!(read == content, "other bytes"),
            Err(error) => return error,
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the reads that must fail succeed for ever");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_is_no_space_and_room_comes_back() {
    let rig = Rig::new().await;
    let kept = even_bytes(0, 3 * MIB);
    rig.put("kept", &kept).await.expect("writes");
    rig.memory.set_capacity(Some(20 * MIB as u64));
    for _ in 0..3 {
        let error = rig.put("big", &even_bytes(1, 40 * MIB)).await.expect_err("does not fit");
        assert_eq!(error.kind(), ErrorKind::NoSpace);
    }
    assert!(rig.get("kept").await.expect("reads on") == kept);
    rig.engine.remove(&rig.ana, &at("kept"), holdfast_drive::Conditions::default()).await.expect("removes");
    rig.engine.purge_trash(&rig.ana, "ana", None).await.expect("purges");
    rig.reclaim().await;
    rig.memory.set_capacity(None);
    rig.put("big", &even_bytes(1, 40 * MIB)).await.expect("fits");
    rig.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_crashes_left_in_the_store_is_looked_for_again_and_again() {
    let (rig, faults) = faulty().await;
    faults.on(Operation::Sweep, 1, Fault::FailBefore(ErrorKind::Unavailable));
    let options = JobOptions { sweep_every: Duration::from_millis(1), ..JobOptions::default() };
    let jobs = Jobs::start(rig.engine.clone(), options);
    while faults.calls(Operation::Sweep) < 3 {
        tokio::task::yield_now().await;
    }
    drop(jobs);
}
