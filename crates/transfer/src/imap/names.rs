//! Names of files and folders out of what mails say: no path, nothing hidden, nothing that shows as something else.

use holdfast_base::{NodeName, Result};
use std::collections::HashSet;

/// Bytes of an attachment's name: room is left for a number that tells it from others, and for names of part files.
const FILE_BYTES_MAX: usize = 200;
/// Bytes of a subject in a folder's name.
const SUBJECT_BYTES_MAX: usize = 80;
/// Bytes of an ending that is kept when a name is cut.
const ENDING_BYTES_MAX: usize = 16;

/// The name that a mail gives to an attachment, without folders (RFC 2183 section 2.3 leaves nothing else of a path). None if nothing is left.
pub fn file(told: &str) -> Option<String> {
    let last = told.rsplit(['/', '\\']).find(|part| !part.trim().is_empty())?;
    let name = cleaned(last);
    if name.len() <= FILE_BYTES_MAX {
        return Some(name).filter(|name| !name.is_empty());
    }
    let dot = name.rfind('.').filter(|dot| name.len() - dot <= ENDING_BYTES_MAX).unwrap_or(name.len());
    let (stem, ending) = name.split_at(dot);
    let stem = &stem[..stem.floor_char_boundary(FILE_BYTES_MAX - ending.len())];
    Some(format!("{}{ending}", stem.trim_end_matches(is_edge)))
}

/// A subject as the end of a folder's name; none if nothing is left.
pub(super) fn subject(told: &str) -> Option<String> {
    let name = cleaned(&told.replace(['/', '\\'], "_"));
    let cut = name[..name.floor_char_boundary(SUBJECT_BYTES_MAX)].trim_end_matches(is_edge);
    (!cut.is_empty()).then(|| cut.to_owned())
}

/// Names in which no two are the same: later ones get a number.
pub(super) fn unique(names: Vec<String>) -> Result<Vec<NodeName>> {
    let mut taken: HashSet<NodeName> = HashSet::with_capacity(names.len());
    // Each of many equal names goes on where the last one found a number.
    let mut numbers = std::collections::HashMap::new();
    names
        .into_iter()
        .map(|name| {
            let name = NodeName::new(&name)?;
            let number = numbers.entry(name.clone()).or_insert(1_u32);
            let mut free = name.clone();
            while taken.contains(&free) {
                *number += 1;
                free = name.numbered(*number);
            }
            taken.insert(free.clone());
            Ok(free)
        })
        .collect()
}

/// One line without what cannot be seen, what turns text around, and dots and spaces at its edges.
fn cleaned(text: &str) -> String {
    let shown: String = text.chars().filter(|c| c.is_whitespace() || !is_hidden(*c)).collect();
    shown.split_whitespace().collect::<Vec<_>>().join(" ").trim_matches(is_edge).to_owned()
}

fn is_edge(c: char) -> bool {
    c == '.' || c.is_whitespace()
}

fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_anywhere_or_hides() {
        for (told, name) in [
            ("a.txt", "a.txt"),
            ("../../x", "x"),
            ("/etc/passwd", "passwd"),
            ("C:\\Users\\x\\r\u{e9}sum\u{e9}.doc", "résumé.doc"),
            ("x/", "x"),
            (".bashrc", "bashrc"),
            ("a\u{202e}fdp.exe", "afdp.exe"),
            (" a\r\n\t b. ", "a b"),
            ("a \u{200b} b", "a b"),
            (".a.0123456789abcdef.part", "a.0123456789abcdef.part"),
        ] {
            assert_eq!(file(told).as_deref(), Some(name), "{told}");
        }
        for none in ["", "..", "/", "../..", " . ", "\u{202e}", "\u{7}"] {
            assert_eq!(file(none), None, "{none:?}");
        }
        let long = file(&format!("{}.pdf", "é".repeat(300))).expect("a name");
        assert!(long.len() <= FILE_BYTES_MAX && long.ends_with("é.pdf"), "{long}");
        let dots = file(&".x".repeat(300)).expect("a name");
        assert!(dots.len() <= FILE_BYTES_MAX, "{dots}");
    }

    #[test]
    fn a_subject_is_cut_and_has_no_slashes() {
        assert_eq!(subject("Re: a/b\\c").as_deref(), Some("Re: a_b_c"));
        assert_eq!(subject(&"ab ".repeat(50)).map(|name| name.len()), Some(80));
        assert_eq!(subject(" .. "), None);
    }

    #[test]
    fn equal_names_get_numbers() {
        let names = ["a.txt", "a.txt", "a (2).txt", "a.txt", "b"].map(str::to_owned).to_vec();
        let names: Vec<_> = unique(names).expect("names").iter().map(ToString::to_string).collect();
        assert_eq!(names, ["a.txt", "a (2).txt", "a (2) (2).txt", "a (3).txt", "b"]);
    }
}
