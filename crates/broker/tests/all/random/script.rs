//! What the programs do, what each call asks for, and so how it must end.

use super::Dice;
use super::oracle::{Ask, Rules};
use super::tree::{Node, Tree, parent};
use std::fmt::Write;

/// Names of the calls.
pub(super) const CALLS: [&str; 26] = [
    "open",
    "open to write",
    "open for both",
    "open to truncate",
    "open to list",
    "pin",
    "create",
    "mkdir",
    "mkfifo",
    "mknod",
    "symlink",
    "link",
    "rename",
    "rename a folder",
    "unlink",
    "rmdir",
    "stat",
    "lstat",
    "readlink",
    "chmod",
    "utime",
    "truncate",
    "xattr",
    "statfs",
    "fsync",
    "exec",
];
const SEEK: &str = "seek";

/// A call and its end.
pub(super) struct Case {
    pub(super) name: &'static str,
    /// In Python.
    pub(super) what: String,
    pub(super) asks: Vec<Ask>,
    pub(super) expected: &'static str,
}

/// What a call does to the tree if it may.
enum Effect {
    None,
    Make(String, Node),
    Remove(String),
    Link(String, String),
    Move(String, String),
}

/// A call that would succeed if nobody forbade it.
struct Call {
    what: String,
    asks: Vec<Ask>,
    /// The old name and the new, by which nothing may be gained.
    gain: Option<(String, String)>,
    effect: Effect,
}

pub(super) struct Script<'a> {
    rules: &'a Rules,
    pub(super) tree: Tree,
    pub(super) cases: Vec<Case>,
    /// Where each program's calls end.
    parts: Vec<usize>,
}

fn ask(operation: &'static str, path: &str, mode: Option<u32>) -> Ask {
    Ask { operation, path: path.to_owned(), mode }
}

