//! Errors on the wire: kind and message; what caused them stays in the server's log.

use super::{frame, whole};
use bytes::Bytes;
use holdfast_base::{Error, ErrorKind};

/// Longest message of an error that is passed on: a path may be in it.
const MESSAGE_BYTES_MAX: usize = 8 << 10;

/// Kinds by number. A number is never given to another.
const KINDS: [ErrorKind; 18] = [
    ErrorKind::InvalidInput,
    ErrorKind::Unauthenticated,
    ErrorKind::Forbidden,
    ErrorKind::NotFound,
    ErrorKind::AlreadyExists,
    ErrorKind::Conflict,
    ErrorKind::WrongKind,
    ErrorKind::PreconditionFailed,
    ErrorKind::WrongChecksum,
    ErrorKind::Locked,
    ErrorKind::RangeNotSatisfiable,
    ErrorKind::TooLarge,
    ErrorKind::NoSpace,
    ErrorKind::Damaged,
    ErrorKind::Unavailable,
    ErrorKind::Timeout,
    ErrorKind::Unsupported,
    ErrorKind::Internal,
];
/// Number of [`ErrorKind::TooManyRequests`], which has seconds with it.
const TOO_MANY: u64 = 100;

/// An error as a frame.
pub fn encode_fault(error: &Error) -> Bytes {
    frame(&parts(error, MESSAGE_BYTES_MAX))
}

/// Number of its kind, seconds, and so much of its message.
pub(super) fn parts(error: &Error, bytes_max: usize) -> (u64, u32, String) {
    let (number, seconds) = match error.kind() {
        ErrorKind::TooManyRequests { retry_after_s } => (TOO_MANY, retry_after_s),
        kind => (KINDS.iter().position(|known| *known == kind).unwrap_or(KINDS.len() - 1) as u64, 0),
    };
    let message = &error.message()[..error.message().floor_char_boundary(bytes_max)];
    (number, seconds, message.to_owned())
}

/// The error of such parts.
pub(super) fn of_parts((number, seconds, message): (u64, u32, String)) -> Error {
    let kind = usize::try_from(number).ok().and_then(|number| KINDS.get(number).copied());
    let kind = match kind {
        Some(kind) => kind,
        None if number == TOO_MANY => ErrorKind::TooManyRequests { retry_after_s: seconds },
        None => ErrorKind::Internal,
    };
    Error::new(kind, message)
}

/// An error as it came with a status. What has none of our frames came from somebody before the drive: a proxy, or the door of the server, whose
/// words are text.
pub fn decode_fault(status: u16, body: &[u8]) -> Error {
    if let Ok(parts) = whole::<(u64, u32, String)>(body) {
        return of_parts(parts);
    }
    let kind = match status {
        400 => ErrorKind::InvalidInput,
        401 => ErrorKind::Unauthenticated,
        403 => ErrorKind::Forbidden,
        404 | 405 => ErrorKind::NotFound,
        408 | 504 => ErrorKind::Timeout,
        413 => ErrorKind::TooLarge,
        429 => ErrorKind::TooManyRequests { retry_after_s: 1 },
        502 | 503 => ErrorKind::Unavailable,
        507 => ErrorKind::NoSpace,
        _ => ErrorKind::Internal,
    };
    let said = String::from_utf8_lossy(&body[..body.len().min(400)]);
    let said: String = said.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    Error::new(kind, format!("the server answered {status}: {}", said.trim()))
}
