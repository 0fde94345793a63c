//! What fuzz targets reach and nobody else is to: readers of what authenticators and browsers hand in.

use crate::passkey::{RelyingParty, probe};
use crate::{Token, ticket};
use holdfast_meta::Ticket;
use holdfast_seal::note::NoteKey;

/// Reads a passkey's public key, and the key at the beginning of bytes: whether it is one, and how long the beginning is.
pub fn cose(bytes: &[u8]) -> (bool, Option<usize>) {
    probe::cose(bytes)
}

/// Checks the two parts of an answer to the question `ticket`; whether they fit it.
pub fn passkey_answer(party: &RelyingParty, ticket: &str, client_data: &[u8], authenticator_data: &[u8]) -> bool {
    probe::answer(party, ticket, client_data, authenticator_data)
}

/// The secret of a visit, if a text is one.
pub fn visit_secret(text: &str) -> Option<Token> {
    Token::parse_visit(text)
}

/// Seals a text as a ticket that lasts until `until_ms`.
pub fn seal_ticket(text: &str, until_ms: i64) -> Option<String> {
    ticket::seal(&key()?, text, until_ms).ok()
}

/// The text of a ticket, unless it has expired or was not sealed here.
pub fn open_ticket(ticket: &str, now_ms: i64) -> Option<String> {
    let opened: (Ticket, String) = ticket::open(&key()?, ticket, now_ms).ok()?;
    Some(opened.1)
}

fn key() -> Option<NoteKey> {
    NoteKey::new(&[7; 32], "fuzzed", &[]).ok()
}
