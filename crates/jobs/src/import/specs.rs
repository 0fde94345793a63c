//! Specs of directory structures, as expressions of paths.
//!
//! A folder without `dir` lets all folders in, one without `file` all files; `nodirs` and `nofiles` let in none. Names are expressions that match whole
//! names.

use super::comment;
use super::xml::Element;
use regex::Regex;

/// Expressions of one job; more are left out, and said.
const EXPRESSIONS_MAX: usize = 1_000;

/// Adds the expressions of a structure.
pub(super) fn expressions(out: &mut String, structure: &Element, all: &mut Vec<String>) {
    below(out, structure, "^", all);
    if all.len() > EXPRESSIONS_MAX {
        all.truncate(EXPRESSIONS_MAX);
        comment(out, "it had more files than can be said here: write them as expressions that match several");
    }
}

fn below(out: &mut String, folder: &Element, path: &str, all: &mut Vec<String>) {
    let has = |name| folder.child(name).is_some();
    if !has("nofiles") && !has("file") {
        all.push(format!("{path}[^/]+$"));
    }
    if !has("nodirs") && !has("dir") {
        all.push(format!("{path}[^/]+/"));
    }
    for child in &folder.children {
        let Some(name) = child.attribute("name") else { continue };
        let of_file = format!("{path}(?:{name})$");
        match child.name.as_str() {
            "file" | "dir" if name.contains("[$") || Regex::new(&of_file).is_err() => {
                comment(out, &format!("{name} is no expression that is understood here; write it in include-regex"));
            }
            "file" => all.push(of_file),
            "dir" => below(out, child, &format!("{path}(?:{name})/"), all),
            _ => {}
        }
        if all.len() > EXPRESSIONS_MAX {
            return;
        }
    }
}
