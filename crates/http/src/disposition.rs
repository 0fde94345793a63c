//! `Content-Disposition` (RFC 6266): a name of any script, for browsers that know RFC 8187 and for those that do not.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What RFC 8187 calls `attr-char` stays as it is.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// The value that makes a browser save an answer under this name.
pub fn attachment(name: &str) -> String {
    // Without quotes, backslashes and percent signs, which programs read in different ways.
    let plain = |c: char| if (c == ' ' || c.is_ascii_graphic()) && !"\"\\%".contains(c) { c } else { '_' };
    let fallback: String = name.chars().map(plain).collect();
    format!("attachment; filename=\"{fallback}\"; filename*=UTF-8''{}", utf8_percent_encode(name, ENCODED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_any_script_is_carried_and_cannot_end_the_header() {
        assert_eq!(attachment("a b.txt"), "attachment; filename=\"a b.txt\"; filename*=UTF-8''a%20b.txt");
        let hostile = attachment("é\"; x=\"\r\n%41\\.txt");
        assert_eq!(
            hostile,
            "attachment; filename=\"__; x=____41_.txt\"; filename*=UTF-8''%C3%A9%22%3B%20x%3D%22%0D%0A%2541%5C.txt"
        );
    }
}
