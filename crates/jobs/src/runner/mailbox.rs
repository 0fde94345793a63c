//! A mailbox in which mails start a job.
//!
//! A mail starts it if it is from somebody who may, its subject has the secret word, and matches without it. Senders can be forged by anybody, so it is the
//! word that counts; whoever can read the mail on its way has it. Every mail that was looked at is marked as seen: one that starts the job
//! after its run was written down, under the mail's number, so that a kill between starts it neither twice nor never.

use crate::file::{Job, Mailbox, Set};
use crate::place::{Spot, from_file};
use holdfast_base::{Error, Result};
use holdfast_transfer::ImapSite;
use holdfast_transfer::imap::{Unseen, is_imap};
use holdfast_transfer::other::SiteUrl;
use std::time::{Duration, Instant};

/// How often it is looked at, unless the job says.
const EVERY: Duration = Duration::from_mins(1);
/// Secret words are no shorter: they can be tried by mail.
const SECRET_MIN: usize = 8;

/// A mailbox of orders, and when it was looked at.
#[derive(Default)]
pub(super) struct Mails {
    looked: Option<Instant>,
}

/// A mail that starts the job.
#[derive(Debug, Clone)]
pub(super) struct Order {
    /// Who sent it, as it says, and its number: no other has both.
    pub(super) by: String,
    id: (u32, u32),
}

impl Mails {
    /// How long until it is looked at.
    pub(super) fn left(&self, mailbox: &Mailbox) -> Duration {
        let every = mailbox.every.as_ref().map_or(EVERY, |every| every.0);
        self.looked.map_or(Duration::ZERO, |looked| every.saturating_sub(looked.elapsed()))
    }

    /// The next mail that starts the job, if it is time to look.
    pub(super) async fn look(&mut self, set: &Set, job: &Job, mailbox: &Mailbox) -> Result<Option<Order>> {
        if !self.left(mailbox).is_zero() {
            return Ok(None);
        }
        self.looked = Some(Instant::now());
        let secret = from_file(&job.folder().join(&mailbox.secret_file))?;
        if secret.expose().len() < SECRET_MIN {
            let what = format!("{}: a secret word has {SECRET_MIN} characters at least", mailbox.secret_file.display());
            return Err(Error::invalid(what));
        }
        let (site, url) = open(set, job, mailbox)?;
        for mail in site.unseen(&url.path).await? {
            if let Some(from) = fits(mailbox, &mail, secret.expose()) {
                let (validity, uid) = mail.id;
                // The next one is not kept waiting.
                self.looked = None;
                return Ok(Some(Order { by: format!("{from} {validity}/{uid}"), id: mail.id }));
            }
            tracing::warn!(job = %job.name, mail = mail.id.1, "a mail that may not start the job was passed over");
            site.mark_seen(&url.path, mail.id).await?;
        }
        Ok(None)
    }
}

/// Marks the mail of an order as seen.
pub(super) async fn seen(set: &Set, job: &Job, mailbox: &Mailbox, order: &Order) -> Result<()> {
    let (site, url) = open(set, job, mailbox)?;
    site.mark_seen(&url.path, order.id).await
}

fn open(set: &Set, job: &Job, mailbox: &Mailbox) -> Result<(ImapSite, SiteUrl)> {
    let spot = Spot::parse(&mailbox.at, set, job.folder())?;
    let url = SiteUrl::parse(&spot.address)?;
    Ok((ImapSite::new(&url, &spot.access(Some(1))?.login)?, url))
}

/// Whether a mailbox can be one.
pub(crate) fn check(set: &Set, job: &Job, mailbox: &Mailbox) -> Result<()> {
    let spot = Spot::parse(&mailbox.at, set, job.folder())?;
    if is_imap(&spot.address) && spot.site.is_some() {
        return Ok(());
    }
    Err(Error::invalid(format!("mailbox.at {:?} is no mailbox of a site whose address is imaps://", mailbox.at)))
}

/// Who sent a mail that starts the job.
fn fits(mailbox: &Mailbox, mail: &Unseen, secret: &str) -> Option<String> {
    let from =
        mail.from.as_ref().filter(|from| mailbox.from.0.iter().any(|may| may.text().eq_ignore_ascii_case(from)))?;
    let words: Vec<&str> = mail.subject.split_whitespace().collect();
    // All words are compared in whole, so that the time it takes tells nothing of the secret.
    let same = words.iter().fold(None, |at, word| if same(word, secret) { Some(*word) } else { at })?;
    let rest: Vec<&str> = words.into_iter().filter(|word| *word != same).collect();
    mailbox.subject.is_match(&rest.join(" ")).then(|| from.clone())
}

fn same(word: &str, secret: &str) -> bool {
    word.len() == secret.len() && word.bytes().zip(secret.bytes()).fold(0, |all, (one, other)| all | (one ^ other)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{Loaded, Set};

    const JOB: &str = "[sites.post]\naddress = 'imaps://u@mail.example.org'\n[jobs.j]\nfrom = 'a'\nto = 'b'\n[jobs.j.mailbox]\nat = 'post:INBOX'\nfrom = 'ann@example.org'\nsubject = '^start (now|it)$'\nsecret-file = 's'\n";

    fn read(text: &str) -> Result<Set> {
        Set::of(&[Loaded::parse("/j.toml".into(), text)?])
    }

    #[test]
    fn a_mail_starts_a_job_by_sender_secret_and_subject() {
        let set = read(JOB).expect("reads");
        let mailbox = set.job("j").expect("is there").text.mailbox.clone().expect("has one");
        let started = |from: &str, subject: &str| {
            let mail = Unseen { id: (1, 2), from: Some(from.into()), subject: subject.into() };
            fits(&mailbox, &mail, "correct-horse").is_some()
        };
        assert!(started("ann@example.org", "start now correct-horse"));
        assert!(started("ann@example.org", "correct-horse  start   it"));
        for (from, subject) in [
            ("ben@example.org", "start now correct-horse"),
            ("ann@example.org", "start now"),
            ("ann@example.org", "start now correct-horse2"),
            ("ann@example.org", "start now correct-hors"),
            ("ann@example.org", "stop correct-horse"),
            ("ann@example.org", "correct-horse"),
            ("ann@example.org", ""),
        ] {
            assert!(!started(from, subject), "{from} {subject}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_mailbox_is_told_with_its_line() {
        for (from, to, told) in [
            ("'post:INBOX'", "'nowhere:INBOX'", "sites.nowhere"),
            ("imaps://u@", "sftp://u@", "imaps://"),
            ("from = 'ann@example.org'", "from = []", "names nobody"),
            ("secret-file = 's'", "secret = 's'", "secret"),
            ("secret-file = 's'", "secret-file = 's'\nevery = '1s'", "5s"),
            ("'^start (now|it)$'", "'('", "regular expression"),
        ] {
            let error = read(&JOB.replace(from, to)).expect_err(to);
            assert!(error.message().starts_with("/j.toml:") && error.message().contains(told), "{to}: {error}");
        }
    }
}
