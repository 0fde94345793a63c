//! Copy-on-write: what a program changed, and what becomes of it.

use crate::support::{folder, is_root, python, said, shell, write};
use holdfast_sandbox::layer::{Change, Changes, Kind, commit, discard, patch};
use holdfast_sandbox::{Access, Mount, Sandbox, Source};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A program that changes everything that can be changed.
const SCRIPT: &str = r#"
cd "$TREE" || exit 1
echo new > added && mkdir -p made/deep && echo deep > made/deep/file && ln -s added soft && mkfifo pipe
echo more >> modified && chmod 600 mode && rm gone && rm -r goner
rm -r again && mkdir again && echo other > again/other
rm -r tofile && echo file > tofile
rm todir && mkdir todir && echo in > todir/in
mv moved elsewhere && mv movedir elsewheredir 2>/dev/null || { cp -a movedir elsewheredir && rm -r movedir; }
: >> untouched
printf x > "$(printf 'caf\351 \n')"
cat modified
"#;

/// Folder of the tree, and folder of changes.
fn prepared() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = folder();
    let (tree, changes) = (folder.path().join("tree"), folder.path().join("changes"));
    fs::create_dir(&changes).expect("a folder");
    for name in [
        "modified",
        "mode",
        "gone",
        "goner/a/b",
        "again/old",
        "tofile/x",
        "todir",
        "moved",
        "movedir/m",
        "untouched",
        "same/file",
    ] {
        write(&tree, name, name);
    }
    fs::set_permissions(tree.join("mode"), PermissionsExt::from_mode(0o644)).expect("ours");
    (folder, tree, changes)
}

fn sandbox(mut base: Sandbox, tree: &Path, changes: &Path) -> Sandbox {
    base.environment.push(("TREE".into(), tree.into()));
    let source = Source::CopyOnWrite { changes: changes.to_owned() };
    base.view.push(Mount::new(tree, Access::Writable).from(source));
    base
}

/// Everything in a tree: path, kind and mode, content.
fn picture(tree: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    let mut found = Vec::new();
    let mut waiting = vec![tree.to_owned()];
    while let Some(at) = waiting.pop() {
        let meta = fs::symlink_metadata(&at).expect("it is there");
        let content = if meta.is_file() {
            fs::read(&at).expect("a file")
        } else if meta.is_symlink() {
            fs::read_link(&at).expect("a link").as_os_str().as_bytes().to_vec()
        } else {
            Vec::new()
        };
        found.push((at.strip_prefix(tree).expect("below").to_owned(), meta.mode(), content));
        if meta.is_dir() {
            waiting.extend(fs::read_dir(&at).expect("a folder").map(|entry| entry.expect("an entry").path()));
        }
    }
    found.sort();
    found
}

#[test]
fn a_program_sees_its_changes_and_the_original_stays() {
    let (_folder, tree, changes) = prepared();
    let before = picture(&tree);
    let said = said(sandbox(shell(SCRIPT), &tree, &changes));
    assert_eq!(said, "modifiedmore\n");
    assert_eq!(picture(&tree), before);
    // They are there again the next time.
    let again = sandbox(shell("cd $TREE; cat added again/other; ls -d gone 2>/dev/null; ls again"), &tree, &changes);
    assert_eq!(crate::support::said(again), "new\nother\nother\n");
}

#[test]
fn the_changes_are_listed_with_what_they_are() {
    let (_folder, tree, changes) = prepared();
    said(sandbox(shell(SCRIPT), &tree, &changes));
    let list = Changes::read(&tree, &changes).expect("read");
    let mut expected: Vec<_> = [
        ("added", Kind::Added),
        ("again", Kind::Replaced),
        ("again/other", Kind::Added),
        ("elsewhere", Kind::Added),
        ("elsewheredir", Kind::Added),
        ("elsewheredir/m", Kind::Added),
        ("gone", Kind::Deleted),
        ("goner", Kind::Deleted),
        ("made", Kind::Added),
        ("made/deep", Kind::Added),
        ("made/deep/file", Kind::Added),
        ("mode", Kind::Metadata),
        ("modified", Kind::Modified),
        ("moved", Kind::Deleted),
        ("movedir", Kind::Deleted),
        ("pipe", Kind::Added),
        ("soft", Kind::Added),
        ("todir", Kind::Replaced),
        ("todir/in", Kind::Added),
        ("tofile", Kind::Replaced),
    ]
    .into_iter()
    .map(|(path, kind)| Change { path: path.into(), kind })
    .chain([Change { path: OsStr::from_bytes(b"caf\xe9 ").into(), kind: Kind::Added }])
    .collect();
    expected.sort();
    assert_eq!(list, expected);
}

