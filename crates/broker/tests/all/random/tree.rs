//! A tree as it should be, made and found again.

use super::Dice;
use super::oracle::NAMES;
use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::Path;

/// What has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Folder,
    File,
    /// A file that can be executed; it is not written to.
    Program,
    Fifo,
    Link(String),
}

/// All that is in a folder, by absolute path; the folder itself included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) nodes: BTreeMap<String, Node>,
}

pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

impl Tree {
    pub(super) fn random(dice: &mut Dice, root: &str) -> Self {
        let mut tree = Self { nodes: BTreeMap::from([(root.to_owned(), Node::Folder)]) };
        for number in 0..24 {
            let Some(path) = tree.missing(dice) else { continue };
            // The first ones are folders, so that there is a tree.
            let node = match if number < 6 { 0 } else { dice.below(8) } {
                0 | 1 => Node::Folder,
                2 => Node::Program,
                3 => Node::Fifo,
                4 => Node::Link(tree.any(dice, |node| !matches!(node, Node::Link(_))).unwrap_or_default()),
                _ => Node::File,
            };
            tree.nodes.insert(path, node);
        }
        tree
    }

    /// A path at which nothing is, in a folder that is there.
    pub(super) fn missing(&self, dice: &mut Dice) -> Option<String> {
        let folders: Vec<_> =
            self.nodes.iter().filter(|(_, node)| **node == Node::Folder).map(|(path, _)| path).collect();
        let tries = (0..8).map(|_| format!("{}/{}", dice.one(&folders), dice.one(&NAMES)));
        let found: Vec<_> = tries.filter(|path| !self.nodes.contains_key(path)).take(1).collect();
        found.into_iter().next()
    }

    /// The path of something of a kind; not of the whole tree.
    pub(super) fn any(&self, dice: &mut Dice, kind: impl Fn(&Node) -> bool) -> Option<String> {
        let all: Vec<_> =
            self.nodes.iter().skip(1).filter(|(_, node)| kind(node)).map(|(path, _)| path.clone()).collect();
        (!all.is_empty()).then(|| dice.one(&all))
    }

    pub(super) fn is_empty(&self, folder: &str) -> bool {
        self.below(folder).next().is_none()
    }

    /// What is in a folder, at any depth.
    pub(super) fn below<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a String> {
        self.nodes.keys().filter(move |path| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')))
    }

    /// Another way to say a path: through a symbolic link, or with more in it than there must be. `whole` says whether the path itself may be a link's.
    pub(super) fn said(&self, dice: &mut Dice, path: &str, whole: bool) -> String {
        let leads = |(link, node): (&String, &Node)| {
            let Node::Link(target) = node else { return None };
            let rest = path.strip_prefix(target.as_str())?;
            let through = rest.starts_with('/') && self.nodes.get(target) == Some(&Node::Folder);
            let itself = rest.is_empty() && whole && self.nodes.contains_key(target);
            (through || itself).then(|| format!("{link}{rest}"))
        };
        let links: Vec<_> = self.nodes.iter().filter_map(leads).collect();
        let (folder, name) = path.rsplit_once('/').unwrap_or_default();
        match dice.below(6) {
            0 | 1 if !links.is_empty() => dice.one(&links),
            2 => format!("{folder}/.//{name}"),
            3 => {
                let last = folder.rsplit('/').next().unwrap_or_default();
                format!("{folder}/../{last}/{name}")
            }
            _ => path.to_owned(),
        }
    }

    /// Makes it; what is around it is there.
    pub(super) fn make(&self) {
        for (path, node) in self.nodes.iter().skip(1) {
            match node {
                Node::Folder => std::fs::create_dir(path).expect("a folder"),
                Node::File => std::fs::write(path, "content").expect("a file"),
                Node::Program => drop(std::fs::copy("/bin/true", path).expect("a program")),
                Node::Fifo => {
                    let mode = rustix::fs::Mode::from_raw_mode(0o600);
                    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).expect("a FIFO");
                }
                Node::Link(target) => symlink(target, path).expect("a link"),
            }
        }
    }

    /// What is there.
    pub(super) fn found(root: &str) -> Self {
        let mut nodes = BTreeMap::from([(root.to_owned(), Node::Folder)]);
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                let node = node(&path);
                let path = path.into_os_string().into_string().expect("names are text");
                if node == Node::Folder {
                    folders.push(path.clone());
                }
                nodes.insert(path, node);
            }
        }
        Self { nodes }
    }
}

fn node(path: &Path) -> Node {
    let kind = std::fs::symlink_metadata(path).expect("it is there");
    match kind.file_type() {
        it if it.is_dir() => Node::Folder,
        it if it.is_symlink() => {
            Node::Link(std::fs::read_link(path).expect("a link").into_os_string().into_string().expect("text"))
        }
        it if it.is_fifo() => Node::Fifo,
        // Programs are the only files that are large.
        _ if kind.len() > 4096 && kind.permissions().mode() & 0o100 != 0 => Node::Program,
        _ => Node::File,
    }
}
