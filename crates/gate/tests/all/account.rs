//! The same as an ordinary account.

use crate::support::{folder, is_root};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Where everybody may open `/dev/fuse`, as most distributions have it; this machine may have it otherwise, so there is one of its own in a namespace of its own.
const OPENED: &str = "\
mount -t tmpfs none \"$1\" && mknod -m 666 \"$1/fuse\" c 10 229 && mount --bind \"$1/fuse\" /dev/fuse || exit 99
cd / && exec setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs \"$2\" --test-threads 2";

#[test]
fn everything_holds_for_an_ordinary_account_as_well() {
    if !is_root() {
        // Then it is what all other tests have shown.
        return;
    }
    // The folder that a build is in may be closed to others.
    let (_guard, path) = folder();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("it is ours");
    let (copy, devices) = (path.join("all"), path.join("devices"));
    std::fs::copy(std::env::current_exe().expect("a test has a path"), &copy).expect("a copy");
    std::fs::create_dir(&devices).expect("a folder");
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", OPENED, "sh"])
        .args([&devices, &copy])
        .output()
        .expect("unshare is there");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("test result: ok"), "{said}");
}
