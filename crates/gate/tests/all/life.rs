//! How gates begin, change and end.

use crate::support::{By, all, folder, host, policy, python, run, run_with, shell};
use holdfast_gate::{Gate, Options};
use holdfast_policy::{Operation, Request};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_program_that_lies_behind_the_gate_begins_in_a_folder_behind_it() {
    let (_guard, path) = folder();
    std::fs::copy("/usr/bin/pwd", path.join("program")).expect("a program");
    std::fs::create_dir(path.join("inside")).expect("a folder");
    let mut sandbox = host(&path, [path.join("program")]);
    sandbox.folder = path.join("inside");
    // To find and to execute it was decided by whoever starts it; what it does then is asked about by its own name.
    let rule = format!("[[rule]]\ndeny = [\"lookup\", \"exec\"]\npath = {path:?}\nprogram = \"holdfast\"\n");
    let done = run(policy(&rule), sandbox);
    assert_eq!(done.said, format!("{}\n", path.join("inside").display()), "{done:?}");
}

#[test]
fn another_judge_decides_from_the_next_call_on_and_what_is_open_stays_open() {
    let (_guard, path) = folder();
    std::fs::write(path.join("f"), "content").expect("a file");
    std::fs::write(path.join("g"), "content").expect("a file");
    let script = format!(
        "exec 3< {0}/f; exec 4< {0}/g; echo begun > {0}/begun; until test -e {0}/changed; do sleep 0.01; done; cat {0}/f; cat <&3; dd bs=1 count=1 skip=0 <&4 2>&1",
        path.display()
    );
    let (begun, changed) = (path.join("begun"), path.join("changed"));
    let each = format!("[[rule]]\ndeny = [\"read\"]\nfile = {:?}\narguments = {{ length = 77 }}\n", path.join("g"));
    let done = run_with(policy(&each), shell(&path, &script), |gate| {
        while !begun.exists() {
            std::thread::yield_now();
        }
        let rules = format!("[[rule]]\ndeny = [\"read\"]\nfile = {:?}\n", path.join("f"));
        let rules =
            format!("{rules}[[rule]]\ndeny = [\"read\"]\nfile = {:?}\narguments = {{ length = 1 }}\n", path.join("g"));
        gate.replace_judge(policy(&rules));
        std::fs::write(&changed, "").expect("a file");
    });
    assert!(done.said.contains("f: Permission denied\ncontent"), "{done:?}");
    // It was opened to be asked about at each call.
    assert!(done.said.contains("error reading") && done.said.contains("Permission denied"), "{done:?}");
}

#[test]
fn a_judge_that_refuses_to_look_up_a_folder_is_asked_at_once() {
    let (_guard, path) = folder();
    std::fs::create_dir_all(path.join("a/b")).expect("folders");
    let program = "
for turn in range(9): os.stat(D + '/a/b')
open(D + '/begun', 'w').close()
while not os.path.exists(D + '/changed'): os.path.exists(D + '/a/b')
say('stat', lambda: os.stat(D + '/a/b'))
";
    let done = run_with(policy(""), python(&path, program), |gate| {
        wait_for(&path.join("begun"));
        gate.replace_judge(policy(&format!("[[rule]]\ndeny = [\"lookup\"]\nfile = {:?}\n", path.join("a"))));
        std::fs::write(path.join("changed"), "").expect("a file");
    });
    assert!(done.said.ends_with("stat EACCES\n"), "{done:?}");
}

#[test]
fn a_judge_that_panics_ends_the_sandbox_and_lets_nothing_through() {
    let (_guard, path) = folder();
    std::fs::write(path.join("f"), "content").expect("a file");
    let judge = Arc::new(By(|request: &Request<'_>| {
        assert_ne!(request.operation, Operation::Read, "this is what the test is about");
        true
    }));
    let ended = Arc::new(AtomicBool::new(false));
    let told = ended.clone();
    let options =
        Options { on_end: Box::new(move |why| told.store(why.is_some(), Ordering::SeqCst)), ..Options::default() };
    let gate = Gate::new(judge, options);
    let sandbox = shell(&path, &format!("cat {}/f", path.display()));
    let running = sandbox.start_serving(&mut |folder, device| gate.serve(folder, device)).expect("it starts");
    assert!(!running.wait().expect("it ends").success());
    assert!(ended.load(Ordering::SeqCst));
}

