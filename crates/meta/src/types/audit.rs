//! Who did what.

use serde::{Deserialize, Serialize};

/// Longest object and detail of an entry in bytes; the rest is cut off.
pub const AUDIT_TEXT_BYTES_MAX: usize = 1_024;
/// Longest account, address, node, action and result.
const AUDIT_WORD_BYTES_MAX: usize = 128;

/// Something that somebody did, or tried to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AuditNote {
    /// When.
    pub at_ms: i64,
    /// Who: the account's name; empty if nobody was signed in.
    pub account: String,
    /// From which address.
    pub address: String,
    /// Through which node.
    pub node: String,
    /// What: `account.change`.
    pub action: String,
    /// On what: a name, a place, a number.
    pub object: String,
    /// More of it; never a secret.
    pub detail: String,
    /// `ok`, or the status of the refusal.
    pub result: String,
}

impl AuditNote {
    /// What is written of it: every text in bounds and without control characters.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        for word in [&mut self.account, &mut self.address, &mut self.node, &mut self.action, &mut self.result] {
            *word = bounded(word, AUDIT_WORD_BYTES_MAX);
        }
        for text in [&mut self.object, &mut self.detail] {
            *text = bounded(text, AUDIT_TEXT_BYTES_MAX);
        }
        self
    }
}

fn bounded(text: &str, most: usize) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    let end = (0..=most.min(clean.len())).rev().find(|&at| clean.is_char_boundary(at)).unwrap_or(0);
    clean[..end].to_owned()
}

/// An entry of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// Its number.
    pub id: i64,
    /// What it says.
    pub note: AuditNote,
}

/// Which entries, the newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditQuery {
    /// Of this account alone.
    pub account: Option<String>,
    /// Actions that begin so.
    pub action: Option<String>,
    /// From this address alone.
    pub address: Option<String>,
    /// Then or later.
    pub from_ms: Option<i64>,
    /// Before then.
    pub to_ms: Option<i64>,
    /// Only what is older than this entry: its time and number.
    pub before: Option<(i64, i64)>,
    /// Entries at most.
    pub limit: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_bounded_and_has_no_control_characters() {
        let note = AuditNote { object: "é".repeat(2_000), account: "a\nb\0".into(), ..AuditNote::default() }.bounded();
        assert_eq!((note.object.len(), note.account.as_str()), (AUDIT_TEXT_BYTES_MAX, "a\u{fffd}b\u{fffd}"));
    }
}
