//! The same as an ordinary account.

use crate::support::is_root;
use std::process::Command;

/// Set in the copy that runs without privilege.
const ORDINARY: &str = "HOLDFAST_BROKER_ORDINARY";

#[test]
fn everything_holds_for_an_ordinary_account_as_well() {
    if !is_root() {
        // Then it is what all other tests have shown.
        return;
    }
    // The folder that a build is in may be closed to others.
    let folder = crate::support::folder();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).expect("it is ours");
    let own = std::env::current_exe().expect("a test has a path");
    let copy = folder.path().join("all");
    std::fs::copy(own, &copy).expect("a copy");
    let output = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--no-new-privs"])
        .arg(copy)
        .args(["--test-threads", "2"])
        .env(ORDINARY, "1")
        .current_dir("/")
        .output()
        .expect("setpriv is there");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("test result: ok"), "{said}");
}
