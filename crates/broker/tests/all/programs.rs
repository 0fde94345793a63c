//! Real programs under a judge that is asked about everything and allows it do what they do alone.

use crate::support::{all, folder, run, said, shell, unasked};

/// What a script says in the same sandbox when nobody is asked.
fn natively(script: &str) -> String {
    let done = unasked(shell(script));
    assert!(done.0.success(), "{done:?}");
    done.1
}

/// The same script says the same.
fn same(script: &str) {
    assert_eq!(said(all(), shell(script)), natively(script), "{script}");
}

#[test]
fn a_shell_says_what_it_says_alone() {
    same(
        "echo one; cd /usr; pwd; ls -l /usr; for x in 1 2 3; do echo $x; done; test -e /etc/passwd && echo there; head -c 9 /etc/passwd",
    );
}

#[test]
fn listing_a_tree_gives_the_same() {
    same("ls -lR /usr/share/perl5 /etc 2>/dev/null | head -5000; find /usr/lib/python3* -name '*.py' | sort | md5sum");
}

#[test]
fn python_walks_a_tree_and_finds_the_same() {
    same(
        "python3 -c 'import os,sys\nfor a,b,c in os.walk(\"/usr/lib/python3\"): print(a, sorted(b), sorted((x, os.lstat(a + \"/\" + x).st_size) for x in c))'",
    );
}

#[test]
fn copies_archives_and_moves_are_what_they_are_alone() {
    let (ours, theirs) = (folder(), folder());
    let script = |folder: &tempfile::TempDir| {
        format!(
            "set -e; umask 027; cd {}; mkdir -p a/b/c; echo one >a/one; echo two >a/b/two; ln -s one a/link; ln a/one a/b/hard; mkfifo a/fifo; chmod 4751 a/b/two; \
             touch -d 2001-02-03T04:05:06 a/one; cp -a a copy; tar -cf t.tar a; mkdir out; tar -xpf t.tar -C out; mv a/b/two a/three; rm -r copy/b/c; rm a/link; \
             truncate -s 99 a/three; dd if=/dev/zero of=big bs=64k count=3 conv=fsync 2>/dev/null; \
             find . ! -type l -printf '%p %y %m %n %s %U %G\\n' | sort; find . -type l -printf '%p %l\\n'; stat -c %Y a/one out/a/one copy/one; \
             cat out/a/b/two; (cd a && pwd | wc -c)",
            folder.path().display()
        )
    };
    assert_eq!(said(all(), shell(&script(&ours))), natively(&script(&theirs)));
}

#[test]
fn git_makes_a_repository_and_commits() {
    if !std::path::Path::new("/usr/bin/git").exists() {
        return;
    }
    let folder = folder();
    let script = format!(
        "set -e; export HOME={0}; cd {0}; git init -q r; cd r; echo one >file; git add file; git -c user.name=N -c user.email=n@x commit -qm one; \
        git log --format=%s; git status --short; git fsck",
        folder.path().display()
    );
    assert_eq!(said(all(), shell(&script)), "one\n");
}

#[test]
fn exit_codes_are_passed_on() {
    let done = run(all(), shell("exit 7"));
    assert_eq!(done.outcome.status, holdfast_sandbox::Status::Exited(7));
    assert!(done.counters.calls > 0 && done.counters.unserved == 0, "{done:?}");
}
