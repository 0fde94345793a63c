//! Every input that fuzzing kept, once more: what a mount reads of its journals. See fuzz/README.md.

#[allow(unreachable_pub, reason = "public in the crate of the fuzz targets")]
#[path = "../../../fuzz/src/journals/mod.rs"]
mod journals;
#[allow(unreachable_pub, reason = "public in the crate of the fuzz targets")]
#[path = "../../../fuzz/src/replay.rs"]
mod replay;

#[test]
fn inputs_that_fuzzing_kept_break_no_promise() {
    replay::replay(&journals::TARGETS);
    assert!(replay::still_open(&journals::TARGETS).is_empty());
}
