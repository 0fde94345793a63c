//! The keys there are, taken from the configuration's own defaults.

use figment::value::{Dict, Value};
use holdfast_base::{Error, Result};
use holdfast_server::ServerConfig;

/// A key this far from what was written is not worth proposing.
const SIMILARITY_MIN: f64 = 0.6;

/// Every key, with dots, in order.
pub(crate) fn known_keys() -> Vec<String> {
    fn walk(prefix: &str, value: &serde_json::Value, keys: &mut Vec<String>) {
        let serde_json::Value::Object(fields) = value else { return keys.push(prefix.to_owned()) };
        for (name, value) in fields {
            let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            walk(&key, value, keys);
        }
    }
    let mut keys = Vec::new();
    walk("", &serde_json::to_value(ServerConfig::default()).unwrap_or_default(), &mut keys);
    keys
}

/// The default at a key, from which the type of an environment variable's text is taken.
pub(super) fn default_of(key: &str) -> serde_json::Value {
    let all = serde_json::to_value(ServerConfig::default()).unwrap_or_default();
    key.split('.').fold(&all, |value, part| &value[part]).clone()
}

/// Refuses a key that does not exist and names the nearest one that does.
pub(super) fn check(key: &str) -> Result<()> {
    let keys = known_keys();
    if keys.iter().any(|known| known == key) {
        return Ok(());
    }
    let nearest = nearest(key, &keys);
    let hint = nearest.map_or_else(String::new, |nearest| format!("; did you mean {nearest}?"));
    Err(Error::invalid(format!("there is no setting {key}{hint}")))
}

/// The key most like `key`, as a whole or by its last part alone (somebody who forgot the table).
pub(super) fn nearest<'a>(key: &str, keys: &'a [String]) -> Option<&'a str> {
    let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let score = |known: &str| strsim::jaro_winkler(key, known).max(strsim::jaro_winkler(&last(key), &last(known)));
    keys.iter()
        .map(|known| (score(known), known.as_str()))
        // Of equals the shorter key: it is the one without a table.
        .max_by(|(one, key), (other, longer)| one.total_cmp(other).then_with(|| longer.len().cmp(&key.len())))
        .filter(|(score, _)| *score >= SIMILARITY_MIN)
        .map(|(_, known)| known)
}

/// The keys of a tree of values, with dots. A value where a table belongs is left to the type check.
pub(super) fn flatten(dict: &Dict) -> Vec<String> {
    fn walk(prefix: &str, dict: &Dict, tables: &[String], keys: &mut Vec<String>) {
        for (name, value) in dict {
            let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            match value {
                Value::Dict(_, inner) => walk(&key, inner, tables, keys),
                _ if tables.contains(&key) => {}
                _ => keys.push(key),
            }
        }
    }
    let tables: Vec<String> = known_keys().iter().filter_map(|key| Some(key.rsplit_once('.')?.0.to_owned())).collect();
    let mut keys = Vec::new();
    walk("", dict, &tables, &mut keys);
    keys
}

/// Puts a value at a key with dots.
pub(super) fn insert(dict: &mut Dict, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            dict.insert(key.to_owned(), value);
        }
        Some((table, rest)) => {
            let inner = dict.entry(table.to_owned()).or_insert_with(|| Value::from(Dict::new()));
            if let Value::Dict(_, inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}
