//! Patterns of policies, read from docs/policy.md alone: for oracles, so it shares nothing with what it judges.

/// Whether the parts of a path fit those of a pattern: `**` is any number of parts, and at the end at least one.
pub fn parts_fit(pattern: &[&str], names: &[&str]) -> bool {
    match (pattern, names) {
        ([], []) => true,
        (["**"], names) => !names.is_empty(),
        (["**", rest @ ..], names) => (0..=names.len()).any(|skipped| parts_fit(rest, &names[skipped..])),
        ([part, rest @ ..], [name, names @ ..]) => {
            name_fits(part.as_bytes(), name.as_bytes()) && parts_fit(rest, names)
        }
        _ => false,
    }
}

/// Whether a name fits a part of a pattern: `*`, `?`, and ranges like `[a-c]`.
pub fn name_fits(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => (0..=name.len()).any(|skipped| name_fits(rest, &name[skipped..])),
        ([b'?', rest @ ..], [_, names @ ..]) => name_fits(rest, names),
        ([b'[', from, b'-', to, b']', rest @ ..], [byte, names @ ..]) => {
            (from..=to).contains(&byte) && name_fits(rest, names)
        }
        ([wanted, rest @ ..], [byte, names @ ..]) => wanted == byte && name_fits(rest, names),
        _ => false,
    }
}
