//! Descriptors and handles that come from elsewhere: from a program outside by a socket, from another sandbox, and by numbers of files that were learned.

use crate::support::{folder, is_root, line, literal, python, said, start, write};
use holdfast_sandbox::{Access, Mount, Root, Sandbox, Stream};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketType, accept, bind,
    listen, sendmsg, socket,
};
use std::fs::File;
use std::io::{IoSlice, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;

/// Takes what is sent by a socket of the folder `M`.
const TAKE: &str = "
def take():
    with socket.socket(socket.AF_UNIX) as ours:
        ours.connect(M + '/socket')
        return socket.recv_fds(ours, 1, 1)[1][0]
";

/// Gives a descriptor to the next who connects.
fn give(listener: &UnixListener, what: &File) {
    let (theirs, _) = listener.accept().expect("somebody connects");
    send(&theirs, what);
}

/// Sends a descriptor.
fn send(to: &UnixStream, what: &File) {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    let descriptors = [what.as_fd()];
    assert!(message.push(SendAncillaryMessage::ScmRights(&descriptors)));
    sendmsg(to, &[IoSlice::new(b"x")], &mut message, SendFlags::empty()).expect("it is sent");
}

/// Runs to the end with success, gives what it takes, and returns what was said.
fn said_when_given(sandbox: Sandbox, listener: &UnixListener, paths: &[&Path]) -> String {
    let (running, output) = start(sandbox);
    for path in paths {
        give(listener, &File::open(path).expect("ours"));
    }
    let said = std::io::read_to_string(output).expect("output");
    assert!(running.wait().expect("an end").success(), "{said}");
    said
}

/// A meeting place that may be used, and a folder that may not, with a file in it.
fn ground() -> (tempfile::TempDir, std::path::PathBuf, std::path::PathBuf) {
    let folder = folder();
    let (meeting, closed) = (folder.path().join("meeting"), folder.path().join("closed"));
    std::fs::create_dir(&meeting).expect("a folder");
    write(&closed, "secret", "secret");
    write(&closed, "other", "other");
    (folder, meeting, closed)
}

fn program(meeting: &Path, closed: &Path, what: &str) -> String {
    format!("M, C = {}, {}\n{TAKE}{what}", literal(meeting), literal(closed))
}

#[test]
fn a_descriptor_from_outside_is_that_file_and_no_way_to_another() {
    let (_folder, meeting, closed) = ground();
    let listener = UnixListener::bind(meeting.join("socket")).expect("a socket");
    let program = program(
        &meeting,
        &closed,
        "
file = take()
print(os.read(file, 9).decode())
say('beside', lambda: open('/proc/self/fd/%d/../other' % file).read())
say('writing', lambda: os.open('/proc/self/fd/%d' % file, os.O_WRONLY))
there = take()
say('in', lambda: os.open('other', os.O_RDONLY, dir_fd=there))
say('above', lambda: os.open('../closed/other', os.O_RDONLY, dir_fd=there))
say('made', lambda: os.open('made', os.O_CREAT | os.O_WRONLY, dir_fd=there))
say('removed', lambda: os.unlink('other', dir_fd=there))
os.fchdir(there)
say('from there', lambda: open('other').read())
say('linked', lambda: os.link('other', M + '/other'))
say('by name', lambda: open(C + '/other').read())
",
    );
    let sandbox = python(&program).mount(&meeting, Access::All);
    let said = said_when_given(sandbox, &listener, &[&closed.join("secret"), &closed]);
    let mut lines = said.lines();
    // What was handed over, whoever did that has decided.
    assert_eq!(lines.next(), Some("secret"), "{said}");
    assert_eq!(lines.clone().count(), 9, "{said}");
    assert!(lines.all(|line| !line.ends_with(" ok")), "{said}");
    assert!(closed.join("other").exists() && !closed.join("made").exists() && !meeting.join("other").exists());
}

#[test]
fn a_folder_from_another_sandbox_is_as_closed_as_it_is_by_name() {
    let (_folder, meeting, closed) = ground();
    let hands_on = "
server = socket.socket(socket.AF_UNIX)
server.bind(M + '/socket'); server.listen(1)
print('listens', flush=True)
theirs = server.accept()[0]
print(open(C + '/other').read())
socket.send_fds(theirs, [b'x'], [os.open(C, os.O_RDONLY)])
";
    let takes = "
there = take()
say('in', lambda: os.open('other', os.O_RDONLY, dir_fd=there))
os.fchdir(there)
say('from there', lambda: open('other').read())
say('again', lambda: open('/proc/self/fd/%d/other' % there).read())
";
    let giver = python(&program(&meeting, &closed, hands_on)).mount(&meeting, Access::All).mount(&closed, Access::All);
    let (giver, mut output) = start(giver);
    assert_eq!(line(&mut output), "listens");
    let answers = said(python(&program(&meeting, &closed, takes)).mount(&meeting, Access::All));
    assert_eq!(answers, "in EACCES\nfrom there EACCES\nagain EACCES\n");
    assert_eq!(line(&mut output), "other");
    assert!(giver.wait().expect("an end").success());
}

/// The handle of a file (`struct file_handle`: length, kind, bytes); none on file systems that have none.
#[allow(unsafe_code)]
fn handle_of(file: &File) -> Option<Vec<u8>> {
    let mut handle = vec![0_u8; 8 + 128];
    handle[..4].copy_from_slice(&128_u32.to_ne_bytes());
    let (mut mount, empty) = (0_i32, libc::AT_EMPTY_PATH);
    let (at, call) = (file.as_raw_fd(), libc::SYS_name_to_handle_at);
    // SAFETY: the buffer is as long as it says, and both outlive the call.
    let made = unsafe { libc::syscall(call, at, c"".as_ptr(), handle.as_mut_ptr(), &raw mut mount, empty) };
    (made == 0).then_some(handle)
}

#[allow(unsafe_code)]
fn opens(at: &File, handle: &mut [u8]) -> bool {
    // SAFETY: the buffer is as long as it says and outlives the call; the descriptor is closed with the process.
    unsafe { libc::syscall(libc::SYS_open_by_handle_at, at.as_raw_fd(), handle.as_mut_ptr(), libc::O_RDONLY) >= 0 }
}

#[test]
fn a_handle_that_was_learned_elsewhere_opens_nothing() {
    let (_folder, meeting, closed) = ground();
    let file = File::open(closed.join("secret")).expect("ours");
    let Some(mut handle) = handle_of(&file) else { return };
    if is_root() {
        assert!(opens(&file, &mut handle), "outside, root may");
    }
    let what = format!(
        "
theirs = bytes({handle:?})
own = ctypes.create_string_buffer(128 + 8); own[0] = b'\\x80'
mount = ctypes.create_string_buffer(8)
open(M + '/own', 'w').write('own')
say('learned', lambda: call(303, -100, (M + '/own').encode(), own, mount, 0))
for at in -100, os.open(M, os.O_RDONLY), os.open('/', os.O_RDONLY):
    say('theirs', lambda: call(304, at, ctypes.create_string_buffer(theirs), os.O_RDONLY))
    say('own', lambda: call(304, at, own, os.O_RDONLY))
"
    );
    let answers = said(python(&program(&meeting, &closed, &what)).mount(&meeting, Access::All));
    assert_eq!(answers, "learned ok\n".to_owned() + &"theirs EPERM\nown EPERM\n".repeat(3));
}

/// What is tried with standard input, a file that may be read and no more.
const TRIES: &str = "
print(os.read(0, 9).decode())
say('again', lambda: open('/proc/self/fd/0').read())
say('writing', lambda: open('/proc/self/fd/0', 'r+'))
say('cutting', lambda: os.truncate('/proc/self/fd/0', 0))
say('rights', lambda: os.fchmod(0, 0o777))
say('rights by name', lambda: os.chmod('/proc/self/fd/0', 0o777))
";

#[test]
fn a_file_that_was_handed_over_for_reading_is_no_more_than_the_view_has_of_it() {
    let each = [Root::Empty, Root::Host].into_iter().flat_map(|root| [false, true].map(|widen| (root, widen)));
    for ((root, widen), no_unix_sockets) in each.flat_map(|one| [false, true].map(|no| (one, no))) {
        let folder = folder();
        let file = write(folder.path(), "read/data", "some data");
        let before = std::fs::metadata(&file).expect("it is there").permissions();
        let mut sandbox =
            python(TRIES).mount(folder.path(), Access::All).mount(folder.path().join("read"), Access::ReadOnly);
        (sandbox.root, sandbox.widen, sandbox.no_unix_sockets) = (root, widen, no_unix_sockets);
        let mut handed = File::open(&file).expect("ours");
        handed.seek(SeekFrom::Start(5)).expect("it is long enough");
        sandbox.stdin = Stream::Given(handed.into());
        let said = said(sandbox);
        let lines: Vec<_> = said.lines().collect();
        assert_eq!(lines[..2], ["data", "again ok"], "{root:?} {widen}: {said}");
        assert_eq!(lines.len(), 6, "{root:?} {widen}: {said}");
        assert!(lines[2..].iter().all(|line| !line.ends_with(" ok")), "{root:?} {widen}: {said}");
        assert_eq!(std::fs::read(&file).expect("it is there"), b"some data");
        assert_eq!(std::fs::metadata(&file).expect("it is there").permissions(), before);
    }
}

#[test]
fn what_the_view_lacks_cannot_be_opened_again_or_is_not_handed_over() {
    let folder = folder();
    let file = write(folder.path(), "secret/data", "data");
    let again = "
say('reading', lambda: os.open('/proc/self/fd/0', os.O_RDONLY))
say('writing', lambda: os.open('/proc/self/fd/0', os.O_WRONLY))
say('cutting', lambda: os.truncate('/proc/self/fd/0', 0))
";
    let handed = |root, widen, closed, stream: File| {
        let mut sandbox = python(again);
        if closed {
            let secret = folder.path().join("secret");
            sandbox = sandbox.mount(folder.path(), Access::All).mount(secret, Access::Hidden);
        }
        (sandbox.root, sandbox.widen, sandbox.stdin) = (root, widen, Stream::Given(stream.into()));
        sandbox
    };
    let open = |read, write| File::options().read(read).write(write).open(&file).expect("ours");
    for (root, widen) in [(Root::Empty, false), (Root::Empty, true)] {
        for (read, write) in [(true, false), (false, true), (true, true)] {
            for (closed, no_unix_sockets) in [(false, false), (true, false), (false, true), (true, true)] {
                let mut sandbox = handed(root, widen, closed, open(read, write));
                sandbox.no_unix_sockets = no_unix_sockets;
                let said = said(sandbox);
                let case = format!("{widen} {closed} {no_unix_sockets} {read} {write}");
                // Landlock holds what it would gain, or everything.
                let answer = |has| if no_unix_sockets && has { "ok" } else { "EACCES" };
                assert_eq!(
                    said,
                    format!("reading {}\nwriting {1}\ncutting {1}\n", answer(read), answer(write)),
                    "{case}"
                );
            }
        }
    }
    let mut appended = handed(Root::Empty, false, false, File::options().append(true).open(&file).expect("ours"));
    appended.no_unix_sockets = true;
    assert_eq!(said(appended), "reading EACCES\nwriting EACCES\ncutting EACCES\n");
    for widen in [false, true] {
        let refusal = |read, write| {
            let started = handed(Root::Host, widen, true, open(read, write)).start();
            started.err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert!(refusal(true, false).contains("which the program may not write"), "{}", refusal(true, false));
        assert!(refusal(false, true).contains("which the program may not read"), "{}", refusal(false, true));
        // Whoever hands over both has said so.
        assert_eq!(refusal(true, true), "");
        assert_eq!(
            said(handed(Root::Host, widen, false, open(true, false))),
            "reading ok\nwriting ok\ncutting ok\n",
            "it is open to all"
        );
    }
    for root in [Root::Empty, Root::Host] {
        let there = File::open(folder.path()).expect("ours");
        let refused = handed(root, false, true, there).start().expect_err("refused").to_string();
        assert!(refused.contains("a folder, which leads past the view"), "{refused}");
    }
}

#[test]
fn a_folder_from_outside_is_no_way_to_what_is_closed_inside_of_it() {
    let (folder, meeting, closed) = ground();
    write(&meeting, "read/data", "data");
    let listener = UnixListener::bind(meeting.join("socket")).expect("a socket");
    let program = program(
        &meeting,
        &closed,
        "
there = take()
say('closed', lambda: os.open('closed/other', os.O_RDONLY, dir_fd=there))
say('written', lambda: os.open('meeting/read/data', os.O_WRONLY, dir_fd=there))
say('made', lambda: os.open('closed/made', os.O_CREAT | os.O_WRONLY, dir_fd=there))
say('removed', lambda: os.unlink('closed/other', dir_fd=there))
say('here', lambda: (open(M + '/new', 'w'), os.rename(M + '/new', M + '/newer')))
say('read', lambda: open(M + '/read/data'))
",
    );
    let sandbox = python(&program).mount(folder.path(), Access::All).mount(&closed, Access::Hidden);
    let sandbox = sandbox.mount(meeting.join("read"), Access::ReadOnly);
    let said = said_when_given(sandbox, &listener, &[folder.path()]);
    assert_eq!(said, "closed EACCES\nwritten EACCES\nmade EACCES\nremoved EACCES\nhere ok\nread ok\n");
}

#[test]
fn what_the_view_has_of_a_stream_can_be_opened_again_beside_what_is_closed() {
    let folder = folder();
    let file = write(folder.path(), "data", "data");
    write(folder.path(), "closed/other", "other");
    let opens = |program: &str, stream: File| {
        let sandbox = python(program).mount(folder.path(), Access::All);
        let mut sandbox = sandbox.mount(folder.path().join("closed"), Access::Hidden);
        sandbox.stdin = Stream::Given(stream.into());
        said(sandbox)
    };
    let reads = "print(os.read(0, 2).decode()); say('again', lambda: open('/proc/self/fd/0').read())";
    assert_eq!(opens(reads, File::open(&file).expect("ours")), "da\nagain ok\n");
    let appends = "os.write(0, b' and'); say('again', lambda: open('/proc/self/fd/0', 'a').write(' more'))";
    assert_eq!(opens(appends, File::options().append(true).open(&file).expect("ours")), "again ok\n");
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "data and more");
}

#[test]
fn a_stream_of_what_becomes_read_only_cannot_be_written_from_then_on() {
    let folder = folder();
    let file = write(folder.path(), "data", "data");
    let program = "
print('begun', flush=True)
while not os.path.exists(F + '/go'): time.sleep(0.01)
say('writing', lambda: os.open('/proc/self/fd/0', os.O_WRONLY))
say('rights', lambda: os.fchmod(0, 0o777))
";
    let program = format!("F = {}\n{program}", literal(folder.path()));
    let mut sandbox = python(&program).mount(folder.path(), Access::All);
    sandbox.stdin = Stream::Given(File::open(&file).expect("ours").into());
    let (running, mut output) = start(sandbox);
    assert_eq!(line(&mut output), "begun");
    running.change_view(&[Mount::new(folder.path(), Access::ReadOnly)]).expect("it can be changed");
    write(folder.path(), "go", "");
    assert_eq!(std::io::read_to_string(output).expect("output"), "writing EROFS\nrights EROFS\n");
    assert!(running.wait().expect("an end").success());
}

#[test]
fn what_may_be_widened_is_reached_by_its_own_view_alone() {
    let (_folder, meeting, closed) = ground();
    let listener = UnixListener::bind(meeting.join("socket")).expect("a socket");
    let program = program(
        &meeting,
        &closed,
        "
there = take()
say('in', lambda: os.open('other', os.O_RDONLY, dir_fd=there))
say('made', lambda: os.open('made', os.O_CREAT | os.O_WRONLY, dir_fd=there))
say('here', lambda: open(M + '/made', 'w'))
say('moved', lambda: (os.mkdir(M + '/in'), os.rename(M + '/made', M + '/in/made')))
",
    );
    let mut sandbox = python(&program).mount(&meeting, Access::All);
    sandbox.widen = true;
    let said = said_when_given(sandbox, &listener, &[&closed]);
    assert_eq!(said, "in EACCES\nmade EACCES\nhere ok\nmoved ok\n");
}

#[test]
fn a_fifo_in_what_may_only_be_read_is_closed_unless_what_is_around_may_be_written() {
    let folder = folder();
    let read = folder.path().join("read");
    std::fs::create_dir(&read).expect("a folder");
    write(folder.path(), "data", "data");
    let fifo = read.join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::from_raw_mode(0o600)).expect("a FIFO");
    let reader = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&fifo).expect("a reader");
    let program = format!("say('fifo', lambda: os.open({}, os.O_WRONLY))", literal(&fifo));
    let view = |no_unix_sockets| {
        let mut sandbox = python(&program).mount(&read, Access::ReadOnly);
        // One in memory would be around it, and may be written.
        sandbox.tmp_bytes = None;
        sandbox.no_unix_sockets = no_unix_sockets;
        sandbox
    };
    assert_eq!(said(view(false)), "fifo EACCES\n");
    // The limit of mounts; `holdfast policy explain` says so.
    assert_eq!(said(view(false).mount(folder.path(), Access::All)), "fifo ok\n");
    assert_eq!(said(view(true)), "fifo ok\n");
    // Streams that could be opened again, and a socket, bring Landlock back for what they could give.
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    let data = folder.path().join("data");
    let open = |options: &mut std::fs::OpenOptions| OwnedFd::from(options.open(&data).expect("ours"));
    for (stream, expected) in [
        (open(File::options().read(true)), "EACCES"),
        (open(File::options().append(true)), "EACCES"),
        (theirs.into(), "EACCES"),
        (open(File::options().write(true)), "ok"),
        (open(File::options().read(true).write(true)), "ok"),
    ] {
        let mut sandbox = view(true);
        sandbox.stdin = Stream::Given(stream);
        assert_eq!(said(sandbox), format!("fifo {expected}\n"));
    }
    drop((reader, ours));
}

