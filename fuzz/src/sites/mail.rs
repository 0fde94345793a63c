//! What IMAP servers answer, and what senders of mails have written in them.

use holdfast_transfer::imap::answer::{Answer, parse};
use holdfast_transfer::imap::decode::{Decoder, Encoding};
use holdfast_transfer::imap::structure::attachments;
use holdfast_transfer::imap::{mailbox, names, words};
use std::collections::HashSet;

/// Answers: what is understood is no more than what came, and attachments have names of their own that lead nowhere.
pub fn imap_answers(data: &[u8]) {
    let Ok(answer) = parse(data, false) else { return };
    if let Answer::List(_, _, name) = &answer
        && let Some(read) = mailbox::decoded(&String::from_utf8_lossy(name))
    {
        assert_eq!(mailbox::decoded(&mailbox::encoded(&read)), Some(read));
    }
    let Answer::Fetch(_, items) = answer else { return };
    assert!(items.len() <= data.len());
    for (_, value) in items {
        let Ok(parts) = attachments(&value) else { continue };
        assert!(parts.len() <= data.len());
        let mut taken = HashSet::new();
        for part in parts {
            let name = part.name.as_str();
            assert!(!name.contains(['/', '\\']) && !name.starts_with('.'), "{name}");
            assert!(part.number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'));
            assert!(taken.insert(part.name.clone()), "{name} is there twice");
        }
    }
}

/// Names as mails write them, and content: text is bounded by what it was written with, and how content is cut makes no difference.
pub fn mime_names(data: &[u8]) {
    // A character of some sets becomes three bytes of UTF-8, and a byte that is none of a set U+FFFD.
    assert!(words::text(data).len() <= 3 * data.len());
    let pair = |one: &[u8]| {
        let at = one.iter().position(|byte| *byte == b'=')?;
        Some((String::from_utf8_lossy(&one[..at]).into_owned(), one[at + 1..].to_vec()))
    };
    let parameters: Vec<_> = data.split(|byte| *byte == b';').filter_map(pair).collect();
    let told = words::parameter(&parameters, "filename").unwrap_or_else(|| String::from_utf8_lossy(data).into_owned());
    if let Some(name) = names::file(&told) {
        assert!(name.len() <= 200 && !name.is_empty() && !name.starts_with('.'), "{name:?}");
        assert!(!name.contains(['/', '\\']) && !name.chars().any(char::is_control), "{name:?}");
        assert_eq!(names::file(&name).as_deref(), Some(name.as_str()), "a safe name stays as it is");
    }
    for encoding in [Encoding::Plain, Encoding::Base64, Encoding::Quoted] {
        let whole = decoded(encoding, data, data.len().max(1));
        assert!(whole.len() <= data.len());
        assert_eq!(whole, decoded(encoding, data, 7));
    }
}

fn decoded(encoding: Encoding, data: &[u8], step: usize) -> Vec<u8> {
    let (mut decoder, mut to) = (Decoder::new(encoding), Vec::new());
    for piece in data.chunks(step) {
        decoder.feed(piece, &mut to);
    }
    decoder.end(&mut to);
    to
}
