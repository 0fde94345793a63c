//! What the two object stores share, without a service: ranges that answers claim to be.

use super::*;

#[test]
fn an_answer_must_be_the_range_that_was_asked_for() {
    assert!(check_range(Some("bytes 5-9/100"), 5, 5).is_ok());
    assert!(check_range(Some("bytes 5-9/*"), 5, 5).is_ok());
    for wrong in
        [None, Some(""), Some("bytes 5-8/9"), Some("bytes 4-9/100"), Some("bytes 5-10/100"), Some("lines 5-9/100")]
    {
        assert_eq!(check_range(wrong, 5, 5).expect_err("wrong").kind(), ErrorKind::Damaged, "{wrong:?}");
    }
}

#[test]
fn what_the_operator_must_mend_is_unavailable_to_the_drive() {
    for kind in [ErrorKind::Forbidden, ErrorKind::Unauthenticated, ErrorKind::Conflict] {
        let error = told(Error::new(kind, "the reason"));
        assert_eq!((error.kind(), error.message()), (ErrorKind::Unavailable, "the reason"));
    }
    assert_eq!(told(Error::damaged("x")).kind(), ErrorKind::Damaged);
}
