//! Names, tags and queries as words that can be compared: without case, without accents, and from every place where a word begins.
//!
//! **Folding.** Compatibility decomposition (Unicode NFKD), then without accents, points of Hebrew and Arabic, and strokes; lower
//! case; and the letters that Unicode takes apart nowhere but people do (`ß` is `ss`, `ø` is `o`). Marks that make another letter
//! rather than an accented one (the voicing of kana, the vowels of Indic scripts) stay. What separates words (blanks and punctuation) becomes
//! one blank.
//!
//! **Words.** One begins after a separator, between letters and digits, at a hump (`fooBar`, `HTTPServer`), and at every
//! ideograph, kana, letter of a script written without blanks, and symbol. A query's word matches a name in which it is the beginning of the rest from
//! some word on, so `2024` and `report20` match `Report2024Final.pdf`.
//!
//! **Limits.** [`REST_BYTES_MAX`] of each rest are indexed; [`BEGINNINGS_MAX`] words of a name count.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{canonical_combining_class, is_combining_mark};

/// Bytes of a rest that are indexed: few names go on longer after the word that is looked for, and those are compared in full when they are
/// found.
pub(crate) const REST_BYTES_MAX: usize = 48;

/// Words of a name that count: more than any name made by people has, and enough for half of the longest name in ideographs.
pub(crate) const BEGINNINGS_MAX: usize = 48;

/// A folded text and where its words begin.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Folded {
    text: String,
    begins: Vec<usize>,
}

impl Folded {
    /// Folds a name or a word of a query.
    pub(crate) fn new(text: &str) -> Self {
        // Most names are, and need no table.
        if text.is_ascii() { Self::of(text.chars()) } else { Self::of(decomposed(text)) }
    }

    fn of(chars: impl Iterator<Item = char>) -> Self {
        let mut folded = Self::default();
        let mut before = [Class::Separator; 2];
        let mut last_at = 0;
        for char in chars {
            let class = class(char);
            if class == Class::Separator {
                before = [Class::Separator; 2];
                continue;
            }
            if class == Class::Mark {
                push_folded(&mut folded.text, char);
                continue;
            }
            if before[1] == Class::Separator && !folded.text.is_empty() {
                folded.text.push(' ');
            }
            let at = folded.text.len();
            if begins(before[1], class) {
                folded.begin(at);
            } else if before == [Class::Upper; 2] && class == Class::Lower {
                // The last capital of several belongs to what follows.
                folded.begin(last_at);
            }
            push_folded(&mut folded.text, char);
            before = [before[1], class];
            last_at = at;
        }
        folded
    }

    fn begin(&mut self, at: usize) {
        if self.begins.len() < BEGINNINGS_MAX && self.begins.last() != Some(&at) {
            self.begins.push(at);
        }
    }

    /// The text, words separated by one blank where something separated them.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// What is indexed: the rest from each word on, cut.
    pub(crate) fn rests(&self) -> impl Iterator<Item = &str> {
        self.begins.iter().filter_map(|&at| self.text.get(at..)).map(cut)
    }

    /// Whether a word is the beginning of the rest from some word on. The empty word always is.
    pub(crate) fn has(&self, word: &str) -> bool {
        word.is_empty() || self.begins.iter().any(|&at| self.text.get(at..).is_some_and(|rest| rest.starts_with(word)))
    }
}

/// As much of a text as is indexed of it.
pub(crate) fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(REST_BYTES_MAX)).unwrap_or(text)
}

/// A tag's identity: folded like a name, but what separates words stays, so that `C` and `C++` are two tags.
pub(crate) fn fold_tag(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    decomposed(text).for_each(|char| push_folded(&mut folded, char));
    // After it: a part may be all accents, and taking apart makes blanks of some.
    folded.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What a character does to words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Separator,
    /// Belongs to the character before.
    Mark,
    /// Lower case, or of a script without case.
    Lower,
    Upper,
    Digit,
    /// A word by itself.
    Single,
}

fn class(char: char) -> Class {
    if char.is_ascii() {
        return match char {
            'a'..='z' => Class::Lower,
            'A'..='Z' => Class::Upper,
            '0'..='9' => Class::Digit,
            _ => Class::Separator,
        };
    }
    if is_combining_mark(char) {
        Class::Mark
    } else if char.is_numeric() {
        Class::Digit
    } else if char.is_alphabetic() && !is_unspaced(char) {
        if char.is_uppercase() { Class::Upper } else { Class::Lower }
    } else if is_separator(char) {
        Class::Separator
    } else {
        Class::Single
    }
}

fn begins(before: Class, class: Class) -> bool {
    match (before, class) {
        (Class::Separator | Class::Single, _) | (_, Class::Single) | (Class::Lower, Class::Upper) => true,
        (before, class) => (before == Class::Digit) != (class == Class::Digit),
    }
}

