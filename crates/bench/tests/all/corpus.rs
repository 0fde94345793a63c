//! Every input that fuzzing kept, once more: plans for the bench. See fuzz/README.md.

#[allow(unreachable_pub, reason = "public in the crate of the fuzz targets")]
#[path = "../../../../fuzz/src/measured/mod.rs"]
mod measured;
#[allow(unreachable_pub, reason = "public in the crate of the fuzz targets")]
#[path = "../../../../fuzz/src/replay.rs"]
mod replay;

#[test]
fn inputs_that_fuzzing_kept_break_no_promise() {
    replay::replay(&measured::TARGETS);
}

#[test]
#[ignore = "these inputs are known to break one: fuzz/reproducers/open"]
fn no_input_is_known_to_break_a_promise() {
    let open = replay::still_open(&measured::TARGETS);
    assert!(open.is_empty(), "{open:?}");
}
