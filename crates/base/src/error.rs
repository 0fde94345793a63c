//! One error type for the layers below the faces.
//!
//! An [`Error`] has a [`ErrorKind`], which alone decides the HTTP status and the exit code, and a message for a person:
//! what is wrong, where, and, when it is known, what to do. The message never holds file content, keys, or anything of a
//! space the asker may not see. The optional source is for the log only.

use std::fmt;

/// The result of everything that can fail here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, in the terms a caller can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request itself is malformed: a bad name, path, header, body or option.
    InvalidInput,
    /// No valid credential was presented.
    Unauthenticated,
    /// The credential is valid but does not allow this.
    Forbidden,
    /// The thing asked for does not exist (or may not be seen).
    NotFound,
    /// Something with that name exists already.
    AlreadyExists,
    /// An intermediate folder is missing, or the tree's state makes the operation impossible.
    Conflict,
    /// The operation does not apply to this kind of node (MKCOL on a file, PUT on a folder).
    WrongKind,
    /// A stated precondition (entity tag, absence, expected version) does not hold.
    PreconditionFailed,
    /// The content has not the checksum that was sent with it.
    WrongChecksum,
    /// A lock held by somebody else covers the node.
    Locked,
    /// The byte range asked for lies outside the file.
    RangeNotSatisfiable,
    /// A body, name, list or header is over its limit.
    TooLarge,
    /// The account or space is out of quota, or the disk is full.
    NoSpace,
    /// Too many attempts or requests; try again after the stated time.
    TooManyRequests {
        /// Whole seconds to wait.
        retry_after_s: u32,
    },
    /// Stored data failed its integrity check.
    Damaged,
    /// A dependency (disk, database, store) failed or is not ready; the same request may work later.
    Unavailable,
    /// The peer stalled for longer than its limit.
    Timeout,
    /// Not implemented for this node or back end.
    Unsupported,
    /// A defect of ours.
    Internal,
}

impl ErrorKind {
    /// The HTTP status that reports this kind.
    pub const fn status(self) -> u16 {
        match self {
            Self::InvalidInput | Self::WrongChecksum => 400,
            Self::Unauthenticated => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::WrongKind | Self::AlreadyExists => 405,
            Self::Timeout => 408,
            Self::Conflict => 409,
            Self::PreconditionFailed => 412,
            Self::TooLarge => 413,
            Self::RangeNotSatisfiable => 416,
            Self::Locked => 423,
            Self::TooManyRequests { .. } => 429,
            Self::Damaged | Self::Internal => 500,
            Self::Unsupported => 501,
            Self::Unavailable => 503,
            Self::NoSpace => 507,
        }
    }

    /// The exit code of a command that ends with this kind, in the manner of sysexits(3) where one fits.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::InvalidInput | Self::TooLarge | Self::RangeNotSatisfiable | Self::Unsupported => 64,
            Self::Damaged | Self::WrongChecksum => 65,
            Self::NotFound => 66,
            Self::Unavailable | Self::Timeout | Self::TooManyRequests { .. } => 69,
            Self::Internal => 70,
            Self::NoSpace => 73,
            Self::AlreadyExists | Self::Conflict | Self::WrongKind | Self::PreconditionFailed | Self::Locked => 75,
            Self::Unauthenticated | Self::Forbidden => 77,
        }
    }
}

/// An error with its kind, a message for a person, and an optional cause for the log.
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// Makes an error without a cause.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// Attaches the cause, which goes to the log and not to the client.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Puts `context` before the message: "context: message".
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.message = format!("{context}: {}", self.message);
        self
    }

    /// The kind.
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The message for a person.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether trying the same thing again can work without anybody changing anything.
    pub const fn is_temporary(&self) -> bool {
        matches!(self.kind, ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::TooManyRequests { .. })
    }
}

macro_rules! shorthand {
    ($($(#[$doc:meta])* $name:ident => $kind:ident;)*) => {
        impl Error {
            $($(#[$doc])* pub fn $name(message: impl Into<String>) -> Self { Self::new(ErrorKind::$kind, message) })*
        }
    };
}

shorthand! {
    /// [`ErrorKind::InvalidInput`] with this message.
    invalid => InvalidInput;
    /// [`ErrorKind::NotFound`] with this message.
    not_found => NotFound;
    /// [`ErrorKind::Forbidden`] with this message.
    forbidden => Forbidden;
    /// [`ErrorKind::Conflict`] with this message.
    conflict => Conflict;
    /// [`ErrorKind::Damaged`] with this message.
    damaged => Damaged;
    /// [`ErrorKind::Unavailable`] with this message.
    unavailable => Unavailable;
    /// [`ErrorKind::Internal`] with this message.
    internal => Internal;
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.message)?;
        match &self.source {
            Some(source) => write!(f, " (cause: {source})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}

impl From<std::io::Error> for Error {
    /// A full disk or quota is [`ErrorKind::NoSpace`]; a missing file [`ErrorKind::NotFound`]; the rest is
    /// [`ErrorKind::Unavailable`], since the same request may work once the disk does.
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind as Io;
        let kind = match error.kind() {
            Io::StorageFull | Io::QuotaExceeded => ErrorKind::NoSpace,
            Io::NotFound => ErrorKind::NotFound,
            Io::TimedOut => ErrorKind::Timeout,
            _ => ErrorKind::Unavailable,
        };
        Self::new(kind, error.to_string()).with_source(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_reported_as_no_space() {
        let error = Error::from(std::io::Error::from(std::io::ErrorKind::StorageFull));
        assert_eq!((error.kind(), error.kind().status()), (ErrorKind::NoSpace, 507));
    }

    #[test]
    fn context_comes_before_the_message_and_keeps_the_kind() {
        let error = Error::not_found("no such file").context("reading a.txt");
        assert_eq!(error.to_string(), "reading a.txt: no such file");
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
}
