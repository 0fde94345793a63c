//! Ten thousand random reads and writes of real programs under random rules about offset, length and program, each of which must end as a plain reading of docs/policy.md
//! says.
//!
//! A seed makes rules and a script for two programs, one of which executes the other. The oracle shares nothing with the crates under test: every rule is asked whether it fits,
//! and of those that fit the best one decides; whether a file may be opened for some call is found out by trying all of them. `HOLDFAST_SEED` runs one seed alone.

use crate::support::{folder, host, run};
use holdfast_policy::Policy;
use holdfast_testkit::pattern::{name_fits, parts_fit};
use holdfast_testkit::rng::Dice;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

const SANDBOXES: u64 = 200;
const CALLS_OF_ONE: usize = 25;
const PROGRAMS: [&str; 2] = ["alpha", "beta"];
/// Files of the tree, with the parts of their paths.
const FILES: [&str; 6] = ["a", "b", "d/a", "d/ab", "d/e/a", "d/e/b"];
/// Offsets and lengths in rules and calls; the last of each is in no rule.
const OFFSETS: [u64; 4] = [0, 4, 8, 12];
const LENGTHS: [u64; 4] = [1, 4, 8, 5];
const CALLS: [&str; 8] = ["read", "pread", "readv", "preadv", "write", "pwrite", "writev", "pwritev"];

/// A rule, as its parts are written.
#[derive(Debug)]
struct Rule {
    key: &'static str,
    place: String,
    allows: bool,
    operations: &'static [&'static str],
    program: Option<&'static str>,
    offset: Option<u64>,
    length: Option<u64>,
}

/// A call, as a rule may name it.
#[derive(Clone, Copy, Debug)]
struct Call<'a> {
    program: &'a str,
    operation: &'static str,
    path: &'a str,
    /// None for opening, which has neither.
    part: Option<(u64, u64)>,
}

impl Rule {
    fn random(dice: &mut Dice) -> Self {
        let key = dice.one(&["file", "dir", "tree", "glob"]);
        let place = match key {
            "file" => dice.one(&FILES),
            "glob" => dice.one(&["*", "a*", "d/*", "**", "d/**", "d/?/a", "**/a"]),
            _ => dice.one(&["", "d", "d/e", "d/a"]),
        };
        let program = dice.one(&[None, None, Some("alpha"), Some("beta"), Some("a*"), Some("*t*")]);
        let some = |dice: &mut Dice, of: &[u64]| (dice.below(2) == 0).then(|| dice.one(&of[..3]));
        let (offset, length) = (some(dice, &OFFSETS), some(dice, &LENGTHS));
        let operations = dice.one(&[&["read"][..], &["write"], &["read", "write"]]);
        Self { key, place: place.to_owned(), allows: dice.below(2) == 0, operations, program, offset, length }
    }

    fn written(&self, root: &str) -> String {
        let at = if self.place.is_empty() { root.to_owned() } else { format!("{root}/{}", self.place) };
        let verb = if self.allows { "allow" } else { "deny" };
        let mut text = format!("[[rule]]\n{verb} = {:?}\n{} = {at:?}\n", self.operations, self.key);
        if let Some(program) = self.program {
            let _ = writeln!(text, "program = {program:?}");
        }
        let arguments = [("offset", self.offset), ("length", self.length)];
        let named: Vec<_> =
            arguments.iter().filter_map(|(name, value)| value.map(|value| format!("{name} = {value}"))).collect();
        if !named.is_empty() {
            let _ = writeln!(text, "arguments = {{ {} }}", named.join(", "));
        }
        text
    }

    fn names_arguments(&self) -> bool {
        self.offset.is_some() || self.length.is_some()
    }

