//! What servers answer (RFC 9051 section 7), taken apart.
//!
//! An answer is a line, in which strings may stand as literals: `{COUNT}`, a line end, and so many bytes. [`super::wire`] reads one with its literals into one
//! buffer. Data of messages are values: atoms, strings and lists, whatever they mean. Lists go [`DEPTH_MAX`] deep, and an answer holds [`VALUES_MAX`] values.

use holdfast_base::{Error, ErrorKind, Result};

/// Lists within lists: mails are nested by those who send them.
const DEPTH_MAX: usize = 64;
/// Values of an answer, a list counting as one.
const VALUES_MAX: usize = 200_000;
/// Characters of a server's words that are repeated to a person.
const SHOWN_CHARS: usize = 200;

/// A piece of data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// `NIL`.
    Nil,
    /// A word or number, which is UTF-8 as far as it matters.
    Atom(String),
    /// A string, quoted or literal.
    Text(Vec<u8>),
    /// Values in parentheses.
    List(Vec<Value>),
}

impl Value {
    /// The bytes of a string; servers write some of them without quotes.
    pub fn text(&self) -> Option<&[u8]> {
        match self {
            Self::Text(bytes) => Some(bytes),
            Self::Atom(word) => Some(word.as_bytes()),
            Self::Nil | Self::List(_) => None,
        }
    }

    /// A number.
    pub fn number(&self) -> Option<u64> {
        std::str::from_utf8(self.text()?).ok()?.parse().ok()
    }

    /// The values of a list.
    pub fn list(&self) -> Option<&[Self]> {
        match self {
            Self::List(values) => Some(values),
            _ => None,
        }
    }

    /// Whether it is a word, in large or small letters.
    pub fn is(&self, word: &str) -> bool {
        self.text().is_some_and(|text| text.eq_ignore_ascii_case(word.as_bytes()))
    }
}

/// How a command, or the server itself, is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It was done.
    Ok,
    /// It was not.
    No,
    /// It was not understood.
    Bad,
    /// The server ends the connection.
    Bye,
    /// One is signed in already.
    PreAuth,
}

/// A status with what is said about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// How it is.
    pub status: Status,
    /// What is between the brackets: a word for programs, perhaps with a value.
    pub code: String,
    /// Words for a person.
    pub text: String,
}

impl Told {
    /// The value of a code, if it is that one.
    pub(super) fn code(&self, name: &str) -> Option<&str> {
        let (word, value) = self.code.split_once(' ').unwrap_or((&self.code, ""));
        word.eq_ignore_ascii_case(name).then_some(value)
    }

    /// It, if it says that it was done.
    pub(super) fn done(self, doing: &str, usual: ErrorKind) -> Result<Self> {
        if self.status == Status::Ok { Ok(self) } else { Err(self.refused(doing, usual)) }
    }