#[test]
fn a_commit_makes_the_original_what_the_program_saw() {
    let (_folder, tree, changes) = prepared();
    said(sandbox(shell(SCRIPT), &tree, &changes));
    // A copy made by a program that sees the overlay is the oracle.
    let oracle = folder();
    let copy = sandbox(shell(&format!("cp -a $TREE {}/copy", oracle.path().display())), &tree, &changes);
    said(copy.mount(oracle.path(), Access::All));
    let listed = Changes::read(&tree, &changes).expect("read");
    assert_eq!(commit(&tree, &changes).expect("committed"), listed);
    assert_eq!(picture(&tree), picture(&oracle.path().join("copy")));
    assert!(!changes.join("upper").exists() && !changes.join("work").exists());
    assert_eq!(commit(&tree, &changes).expect("committed"), []);
    assert_eq!(Changes::read(&tree, &changes).expect("read"), []);
}

#[test]
fn what_is_discarded_is_gone() {
    let (_folder, tree, changes) = prepared();
    let before = picture(&tree);
    // A folder that its maker has closed is removed as well.
    said(sandbox(shell(&format!("{SCRIPT}\nmkdir -p closed/in; chmod 0 closed")), &tree, &changes));
    let work = fs::metadata(changes.join("work/work")).expect("it is there");
    assert_eq!(work.mode() & 0o777, 0o700);
    discard(&changes).expect("discarded");
    assert_eq!(picture(&tree), before);
    assert_eq!(Changes::read(&tree, &changes).expect("read"), []);
    assert_eq!(said(sandbox(shell("cat $TREE/gone"), &tree, &changes)), "gone");
}

#[test]
fn a_commit_that_was_killed_anywhere_is_finished_by_the_next() {
    if let Some(which) = std::env::var_os("HOLDFAST_SANDBOX_COMMIT") {
        let folder = PathBuf::from(which);
        commit(&folder.join("tree"), &folder.join("changes")).expect("committed");
        return;
    }
    let mut interrupted = 0;
    for round in 0..24_u32 {
        let (folder, tree, changes) = prepared();
        said(sandbox(shell(SCRIPT), &tree, &changes));
        let oracle = crate::support::folder();
        let copy = sandbox(shell(&format!("cp -a $TREE {}/copy", oracle.path().display())), &tree, &changes);
        said(copy.mount(oracle.path(), Access::All));
        // Stopped by the file system itself, after so many calls that change something.
        let mut child = std::process::Command::new("strace")
            .args(["-f", "-qq", "-o", "/dev/null", "-e"])
            .arg(format!(
                "inject=renameat,renameat2,unlinkat,fsync,mkdirat,syncfs:signal=SIGKILL:when={}",
                1 + round * 3
            ))
            .arg(std::env::current_exe().expect("a path"))
            .args(["--exact", "layers::a_commit_that_was_killed_anywhere_is_finished_by_the_next"])
            .env("HOLDFAST_SANDBOX_COMMIT", folder.path())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("strace is there");
        interrupted += u32::from(!child.wait().expect("it ends").success());
        commit(&tree, &changes).expect("committed");
        assert_eq!(picture(&tree), picture(&oracle.path().join("copy")), "round {round}");
    }
    assert!(interrupted > 12, "{interrupted}");
}

#[test]
fn changes_are_used_by_one_at_a_time() {
    let (_folder, tree, changes) = prepared();
    let (running, mut output) =
        crate::support::start(sandbox(shell("echo ready; read -r forever < /dev/zero"), &tree, &changes));
    crate::support::line(&mut output);
    assert!(Changes::read(&tree, &changes).is_err_and(|error| error.to_string().contains("running sandbox")));
    assert!(sandbox(shell("true"), &tree, &changes).start().is_err());
    drop(running);
    assert!(Changes::read(&tree, &changes).is_ok());
}

