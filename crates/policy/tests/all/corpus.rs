//! Every input that fuzzing kept, once more. See fuzz/README.md.

#[allow(unreachable_pub, reason = "public in the crate of the fuzz targets")]
#[path = "../../../../fuzz/src/policies/mod.rs"]
mod policies;
#[allow(unreachable_pub, reason = "public in the crate of the fuzz targets")]
#[path = "../../../../fuzz/src/replay.rs"]
mod replay;

#[test]
fn inputs_that_fuzzing_kept_break_no_promise() {
    replay::replay(&policies::TARGETS);
    assert!(replay::still_open(&policies::TARGETS).is_empty());
}