fn call(what: String, path: &str, operations: &[&'static str]) -> Call {
    let asks = std::iter::once("lookup").chain(operations.iter().copied()).map(|it| ask(it, path, None)).collect();
    Call { what, asks, gain: None, effect: Effect::None }
}

impl Call {
    fn with_mode(mut self, mode: u32) -> Self {
        if let Some(last) = self.asks.last_mut() {
            last.mode = Some(mode);
        }
        self
    }

    fn then(self, effect: Effect) -> Self {
        Self { effect, ..self }
    }
}

impl<'a> Script<'a> {
    pub(super) fn new(tree: Tree, rules: &'a Rules) -> Self {
        Self { rules, tree, cases: Vec::new(), parts: Vec::new() }
    }

    /// Adds calls of a program.
    pub(super) fn add(&mut self, dice: &mut Dice, program: &str, calls: usize) {
        let end = self.cases.len() + calls;
        while self.cases.len() < end {
            let name = if dice.once_in(27) { SEEK } else { dice.one(&CALLS) };
            let Some(call) = self.call(dice, name) else { continue };
            let expected = self.expected(program, &call);
            if expected == "ok" {
                self.take(call.effect);
            }
            self.cases.push(Case { name, what: call.what, asks: call.asks, expected });
        }
        self.parts.push(end);
    }

    fn expected(&self, program: &str, call: &Call) -> &'static str {
        if !call.asks.iter().all(|ask| self.rules.allow(program, ask)) {
            return "EACCES";
        }
        let Some((from, to)) = &call.gain else { return "ok" };
        let below = self.tree.below(from).map(|path| (path.clone(), path.replacen(from, to, 1)));
        let gains = |(from, to): (String, String)| self.rules.gains(program, &from, &to);
        if std::iter::once((from.clone(), to.clone())).chain(below).any(gains) { "EXDEV" } else { "ok" }
    }

    fn take(&mut self, effect: Effect) {
        let nodes = &mut self.tree.nodes;
        match effect {
            Effect::None => {}
            Effect::Make(path, node) => drop(nodes.insert(path, node)),
            Effect::Remove(path) => drop(nodes.remove(&path)),
            Effect::Link(from, to) => {
                let node = nodes[&from].clone();
                nodes.insert(to, node);
            }
            Effect::Move(from, to) => {
                let inside =
                    |path: &str| path == from || path.strip_prefix(&from).is_some_and(|it| it.starts_with('/'));
                let moved: Vec<_> = nodes.keys().filter(|path| inside(path)).cloned().collect();
                for path in moved {
                    if let Some(node) = nodes.remove(&path) {
                        nodes.insert(path.replacen(&from, &to, 1), node);
                    }
                }
            }
        }
    }

    /// A call of a name, if the tree has what it needs.
    fn call(&self, dice: &mut Dice, name: &'static str) -> Option<Call> {
        match name {
            "open" | "open to write" | "open for both" | "open to truncate" | "fsync" | "seek" | "truncate" => {
                self.with_content(dice, name)
            }
            "create" | "mkdir" | "mkfifo" | "mknod" | "symlink" => self.making(dice, name),
            "link" | "rename" | "rename a folder" | "unlink" | "rmdir" => self.names(dice, name),
            _ => self.telling(dice, name),
        }
    }

    fn with_content(&self, dice: &mut Dice, name: &str) -> Option<Call> {
        let path = self.tree.any(dice, |node| *node == Node::File)?;
        let said = self.tree.said(dice, &path, true);
        let (what, operations): (String, &[&str]) = match name {
            "open" => (format!("opened({said:?}, os.O_RDONLY)"), &["read", "mmap"]),
            "open to write" => (format!("opened({said:?}, os.O_WRONLY)"), &["write"]),
            "open for both" => (format!("opened({said:?}, os.O_RDWR)"), &["read", "mmap", "write"]),
            "open to truncate" => (format!("opened({said:?}, os.O_WRONLY | os.O_TRUNC)"), &["write", "truncate"]),
            "fsync" => (format!("opened({said:?}, os.O_WRONLY, os.fsync)"), &["write", "fsync"]),
            "seek" => {
                let seek = "lambda file: os.lseek(file, 1, 0)";
                (format!("opened({said:?}, os.O_RDONLY, {seek})"), &["read", "mmap", "llseek"])
            }
            _ => (format!("os.truncate({said:?}, 3)"), &["truncate"]),
        };
        Some(call(what, &path, operations))
    }

    fn making(&self, dice: &mut Dice, name: &str) -> Option<Call> {
        let path = self.tree.missing(dice)?;
        let said = self.tree.said(dice, &path, false);
        let mode = dice.one(&[0o700, 0o755]);
        let make = |node: Node| Effect::Make(path.clone(), node);
        Some(match name {
            "create" => {
                let flags = dice.one(&["os.O_CREAT | os.O_WRONLY", "os.O_CREAT | os.O_EXCL | os.O_WRONLY"]);
                call(format!("opened({said:?}, {flags})"), &path, &["create", "write"]).then(make(Node::File))
            }
            "mkdir" => {
                call(format!("os.mkdir({said:?}, {mode})"), &path, &["mkdir"]).with_mode(mode).then(make(Node::Folder))
            }
            "mkfifo" => call(format!("os.mkfifo({said:?})"), &path, &["mknod"]).then(make(Node::Fifo)),
            "mknod" => call(format!("os.mknod({said:?})"), &path, &["create"]).then(make(Node::File)),
            _ => {
                let target = self.tree.any(dice, |node| !matches!(node, Node::Link(_)))?;
                let what = format!("os.symlink({target:?}, {said:?})");
                call(what, &path, &["symlink"]).then(make(Node::Link(target)))
            }
        })
    }

    fn names(&self, dice: &mut Dice, name: &str) -> Option<Call> {
        let tree = &self.tree;
        let is_file = |node: &Node| matches!(node, Node::File | Node::Program | Node::Fifo);
        let not_folder = |node: &Node| *node != Node::Folder;
        match name {
            "unlink" => {
                let path = tree.any(dice, not_folder)?;
                let said = tree.said(dice, &path, false);
                return Some(
                    call(format!("os.unlink({said:?})"), &path, &["unlink"]).then(Effect::Remove(path.clone())),
                );
            }
            "rmdir" => {
                let path = tree.any(dice, |node| *node == Node::Folder).filter(|path| tree.is_empty(path))?;
                let said = tree.said(dice, &path, false);
                return Some(call(format!("os.rmdir({said:?})"), &path, &["rmdir"]).then(Effect::Remove(path.clone())));
            }
            _ => {}
        }
        let from = match name {
            "link" => tree.any(dice, is_file)?,
            "rename" => tree.any(dice, not_folder)?,
            _ => tree.any(dice, |node| *node == Node::Folder)?,
        };
        let to = tree.missing(dice).filter(|to| !format!("{}/", parent(to)).starts_with(&format!("{from}/")))?;
        let (said, said_to) = (tree.said(dice, &from, false), tree.said(dice, &to, false));
        let (verb, operation, effect) = match name {
            "link" => ("os.link", "link", Effect::Link(from.clone(), to.clone())),
            _ => ("os.rename", "rename", Effect::Move(from.clone(), to.clone())),
        };
        let asks = [("lookup", &from), ("lookup", &to), (operation, &from), (operation, &to)];
        let asks = asks.into_iter().map(|(operation, path)| ask(operation, path, None)).collect();
        Some(Call { what: format!("{verb}({said:?}, {said_to:?})"), asks, gain: Some((from, to)), effect })
    }

    fn telling(&self, dice: &mut Dice, name: &str) -> Option<Call> {
        let kind = |node: &Node| match name {
            "open to list" => *node == Node::Folder,
            "exec" => *node == Node::Program,
            "readlink" => matches!(node, Node::Link(_)),
            // No FIFO has such attributes.
            "xattr" => matches!(node, Node::Folder | Node::File),
            "lstat" => true,
            _ => !matches!(node, Node::Link(_)),
        };
        let path = self.tree.any(dice, kind)?;
        let said = self.tree.said(dice, &path, !matches!(name, "lstat" | "readlink"));
        let mode = dice.one(&[0o700, 0o755]);
        Some(match name {
            "open to list" => call(format!("opened({said:?}, os.O_RDONLY | os.O_DIRECTORY)"), &path, &["readdir"]),
            "pin" => call(format!("opened({said:?}, os.O_PATH)"), &path, &[]),
            "stat" => call(format!("os.stat({said:?})"), &path, &["getattr"]),
            "lstat" => call(format!("os.lstat({said:?})"), &path, &["getattr"]),
            "readlink" => call(format!("os.readlink({said:?})"), &path, &["getattr"]),
            "chmod" => call(format!("os.chmod({said:?}, {mode})"), &path, &["setattr"]).with_mode(mode),
            "utime" => call(format!("os.utime({said:?}, (1, 2))"), &path, &["setattr"]),
            "xattr" => {
                let calls = [("os.listxattr(P)", "getattr"), ("os.setxattr(P, 'user.x', b'1')", "xattr")];
                let (what, operation) = dice.one(&calls);
                call(what.replace('P', &format!("{said:?}")), &path, &[operation])
            }
            "statfs" => call(format!("os.statvfs({said:?})"), &path, &["statfs"]),
            _ => call(format!("executed({said:?})"), &path, &["exec"]),
        })
    }

    /// The script of the first program, with the next one's in it.
    pub(super) fn text(&self, programs: &[String]) -> String {
        let mut next = String::new();
        let mut end = self.cases.len();
        for number in (0..self.parts.len()).rev() {
            let begin = if number == 0 { 0 } else { self.parts[number - 1] };
            let mut text = BEGIN.to_owned();
            for case in &self.cases[begin..end] {
                let _ = writeln!(text, "case(lambda: {})", case.what);
            }
            if let Some(program) = programs.get(number + 1) {
                let _ =
                    writeln!(text, "sys.stdout.flush()\nos.execv({program:?}, [{program:?}, '-S', '-c', {next:?}])");
            }
            (next, end) = (text, begin);
        }
        next
    }

    /// All calls, for whoever looks at a failure.
    pub(super) fn told(&self) -> String {
        let line = |(number, case): (usize, &Case)| format!("{number}: {} -> {}\n", case.what, case.expected);
        self.cases.iter().enumerate().map(line).collect()
    }
}

const BEGIN: &str = "\
import os, errno, sys
def opened(path, flags, then=lambda file: None):
    file = os.open(path, flags, 0o755)
    try: then(file)
    finally: os.close(file)
def executed(path):
    pid = os.fork()
    if pid == 0:
        try: os.execv(path, [path])
        except OSError as error: os._exit(error.errno)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code: raise OSError(code, 'exec')
def case(what):
    try: what(); print('ok')
    except OSError as error: print(errno.errorcode.get(error.errno, error))
";
