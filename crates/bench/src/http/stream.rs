//! A byte stream that is plain TCP or TLS over it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::HttpError;

/// Most bytes one `sendfile` call is asked to move: keeps the deadline checks coming.
const SENDFILE_BYTES: u64 = 8 * 1024 * 1024;
/// Piece of a file encrypted at once on a TLS connection.
const TLS_PIECE_BYTES: usize = 64 * 1024;

pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// TLS over `tcp`; nothing is sent yet.
    pub(super) fn tls(tcp: TcpStream, config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Self, HttpError> {
        let session = ClientConnection::new(config, name).map_err(|error| HttpError::Tls(error.to_string()))?;
        Ok(Self::Tls(Box::new(StreamOwned::new(session, tcp))))
    }

    /// Whether the TLS handshake is still going on.
    pub(crate) fn is_handshaking(&self) -> bool {
        matches!(self, Self::Tls(tls) if tls.conn.is_handshaking())
    }

    /// The socket below.
    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(tls) => &tls.sock,
        }
    }

    /// Finishes the TLS handshake now, so that it is not part of the first request's time. `check` is asked
    /// whenever the socket had nothing for a tick.
    pub(super) fn handshake(
        mut tcp: TcpStream,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
        check: impl Fn() -> Result<(), HttpError>,
    ) -> Result<Self, HttpError> {
        let mut session = ClientConnection::new(config, name).map_err(|error| HttpError::Tls(error.to_string()))?;
        while session.is_handshaking() {
            match session.complete_io(&mut tcp) {
                Ok(_) => {}
                Err(error) if is_tick(&error) => check()?,
                Err(error) => return Err(HttpError::Tls(error.to_string())),
            }
        }
        Ok(Self::Tls(Box::new(StreamOwned::new(session, tcp))))
    }

    /// Sends up to `left` bytes of `file` from `offset` on, and returns how many went. Plain TCP takes them from
    /// the page cache without a copy through this process.
    pub(super) fn send_file(&mut self, file: &File, offset: u64, left: u64) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => {
                let mut position = offset;
                let count = usize::try_from(left.min(SENDFILE_BYTES)).unwrap_or(usize::MAX);
                Ok(rustix::fs::sendfile(&*tcp, file, Some(&mut position), count)?)
            }
            Self::Tls(tls) => {
                let mut piece = vec![0_u8; TLS_PIECE_BYTES];
                let want = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
                let got = file.read_at(&mut piece[..want], offset)?;
                tls.write(&piece[..got])
            }
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => tcp.read(buffer),
            // A peer that closes without the TLS good-bye is a short answer like any other: the HTTP framing
            // tells whether bytes are missing.
            Self::Tls(tls) => match tls.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
                other => other,
            },
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => tcp.write(bytes),
            Self::Tls(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(tcp) => tcp.flush(),
            Self::Tls(tls) => tls.flush(),
        }
    }
}

/// Whether an error only says that a socket's time slice ended, so that deadlines can be looked at.
pub(crate) fn is_tick(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}
