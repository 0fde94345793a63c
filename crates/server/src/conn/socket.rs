//! The socket as hyper sees it: every read and write is reported to the connection's [`Watch`], and a verdict on the
//! head is answered here, since hyper closes without a word when it runs out of patience.

use super::watch::{Verdict, Watch};
use bytes::Bytes;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// A socket (plain or TLS) under watch.
pub(crate) struct Socket<S> {
    inner: S,
    watch: Arc<Watch>,
    closing: bool,
    /// What was read and given back.
    unread: Bytes,
}

impl<S> Socket<S> {
    pub(crate) const fn new(inner: S, watch: Arc<Watch>) -> Self {
        Self { inner, watch, closing: false, unread: Bytes::new() }
    }

    /// Gives back what was read, to be read again first.
    pub(crate) fn unread(&mut self, bytes: Bytes) {
        self.unread = bytes;
    }
}

/// What a client is told whose request never became one. Written straight to the socket: there is no request to answer.
const fn last_words(verdict: Verdict) -> Option<&'static [u8]> {
    match verdict {
        Verdict::SlowHead => Some(
            b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: 45\r\n\r\n\
              The headers of the request came too slowly.\r\n",
        ),
        Verdict::LargeHead => Some(
            b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-type: text/plain\r\n\
              content-length: 42\r\n\r\nThe headers of the request are too large\r\n",
        ),
        Verdict::Idle | Verdict::StuckWrite => None,
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Socket<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.unread.is_empty() {
            let bytes = this.unread.split_to(this.unread.len().min(buf.remaining()));
            buf.put_slice(&bytes);
            return Poll::Ready(Ok(()));
        }
        if let Some(words) = this.watch.before_read().and_then(last_words) {
            if !this.closing {
                this.closing = true;
                // An idle socket takes these few bytes at once; if it does not, nobody is listening at the other end.
                let _ = Pin::new(&mut this.inner).poll_write(cx, words);
                let _ = Pin::new(&mut this.inner).poll_flush(cx);
            }
            return Poll::Ready(Ok(())); // hyper sees the end of the stream
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.inner).poll_read(cx, buf))?;
        let fresh = &buf.filled()[before..];
        this.watch.read(fresh.len(), &fresh[..fresh.len().min(3)], Instant::now());
        Poll::Ready(Ok(()))
    }
}

impl<S> Socket<S> {
    /// Reports the outcome of a write.
    fn note(&self, outcome: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &outcome {
            Poll::Ready(Ok(bytes)) if *bytes > 0 => self.watch.wrote(true, Instant::now()),
            Poll::Pending => self.watch.wrote(false, Instant::now()),
            Poll::Ready(_) => {}
        }
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Socket<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.note(outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.note(outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_state_their_own_length() {
        for verdict in [Verdict::SlowHead, Verdict::LargeHead] {
            let words = std::str::from_utf8(last_words(verdict).expect("has words")).expect("is text");
            let (head, body) = words.split_once("\r\n\r\n").expect("has a head");
            assert!(
                head.contains(&format!("content-length: {}", body.len())),
                "{head} is followed by {} bytes",
                body.len()
            );
        }
    }
}