    /// Which kind of place it names a path by, and how deep that is.
    fn fits(&self, path: &str) -> Option<(u8, usize)> {
        let depth = self.place.split('/').filter(|part| !part.is_empty()).count();
        let below = self.place.is_empty() || path.strip_prefix(&self.place).is_some_and(|rest| rest.starts_with('/'));
        match self.key {
            "file" => (self.place == path).then_some((3, 0)),
            "dir" => below.then_some((1, depth)),
            "tree" => (below || self.place == path).then_some((1, depth)),
            _ => {
                let parts: Vec<_> = self.place.split('/').collect();
                let literal = parts.iter().take(parts.len() - 1).take_while(|part| !part.contains(['*', '?'])).count();
                let names: Vec<_> = path.split('/').collect();
                parts_fit(&parts, &names).then_some((2, literal))
            }
        }
    }

    /// How exactly it names a program.
    fn names(&self, program: &str) -> Option<u8> {
        match self.program {
            None => Some(0),
            Some(name) if name == program => Some(2),
            Some(pattern) => name_fits(pattern.as_bytes(), program.as_bytes()).then_some(1),
        }
    }
}

fn is_allowed(rules: &[Rule], call: Call<'_>) -> bool {
    let fit = |(order, rule): (usize, &Rule)| {
        let (kind, depth) = rule.fits(call.path).filter(|_| rule.operations.contains(&call.operation))?;
        let program = rule.names(call.program)?;
        let named = |wanted: Option<u64>, given: Option<u64>| wanted.is_none() || wanted == given;
        let (offset, length) = call.part.unzip();
        let holds = named(rule.offset, offset) && named(rule.length, length);
        let count = u8::from(rule.offset.is_some()) + u8::from(rule.length.is_some());
        holds.then_some(((kind, depth, program, count, order), rule.allows))
    };
    // Everything else in the tree is allowed.
    rules.iter().enumerate().filter_map(fit).max_by_key(|(fit, _)| *fit).is_none_or(|(_, allows)| allows)
}

/// What comes of opening a file and of a call with it.
fn expected(rules: &[Rule], call: Call<'_>) -> bool {
    let of_each_call = rules.iter().any(|rule| rule.names_arguments() && rule.fits(call.path).is_some());
    let opened = Call { part: None, ..call };
    if !of_each_call {
        return is_allowed(rules, opened);
    }
    let parts = OFFSETS.iter().flat_map(|offset| LENGTHS.map(|length| Some((*offset, length))));
    let opens = parts.chain([None]).any(|part| is_allowed(rules, Call { part, ..call }));
    opens && is_allowed(rules, call)
}

