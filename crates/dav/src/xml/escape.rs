//! Writing character data and names.

/// Whether XML 1.0 allows the character (section 2.2).
pub(crate) const fn is_char(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}')
}

/// Appends text so that it reads back the same: markup escaped, a carriage return as a reference (a literal one would be
/// read as a line feed), characters XML cannot hold replaced.
pub(crate) fn push_text(out: &mut String, text: &str) {
    push(out, text, false);
}

/// Appends an attribute's value, to stand between double quotes.
pub(crate) fn push_attribute(out: &mut String, value: &str) {
    push(out, value, true);
}

fn push(out: &mut String, text: &str, attribute: bool) {
    let plain = |byte: u8| !matches!(byte, b'<' | b'>' | b'&' | b'"' | 0..=0x1f) && byte < 0x7f;
    if text.bytes().all(plain) {
        out.push_str(text);
        return;
    }
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\r' => out.push_str("&#13;"),
            '\n' if attribute => out.push_str("&#10;"),
            '\t' if attribute => out.push_str("&#9;"),
            c if is_char(c) => out.push(c),
            _ => out.push('\u{fffd}'),
        }
    }
}

/// Whether `name` is an `NCName` (Namespaces in XML, section 3): a name without a colon.
pub(crate) fn is_nc_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(is_name_start) && chars.all(|c| is_name_start(c) || is_name_rest(c))
}

const fn is_name_start(c: char) -> bool {
    matches!(c, 'A'..='Z' | '_' | 'a'..='z' | '\u{c0}'..='\u{d6}' | '\u{d8}'..='\u{f6}' | '\u{f8}'..='\u{2ff}'
        | '\u{370}'..='\u{37d}' | '\u{37f}'..='\u{1fff}' | '\u{200c}'..='\u{200d}' | '\u{2070}'..='\u{218f}'
        | '\u{2c00}'..='\u{2fef}' | '\u{3001}'..='\u{d7ff}' | '\u{f900}'..='\u{fdcf}' | '\u{fdf0}'..='\u{fffd}'
        | '\u{10000}'..='\u{effff}')
}

const fn is_name_rest(c: char) -> bool {
    matches!(c, '-' | '.' | '0'..='9' | '\u{b7}' | '\u{300}'..='\u{36f}' | '\u{203f}'..='\u{2040}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_escaped_and_other_text_is_not_touched() {
        let mut out = String::new();
        push_text(&mut out, "a<b>&\"'\r\n\té💾\u{1}");
        assert_eq!(out, "a&lt;b&gt;&amp;&quot;'&#13;\n\té💾\u{fffd}");
        out.clear();
        push_attribute(&mut out, "\t\n");
        assert_eq!(out, "&#9;&#10;");
    }

    #[test]
    fn names_are_told_from_other_text() {
        for good in ["a", "_a-b.c", "é", "\u{10000}x"] {
            assert!(is_nc_name(good), "{good}");
        }
        for bad in ["", "1a", "-a", "a:b", "a b", "a<"] {
            assert!(!is_nc_name(bad), "{bad}");
        }
    }
}