    /// Why something was not done. `usual` is what a refusal means that does not say why.
    pub(super) fn refused(&self, doing: &str, usual: ErrorKind) -> Error {
        let said: String = self.text.chars().filter(|c| !c.is_control()).take(SHOWN_CHARS).collect();
        let word = self.code.split(' ').next().unwrap_or_default().to_ascii_uppercase();
        let kind = match (word.as_str(), self.status) {
            ("UNAVAILABLE" | "INUSE" | "LIMIT" | "SERVERBUG", _) | (_, Status::Bye) => ErrorKind::Unavailable,
            ("AUTHENTICATIONFAILED" | "AUTHORIZATIONFAILED" | "EXPIRED", _) => ErrorKind::Unauthenticated,
            ("NOPERM" | "PRIVACYREQUIRED" | "CONTACTADMIN", _) => ErrorKind::Forbidden,
            ("NONEXISTENT", _) => ErrorKind::NotFound,
            ("EXPUNGEISSUED", _) => ErrorKind::PreconditionFailed,
            (_, Status::Bad) => ErrorKind::Unsupported,
            _ => usual,
        };
        Error::new(kind, format!("{doing}: the server answered {said}"))
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The server waits for more of a command.
    More,
    /// A command with this tag is over.
    Tagged(String, Told),
    /// How the server is doing, or the mailbox.
    Status(Told),
    /// What it can.
    Capability(Vec<String>),
    /// A mailbox: attributes, what is between the names of its path, and its path.
    List(Vec<String>, Option<Vec<u8>>, Vec<u8>),
    /// So many messages are there.
    Exists(u32),
    /// A message is gone; those after it have a number less.
    Expunge(u32),
    /// Data of a message by its number, with their names in capitals.
    Fetch(u32, Vec<(String, Value)>),
    /// The same, where it cannot be understood.
    BadFetch(u32, String),
    /// Numbers of messages that were looked for.
    Search(Vec<u32>),
    /// Something else.
    Other,
}

/// Takes an answer apart: a line without its end, with literals in it. One that was cut off counts as not understood.
pub fn parse(line: &[u8], cut: bool) -> Result<Answer> {
    let mut reader = Reader { line, at: 0, values: 0 };
    let tag = reader.word();
    if tag == "+" {
        return Ok(Answer::More);
    }
    let _ = reader.eat(b' ');
    let first = reader.word();
    let told = status(&first).map(|status| told(status, &line[reader.at..]));
    if tag != "*" {
        return match told {
            Some(told) if !tag.is_empty() => Ok(Answer::Tagged(tag, told)),
            _ => Err(no_imap(line)),
        };
    }
    if let Some(told) = told {
        return Ok(Answer::Status(told));
    }
    let _ = reader.eat(b' ');
    if let Ok(number) = first.parse::<u32>() {
        return Ok(match reader.word().to_ascii_uppercase().as_str() {
            "EXISTS" => Answer::Exists(number),
            "EXPUNGE" => Answer::Expunge(number),
            "FETCH" if cut => Answer::BadFetch(number, "it is too large".to_owned()),
            "FETCH" => match reader.fetched() {
                Ok(items) => Answer::Fetch(number, items),
                Err(why) => Answer::BadFetch(number, why.to_owned()),
            },
            _ => Answer::Other,
        });
    }
    if cut {
        return Err(Error::new(ErrorKind::TooLarge, "the server sent an answer that is too large"));
    }
    match first.to_ascii_uppercase().as_str() {
        "CAPABILITY" => Ok(Answer::Capability(capabilities(&String::from_utf8_lossy(&line[reader.at..])))),
        "SEARCH" => {
            let numbers = String::from_utf8_lossy(&line[reader.at..]);
            Ok(Answer::Search(numbers.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect()))
        }
        "LIST" => reader.listed().map_err(|why| unlike(why, line)),
        _ => Ok(Answer::Other),
    }
}

/// The words of a list of capabilities.
pub(super) fn capabilities(text: &str) -> Vec<String> {
    text.split_ascii_whitespace().map(str::to_ascii_uppercase).collect()
}

fn status(word: &str) -> Option<Status> {
    Some(match word.to_ascii_uppercase().as_str() {
        "OK" => Status::Ok,
        "NO" => Status::No,
        "BAD" => Status::Bad,
        "BYE" => Status::Bye,
        "PREAUTH" => Status::PreAuth,
        _ => return None,
    })
}

fn told(status: Status, rest: &[u8]) -> Told {
    let rest = String::from_utf8_lossy(rest);
    let rest = rest.trim_start();
    let coded = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (code, text) = coded.unwrap_or(("", rest));
    Told { status, code: code.to_owned(), text: text.trim().to_owned() }
}

fn shown(line: &[u8]) -> String {
    String::from_utf8_lossy(line).chars().filter(|c| !c.is_control()).take(40).collect()
}

fn no_imap(line: &[u8]) -> Error {
    Error::new(ErrorKind::Unsupported, format!("what answers there does not speak IMAP: it said {:?}", shown(line)))
}

fn unlike(why: &str, line: &[u8]) -> Error {
    Error::damaged(format!("the server's answer {:?} cannot be understood: {why}", shown(line)))
}

/// A place in an answer.
struct Reader<'a> {
    line: &'a [u8],
    at: usize,
    values: usize,
}

type Read<T> = std::result::Result<T, &'static str>;

