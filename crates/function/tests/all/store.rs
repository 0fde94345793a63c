//! Versions on disk: whole or not at all, whatever kills whoever makes them.

use crate::support::{Ground, named, text};
use holdfast_base::ErrorKind;
use holdfast_function::{End, Step, Store};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a child is to do: what, where, until which step.
const ORDER: &str = "HOLDFAST_TEST_ORDER";

fn below(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        if entry.file_type().expect("there").is_dir() {
            all.extend(below(&entry.path()));
        }
        all.push(entry.path());
    }
    all
}

#[test]
fn another_version_takes_the_place_of_the_first_and_nothing_of_it_is_left() {
    let ground = Ground::new();
    let first = ground.deploy("f", "echo first", "", "");
    assert_eq!(text(&ground.call("f", b"").output), "first\n");
    let before = below(ground.store.folder()).len();
    let second = ground.deploy("f", "echo second", "", "");
    assert_ne!(first.version, second.version);
    assert_eq!(text(&ground.call("f", b"").output), "second\n");
    assert_eq!(below(ground.store.folder()).len(), before);
    let listed = ground.store.list().expect("listed");
    assert_eq!((listed.len(), listed[0].version), (1, second.version));
    ground.store.remove(&named("f")).expect("removed");
    assert_eq!(ground.store.function(&named("f")).expect_err("gone").kind(), ErrorKind::NotFound);
    assert_eq!(ground.store.remove(&named("f")).expect_err("gone").kind(), ErrorKind::NotFound);
    // The lock, and the empty folder for what is set aside.
    assert_eq!(below(ground.store.folder()).len(), 2);
}

#[test]
fn a_version_in_use_stays_until_it_is_not() {
    let ground = Ground::new();
    ground.deploy("f", "echo first", "", "");
    let held = ground.function("f");
    ground.deploy("f", "echo second", "", "");
    let code = ground.store.folder().join(format!("f/versions/{}/handler", held.version));
    assert!(code.exists(), "it is in use");
    drop(held);
    ground.deploy("f", "echo third", "", "");
    assert!(!code.exists(), "nobody uses it any more");
    let held = ground.function("f");
    ground.store.remove(&named("f")).expect("removed");
    let left = |ground: &Ground| below(ground.store.folder()).iter().filter(|path| path.ends_with("handler")).count();
    assert_eq!(left(&ground), 1);
    drop(held);
    ground.deploy("g", "true", "", "");
    assert_eq!(left(&ground), 1, "that of g");
}

#[test]
fn a_folder_that_is_no_function_changes_nothing() {
    let ground = Ground::new();
    ground.deploy("f", "echo first", "", "");
    let before = below(ground.store.folder());
    let refuse = |change: &dyn Fn(&Path), kind: ErrorKind, why: &str| {
        let source = ground.source("f", "echo second", "", "");
        change(&source);
        let error = ground.store.deploy(&source, None).expect_err(why);
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(why), "{why}: {error}");
        fs::remove_dir_all(&source).expect("removed");
        assert_eq!(below(ground.store.folder()), before, "{why}");
    };
    let write =
        |name: &'static str, text: &'static str| move |at: &Path| fs::write(at.join(name), text).expect("written");
    refuse(&write("function.toml", "comand = 1"), ErrorKind::InvalidInput, "function.toml:1:1: \"comand\"");
    refuse(&write("policy.toml", "[fils]\n"), ErrorKind::InvalidInput, "policy.toml:1:2: \"fils\"");
    refuse(&write("policy.toml", "default = \"allow\"\n"), ErrorKind::Unsupported, "default = \"deny\"");
    refuse(&|at| fs::remove_file(at.join("function.toml")).expect("removed"), ErrorKind::NotFound, "function.toml");
    refuse(&|at| symlink("/etc/passwd", at.join("x")).expect("a link"), ErrorKind::InvalidInput, "leads out");
    refuse(&|at| symlink("../../x", at.join("x")).expect("a link"), ErrorKind::InvalidInput, "leads out");
    let by_links = |at: &Path| {
        symlink(".", at.join("here")).expect("a link");
        symlink("here/here/here/../../..", at.join("out")).expect("a link");
    };
    refuse(&by_links, ErrorKind::InvalidInput, "leads out");
    let fifo = |at: &Path| {
        rustix::fs::mknodat(rustix::fs::CWD, at.join("x"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .expect("a FIFO");
    };
    refuse(&fifo, ErrorKind::InvalidInput, "neither a file nor a folder");
    let large = |at: &Path| fs::File::create(at.join("x")).expect("made").set_len(1 << 30).expect("sparse");
    refuse(&large, ErrorKind::TooLarge, "512 MiB");
    let many = |at: &Path| {
        for number in 0..20_001 {
            fs::write(at.join(number.to_string()), "").expect("written");
        }
    };
    refuse(&many, ErrorKind::TooLarge, "more than 20000");
    assert_eq!(text(&ground.call("f", b"").output), "first\n");
    let nowhere = ground.store.deploy(&ground.path("nowhere"), None).expect_err("not there");
    assert_eq!(nowhere.kind(), ErrorKind::NotFound);
    let bad = ground.store.deploy(&ground.source("Bad Name", "", "", ""), None).expect_err("no name");
    assert!(bad.message().contains("--name"), "{bad}");
}

#[test]
fn a_store_that_others_can_change_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let ground = Ground::new();
    fs::create_dir(ground.path("open")).expect("a folder");
    fs::set_permissions(ground.path("open"), fs::Permissions::from_mode(0o777)).expect("changed");
    assert_eq!(Store::open(ground.path("open")).expect_err("open to all").kind(), ErrorKind::Forbidden);
}

