//! Writes a policy in its TOML form, so that reading it gives the same rules.

use crate::{Conditions, Decision, Limits, Network, Operation, Operations, Policy, Rule, Scope, Settings, UnixSockets};
use std::collections::HashSet;
use std::fmt::Write;

impl Policy {
    /// The TOML form of any policy. Read again, it has the same rules in the same order but for those of the short form, which come first, and so decides the same.
    pub fn to_toml(&self) -> String {
        let default = if self.default() == Decision::Allow { "allow" } else { "deny" };
        let mut out = format!("default = \"{default}\"\n");
        if !self.implies_ways() {
            out.push_str("implied-ways = false\n");
        }
        top_settings(&mut out, &self.settings);
        let (short, rest): (Vec<_>, Vec<_>) =
            self.rules().iter().zip(shorts(self.rules())).partition(|(_, short)| *short);
        files(&mut out, &short);
        rest.iter().filter(|(rule, _)| !rule.operations().is_empty()).for_each(|(rule, _)| long(&mut out, rule));
        tables(&mut out, &self.settings);
        out
    }
}

/// A text in quotes, in one line: the library's own choice of quotes may be one that no key can have.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if letter.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

/// A list of texts.
fn list<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    let texts: Vec<_> = texts.into_iter().map(|text| quoted(text.as_ref())).collect();
    format!("[{}]", texts.join(", "))
}

/// What may be done, as a word where there is one.
pub(crate) fn operations(set: Operations) -> String {
    set.group().map_or_else(|| list(set.iter().map(Operation::name)), quoted)
}

/// Which rules the short form can say: `file` and `dir` it does not know, and it says each path once.
///
/// Of patterns that meet, the later one counts, and what is in the short form comes first; so after one that must be long, the rest of them is long too.
fn shorts(rules: &[Rule]) -> Vec<bool> {
    let (mut seen, mut late) = (HashSet::new(), false);
    let short = |rule: &Rule| {
        let glob = matches!(rule.scope, Scope::Glob(_));
        let plain = rule.entry && rule.is_unconditional() && rule.operations() == Operations::ALL;
        let short = plain && short_key(rule).is_some_and(|key| !(glob && late) && seen.insert(key));
        late |= glob && rule.entry && !short;
        short
    };
    rules.iter().map(short).collect()
}

/// The key of the short form; none for a pattern without wildcards, which would be read as a path.
fn short_key(rule: &Rule) -> Option<String> {
    let (word, written) = rule.scope.written();
    let key = word == "tree" || crate::text::is_pattern(&written);
    key.then_some(written)
}

// Writing to a string cannot fail.
fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(format_args!("{text}\n"));
}

fn files(out: &mut String, short: &[(&Rule, bool)]) {
    if !short.is_empty() {
        out.push_str("\n[files]\n");
    }
    for (rule, _) in short {
        let key = short_key(rule).unwrap_or_default();
        line(out, format_args!("{} = {}", quoted(&key), operations(rule.allow)));
    }
}

fn long(out: &mut String, rule: &Rule) {
    out.push_str("\n[[rule]]\n");
    if !rule.allow.is_empty() || rule.deny.is_empty() {
        line(out, format_args!("allow = {}", operations(rule.allow)));
    }
    if !rule.deny.is_empty() {
        let word =
            if rule.deny == Operations::ALL { quoted("all") } else { list(rule.deny.iter().map(Operation::name)) };
        line(out, format_args!("deny = {word}"));
    }
    let (word, written) = rule.scope.written();
    line(out, format_args!("{word} = {}", quoted(&written)));
    if let Some(programs) = &rule.programs {
        line(out, format_args!("program = {}", list(programs.written())));
    }
    if rule.conditions.count() > 0 {
        line(out, format_args!("arguments = {}", arguments(&rule.conditions)));
    }
    if rule.entry {
        out.push_str("yields = true\n");
    }
}

fn arguments(conditions: &Conditions) -> String {
    let value = |(name, value): (&str, String)| match name {
        "other" => format!("{name} = {}", quoted(&value)),
        _ => format!("{name} = {value}"),
    };
    let named: Vec<_> = conditions.named().into_iter().map(value).collect();
    format!("{{ {} }}", named.join(", "))
}

/// What stands before the first table.
fn top_settings(out: &mut String, settings: &Settings) {
    if let Some(directory) = &settings.directory {
        let path = crate::text::write(directory.as_os_str().as_encoded_bytes());
        line(out, format_args!("directory = {}", quoted(&path)));
    }
    match &settings.network {
        Network::None => {}
        Network::All => out.push_str("network = \"all\"\n"),
        Network::Ports { connect, bind } => {
            let ports = |ports: &std::collections::BTreeSet<u16>| {
                ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
            };
            line(out, format_args!("network = {{ tcp-connect = [{}], tcp-bind = [{}] }}", ports(connect), ports(bind)));
        }
    }
    if settings.unix_sockets != UnixSockets::default() {
        line(out, format_args!("unix-sockets = {}", quoted(settings.unix_sockets.word())));
    }
    if !settings.devices.is_empty() {
        line(out, format_args!("devices = {}", list(settings.devices.iter().map(|device| device.name()))));
    }
}

fn tables(out: &mut String, settings: &Settings) {
    let environment = &settings.environment;
    if environment != &crate::Environment::default() {
        out.push_str("\n[environment]\n");
        if !environment.keep.is_empty() {
            line(out, format_args!("keep = {}", list(&environment.keep)));
        }
        let set: Vec<_> = environment.set.iter().map(|(name, value)| format!("{name} = {}", quoted(value))).collect();
        if !set.is_empty() {
            line(out, format_args!("set = {{ {} }}", set.join(", ")));
        }
    }
    if settings.limits != Limits::default() {
        out.push_str("\n[limits]\n");
        for (name, limit) in settings.limits.named() {
            if let Some(most) = limit {
                line(out, format_args!("{name} = {}", Limits::written(name, most)));
            }
        }
    }
}