#[test]
fn changes_inside_of_the_original_are_refused() {
    let (_folder, tree, _) = prepared();
    let inside = tree.join("same");
    let error = sandbox(shell("true"), &tree, &inside).start().expect_err("refused").to_string();
    assert!(error.contains("inside of the other"), "{error}");
    let file = Source::CopyOnWrite { changes: inside };
    let mut sandbox = shell("true");
    sandbox.view.push(Mount::new(tree.join("mode"), Access::All).from(file));
    assert!(sandbox.start().is_err_and(|error| error.to_string().contains("no folder")));
}

#[test]
fn what_a_program_leaves_in_the_upper_leads_nowhere_else() {
    let (folder, tree, changes) = prepared();
    let outside = write(folder.path(), "outside/file", "outside");
    let above = outside.parent().expect("a folder").to_owned();
    // A link in place of a folder of the original, whose content is then deleted.
    said(sandbox(
        shell(&format!("cd $TREE; rm -r goner; ln -s {} goner; rm -r same; ln -s / same", above.display())),
        &tree,
        &changes,
    ));
    commit(&tree, &changes).expect("committed");
    assert_eq!(fs::read_link(tree.join("goner")).expect("a link"), above);
    assert_eq!(fs::read_to_string(&outside).expect("it is there"), "outside");
}

#[test]
fn owners_and_attributes_are_committed() {
    let (_folder, tree, changes) = prepared();
    let program = "
import os
t = os.environ['TREE']
os.setxattr(t + '/mode', 'user.note', b'kept')
os.utime(t + '/modified', (1000, 2000)); os.chmod(t + '/modified', 0o755)
os.chmod(t + '/same', 0o711)
";
    said(sandbox(python(program), &tree, &changes));
    commit(&tree, &changes).expect("committed");
    let mut value = [0; 16];
    let length = rustix::fs::getxattr(tree.join("mode"), "user.note", &mut value[..]).expect("it is there");
    assert_eq!(&value[..length], b"kept");
    let meta = |name: &str| fs::metadata(tree.join(name)).expect("it is there");
    assert_eq!(
        (meta("modified").mtime(), meta("modified").mode() & 0o777, meta("same").mode() & 0o777),
        (2000, 0o755, 0o711)
    );
    let _ = is_root();
}

#[test]
fn an_archive_of_the_changes_has_what_is_new_and_marks_for_what_is_gone() {
    let (folder, tree, changes) = prepared();
    let long = "l".repeat(150);
    let more = format!(
        "{SCRIPT}\necho long > {long}; ln -s {long} tolong; setfattr -n user.note -v kept added 2>/dev/null; true"
    );
    said(sandbox(shell(&more), &tree, &changes));
    let mut archive = Vec::new();
    patch(&tree, &changes, &mut archive).expect("archived");
    let file = folder.path().join("patch.tar");
    fs::write(&file, &archive).expect("written");
    // Unpacked by another program into an empty folder.
    let out = folder.path().join("out");
    fs::create_dir(&out).expect("a folder");
    let status =
        std::process::Command::new("tar").arg("-xf").arg(&file).arg("-C").arg(&out).status().expect("tar is there");
    assert!(status.success());
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(read("modified"), "modifiedmore\n");
    assert_eq!(read("made/deep/file"), "deep\n");
    assert_eq!(read(&long), "long\n");
    assert_eq!(fs::read_link(out.join("tolong")).expect("a link").to_str(), Some(long.as_str()));
    assert_eq!(fs::metadata(out.join("mode")).expect("it is there").mode() & 0o777, 0o600);
    assert!(out.join(OsStr::from_bytes(b"caf\xe9 ")).exists());
    for mark in [".wh.gone", ".wh.goner", ".wh.moved", ".wh.movedir", "again/.wh..wh..opq", "todir/.wh..wh..opq"] {
        assert_eq!(read(mark), "", "{mark}");
    }
    for absent in ["gone", "untouched", "same", "again/old"] {
        assert!(!out.join(absent).exists(), "{absent}");
    }
    // The changes are still there.
    assert!(!commit(&tree, &changes).expect("committed").is_empty());
}
