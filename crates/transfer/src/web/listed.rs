//! Files of web servers by a list of them: `web-list:PATH-or-URL`, `metalink:PATH-or-URL`.
//!
//! A file with a sum may come from any of its mirrors, of each part from another one: the sum tells whether it is whole. One without comes from the first
//! alone, whose versions count.

use super::client::Client;
use super::digests::strongest;
use super::file::File;
use super::fixed::{self, Files};
use super::{Shelf, read_list};
use crate::site::{Content, Item, Kind, Listed, Version};
use crate::sum::Sum;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{ByteRange, DrivePath, Error, ErrorKind, NodeName, Result};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::OnceCell;

/// Members that are told, and asked for, at a time.
const PAGE: usize = 128;
const ASKED: usize = 16;
/// Parts that are asked for side by side.
const AHEAD: usize = 8;

/// Files by folder and name; none is a folder.
type Tree = BTreeMap<DrivePath, BTreeMap<NodeName, Option<fixed::Listed>>>;

/// The files of a list.
pub(super) struct Fixed {
    pub(super) client: Arc<Client>,
    pub(super) run: Arc<str>,
    address: String,
    tree: Tree,
}

impl Fixed {
    /// Reads the list at an address or path.
    pub(super) async fn read(kind: &str, at: &str, client: Client, run: Arc<str>) -> Result<Self> {
        let (text, url) = read_list(&client, at).await?;
        let files = if kind == "metalink" { fixed::metalink(&text)? } else { fixed::list(&text, url.as_ref())? };
        let tree = tree(files)?;
        // What a list's address asks for may be a secret.
        let address = format!("{kind}:{}", at.split('?').next().unwrap_or(at));
        Ok(Self { client: Arc::new(client), run, address, tree })
    }

    fn mirrors(&self, file: &fixed::Listed) -> Vec<File> {
        let count = if strongest(&file.sums).is_some() { file.mirrors.len() } else { 1 };
        let urls = file.mirrors.iter().take(count);
        urls.map(|url| File { client: Arc::clone(&self.client), url: url.clone(), run: Arc::clone(&self.run) })
            .collect()
    }

