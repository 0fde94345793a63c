//! `${name}` and `${__P(name,default)}` in the texts of a plan.
//!
//! A variable's value is complete when it is defined (it may refer to those before it), so putting in is never repeated and
//! the work is bounded by the length of the text.

use std::cell::Cell;
use std::collections::BTreeMap;

use anyhow::{bail, ensure};

use super::{EXPANDED_BYTES_MAX, EXPANDED_TOTAL_BYTES_MAX, Properties};

/// References inside the arguments of references.
const DEPTH_MAX: usize = 8;

/// What is defined so far.
pub(super) struct Variables<'p> {
    values: BTreeMap<String, String>,
    properties: &'p Properties,
    /// Bytes of all texts so far.
    expanded_bytes: Cell<usize>,
}

impl<'p> Variables<'p> {
    pub(super) fn new(properties: &'p Properties) -> Self {
        Self { values: BTreeMap::new(), properties, expanded_bytes: Cell::new(0) }
    }

    /// Defines a variable; a later definition replaces an earlier one.
    pub(super) fn define(&mut self, name: &str, value: &str) -> anyhow::Result<()> {
        let (name, value) = (self.expand(name)?, self.expand(value)?);
        self.values.insert(name, value);
        Ok(())
    }

    /// The text with everything put in. A backslash takes the meaning from a dollar, comma or backslash behind it, in a text
    /// that has a reference; in others it is a backslash.
    pub(super) fn expand(&self, text: &str) -> anyhow::Result<String> {
        let expanded = if text.contains("${") { self.expand_at(text, 0)? } else { text.to_owned() };
        ensure!(
            expanded.len() <= EXPANDED_BYTES_MAX,
            "a text with its variables is longer than {EXPANDED_BYTES_MAX} bytes"
        );
        // Also of texts without a reference: what is read twice is kept twice.
        self.expanded_bytes.set(self.expanded_bytes.get() + expanded.len());
        ensure!(
            self.expanded_bytes.get() <= EXPANDED_TOTAL_BYTES_MAX,
            "all texts with their variables are longer than {EXPANDED_TOTAL_BYTES_MAX} bytes"
        );
        Ok(expanded)
    }

    fn expand_at(&self, text: &str, depth: usize) -> anyhow::Result<String> {
        ensure!(depth < DEPTH_MAX, "variables are nested more than {DEPTH_MAX} deep");
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['\\', '$']) {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some(inner) = rest.strip_prefix("${") {
                let Some(end) = end_of_reference(inner) else { bail!("{text:.80?}: a reference has no end") };
                out.push_str(&self.resolve(&inner[..end], depth)?);
                rest = &inner[end + 1..];
            } else {
                let escaped = rest.strip_prefix('\\').and_then(|behind| behind.chars().next());
                let escaped = escaped.filter(|c| matches!(c, '$' | ',' | '\\'));
                out.push(escaped.unwrap_or(if rest.starts_with('$') { '$' } else { '\\' }));
                rest = &rest[1 + usize::from(escaped.is_some())..];
            }
            ensure!(
                out.len() <= EXPANDED_BYTES_MAX,
                "a text with its variables is longer than {EXPANDED_BYTES_MAX} bytes"
            );
        }
        out.push_str(rest);
        Ok(out)
    }

    fn resolve(&self, inner: &str, depth: usize) -> anyhow::Result<String> {
        if let Some(arguments) = inner.trim().strip_prefix("__P(").and_then(|rest| rest.strip_suffix(')')) {
            let (name, default) = split_arguments(arguments);
            let name = self.expand_at(name.trim(), depth + 1)?;
            return match self.properties.get(&name) {
                Some(value) => Ok(value.clone()),
                // JMeter's own default.
                None => default.map_or_else(|| Ok("1".to_owned()), |default| self.expand_at(default, depth + 1)),
            };
        }
        if inner.starts_with("__") {
            bail!("${{{inner:.80}}}: of JMeter's functions only __P is understood");
        }
        match self.values.get(inner) {
            Some(value) => Ok(value.clone()),
            None => bail!("${{{inner:.80}}}: no such variable is defined in the plan"),
        }
    }
}

/// Where the bracket is that ends a reference whose inside `text` begins with.
fn end_of_reference(text: &str) -> Option<usize> {
    let mut depth = 0;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => {}
            '{' => depth += 1,
            '}' if depth == 0 => return Some(at),
            '}' => depth -= 1,
            _ => {}
        }
        escaped = c == '\\' && !escaped;
    }
    None
}

/// Splits at the first comma outside brackets.
fn split_arguments(text: &str) -> (&str, Option<&str>) {
    let mut depth = 0_usize;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => {}
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => return (&text[..at], Some(&text[at + 1..])),
            _ => {}
        }
        escaped = c == '\\' && !escaped;
    }
    (text, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(text: &str) -> anyhow::Result<String> {
        let properties = [("users".to_owned(), "25".to_owned())].into();
        let mut variables = Variables::new(&properties);
        variables.define("host", "example.org")?;
        variables.define("base", "http://${host}/")?;
        variables.define("empty", "")?;
        variables.expand(text)
    }

    #[test]
    fn variables_and_properties_are_put_in() -> anyhow::Result<()> {
        for (text, right) in [
            ("plain $5 \\ text", "plain $5 \\ text"),
            ("${base}a${empty}b", "http://example.org/ab"),
            ("${__P(users,10)}", "25"),
            ("${__P(none,10)}", "10"),
            ("${__P(none)}", "1"),
            ("${__P(none,${__P(other,${host})})}", "example.org"),
            ("${__P(none,)}", ""),
            ("\\${host} ${host} \\\\ \\x", "${host} example.org \\ \\x"),
        ] {
            assert_eq!(expand(text)?, right, "{text}");
        }
        Ok(())
    }

    #[test]
    fn what_is_not_defined_or_not_understood_is_an_error_that_names_it() {
        for (text, named) in [
            ("${nobody}", "${nobody}"),
            ("${__Random(1,2)}", "__Random"),
            ("${host", "no end"),
            ("${__P(a,${host)}", "no end"),
        ] {
            let error = expand(text).expect_err(text).to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn nesting_and_growth_are_bounded() {
        let deep = (0..20).fold("x".to_owned(), |inner, _| format!("${{__P(none,{inner})}}"));
        assert!(expand(&deep).is_err());
        assert!(expand(&"${base}".repeat(10_000)).is_err());
        let properties = Properties::new();
        let mut variables = Variables::new(&properties);
        variables.define("v0", &"x".repeat(100)).expect("short");
        let grown =
            (1..10).try_for_each(|at| variables.define(&format!("v{at}"), &format!("${{v{}}}", at - 1).repeat(100)));
        assert!(grown.is_err(), "a hundred times longer each time");
    }
}
