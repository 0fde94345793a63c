//! A name in a folder of the server where something is put, and putting it there: in one step, where the server can.

use super::failure::{Status, full};
use super::item::{self, Sort, sort};
use super::session::{Handle, Session};
use super::wire::{Ask, Attrs, OPEN_CREATE, OPEN_READ, OPEN_WRITE, Request};
use crate::part::PartName;
use crate::site::{Item, Kind};
use holdfast_base::{Error, ErrorKind, NodeName, Result};
use std::sync::Arc;

/// Opening fails if something is there, links included.
const OPEN_NEW: u32 = 0x20;
/// Permissions of a part while it is written: those of the file come at its end.
const PART_MODE: u32 = 0o600;
/// With less than this left, a disk is full, since servers do not say it.
const SPACE_LEAST: u64 = 1 << 20;

/// A name in a folder that was looked at.
pub(super) struct Place {
    pub(super) session: Arc<Session>,
    folder: String,
    pub(super) name: NodeName,
}

impl Place {
    pub(super) fn new(session: Arc<Session>, folder: &str, name: NodeName) -> Self {
        Self { session, folder: folder.trim_end_matches('/').to_owned(), name }
    }

    pub(super) fn path(&self) -> String {
        self.beside(self.name.as_str())
    }

    /// The path of another name in the same folder.
    pub(super) fn beside(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    /// What is there.
    pub(super) async fn look(&self) -> Result<Option<Item>> {
        let path = self.path();
        match self.session.look(&path).await? {
            Ok(attrs) => item::found(&self.session, &path, self.name.clone(), &attrs).await.map(Some),
            Err(status) if status.is_missing() => Ok(None),
            Err(status) => Err(status.error("looking at", path)),
        }
    }

    /// Refuses if anything else is there than what was listed.
    pub(super) async fn check(&self, listed: Option<&Item>) -> Result<()> {
        let there = self.look().await?;
        let of = |kind, what: &str| Err(Error::new(kind, format!("{} {what}", self.path())));
        match (&there, listed) {
            (None, None) => Ok(()),
            (Some(Item { kind: Kind::Folder, .. }), _) => of(ErrorKind::WrongKind, "is a folder"),
            (Some(there), Some(listed)) if there.version == listed.version && there.kind == listed.kind => Ok(()),
            (Some(_), None) => of(ErrorKind::PreconditionFailed, "was made by somebody else meanwhile"),
            _ => of(ErrorKind::PreconditionFailed, "was changed by somebody else meanwhile"),
        }
    }

    /// Gives what is at `made` this name, in place of what was listed or of nothing.
    pub(super) async fn put(&self, made: &str, replaces: Option<&Item>) -> Result<()> {
        self.check(replaces).await?;
        let to = self.path();
        if replaces.is_none() {
            // The draft's renaming replaces nothing.
            return match self.session.tell(renaming(made, &to)).await? {
                Ok(()) => Ok(()),
                Err(status) => Err(self.not_named(status, made).await),
            };
        }
        if self.session.can.replace {
            let request = Request::extended("posix-rename@openssh.com").bytes(made.as_bytes()).bytes(to.as_bytes());
            return match self.session.tell(request).await? {
                Ok(()) => Ok(()),
                Err(status) => Err(self.not_named(status, made).await),
            };
        }
        self.swap(made, &to).await
    }

    /// Replaces where the server cannot do it in one step: what is there goes aside first, and comes back if the new cannot take its place.
    async fn swap(&self, made: &str, to: &str) -> Result<()> {
        let aside = self.beside(&PartName::new(&self.name, "aside").part());
        // One that stayed of an earlier try was replaced, or is there no more.
        self.unlink(&aside).await;
        if let Err(status) = self.session.tell(renaming(to, &aside)).await? {
            return Err(status.error("replacing", to));
        }
        if let Err(status) = self.session.tell(renaming(made, to)).await? {
            let error = self.not_named(status, made).await;
            if let Err(status) = self.session.tell(renaming(&aside, to)).await? {
                return Err(status.error("bringing back, from beside it,", to));
            }
            return Err(error);
        }
        self.unlink(&aside).await;
        Ok(())
    }

    /// Why something did not get its name.
    async fn not_named(&self, status: Status, made: &str) -> Error {
        let gone = |looked: Result<Result<Attrs, Status>>| matches!(looked, Ok(Err(status)) if status.is_missing());
        if gone(self.session.look(made).await) {
            return Error::unavailable(format!("{}: another transfer finished or removed its part", self.path()));
        }
        if matches!(self.session.look(&self.path()).await, Ok(Ok(_))) && status.is_unclear() {
            let what = format!("{} was made by somebody else meanwhile", self.path());
            return Error::new(ErrorKind::PreconditionFailed, what);
        }
        self.failed("naming", status).await
    }

    /// Removes a file of ours; one that is gone is as good, and one that stays is found by the next transfer.
    pub(super) async fn unlink(&self, path: &str) {
        match self.session.tell(Request::new(Ask::Remove).bytes(path.as_bytes())).await {
            Ok(Err(status)) if !status.is_missing() => tracing::debug!(?status, path, "a file of a transfer was left"),
            Err(error) => tracing::debug!(%error, path, "a file of a transfer was left"),
            _ => {}
        }
    }

    /// Opens a file of ours, with how much of it is there, or makes it. Links are not followed: what is no file is removed first.
    pub(super) async fn open_ours(&self, path: &str, with_mode: bool) -> Result<(Handle, u64)> {
        let permissions = with_mode.then_some(PART_MODE);
        let fresh = Attrs { permissions, ..Attrs::default() };
        match self.session.look(path).await? {
            Ok(attrs) if sort(&attrs) == Sort::File => {
                let opened = self.session.open(path, OPEN_READ | OPEN_WRITE, &Attrs::default()).await?;
                return match opened {
                    Ok(handle) => Ok((handle, attrs.size.unwrap_or(0))),
                    Err(status) => Err(self.failed("opening the part of", status).await),
                };
            }
            Ok(_) => self.unlink(path).await,
            Err(status) if status.is_missing() => {}
            Err(status) => return Err(status.error("looking at", path)),
        }
        match self.session.open(path, OPEN_READ | OPEN_WRITE | OPEN_CREATE | OPEN_NEW, &fresh).await? {
            Ok(handle) => Ok((handle, 0)),
            Err(status) => Err(self.failed("making a part file for", status).await),
        }
    }

    /// Makes a file of ours anew.
    pub(super) async fn make_ours(&self, path: &str, with_mode: bool) -> Result<Handle> {
        let fresh = Attrs { permissions: with_mode.then_some(PART_MODE), ..Attrs::default() };
        let how = OPEN_READ | OPEN_WRITE | OPEN_CREATE | OPEN_NEW;
        if let Ok(handle) = self.session.open(path, how, &fresh).await? {
            return Ok(handle);
        }
        self.unlink(path).await;
        match self.session.open(path, how, &fresh).await? {
            Ok(handle) => Ok(handle),
            Err(status) => Err(self.failed("making a part file for", status).await),
        }
    }

    /// The error of what went wrong here. A full disk is found out by asking how much is left.
    pub(super) async fn failed(&self, doing: &str, status: Status) -> Error {
        let folder = if self.folder.is_empty() { "/" } else { &self.folder };
        if status.is_unclear() && self.session.space_at(folder).await.is_some_and(|left| left < SPACE_LEAST) {
            return full(doing, self.path());
        }
        status.error(doing, self.path())
    }
}

fn renaming(from: &str, to: &str) -> Request {
    Request::new(Ask::Rename).bytes(from.as_bytes()).bytes(to.as_bytes())
}
