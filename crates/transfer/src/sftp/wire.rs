//! Messages of SFTP version 3 (draft-ietf-secsh-filexfer-02), with the extensions of OpenSSH that are used.
//!
//! A frame is a length of four bytes and that many bytes after it: a type, the number of its request, and fields. What a server sends is held against
//! [`FRAME_MAX`] before anything is kept for it, and no count in it reserves memory. Names are bytes here; whether they can be moved is judged where they are listed.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use holdfast_base::{Error, ErrorKind, Result};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Longest frame that is taken: a server sends no more content than it was asked for, and folders in pieces of some 100 names.
pub const FRAME_MAX: usize = 1 << 20;
/// Bytes that are read at once: an answer with content, and the beginning of another.
const READ_BYTES: usize = 132 << 10;
/// Longest handle, of the draft.
const HANDLE_MAX: usize = 256;
/// Bytes of a server's own message that are shown.
const MESSAGE_SHOWN: usize = 200;

pub(super) const OPEN_READ: u32 = 0x01;
pub(super) const OPEN_WRITE: u32 = 0x02;
pub(super) const OPEN_CREATE: u32 = 0x08;

const HAS_SIZE: u32 = 0x01;
const HAS_OWNERS: u32 = 0x02;
const HAS_PERMISSIONS: u32 = 0x04;
const HAS_TIMES: u32 = 0x08;
const HAS_MORE: u32 = 0x8000_0000;

/// Types of requests.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(super) enum Ask {
    Init = 1,
    Open = 3,
    Close = 4,
    Read = 5,
    Write = 6,
    LookAtLink = 7,
    LookAtHandle = 8,
    SetHandle = 10,
    OpenFolder = 11,
    ReadFolder = 12,
    Remove = 13,
    MakeFolder = 14,
    RemoveFolder = 15,
    RealPath = 16,
    Look = 17,
    Rename = 18,
    ReadLink = 19,
    MakeLink = 20,
    Extended = 200,
}

/// Codes of a status.
pub(super) mod code {
    pub(in super::super) const OK: u32 = 0;
    pub(in super::super) const EOF: u32 = 1;
    pub(in super::super) const NO_SUCH_FILE: u32 = 2;
    pub(in super::super) const PERMISSION_DENIED: u32 = 3;
    pub(in super::super) const BAD_MESSAGE: u32 = 5;
    pub(in super::super) const NO_CONNECTION: u32 = 6;
    pub(in super::super) const CONNECTION_LOST: u32 = 7;
    pub(in super::super) const UNSUPPORTED: u32 = 8;
}

/// What a server says of something, as far as it is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attrs {
    /// Bytes of its content.
    pub size: Option<u64>,
    /// Mode, with the bits that say what it is.
    pub permissions: Option<u32>,
    /// When its content changed last, in seconds since 1970.
    pub modified_s: Option<u32>,
}

/// A member of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: Bytes,
    /// What it is.
    pub attrs: Attrs,
}

/// What a server answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// How it went.
    Status {
        /// Zero is well.
        code: u32,
        /// In the server's words.
        message: String,
    },
    /// Something was opened.
    Handle(Bytes),
    /// Content.
    Data(Bytes),
    /// Members of a folder, or a path.
    Names(Vec<Entry>),
    /// What something is.
    Attrs(Attrs),
    /// The answer to an extension.
    Extended(Bytes),
}

/// The server's first message: its version and the extensions it has.
pub type Hello = (u32, Vec<(Bytes, Bytes)>);

/// A request that is being written. Its number comes when it is sent.
pub(super) struct Request {
    head: BytesMut,
    content: Bytes,
}

/// A request as it is sent: what is to be written to a file follows the rest of it, and is never copied.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) head: Bytes,
    pub(super) content: Bytes,
}

impl Request {
    pub(super) fn new(kind: Ask) -> Self {
        let mut bytes = BytesMut::with_capacity(64);
        bytes.put_u32(0);
        bytes.put_u8(kind as u8);
        bytes.put_u32(0);
        Self { head: bytes, content: Bytes::new() }
    }

    /// The first message, which has the version where others have their number.
    pub(super) fn hello(version: u32) -> Frame {
        Self::new(Ask::Init).numbered(version)
    }

    pub(super) fn extended(name: &str) -> Self {
        Self::new(Ask::Extended).bytes(name.as_bytes())
    }