#[test]
fn without_unix_sockets_nobody_hands_over_anything_and_pairs_stay_pairs() {
    let (_folder, meeting, closed) = ground();
    let listener = UnixListener::bind(meeting.join("socket")).expect("a socket");
    listener.set_nonblocking(true).expect("it can be");
    let packets = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket");
    bind(&packets, &SocketAddrUnix::new(meeting.join("packets")).expect("an address")).expect("bound");
    listen(&packets, 1).expect("it listens");
    let letters = UnixDatagram::bind(meeting.join("letters")).expect("a socket");
    letters.set_nonblocking(true).expect("it can be");
    let program = program(
        &meeting,
        &closed,
        "
for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET, socket.SOCK_RAW:
    say('socket', lambda: socket.socket(socket.AF_UNIX, kind))
for kind in socket.SOCK_DGRAM, socket.SOCK_RAW:
    say('pair', lambda: socket.socketpair(socket.AF_UNIX, kind))
for kind, name in (socket.SOCK_STREAM, '/socket'), (socket.SOCK_SEQPACKET, '/packets'):
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    def both():
        socket.send_fds(ours, [b'x'], [0])
        os.close(socket.recv_fds(theirs, 1, 1)[1][0])
    say('used', both)
    say('bound', lambda: ours.bind(M + '/ours%d' % kind))
    say('listening', lambda: ours.listen())
    say('connected', lambda: ours.connect(M + name))
    theirs.close()
    say('listening', lambda: ours.listen())
    say('connected', lambda: ours.connect(M + name))
    say('sent', lambda: ours.sendto(b'x', M + '/letters'))
server = socket.create_server(('127.0.0.1', 0))
say('own network', lambda: socket.create_connection(server.getsockname(), 5))
",
    );
    let mut sandbox = python(&program).mount(&meeting, Access::All);
    sandbox.no_unix_sockets = true;
    let pair = |sent| {
        let refused = "listening EINVAL\nconnected EISCONN\n";
        format!("used ok\nbound ok\n{refused}{refused}sent {sent}\n")
    };
    let none = "socket EAFNOSUPPORT\n".repeat(4) + &"pair EAFNOSUPPORT\n".repeat(2);
    assert_eq!(said(sandbox), none + &pair("EISCONN") + &pair("EPIPE") + "own network ok\n");
    rustix::io::ioctl_fionbio(&packets, true).expect("it can be");
    assert!(
        listener.accept().is_err() && accept(&packets).is_err() && letters.recv(&mut [0]).is_err(),
        "nothing arrived"
    );
}

#[test]
fn what_is_sent_by_a_stream_is_no_way_past_the_view() {
    let (_folder, meeting, closed) = ground();
    let program = program(
        &meeting,
        &closed,
        "
there = socket.recv_fds(socket.socket(fileno=0), 1, 1)[1][0]
say('in', lambda: os.open('other', os.O_RDONLY, dir_fd=there))
say('here', lambda: open(M + '/here', 'w'))
",
    );
    let mut sandbox = python(&program).mount(&meeting, Access::All);
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    (sandbox.no_unix_sockets, sandbox.stdin) = (true, Stream::Given(theirs.into()));
    let (running, output) = start(sandbox);
    send(&ours, &File::open(&closed).expect("ours"));
    assert_eq!(std::io::read_to_string(output).expect("output"), "in EACCES\nhere ok\n");
    assert!(running.wait().expect("an end").success());
}
