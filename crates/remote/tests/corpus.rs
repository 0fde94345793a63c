//! Every input that fuzzing kept, once more: what mounts and servers send each other. See fuzz/README.md.

#[allow(unreachable_pub, reason = "public in the crate of the fuzz targets")]
#[path = "../../../fuzz/src/mounts/mod.rs"]
mod mounts;
#[allow(unreachable_pub, reason = "public in the crate of the fuzz targets")]
#[path = "../../../fuzz/src/replay.rs"]
mod replay;

#[test]
fn inputs_that_fuzzing_kept_break_no_promise() {
    replay::replay(&mounts::TARGETS);
    assert!(replay::still_open(&mounts::TARGETS).is_empty());
}
