//! The TOML form of a policy, as people write it; docs/policy.md is its reference.
//!
//! The text becomes a tree whose every part knows its place; each table of it is read by a module of its own, which notes what is wrong and goes on,
//! so that one look shows all mistakes. Nothing is expanded or guessed: `~` and `$NAME` in a path are mistakes.

mod files;
mod names;
mod operations;
mod paths;
mod reader;
mod roles;
mod rules;
mod settings;
mod write;

pub(crate) use write::{operations as operations_written, quoted};

use crate::mistake::{Lines, Mistakes};
use crate::{Decision, Policy, Rule};
use reader::Reader;
use std::path::Path;
use toml::de::DeTable;

/// The largest text of a policy. A machine made one with 10,000 rules is a third of it.
pub const TEXT_MAX_BYTES: usize = 1 << 20;
/// The most rules of a policy, after lists of paths and roles of operations are written out.
pub const RULES_MAX: usize = 100_000;
/// The longest path: that of Linux (`PATH_MAX`).
pub const PATH_MAX_BYTES: usize = 4096;
/// The most parts of a path: deeper than any tree people have, and each may be a node of the index, and a folder on the way that is asked about.
pub const PATH_MAX_PARTS: usize = 256;
/// The most patterns of a policy: each is part of an automaton that is in memory as long as the policy.
pub const PATTERNS_MAX: usize = 1000;
/// The most bytes of all patterns of a policy together: their automata are some hundred times as large.
pub const PATTERNS_MAX_BYTES: usize = 64 << 10;

/// The tables and keys of a policy.
const KEYS: [&str; 11] = [
    "default",
    "implied-ways",
    "files",
    "rule",
    "roles",
    "environment",
    "directory",
    "network",
    "unix-sockets",
    "limits",
    "devices",
];

impl Policy {
    /// Reads the TOML form. `file` is what mistakes call the text, `base` the absolute folder that relative paths in it begin at.
    ///
    /// # Errors
    /// All mistakes, with their places.
    pub fn from_toml(file: &str, base: &Path, text: &[u8]) -> Result<Self, Mistakes> {
        let text = decoded(file, text)?;
        let root = DeTable::parse(text).map_err(|error| {
            let place = error.span().map_or((0, 0), |span| Lines::new(text).place(span.start));
            let mut mistakes = Mistakes::whole(file, error.message().replace('\n', " "));
            (mistakes.0[0].line, mistakes.0[0].column) = place;
            mistakes
        })?;
        let mut reader = Reader::new(file, base, text);
        let policy = read(&mut reader, root.get_ref());
        let policy = reader.finish(policy)?;
        let (default, ways, rules, settings) = policy;
        Self::new(default, ways, rules, settings).map_err(|error| Mistakes::whole(file, error.to_string()))
    }
}

/// The text, if it is no longer than allowed and is text.
pub(crate) fn decoded<'a>(file: &str, text: &'a [u8]) -> Result<&'a str, Mistakes> {
    if text.len() > TEXT_MAX_BYTES {
        return Err(Mistakes::whole(
            file,
            format!("{} bytes are more than the {TEXT_MAX_BYTES} a policy may have", text.len()),
        ));
    }
    std::str::from_utf8(text).map_err(|error| {
        let at = error.valid_up_to();
        Mistakes::whole(file, format!("byte {at} is not UTF-8; a name that is not is written `bytes:` with \\xHH"))
    })
}

type Parts = (Decision, bool, Vec<Rule>, crate::Settings);

fn read(reader: &mut Reader<'_>, root: &DeTable<'_>) -> Parts {
    reader.known(root, "key of a policy", &KEYS);
    let default = match reader.word(root, "default", &["allow", "deny"]) {
        Some("allow") => Decision::Allow,
        _ => Decision::Deny,
    };
    let ways = reader.boolean(root, "implied-ways").unwrap_or(true);
    let named = roles::read(reader, root);
    let mut rules = files::read(reader, root);
    rules.extend(rules::read(reader, root, &named));
    reader.agree(&rules);
    let settings = settings::read(reader, root);
    (default, ways, rules, settings)
}

#[cfg(test)]
mod tests;
