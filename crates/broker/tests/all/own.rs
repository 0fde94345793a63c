//! What a program makes itself, and makes again and again; and refusals of many threads at once.

use crate::support::{By, all, all_but, folder, literal, python, run, said};
use holdfast_policy::{Operation, Request};
use std::path::Path;
use std::sync::Arc;

#[test]
fn what_a_program_made_itself_is_refused_like_any_other() {
    let folder = folder();
    let place = folder.path().to_owned();
    // It may be made and written, and nothing else.
    let judge = By(move |request: &Request<'_>| {
        let may = [Operation::Lookup, Operation::Create, Operation::Write];
        request.path == place || !request.path.starts_with(&place) || may.contains(&request.operation)
    });
    let program = format!(
        "P = {}\nos.close(os.open(P, os.O_CREAT | os.O_WRONLY))\nsay('read', lambda: os.open(P, os.O_RDONLY))\nsay('stat', lambda: os.stat(P))\n\
         say('unlink', lambda: os.unlink(P))\nsay('chmod', lambda: os.chmod(P, 0o600))\nsay('xattr', lambda: os.setxattr(P, 'user.a', b'1'))\n",
        literal(&folder.path().join("own"))
    );
    let done = run(Arc::new(judge), python(&program));
    assert_eq!(done.said, "read EACCES\nstat EACCES\nunlink EACCES\nchmod EACCES\nxattr EACCES\n", "{done:?}");
    // What cannot be found cannot be made, so nobody has one that cannot be found.
    let new = folder.path().join("new");
    let program = format!(
        "P = {}\nsay('make', lambda: os.open(P, os.O_CREAT | os.O_WRONLY))\nsay('folder', lambda: os.mkdir(P))\n",
        literal(&new)
    );
    let done = run(all_but(Operation::Lookup, &new), python(&program));
    assert_eq!(done.said, "make EACCES\nfolder EACCES\n", "{done:?}");
    assert!(!new.exists());
}

#[test]
fn folders_are_made_and_removed_again_and_again() {
    let folder = folder();
    let program = format!(
        "D = {}
for turn in range(2000):
    os.mkdir(D + '/same'); os.rmdir(D + '/same')
def both():
    for turn in range(500):
        try: os.mkdir(D + '/shared')
        except FileExistsError: pass
        try: os.rmdir(D + '/shared')
        except FileNotFoundError: pass
threads = [threading.Thread(target=both) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(os.listdir(D))
",
        literal(folder.path())
    );
    assert_eq!(said(all(), python(&program)), "[]\n");
}

#[test]
fn refusals_of_many_threads_are_all_counted() {
    let program = "
def refused():
    for _ in range(200):
        try: os.stat('/nothing')
        except PermissionError: pass
threads = [threading.Thread(target=refused) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
";
    let done = run(all_but(Operation::Lookup, Path::new("/nothing")), python(program));
    assert_eq!((done.counters.denied, done.told.len()), (1600, 1600), "{done:?}");
}
