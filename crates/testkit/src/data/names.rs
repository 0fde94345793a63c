//! File names that break programs.

/// Longest name the usual file systems take.
const MAX_NAME_BYTES: usize = 255;

/// Names that are legal for a file in a space and hard for URL, XML, HTML, shell and Unicode code.
/// All differ as bytes; some are equal after normalisation or case folding, on purpose.
pub fn hard_names() -> Vec<String> {
    let mut names: Vec<String> = [
        "a b",
        " leading",
        "trailing ",
        "two  spaces",
        "plus+plus",
        "100%",
        "%41",
        "%2F",
        "%zz",
        "a&b",
        "a&amp;b",
        "<tag>",
        "]]>",
        "quote\"",
        "it's",
        "back\\slash",
        "semi;colon",
        "q?x=1",
        "hash#tag",
        "star*",
        "pipe|",
        "colon:",
        "~tilde",
        "-rf",
        "--help",
        "$HOME",
        "`id`",
        "{a,b}",
        "[x]",
        "@at",
        "=eq",
        ",comma",
        "!bang",
        "^caret",
        ".hidden",
        "...",
        "a.",
        "CON",
        "nul.txt",
        "README",
        "readme",
        "tab\there",
        "new\nline",
        "bell\u{7}",
        "del\u{7f}",
        "nbsp\u{a0}x",
    ]
    .map(str::to_owned)
    .to_vec();
    names.extend(
        [
            "caf\u{e9}",             // NFC
            "cafe\u{301}",           // NFD of the same
            "\u{212b}ngstr\u{f6}m",  // ANGSTROM SIGN, whose NFC is another character
            "stra\u{df}e",           // lower case that grows when folded
            "\u{130}stanbul",        // dotted capital I
            "\u{3a3}\u{3c3}\u{3c2}", // three sigmas
            "\u{65e5}\u{672c}\u{8a9e}",
            "\u{627}\u{644}\u{639}", // right to left
            "\u{202e}txt.exe",       // right-to-left override
            "zero\u{200b}width",
            "\u{feff}bom",
            "\u{1f600}",
            "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}", // one emoji of several code points
            "\u{1d11e}clef",
            "\u{fffd}",
        ]
        .map(str::to_owned),
    );
    names.push("x".repeat(MAX_NAME_BYTES));
    names.push("\u{e9}".repeat(MAX_NAME_BYTES / 2));
    names.push(format!("{}.txt", "\u{1f600}".repeat((MAX_NAME_BYTES - 4) / 4)));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hard_names_differ_and_are_legal_on_an_ordinary_disk() {
        let names = hard_names();
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
        let dir = tempfile::tempdir().expect("a temporary folder");
        for name in &names {
            std::fs::write(dir.path().join(name), name).expect("a legal name");
        }
    }
}
