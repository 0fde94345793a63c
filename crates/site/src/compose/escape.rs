//! Text into markup and URLs.

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

/// What a path keeps as it is is what RFC 3986 section 3.3 allows in one.
const PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'`')
    .add(b'{')
    .add(b'}')
    .add(b'%')
    .add(b'[')
    .add(b']')
    .add(b'\\')
    .add(b'^')
    .add(b'|');

/// A path in a URL.
pub(crate) fn path(text: &str) -> String {
    utf8_percent_encode(text, PATH).to_string()
}

/// Text in an element or a quoted attribute, of HTML or XML. Characters that XML 1.0 has no way to write are left out.
pub(crate) fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn nothing_in_text_or_a_path_is_markup() {
        assert_eq!(super::text("<a href=\"x\">&'\u{1}"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
        assert_eq!(super::path("/a b/ä?#%.html"), "/a%20b/%C3%A4%3F%23%25.html");
    }
}
