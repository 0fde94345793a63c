//! Every input that fuzzing kept, once more: what clients send. See fuzz/README.md.

#[allow(unreachable_pub, reason = "public in the crate of the fuzz targets")]
#[path = "../../../fuzz/src/network/mod.rs"]
mod network;
#[allow(unreachable_pub, reason = "public in the crate of the fuzz targets")]
#[path = "../../../fuzz/src/replay.rs"]
mod replay;

#[test]
fn inputs_that_fuzzing_kept_break_no_promise() {
    replay::replay(&network::TARGETS);
}

#[test]
#[ignore = "these inputs are known to break one: fuzz/reproducers/open"]
fn no_input_is_known_to_break_a_promise() {
    let open = replay::still_open(&network::TARGETS);
    assert!(open.is_empty(), "{open:?}");
}
