//! Mailboxes and their names: UTF-7 in a form of its own on the line (RFC 3501 section 5.1.3), with something between the names of a path.

use super::answer::Answer;
use super::session::{Session, quoted};
use base64::Engine;
use base64::alphabet::IMAP_MUTF7;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::NO_PAD;
use holdfast_base::{Error, ErrorKind, NodeName, Result};

const BASE64: GeneralPurpose = GeneralPurpose::new(&IMAP_MUTF7, NO_PAD);
/// The mailbox that every account has, in whatever letters it is written.
const INBOX: &str = "INBOX";

/// A name as it is on the line.
pub fn encoded(name: &str) -> String {
    let (mut line, mut other) = (String::new(), Vec::new());
    let flush = |line: &mut String, other: &mut Vec<u8>| {
        if !other.is_empty() {
            line.push('&');
            BASE64.encode_string(std::mem::take(other), line);
            line.push('-');
        }
    };
    for c in name.chars() {
        if matches!(c, ' '..='~') {
            flush(&mut line, &mut other);
            line.push(c);
            if c == '&' {
                line.push('-');
            }
        } else {
            let mut units = [0; 2];
            other.extend(c.encode_utf16(&mut units).iter().flat_map(|unit| unit.to_be_bytes()));
        }
    }
    flush(&mut line, &mut other);
    line
}

/// A name from the line; none if it is not written as names are.
pub fn decoded(line: &str) -> Option<String> {
    let (mut name, mut rest) = (String::new(), line);
    while let Some((plain, from)) = rest.split_once('&') {
        let (coded, after) = from.split_once('-')?;
        name.push_str(plain);
        if coded.is_empty() {
            name.push('&');
        } else {
            let bytes = BASE64.decode(coded).ok()?;
            let units: Vec<u16> = bytes.chunks_exact(2).map(|two| u16::from_be_bytes([two[0], two[1]])).collect();
            name.push_str(&String::from_utf16(&units).ok().filter(|_| bytes.len() % 2 == 0)?);
        }
        rest = after;
    }
    name.push_str(rest);
    // What is written in another way would be another mailbox.
    (encoded(&name) == line).then_some(name)
}

/// A path as it is on the line; none if it cannot be one of this server's.
pub(super) fn on_line(names: &[NodeName], delimiter: Option<char>) -> Option<String> {
    let inside = |name: &NodeName| delimiter.is_some_and(|delimiter| name.as_str().contains(delimiter));
    if names.iter().any(inside) || (delimiter.is_none() && names.len() > 1) {
        return None;
    }
    let mut line = Vec::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        let is_inbox = index == 0 && name.as_str().eq_ignore_ascii_case(INBOX);
        line.push(if is_inbox { INBOX.to_owned() } else { encoded(name.as_str()) });
    }
    Some(line.join(&delimiter.map(String::from).unwrap_or_default()))
}

/// Mailboxes of a folder: their names, and those that cannot be carried.
type Mailboxes = (Vec<NodeName>, Vec<(String, Error)>);

/// Mailboxes in another one, or those that are in none.
pub(super) async fn within(session: &mut Session, above: Option<&str>) -> Result<Mailboxes> {
    let prefix = match (above, session.delimiter) {
        (None, _) => String::new(),
        (Some(_), None) => return Ok(Mailboxes::default()),
        (Some(above), Some(delimiter)) => format!("{above}{delimiter}"),
    };
    let (mut found, mut refused) = Mailboxes::default();
    let delimiter = session.delimiter;
    for line in listed(session, &format!("{prefix}%")).await?.into_iter().map(|(_, line)| line) {
        let Some(last) = line.strip_prefix(&prefix).filter(|last| !last.is_empty()) else { continue };
        // Some say a path's delimiter at its end.
        let last = delimiter.and_then(|delimiter| last.strip_suffix(delimiter)).unwrap_or(last);
        if delimiter.is_some_and(|delimiter| last.contains(delimiter)) {
            continue;
        }
        let name = decoded(last).ok_or_else(|| Error::invalid("the mailbox's name is not written as names are"));
        match name.and_then(|name| NodeName::new(&name)) {
            Ok(name) if super::mail::uid_of(&name).is_some() => {
                let what = "the mailbox is called as folders of messages are here";
                refused.push((name.to_string(), Error::new(ErrorKind::WrongKind, what)));
            }
            Ok(name) => found.push(name),
            Err(error) => refused.push((last.to_owned(), error)),
        }
    }
    Ok((found, refused))
}

/// Whether a mailbox is there, and if so, whether messages can be in it.
pub(super) async fn look(session: &mut Session, mailbox: &str) -> Result<Option<bool>> {
    let found = listed(session, mailbox).await?;
    let is_it = |line: &str| line == mailbox || (mailbox == INBOX && line.eq_ignore_ascii_case(INBOX));
    let flags = found.into_iter().find(|(_, line)| is_it(line)).map(|(flags, _)| flags);
    let holds = |flags: Vec<String>| !flags.iter().any(|flag| flag == "\\noselect" || flag == "\\nonexistent");
    Ok(flags.map(holds))
}

async fn listed(session: &mut Session, pattern: &str) -> Result<Vec<(Vec<String>, String)>> {
    let mut found = Vec::new();
    let told = session.run(format!("LIST \"\" {}", quoted(pattern)), |answer| {
        if let Answer::List(flags, _, name) = answer {
            found.push((flags, String::from_utf8_lossy(&name).into_owned()));
        }
        if found.len() > crate::other::MEMBERS_MAX {
            return Err(Error::new(ErrorKind::TooLarge, "there are too many mailboxes"));
        }
        Ok(())
    });
    told.await?.done("listing mailboxes", ErrorKind::Forbidden)?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(all: &[&str]) -> Vec<NodeName> {
        all.iter().map(|name| NodeName::new(name).expect(name)).collect()
    }

    #[test]
    fn names_are_written_as_the_protocol_has_them() {
        for (name, line) in [
            ("INBOX", "INBOX"),
            ("a & b", "a &- b"),
            ("Entwürfe", "Entw&APw-rfe"),
            ("台北日本語", "&U,BTF2XlZyyKng-"),
            ("😀", "&2D3eAA-"),
        ] {
            assert_eq!((encoded(name).as_str(), decoded(line).as_deref()), (line, Some(name)));
        }
        for bad in ["&", "&A-", "&2D0-", "&AGE-", "ü", "&APw-&APw-"] {
            assert_eq!(decoded(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_path_is_joined_with_what_the_server_has_between_names() {
        assert_eq!(on_line(&names(&["inbox", "Ü"]), Some('.')).as_deref(), Some("INBOX.&ANw-"));
        assert_eq!(on_line(&names(&["a.b"]), Some('.')), None);
        assert_eq!(on_line(&names(&["a", "b"]), None), None);
    }

    proptest! {
        #[test]
        fn names_read_back(name: String) {
            prop_assert_eq!(decoded(&encoded(&name)), Some(name));
        }
    }
}
