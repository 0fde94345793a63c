//! Job files from those of OODT's pushpull: `RemoteSpecs.xml` (daemons), `ExternalSources.xml` (sites) and specs of directory structures.
//!
//! What can be said is said; what cannot stands there as a comment, so that a person sees what is left to do. Passwords are not taken over: a comment
//! says where to put them. What comes out can be read as a job file.

mod specs;
mod xml;

use crate::schedule::Period;
use crate::template::is_name;
use holdfast_base::{Error, Result};
use std::collections::BTreeSet;
use std::fmt::Write;
use xml::Element;

pub use xml::BYTES_MAX;

/// A file that is imported: its name, and what is in it.
pub type Source = (String, Vec<u8>);

/// Writes a job file of files of any of the three kinds.
pub fn import(sources: &[Source]) -> Result<String> {
    let mut read = Read::default();
    for (name, bytes) in sources {
        let root = xml::read(bytes).map_err(|error| error.context(name))?;
        match root.name.as_str() {
            "remoteSpecs" | "remotespecs" => read.daemons.extend(root.all("daemon").cloned()),
            "sources" => read.sources.extend(root.all("source").cloned()),
            "root" if root.all("dirstruct").next().is_some() => read.specs.push((base(name).to_owned(), root)),
            other => {
                return Err(Error::invalid(format!(
                    "{name} begins with <{other}>, and is no RemoteSpecs.xml, ExternalSources.xml or spec of a directory structure"
                )));
            }
        }
    }
    Ok(read.write())
}

fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

#[derive(Default)]
struct Read {
    daemons: Vec<Element>,
    sources: Vec<Element>,
    specs: Vec<(String, Element)>,
}

impl Read {
    fn write(&self) -> String {
        let mut out = String::from("# Made of files of OODT's pushpull. Comments say what could not be taken over.\n");
        let mut aliases = BTreeSet::new();
        for source in &self.sources {
            for login in source.all("login") {
                site(&mut out, source, login, &mut aliases);
            }
        }
        let mut names = BTreeSet::new();
        for daemon in &self.daemons {
            self.daemon(&mut out, daemon, &mut aliases, &mut names);
        }
        out
    }

    fn daemon(&self, out: &mut String, daemon: &Element, aliases: &mut BTreeSet<String>, names: &mut BTreeSet<String>) {
        let said = daemon.attribute("alias").unwrap_or("unnamed");
        let alias = name_of(said);
        if aliases.insert(alias.clone()) {
            let _ = write!(out, "\n[sites.{alias}]\n");
            comment(out, &format!("no source describes {said}: say where it is"));
            let _ = writeln!(out, "address = {}", quoted(&format!("ftp://{alias}.invalid/")));
        }
        // One more than there are is free.
        let numbered = (2..names.len() + 3).map(|number| format!("{alias}-{number}"));
        let name = std::iter::once(alias.clone()).chain(numbered).find(|name| names.insert(name.clone()));
        let _ = write!(out, "\n[jobs.{}]\n", name.unwrap_or_default());
        if daemon.attribute("active") == Some("no") {
            out.push_str("active = false\n");
        }
        let empty = Element::default();
        let data = daemon.child("dataInfo").unwrap_or(&empty);
        self.what(out, daemon, &alias);
        let area = data.attribute("stagingArea").unwrap_or(&alias);
        if area.contains('[') {
            comment(out, &format!("an environment variable of the old tool is in this path: {area}"));
        }
        let _ = writeln!(
            out,
            "to = {}",
            quoted(&format!("./{}", braces(area.trim_start_matches("./"))).replace(".//", "/"))
        );
        schedule(out, daemon.child("runInfo").unwrap_or(&empty));
        if data.attribute("deleteFromServer") == Some("yes") {
            out.push_str("delete-source = true\nverify = true\n");
        }
        rename(out, data.attribute("renamingConv"));
        if let Some(element) = data.attribute("queryElement") {
            comment(
                out,
                &format!(
                    "queryElement {element} is not needed: what is at the destination is compared by size and time"
                ),
            );
        }
        if data.attribute("allowAliasOverride") == Some("yes") {
            comment(out, "a list could name another site (allowAliasOverride): an order cannot");
        }
    }

    /// What a daemon moves: what specs say that were given, and otherwise all.
    fn what(&self, out: &mut String, daemon: &Element, alias: &str) {
        let (mut start, mut expressions) = (None, Vec::new());
        for files in daemon.all("propFiles") {
            let (pattern, parser) =
                (files.attribute("regExp").unwrap_or_default(), files.attribute("parser").unwrap_or_default());
            let parser = parser.rsplit('.').next().unwrap_or(parser);
            let matching = regex::Regex::new(&format!("^(?:{pattern})$"));
            let specs =
                self.specs.iter().filter(|(name, _)| matching.as_ref().is_ok_and(|matching| matching.is_match(name)));
            let mut known = false;
            for (_, spec) in specs.filter(|_| parser == "DirStructXmlParser") {
                known = true;
                for structure in spec.all("dirstruct") {
                    let path = structure.attribute("starting_path").unwrap_or("/").to_owned();
                    if start.get_or_insert_with(|| path.clone()) == &path {
                        specs::expressions(out, structure, &mut expressions);
                    } else {
                        comment(out, &format!("another structure begins at {path}: make a job of its own of it"));
                    }
                }
            }
            if !known {
                comment(out, &unknown(pattern, parser));
            }
        }
        for info in daemon.all("downloadInfo") {
            let from = info.attribute("alias").unwrap_or("another site");
            comment(out, &format!("its orders came from {from}: let another job bring them to an inbox of this one"));
        }
        if let Some(after) = daemon.all("afterUse").next() {
            let done = after.attribute("moveToOnSuccess").unwrap_or("nowhere");
            comment(out, &format!("orders that were done went to {done}: an inbox has done/ and failed/"));
        }
        let path = start.unwrap_or_else(|| "/".into());
        let path = braces(path.trim_matches('/'));
        if path.contains('[') {
            comment(
                out,
                "a variable or method of the old tool is in this path: {today:%Y} and variables take its place",
            );
        }
        let from = if path.is_empty() { format!("{alias}:.") } else { format!("{alias}:{path}/.") };
        let _ = writeln!(out, "from = {}", quoted(&from));
        if !expressions.is_empty() {
            let list: Vec<String> = expressions.iter().map(|expression| quoted(expression)).collect();
            let _ = writeln!(out, "include-regex = [{}]", list.join(", "));
        }
    }
}