/// Letters of scripts that put no blanks between words: Thai and Lao, Myanmar, Khmer, kana, ideographs.
const fn is_unspaced(char: char) -> bool {
    matches!(char,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{2e80}'..='\u{2fdf}'
        | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Blanks, and the blocks of punctuation; other symbols can be looked for.
fn is_separator(char: char) -> bool {
    char.is_whitespace()
        || char.is_control()
        || matches!(char, '\u{80}'..='\u{bf}' | '\u{2000}'..='\u{206f}' | '\u{3000}'..='\u{303f}' | '\u{fe10}'..='\u{fe6f}')
}

/// The text taken apart, without accents.
fn decomposed(text: &str) -> impl Iterator<Item = char> {
    text.nfkd().filter(|char| !is_accent(*char))
}

/// Marks that many do not write: points of Hebrew and Arabic (canonical combining classes 10 to 36), strokes (1), and what is
/// above and below letters (from 200 on). Voicing (8), nuktas, viramas and vowels stay.
fn is_accent(char: char) -> bool {
    matches!(canonical_combining_class(char), 1 | 10..=36 | 200..)
}

/// Appends a character in lower case, as people expect it to be found.
fn push_folded(text: &mut String, char: char) {
    if char.is_ascii() {
        text.push(char.to_ascii_lowercase());
        return;
    }
    for lower in char.to_lowercase() {
        match lower {
            'ß' => text.push_str("ss"),
            'æ' => text.push_str("ae"),
            'œ' => text.push_str("oe"),
            'þ' => text.push_str("th"),
            'ø' => text.push('o'),
            'đ' | 'ð' => text.push('d'),
            'ł' => text.push('l'),
            'ħ' => text.push('h'),
            'ŧ' => text.push('t'),
            'ı' => text.push('i'),
            'ς' => text.push('σ'),
            lower if is_accent(lower) => {}
            lower => text.push(lower),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rests(name: &str) -> Vec<String> {
        Folded::new(name).rests().map(str::to_owned).collect()
    }

    #[test]
    fn a_tag_that_was_folded_is_folded() {
        for (text, folded) in [("cafe \u{591}", "cafe"), ("a\u{a8}", "a"), ("  A \u{a0} B ", "a b"), ("C++", "c++")] {
            assert_eq!(fold_tag(text), folded, "{text:?}");
            assert_eq!(fold_tag(&fold_tag(text)), folded, "{text:?}");
        }
    }

    #[test]
    fn words_begin_at_separators_digits_and_humps() {
        assert_eq!(rests("Report2024Final.pdf"), ["report2024final pdf", "2024final pdf", "final pdf", "pdf"]);
        assert_eq!(rests("__my-HTTPServer (old)"), ["my httpserver old", "httpserver old", "server old", "old"]);
        assert_eq!(rests("ABC"), ["abc"]);
        assert_eq!(rests("IMG_0001.JPG"), ["img 0001 jpg", "0001 jpg", "jpg"]);
        assert_eq!(rests("---"), Vec::<String>::new());
    }

    #[test]
    fn case_and_accents_do_not_matter() {
        for (one, other) in [
            ("Übersicht", "ubersicht"),
            ("STRASSE", "straße"),
            ("Ångström", "angstrom"),
            ("Ærø", "aero"),
            ("ÉTÉ", "e\u{301}te\u{301}"),
            ("İstanbul", "istanbul"),
            ("Łódź", "lodz"),
            ("ΣΊΣΥΦΟΣ", "σισυφος"),
            ("ﬁnal", "FINAL"),
            ("ｆｕｌｌ", "full"),
            ("שָׁלוֹם", "שלום"),
        ] {
            assert_eq!(Folded::new(one).text(), Folded::new(other).text(), "{one} {other}");
            assert_eq!(fold_tag(one), fold_tag(other), "{one} {other}");
        }
    }

    #[test]
    fn marks_that_make_another_letter_stay() {
        for (one, other) in [("が", "か"), ("की", "का"), ("กา", "กี")] {
            assert_ne!(Folded::new(one).text(), Folded::new(other).text(), "{one} {other}");
        }
    }

    #[test]
    fn scripts_without_blanks_are_found_at_each_letter() {
        assert_eq!(rests("東京タワー"), ["東京タワー", "京タワー", "タワー", "ワー", "ー"]);
        assert!(Folded::new("会议纪要2024.docx").has("纪要2024"));
        assert!(Folded::new("한국어 문서").has(Folded::new("문").text()));
        assert!(Folded::new("beach🏖photo").has("🏖") && Folded::new("beach🏖photo").has("photo"));
    }

    #[test]
    fn rests_are_cut_between_characters_and_names_have_so_many_words() {
        let long = rests(&"漢".repeat(85));
        assert_eq!(long.len(), BEGINNINGS_MAX);
        assert!(long.iter().all(|rest| rest.len() <= REST_BYTES_MAX && rest.chars().all(|char| char == '漢')));
        assert_eq!(cut(&"é".repeat(40)).len(), 48);
        assert_eq!(cut(&format!("x{}", "é".repeat(40))).len(), 47);
    }

    #[test]
    fn a_word_matches_from_where_words_begin() {
        let name = Folded::new("fooBar-baz 12.txt");
        for word in ["", "f", "foobar", "bar", "bar baz", "12", "12 txt"] {
            assert!(name.has(word), "{word}");
        }
        for word in ["oo", "ar", "2", "baz12", "xt"] {
            assert!(!name.has(word), "{word}");
        }
        assert!(Folded::new("---").has("") && !Folded::new("---").has("x"));
    }

    #[test]
    fn tags_that_differ_in_punctuation_differ() {
        assert_eq!(fold_tag("  To   Do "), "to do");
        assert_ne!(fold_tag("C"), fold_tag("C++"));
    }
}