impl Reader<'_> {
    fn next(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let is = self.next() == Some(byte);
        self.at += usize::from(is);
        is
    }

    /// Bytes up to the next space.
    fn word(&mut self) -> String {
        let rest = &self.line[self.at..];
        let end = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
        self.at += end;
        String::from_utf8_lossy(&rest[..end]).into_owned()
    }

    /// Data of a message: names and values in turn.
    fn fetched(&mut self) -> Read<Vec<(String, Value)>> {
        let _ = self.eat(b' ');
        let Value::List(values) = self.value(0)? else { return Err("there is no list") };
        let mut values = values.into_iter();
        let mut items = Vec::new();
        while let Some(name) = values.next() {
            let Value::Atom(name) = name else { return Err("a name is missing") };
            items.push((name.to_ascii_uppercase(), values.next().ok_or("a value is missing")?));
        }
        Ok(items)
    }

    fn listed(&mut self) -> Read<Answer> {
        let flags = self.value(0)?;
        let flags = flags.list().ok_or("there are no attributes")?.iter().filter_map(Value::text);
        let flags = flags.map(|flag| String::from_utf8_lossy(flag).to_ascii_lowercase()).collect();
        let _ = self.eat(b' ');
        let delimiter = match self.value(0)? {
            Value::Nil => None,
            value => Some(value.text().ok_or("there is no delimiter")?.to_vec()),
        };
        let _ = self.eat(b' ');
        let name = self.value(0)?.text().map(<[u8]>::to_vec);
        // A mailbox may be called NIL.
        Ok(Answer::List(flags, delimiter, name.unwrap_or_else(|| b"NIL".to_vec())))
    }

    fn value(&mut self, depth: usize) -> Read<Value> {
        self.values += 1;
        if self.values > VALUES_MAX {
            return Err("it holds too much");
        }
        match self.next().ok_or("it ends too soon")? {
            b'(' if depth >= DEPTH_MAX => Err("it is nested too deeply"),
            b'(' => self.list(depth),
            b'"' => self.quoted().map(Value::Text),
            b'{' => self.literal().map(Value::Text),
            b'~' if self.line.get(self.at + 1) == Some(&b'{') => {
                self.at += 1;
                self.literal().map(Value::Text)
            }
            _ => self.atom(),
        }
    }

    fn list(&mut self, depth: usize) -> Read<Value> {
        self.at += 1;
        let mut values = Vec::new();
        loop {
            while self.eat(b' ') {}
            if self.eat(b')') {
                return Ok(Value::List(values));
            }
            values.push(self.value(depth + 1)?);
        }
    }

    fn quoted(&mut self) -> Read<Vec<u8>> {
        self.at += 1;
        let mut text = Vec::new();
        loop {
            let byte = self.next().ok_or("a string has no end")?;
            self.at += 1;
            match byte {
                b'"' => return Ok(text),
                b'\\' => {
                    text.push(self.next().ok_or("a string has no end")?);
                    self.at += 1;
                }
                byte => text.push(byte),
            }
        }
    }

    fn literal(&mut self) -> Read<Vec<u8>> {
        let rest = &self.line[self.at..];
        let end = rest.iter().position(|byte| *byte == b'\n').ok_or("a literal has no size")?;
        let count = literal_at_end(&rest[..end]).ok_or("a literal has no size")?;
        let from = self.at + end + 1;
        let to = from.checked_add(usize::try_from(count).map_err(|_| "a literal is too large")?);
        let to = to.filter(|to| *to <= self.line.len()).ok_or("a literal has no end")?;
        self.at = to;
        Ok(self.line[from..to].to_vec())
    }

    /// A word; what is between brackets in it belongs to it.
    fn atom(&mut self) -> Read<Value> {
        let from = self.at;
        let mut in_brackets = false;
        while let Some(byte) = self.next() {
            match byte {
                b'[' => in_brackets = true,
                b']' => in_brackets = false,
                b' ' | b'(' | b')' | b'"' if !in_brackets => break,
                _ => {}
            }
            self.at += 1;
        }
        let word = &self.line[from..self.at];
        if word.is_empty() {
            return Err("a value is missing");
        }
        if word.eq_ignore_ascii_case(b"NIL") {
            return Ok(Value::Nil);
        }
        Ok(Value::Atom(String::from_utf8_lossy(word).into_owned()))
    }
}

