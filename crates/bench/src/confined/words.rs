//! The words of a command as a shell would split them: blanks, quotes and backslashes, and nothing else of a shell.

use anyhow::bail;

/// More words are no command that somebody wrote.
const WORDS_MAX: usize = 256;

/// Splits a command into words.
pub(super) fn split(text: &str) -> anyhow::Result<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => match letters.next() {
                Some(next) => word.get_or_insert_default().push(next),
                None => bail!("{text:?} ends within a backslash"),
            },
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    if quote.is_some() {
        bail!("{text:?} has a quotation mark without its partner");
    }
    words.extend(word);
    if words.len() > WORDS_MAX {
        bail!("{text:?} has more than {WORDS_MAX} words");
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn words_are_split_at_blanks_outside_of_quotes() {
        for (text, right) in [
            ("bwrap --bind / /  --", &["bwrap", "--bind", "/", "/", "--"][..]),
            (r#"a 'b c'"d 'e" \" f\ g"#, &["a", "b cd 'e", "\"", "f g"]),
            (r#"'' "\"" '\'"#, &["", "\"", "\\"]),
            (" ", &[]),
        ] {
            assert_eq!(split(text).expect(text), right);
        }
    }

    #[test]
    fn what_is_not_ended_or_endless_is_refused() {
        for text in ["a 'b", "a \"b", "a\\", &"x ".repeat(300)] {
            assert!(split(text).is_err(), "{text}");
        }
    }
}
