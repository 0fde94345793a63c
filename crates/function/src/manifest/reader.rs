//! Values of a manifest, with the places of what is wrong.

use holdfast_base::size;
use holdfast_policy::{Lines, MISTAKES_MAX, Mistake, Mistakes, unknown};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

type Value<'a> = Spanned<DeValue<'a>>;

/// Suffixes of times in seconds.
const TIMES: [(&str, u64); 3] = [("s", 1), ("m", 60), ("h", 3600)];

/// Reads a text and gathers its mistakes.
pub(super) struct Reader<'a> {
    file: &'a str,
    lines: Lines<'a>,
    mistakes: Vec<(usize, Mistake)>,
}

/// Why a text is not even TOML.
pub(super) fn not_toml(file: &str, text: &str, error: &toml::de::Error) -> Mistakes {
    let (line, column) = error.span().map_or((0, 0), |span| Lines::new(text).place(span.start));
    Mistakes(vec![Mistake { file: file.to_owned(), line, column, text: error.message().replace('\n', " ") }])
}

impl<'a> Reader<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> Self {
        Self { file, lines: Lines::new(text), mistakes: Vec::new() }
    }

    pub(super) fn wrong(&mut self, at: Range<usize>, text: impl Into<String>) {
        if self.mistakes.len() < MISTAKES_MAX {
            let (line, column) = if at.end == 0 { (0, 0) } else { self.lines.place(at.start) };
            self.mistakes.push((at.start, Mistake { file: self.file.to_owned(), line, column, text: text.into() }));
        }
    }

    pub(super) fn finish<T>(mut self, read: T) -> Result<T, Mistakes> {
        if self.mistakes.is_empty() {
            return Ok(read);
        }
        self.mistakes.sort_by_key(|(at, _)| *at);
        Err(Mistakes(self.mistakes.into_iter().map(|(_, mistake)| mistake).collect()))
    }

    pub(super) fn known(&mut self, table: &DeTable<'_>, kind: &str, known: &[&str]) {
        for (key, _) in table {
            if !known.contains(&key.get_ref().as_ref()) {
                self.wrong(key.span(), unknown(kind, key.get_ref(), known.iter().copied()));
            }
        }
    }

    fn kind(&mut self, value: &Value<'_>, wanted: &str) {
        self.wrong(value.span(), format!("{wanted}, and this is of type {}", value.get_ref().type_str()));
    }

    pub(super) fn table<'t, 'v>(&mut self, root: &'t DeTable<'v>, key: &str) -> Option<&'t DeTable<'v>> {
        let value = root.get(key)?;
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.kind(value, &format!("`{key}` is a table"));
        }
        table
    }

    pub(super) fn text<'v>(&mut self, value: &'v Value<'_>, what: &str) -> Option<&'v str> {
        let text = value.get_ref().as_str();
        if text.is_none() {
            self.kind(value, &format!("{what} is a text in quotes"));
        }
        text
    }

    /// The texts of a list, or the one that stands for a list of one.
    pub(super) fn texts(&mut self, value: &Value<'_>, what: &str, most: usize) -> Vec<String> {
        let values: Vec<&Value<'_>> = match value.get_ref() {
            DeValue::Array(values) => values.iter().collect(),
            _ => vec![value],
        };
        if values.len() > most {
            self.wrong(value.span(), format!("{} are more than {most}", values.len()));
            return Vec::new();
        }
        values.into_iter().filter_map(|value| self.text(value, what).map(str::to_owned)).collect()
    }

    fn integer(value: &Value<'_>) -> Option<u64> {
        let read = value.get_ref().as_integer()?;
        u64::from_str_radix(read.as_str(), read.radix()).ok()
    }

    pub(super) fn number(&mut self, table: &DeTable<'_>, key: &str, least: u64, most: u64) -> Option<u64> {
        let value = table.get(key)?;
        let number = Self::integer(value).filter(|number| (least..=most).contains(number));
        if number.is_none() {
            self.wrong(value.span(), format!("`{key}` is from {least} to {most}"));
        }
        number
    }

    /// Bytes, as a number or as text with a suffix.
    pub(super) fn bytes(&mut self, table: &DeTable<'_>, key: &str, most: u64) -> Option<u64> {
        let value = table.get(key)?;
        let read = match value.get_ref().as_str() {
            Some(text) => size::parse_bytes(text).ok(),
            None => Self::integer(value),
        };
        match read {
            Some(bytes) if bytes <= most => return Some(bytes),
            Some(_) => self.wrong(value.span(), format!("`{key}` is at most {}", size::format_bytes(most))),
            None => self.wrong(value.span(), format!("`{key}` is a number of bytes, or text like \"512K\" or \"1M\"")),
        }
        None
    }

    /// Seconds, as a number or as text with a suffix.
    pub(super) fn seconds(&mut self, table: &DeTable<'_>, key: &str, most: u64) -> Option<u64> {
        let value = table.get(key)?;
        let scaled = |text: &str| {
            let mut found = TIMES.iter().filter_map(|(suffix, each)| Some((text.strip_suffix(suffix)?, each)));
            let (number, each) = found.next()?;
            number.trim_end().parse::<u64>().ok()?.checked_mul(*each)
        };
        let read = match value.get_ref().as_str() {
            Some(text) => scaled(text).or_else(|| text.parse().ok()),
            None => Self::integer(value),
        };
        let number = read.filter(|seconds| (1..=most).contains(seconds));
        if number.is_none() {
            let text = format!("`{key}` is from 1 second to {most}: a number, or text like \"90s\" or \"5m\"");
            self.wrong(value.span(), text);
        }
        number
    }
}
