//! Every input that fuzzing kept, once more: what servers of others send. See fuzz/README.md.

#[allow(unreachable_pub, reason = "public in the crate of the fuzz targets")]
#[path = "../../../fuzz/src/replay.rs"]
mod replay;
#[allow(unreachable_pub, reason = "public in the crate of the fuzz targets")]
#[path = "../../../fuzz/src/sites/mod.rs"]
mod sites;
#[allow(unreachable_pub, reason = "public in the crate of the fuzz targets")]
#[path = "../../../fuzz/src/ssh/mod.rs"]
mod ssh;

#[test]
fn inputs_that_fuzzing_kept_break_no_promise() {
    replay::replay(&sites::TARGETS);
    replay::replay(&ssh::TARGETS);
}

#[test]
#[ignore = "these inputs are known to break one: fuzz/reproducers/open"]
fn no_input_is_known_to_break_a_promise() {
    let open = [replay::still_open(&sites::TARGETS), replay::still_open(&ssh::TARGETS)].concat();
    assert!(open.is_empty(), "{open:?}");
}
