//! The folder to be published: its tree, and the texts that are composed.

use crate::compose::{Part, Sources, part_of};
use crate::limits::{FILES_MAX, SOURCE_BYTES_MAX, SOURCES_BYTES_MAX, STORING_AT_ONCE};
use crate::store::{Store, members, read_whole};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use holdfast_base::{DrivePath, Error, ErrorKind, NodeName, Result};
use holdfast_drive::{Location, Node, NodeKind};
use std::collections::BTreeMap;

/// A folder as it was found.
pub(crate) struct Folder {
    at: Location,
    seq: i64,
    /// Files published as they are, by path.
    pub(crate) plain: BTreeMap<String, Node>,
    texts: BTreeMap<String, Bytes>,
    /// The nodes of the texts.
    pub(crate) text_nodes: BTreeMap<String, Node>,
}

impl Folder {
    /// What is composed.
    pub(crate) fn sources(&self) -> Sources {
        let plain = self.plain.iter().map(|(path, node)| (path.clone(), (node.size, Some(node.modified_ms))));
        Sources { texts: self.texts.clone(), plain: plain.collect() }
    }

    /// Where a file of it is.
    pub(crate) fn location(&self, path: &str) -> Result<Location> {
        let mut names = self.at.path.names().to_vec();
        names.extend_from_slice(DrivePath::parse(path)?.names());
        Ok(Location { space: self.at.space.clone(), path: DrivePath::from_names(names)? })
    }

    /// Whether its space changed since.
    pub(crate) async fn has_changed(&self, source: &Store) -> Result<bool> {
        Ok(source.drive.walk(&source.who, &self.at).await?.space.seq != self.seq)
    }
}

/// Reads a folder's tree and its texts.
pub(crate) async fn gather(source: &Store, at: &Location) -> Result<Folder> {
    let walk = source.drive.walk(&source.who, at).await?;
    let root = walk.node().cloned().ok_or_else(|| Error::not_found(format!("there is no folder {at}")))?;
    if root.kind != NodeKind::Folder {
        return Err(Error::new(ErrorKind::WrongKind, format!("{at} is a file; a site is made of a folder")));
    }
    let mut folder = Folder {
        at: at.clone(),
        seq: walk.space.seq,
        plain: BTreeMap::new(),
        texts: BTreeMap::new(),
        text_nodes: BTreeMap::new(),
    };
    let mut open = vec![(String::new(), root)];
    while let Some((path, node)) = open.pop() {
        for member in members(&*source.drive, &source.who, &node).await? {
            let below = format!("{path}{}", NodeName::new(&member.name)?);
            match member.kind {
                NodeKind::Folder => open.push((below + "/", member)),
                NodeKind::File => folder.add(below, member)?,
            }
        }
    }
    folder.read_texts(source).await?;
    Ok(folder)
}

impl Folder {
    fn add(&mut self, path: String, node: Node) -> Result<()> {
        match part_of(&path, node.size) {
            Part::Hidden => return Ok(()),
            Part::Plain => {
                self.plain.insert(path, node);
            }
            Part::Config | Part::Template | Part::Page => {
                if node.size > SOURCE_BYTES_MAX {
                    let limit = SOURCE_BYTES_MAX >> 20;
                    return Err(Error::new(ErrorKind::TooLarge, format!("{path} has more than {limit} MiB of text")));
                }
                self.text_nodes.insert(path, node);
            }
        }
        if self.plain.len() + self.text_nodes.len() > FILES_MAX {
            return Err(Error::new(ErrorKind::TooLarge, format!("a site has {FILES_MAX} files at most")));
        }
        Ok(())
    }

    async fn read_texts(&mut self, source: &Store) -> Result<()> {
        let bytes: u64 = self.text_nodes.values().map(|node| node.size).sum();
        if bytes > SOURCES_BYTES_MAX {
            let limit = SOURCES_BYTES_MAX >> 20;
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("the pages and templates exceed {limit} MiB together"),
            ));
        }
        let paths: Vec<(String, Location)> =
            self.text_nodes.keys().map(|path| Ok((path.clone(), self.location(path)?))).collect::<Result<_>>()?;
        let reads = stream::iter(paths).map(|(path, at)| async move {
            let walk = source.drive.walk(&source.who, &at).await?;
            let text = read_whole(&*source.drive, &source.who, &walk).await?;
            if text.len() as u64 > SOURCE_BYTES_MAX {
                return Err(Error::new(ErrorKind::TooLarge, format!("{path} grew while it was read")));
            }
            Ok((path, text))
        });
        self.texts = reads.buffer_unordered(STORING_AT_ONCE).try_collect().await?;
        Ok(())
    }
}
