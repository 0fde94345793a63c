//! What programs do to get around a gate, and what happens to its folder from outside.

use crate::support::{all, folder, policy, python, run, run_with, said, shell};
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn links_lead_where_the_program_sees_them_lead_and_never_out_of_the_real_folder() {
    let (_outside, outside) = folder();
    std::fs::write(outside.join("secret"), "secret").expect("a file");
    let (_guard, path) = folder();
    symlink(outside.join("secret"), path.join("link")).expect("a link");
    symlink("../../../../../../etc/hostname", path.join("up")).expect("a link");
    // Outside of the gate the folder is hidden by the view.
    let mut sandbox = shell(&path, &format!("cd {}; cat link; cat up > /dev/null && echo up", path.display()));
    sandbox.view.push(holdfast_sandbox::Mount::new(&outside, holdfast_sandbox::Access::Hidden));
    let done = run(all(), sandbox);
    assert!(!done.said.contains("secret\n") && done.said.contains("Permission denied"), "{done:?}");
}

#[test]
fn a_race_of_links_and_folders_leads_nowhere_else() {
    let (_outside, outside) = folder();
    std::fs::create_dir(outside.join("d")).expect("a folder");
    std::fs::write(outside.join("d/f"), "secret").expect("a file");
    let (_guard, path) = folder();
    std::fs::create_dir(path.join("d")).expect("a folder");
    std::fs::write(path.join("d/f"), "open").expect("a file");
    symlink(outside.join("d"), path.join("link")).expect("a link");
    let exchange = || {
        let flags = rustix::fs::RenameFlags::EXCHANGE;
        rustix::fs::renameat_with(rustix::fs::CWD, path.join("d"), rustix::fs::CWD, path.join("link"), flags)
            .expect("an exchange");
    };
    let over = AtomicBool::new(false);
    let done = std::thread::scope(|scope| {
        scope.spawn(|| {
            // From outside, where nobody is asked.
            while !over.load(Ordering::SeqCst) {
                exchange();
            }
        });
        let script = "
read = refused = 0
for _ in range(5000):
    try:
        got = open(D + '/d/f').read(); read += 1
        if got != 'open': print('it read', got)
        open(D + '/d/f', 'w').write('open')
    except OSError: refused += 1
assert read and refused, (read, refused)
";
        // What is outside is hidden by the view, in which the kernel follows links.
        let mut sandbox = python(&path, script);
        sandbox.view.push(holdfast_sandbox::Mount::new(&outside, holdfast_sandbox::Access::Hidden));
        let done = run(all(), sandbox);
        over.store(true, Ordering::SeqCst);
        done
    });
    assert!(done.outcome.success() && !done.said.contains("it read secret"), "{done:?}");
    assert_eq!(std::fs::read_to_string(outside.join("d/f")).expect("it is there"), "secret");
}

#[test]
fn what_is_moved_from_outside_is_decided_by_where_it_is_now() {
    let (_guard, path) = folder();
    std::fs::create_dir(path.join("open")).expect("a folder");
    std::fs::create_dir(path.join("closed")).expect("a folder");
    std::fs::write(path.join("closed/f"), "secret").expect("a file");
    std::fs::write(path.join("open/f"), "content").expect("a file");
    let script = format!(
        "cd {0}; cat closed/f; echo > begun; until test -e moved; do sleep 0.01; done; cat closed/f; cat open/g",
        path.display()
    );
    let rule = format!("[[rule]]\ndeny = [\"read\"]\npath = {:?}\n", path.join("closed"));
    let done = run_with(policy(&rule), shell(&path, &script), |_| {
        while !path.join("begun").exists() {
            std::thread::yield_now();
        }
        // A file renamed over a refused one is refused as well: it is about the name.
        std::fs::rename(path.join("closed/f"), path.join("open/g")).expect("a move");
        std::fs::rename(path.join("open/f"), path.join("closed/f")).expect("a move");
        std::fs::write(path.join("moved"), "").expect("a file");
    });
    assert_eq!(done.said.matches("Permission denied").count(), 2, "{done:?}");
    assert!(done.said.ends_with("secret"), "{done:?}");
}

#[test]
fn a_second_name_of_a_file_is_decided_by_that_name() {
    let (_guard, path) = folder();
    std::fs::write(path.join("a"), "content").expect("a file");
    std::fs::hard_link(path.join("a"), path.join("b")).expect("a link");
    let rule = format!("[[rule]]\ndeny = [\"read\"]\nfile = {:?}\n", path.join("b"));
    let script = "
for turn in range(3):
    for name in 'ab': say(name, lambda: os.close(os.open(D + '/' + name, os.O_RDONLY)))
";
    assert_eq!(said(policy(&rule), python(&path, script)), "a ok\nb EACCES\n".repeat(3));
}

#[test]
fn descriptors_opened_again_and_old_working_directories_are_asked_about() {
    let (_guard, path) = folder();
    std::fs::create_dir(path.join("d")).expect("a folder");
    std::fs::write(path.join("d/f"), "content").expect("a file");
    let rule = format!("[[rule]]\ndeny = [\"write\", \"unlink\"]\npath = {:?}\n", path.join("d"));
    let script = "
f = os.open(D + '/d/f', os.O_RDONLY)
p = os.open(D + '/d/f', os.O_PATH)
os.chdir(D + '/d')
say('again', lambda: os.open(f'/proc/self/fd/{f}', os.O_WRONLY))
say('pinned', lambda: os.open(f'/proc/self/fd/{p}', os.O_WRONLY))
say('here', lambda: os.open('f', os.O_WRONLY))
say('up', lambda: os.unlink('../d/f'))
say('root', lambda: os.open(f'/proc/self/root{D}/d/f', os.O_WRONLY))
say('long', lambda: os.stat('x' * 300))
say('deep', lambda: os.stat('./' * 3000))
say('bytes', lambda: os.stat(b'\\xff\\xfe'))
say('mount', lambda: call(165, b'none', D.encode(), b'tmpfs', 0, 0))
say('unmount', lambda: call(166, D.encode(), 2))
say('served', lambda: os.open('/dev/fuse', os.O_RDWR))
";
    let got = said(policy(&rule), python(&path, script));
    let wanted = "again EACCES\npinned EACCES\nhere EACCES\nup EACCES\nroot EACCES\nlong ENAMETOOLONG\ndeep ENAMETOOLONG\nbytes ENOENT\nmount EPERM\nunmount EPERM\nserved ENOENT\n";
    assert_eq!(got, wanted);
}
