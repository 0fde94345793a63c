//! What a folder says about itself: `function.toml`.
//!
//! ```toml
//! command = ["python3", "handler.py"]
//! policy = "policy.toml"
//! invoke = ["ann"]
//!
//! [limits]
//! seconds = 10
//! warm = 2
//! ```
//!
//! A key that is not known, or a value out of its bounds, is a mistake with its line and column; all of them are told at once.

mod reader;

use holdfast_policy::Mistakes;
use reader::Reader;
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use toml::de::DeTable;

/// The manifest's name in the folder.
pub const MANIFEST: &str = "function.toml";

/// Largest manifest: a thousand names of accounts are a tenth of it.
pub(crate) const TEXT_BYTES_MAX: u64 = 256 << 10;
/// Most words of a command.
const WORDS_MAX: usize = 1_000;
/// Most accounts that are named: more are an administrator's business.
const ACCOUNTS_MAX: usize = 1_000;

/// What a function is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The program and its arguments. A name without a slash is looked for in the policy's `PATH`, inside the sandbox.
    pub command: Vec<String>,
    /// The policy's file, in the folder. Without one, the program sees its own code and nothing else.
    pub policy: Option<PathBuf>,
    /// Accounts that may call it, besides administrators.
    pub invoke: BTreeSet<String>,
    /// Bounds.
    pub limits: Limits,
}

/// Bounds of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Seconds of a call by the clock, from when its input is handed over.
    pub seconds: u64,
    /// Bytes of input.
    pub input: u64,
    /// Bytes of output.
    pub output: u64,
    /// Bytes of the log that are kept; what comes after them is read and forgotten.
    pub log: u64,
    /// Bytes of the output that are kept with the record of the call.
    pub kept: u64,
    /// Calls at a time.
    pub concurrency: usize,
    /// Calls that wait for their turn.
    pub waiting: usize,
    /// Instances that are started ahead of their calls.
    pub warm: usize,
}

impl Default for Limits {
    /// What a small program of a web page needs: half a minute, a megabyte each way, four at a time. Nothing is started ahead, since not every program may be.
    fn default() -> Self {
        Self {
            seconds: 30,
            input: 1 << 20,
            output: 1 << 20,
            log: 64 << 10,
            kept: 64 << 10,
            concurrency: 4,
            waiting: 64,
            warm: 0,
        }
    }
}

/// Bounds of the bounds. Input is streamed; output and log of every call under way are in memory, and the last two are in each record.
mod most {
    pub(super) const SECONDS: u64 = 3_600;
    pub(super) const INPUT: u64 = 1 << 30;
    pub(super) const OUTPUT: u64 = 16 << 20;
    pub(super) const LOG: u64 = 1 << 20;
    pub(super) const KEPT: u64 = 1 << 20;
    pub(super) const CONCURRENCY: u64 = 64;
    pub(super) const WAITING: u64 = 1_000;
    /// Each is a process with its namespaces.
    pub(super) const WARM: u64 = 64;
}

const KEYS: [&str; 4] = ["command", "policy", "invoke", "limits"];
const LIMITS: [&str; 8] = ["seconds", "input", "output", "log", "kept", "concurrency", "waiting", "warm"];

impl Manifest {
    /// Reads one. `file` is what mistakes call the text.
    ///
    /// # Errors
    /// All mistakes, with their places.
    pub fn read(file: &str, text: &[u8]) -> Result<Self, Mistakes> {
        let text = std::str::from_utf8(text)
            .map_err(|error| Mistakes::whole(file, format!("byte {} is not UTF-8", error.valid_up_to())))?;
        let root = DeTable::parse(text).map_err(|error| reader::not_toml(file, text, &error))?;
        let mut reader = Reader::new(file, text);
        let manifest = reader.manifest(root.get_ref());
        reader.finish(manifest)
    }
}

