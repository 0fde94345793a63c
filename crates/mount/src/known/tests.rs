//! What is known of what the kernel has.

use super::{FILES_MAX, Found, Known};
use fuser::INodeNo;
use holdfast_base::ContentId;

const FILE: INodeNo = INodeNo(7);
const ONE: Option<ContentId> = Some(ContentId(1));
const TWO: Option<ContentId> = Some(ContentId(2));
const THREE: Option<ContentId> = Some(ContentId(3));

#[test]
fn a_file_that_is_found_as_it_was_told_has_nothing_to_forget() {
    let known = Known::default();
    known.tells(FILE, ONE);
    assert_eq!(known.find(FILE, ONE), Found::Size);
    known.has_only(FILE, ONE);
    known.tells(FILE, ONE);
    assert_eq!(known.find(FILE, ONE), Found::This);
    // What programs here write over it is known, too.
    known.saved(FILE, ONE, TWO);
    assert_eq!(known.find(FILE, TWO), Found::This);
    known.saved(FILE, TWO, None);
    assert_eq!(known.find(FILE, None), Found::This);
}

#[test]
fn what_another_made_of_it_is_forgotten_first() {
    let known = Known::default();
    known.tells(FILE, ONE);
    assert_eq!(known.find(FILE, TWO), Found::Other, "it was told another size");
    known.has_only(FILE, ONE);
    assert_eq!(known.find(FILE, TWO), Found::Other, "it has pages of another content");
    // It was told of the new one; whether it took that or an older answer nobody knows.
    known.tells(FILE, TWO);
    known.tells(FILE, TWO);
    assert_eq!(known.find(FILE, TWO), Found::Other);
    known.has_only(FILE, TWO);
    assert_eq!(known.find(FILE, TWO), Found::This);
    // An answer may be lost on it when it is told to ask again.
    known.is_unsure(FILE);
    assert_eq!(known.find(FILE, TWO), Found::Other);
    known.has_only(FILE, TWO);
    known.is_mixed(FILE);
    assert_eq!(known.find(FILE, TWO), Found::Other);
    // Written over what it did not have: pages of both.
    known.has_only(FILE, TWO);
    known.saved(FILE, THREE, None);
    assert_eq!(known.find(FILE, None), Found::Other);
}

#[test]
fn what_is_no_longer_remembered_is_not_taken_for_right() {
    let known = Known::default();
    let more = |from: u64| (from..from + FILES_MAX as u64).map(INodeNo);
    known.has_only(FILE, ONE);
    // Names that are looked at push out none of which there are pages.
    more(100).for_each(|ino| known.tells(ino, TWO));
    assert_eq!(known.find(FILE, ONE), Found::This);
    // An answer that is still on its way may come before or after one that nobody remembers.
    let again = INodeNo(101);
    assert_eq!(known.find(again, THREE), Found::Other);
    more(100_000).for_each(|ino| known.has_only(ino, TWO));
    assert_eq!(known.find(FILE, ONE), Found::Other);
    assert!(known.0.lock().of.len() <= FILES_MAX);
}
