//! A folder that orders are put into.
//!
//! An order is a list of names below what the job moves, one a line, or, if its name ends in `.toml`, [an order](Order) that says more. It is
//! taken when it stayed as it is from one look to the next, by renaming it into `working/`, so that a kill leaves it where the next start finds it;
//! what was done is moved to `done/`, and what failed to `failed/`, with a text of the same name and `.errors` that says why. Names that begin with a
//! dot, or end in `.part` or `.tmp`, are orders that are being written.

use crate::carry::{Order, lines};
use holdfast_base::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Largest order.
const ORDER_BYTES_MAX: u64 = 1 << 20;
/// Orders that are looked at at a time; the others have their turn when those are done.
const ORDERS_MAX: usize = 1_000;
/// Numbers that are tried for a name that is taken.
const NUMBERS_MAX: u32 = 10_000;

/// A folder of orders.
pub(super) struct Inbox {
    folder: PathBuf,
    /// As they were at the last look.
    seen: HashMap<String, (u64, Option<SystemTime>)>,
}

/// An order that is being done.
#[derive(Debug)]
pub(super) struct Taken {
    folder: PathBuf,
    name: String,
}

impl Inbox {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, seen: HashMap::new() }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Takes the next order; one that cannot be read goes to those that failed.
    pub(super) fn take(&mut self) -> Result<Option<(Taken, Order)>> {
        for folder in ["working", "done", "failed"] {
            let path = self.folder.join(folder);
            fs::create_dir_all(&path).map_err(|error| Error::from(error).context(path.display()))?;
        }
        let working = names(&self.folder.join("working"))?.into_iter().map(|(name, ..)| name).next();
        let name = match working {
            Some(name) => name,
            None => match self.settled()? {
                Some(name) => {
                    let (from, to) = (self.folder.join(&name), self.folder.join("working").join(&name));
                    fs::rename(&from, &to).map_err(|error| Error::from(error).context(from.display()))?;
                    sync(&self.folder)?;
                    sync(&self.folder.join("working"))?;
                    name
                }
                None => return Ok(None),
            },
        };
        let taken = Taken { folder: self.folder.clone(), name };
        match taken.read() {
            Ok(order) => Ok(Some((taken, order))),
            Err(error) if error.kind() == ErrorKind::Unavailable => Err(error),
            Err(error) => taken.finish(false, &[error.message().to_owned()]).map(|()| None),
        }
    }

    /// The first order that is as it was at the last look.
    fn settled(&mut self) -> Result<Option<String>> {
        let now = names(&self.folder)?;
        let settled = now.iter().find(|(name, size, time)| self.seen.get(name) == Some(&(*size, *time)));
        let settled = settled.map(|(name, ..)| name.clone());
        self.seen = now.into_iter().map(|(name, size, time)| (name, (size, time))).collect();
        Ok(settled)
    }
}

/// Files of a folder that may be orders, in order of name.
fn names(folder: &Path) -> Result<Vec<(String, u64, Option<SystemTime>)>> {
    let about = |error: std::io::Error| Error::from(error).context(folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(about)? {
        let entry = entry.map_err(about)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let ending = Path::new(&name).extension().unwrap_or_default();
        let unfinished = name.starts_with('.') || ["part", "tmp", "errors"].iter().any(|kind| ending == *kind);
        // What was taken away meanwhile is no order.
        let Ok(data) = entry.metadata() else { continue };
        if data.is_file() && !unfinished {
            names.push((name, data.len(), data.modified().ok()));
        }
        if names.len() == ORDERS_MAX {
            break;
        }
    }
    names.sort();
    Ok(names)
}

fn sync(folder: &Path) -> Result<()> {
    fs::File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|error| Error::from(error).context(folder.display()))
}

impl Taken {
    fn path(&self) -> PathBuf {
        self.folder.join("working").join(&self.name)
    }

    fn read(&self) -> Result<Order> {
        let about = |error: std::io::Error| Error::from(error).context(self.path().display());
        let mut text = Vec::new();
        fs::File::open(self.path()).map_err(about)?.take(ORDER_BYTES_MAX + 1).read_to_end(&mut text).map_err(about)?;
        if text.len() as u64 > ORDER_BYTES_MAX {
            return Err(Error::new(ErrorKind::TooLarge, format!("an order has {ORDER_BYTES_MAX} bytes at most")));
        }
        if self.path().extension().is_some_and(|ending| ending == "toml") {
            let text = std::str::from_utf8(&text).map_err(|_| Error::invalid("it is not UTF-8"))?;
            return toml::from_str(text).map_err(|error| {
                let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
                Error::invalid(format!("line {line}: {}", error.message()))
            });
        }
        let names = lines(&text)?;
        if names.is_empty() {
            return Err(Error::invalid("there is no name in it"));
        }
        Ok(Order { names: Some(names), ..Order::default() })
    }

    /// Puts the order away.
    pub(super) fn finish(self, whole: bool, errors: &[String]) -> Result<()> {
        let folder = self.folder.join(if whole { "done" } else { "failed" });
        let name = free(&folder, &self.name)?;
        let about = |error: std::io::Error| Error::from(error).context(folder.join(&name).display());
        if !whole {
            let mut file = fs::File::create(folder.join(format!("{name}.errors"))).map_err(about)?;
            errors.iter().try_for_each(|error| writeln!(file, "{error}")).map_err(about)?;
            file.sync_all().map_err(about)?;
        }
        fs::rename(self.path(), folder.join(&name)).map_err(about)?;
        sync(&folder)?;
        sync(&self.folder.join("working"))
    }
}

/// A name that is not taken.
fn free(folder: &Path, name: &str) -> Result<String> {
    let numbered = (2..NUMBERS_MAX).map(|number| format!("{name}.{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    let free = names.find(|name| folder.join(name).symlink_metadata().is_err());
    free.ok_or_else(|| {
        Error::conflict(format!("{} has {NUMBERS_MAX} orders of the name {name}: clear it", folder.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_taken_when_nobody_writes_it_any_more_and_a_second_start_finds_it_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut inbox = Inbox::new(folder.path().join("in"));
        assert!(inbox.take().expect("looks").is_none());
        fs::write(folder.path().join("in/a"), "x\n").expect("writes");
        assert!(inbox.take().expect("looks").is_none(), "seen for the first time");
        fs::write(folder.path().join("in/a"), "x/y\n# no\n\nz\n").expect("writes");
        assert!(inbox.take().expect("looks").is_none(), "it grows");
        let (_, order) = inbox.take().expect("looks").expect("is taken");
        assert_eq!(order.names, Some(vec!["x/y".to_owned(), "z".into()]));
        let (taken, _) = Inbox::new(folder.path().join("in")).take().expect("looks").expect("is found");
        taken.finish(true, &[]).expect("moves");
        assert!(folder.path().join("in/done/a").exists() && !folder.path().join("in/working/a").exists());
    }

    #[test]
    fn an_order_that_cannot_be_understood_fails_with_the_reason_and_nothing_is_overwritten() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut inbox = Inbox::new(folder.path().to_owned());
        for _ in 0..2 {
            fs::write(folder.path().join("b.toml"), "names = ['a']\nto = '/etc'\n").expect("writes");
            inbox.seen.clear();
            assert!(inbox.take().expect("looks").is_none() && inbox.take().expect("looks").is_none());
        }
        let said = fs::read_to_string(folder.path().join("failed/b.toml.errors")).expect("is there");
        assert!(said.contains("line 2") && said.contains("`to`"), "{said}");
        assert!(folder.path().join("failed/b.toml.2").exists());
    }
}
