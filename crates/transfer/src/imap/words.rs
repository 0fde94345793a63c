//! Text in heads of mails: encoded words (RFC 2047), and parameters in pieces and other character sets (RFC 2231).
//!
//! Nobody refuses a mail whose names are wrong, so nothing is refused here either: what is no encoded word stays as it is, and what is no character of its set
//! becomes U+FFFD.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use percent_encoding::percent_decode;
use std::collections::BTreeMap;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Text in which there may be encoded words. Without them it is UTF-8, or else what western programs took for text.
pub fn text(raw: &[u8]) -> String {
    let (mut text, mut rest) = (String::new(), raw);
    // Bytes of words that follow each other: some programs cut characters in two.
    let mut before: Option<(&'static Encoding, Vec<u8>)> = None;
    while let Some(at) = find(rest, b"=?") {
        let (between, from) = rest.split_at(at);
        let Some((encoding, bytes, after)) = word(from) else {
            flush(&mut text, &mut before);
            text.push_str(&plain(&rest[..at + 2]));
            rest = &rest[at + 2..];
            continue;
        };
        // White space between two words is not part of the text.
        let joined = before.is_some() && between.iter().all(u8::is_ascii_whitespace);
        if !joined {
            flush(&mut text, &mut before);
            text.push_str(&plain(between));
        }
        match &mut before {
            Some((same, all)) if *same == encoding => all.extend(bytes),
            _ => {
                flush(&mut text, &mut before);
                before = Some((encoding, bytes));
            }
        }
        rest = after;
    }
    flush(&mut text, &mut before);
    text.push_str(&plain(rest));
    text
}

/// A parameter of a head, whichever way it is written: in pieces, with a character set, or plain, where many write encoded words nevertheless.
pub fn parameter(all: &[(String, Vec<u8>)], name: &str) -> Option<String> {
    let mut pieces = BTreeMap::new();
    let (mut whole, mut plain) = (None, None);
    for (given, value) in all {
        let Some((base, rest)) = given.get(..name.len()).zip(given.get(name.len()..)) else { continue };
        if !base.eq_ignore_ascii_case(name) {
            continue;
        }
        match (rest, rest.strip_prefix('*')) {
            ("", _) => plain = plain.or(Some(value)),
            ("*", _) => whole = whole.or(Some(value)),
            (_, Some(number)) => {
                let (number, is_encoded) = number.strip_suffix('*').map_or((number, false), |number| (number, true));
                if let Ok(number) = number.parse::<u32>() {
                    pieces.entry(number).or_insert((is_encoded, value.as_slice()));
                }
            }
            _ => {}
        }
    }
    if pieces.contains_key(&0) {
        return Some(joined(&pieces));
    }
    whole
        .map(|value| joined(&BTreeMap::from([(0, (true, value.as_slice()))])))
        .or_else(|| plain.map(|value| text(value)))
}

/// Pieces from the first on, up to one that is missing. The first says the character set.
fn joined(pieces: &BTreeMap<u32, (bool, &[u8])>) -> String {
    let (mut encoding, mut bytes) = (None, Vec::new());
    for ((number, (is_encoded, value)), expected) in pieces.iter().zip(0..) {
        if *number != expected {
            break;
        }
        if !is_encoded {
            bytes.extend_from_slice(value);
            continue;
        }
        let mut parts = value.splitn(3, |byte| *byte == b'\'');
        let value = match (number, parts.next(), parts.next(), parts.next()) {
            (0, Some(set), Some(_), Some(value)) => {
                encoding = Encoding::for_label(set);
                value
            }
            _ => value,
        };
        bytes.extend(percent_decode(value));
    }
    match encoding {
        Some(encoding) => encoding.decode_without_bom_handling(&bytes).0.into_owned(),
        None => text(&bytes),
    }
}

fn flush(text: &mut String, before: &mut Option<(&'static Encoding, Vec<u8>)>) {
    if let Some((encoding, bytes)) = before.take() {
        text.push_str(&encoding.decode_without_bom_handling(&bytes).0);
    }
}

fn plain(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => WINDOWS_1252.decode_without_bom_handling(bytes).0.into_owned(),
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// An encoded word at the beginning: its character set, its bytes, and what comes after it.
fn word(from: &[u8]) -> Option<(&'static Encoding, Vec<u8>, &[u8])> {
    let mut parts = from.get(2..)?.splitn(3, |byte| *byte == b'?');
    let (set, how, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let end = find(rest, b"?=")?;
    let (content, after) = (&rest[..end], &rest[end + 2..]);
    // A language may stand after the set (RFC 2231 section 5).
    let set = set.split(|byte| *byte == b'*').next()?;
    if set.is_empty() || set.iter().any(u8::is_ascii_whitespace) {
        return None;
    }
    let bytes = match how {
        b"B" | b"b" => BASE64.decode(content).ok()?,
        b"Q" | b"q" => quoted(content),
        _ => return None,
    };
    Some((Encoding::for_label(set).unwrap_or(UTF_8), bytes, after))
}

fn quoted(content: &[u8]) -> Vec<u8> {
    let spaced: Vec<u8> = content.iter().map(|byte| if *byte == b'_' { b' ' } else { *byte }).collect();
    let mut bytes = Vec::with_capacity(spaced.len());
    let mut at = 0;
    while at < spaced.len() {
        let code = spaced.get(at + 1..at + 3).filter(|_| spaced[at] == b'=').and_then(hexadecimal);
        bytes.push(code.unwrap_or(spaced[at]));
        at += if code.is_some() { 3 } else { 1 };
    }
    bytes
}

/// Two hexadecimal digits.
pub(super) fn hexadecimal(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    match digits {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(all: &[(&str, &str)]) -> Option<String> {
        let all: Vec<_> = all.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
        parameter(&all, "filename")
    }

    #[test]
    fn encoded_words_are_decoded_and_all_else_stays() {
        for (raw, decoded) in [
            ("plain", "plain"),
            ("=?UTF-8?Q?caf=C3=A9_1?= x", "café 1 x"),
            ("=?iso-8859-1?q?=E9?= =?iso-8859-1?Q?t=E9?=", "été"),
            ("=?utf-8?B?w6k=?=.txt", "é.txt"),
            ("=?utf-8?B?w6k?=", "é"),
            ("=?UTF-8?B?ww==?= =?UTF-8?B?qQ==?=", "é"),
            ("=?UTF-8*de?Q?=C3=BC?=", "ü"),
            ("=?ISO-2022-JP?B?GyRCRnxLXBsoQg==?=", "日本"),
            ("=?x-unknown?Q?a=FF?=", "a\u{fffd}"),
            ("a =?broken b", "a =?broken b"),
            ("=?utf-8?X?a?=", "=?utf-8?X?a?="),
            ("=?utf-8?B?*?=", "=?utf-8?B?*?="),
            ("50=25 =", "50=25 ="),
        ] {
            assert_eq!(text(raw.as_bytes()), decoded, "{raw}");
        }
        assert_eq!(text(b"caf\xe9"), "café");
    }

    #[test]
    fn parameters_come_plain_or_in_pieces_or_with_a_character_set() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(parameters(&[("FILENAME", "a.txt")]), some("a.txt"));
        assert_eq!(parameters(&[("filename", "=?UTF-8?Q?=C3=A9?=")]), some("é"));
        assert_eq!(parameters(&[("filename", "a"), ("filename*", "iso-8859-1'en'%E9.txt")]), some("é.txt"));
        let pieces =
            [("filename*1*", "%C3%A9"), ("filename*0*", "utf-8''a%20"), ("filename*2", "%.txt"), ("filename*4", "x")];
        assert_eq!(parameters(&pieces), some("a é%.txt"));
        assert_eq!(parameters(&[("filename*0", "a"), ("filename*1", "b")]), some("ab"));
        assert_eq!(parameters(&[("filename*1", "b")]), None);
        assert_eq!(parameters(&[("name", "b"), ("filename-x", "c")]), None);
    }
}
