//! Every input that fuzzing kept, once more: job files, lines of cron, files of another tool. See fuzz/README.md.

#[allow(unreachable_pub, reason = "public in the crate of the fuzz targets")]
#[path = "../../../fuzz/src/jobs/mod.rs"]
mod jobs;
#[allow(unreachable_pub, reason = "public in the crate of the fuzz targets")]
#[path = "../../../fuzz/src/replay.rs"]
mod replay;

#[test]
fn inputs_that_fuzzing_kept_break_no_promise() {
    replay::replay(&jobs::TARGETS);
    assert!(replay::still_open(&jobs::TARGETS).is_empty());
}
