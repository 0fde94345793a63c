//! Without namespaces: what Landlock can hold alone is held, and the rest is refused by name.

use crate::support::{folder, line, literal, python, run, said, shell, start, write};
use holdfast_sandbox::{Access, Error, Mount, Root, Sandbox, Source, Status};
use std::io::Read;

fn alone(mut sandbox: Sandbox) -> Sandbox {
    sandbox.no_namespaces = true;
    sandbox.proc = false;
    sandbox.tmp_bytes = None;
    sandbox
}

#[test]
fn what_is_not_granted_cannot_be_opened_and_attributes_stay() {
    let tree = folder();
    for name in ["open/file", "read/file", "closed/file"] {
        write(tree.path(), name, "content");
    }
    let program = format!(
        "T = {}
say('read open', lambda: open(T + '/open/file').read())
say('write open', lambda: open(T + '/open/made', 'w').close())
say('unlink open', lambda: os.unlink(T + '/open/made'))
say('read read', lambda: open(T + '/read/file').read())
say('write read', lambda: open(T + '/read/file', 'w'))
say('truncate read', lambda: os.truncate(T + '/read/file', 0))
say('create read', lambda: open(T + '/read/made', 'w'))
say('unlink read', lambda: os.unlink(T + '/read/file'))
say('chmod read', lambda: os.chmod(T + '/read/file', 0))
say('utime read', lambda: os.utime(T + '/read/file'))
say('setxattr read', lambda: os.setxattr(T + '/read/file', 'user.x', b''))
say('read closed', lambda: open(T + '/closed/file').read())
say('list closed', lambda: os.listdir(T + '/closed'))
say('link closed', lambda: os.link(T + '/closed/file', T + '/open/hard'))
say('mount', lambda: call(165, b'none', b'/tmp', b'tmpfs', 0, None))
say('unshare', lambda: call(272, 0x10000000))
say('inet', lambda: socket.socket(socket.AF_INET))
say('null', lambda: open('/dev/null', 'w').write('x'))
say('kill', lambda: os.kill({}, 0))
",
        literal(tree.path()),
        std::process::id()
    );
    let sandbox = python(&program)
        .mount(tree.path().join("open"), Access::All)
        .mount(tree.path().join("read"), Access::ReadOnly)
        .mount(tree.path().join("closed"), Access::Hidden);
    let said = said(alone(sandbox));
    let allowed = ["read open", "write open", "unlink open", "read read", "null"];
    assert_eq!(said.lines().count(), 19, "{said}");
    for line in said.lines() {
        let (what, answer) = line.rsplit_once(' ').expect("two words");
        assert_eq!(answer == "ok", allowed.contains(&what), "{line}");
    }
}

#[test]
fn status_and_what_is_left_are_as_with_namespaces() {
    assert_eq!(run(alone(shell("exit 5"))).0.status, Status::Exited(5));
    assert_eq!(run(alone(shell("kill -15 $$"))).0.status, Status::Signalled(15));
    // A process that has left its parent and its session ends with the program.
    let (running, mut output) =
        start(alone(shell("setsid sh -c 'trap \"\" TERM; (while :; do :; done) & exit' & echo started")));
    assert_eq!(line(&mut output), "started");
    assert!(running.wait().expect("it ran").success());
    output.read_to_end(&mut Vec::new()).expect("output");
    // And with the sandbox.
    let (running, mut output) =
        start(alone(shell("setsid sh -c 'trap \"\" TERM; echo ready; while :; do :; done' & while :; do :; done")));
    assert_eq!(line(&mut output), "ready");
    running.kill();
    assert_eq!(running.wait().expect("it ran").status, Status::Signalled(9));
    output.read_to_end(&mut Vec::new()).expect("output");
}

#[test]
fn what_landlock_cannot_hold_is_refused_by_name() {
    let tree = folder();
    write(tree.path(), "inner/file", "x");
    let inner = tree.path().join("inner");
    let mut sandbox = shell("true").mount(tree.path(), Access::All).mount(&inner, Access::ReadOnly);
    sandbox.no_namespaces = true;
    sandbox.limits.processes = Some(5);
    sandbox.view.push(Mount::new("/srv", Access::ReadOnly).from(Source::Folder(inner.clone())));
    let Err(Error::NeedsNamespaces(unheld)) = sandbox.start() else { panic!("it must be refused") };
    let names: Vec<_> = unheld.iter().map(|one| one.what.as_str()).collect();
    let inner = inner.to_str().expect("text");
    assert_eq!(names, ["/srv", inner, "/proc", "a private /tmp", "a limit of processes"]);
    let mut host = alone(shell("true"));
    host.root = Root::Host;
    assert!(host.start().is_err_and(|error| error.to_string().contains("the machine's root")));
    let (running, _output) = start(alone(shell("while :; do :; done")));
    assert!(running.freeze().is_err() && running.change_view(&[Mount::new("/usr", Access::Hidden)]).is_err());
}
