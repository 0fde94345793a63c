use super::*;
use crate::site::Version;
use holdfast_base::NodeName;
use proptest::prelude::*;

fn item(kind: Kind, size: u64, modified_ns: Option<i64>) -> Item {
    let name = NodeName::new("x").expect("a name");
    Item { name, kind, size, modified_ns, mode: None, version: Version(String::new()) }
}

fn file(modified_ns: i64) -> Item {
    item(Kind::File, 1, Some(modified_ns))
}

#[test]
fn times_are_compared_as_precisely_as_the_coarser_side_keeps_them() {
    let exact = 1_700_000_000_123_456_789;
    for kept in [exact, 1_700_000_000_123_456_000, 1_700_000_000_123_000_000, 1_700_000_000_000_000_000] {
        assert!(same_time(&file(exact), &file(kept)) && same_time(&file(kept), &file(exact)), "{kept}");
    }
    for other in [exact + 1, 1_700_000_000_123_457_000, 1_700_000_000_124_000_000, 1_700_000_001_000_000_000] {
        assert!(!same_time(&file(exact), &file(other)), "{other}");
    }
    assert!(same_time(&file(-1), &file(-1_000_000_000)) && !same_time(&file(-1), &file(0)));
    assert!(!same_time(&item(Kind::File, 1, None), &item(Kind::File, 1, None)), "what is not known is not the same");
}

#[test]
fn a_folder_in_the_way_is_never_replaced() {
    let folder = item(Kind::Folder, 0, None);
    assert!(matches!(decide(&file(1), Some(&folder), &Options::default()), Decision::Refuse(_)));
}

#[test]
fn what_is_removed_from_the_source_has_to_be_the_same_and_not_only_to_look_like_it() {
    let options = Options { delete_source: true, ..Options::default() };
    assert!(matches!(decide(&file(1), Some(&file(1)), &options), Decision::Look));
    assert!(matches!(decide(&file(1), Some(&file(1)), &Options::default()), Decision::Same));
}

proptest! {
    /// The table of docs/transfer.md, said once more.
    #[test]
    fn decisions_are_those_of_the_table(
        sizes in (0u64..2, 0u64..2),
        times in (0i64..3, 0i64..3),
        policy in prop::sample::select(vec![IfExists::Replace, IfExists::Skip, IfExists::KeepBoth, IfExists::Fail]),
        update: bool,
        by_content: bool,
    ) {
        // Odd nanoseconds, so that all of them count.
        let at = |time: i64| Some(time * 1_000_000_000 + 1);
        let (ours, there) = (item(Kind::File, sizes.0, at(times.0)), item(Kind::File, sizes.1, at(times.1)));
        let compare = if by_content { Compare::Content } else { Compare::SizeAndTime };
        let options = Options { compare, if_exists: policy, update, ..Options::default() };
        let word = match decide(&ours, Some(&there), &options) {
            Decision::Same => "same",
            Decision::Look => "look",
            Decision::Skip(_) => "skip",
            Decision::Move { replaces: true } => "replace",
            Decision::Beside => "beside",
            Decision::Refuse(_) => "fail",
            other @ Decision::Move { .. } => return Err(TestCaseError::fail(format!("{other:?}"))),
        };
        let expected = if sizes.0 == sizes.1 && by_content {
            "look"
        } else if sizes.0 == sizes.1 && times.0 == times.1 {
            "same"
        } else if update && times.0 <= times.1 {
            "skip"
        } else {
            match policy {
                IfExists::Replace => "replace",
                IfExists::Skip => "skip",
                IfExists::KeepBoth => "beside",
                IfExists::Fail => "fail",
            }
        };
        prop_assert_eq!(word, expected);
    }
}
