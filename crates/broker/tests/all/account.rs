//! The same as an ordinary account.

use holdfast_testkit::sandboxed::all_tests_as_an_ordinary_account;

#[test]
fn everything_holds_for_an_ordinary_account_as_well() {
    all_tests_as_an_ordinary_account(false);
}