impl Reader<'_> {
    fn manifest(&mut self, root: &DeTable<'_>) -> Manifest {
        self.known(root, "key of a function", &KEYS);
        Manifest {
            command: self.command(root),
            policy: self.policy(root),
            invoke: self.invoke(root),
            limits: self.limits(root),
        }
    }

    fn command(&mut self, root: &DeTable<'_>) -> Vec<String> {
        let Some(value) = root.get("command") else {
            self.wrong(0..0, "`command` is missing: the program and its arguments, as in command = [\"./handler\"]");
            return Vec::new();
        };
        let words = self.texts(value, "a word of `command`", WORDS_MAX);
        if words.first().is_none_or(String::is_empty) {
            self.wrong(value.span(), "`command` names no program");
        }
        if words.iter().any(|word| word.contains('\0')) {
            self.wrong(value.span(), "no word of `command` has a NUL in it");
        }
        words
    }

    fn policy(&mut self, root: &DeTable<'_>) -> Option<PathBuf> {
        let value = root.get("policy")?;
        let path = PathBuf::from(self.text(value, "`policy`")?);
        let inside = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !inside || path == Path::new("") || path.to_string_lossy().contains('\0') {
            self.wrong(value.span(), "`policy` is a file of the folder, such as \"policy.toml\"");
        }
        Some(path)
    }

    fn invoke(&mut self, root: &DeTable<'_>) -> BTreeSet<String> {
        let Some(value) = root.get("invoke") else { return BTreeSet::new() };
        self.texts(value, "an account in `invoke`", ACCOUNTS_MAX).into_iter().collect()
    }

    fn limits(&mut self, root: &DeTable<'_>) -> Limits {
        let usual = Limits::default();
        let Some(table) = self.table(root, "limits") else { return usual };
        self.known(table, "limit of a function", &LIMITS);
        let count = |it: &mut Self, key, least, most, usual: usize| {
            let number = it.number(table, key, least, most);
            number.map_or(usual, |number| usize::try_from(number).unwrap_or(usize::MAX))
        };
        Limits {
            seconds: self.seconds(table, "seconds", most::SECONDS).unwrap_or(usual.seconds),
            input: self.bytes(table, "input", most::INPUT).unwrap_or(usual.input),
            output: self.bytes(table, "output", most::OUTPUT).unwrap_or(usual.output),
            log: self.bytes(table, "log", most::LOG).unwrap_or(usual.log),
            kept: self.bytes(table, "kept", most::KEPT).unwrap_or(usual.kept),
            concurrency: count(self, "concurrency", 1, most::CONCURRENCY, usual.concurrency),
            waiting: count(self, "waiting", 0, most::WAITING, usual.waiting),
            warm: count(self, "warm", 0, most::WARM, usual.warm),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistakes(text: &str) -> String {
        Manifest::read("function.toml", text.as_bytes()).expect_err("mistakes").to_string()
    }

    #[test]
    fn what_is_not_said_has_a_bound_all_the_same() {
        let manifest = Manifest::read("f", b"command = \"./run\"\n").expect("good");
        assert_eq!(manifest.command, ["./run"]);
        assert_eq!((manifest.limits, manifest.policy), (Limits::default(), None));
        assert!(manifest.invoke.is_empty());
    }

    #[test]
    fn everything_can_be_said() {
        let text = "command = [\"sh\", \"-c\", \"cat\"]\npolicy = \"rules/p.toml\"\ninvoke = [\"ann\", \"ben\"]\n[limits]\nseconds = \"2m\"\ninput = \"10M\"\noutput = 5\nlog = \"1K\"\nkept = 0\nconcurrency = 16\nwaiting = 0\nwarm = 3\n";
        let manifest = Manifest::read("f", text.as_bytes()).expect("good");
        let limits = Limits {
            seconds: 120,
            input: 10 << 20,
            output: 5,
            log: 1 << 10,
            kept: 0,
            concurrency: 16,
            waiting: 0,
            warm: 3,
        };
        assert_eq!(manifest.limits, limits);
        assert_eq!(manifest.policy.as_deref(), Some(Path::new("rules/p.toml")));
        assert_eq!(manifest.invoke.len(), 2);
    }

    #[test]
    fn a_mistake_says_where_and_what_was_meant() {
        let said = mistakes(
            "comand = \"x\"\ncommand = 5\n[limits]\n  seconds = 0\nwarn = 1\nconcurrency = 65\ninput = \"2T\"\n",
        );
        for line in [
            "function.toml:1:1: \"comand\" is no key of a function; did you mean \"command\"?",
            "function.toml:2:11: a word of `command` is a text in quotes, and this is of type integer",
            "function.toml:4:13: `seconds` is from 1 second to 3600",
            "function.toml:5:1: \"warn\" is no limit of a function; did you mean \"warm\"?",
            "function.toml:6:15: `concurrency` is from 1 to 64",
            "function.toml:7:9: `input` is at most 1.00 GiB",
        ] {
            assert!(said.contains(line), "{line}\n{said}");
        }
    }

    #[test]
    fn what_is_no_manifest_is_refused() {
        assert!(mistakes("").contains("`command` is missing"));
        assert!(mistakes("command = []").contains("names no program"));
        assert!(mistakes("command = \"x\"\npolicy = \"../p.toml\"").contains("2:10: `policy` is a file of the folder"));
        assert!(mistakes("command = \"x\"\npolicy = \"/etc/p.toml\"").contains("a file of the folder"));
        assert!(mistakes("command = \"x\"\nlimits = 3").contains("2:10: `limits` is a table"));
        assert!(mistakes("command = [").contains("function.toml:1:"));
        let not_text = Manifest::read("f", &[0xff]).expect_err("not text").to_string();
        assert!(not_text.contains("not UTF-8"), "{not_text}");
    }
}
