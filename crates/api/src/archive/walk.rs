//! Walking the trees of an archive: folders before what is in them, a page of members at a time.

use crate::Api;
use holdfast_auth::Session;
use holdfast_base::{NodeName, Result};
use holdfast_drive::{Location, Node, NodeKind};
use std::collections::VecDeque;

/// Members of a folder fetched at a time.
const PAGE_NODES: usize = 256;

/// One thing of the selection.
pub(crate) struct Root {
    /// Where it is.
    pub(crate) at: Location,
    /// It.
    pub(crate) node: Node,
    /// What it is called in the archive.
    pub(crate) name: String,
}

/// What comes next.
pub(super) enum Found {
    Folder { path: String, node: Node },
    File { path: String, at: Location },
}

/// A folder on the way down.
struct Level {
    folder: Node,
    at: Location,
    /// Its path in the archive, with a slash at the end.
    path: String,
    members: VecDeque<Node>,
    after: Option<NodeName>,
    is_last_page: bool,
}

/// A walk over one root.
pub(super) struct Tree {
    root: Option<Root>,
    levels: Vec<Level>,
}

impl Tree {
    pub(super) fn new(root: Root) -> Self {
        Self { root: Some(root), levels: Vec::new() }
    }

    /// The next folder or file.
    pub(super) async fn next(&mut self, api: &Api, who: &Session) -> Result<Option<Found>> {
        if let Some(Root { at, node, name }) = self.root.take() {
            return Ok(Some(self.visit(node, at, name)));
        }
        while let Some(level) = self.levels.last_mut() {
            if level.members.is_empty() && !level.is_last_page {
                level.turn_page(api, who).await?;
            }
            let Some(node) = level.members.pop_front() else {
                self.levels.pop();
                continue;
            };
            let path = format!("{}{}", level.path, safe_name(&node));
            let at = Location { space: level.at.space.clone(), path: level.at.path.join(NodeName::new(&node.name)?)? };
            return Ok(Some(self.visit(node, at, path)));
        }
        Ok(None)
    }

    fn visit(&mut self, node: Node, at: Location, path: String) -> Found {
        match node.kind {
            NodeKind::File => Found::File { path, at },
            NodeKind::Folder => {
                self.levels.push(Level::new(node.clone(), at, format!("{path}/")));
                Found::Folder { path, node }
            }
        }
    }
}

impl Level {
    fn new(folder: Node, at: Location, path: String) -> Self {
        Self { folder, at, path, members: VecDeque::new(), after: None, is_last_page: false }
    }

    async fn turn_page(&mut self, api: &Api, who: &Session) -> Result<()> {
        let page = api.drive.list(who, &self.folder, self.after.as_ref(), PAGE_NODES).await?;
        self.is_last_page = page.len() < PAGE_NODES;
        self.after = page.last().map(|node| NodeName::new(&node.name)).transpose()?;
        self.members = page.into();
        Ok(())
    }
}

/// A node's name as no program that unpacks can misread it. The drive's own names have no slash and no control character and are
/// neither `.` nor `..`; a backslash, which Windows takes for a slash, goes, and the node's number keeps the name apart from others.
pub(crate) fn safe_name(node: &Node) -> String {
    if node.name.contains('\\') {
        format!("{} ~{:x}", node.name.replace('\\', "_"), node.id.0)
    } else {
        node.name.clone()
    }
}
