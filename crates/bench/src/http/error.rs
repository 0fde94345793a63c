//! What can go wrong between a request and its answer.

use std::io;
use std::time::Duration;

/// Why a request did not give a complete answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("cannot connect to {address}: {source}")]
    Connect { address: String, source: io::Error },
    #[error("TLS: {0}")]
    Tls(String),
    #[error("no byte moved for {} ms while {phase}", after.as_millis())]
    Stalled { after: Duration, phase: &'static str },
    #[error("not finished after {} ms while {phase}", after.as_millis())]
    TooSlow { after: Duration, phase: &'static str },
    #[error("interrupted")]
    Interrupted,
    #[error("the server closed the connection before it answered")]
    ClosedBeforeAnswer,
    #[error("the answer ended after {got} of {expected} bytes")]
    ShortAnswer { expected: u64, got: u64 },
    #[error("the answer ended inside a chunk")]
    ShortChunk,
    #[error("malformed answer: {0}")]
    Malformed(String),
    #[error("the file to send ended after {sent} of {expected} bytes")]
    ShortFile { expected: u64, sent: u64 },
    #[error("while {phase}: {source}")]
    Io { phase: &'static str, source: io::Error },
    #[error("the answer's content is wrong: {0}")]
    Content(String),
}

impl HttpError {
    /// Whether a connection kept alive had simply been closed by the server since its last answer, so that one
    /// new try on a new connection is right (RFC 9112 section 9.3.1).
    pub(crate) fn is_stale_connection(&self) -> bool {
        match self {
            Self::ClosedBeforeAnswer => true,
            Self::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
            }
            _ => false,
        }
    }
}
