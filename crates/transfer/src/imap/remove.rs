//! Removing a message, when all of its attachments were.
//!
//! The protocol can take nothing out of a message. So an attachment that is to be removed is remembered as that, and the message goes with the last of them, by its
//! own number alone (UID EXPUNGE, RFC 4315): a plain EXPUNGE would take with it whatever others have marked. What is remembered is lost with the process;
//! a later run finds the files at their destination, asks for them to be removed again, and so comes to the same end.

use super::Inner;
use super::mail::{self, Mail, PartAt};
use super::session::Session;
use holdfast_base::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};

/// Messages of which some is removed and some is not.
const HALF_MAX: usize = 100_000;

/// A message: its mailbox, the mailbox's validity, its number.
type Which = (String, u32, u32);

/// Attachments that are removed of messages that are not.
#[derive(Default)]
pub(super) struct Removed(Mutex<HashMap<Which, HashSet<String>>>);

impl Removed {
    /// Remembers one; answers whether all of the message are.
    fn add(&self, at: &PartAt, mail: &Mail) -> Result<bool> {
        let which = (at.mailbox.clone(), at.validity, at.uid);
        let mut all = self.0.lock();
        if all.len() >= HALF_MAX && !all.contains_key(&which) {
            let what = format!("more than {HALF_MAX} messages have attachments that were not moved");
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        let removed = all.entry(which).or_default();
        removed.insert(at.number.clone());
        Ok(mail.parts.iter().all(|part| removed.contains(&part.number)))
    }

    fn forget(&self, at: &PartAt) {
        self.0.lock().remove(&(at.mailbox.clone(), at.validity, at.uid));
    }
}

impl Inner {
    pub(super) async fn remove(&self, at: &PartAt) -> Result<()> {
        let mut lease = self.pool.lease(&at.mailbox).await?;
        let done = self.remove_with(lease.session(), at).await;
        lease.done();
        done
    }

    async fn remove_with(&self, session: &mut Session, at: &PartAt) -> Result<()> {
        if !session.can("UIDPLUS") && !session.can("IMAP4REV2") {
            let what =
                "the server cannot remove one message and no other (it has no UIDPLUS), so nothing is removed from it";
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        session.be_in(&at.mailbox, at.validity, true).await?;
        let Some(mail) = mail::fetch(session, at.uid).await? else {
            // It is gone: perhaps with what was asked before, whose answer was lost.
            self.removed.forget(at);
            return Ok(());
        };
        if !mail.parts.iter().any(|part| part.number == at.number) {
            return Err(Error::new(ErrorKind::PreconditionFailed, "the message is not what was listed"));
        }
        if !self.removed.add(at, &mail)? {
            return Ok(());
        }
        let uid = at.uid;
        let marked = session.ask(&format!("UID STORE {uid} +FLAGS.SILENT (\\Deleted)")).await?;
        marked.done("marking the message as deleted", ErrorKind::Forbidden)?;
        session.ask(&format!("UID EXPUNGE {uid}")).await?.done("removing the message", ErrorKind::Forbidden)?;
        self.removed.forget(at);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::structure::Part;
    use super::*;
    use holdfast_base::NodeName;

    fn at(uid: u32, number: &str) -> PartAt {
        PartAt { mailbox: "INBOX".into(), validity: 1, uid, number: number.into() }
    }

    #[test]
    fn a_message_goes_with_the_last_of_its_attachments() {
        let part = |number: &str| {
            let name = NodeName::new(number).expect("a name");
            Part { number: number.into(), name, written: 1, encoding: None }
        };
        let name = NodeName::new("7 2026-01-01").expect("a name");
        let mail = Mail { uid: 7, name, at_ns: None, parts: vec![part("2"), part("3")] };
        let removed = Removed::default();
        assert!(!removed.add(&at(7, "2"), &mail).expect("room"));
        assert!(!removed.add(&at(7, "2"), &mail).expect("room"), "the same is not another");
        assert!(!removed.add(&at(8, "3"), &mail).expect("room"), "another message is not this one");
        assert!(removed.add(&at(7, "3"), &mail).expect("room"));
        removed.forget(&at(7, "3"));
        assert!(!removed.add(&at(7, "3"), &mail).expect("room"));
    }
}
