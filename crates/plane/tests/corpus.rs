//! Every input that fuzzing kept, once more: what ends of the plane send each other. See fuzz/README.md.

#[allow(unreachable_pub, reason = "public in the crate of the fuzz targets")]
#[path = "../../../fuzz/src/planes/mod.rs"]
mod planes;
#[allow(unreachable_pub, reason = "public in the crate of the fuzz targets")]
#[path = "../../../fuzz/src/replay.rs"]
mod replay;

#[test]
fn inputs_that_fuzzing_kept_break_no_promise() {
    replay::replay(&planes::TARGETS);
    assert!(replay::still_open(&planes::TARGETS).is_empty());
}
