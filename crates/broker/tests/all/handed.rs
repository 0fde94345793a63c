//! What is handed over by a socket while the program runs: a file may be used as it is, and a folder leads nowhere.

use crate::support::{By, folder, literal, python};
use holdfast_broker::{Broker, Options, calls};
use holdfast_policy::{Judge, Request};
use holdfast_sandbox::Stream;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::fs::File;
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;

/// Gives a descriptor to the next who connects.
fn give(listener: &UnixListener, what: &File) {
    let (theirs, _) = listener.accept().expect("somebody connects");
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    let descriptors = [what.as_fd()];
    assert!(message.push(SendAncillaryMessage::ScmRights(&descriptors)));
    sendmsg(&theirs, &[IoSlice::new(b"x")], &mut message, SendFlags::empty()).expect("it is sent");
}

#[test]
fn a_descriptor_from_outside_is_that_file_and_no_way_to_another() {
    let folder = folder();
    let (meeting, closed) = (folder.path().join("meeting"), folder.path().join("closed"));
    for place in [&meeting, &closed] {
        std::fs::create_dir(place).expect("a folder");
    }
    for name in ["secret", "other"] {
        std::fs::write(closed.join(name), name).expect("a file");
    }
    let listener = UnixListener::bind(meeting.join("socket")).expect("a socket");
    let program = format!(
        "M, C = {}, {}
def take():
    with socket.socket(socket.AF_UNIX) as ours:
        ours.connect(M + '/socket')
        return socket.recv_fds(ours, 1, 1)[1][0]
file = take()
print(os.read(file, 9).decode(), flush=True)
say('writing', lambda: os.open('/proc/self/fd/%d' % file, os.O_WRONLY))
say('cut', lambda: os.ftruncate(file, 0))
there = take()
say('in', lambda: os.open('other', os.O_RDONLY, dir_fd=there))
say('above', lambda: os.open('../closed/other', os.O_RDONLY, dir_fd=there))
say('told', lambda: os.stat('other', dir_fd=there))
say('made', lambda: os.open('made', os.O_CREAT | os.O_WRONLY, dir_fd=there))
say('removed', lambda: os.unlink('other', dir_fd=there))
say('linked', lambda: os.link('other', M + '/other', src_dir_fd=there))
attempt(lambda: os.fchdir(there))
say('from there', lambda: open('other').read())
say('by name', lambda: open(C + '/other').read())
",
        literal(&meeting),
        literal(&closed)
    );
    let refused = closed.clone();
    let judge: Arc<dyn Judge> = Arc::new(By(move |request: &Request<'_>| !request.path.starts_with(&refused)));
    let (output, theirs) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("a pipe");
    let mut sandbox = python(&program);
    sandbox.stderr = Stream::Given(theirs.try_clone().expect("a copy"));
    sandbox.stdout = Stream::Given(theirs);
    sandbox.notify = calls(&*judge);
    let mut running = sandbox.start().expect("it starts");
    let broker =
        Broker::new(running.take_listener().expect("a listener"), judge, Options::default()).expect("a broker");
    let said = std::thread::scope(|scope| {
        let served = scope.spawn(|| broker.run());
        give(&listener, &File::open(closed.join("secret")).expect("ours"));
        give(&listener, &File::open(&closed).expect("ours"));
        let said = std::io::read_to_string(File::from(output)).expect("output");
        assert!(running.wait().expect("an end").success(), "{said}");
        served.join().expect("no panic").expect("it served");
        said
    });
    let mut lines = said.lines();
    assert_eq!(lines.next(), Some("secret"), "{said}");
    assert_eq!(lines.clone().count(), 10, "{said}");
    assert!(lines.all(|line| line.ends_with(" EPERM") || line.ends_with(" EACCES")), "{said}");
    assert!(closed.join("other").exists() && !closed.join("made").exists() && !meeting.join("other").exists());
}