const BEGIN: &str = "\
import os, errno, sys
def at(file, offset): os.lseek(file, offset, 0); return file
def halves(length): one = bytearray(b'x' * (length // 2)); return [one, bytearray(b'x' * (length - len(one)))]
HOW = {
    'read': lambda file, offset, length: os.read(at(file, offset), length),
    'pread': lambda file, offset, length: os.pread(file, length, offset),
    'readv': lambda file, offset, length: os.readv(at(file, offset), halves(length)),
    'preadv': lambda file, offset, length: os.preadv(file, halves(length), offset),
    'write': lambda file, offset, length: os.write(at(file, offset), b'x' * length),
    'pwrite': lambda file, offset, length: os.pwrite(file, b'x' * length, offset),
    'writev': lambda file, offset, length: os.writev(at(file, offset), halves(length)),
    'pwritev': lambda file, offset, length: os.pwritev(file, halves(length), offset),
}
def case(name, path, offset, length):
    file = None
    try:
        file = os.open(path, os.O_WRONLY if 'write' in name else os.O_RDONLY)
        HOW[name](file, offset, length)
        print('ok')
    except OSError as error: print(errno.errorcode.get(error.errno, error))
    finally:
        if file is not None: os.close(file)
";

/// How often each call ended well and badly.
type Ends = BTreeMap<&'static str, [u32; 2]>;

/// Rules that contradict each other are mistakes, and thrown again.
fn policy(dice: &mut Dice, root: &str) -> (Vec<Rule>, Policy, String) {
    loop {
        let rules: Vec<_> = (0..=dice.below(8)).map(|_| Rule::random(dice)).collect();
        let begin =
            dice.one(&["default = \"allow\"\n", "default = \"deny\"\n[[rule]]\nallow = \"all\"\ntree = \"/\"\n"]);
        let text = rules.iter().map(|rule| rule.written(root)).fold(begin.to_owned(), |text, rule| text + &rule);
        match Policy::from_toml("random.toml", Path::new("/"), text.as_bytes()) {
            Ok(policy) => return (rules, policy, text),
            Err(mistakes) => assert!(mistakes.to_string().contains("contradict"), "{mistakes}\n{text}"),
        }
    }
}

fn one_sandbox(seed: u64, tools: &Path, ends: &mut Ends) {
    let mut dice = Dice::new(seed);
    let (_guard, path) = folder();
    let root = path.to_str().expect("a plain name");
    std::fs::create_dir_all(path.join("d/e")).expect("folders");
    for file in FILES {
        std::fs::write(path.join(file), [b'x'; 64]).expect("a file");
    }
    let (rules, policy, text) = policy(&mut dice, root);
    let (mut script, mut wanted) = (String::new(), Vec::new());
    let mut scripts = Vec::new();
    for program in PROGRAMS {
        script.push_str(BEGIN);
        for _ in 0..CALLS_OF_ONE {
            let (name, file) = (dice.one(&CALLS), dice.one(&FILES));
            let (offset, length) = (dice.one(&OFFSETS), dice.one(&LENGTHS));
            let operation = if name.contains("write") { "write" } else { "read" };
            let allowed = expected(&rules, Call { program, operation, path: file, part: Some((offset, length)) });
            let _ = writeln!(script, "case({name:?}, '{root}/{file}', {offset}, {length})");
            wanted.push((name, allowed, format!("{program}: {name} of {file} at {offset}, {length}")));
        }
        scripts.push(std::mem::take(&mut script));
    }
    let programs = PROGRAMS.map(|name| format!("{}/{name}", tools.display()));
    let next = format!("sys.stdout.flush()\nos.execv({0:?}, [{0:?}, '-S', '-c', {1:?}])\n", programs[1], scripts[1]);
    let mut sandbox = host(&path, [&programs[0], "-S", "-c", &(scripts[0].clone() + &next)]);
    sandbox.environment.push(("PYTHONHOME".into(), "/usr".into()));
    let done = run(Arc::new(policy), sandbox);
    assert!(done.outcome.success(), "HOLDFAST_SEED={seed}\n{text}\n{done:?}");
    let answers: Vec<_> = done.said.lines().collect();
    assert_eq!(answers.len(), wanted.len(), "HOLDFAST_SEED={seed}\n{text}\n{}", done.said);
    for ((name, allowed, what), answer) in wanted.iter().zip(answers) {
        let expected = if *allowed { "ok" } else { "EACCES" };
        assert_eq!(answer, expected, "{what}\nHOLDFAST_SEED={seed}\n{text}\n{}", done.said);
        ends.entry(name).or_default()[usize::from(!allowed)] += 1;
    }
}

#[test]
fn ten_thousand_random_reads_and_writes_end_as_a_plain_reading_of_the_rules_says() {
    let (_guard, tools) = folder();
    std::fs::set_permissions(&tools, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("it is ours");
    for name in PROGRAMS {
        std::fs::copy("/usr/bin/python3", tools.join(name)).expect("a copy of a program");
    }
    let one = std::env::var("HOLDFAST_SEED").ok().and_then(|seed| seed.parse().ok());
    let mut ends = Ends::new();
    for seed in one.map_or(0..SANDBOXES, |seed| seed..seed + 1) {
        one_sandbox(seed, &tools, &mut ends);
    }
    let calls: u32 = ends.values().flatten().sum();
    println!("{calls} calls, well and badly: {ends:?}");
    if one.is_none() {
        assert_eq!(calls, 10_000);
        // Every call is made often, and ends both ways, so the test can fail for each.
        assert!(
            CALLS.iter().all(|name| ends.get(name).is_some_and(|ends| ends.iter().all(|count| *count >= 100))),
            "{ends:?}"
        );
    }
}
