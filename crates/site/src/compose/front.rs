//! Front matter: what a page says about itself before its text.
//!
//! Either TOML between lines of `+++`, or `key: value` lines between lines of `---`, where a value that reads as TOML (`true`,
//! `3`, `2026-01-31`, `["a", "b"]`) is that and any other is text. This is the part of YAML that people use here, and no more.

use super::Problem;
use super::config::line_of;
use toml::{Table, Value};

/// What a page says about itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Front {
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    /// Name of a template; empty is none.
    pub(crate) template: Option<String>,
    /// RFC 3339, to the second.
    pub(crate) date: Option<String>,
    pub(crate) lang: Option<String>,
    pub(crate) draft: bool,
    /// Whether the page is in the navigation.
    pub(crate) nav: bool,
    /// Place in the navigation; smaller is earlier.
    pub(crate) order: i64,
    /// Everything else, for templates.
    pub(crate) extra: Table,
}

/// Splits front matter off. Answers it, the text after it, and how many lines come before that; none if the file has none.
pub(crate) fn split<'a>(file: &str, text: &'a str) -> Result<Option<(Front, &'a str, usize)>, Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let first = text.lines().next().unwrap_or_default().trim_end();
    let fence = match first {
        "+++" | "---" => first,
        _ => return Ok(None),
    };
    let mut at = text.find('\n').map_or(text.len(), |end| end + 1);
    let start = at;
    for line in text[start..].split_inclusive('\n') {
        let begin = at;
        at += line.len();
        if line.trim_end() == fence {
            let head = &text[start..begin];
            let table = if fence == "+++" { toml_table(file, head)? } else { plain_table(file, head)? };
            let lines = line_of(text, at) - 1;
            return Ok(Some((front(file, table)?, &text[at..], lines)));
        }
    }
    // A rule or a table may begin a file that has no front matter.
    if fence == "---" { Ok(None) } else { Err(Problem::new(file, Some(1), "the front matter has no end: +++")) }
}

fn toml_table(file: &str, head: &str) -> Result<Table, Problem> {
    toml::from_str(head).map_err(|error| {
        let line = error.span().map(|span| line_of(head, span.start) + 1);
        Problem::new(file, line, format!("front matter: {}", error.message()))
    })
}

fn plain_table(file: &str, head: &str) -> Result<Table, Problem> {
    let mut table = Table::new();
    for (index, line) in head.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let bad = || Problem::new(file, Some(index + 2), "front matter is written key: value");
        let (key, value) = line.split_once(':').ok_or_else(bad)?;
        let (key, value) = (key.trim(), value.trim());
        if key.is_empty() || key.contains(char::is_whitespace) {
            return Err(bad());
        }
        table.insert(key.to_owned(), plain_value(value));
    }
    Ok(table)
}

fn plain_value(text: &str) -> Value {
    let parsed = toml::from_str::<Table>(&format!("v = {text}")).ok().and_then(|mut table| table.remove("v"));
    parsed.unwrap_or_else(|| Value::String(text.to_owned()))
}

fn front(file: &str, mut table: Table) -> Result<Front, Problem> {
    let wrong = |key: &str, what: &str| Problem::new(file, None, format!("front matter: {key} is {what}"));
    let mut text = |key: &str| match table.remove(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(Value::Integer(number)) => Ok(Some(number.to_string())),
        Some(_) => Err(wrong(key, "text")),
    };
    let mut front = Front {
        title: text("title")?,
        description: text("description")?,
        template: text("template")?,
        lang: text("lang")?,
        nav: true,
        ..Front::default()
    };
    for (key, flag) in [("draft", &mut front.draft), ("nav", &mut front.nav)] {
        match table.remove(key) {
            None => {}
            Some(Value::Boolean(value)) => *flag = value,
            Some(_) => return Err(wrong(key, "true or false")),
        }
    }
    match table.remove("order") {
        None => {}
        Some(Value::Integer(value)) => front.order = value,
        Some(_) => return Err(wrong("order", "a whole number")),
    }
    front.date = match table.remove("date") {
        None => None,
        Some(value) => Some(date(&value).ok_or_else(|| wrong("date", "a date such as 2026-01-31"))?),
    };
    front.extra = table;
    Ok(front)
}

/// A date as RFC 3339 to the second; a day alone is its midnight in UTC.
fn date(value: &Value) -> Option<String> {
    let moment = match value {
        Value::Datetime(moment) => *moment,
        Value::String(text) => text.parse().ok()?,
        _ => return None,
    };
    let date = moment.date?;
    let time = moment.time.map_or_else(
        || "00:00:00".into(),
        |time| format!("{:02}:{:02}:{:02}", time.hour, time.minute, time.second.unwrap_or_default()),
    );
    let offset = moment.offset.map_or_else(|| "Z".into(), |offset| offset.to_string());
    Some(format!("{date}T{time}{offset}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_forms_say_the_same() {
        let toml = "+++\ntitle = \"A\"\ndate = 2026-01-31\ndraft = true\ntags = [\"x\"]\n+++\nText\n";
        let plain = "---\ntitle: A\ndate: 2026-01-31\n# a comment\ndraft: true\ntags: [\"x\"]\n---\nText\n";
        let (one, body, lines) = split("a.md", toml).expect("reads").expect("has");
        assert_eq!((body, lines), ("Text\n", 6));
        assert_eq!(
            (one.title.as_deref(), one.date.as_deref(), one.draft),
            (Some("A"), Some("2026-01-31T00:00:00Z"), true)
        );
        let (other, body, lines) = split("a.md", plain).expect("reads").expect("has");
        assert_eq!((body, lines), ("Text\n", 7));
        assert_eq!(one, other);
    }

    #[test]
    fn files_without_front_matter_are_left_alone_and_mistakes_have_lines() {
        assert_eq!(split("a.md", "# Title\n").expect("reads"), None);
        assert_eq!(split("a.md", "---\n\na rule above\n").expect("reads"), None);
        assert_eq!(split("a.md", "---\ntitle\n---\n").expect_err("no colon").line, Some(2));
        assert_eq!(split("a.md", "+++\ntitle = \"a\"\nx =\n+++\n").expect_err("no value").line, Some(3));
        assert!(split("a.md", "---\ndraft: perhaps\n---\n").is_err());
        assert!(split("a.md", "---\ndate: soon\n---\n").is_err());
        let (front, ..) = split("a.md", "---\ntitle: Holdfast: a drive\n---\n").expect("reads").expect("has");
        assert_eq!(front.title.as_deref(), Some("Holdfast: a drive"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[-+]{3}\n(.|\n){0,60}") {
            let _ = split("a.md", &text);
        }
    }
}