#[test]
fn a_folder_that_nobody_serves_starts_nothing() {
    let (_guard, path) = folder();
    let error = shell(&path, "true").start().expect_err("nobody serves it");
    assert!(error.to_string().contains("cannot mount a file system that is served"), "{error}");
}

#[test]
fn what_is_refused_is_counted_and_the_number_ends_it() {
    let (_guard, path) = folder();
    std::fs::write(path.join("f"), "content").expect("a file");
    let process = Arc::new(std::sync::OnceLock::new());
    let kill = process.clone();
    let options = Options {
        kill_after: Some(5),
        on_kill: Box::new(move || {
            // Five may come before its start has returned here.
            let process: &std::os::fd::OwnedFd = kill.wait();
            rustix::process::pidfd_send_signal(process, rustix::process::Signal::KILL).expect("it runs");
        }),
        ..Options::default()
    };
    let gate = Gate::new(policy(&format!("[[rule]]\ndeny = [\"read\"]\nfile = {:?}\n", path.join("f"))), options);
    let script = format!("trap '' TERM HUP INT; while :; do cat {}/f; done", path.display());
    let mut sandbox = shell(&path, &script);
    sandbox.stderr = holdfast_sandbox::Stream::Null;
    let running = sandbox.start_serving(&mut |folder, device| gate.serve(folder, device)).expect("it starts");
    process.set(running.process().try_clone_to_owned().expect("a copy")).expect("once");
    assert!(!running.wait().expect("it ends").success());
    assert!(gate.counters().denied >= 5, "{:?}", gate.counters());
}

#[test]
fn many_files_and_many_names_are_forgotten_again() {
    let (_guard, path) = folder();
    let script = "
for turn in range(3):
    for number in range(500):
        open(f'{D}/{number}', 'w').write(str(number))
    assert len(os.listdir(D)) == 500
    for number in range(500):
        assert open(f'{D}/{number}').read() == str(number)
        os.unlink(f'{D}/{number}')
f = os.open(D + '/gone', os.O_CREAT | os.O_RDWR)
os.write(f, b'still there'); os.unlink(D + '/gone')
assert os.pread(f, 99, 0) == b'still there' and os.fstat(f).st_nlink == 0
os.ftruncate(f, 5); assert os.fstat(f).st_size == 5
";
    let done = run(all(), python(&path, script));
    assert!(done.outcome.success(), "{}", done.said);
}

/// Waits until a program has made a file.
fn wait_for(file: &std::path::Path) {
    let began = std::time::Instant::now();
    while !file.exists() && began.elapsed() < std::time::Duration::from_secs(20) {
        std::thread::yield_now();
    }
}

