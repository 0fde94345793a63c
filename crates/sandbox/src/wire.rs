//! What the processes of a sandbox tell each other: fixed records over sockets that keep records apart, with a descriptor or two beside them.

use crate::error::Step;
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

/// A step that failed, the number of the path it was about, and the system's answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure {
    pub(crate) step: Step,
    pub(crate) entry: u32,
    pub(crate) errno: Errno,
}

/// Nothing in particular.
pub(crate) const NO_ENTRY: u32 = u32::MAX;

/// For `map_err`: what failed, and about what.
pub(crate) fn at(step: Step, entry: u32) -> impl Fn(Errno) -> Failure {
    move |errno| Failure { step, entry, errno }
}

/// For `map_err`, about nothing in particular.
pub(crate) fn in_step(step: Step) -> impl Fn(Errno) -> Failure {
    at(step, NO_ENTRY)
}

/// What is told.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Message {
    /// A step failed, and nothing follows.
    Failed(Failure),
    /// The view stands; with the namespaces of users and of mounts.
    Namespaces,
    /// A file system is to be made and served, for the path of this number; with the device that it is served by and what it is made with (`fsopen`(2)). It is answered
    /// by [`Message::Done`].
    Serve(u32),
    /// With the descriptor that questions of the filter are read from.
    Listener,
    /// The program is executed next.
    Ready,
    /// The program ended: its status as of wait(2), and which limit was hit.
    Ended { status: i32, limit: u32 },
    /// Stop all processes, or let them go on.
    Freeze(bool),
    /// Send the program a signal.
    Signal(i32),
    /// Kill everybody.
    Kill,
    /// What was asked for was done, or not.
    Done(i32),
}

const RECORD_BYTES: usize = 12;

impl Message {
    fn encode(self) -> [u8; RECORD_BYTES] {
        let (kind, step, number, other) = match self {
            Message::Failed(failure) => (1, failure.step as u8, failure.errno.raw_os_error(), failure.entry),
            Message::Namespaces => (2, 0, 0, 0),
            Message::Listener => (3, 0, 0, 0),
            Message::Ready => (4, 0, 0, 0),
            Message::Ended { status, limit } => (5, 0, status, limit),
            Message::Freeze(on) => (6, 0, i32::from(on), 0),
            Message::Signal(signal) => (7, 0, signal, 0),
            Message::Done(errno) => (8, 0, errno, 0),
            Message::Kill => (9, 0, 0, 0),
            Message::Serve(entry) => (10, 0, 0, entry),
        };
        let mut record = [0; RECORD_BYTES];
        record[0] = kind;
        record[1] = step;
        record[4..8].copy_from_slice(&number.to_ne_bytes());
        record[8..12].copy_from_slice(&other.to_ne_bytes());
        record
    }

    fn decode(record: [u8; RECORD_BYTES]) -> Option<Self> {
        let [kind, step, ..] = record;
        let word = |at: usize| -> Option<[u8; 4]> { record[at..at + 4].try_into().ok() };
        let (number, other) = (i32::from_ne_bytes(word(4)?), u32::from_ne_bytes(word(8)?));
        Some(match kind {
            1 => {
                let step = Step::from_number(step)?;
                Message::Failed(Failure { step, entry: other, errno: Errno::from_raw_os_error(number) })
            }
            2 => Message::Namespaces,
            3 => Message::Listener,
            4 => Message::Ready,
            5 => Message::Ended { status: number, limit: other },
            6 => Message::Freeze(number != 0),
            7 => Message::Signal(number),
            8 => Message::Done(number),
            9 => Message::Kill,
            10 => Message::Serve(other),
            _ => return None,
        })
    }
}

/// Two ends.
pub(crate) fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (mine, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    // Not among the standard streams, even if the caller has closed those: the program's are put there.
    let high = |end: OwnedFd| rustix::io::fcntl_dupfd_cloexec(&end, 3);
    Ok((high(mine)?, high(theirs)?))
}

/// Tells something, without waiting for room: records are few and small.
pub(crate) fn tell(to: BorrowedFd<'_>, message: Message, descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        beside.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(to, &[IoSlice::new(&message.encode())], &mut beside, flags).map(|_| ())
}

/// A record and the descriptors beside it.
pub(crate) type Heard = (Message, [Option<OwnedFd>; 2]);

/// What was told; `None` once nobody is there to tell anything.
pub(crate) fn hear(from: BorrowedFd<'_>, flags: RecvFlags) -> Result<Option<Heard>, Errno> {
    let mut record = [0; RECORD_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let bytes = loop {
        let mut into = [IoSliceMut::new(&mut record)];
        match recvmsg(from, &mut into, &mut beside, flags | RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => break received.bytes,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    };
    let mut descriptors = [None, None];
    for message in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            for (place, descriptor) in descriptors.iter_mut().zip(received) {
                *place = Some(descriptor);
            }
        }
    }
    match bytes {
        0 => Ok(None),
        RECORD_BYTES => Message::decode(record).map(|message| Some((message, descriptors))).ok_or(Errno::PROTO),
        _ => Err(Errno::PROTO),
    }
}