#[test]
fn two_who_deploy_at_a_time_do_not_mix() {
    let ground = Ground::new();
    let sources: Vec<_> = (0..4)
        .map(|number| {
            let source = ground.source(&format!("s{number}"), "cat a b", "", "");
            for part in ["a", "b"] {
                fs::write(source.join(part), format!("{number}")).expect("written");
            }
            source
        })
        .collect();
    std::thread::scope(|scope| {
        for source in &sources {
            let store = ground.store.clone();
            scope.spawn(move || {
                for _ in 0..10 {
                    store.deploy(source, Some(named("f"))).expect("deployed");
                }
            });
        }
        for _ in 0..5 {
            if let Ok(function) = ground.store.function(&named("f")) {
                let call = crate::support::block_on(crate::support::alone(&function.into(), b"")).expect("a call");
                assert_eq!(call.end, End::Done, "{}", text(&call.log));
                assert_eq!(call.output[0], call.output[1]);
            }
        }
    });
    assert_eq!(fs::read_dir(ground.store.folder().join("f/versions")).expect("there").count(), 1);
}

/// What children do; alone it does nothing.
#[test]
fn child_that_is_killed() {
    let Ok(order) = std::env::var(ORDER) else { return };
    let words: Vec<&str> = order.split('|').collect();
    let [what, store, source, step] = words[..] else { panic!("an order: {order}") };
    let store = Store::open(store).expect("a store");
    let reach = |here: Step| {
        if format!("{here:?}") == step {
            std::process::abort();
        }
    };
    if what == "deploy" {
        store.deploy_by_steps(Path::new(source), Some(named("f")), &reach).expect("deployed");
    } else {
        store.remove_by_steps(&named("f"), &reach).expect("removed");
    }
}

fn killed_at(ground: &Ground, what: &str, source: &Path, step: Step) -> bool {
    let order =
        [what, &ground.store.folder().display().to_string(), &source.display().to_string(), &format!("{step:?}")];
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", "store::child_that_is_killed"]).env(ORDER, order.join("|"));
    !child.output().expect("a child").status.success()
}

#[test]
fn killed_in_any_step_the_old_or_the_new_version_is_there_and_nothing_stays_for_good() {
    for step in Step::ALL {
        for is_first in [true, false] {
            let ground = Ground::new();
            if !is_first {
                ground.deploy("f", "echo old", "", "");
            }
            let source = ground.source("new", "echo new", "", "");
            let killed = killed_at(&ground, "deploy", &source, step);
            assert_eq!(killed, step != Step::Aside, "{step:?}");
            let is_new = matches!(step, Step::Switched | Step::Swept | Step::Aside);
            if is_new || !is_first {
                let expected = if is_new { "new\n" } else { "old\n" };
                let call = ground.call("f", b"");
                assert_eq!(text(&call.output), expected, "{step:?}: {call:?}");
            } else {
                assert!(ground.store.list().expect("listed").is_empty(), "{step:?}");
                assert_eq!(ground.store.function(&named("f")).expect_err("none").kind(), ErrorKind::NotFound);
            }
            ground.deploy("other", "true", "", "");
            ground.store.remove(&named("other")).expect("removed");
            if is_new || !is_first {
                assert_eq!(
                    fs::read_dir(ground.store.folder().join("f/versions")).expect("there").count(),
                    1,
                    "{step:?}"
                );
                ground.store.remove(&named("f")).expect("removed");
            }
            assert_eq!(below(ground.store.folder()).len(), 2, "{step:?} {:?}", below(ground.store.folder()));
        }
    }
}

#[test]
fn killed_while_removing_a_function_is_there_or_gone() {
    for step in [Step::Aside, Step::Swept] {
        let ground = Ground::new();
        ground.deploy("f", "echo old", "", "");
        assert!(killed_at(&ground, "remove", Path::new(""), step));
        assert!(ground.store.list().expect("listed").is_empty());
        ground.deploy("f", "echo new", "", "");
        let call = ground.call("f", b"");
        assert_eq!((&call.end, text(&call.output)), (&End::Done, "new\n".to_owned()));
        ground.store.remove(&named("f")).expect("removed");
        assert_eq!(below(ground.store.folder()).len(), 2);
    }
}
