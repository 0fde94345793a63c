//! The short form: `[files]`, a path with what may be done to it and below.

use super::paths::Kind;
use super::reader::Reader;
use crate::Rule;
use toml::de::DeTable;

/// Reads `[files]`, in order of writing.
pub(super) fn read(reader: &mut Reader<'_>, root: &DeTable<'_>) -> Vec<Rule> {
    let mut lines: Vec<_> = reader.table(root, "files").into_iter().flatten().collect();
    lines.sort_by_key(|(key, _)| key.span().start);
    let mut rules = Vec::new();
    for (key, value) in lines {
        let scope = reader.scope(Kind::Path, key.get_ref(), key.span());
        if let (Some(scope), Some(allowed)) = (scope, reader.allowed(value)) {
            let line = reader.line(&key.span());
            rules.extend(reader.counted(key.span()).then(|| Rule { line, ..Rule::entry(scope, allowed) }));
        }
    }
    rules
}
