//! What SFTP servers send, by the frame.

use holdfast_transfer::sftp::wire::{FRAME_MAX, Frames, Reply, read_hello, read_reply};

/// Bytes that arrive, in pieces of the size that the first of them says: frames are within their limit, and what is read of one is no more than it holds.
pub fn sftp(data: &[u8]) {
    let Some((step, data)) = data.split_first() else { return };
    let mut frames = Frames::default();
    for piece in data.chunks(usize::from(*step).max(1)) {
        frames.push(piece);
        loop {
            let frame = match frames.next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                // Nothing is read after what is no frame.
                Err(_) => return,
            };
            assert!(!frame.is_empty() && frame.len() <= FRAME_MAX && frame.len() <= data.len());
            let length = frame.len();
            if let Ok((_, extensions)) = read_hello(frame.clone()) {
                assert!(extensions.iter().map(|(name, said)| 8 + name.len() + said.len()).sum::<usize>() <= length);
            }
            match read_reply(frame) {
                Ok((_, Reply::Names(names))) => {
                    assert!(names.iter().map(|entry| 12 + entry.name.len()).sum::<usize>() <= length);
                }
                Ok((_, Reply::Data(bytes) | Reply::Handle(bytes) | Reply::Extended(bytes))) => {
                    assert!(bytes.len() <= length);
                }
                // What is no UTF-8 is three bytes for one.
                Ok((_, Reply::Status { message, .. })) => {
                    assert!(message.len() <= 3 * length && !message.chars().any(char::is_control));
                }
                Ok((_, Reply::Attrs(_))) | Err(_) => {}
            }
        }
    }
}

/// A target with its name.
pub type Target = (&'static str, fn(&[u8]));

/// Every target here, by name.
pub const TARGETS: [Target; 1] = [("sftp", sftp)];
