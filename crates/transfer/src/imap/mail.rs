//! Messages as folders.
//!
//! A message's folder is called by its number, the day it came in, and its subject. None of them ever changes while the mailbox's UIDVALIDITY is the same
//! (RFC 9051 section 2.3.1.1), so names are stable, and the number alone finds the message.

use super::answer::{Answer, Value};
use super::decode::Encoding;
use super::session::Session;
use super::structure::{Part, attachments};
use super::{names, words};
use crate::site::{Item, Kind, Version};
use holdfast_base::{Error, ErrorKind, NodeName, Result};
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{OffsetDateTime, UtcOffset};

/// What is asked of a message. The subject is cut: nobody's name is made of more of it.
const ASKED: &str = "(UID INTERNALDATE BODYSTRUCTURE BODY.PEEK[HEADER.FIELDS (SUBJECT)]<0.1000>)";
/// Messages that are asked for at a time.
const RANGE: u32 = 500;
/// When a message came in, as servers write it (RFC 9051, date-time).
const MOMENT: &[BorrowedFormatItem<'_>] = format_description!(
    "[day padding:none]-[month repr:short case_sensitive:false]-[year] [hour]:[minute]:[second] [offset_hour sign:mandatory][offset_minute]"
);

/// A message.
#[derive(Debug, Clone)]
pub(super) struct Mail {
    pub(super) uid: u32,
    pub(super) name: NodeName,
    /// When it came in.
    pub(super) at_ns: Option<i64>,
    pub(super) parts: Vec<Part>,
}

/// Where an attachment's content is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PartAt {
    /// As it is on the line.
    pub(super) mailbox: String,
    pub(super) validity: u32,
    pub(super) uid: u32,
    pub(super) number: String,
}

impl Mail {
    /// A message out of what the server tells; none if that is not all that was asked for, as when only its flags changed.
    fn of(items: &[(String, Value)]) -> Result<Option<Self>> {
        let of = |name: &str| items.iter().find(|(found, _)| found.starts_with(name)).map(|(_, value)| value);
        let (Some(uid), Some(structure)) = (of("UID").and_then(Value::number), of("BODYSTRUCTURE")) else {
            return Ok(None);
        };
        let uid = uid_of_items(items).filter(|_| uid > 0);
        let uid = uid.ok_or_else(|| Error::damaged("the server gives a message a number that none can have"))?;
        let at = of("INTERNALDATE").and_then(Value::text).and_then(moment);
        let subject = of("BODY[HEADER.FIELDS").and_then(Value::text).unwrap_or_default();
        let name = folder_name(uid, at, subject)?;
        let at_ns = at.and_then(|at| i64::try_from(at.unix_timestamp_nanos()).ok());
        let parts = attachments(structure).map_err(|error| error.context(&name))?;
        Ok(Some(Self { uid, name, at_ns, parts }))
    }

    /// Its attachments as files.
    pub(super) fn items(&self, validity: u32) -> Vec<Item> {
        self.parts.iter().map(|part| self.item(part, validity)).collect()
    }

    /// An attachment as a file, of about its size.
    pub(super) fn item(&self, part: &Part, validity: u32) -> Item {
        let Part { number, name, written, encoding } = part;
        let (size, how) = match encoding {
            Some(encoding) => (encoding.about(*written), letter(*encoding)),
            None => (*written, "x"),
        };
        let version = Version(format!("{validity}/{}/{number}/{written}/{how}", self.uid));
        Item { name: name.clone(), kind: Kind::File, size, modified_ns: self.at_ns, mode: None, version }
    }
}

/// A message's number, if it is told.
pub(super) fn uid_of_items(items: &[(String, Value)]) -> Option<u32> {
    let (_, uid) = items.iter().find(|(name, _)| name == "UID")?;
    uid.number().and_then(|uid| u32::try_from(uid).ok()).filter(|uid| *uid > 0)
}

const fn letter(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Plain => "p",
        Encoding::Base64 => "b",
        Encoding::Quoted => "q",
    }
}

/// What a version says: where the content is, how much is written there, and how.
pub(super) fn part_at(mailbox: &str, version: &Version) -> Result<(PartAt, u64, Encoding)> {
    let unlike = || Error::internal("a version was told that is none of a mailbox");
    let words: Vec<&str> = version.0.split('/').collect();
    let [validity, uid, number, written, how] = words[..] else { return Err(unlike()) };
    let (Ok(validity), Ok(uid), Ok(written)) = (validity.parse(), uid.parse(), written.parse()) else {
        return Err(unlike());
    };
    let encoding = [Encoding::Plain, Encoding::Base64, Encoding::Quoted].into_iter().find(|is| letter(*is) == how);
    let unknown = || Error::new(ErrorKind::Unsupported, "it is encoded in a way that is not known");
    let at = PartAt { mailbox: mailbox.to_owned(), validity, uid, number: number.to_owned() };
    Ok((at, written, encoding.ok_or_else(unknown)?))
}

fn moment(text: &[u8]) -> Option<OffsetDateTime> {
    OffsetDateTime::parse(std::str::from_utf8(text).ok()?.trim(), MOMENT).ok()
}

fn folder_name(uid: u32, at: Option<OffsetDateTime>, head: &[u8]) -> Result<NodeName> {
    let day = at.map_or((0, 0, 0), |at| {
        let day = at.to_offset(UtcOffset::UTC).date();
        (day.year(), u8::from(day.month()), day.day())
    });
    let told = head.iter().position(|byte| *byte == b':').map_or(&[][..], |at| &head[at + 1..]);
    let subject = names::subject(&words::text(told)).map(|subject| format!(" {subject}")).unwrap_or_default();
    NodeName::new(&format!("{uid} {:04}-{:02}-{:02}{subject}", day.0, day.1, day.2))
}

