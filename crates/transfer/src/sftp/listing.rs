//! All members of a folder, in the server's order.

use super::failure::Status;
use super::item::{self, Sort, sort};
use super::session::{Handle, Session};
use super::wire::{Ask, Attrs, Entry, Reply, code};
use crate::other::MEMBERS_MAX;
use crate::part;
use crate::signs;
use crate::site::Item;
use futures_util::{StreamExt, stream};
use holdfast_base::{Error, ErrorKind, NodeName, Result};
use std::collections::VecDeque;
use std::sync::Arc;

/// Requests for members that are under way at once: each is some 100 of them.
const AHEAD: usize = 4;
/// Questions about single members that are under way at once.
const QUESTIONS: usize = 32;
/// Refusals that are told, beside a count of the rest.
const REFUSED_MAX: usize = 512;

/// What is in a folder.
#[derive(Debug, Default)]
pub(super) struct All {
    pub(super) items: Vec<Item>,
    pub(super) refused: Vec<(String, Error)>,
    /// Part files of transfers.
    pub(super) parts: Vec<String>,
    unsaid: usize,
}

/// Lists a folder.
pub(super) async fn list(session: &Arc<Session>, folder: &str) -> Result<All> {
    let at = |status: Status| status.error("listing", folder);
    let handle = session.open_folder(folder).await?.map_err(at)?;
    let (mut all, mut unclear) = (All::default(), Vec::new());
    read(&handle, folder, |entry| all.sort_in(entry, &mut unclear)).await?;
    let questions = stream::iter(unclear).map(|(name, attrs)| async move {
        let path = format!("{}/{name}", folder.trim_end_matches('/'));
        let told = ask(session, &path, name.clone(), attrs).await;
        (name, told)
    });
    let mut answers = questions.buffer_unordered(QUESTIONS);
    let signs = signs::current();
    while let Some((name, told)) = answers.next().await {
        signs.alive();
        match told {
            Ok(item) => all.items.push(item),
            Err(error) if error.is_temporary() => return Err(error),
            // Somebody removed it meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => all.refuse(name.to_string(), error),
        }
    }
    if all.unsaid > 0 {
        let why = format!("{} more names of this folder cannot be moved", all.unsaid);
        all.refused.push(("…".into(), Error::invalid(why)));
    }
    Ok(all)
}

/// Part files in a folder.
pub(super) async fn parts(session: &Arc<Session>, folder: &str) -> Result<Vec<String>> {
    let handle = session.open_folder(folder).await?.map_err(|status| status.error("listing", folder))?;
    let mut parts = Vec::new();
    read(&handle, folder, |entry| {
        parts.extend(std::str::from_utf8(&entry.name).ok().filter(|name| part::is_part(name)).map(str::to_owned));
    })
    .await?;
    Ok(parts)
}

async fn ask(session: &Session, path: &str, name: NodeName, attrs: Attrs) -> Result<Item> {
    if sort(&attrs) == Sort::Link {
        return item::found(session, path, name, &attrs).await;
    }
    let attrs = session.look(path).await?.map_err(|status| status.error("looking at", path))?;
    item::found(session, path, name, &attrs).await
}

/// Reads members until there are no more, asking ahead.
async fn read(handle: &Handle, folder: &str, mut take: impl FnMut(Entry)) -> Result<()> {
    let (mut asked, mut count, signs) = (VecDeque::new(), 0, signs::current());
    loop {
        while asked.len() < AHEAD {
            asked.push_back(handle.session.send(handle.request(Ask::ReadFolder)).await?);
        }
        let Some(next) = asked.pop_front() else { return Ok(()) };
        match next.reply().await? {
            Reply::Names(entries) if !entries.is_empty() => {
                count += entries.len();
                if count > MEMBERS_MAX {
                    return Err(Error::new(
                        ErrorKind::TooLarge,
                        format!("{folder} has more than {MEMBERS_MAX} members"),
                    ));
                }
                entries.into_iter().for_each(&mut take);
            }
            Reply::Names(_) | Reply::Status { code: code::EOF, .. } => return Ok(()),
            other => return Err(Status::of(other)?.error("listing", folder)),
        }
        signs.alive();
    }
}

impl All {
    fn sort_in(&mut self, Entry { name, attrs }: Entry, unclear: &mut Vec<(NodeName, Attrs)>) {
        if matches!(&name[..], b"." | b"..") {
            return;
        }
        let Ok(text) = std::str::from_utf8(&name) else {
            let shown = String::from_utf8_lossy(&name).into_owned();
            return self.refuse(shown, Error::invalid("its name is not UTF-8, and cannot be moved"));
        };
        if part::is_part(text) {
            return self.parts.push(text.to_owned());
        }
        match NodeName::new(text) {
            Err(error) => self.refuse(text.chars().filter(|c| !c.is_control()).collect(), error),
            Ok(name) if attrs.permissions.is_none() || sort(&attrs) == Sort::Link => unclear.push((name, attrs)),
            Ok(name) => match item::plain(name, &attrs) {
                Ok(item) => self.items.push(item),
                Err(error) => self.refuse(text.to_owned(), error),
            },
        }
    }

    fn refuse(&mut self, shown: String, error: Error) {
        if self.refused.len() < REFUSED_MAX {
            self.refused.push((shown, error));
        } else {
            self.unsaid += 1;
        }
    }
}
