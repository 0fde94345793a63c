//! Names of files as text: what is not UTF-8 or would be read as something else is written as `bytes:` with `\xHH`.
//!
//! `bytes:` makes the rest literal: no pattern, no role. `\\` is a backslash in it, and `\x` takes two hexadecimal digits.

use std::fmt::Write;

/// What begins a name that is literal.
pub(crate) const LITERAL: &str = "bytes:";

/// What makes a name a pattern.
const WILDCARDS: [char; 6] = ['*', '?', '[', ']', '{', '}'];

/// Whether a text is a pattern rather than a name.
pub(crate) fn is_pattern(text: &str) -> bool {
    text.contains(WILDCARDS) || text.contains('\\')
}

/// Writes a name so that reading it gives the same bytes, and nobody takes it for a pattern or a role.
pub(crate) fn write(name: &[u8]) -> String {
    match std::str::from_utf8(name) {
        Ok(text) if is_plain(text) => text.to_owned(),
        _ => escape(name),
    }
}

/// Whether a name can be written as it is.
fn is_plain(text: &str) -> bool {
    let special = text.contains('$') || text.chars().any(char::is_control) || is_pattern(text);
    !special && !text.starts_with(LITERAL) && !text.starts_with(['@', '~'])
}

fn escape(name: &[u8]) -> String {
    let mut out = LITERAL.to_owned();
    for &byte in name {
        match byte {
            b'\\' => out.push_str("\\\\"),
            0x20..0x7f => out.push(byte.into()),
            // Writing to a string cannot fail.
            _ => drop(write!(out, "\\x{byte:02x}")),
        }
    }
    out
}

/// The bytes of a literal name (what follows `bytes:`), or what is wrong with it.
pub(crate) fn read_literal(text: &str) -> Result<Vec<u8>, String> {
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match after {
            [b'\\', after @ ..] => {
                out.push(b'\\');
                rest = after;
            }
            [b'x', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                out.push((digit(*high) << 4) | digit(*low));
                rest = after;
            }
            _ => {
                return Err(
                    r"after `bytes:` a backslash is written `\\`, and a byte `\xHH` with two hexadecimal digits".into(),
                );
            }
        }
    }
    Ok(out)
}

fn digit(hexadecimal: u8) -> u8 {
    match hexadecimal {
        b'0'..=b'9' => hexadecimal - b'0',
        other => (other | 0x20) - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_read_back_as_they_were_written(name in proptest::collection::vec(any::<u8>(), 0..40)) {
            let text = write(&name);
            let again = text.strip_prefix(LITERAL).map_or_else(|| text.clone().into_bytes(), |literal| read_literal(literal).unwrap());
            prop_assert_eq!(again, name);
        }
    }

    #[test]
    fn a_wrong_escape_is_refused() {
        for text in [r"\", r"\x", r"\x1", r"\xg0", r"\n"] {
            assert!(read_literal(text).is_err(), "{text}");
        }
    }
}
