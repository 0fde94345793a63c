//! What commands print: words and tables for people, JSON for programs. Standard output has the result and nothing else.

use serde::Serialize;
use std::io::Write;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Prints a result. A closed pipe is the reader's choice and no error.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    if !text.ends_with('\n') {
        let _ = out.write_all(b"\n");
    }
    let _ = out.flush();
}

/// Prints `value` as JSON, or what `words` makes of it.
pub(crate) fn show<T: Serialize>(json: bool, value: &T, words: impl FnOnce(&T) -> String) -> anyhow::Result<()> {
    if json {
        print(&serde_json::to_string_pretty(value)?);
    } else {
        print(&words(value));
    }
    Ok(())
}

/// A text of others on one line, with escapes for what would speak to the terminal: names and commands are whatever somebody made them.
pub(crate) fn plain(text: &str) -> String {
    let one = |letter: char| if letter.is_control() { letter.escape_default().to_string() } else { letter.to_string() };
    text.chars().map(one).collect()
}

/// A table with a heading, its columns as wide as they need to be.
pub(crate) fn table(heading: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| plain(cell)).collect()).collect();
    let mut widths: Vec<usize> = heading.iter().map(|cell| cell.chars().count()).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: Vec<&str>| {
        let padded: Vec<String> = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        padded.join("  ").trim_end().to_owned() + "\n"
    };
    let mut text = line(heading.to_vec());
    text.extend(rows.iter().map(|row| line(row.iter().map(String::as_str).collect())));
    text
}

/// A time as RFC 3339 in UTC, to the second.
pub(crate) fn time(ms: i64) -> String {
    OffsetDateTime::from_unix_timestamp(ms.div_euclid(1_000))
        .ok()
        .and_then(|time| time.format(&Rfc3339).ok())
        .unwrap_or_else(|| ms.to_string())
}

/// A quota for people.
pub(crate) fn quota(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "unlimited".into(), holdfast_base::size::format_bytes)
}

/// Reads a quota: a size, or `none`.
pub(crate) fn parse_quota(text: &str) -> Result<Quota, String> {
    match text {
        "none" | "unlimited" => Ok(Quota(None)),
        size => {
            holdfast_base::size::parse_bytes(size).map(|bytes| Quota(Some(bytes))).map_err(|error| error.to_string())
        }
    }
}

/// A quota as an argument; none is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quota(pub(crate) Option<u64>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_line_up_and_have_no_blanks_at_the_end() {
        let text = table(&["NAME", "SIZE"], &[vec!["é".into(), "1".into()], vec!["longer".into(), String::new()]]);
        assert_eq!(text, "NAME    SIZE\né       1\nlonger\n");
    }

    #[test]
    fn names_keep_to_their_line_and_do_not_speak_to_the_terminal() {
        assert_eq!(plain("/a\u{1b}[2J\n b é"), "/a\\u{1b}[2J\\n b é");
        assert_eq!(table(&["NAME", "N"], &[vec!["a\nb".into(), "1".into()]]), "NAME  N\na\\nb  1\n");
    }

    #[test]
    fn times_are_utc() {
        assert_eq!(time(0), "1970-01-01T00:00:00Z");
        assert_eq!(time(-1), "1969-12-31T23:59:59Z");
    }

    #[test]
    fn a_quota_is_a_size_or_none() {
        assert_eq!(parse_quota("10G"), Ok(Quota(Some(10 << 30))));
        assert_eq!(parse_quota("none"), Ok(Quota(None)));
        assert!(parse_quota("much").is_err());
    }
}