/// The size of the literal that a line announces at its end.
pub(super) fn literal_at_end(line: &[u8]) -> Option<u64> {
    let line = line.strip_suffix(b"\r").unwrap_or(line).strip_suffix(b"}")?;
    let digits = &line[line.iter().rposition(|byte| *byte == b'{')? + 1..];
    let digits = digits.strip_suffix(b"+").unwrap_or(digits);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(status: Status, code: &str, text: &str) -> Told {
        Told { status, code: code.to_owned(), text: text.to_owned() }
    }

    fn text(bytes: &[u8]) -> Value {
        Value::Text(bytes.to_vec())
    }

    #[test]
    fn answers_are_taken_apart() {
        for (line, answer) in [
            (b"+ go on".as_slice(), Answer::More),
            (b"A1 OK [READ-ONLY] done", Answer::Tagged("A1".into(), told(Status::Ok, "READ-ONLY", "done"))),
            (b"* BYE gone", Answer::Status(told(Status::Bye, "", "gone"))),
            (b"* 23 EXISTS", Answer::Exists(23)),
            (b"* 5 EXPUNGE", Answer::Expunge(5)),
            (b"* 5 RECENT", Answer::Other),
            (b"* CAPABILITY IMAP4rev1 uidplus", Answer::Capability(vec!["IMAP4REV1".into(), "UIDPLUS".into()])),
            (
                b"* LIST (\\HasChildren) \"/\" {3}\r\na b",
                Answer::List(vec!["\\haschildren".into()], Some(b"/".to_vec()), b"a b".to_vec()),
            ),
            (b"* LIST () NIL INBOX", Answer::List(Vec::new(), None, b"INBOX".to_vec())),
        ] {
            assert_eq!(parse(line, false).expect("is understood"), answer, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn data_of_a_message_are_values_with_names() {
        let line = b"* 2 FETCH (UID 7 BODY[HEADER.FIELDS (SUBJECT)]<0> {4}\r\n)(\r\n BINARY[1] ~{2}\r\n\x00) FLAGS (\\Seen) X \"a\\\"b\" Y NIL)";
        let Answer::Fetch(2, items) = parse(line, false).expect("is understood") else { panic!("no data") };
        let expected = [
            ("UID", Value::Atom("7".into())),
            ("BODY[HEADER.FIELDS (SUBJECT)]<0>", text(b")(\r\n")),
            ("BINARY[1]", text(b"\x00)")),
            ("FLAGS", Value::List(vec![Value::Atom("\\Seen".into())])),
            ("X", text(b"a\"b")),
            ("Y", Value::Nil),
        ];
        assert_eq!(items, expected.map(|(name, value)| (name.to_owned(), value)));
    }

    #[test]
    fn what_cannot_be_understood_of_a_message_is_told_with_its_number() {
        let deep = format!("* 3 FETCH (X {}{})", "(".repeat(DEPTH_MAX), ")".repeat(DEPTH_MAX));
        let many = format!("* 3 FETCH (X ({}))", "() ".repeat(VALUES_MAX));
        for line in
            [deep.as_str(), &many, "* 3 FETCH (UID", "* 3 FETCH (UID {9}\r\nabc)", "* 3 FETCH (\"a\" b)", "* 3 FETCH x"]
        {
            let answer = parse(line.as_bytes(), false).expect("is an answer");
            assert!(matches!(answer, Answer::BadFetch(3, _)), "{answer:?}");
        }
        assert!(matches!(parse(b"* 3 FETCH (UID 1", true), Ok(Answer::BadFetch(3, _))));
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for line in [b"".as_slice(), b"HTTP/1.1 400 Bad Request", b"220 mail ESMTP", b" OK"] {
            assert_eq!(parse(line, false).expect_err("no IMAP").kind(), ErrorKind::Unsupported);
        }
        assert_eq!(parse(b"* LIST (", false).expect_err("half").kind(), ErrorKind::Damaged);
        assert_eq!(parse(b"* LIST (", true).expect_err("cut").kind(), ErrorKind::TooLarge);
    }

    #[test]
    fn what_a_server_says_decides_whether_it_is_tried_again() {
        for (code, status, kind) in [
            ("UNAVAILABLE", Status::No, ErrorKind::Unavailable),
            ("AUTHENTICATIONFAILED", Status::No, ErrorKind::Unauthenticated),
            ("NONEXISTENT", Status::No, ErrorKind::NotFound),
            ("", Status::Bad, ErrorKind::Unsupported),
            ("", Status::Bye, ErrorKind::Unavailable),
            ("", Status::No, ErrorKind::WrongKind),
        ] {
            assert_eq!(told(status, code, "x").refused("it", ErrorKind::WrongKind).kind(), kind, "{code}");
        }
    }

    #[test]
    fn a_literal_is_announced_at_the_end_of_a_line() {
        assert_eq!(literal_at_end(b"x {12}\r"), Some(12));
        assert_eq!(literal_at_end(b"x ~{12}"), Some(12));
        for none in [b"x".as_slice(), b"{}", b"{a}", b"{1} ", b"{99999999999999999999}", b"}"] {
            assert_eq!(literal_at_end(none), None);
        }
    }
}
