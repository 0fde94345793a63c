//! What a mail is made of (BODYSTRUCTURE, RFC 9051 section 7.5.2), and which of its parts are attachments.
//!
//! Those are parts with a name, parts that say they are attached, and all that is no text. A mail within a mail is one attachment, `.eml`, with all that is in
//! it: so nothing of it is there twice, and nothing is lost.

use super::answer::Value;
use super::decode::Encoding;
use super::{names, words};
use holdfast_base::{Error, ErrorKind, NodeName, Result};

/// Attachments of a mail.
const PARTS_MAX: usize = 10_000;

/// An attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Where it is in the mail: numbers with dots between.
    pub number: String,
    /// Its name, which no other part of the mail has.
    pub name: NodeName,
    /// Bytes of it as it is written in the mail, as the server says.
    pub written: u64,
    /// How it is written; none if nobody knows.
    pub encoding: Option<Encoding>,
}

/// The attachments of a mail.
pub fn attachments(structure: &Value) -> Result<Vec<Part>> {
    let mut found = Vec::new();
    collect(structure, "", &mut found)?;
    let names = names::unique(found.iter_mut().map(|(name, _)| std::mem::take(name)).collect())?;
    Ok(names.into_iter().zip(found).map(|(name, (_, part))| Part { name, ..part }).collect())
}

fn unlike() -> Error {
    Error::damaged("the server's description of the mail cannot be understood")
}

/// Lists go only so deep, so this does as well.
fn collect(body: &Value, number: &str, found: &mut Vec<(String, Part)>) -> Result<()> {
    let values = body.list().ok_or_else(unlike)?;
    let within = values.iter().take_while(|value| value.list().is_some()).count();
    for (value, index) in values[..within].iter().zip(1..) {
        let number = if number.is_empty() { format!("{index}") } else { format!("{number}.{index}") };
        collect(value, &number, found)?;
    }
    if within > 0 {
        return Ok(());
    }
    let leaf = Leaf::new(values).ok_or_else(unlike)?;
    let number = if number.is_empty() { "1" } else { number };
    if leaf.is_attachment() {
        if found.len() == PARTS_MAX {
            return Err(Error::new(ErrorKind::TooLarge, format!("the mail has more than {PARTS_MAX} attachments")));
        }
        found.push((leaf.name(number), leaf.part(number)?));
    }
    Ok(())
}

/// A part that is no multipart.
struct Leaf {
    kind: String,
    subkind: String,
    encoding: Option<Encoding>,
    written: u64,
    disposition: String,
    /// What it is called by the head that says how to show it, and by the one that says what it is.
    names: [Option<String>; 2],
    is_mail: bool,
}

impl Leaf {
    fn new(values: &[Value]) -> Option<Self> {
        let word = |index: usize| Some(String::from_utf8_lossy(values.get(index)?.text()?).to_ascii_lowercase());
        let (kind, subkind) = (word(0)?, word(1)?);
        let encoding = Encoding::named(values.get(5)?.text().unwrap_or_default());
        // Servers that do not know it say NIL.
        let written = values.get(6)?.number().unwrap_or_default();
        let is_mail = kind == "message" && matches!(subkind.as_str(), "rfc822" | "global");
        // Lines stand before it for text, and also what a mail is made of.
        let at = match kind.as_str() {
            "text" => 9,
            _ if is_mail && values.get(8).is_some_and(|value| value.list().is_some()) => 11,
            _ => 8,
        };
        let shown = values.get(at).and_then(Value::list).unwrap_or_default();
        let disposition = shown.first().and_then(Value::text).unwrap_or_default();
        let names = [
            words::parameter(&parameters(shown.get(1)), "filename"),
            words::parameter(&parameters(values.get(2)), "name"),
        ];
        let disposition = String::from_utf8_lossy(disposition).to_ascii_lowercase();
        Some(Self { kind, subkind, encoding, written, disposition, names, is_mail })
    }

    fn is_attachment(&self) -> bool {
        let multipart = self.kind == "multipart";
        let named = self.names.iter().any(Option::is_some);
        !multipart && (named || self.disposition == "attachment" || self.kind != "text")
    }

    fn name(&self, number: &str) -> String {
        let told = self.names.iter().flatten().find_map(|name| names::file(name));
        told.unwrap_or_else(|| format!("part-{number}.{}", self.ending()))
    }

    fn part(&self, number: &str) -> Result<Part> {
        let name = NodeName::new(number)?;
        Ok(Part { number: number.to_owned(), name, written: self.written, encoding: self.encoding })
    }