/// Where folders may be believed for a moment, what the program itself does is so at once, and so is a policy; what others do is soon.
#[test]
fn a_folder_is_believed_for_a_moment_and_nothing_that_is_done_inside_is_late() {
    let program = "
def there(name):
    try: os.stat(D + '/' + name); return True
    except (FileNotFoundError, PermissionError): return False
os.makedirs(D + '/a/b/c'); open(D + '/a/b/c/f', 'w').close()
for turn in range(20):
    assert there('a/b/c/f')
    os.chmod(D + '/a', 0o600)
    assert not there('a/b') and not there('a/b/c') and not there('a/b/c/f'), 'closed'
    os.chmod(D + '/a', 0o700)
    assert there('a/b/c/f')
    os.rename(D + '/a', D + '/other'); assert not there('a/b/c/f') and there('other/b/c/f'), 'moved'
    os.mkdir(D + '/a'); assert not there('a/b'), 'another'
    os.rmdir(D + '/a'); os.rename(D + '/other', D + '/a')
    os.rename(D + '/a/b/c', D + '/c'); assert not there('a/b/c') and there('c/f'), 'moved out'
    os.rename(D + '/c', D + '/a/b/c')
assert there('a/b/c/f')
print('begun', flush=True); open(D + '/begun', 'w').close()
late = time.monotonic() + 5
while (there('a/b/c/f') or not there('now')) and time.monotonic() < late: pass
print('moved')
while there('a/b/c') and time.monotonic() < late: pass
print('ended' if time.monotonic() < late else 'late')
";
    let (_guard, path) = folder();
    let other = path.with_extension("other");
    let done = run_with(all(), python(&path, program), |_| {
        wait_for(&path.join("begun"));
        std::fs::rename(path.join("a"), &other).expect("nobody minds");
        std::fs::create_dir_all(path.join("a/b/c")).expect("a folder");
        std::fs::write(path.join("now"), "").expect("a file");
        std::thread::sleep(std::time::Duration::from_millis(500));
        std::fs::remove_dir_all(path.join("a")).expect("nobody minds");
    });
    std::fs::remove_dir_all(other).expect("it is there");
    assert!(done.outcome.success() && done.said == "begun\nmoved\nended\n", "{done:?}");
}

#[test]
fn folders_are_asked_about_each_time_where_somebody_is_refused_or_told() {
    let program = "
os.makedirs(D + '/a/b')
for turn in range(3): os.stat(D + '/a/b')
";
    let looked_up = |rules: &str, everything: bool| {
        let (_guard, path) = folder();
        let told = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let (count, a) = (told.clone(), path.join("a"));
        let audit = move |record: &holdfast_broker::Record<'_>| {
            if record.operation == Operation::Lookup && record.path == a && record.allowed {
                count.fetch_add(1, Ordering::SeqCst);
            }
        };
        let options = Options { audit: Some(Box::new(audit)), audit_allowed: everything, ..Options::default() };
        let rules = rules.replace('D', &path.display().to_string());
        let gate = Gate::new(policy(&rules), options);
        let running =
            python(&path, program).start_serving(&mut |folder, device| gate.serve(folder, device)).expect("it starts");
        assert!(running.wait().expect("it ends").success());
        (gate.counters().calls, told.load(Ordering::SeqCst))
    };
    let (few, _) = looked_up("", false);
    let (calls, told) = looked_up("", true);
    assert!(told >= 4 && calls > few, "{told} of {calls}, {few}");
    let (calls, _) = looked_up("[[rule]]\ndeny = [\"lookup\"]\nfile = \"D/other\"\n", false);
    assert!(calls > few, "{calls}, {few}");
}

/// What others moved out of the folder is for other rules to decide about, each time.
#[test]
fn a_folder_that_was_moved_out_is_not_believed() {
    let program = "
os.makedirs(D + '/a/b/c'); os.chdir(D + '/a')
os.stat('b/c'); open(D + '/begun', 'w').close()
while not os.path.exists(D + '/moved'): time.sleep(0.01)
time.sleep(0.3)
for turn in range(300): os.stat('b/c')
";
    let calls = |moves: bool| {
        let (_guard, path) = folder();
        let other = path.with_extension("other");
        let done = run_with(all(), python(&path, program), |_| {
            wait_for(&path.join("begun"));
            if moves {
                std::fs::rename(path.join("a"), &other).expect("nobody minds");
            }
            std::fs::write(path.join("moved"), "").expect("a file");
        });
        if moves {
            std::fs::remove_dir_all(other).expect("it is there");
        }
        assert!(done.outcome.success(), "{done:?}");
        done.counters.calls
    };
    // Two folders are looked up, and the last is looked at.
    let (moved, believed) = (calls(true), calls(false));
    assert!(moved >= 900 && believed < 900, "{moved} {believed}");
}
