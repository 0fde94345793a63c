//! Sums of whole files, as their sources tell them: an entity tag that is an MD5, a header, a file beside the file.
//!
//! The engine adds up what it moves and holds it against the source's sum before the file appears at its destination.

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, SHA512};
use holdfast_base::{Error, Result};
use md5::{Digest, Md5};
use std::fmt::{self, Write};

/// How a sum is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SumKind {
    /// MD5 (RFC 1321): against accidents only.
    Md5,
    /// SHA-1: against accidents only.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

/// A sum of a file's content.
#[derive(Clone, PartialEq, Eq)]
pub struct Sum {
    kind: SumKind,
    bytes: Vec<u8>,
}

impl SumKind {
    /// Bytes that such a sum has.
    pub const fn size(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    /// Its name, as people write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Md5 => "MD5",
            Self::Sha1 => "SHA-1",
            Self::Sha256 => "SHA-256",
            Self::Sha384 => "SHA-384",
            Self::Sha512 => "SHA-512",
        }
    }
}

impl Sum {
    /// A sum of so many bytes as its kind has.
    pub fn new(kind: SumKind, bytes: &[u8]) -> Result<Self> {
        if bytes.len() != kind.size() {
            return Err(Error::invalid(format!("a sum of {} bytes is no {}", bytes.len(), kind.name())));
        }
        Ok(Self { kind, bytes: bytes.to_vec() })
    }

    /// A sum in hexadecimal digits, large or small.
    pub fn from_hex(kind: SumKind, digits: &str) -> Result<Self> {
        let digits = digits.as_bytes();
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let bytes: Option<Vec<u8>> =
            digits.chunks(2).map(|two| Some(digit(two[0])? << 4 | digit(*two.get(1)?)?)).collect();
        let bytes = bytes.ok_or_else(|| Error::invalid(format!("no {} in hexadecimal digits", kind.name())))?;
        Self::new(kind, &bytes)
    }

    /// How it is computed.
    pub const fn kind(&self) -> SumKind {
        self.kind
    }

    /// The sum of some bytes.
    pub fn of(kind: SumKind, bytes: &[u8]) -> Self {
        let mut adding = Adding::new(kind);
        adding.add(bytes);
        adding.sum()
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        f.write_char(' ')?;
        fmt::Display::fmt(self, f)
    }
}

/// A sum of what has come so far.
#[derive(Clone)]
pub struct Adding {
    kind: SumKind,
    state: State,
}

#[derive(Clone)]
enum State {
    Md5(Md5),
    Sha(Context),
}

impl Adding {
    /// Of nothing yet.
    pub fn new(kind: SumKind) -> Self {
        let state = match kind {
            SumKind::Md5 => State::Md5(Md5::new()),
            SumKind::Sha1 => State::Sha(Context::new(&SHA1_FOR_LEGACY_USE_ONLY)),
            SumKind::Sha256 => State::Sha(Context::new(&SHA256)),
            SumKind::Sha384 => State::Sha(Context::new(&SHA384)),
            SumKind::Sha512 => State::Sha(Context::new(&SHA512)),
        };
        Self { kind, state }
    }

    /// Adds what comes next.
    pub fn add(&mut self, bytes: &[u8]) {
        match &mut self.state {
            State::Md5(state) => state.update(bytes),
            State::Sha(state) => state.update(bytes),
        }
    }

    /// The sum of all.
    pub fn sum(self) -> Sum {
        let bytes = match self.state {
            State::Md5(state) => state.finalize().to_vec(),
            State::Sha(state) => state.finish().as_ref().to_vec(),
        };
        Sum { kind: self.kind, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sums of "abc" in RFC 1321 and FIPS 180-4.
    const ABC: [(SumKind, &str); 4] = [
        (SumKind::Md5, "900150983cd24fb0d6963f7d28e17f72"),
        (SumKind::Sha1, "a9993e364706816aba3e25717850c26c9cd0d89d"),
        (SumKind::Sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (
            SumKind::Sha512,
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        ),
    ];

    #[test]
    fn sums_are_those_of_their_standards_however_the_bytes_come() {
        for (kind, digits) in ABC {
            let told = Sum::from_hex(kind, &digits.to_ascii_uppercase()).expect(digits);
            assert_eq!((told.to_string().as_str(), told.clone()), (digits, Sum::of(kind, b"abc")));
            let mut adding = Adding::new(kind);
            b"abc".iter().for_each(|byte| adding.add(&[*byte]));
            assert_eq!(adding.sum(), told);
        }
        assert_eq!(Sum::of(SumKind::Sha384, b"").to_string().len(), 2 * SumKind::Sha384.size());
    }

    #[test]
    fn what_is_no_sum_is_refused() {
        for bad in
            ["", "900150983cd24fb0d6963f7d28e17f7", "900150983cd24fb0d6963f7d28e17f7g", &"é".repeat(16), ABC[1].1]
        {
            assert!(Sum::from_hex(SumKind::Md5, bad).is_err(), "{bad}");
        }
    }
}
