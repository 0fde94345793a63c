//! Messages that nobody has seen: who sent them, as they say, and what they are about. For those who are told things by mail.

use super::answer::{Answer, Value};
use super::mail::uid_of_items;
use super::session::Session;
use super::{ImapSite, words};
use crate::imap::mailbox;
use holdfast_base::{DrivePath, Error, ErrorKind, Result};

/// Messages that are told at a time, the oldest first: the others have their turn when those were seen.
const UNSEEN_MAX: usize = 100;
/// What is asked of a message: senders and subjects are cut, and a name in front of an address with them.
const ASKED: &str = "(UID BODY.PEEK[HEADER.FIELDS (FROM SUBJECT)]<0.4000>)";

/// A message that nobody has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unseen {
    /// What no other message of the mailbox ever has: the mailbox's UIDVALIDITY, and the message's UID.
    pub id: (u32, u32),
    /// The address it says that it is from, in small letters; none if it says none, or several.
    pub from: Option<String>,
    /// What it is about.
    pub subject: String,
}

impl ImapSite {
    /// The oldest messages of a mailbox that nobody has seen; they stay so.
    pub async fn unseen(&self, path: &DrivePath) -> Result<Vec<Unseen>> {
        let mailbox = self.mailbox(path).await?;
        let mut lease = self.inner.pool.lease(&mailbox).await?;
        let found = unseen(lease.session(), &mailbox).await;
        lease.done();
        found
    }

    /// Marks a message as seen. One that is gone is no matter.
    pub async fn mark_seen(&self, path: &DrivePath, (validity, uid): (u32, u32)) -> Result<()> {
        let mailbox = self.mailbox(path).await?;
        let mut lease = self.inner.pool.lease(&mailbox).await?;
        let session = lease.session();
        let marked = async {
            session.be_in(&mailbox, validity, true).await?;
            let told = session.ask(&format!("UID STORE {uid} +FLAGS.SILENT (\\Seen)")).await?;
            told.done("marking the message as seen", ErrorKind::Forbidden).map(drop)
        };
        let marked = marked.await;
        lease.done();
        marked
    }

    async fn mailbox(&self, path: &DrivePath) -> Result<String> {
        let delimiter = *self.inner.delimiter.get_or_try_init(|| self.inner.ask_delimiter()).await?;
        let name = mailbox::on_line(path.names(), delimiter).filter(|_| !path.is_root());
        name.ok_or_else(|| Error::invalid(format!("{path} is no mailbox of the server: write INBOX, or its path")))
    }
}

async fn unseen(session: &mut Session, mailbox: &str) -> Result<Vec<Unseen>> {
    // Opened anew, so that what came meanwhile is among them.
    let validity = session.select(mailbox, false).await?.validity;
    let mut uids = Vec::new();
    let told = session.run("UID SEARCH UNSEEN".to_owned(), |answer| {
        if let Answer::Search(found) = answer {
            uids.extend(found);
        }
        Ok(())
    });
    told.await?.done("looking for messages", ErrorKind::Unsupported)?;
    uids.sort_unstable();
    uids.truncate(UNSEEN_MAX);
    if uids.is_empty() {
        return Ok(Vec::new());
    }
    let list: Vec<String> = uids.iter().map(u32::to_string).collect();
    let mut found = Vec::new();
    let told = session.run(format!("UID FETCH {} {ASKED}", list.join(",")), |answer| {
        if let Answer::Fetch(_, items) = answer
            && let Some(uid) = uid_of_items(&items).filter(|uid| uids.contains(uid))
        {
            let head = items.iter().find(|(name, _)| name.starts_with("BODY[HEADER.FIELDS"));
            let head = head.and_then(|(_, value)| Value::text(value)).unwrap_or_default();
            let (from, subject) = read(head);
            found.push(Unseen { id: (validity, uid), from, subject });
        }
        Ok(())
    });
    told.await?.done("looking at messages", ErrorKind::Unavailable)?;
    found.sort_unstable_by_key(|message| message.id);
    Ok(found)
}

/// Sender and subject out of the lines of a head (RFC 5322 section 2.2).
fn read(head: &[u8]) -> (Option<String>, String) {
    let (mut senders, mut subject) = (Vec::new(), String::new());
    for line in unfolded(head) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (line[..colon].trim_ascii(), &line[colon + 1..]);
        if name.eq_ignore_ascii_case(b"from") {
            senders.push(sender(value));
        } else if name.eq_ignore_ascii_case(b"subject") && subject.is_empty() {
            words::text(value).trim().clone_into(&mut subject);
        }
    }
    let from = match &mut senders[..] {
        [one] => one.take(),
        _ => None,
    };
    (from, subject)
}

/// Lines, with those that go on after a break put together.
fn unfolded(head: &[u8]) -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = Vec::new();
    for line in head.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match lines.last_mut() {
            Some(last) if line.starts_with(b" ") || line.starts_with(b"\t") => last.extend(line),
            _ => lines.push(line.to_vec()),
        }
    }
    lines
}

/// The one address of a sender, alone or between angle brackets after a name; a name in quotes may have anything in it.
fn sender(value: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(value);
    let (mut plain, mut quoted, mut escaped) = (String::new(), false, false);
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            c if !quoted => plain.push(c),
            _ => {}
        }
    }
    let address = match plain.split_once('<') {
        Some((_, rest)) => rest.strip_suffix('>').or_else(|| rest.trim_end().strip_suffix('>'))?,
        None => &plain,
    };
    let address = address.trim();
    let fits = address.matches('@').count() == 1 && !address.contains([' ', ',', ';', '<', '>', '(', ')']);
    (fits && !quoted).then(|| address.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_is_one_address_and_nothing_that_looks_like_two() {
        for (value, expected) in [
            (" Ann@Example.org", Some("ann@example.org")),
            (" Ann <ann@example.org>", Some("ann@example.org")),
            (" \"evil@x, <b@c>\" <ann@example.org> ", Some("ann@example.org")),
            (" ann@example.org, ben@example.org", None),
            (" <ann@example.org>, <ben@example.org>", None),
            (" ann@example.org <ben@example.org", None),
            (" \"ann@example.org", None),
            (" ann", None),
            ("", None),
        ] {
            assert_eq!(sender(value.as_bytes()).as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn heads_are_read_with_folded_lines_and_encoded_words() {
        let head = b"Subject: =?utf-8?Q?gr=C3=BC?=\r\n =?utf-8?Q?n?= now\r\nFrom: Ann\r\n\t<ann@example.org>\r\n\r\n";
        assert_eq!(read(head), (Some("ann@example.org".into()), "gr\u{fc}n now".into()));
        let two = b"From: a@x.org\r\nFrom: b@x.org\r\nSubject: one\r\nSubject: two\r\n";
        assert_eq!(read(two), (None, "one".into()));
        assert_eq!(read(b""), (None, String::new()));
    }
}
