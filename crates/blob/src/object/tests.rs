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

#[test]
fn a_pack_that_has_ended_holds_no_bytes_although_somebody_has_the_pack() {
    struct Counted(#[expect(dead_code, reason = "its count is looked at")] Arc<()>);
    impl AsRef<[u8]> for Counted {
        fn as_ref(&self) -> &[u8] {
            b"content"
        }
    }
    for stored in [true, false] {
        let (open, count) = (OpenPacks::default(), Arc::new(()));
        let growing = open.claim(PackName([1; 16])).expect("free").grow();
        growing.push(vec![bytes::Bytes::from_owner(Counted(Arc::clone(&count)))]).expect("open");
        assert_eq!(Arc::strong_count(&count), 2);
        growing.note_stored(stored);
        growing.end(if stored { Ok(()) } else { Err(Error::unavailable("no luck")) });
        assert_eq!(Arc::strong_count(&count), 1, "stored: {stored}");
        // A reader that came before the end is sent to the object, or told that there is none.
        match growing.read(0, 7, Vec::new()) {
            Ok(open::Found::InObject(_)) => assert!(stored),
            Err(error) => assert!(!stored && error.kind() == ErrorKind::Unavailable),
            Ok(open::Found::Here(_)) => panic!("it has no bytes"),
        }
    }
}