    pub(super) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.head.reserve(4 + bytes.len());
        // Paths, handles and blocks are far below 4 GiB.
        self.head.put_u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        self.head.put_slice(bytes);
        self
    }

    /// What is to be written, as the last field.
    pub(super) fn content(self, content: Bytes) -> Self {
        let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
        Self { content, ..self.u32(length) }
    }

    pub(super) fn u32(mut self, number: u32) -> Self {
        self.head.put_u32(number);
        self
    }

    pub(super) fn u64(mut self, number: u64) -> Self {
        self.head.put_u64(number);
        self
    }

    /// What is to be set. A time is set as that of reading, too, since the draft has no other way.
    pub(super) fn attrs(mut self, attrs: &Attrs) -> Self {
        let flag = |has: bool, flag| if has { flag } else { 0 };
        self.head.put_u32(
            flag(attrs.size.is_some(), HAS_SIZE)
                | flag(attrs.permissions.is_some(), HAS_PERMISSIONS)
                | flag(attrs.modified_s.is_some(), HAS_TIMES),
        );
        attrs.size.into_iter().for_each(|size| self.head.put_u64(size));
        attrs.permissions.into_iter().for_each(|permissions| self.head.put_u32(permissions));
        if let Some(modified) = attrs.modified_s {
            self.head.put_u32(modified);
            self.head.put_u32(modified);
        }
        self
    }

    pub(super) fn numbered(mut self, number: u32) -> Frame {
        let length = u32::try_from(self.head.len() - 4 + self.content.len()).unwrap_or(u32::MAX);
        self.head[..4].copy_from_slice(&length.to_be_bytes());
        self.head[5..9].copy_from_slice(&number.to_be_bytes());
        Frame { head: self.head.freeze(), content: self.content }
    }
}

/// Puts frames together from what arrives, in pieces of any size.
#[derive(Debug, Default)]
pub struct Frames(BytesMut);

impl Frames {
    /// Takes what arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Reads more, after there was no frame; false at the end. Room is made for the rest of a frame at once, so that no more of it is copied than what began it.
    pub(super) async fn read(&mut self, from: &mut (impl AsyncRead + Unpin)) -> bool {
        let whole = self.0.first_chunk::<4>().map_or(0, |head| 4 + u32::from_be_bytes(*head) as usize);
        let room = whole.saturating_sub(self.0.len()).max(READ_BYTES);
        self.0.reserve(room);
        matches!(from.read_buf(&mut (&mut self.0).limit(room)).await, Ok(1..))
    }

    /// The next whole frame, without its length.
    pub fn next_frame(&mut self) -> Result<Option<Bytes>> {
        let Some(head) = self.0.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*head) as usize;
        if length == 0 || length > FRAME_MAX {
            return Err(broken(format!("a message of {length} bytes")));
        }
        if self.0.len() < 4 + length {
            return Ok(None);
        }
        self.0.advance(4);
        Ok(Some(self.0.split_to(length).freeze()))
    }
}

/// Reads the server's first message.
pub fn read_hello(frame: Bytes) -> Result<Hello> {
    let mut fields = Fields(frame);
    let (kind, version, mut extensions) = (fields.u8()?, fields.u32()?, Vec::new());
    if kind != 2 {
        return Err(broken("another message where its version was due"));
    }
    while !fields.0.is_empty() {
        extensions.push((fields.bytes()?, fields.bytes()?));
    }
    Ok((version, extensions))
}

/// Reads an answer, and the number of its request.
pub fn read_reply(frame: Bytes) -> Result<(u32, Reply)> {
    let mut fields = Fields(frame);
    let (kind, number) = (fields.u8()?, fields.u32()?);
    let reply = match kind {
        101 => fields.status()?,
        102 => Reply::Handle(fields.handle()?),
        103 => Reply::Data(fields.bytes()?),
        104 => Reply::Names(fields.names()?),
        105 => Reply::Attrs(fields.attrs()?),
        201 => Reply::Extended(fields.0),
        kind => return Err(broken(format!("a message of the unknown type {kind}"))),
    };
    Ok((number, reply))
}

/// What is left of a frame.
pub(super) struct Fields(pub(super) Bytes);

impl Fields {
    fn u8(&mut self) -> Result<u8> {
        self.0.try_get_u8().map_err(|_| short())
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        self.0.try_get_u32().map_err(|_| short())
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        self.0.try_get_u64().map_err(|_| short())
    }

    fn bytes(&mut self) -> Result<Bytes> {
        let length = self.u32()? as usize;
        if length > self.0.len() {
            return Err(short());
        }
        Ok(self.0.split_to(length))
    }

    fn handle(&mut self) -> Result<Bytes> {
        let handle = self.bytes()?;
        if handle.len() > HANDLE_MAX {
            return Err(broken(format!("a handle of {} bytes", handle.len())));
        }
        Ok(handle)
    }

    fn status(&mut self) -> Result<Reply> {
        let code = self.u32()?;
        // Servers of before version 3 have no words.
        let message = if self.0.is_empty() { Bytes::new() } else { self.bytes()? };
        let message = String::from_utf8_lossy(&message[..message.len().min(MESSAGE_SHOWN)]);
        let message = message.chars().filter(|c| !c.is_control()).collect();
        Ok(Reply::Status { code, message })
    }

