//! Writing paths of URLs: RFC 3986 percent-encoding of everything but unreserved characters, so that no client has to guess.

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Appends one path segment, percent-encoded.
pub fn push_segment(out: &mut String, segment: &str) {
    for byte in segment.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}
