//! Ten thousand attempts of real programs in random views: what succeeds is what the line of the nearest folder says, read by itself.
//!
//! A seed makes a tree and lines of the short form for some of its folders and files. A program then tries to read, write, list, execute and make something at every path.
//! `HOLDFAST_SEED` runs one seed alone.

use holdfast_confine::{Command, Confined, Watch, Way};
use holdfast_policy::Policy;
use holdfast_testkit::rng::Dice;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

const SANDBOXES: u64 = 150;
const NODES: usize = 40;
const WORDS: [&str; 5] = ["none", "read", "read+exec", "write", "all"];
const NAMES: [&str; 5] = ["a", "b", "ab", "c", "d e"];

#[derive(Clone, Copy, PartialEq)]
enum Node {
    Folder,
    File,
    Program,
}

fn tree(dice: &mut Dice, root: &str) -> BTreeMap<String, Node> {
    let mut nodes = BTreeMap::from([(root.to_owned(), Node::Folder)]);
    for number in 0..NODES {
        let folders: Vec<_> = nodes.iter().filter(|(_, node)| **node == Node::Folder).map(|(path, _)| path).collect();
        let path = format!("{}/{}", folders[dice.below(folders.len())], NAMES[dice.below(NAMES.len())]);
        let node = match dice.below(6) {
            _ if number < 8 => Node::Folder,
            0 | 1 => Node::Folder,
            2 => Node::Program,
            _ => Node::File,
        };
        nodes.entry(path).or_insert(node);
    }
    for (path, node) in nodes.iter().skip(1) {
        match node {
            Node::Folder => std::fs::create_dir(path).expect("a folder"),
            Node::File => std::fs::write(path, "content").expect("a file"),
            Node::Program => drop(std::fs::copy("/bin/true", path).expect("a program")),
        }
    }
    nodes
}

/// What the nearest line says of a path; nothing where there is none.
fn word<'a>(lines: &BTreeMap<&String, &'a str>, path: &str) -> &'a str {
    let holds = |line: &&String| path == line.as_str() || path.starts_with(&format!("{line}/"));
    let nearest = lines.keys().filter(|line| holds(line)).max_by_key(|line| line.len());
    nearest.map_or("none", |line| lines[*line])
}

/// Attempts at a path, and whether each succeeds.
fn attempts(path: &str, node: Node, word: &str, is_way: bool) -> Vec<(String, bool)> {
    let (reads, writes) = (word != "none", matches!(word, "write" | "all"));
    let executes = matches!(word, "read+exec" | "all");
    match node {
        Node::Folder => {
            let make = format!(
                "os.close(os.open({path:?} + '/#new', os.O_CREAT | os.O_EXCL, 0o600)); os.unlink({path:?} + '/#new')"
            );
            let mut all = vec![(make, writes)];
            // On the way to something, only that is listed.
            if reads || !is_way {
                all.push((format!("os.listdir({path:?})"), reads));
            }
            all
        }
        Node::File | Node::Program => {
            let mut all = vec![
                (format!("os.close(os.open({path:?}, os.O_RDONLY))"), reads),
                (format!("os.close(os.open({path:?}, os.O_WRONLY))"), writes),
                (format!("os.utime({path:?}, (1, 2))"), writes),
            ];
            if node == Node::Program {
                all.push((format!("executed({path:?})"), executes));
            }
            all
        }
    }
}

const BEGIN: &str = "\
import os
def executed(path):
    pid = os.fork()
    if pid == 0:
        try: os.execv(path, [path])
        except OSError: os._exit(9)
    if os.waitpid(pid, 0)[1]: raise OSError(1, 'exec')
out = open('result', 'w')
def attempt(what):
    try: exec(what)
    except OSError: out.write('0\\n')
    else: out.write('1\\n')
";

/// Runs one view; says how many attempts succeeded and how many did not.
fn one_view(seed: u64) -> [usize; 2] {
    let mut dice = Dice::new(seed);
    let place = tempfile::tempdir().expect("a folder");
    let [root, out] = ["tree", "out"].map(|name| place.path().join(name).display().to_string());
    std::fs::create_dir(&root).expect("a folder");
    std::fs::create_dir(&out).expect("a folder");
    let nodes = tree(&mut dice, &root);
    let chosen = nodes.keys().filter(|_| dice.below(3) == 0).collect::<Vec<_>>();
    let lines: BTreeMap<_, _> = chosen.into_iter().map(|path| (path, WORDS[dice.below(WORDS.len())])).collect();
    let mut text = format!("default = \"deny\"\ndirectory = {out:?}\n[files]\n{out:?} = \"write\"\n");
    for machine in ["/usr", "/bin", "/lib", "/lib64"].iter().filter(|at| Path::new(at).exists()) {
        let _ = writeln!(text, "\"{machine}\" = \"read+exec\"");
    }
    for (path, word) in &lines {
        let _ = writeln!(text, "{path:?} = \"{word}\"");
    }
    let is_way = |path: &str| lines.iter().any(|(line, word)| *word != "none" && line.starts_with(&format!("{path}/")));
    let all: Vec<_> =
        nodes.iter().flat_map(|(path, node)| attempts(path, *node, word(&lines, path), is_way(path))).collect();
    let mut script = BEGIN.to_owned();
    for (what, _) in &all {
        let _ = writeln!(script, "attempt({what:?})");
    }
    let policy = Policy::from_toml("view", Path::new("/"), text.as_bytes()).expect("a policy");
    assert!(matches!(Way::of(&policy, false), Ok(Way::View(_))), "HOLDFAST_SEED={seed}\n{text}");
    let words = ["/usr/bin/python3", "-S", "-E", "-c", &script].map(Into::into).to_vec();
    let command = Command { words, folder: out.clone().into(), widen: dice.below(2) == 0, ..Command::default() };
    let confined = Confined::start(policy, &command, Watch::default()).expect("it starts");
    let outcome = confined.wait().expect("it runs");
    assert!(outcome.success(), "{outcome:?} HOLDFAST_SEED={seed}\n{text}");
    let said = std::fs::read_to_string(place.path().join("out/result")).expect("a result");
    assert_eq!(said.lines().count(), all.len(), "HOLDFAST_SEED={seed}");
    for ((what, expected), done) in all.iter().zip(said.lines()) {
        assert_eq!(done == "1", *expected, "{what}, HOLDFAST_SEED={seed}\n{text}");
    }
    let well = all.iter().filter(|(_, expected)| *expected).count();
    [well, all.len() - well]
}

#[test]
fn ten_thousand_attempts_in_random_views_end_as_the_nearest_line_says() {
    let one: Option<u64> = std::env::var("HOLDFAST_SEED").ok().and_then(|seed| seed.parse().ok());
    let mut ends = [0, 0];
    for seed in one.map_or(0..SANDBOXES, |seed| seed..seed + 1) {
        let [well, badly] = one_view(seed);
        ends = [ends[0] + well, ends[1] + badly];
    }
    println!("{ends:?}");
    assert!(one.is_some() || ends[0] + ends[1] >= 10_000 && ends[0] >= 2_000, "{ends:?}");
}
