//! Taking in a body: from chunks of any size to blocks, counting, limiting and digesting on the way.

use crate::{ContentStream, DigestAlgorithm};
use aws_lc_rs::digest;
use bytes::Bytes;
use futures_util::StreamExt;
use holdfast_base::limits::FILE_BYTES_MAX;
use holdfast_base::{Error, ErrorKind, Result};

/// A body on its way in.
pub(crate) struct Intake {
    body: ContentStream,
    /// What came and is not in a block yet.
    chunk: Bytes,
    ended: bool,
    received: u64,
    /// Bytes it may have, and whether it must have them.
    bytes_max: u64,
    exactly: bool,
    digests: Vec<(Digester, Vec<u8>)>,
    /// Whether a body that breaks off counts as far as it came, and how it broke.
    counts_broken: bool,
    broken: Option<Error>,
}

impl Intake {
    pub(crate) fn new(body: ContentStream, declared: Option<u64>, digests: Vec<(DigestAlgorithm, Vec<u8>)>) -> Self {
        let digests = digests.into_iter().map(|(algorithm, expected)| (Digester::new(algorithm), expected)).collect();
        Self {
            body,
            chunk: Bytes::new(),
            ended: false,
            received: 0,
            bytes_max: declared.unwrap_or(FILE_BYTES_MAX),
            exactly: declared.is_some(),
            digests,
            counts_broken: false,
            broken: None,
        }
    }

    /// Takes in a part of an upload that may have `bytes_max` bytes more, or fewer. With a digest it counts whole or not at all; without
    /// one as far as it came, and [`Self::take_broken`] says what ended it.
    pub(crate) fn part(body: ContentStream, bytes_max: u64, digest: Option<(DigestAlgorithm, Vec<u8>)>) -> Self {
        let counts_broken = digest.is_none();
        let whole = Self::new(body, None, digest.into_iter().collect());
        Self { bytes_max, counts_broken, ..whole }
    }

    /// What a part ended with, unless it was its end.
    pub(crate) const fn take_broken(&mut self) -> Option<Error> {
        self.broken.take()
    }

    /// Whether a part counts only when its digest was compared.
    pub(crate) const fn is_checked(&self) -> bool {
        !self.counts_broken
    }

    /// Plaintext bytes so far.
    pub(crate) const fn received(&self) -> u64 {
        self.received
    }

    /// The next piece, of at most `most` bytes; none at the end. Safe to cancel.
    pub(crate) async fn piece(&mut self, most: usize) -> Result<Option<Bytes>> {
        // A body may end in empty chunks.
        while self.chunk.is_empty() {
            if !self.next_chunk().await? {
                return Ok(None);
            }
        }
        let piece = self.chunk.split_to(self.chunk.len().min(most));
        if self.chunk.is_empty() {
            // Even empty it would keep the memory of the whole, which whoever made it may be waiting for.
            self.chunk = Bytes::new();
        }
        Ok(Some(piece))
    }

    /// Whether the body was taken to its end.
    pub(crate) const fn has_ended(&self) -> bool {
        self.ended && self.chunk.is_empty()
    }

    /// Takes the next chunk; false at the end, where length and digests are tested.
    async fn next_chunk(&mut self) -> Result<bool> {
        if self.ended {
            return Ok(false);
        }
        match self.body.next().await.map(|chunk| chunk.and_then(|chunk| self.admit(chunk))) {
            Some(Ok(chunk)) => {
                self.digests.iter_mut().for_each(|(digester, _)| digester.update(&chunk));
                self.chunk = chunk;
                Ok(true)
            }
            Some(Err(error)) if self.counts_broken => {
                self.ended = true;
                self.broken = Some(error);
                Ok(false)
            }
            Some(Err(error)) => Err(error),
            None => {
                self.ended = true;
                self.check_end()?;
                Ok(false)
            }
        }
    }

    /// Counts a chunk, unless it is too much.
    fn admit(&mut self, chunk: Bytes) -> Result<Bytes> {
        let received = self.received + chunk.len() as u64;
        if received > self.bytes_max {
            let most = self.bytes_max;
            return Err(match self.exactly {
                true => Error::invalid(format!("the body is longer than the {most} bytes declared")),
                false if most == FILE_BYTES_MAX => {
                    Error::new(ErrorKind::TooLarge, "the file is larger than any file may be")
                }
                false => Error::new(ErrorKind::TooLarge, format!("the body is longer than the {most} bytes to come")),
            });
        }
        self.received = received;
        Ok(chunk)
    }

    fn check_end(&mut self) -> Result<()> {
        if self.exactly && self.bytes_max != self.received {
            let (received, declared) = (self.received, self.bytes_max);
            return Err(Error::invalid(format!("the body ended after {received} of {declared} bytes declared")));
        }
        for (digester, expected) in self.digests.drain(..) {
            if digester.finish() != expected {
                return Err(Error::new(
                    ErrorKind::WrongChecksum,
                    "the content has not the checksum that was sent with it; it was not stored",
                ));
            }
        }
        Ok(())
    }
}

/// Computes one digest.
pub(crate) enum Digester {
    /// By the cryptographic library.
    Context(digest::Context),
    /// MD5, which that library leaves out of its public interface.
    Md5(Box<md5::Md5>),
    /// BLAKE3.
    Blake3(Box<blake3::Hasher>),
}

impl Digester {
    pub(crate) fn new(algorithm: DigestAlgorithm) -> Self {
        match algorithm {
            DigestAlgorithm::Md5 => Self::Md5(Box::default()),
            DigestAlgorithm::Sha1 => Self::Context(digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY)),
            DigestAlgorithm::Sha256 => Self::Context(digest::Context::new(&digest::SHA256)),
            DigestAlgorithm::Blake3 => Self::Blake3(Box::default()),
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Context(context) => context.update(bytes),
            Self::Md5(context) => md5::Digest::update(&mut **context, bytes),
            Self::Blake3(hasher) => {
                hasher.update(bytes);
            }
        }
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        match self {
            Self::Context(context) => context.finish().as_ref().to_vec(),
            Self::Md5(context) => md5::Digest::finalize(*context).to_vec(),
            Self::Blake3(hasher) => hasher.finalize().as_bytes().to_vec(),
        }
    }
}
