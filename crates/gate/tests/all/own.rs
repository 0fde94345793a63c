//! What a program makes itself, and makes again and again.

use crate::support::{all, folder, policy, python, run, said};

#[test]
fn what_a_program_made_itself_is_refused_like_any_other() {
    let (_guard, path) = folder();
    // It may be made and written, and neither be read nor be removed.
    let rule =
        format!("[[rule]]\ndeny = [\"read\", \"unlink\", \"setattr\", \"xattr\"]\npath = \"{}/*\"\n", path.display());
    let program = "
os.close(os.open(D + '/own', os.O_CREAT | os.O_WRONLY))
say('read', lambda: os.open(D + '/own', os.O_RDONLY))
say('unlink', lambda: os.unlink(D + '/own'))
say('chmod', lambda: os.chmod(D + '/own', 0o600))
say('xattr', lambda: os.setxattr(D + '/own', 'user.a', b'1'))
";
    let done = run(policy(&rule), python(&path, program));
    assert_eq!(done.said, "read EACCES\nunlink EACCES\nchmod EACCES\nxattr EACCES\n", "{done:?}");
    // What cannot be found cannot be made, so nobody has one that cannot be found.
    let rule = format!("[[rule]]\ndeny = [\"lookup\"]\npath = \"{}/*\"\n", path.display());
    let program = "
say('make', lambda: os.open(D + '/new', os.O_CREAT | os.O_WRONLY))
say('folder', lambda: os.mkdir(D + '/folder'))
say('stat', lambda: os.stat(D + '/own'))
";
    let done = run(policy(&rule), python(&path, program));
    assert_eq!(done.said, "make EACCES\nfolder EACCES\nstat EACCES\n", "{done:?}");
    assert!(!path.join("new").exists() && !path.join("folder").exists());
}

#[test]
fn folders_are_made_and_removed_again_and_again() {
    let (_guard, path) = folder();
    let program = "
for turn in range(2000):
    os.mkdir(D + '/same'); os.rmdir(D + '/same')
children = []
for number in range(4):
    pid = os.fork()
    if pid == 0:
        for turn in range(500):
            try: os.mkdir(D + '/shared')
            except FileExistsError: pass
            try: os.rmdir(D + '/shared')
            except FileNotFoundError: pass
        os._exit(0)
    children.append(pid)
print([os.waitpid(pid, 0)[1] for pid in children], os.listdir(D))
";
    assert_eq!(said(all(), python(&path, program)), "[0, 0, 0, 0] []\n");
}
