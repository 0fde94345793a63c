//! Every input that fuzzing kept, once more: what browsers, authenticators, providers and publishers send. See fuzz/README.md.

#[allow(unreachable_pub, reason = "public in the crate of the fuzz targets")]
#[path = "../../../fuzz/src/pages/mod.rs"]
mod pages;
#[allow(unreachable_pub, reason = "public in the crate of the fuzz targets")]
#[path = "../../../fuzz/src/replay.rs"]
mod replay;

#[test]
fn inputs_that_fuzzing_kept_break_no_promise() {
    replay::replay(&pages::TARGETS);
}

#[test]
#[ignore = "these inputs are known to break one: fuzz/reproducers/open"]
fn no_input_is_known_to_break_a_promise() {
    let open = replay::still_open(&pages::TARGETS);
    assert!(open.is_empty(), "{open:?}");
}