fn unknown(pattern: &str, parser: &str) -> String {
    match parser {
        "DirStructXmlParser" => format!(
            "what is moved is said by the specs {pattern}: name those files to the import as well, or write include"
        ),
        "FileListParser" => format!(
            "what is moved is listed in {pattern}: names-from reads such a list, without its first line, which is for from"
        ),
        _ => format!("what is moved was read from {pattern} by {parser}: an inbox takes lists of names"),
    }
}

fn site(out: &mut String, source: &Element, login: &Element, aliases: &mut BTreeSet<String>) {
    let said = login.attribute("alias").unwrap_or("unnamed");
    let alias = name_of(said);
    if !aliases.insert(alias.clone()) {
        comment(out, &format!("there is another login {said}, which is left out"));
        return;
    }
    let host = source.attribute("host").unwrap_or("unknown.invalid");
    let kind = login.attribute("type").unwrap_or("ftp");
    let address = match kind {
        "file" => "/".to_owned(),
        "http" | "https" => format!("web:{kind}://{host}/"),
        kind => format!("{}://{host}/", name_of(kind).to_ascii_lowercase()),
    };
    let _ = write!(out, "\n[sites.{alias}]\n");
    if said != alias {
        comment(out, &format!("was called {said}"));
    }
    let address = if crate::place::check_address(&address).is_ok() { address } else { "ftp://unknown.invalid/".into() };
    let _ = writeln!(out, "address = {}", quoted(&address));
    match login.text_of("maxConn").map(str::parse::<u16>) {
        Some(Ok(count @ 1..=64)) => {
            let _ = writeln!(out, "connections = {count}");
        }
        Some(_) => comment(out, "connections are 1 to 64"),
        None => {}
    }
    if let Some(folder) = login.text_of("cdTestDir") {
        comment(out, &format!("it was tried by going to {folder}, which is not needed"));
    }
    let user = login.text_of("username").filter(|user| *user != "none");
    let password = login.text_of("password").filter(|password| *password != "none");
    if user.is_none() && password.is_none() {
        return;
    }
    let _ = writeln!(out, "[sites.{alias}.login]");
    if let Some(user) = user {
        let _ = writeln!(out, "user = {}", quoted(user));
    }
    if password.is_some() {
        comment(out, "its password is not here: write it into this file, which only you can read");
        let _ = writeln!(out, "password-file = {}", quoted(&format!("{alias}.password")));
    }
}

fn schedule(out: &mut String, info: &Element) {
    if let Some(start) = info.attribute("firstRunDateTime") {
        if <crate::schedule::Start as crate::file::said::Read>::read(start).is_ok() {
            let _ = writeln!(out, "start = {}", quoted(start));
        } else {
            comment(out, &format!("its first run was {start}"));
        }
    }
    match info.attribute("period") {
        Some(period) if Period::parse(period).is_ok() => {
            let _ = writeln!(out, "every = {}", quoted(period));
        }
        Some(period) => comment(out, &format!("its period was {period}")),
        None => comment(out, "it had no period, and was run once"),
    }
    match info.attribute("epsilon") {
        Some(late) if holdfast_transfer::filter::parse_age(late).is_ok() => {
            let _ = writeln!(out, "tolerance = {}", quoted(late));
        }
        Some(late) => comment(out, &format!("its epsilon was {late}")),
        None => {}
    }
    if info.attribute("runOnReboot") == Some("yes") {
        out.push_str("run-on-start = true\n");
    }
}

fn rename(out: &mut String, convention: Option<&str>) {
    let Some(convention) = convention else { return };
    let mut text = braces(convention);
    for (old, new) in [("[FILENAME]", "{name}"), ("[PATH_NO_FILENAME]", "{parent}"), ("[DATE.UTC]", "{today}")] {
        text = text.replace(old, new);
    }
    let folder = text.contains("[PARENT_FILENAME]");
    text = text.replace("[PARENT_FILENAME]", "{folder}");
    if text.contains(['[', ']']) {
        comment(out, &format!("its names were made so: {convention}"));
        return;
    }
    let _ = writeln!(out, "rename = {}", quoted(&text));
    if folder {
        let _ = writeln!(out, "rename-match = {}", quoted("(?:^|/)(?<folder>[^/]+)/[^/]+$"));
    }
}

/// A name as one can be: other characters become dashes.
fn name_of(text: &str) -> String {
    let name: String =
        text.chars().take(60).map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).collect();
    let name = name.trim_start_matches('-').to_owned();
    if is_name(&name) && name != "web" { name } else { format!("site-{name}").trim_end_matches('-').to_owned() }
}

fn braces(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect::<String>().replace('{', "{{").replace('}', "}}")
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

fn comment(out: &mut String, text: &str) {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let _ = writeln!(out, "# {line}");
}

#[cfg(test)]
mod tests;
