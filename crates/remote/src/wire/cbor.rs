//! The part of CBOR (RFC 8949) that messages are made of: integers, byte strings, text, arrays, `true`, `false` and `null`, all of known
//! length. A message is read from a slice that is whole, so no length it declares makes anybody wait or allocate beyond that slice.

use holdfast_base::{Error, Result};

const UNSIGNED: u8 = 0;
const NEGATIVE: u8 = 1;
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const ARRAY: u8 = 4;
const FALSE: u8 = 0xf4;
const TRUE: u8 = 0xf5;
const NULL: u8 = 0xf6;

/// Writes items one behind the other.
#[derive(Debug, Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    /// The head of an item, in its shortest form (section 4.2.1).
    fn head(&mut self, major: u8, value: u64) {
        let major = major << 5;
        let bytes = value.to_be_bytes();
        match value {
            0..24 => self.0.push(major | bytes[7]),
            24..=0xff => self.0.extend_from_slice(&[major | 0x18, bytes[7]]),
            0x100..=0xffff => {
                self.0.push(major | 0x19);
                self.0.extend_from_slice(&bytes[6..]);
            }
            0x1_0000..=0xffff_ffff => {
                self.0.push(major | 0x1a);
                self.0.extend_from_slice(&bytes[4..]);
            }
            _ => {
                self.0.push(major | 0x1b);
                self.0.extend_from_slice(&bytes);
            }
        }
    }

    pub(crate) fn unsigned(&mut self, value: u64) {
        self.head(UNSIGNED, value);
    }

    pub(crate) fn signed(&mut self, value: i64) {
        // A negative number n is written as -1 - n, which is what its complement is.
        match value {
            0.. => self.head(UNSIGNED, value.cast_unsigned()),
            _ => self.head(NEGATIVE, (!value).cast_unsigned()),
        }
    }

    pub(crate) fn bytes(&mut self, value: &[u8]) {
        self.head(BYTES, value.len() as u64);
        self.0.extend_from_slice(value);
    }

    pub(crate) fn text(&mut self, value: &str) {
        self.head(TEXT, value.len() as u64);
        self.0.extend_from_slice(value.as_bytes());
    }

    pub(crate) fn array(&mut self, items: u64) {
        self.head(ARRAY, items);
    }

    pub(crate) fn boolean(&mut self, value: bool) {
        self.0.push(if value { TRUE } else { FALSE });
    }

    pub(crate) fn null(&mut self) {
        self.0.push(NULL);
    }
}

/// Reads what a [`Writer`] wrote, and refuses everything else.
#[derive(Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

fn malformed() -> Error {
    Error::invalid("the message is not one of this protocol")
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: u64) -> Result<&'a [u8]> {
        let count = usize::try_from(count).map_err(|_| malformed())?;
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn head(&mut self) -> Result<(u8, u64)> {
        let first = self.take(1)?[0];
        let value = match first & 0x1f {
            value @ 0..24 => u64::from(value),
            width @ 24..=27 => {
                let bytes = self.take(1 << (width - 24))?;
                bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
            }
            _ => return Err(malformed()),
        };
        Ok((first >> 5, value))
    }

    fn of(&mut self, wanted: u8) -> Result<u64> {
        let (major, value) = self.head()?;
        if major == wanted { Ok(value) } else { Err(malformed()) }
    }

    pub(crate) fn unsigned(&mut self) -> Result<u64> {
        self.of(UNSIGNED)
    }

    pub(crate) fn signed(&mut self) -> Result<i64> {
        let (major, value) = self.head()?;
        let value = i64::try_from(value).map_err(|_| malformed())?;
        match major {
            UNSIGNED => Ok(value),
            NEGATIVE => Ok(!value),
            _ => Err(malformed()),
        }
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.of(BYTES)?;
        self.take(length)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str> {
        let length = self.of(TEXT)?;
        std::str::from_utf8(self.take(length)?).map_err(|_| malformed())
    }

    /// The number of items that follow; each has a byte at least.
    pub(crate) fn array(&mut self) -> Result<usize> {
        let items = self.of(ARRAY)?;
        usize::try_from(items).ok().filter(|items| *items <= self.0.len()).ok_or_else(malformed)
    }

    pub(crate) fn array_of(&mut self, items: usize) -> Result<()> {
        if self.array()? == items { Ok(()) } else { Err(malformed()) }
    }

    pub(crate) fn boolean(&mut self) -> Result<bool> {
        match self.take(1)? {
            [TRUE] => Ok(true),
            [FALSE] => Ok(false),
            _ => Err(malformed()),
        }
    }

    /// Whether `null` is next, which is then read.
    pub(crate) fn null(&mut self) -> bool {
        let is_null = self.0.first() == Some(&NULL);
        if is_null {
            self.0 = &self.0[1..];
        }
        is_null
    }

    /// Refuses anything behind the message.
    pub(crate) fn end(&self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(malformed()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_standard_has_them() {
        // RFC 8949, appendix A.
        for (value, bytes) in [
            (0, &[0x00_u8][..]),
            (23, &[0x17]),
            (24, &[0x18, 0x18]),
            (1_000, &[0x19, 0x03, 0xe8]),
            (1_000_000, &[0x1a, 0x00, 0x0f, 0x42, 0x40]),
            (1_000_000_000_000, &[0x1b, 0x00, 0x00, 0x00, 0xe8, 0xd4, 0xa5, 0x10, 0x00]),
            (-1, &[0x20]),
            (-1_000, &[0x39, 0x03, 0xe7]),
        ] {
            let mut writer = Writer::default();
            writer.signed(value);
            assert_eq!(writer.0, bytes, "{value}");
            assert_eq!(Reader(bytes).signed().expect("reads"), value);
        }
        for value in [i64::MIN, i64::MAX] {
            let mut writer = Writer::default();
            writer.signed(value);
            assert_eq!(Reader(&writer.0).signed().expect("reads"), value);
        }
    }

    #[test]
    fn lengths_beyond_what_is_there_are_refused_before_anything_is_allocated() {
        for bytes in [
            &[0x5b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff][..],
            &[0x42, 0x00],
            &[0x5f, 0x41, 0x00, 0xff],
            &[0x18],
            &[],
        ] {
            assert!(Reader(bytes).bytes().is_err(), "{bytes:?}");
        }
        assert!(Reader(&[0x9a, 0xff, 0xff, 0xff, 0xff, 0x00]).array().is_err());
        assert!(Reader(&[0x62, 0xff, 0xff]).text().is_err());
    }
}
