//! The operations of the pair and their arguments, and what they are here.

use crate::form::PATH_MAX_BYTES;
use crate::{Conditions, Operation, Operations};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// An operation of the pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Word {
    /// Opening, which here is part of what it is opened for.
    Open,
    /// Finding a name again that was found before.
    Lookup2,
    /// Every operation.
    Default,
    /// One that is here too.
    Same(Operation),
}

/// Names that are not those of ours.
const NAMES: [(&str, Word); 4] = [
    ("open", Word::Open),
    ("lookup2", Word::Lookup2),
    ("default", Word::Default),
    ("iterate", Word::Same(Operation::Readdir)),
];
/// Operations that the pair does not have under our name.
const UNKNOWN: [Operation; 4] = [Operation::Readdir, Operation::Truncate, Operation::Xattr, Operation::Exec];

/// All names, for mistakes.
pub(super) fn names() -> Vec<&'static str> {
    let same = Operation::ALL.into_iter().filter(|operation| !UNKNOWN.contains(operation)).map(Operation::name);
    same.chain(NAMES.iter().map(|(name, _)| *name)).collect()
}

/// An operation by name.
pub(super) fn word(name: &str) -> Option<Word> {
    let own = NAMES.iter().find(|(own, _)| *own == name).map(|(_, word)| *word);
    let same = || Operation::ALL.into_iter().find(|operation| !UNKNOWN.contains(operation) && operation.name() == name);
    own.or_else(|| same().map(Word::Same))
}

/// What is refused with an operation. Without opening nothing can be read, written, listed, mapped or executed; what `setattr` and `write` refuse is refused too
/// where `BoesFS` had no hook of its own for it (`truncate`, extended attributes).
pub(super) fn refused(word: Word) -> Operations {
    use Operation::{Exec, Getattr, Lookup, Mmap, Read, Readdir, Setattr, Truncate, Write, Xattr};
    match word {
        Word::Default => Operations::ALL,
        Word::Open => Operations::of(&[Read, Write, Readdir, Mmap, Exec]),
        Word::Lookup2 => Operations::of(&[Lookup]),
        Word::Same(Read) => Operations::of(&[Read, Exec]),
        Word::Same(Write) => Operations::of(&[Write, Truncate]),
        Word::Same(Setattr) => Operations::of(&[Setattr, Truncate, Xattr]),
        Word::Same(Getattr) => Operations::of(&[Getattr, Xattr]),
        Word::Same(other) => Operations::of(&[other]),
    }
}

/// What is allowed by operations together, and one more. Reading, writing, mapping and executing need `open` beside their own; what may be opened may be
/// listed, on which the policies that come with `BoesFS` rely.
pub(super) fn granted(words: &BTreeSet<Word>, more: Option<Word>) -> Operations {
    use Operation::{Exec, Getattr, Lookup, Mmap, Read, Readdir, Setattr, Truncate, Write, Xattr};
    let has = |word| words.contains(&word) || more == Some(word) || words.contains(&Word::Default);
    let same = |operation| has(Word::Same(operation));
    let may = |operation: &Operation| match *operation {
        Read | Exec => has(Word::Open) && same(Read),
        Write => has(Word::Open) && same(Write),
        Mmap => has(Word::Open) && same(Mmap),
        Readdir => has(Word::Open),
        Lookup => same(Lookup) || has(Word::Lookup2),
        Truncate => same(Write),
        Xattr => same(Getattr) && same(Setattr),
        other => same(other),
    };
    Operation::ALL.into_iter().filter(may).collect()
}

/// Reads the arguments of an operation, in its order; `*` is any.
pub(super) fn arguments(word: Word, given: &[&str]) -> Result<Conditions, String> {
    let names = argument_names(word);
    if given.len() > names.len() && given.iter().any(|value| *value != "*") {
        return Err(format!("this operation has {} arguments, and here are {}", names.len(), given.len()));
    }
    let mut conditions = Conditions::default();
    for (name, value) in names.iter().zip(given).filter(|(_, value)| **value != "*") {
        set(&mut conditions, name, value).ok_or_else(|| format!("{value:?} is no {name}"))?;
    }
    Ok(conditions)
}

fn argument_names(word: Word) -> &'static [&'static str] {
    let Word::Same(operation) = word else { return if word == Word::Lookup2 { &["flags"] } else { &[] } };
    match operation {
        Operation::Read | Operation::Write => &["length", "offset"],
        Operation::Lookup => &["flags"],
        Operation::Mkdir | Operation::Create => &["mode"],
        Operation::Mknod => &["mode", "device"],
        Operation::Link | Operation::Symlink | Operation::Rename => &["other"],
        Operation::Setattr => &["mode", "uid", "gid"],
        Operation::Llseek => &["offset", "whence"],
        Operation::Mmap => &["start", "end"],
        Operation::Fsync => &["length"],
        _ => &[],
    }
}

/// Sets a condition; nothing if the value cannot be one. Numbers are decimal, modes too, of which the bits of permission count.
fn set(conditions: &mut Conditions, name: &str, value: &str) -> Option<()> {
    match name {
        "length" => conditions.length = Some(value.parse().ok()?),
        "offset" => conditions.offset = Some(value.parse().ok()?),
        "whence" => conditions.whence = Some(value.parse().ok()?),
        "mode" => conditions.mode = Some(value.parse::<u32>().ok()? & 0o7777),
        "device" => conditions.device = Some(value.parse().ok()?),
        "uid" => conditions.uid = Some(value.parse().ok()?),
        "gid" => conditions.gid = Some(value.parse().ok()?),
        "flags" => conditions.flags = Some(value.parse().ok()?),
        "start" => conditions.start = Some(value.parse().ok()?),
        "end" => conditions.end = Some(value.parse().ok()?),
        _ => {
            let path = !value.is_empty() && value.len() <= PATH_MAX_BYTES && !value.contains('\0');
            conditions.other = Some(path.then(|| PathBuf::from(value))?);
        }
    }
    Some(())
}