/// The number of the message whose folder is called so.
pub(super) fn uid_of(name: &NodeName) -> Option<u32> {
    let (uid, rest) = name.as_str().split_once(' ')?;
    let fits = |byte: &u8, like: &u8| if *like == b'0' { byte.is_ascii_digit() } else { byte == like };
    let day = rest.as_bytes().get(..10)?;
    let is_day = day.iter().zip(b"0000-00-00").all(|(byte, like)| fits(byte, like));
    let ends = rest.len() == 10 || rest.as_bytes()[10] == b' ';
    uid.parse().ok().filter(|number: &u32| is_day && ends && *number > 0 && number.to_string() == uid)
}

/// A message by its number, in the mailbox that is open.
pub(super) async fn fetch(session: &mut Session, uid: u32) -> Result<Option<Mail>> {
    let mut found = Ok(None);
    let told = session.run(format!("UID FETCH {uid} {ASKED}"), |answer| {
        match answer {
            Answer::Fetch(_, items) => match Mail::of(&items) {
                Ok(Some(mail)) if mail.uid == uid => found = Ok(Some(mail)),
                Ok(_) => {}
                Err(error) => found = Err(error),
            },
            Answer::BadFetch(_, why) => found = Err(bad(&why)),
            _ => {}
        }
        Ok(())
    });
    let told = told.await?;
    match found {
        Ok(None) => told.done("looking at a message", ErrorKind::PreconditionFailed).map(|_| None).or_else(gone),
        found => found,
    }
}

/// A message that is not there any more is none.
pub(super) fn gone<T>(error: Error) -> Result<Option<T>> {
    if error.kind() == ErrorKind::PreconditionFailed { Ok(None) } else { Err(error) }
}

fn bad(why: &str) -> Error {
    Error::damaged(format!("what the server tells of the message cannot be understood: {why}"))
}

/// All messages of the mailbox that is open, some at a time: by their place in it, for their numbers have holes of any size. Where one is removed
/// meanwhile, those after it move up, which the server tells between two answers.
pub(super) async fn all(session: &mut Session, mut take: impl FnMut(Mail) + Send) -> Result<Vec<(String, Error)>> {
    let mut count = session.selected.as_ref().map_or(0, |open| open.exists);
    let (mut next, mut refused) = (1, Vec::new());
    while next <= count {
        let last = count.min(next.saturating_add(RANGE - 1));
        let mut removed = Vec::new();
        let told = session.run(format!("FETCH {next}:{last} {ASKED}"), |answer| {
            match answer {
                Answer::Fetch(place, items) => match Mail::of(&items) {
                    Ok(Some(mail)) => take(mail),
                    Ok(None) => {}
                    Err(error) => refused.push((format!("message {place}"), error)),
                },
                Answer::BadFetch(place, why) => refused.push((format!("message {place}"), bad(&why))),
                Answer::Expunge(place) => removed.push(place),
                _ => {}
            }
            Ok(())
        });
        // One that was removed meanwhile is no failure of the others.
        let told = told.await?;
        if told.code("EXPUNGEISSUED").is_none() {
            told.done("listing messages", ErrorKind::Unavailable)?;
        }
        next = last + 1;
        for place in removed {
            count = count.saturating_sub(1);
            next -= u32::from(place < next);
        }
    }
    Ok(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> NodeName {
        NodeName::new(text).expect(text)
    }

    #[test]
    fn a_message_is_called_by_number_day_and_subject() {
        let at = moment(b"17-Jul-2026 23:30:00 -0700").expect("a moment");
        assert!(moment(b" 1-Jan-2026 00:00:00 +0000").is_some());
        for (head, expected) in [
            (b"Subject: Re: a/b\r\n\r\n".as_slice(), "7 2026-07-18 Re: a_b"),
            (b"Subject: =?utf-8?Q?=C3=A9?=\r\n =?utf-8?Q?t?= x\r\n\r\n", "7 2026-07-18 ét x"),
            (b"\r\n", "7 2026-07-18"),
        ] {
            let made = folder_name(7, Some(at), head).expect("a name");
            assert_eq!((made.as_str(), uid_of(&made)), (expected, Some(7)));
        }
        assert_eq!(folder_name(7, None, b"").expect("a name").as_str(), "7 0000-00-00");
    }

    #[test]
    fn other_names_are_of_no_message() {
        for other in [
            "7",
            "07 2026-01-01",
            "0 2026-01-01 x",
            "+7 2026-01-01",
            "7 2026-01-01x",
            "7 2026-1-1 x",
            "x 2026-01-01",
            "4294967296 2026-01-01",
        ] {
            assert_eq!(uid_of(&name(other)), None, "{other}");
        }
    }

    #[test]
    fn a_version_says_where_the_content_is() {
        let part = Part { number: "1.2".into(), name: name("a"), written: 780, encoding: Some(Encoding::Base64) };
        let mail = Mail { uid: 7, name: name("7 2026-01-01"), at_ns: Some(5), parts: vec![part.clone()] };
        let item = mail.item(&part, 99);
        assert_eq!((item.size, item.modified_ns, item.version.0.as_str()), (570, Some(5), "99/7/1.2/780/b"));
        let (at, written, encoding) = part_at("INBOX", &item.version).expect("a version");
        assert_eq!((at.validity, at.uid, at.number.as_str(), written, encoding), (99, 7, "1.2", 780, Encoding::Base64));
        let unknown = mail.item(&Part { encoding: None, ..part }, 99);
        assert_eq!(part_at("INBOX", &unknown.version).expect_err("unknown").kind(), ErrorKind::Unsupported);
    }
}