    /// What files of its kind end in.
    fn ending(&self) -> &str {
        match (self.kind.as_str(), self.subkind.as_str()) {
            _ if self.is_mail => "eml",
            ("message", _) | (_, "plain") => "txt",
            (_, "jpeg") => "jpg",
            (_, "calendar") => "ics",
            (_, "gzip") => "gz",
            (_, "svg+xml") => "svg",
            ("audio", "mpeg") => "mp3",
            (_, short)
                if short.len() <= 4 && short.bytes().all(|byte| byte.is_ascii_alphanumeric()) && !short.is_empty() =>
            {
                short
            }
            _ => "bin",
        }
    }
}

/// Names and values in turn.
fn parameters(list: Option<&Value>) -> Vec<(String, Vec<u8>)> {
    let pairs = list.and_then(Value::list).unwrap_or_default().chunks_exact(2);
    let pairs = pairs.filter_map(|pair| Some((pair[0].text()?, pair[1].text()?)));
    pairs.map(|(name, value)| (String::from_utf8_lossy(name).into_owned(), value.to_vec())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::answer::{Answer, parse};
    use super::*;

    fn parts(structure: &str) -> Result<Vec<(String, String, u64)>> {
        let line = format!("* 1 FETCH (BODYSTRUCTURE {structure})");
        let Answer::Fetch(_, items) = parse(line.as_bytes(), false).expect("is understood") else { panic!("{line}") };
        let found = attachments(&items[0].1)?;
        Ok(found.into_iter().map(|part| (part.number, part.name.to_string(), part.written)).collect())
    }

    fn expect(structure: &str, expected: &[(&str, &str, u64)]) {
        let expected: Vec<_> = expected.iter().map(|(a, b, size)| ((*a).to_owned(), (*b).to_owned(), *size)).collect();
        assert_eq!(parts(structure).expect("is understood"), expected, "{structure}");
    }

    const TEXT: &str = r#"("text" "plain" ("charset" "utf-8") NIL NIL "7bit" 10 1 NIL NIL NIL NIL)"#;

    #[test]
    fn attachments_are_what_has_a_name_or_says_so_or_is_no_text() {
        expect(TEXT, &[]);
        let pdf = r#"("application" "pdf" ("name" "a.pdf") NIL NIL "base64" 200 NIL ("attachment" ("filename" "b.pdf")) NIL NIL)"#;
        let image = r#"("IMAGE" "JPEG" NIL "<id>" NIL "BASE64" 300 NIL NIL NIL NIL)"#;
        let inline = r#"("text" "x" ("name" "log") NIL NIL "7bit" 5 1 NIL ("inline" NIL) NIL NIL)"#;
        let attached = r#"("text" "html" NIL NIL NIL "7bit" 5 1 NIL ("attachment" NIL))"#;
        let mixed = format!("(({TEXT}{image} \"related\" (\"type\" \"x\") NIL NIL){pdf}{inline}{attached} \"mixed\")");
        expect(&mixed, &[("1.2", "part-1.2.jpg", 300), ("2", "b.pdf", 200), ("3", "log", 5), ("4", "part-4.html", 5)]);
        expect(pdf, &[("1", "b.pdf", 200)]);
    }

    #[test]
    fn a_mail_within_a_mail_is_one_file() {
        let envelope = "(NIL \"s\" NIL NIL NIL NIL NIL NIL NIL NIL)";
        let mail = format!(
            r#"("message" "rfc822" NIL NIL NIL "7bit" 999 {envelope} ({TEXT}{TEXT} "mixed") 20 NIL ("attachment" ("filename" "f.eml")) NIL NIL)"#
        );
        let bare = format!(r#"("message" "rfc822" NIL NIL NIL "7bit" 99 {envelope} {TEXT} 20)"#);
        expect(&format!("({TEXT}{mail}{bare} \"mixed\")"), &[("2", "f.eml", 999), ("3", "part-3.eml", 99)]);
    }

    #[test]
    fn names_are_safe_and_told_apart() {
        let named = |name: &str| format!(r#"("a" "b" NIL NIL NIL "7bit" 1 NIL ("attachment" ("filename" "{name}")))"#);
        let all = ["../../x", "x", "..", "=?utf-8?Q?=2E=2E=2Fx?="].map(named).concat();
        expect(
            &format!("({all} \"mixed\")"),
            &[("1", "x", 1), ("2", "x (2)", 1), ("3", "part-3.b", 1), ("4", "x (3)", 1)],
        );
    }

    #[test]
    fn what_is_no_structure_is_refused() {
        for bad in ["NIL", "()", "(\"text\")", "((\"text\") \"mixed\")", "(\"a\" \"b\" NIL NIL NIL \"7bit\")"] {
            assert_eq!(parts(bad).expect_err(bad).kind(), ErrorKind::Damaged);
        }
        let many = format!("({} \"mixed\")", r#"("a" "b" NIL NIL NIL "7bit" 1)"#.repeat(PARTS_MAX + 1));
        assert_eq!(parts(&many).expect_err("many").kind(), ErrorKind::TooLarge);
    }
}