    fn names(&mut self) -> Result<Vec<Entry>> {
        let count = self.u32()?;
        // Each takes twelve bytes at least, so a count that is a lie ends with the frame.
        let mut entries = Vec::new();
        for _ in 0..count {
            let name = self.bytes()?;
            // The line that a person would read.
            self.bytes()?;
            entries.push(Entry { name, attrs: self.attrs()? });
        }
        Ok(entries)
    }

    fn attrs(&mut self) -> Result<Attrs> {
        let (flags, mut attrs) = (self.u32()?, Attrs::default());
        if flags & HAS_SIZE != 0 {
            attrs.size = Some(self.u64()?);
        }
        if flags & HAS_OWNERS != 0 {
            self.u64()?;
        }
        if flags & HAS_PERMISSIONS != 0 {
            attrs.permissions = Some(self.u32()?);
        }
        if flags & HAS_TIMES != 0 {
            self.u32()?;
            attrs.modified_s = Some(self.u32()?);
        }
        if flags & HAS_MORE != 0 {
            for _ in 0..self.u32()? {
                self.bytes()?;
                self.bytes()?;
            }
        }
        Ok(attrs)
    }
}

fn short() -> Error {
    broken("a message that ends too soon")
}

/// What no server sends that keeps to the protocol. It is not asked again.
pub(super) fn broken(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Damaged, what.into()).context("the SFTP server sent what is no SFTP")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn framed(body: &[u8]) -> Vec<u8> {
        [&u32::try_from(body.len()).expect("short").to_be_bytes(), body].concat()
    }

    #[test]
    fn a_length_that_is_absurd_is_refused_before_anything_of_it_is_kept() {
        for length in [0_u32, 1 + u32::try_from(FRAME_MAX).expect("fits"), u32::MAX] {
            let mut frames = Frames::default();
            frames.push(&length.to_be_bytes());
            frames.push(&[101; 64]);
            assert_eq!(frames.next_frame().expect_err("absurd").kind(), ErrorKind::Damaged);
            assert!(frames.0.capacity() < 1 << 12, "{}", frames.0.capacity());
        }
    }

    #[test]
    fn counts_and_lengths_that_are_lies_end_with_the_frame() {
        let many = u32::MAX.to_be_bytes();
        for body in [
            [&[104, 0, 0, 0, 1][..], &many].concat(),
            [&[103, 0, 0, 0, 1][..], &many, b"abc"].concat(),
            [&[105, 0, 0, 0, 1][..], &HAS_MORE.to_be_bytes(), &many].concat(),
            [&[102, 0, 0, 0, 1, 0, 0, 4, 0][..], &[7; 1024]].concat(),
            vec![77, 0, 0, 0, 1],
            vec![101],
        ] {
            assert!(read_reply(Bytes::from(body.clone())).is_err(), "{body:?}");
        }
    }

    #[test]
    fn a_status_is_shown_without_what_moves_a_terminal() {
        let body = [&[101, 0, 0, 0, 9, 0, 0, 0, 4, 0, 0, 0, 6][..], b"\x1b[2Jno", &[0, 0, 0, 0]].concat();
        let (number, reply) = read_reply(Bytes::from(body)).expect("a status");
        assert_eq!((number, reply), (9, Reply::Status { code: 4, message: "[2Jno".into() }));
    }

    #[test]
    fn what_is_asked_has_its_length_type_number_and_fields() {
        let attrs = Attrs { size: Some(3), permissions: None, modified_s: Some(5) };
        let request = Request::new(Ask::SetHandle).bytes(b"h").attrs(&attrs).numbered(7);
        let expected = [
            &[0, 0, 0, 30, 10, 0, 0, 0, 7, 0, 0, 0, 1, b'h'][..],
            &[0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 5, 0, 0, 0, 5],
        ];
        assert_eq!(request.head[..], expected.concat());
    }

    proptest! {
        #[test]
        fn frames_come_whole_however_they_arrive(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..8),
            step in 1_usize..50,
        ) {
            let (mut frames, mut taken) = (Frames::default(), Vec::new());
            for piece in bodies.iter().flat_map(|body| framed(body)).collect::<Vec<_>>().chunks(step) {
                frames.push(piece);
                while let Some(frame) = frames.next_frame().expect("frames") {
                    taken.push(frame.to_vec());
                }
            }
            prop_assert_eq!(taken, bodies);
        }

        #[test]
        fn no_message_panics_or_grows(body in prop::collection::vec(any::<u8>(), 0..300), kind in 100_u8..106) {
            let mut body = body;
            body.insert(0, kind);
            let length = body.len();
            if let Ok((_, Reply::Names(names))) = read_reply(Bytes::from(body.clone())) {
                prop_assert!(names.len() * 12 <= length);
            }
            let _ = read_hello(Bytes::from(body));
        }
    }
}