    /// What the first mirror says that has a file.
    async fn item(&self, name: &NodeName, file: &fixed::Listed) -> Result<Item> {
        let mut why = Error::not_found("no server has it");
        for mirror in self.mirrors(file) {
            match mirror.ask().await {
                Ok(Some(told)) if file.size.is_none_or(|size| size == told.size) => {
                    let item = mirror.item(name.clone(), &told);
                    let sum = strongest(&file.sums).map(|sum| Version(format!("{:?} {}", sum, told.size)));
                    return Ok(Item { version: sum.unwrap_or(item.version.clone()), ..item });
                }
                Ok(Some(told)) => {
                    why =
                        Error::conflict(format!("{} has {} bytes, and the list says otherwise", mirror.url, told.size));
                }
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::Unauthenticated => return Err(error),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    async fn member<'n>(&'n self, name: &'n NodeName, file: Option<&'n fixed::Listed>) -> (&'n NodeName, Result<Item>) {
        let item = match file {
            Some(file) => self.item(name, file).await,
            None => Ok(folder(name.clone())),
        };
        (name, item)
    }

    fn find(&self, path: &DrivePath) -> Option<&fixed::Listed> {
        self.tree.get(&path.parent()?)?.get(path.name()?)?.as_ref()
    }
}

fn tree(files: Files) -> Result<Tree> {
    let mut tree = Tree::from([(DrivePath::root(), BTreeMap::new())]);
    for (path, file) in files {
        let mut at = path;
        let mut entry = Some(file);
        while let (Some(folder), Some(name)) = (at.parent(), at.name().cloned()) {
            let members = tree.entry(folder.clone()).or_default();
            let is_folder = entry.is_none();
            if members.get(&name).is_some_and(|there| there.is_none() != is_folder) {
                return Err(Error::invalid(format!("{at} would be a file and a folder")));
            }
            if let Some(file) = entry.take() {
                members.insert(name, Some(file));
            } else {
                members.entry(name).or_insert(None);
            }
            at = folder;
        }
    }
    Ok(tree)
}

fn folder(name: NodeName) -> Item {
    let version = Version(String::new());
    Item { name, kind: Kind::Folder, size: 0, modified_ns: None, mode: None, version }
}

#[async_trait]
impl Shelf for Fixed {
    fn address(&self) -> String {
        self.address.clone()
    }

    async fn look(&self, path: &DrivePath) -> Result<Option<Item>> {
        if self.tree.contains_key(path) {
            let name = path.name().cloned().map_or_else(|| NodeName::new("list"), Ok)?;
            return Ok(Some(folder(name)));
        }
        let (Some(file), Some(name)) = (self.find(path), path.name()) else { return Ok(None) };
        match self.item(name, file).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            done => done.map(Some),
        }
    }

    async fn list(&self, at: &DrivePath, after: Option<&NodeName>) -> Result<Listed> {
        let members = self.tree.get(at).ok_or_else(|| Error::not_found(format!("the list has no folder {at}")))?;
        let mut after = after.cloned();
        let mut listed = Listed::default();
        // A page of which nothing is there is none.
        while listed.items.is_empty() {
            let from = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
            let page: Vec<_> = members.range::<NodeName, _>((from, Bound::Unbounded)).take(PAGE).collect();
            after = page.last().map(|(name, _)| (*name).clone());
            listed.more = page.len() == PAGE;
            // Boxed one by one, since of a closure the compiler does not see that it lives as long as the members do.
            let mut asked: Vec<BoxFuture<'_, _>> = Vec::with_capacity(page.len());
            for (name, file) in page {
                asked.push(Box::pin(self.member(name, file.as_ref())));
            }
            let mut asked = stream::iter(asked).buffered(ASKED);
            while let Some((name, done)) = asked.next().await {
                match done {
                    Ok(item) => listed.items.push(item),
                    Err(error) if error.kind() == ErrorKind::Unauthenticated => return Err(error),
                    Err(error) => listed.refused.push((name.to_string(), error)),
                }
                crate::signs::current().alive();
            }
            if !listed.more {
                break;
            }
        }
        Ok(listed)
    }

    async fn open(&self, path: &DrivePath, item: &Item) -> Result<Arc<dyn Content>> {
        let file = self.find(path).ok_or_else(|| Error::not_found(format!("the list has no {path}")))?;
        let mirrors = self.mirrors(file);
        match (strongest(&file.sums), mirrors.into_iter().next()) {
            (None, Some(only)) => only.open(item, None).await,
            (Some(sum), Some(_)) => {
                let mirrors = self.mirrors(file).into_iter().map(|file| (file, OnceCell::new())).collect();
                Ok(Arc::new(Mirrored { mirrors, size: item.size, sum, first: AtomicUsize::new(0) }))
            }
            (_, None) => Err(Error::internal("a file of a list has no address")),
        }
    }
}

/// A file that several servers have.
struct Mirrored {
    mirrors: Vec<(File, OnceCell<Arc<dyn Content>>)>,
    size: u64,
    sum: Sum,
    /// The one that is asked first: the last that answered.
    first: AtomicUsize,
}

impl Mirrored {
    async fn read_from(&self, mirror: usize, range: ByteRange) -> Result<Bytes> {
        let (file, opened) = self.mirrors.get(mirror).ok_or_else(|| Error::internal("there is no such mirror"))?;
        let content = opened.get_or_try_init(|| file.clone().open_if(self.size, None, |_| true)).await?;
        content.read(range).await
    }
}

#[async_trait]
impl Content for Mirrored {
    async fn read(&self, range: ByteRange) -> Result<Bytes> {
        let (first, count) = (self.first.load(Ordering::Relaxed), self.mirrors.len());
        let mut why = Error::unavailable("no server was asked");
        for mirror in (first..first + count).map(|mirror| mirror % count) {
            match self.read_from(mirror, range).await {
                Ok(bytes) => {
                    self.first.store(mirror, Ordering::Relaxed);
                    return Ok(bytes);
                }
                Err(error) => {
                    tracing::debug!(%error, url = %self.mirrors[mirror].0.url, "another mirror is asked");
                    why = error;
                }
            }
        }
        // It is tried again, from the mirrors that are there then.
        Err(Error::unavailable(format!("no mirror gives it: {}", why.message())))
    }

    fn grain(&self) -> u64 {
        BLOCK_BYTES as u64
    }

    fn ahead(&self) -> usize {
        AHEAD
    }

    /// The sum tells.
    async fn is_still(&self) -> Result<bool> {
        Ok(true)
    }

    fn sum(&self) -> Option<Sum> {
        Some(self.sum.clone())
    }
}
