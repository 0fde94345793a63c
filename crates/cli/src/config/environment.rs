//! Settings in environment variables.

use super::known;
use figment::value::{Dict, Map, Value};
use figment::{Metadata, Profile, Provider};
use holdfast_base::{Error, Result};
use std::ffi::OsString;
use std::path::PathBuf;

/// What every variable begins with.
const PREFIX: &str = "HOLDFAST_";

/// How variables go on that scripts and tests of this tree use, and that are no settings.
const OTHERS: [&str; 6] = ["BIN", "URL", "SEED", "KILLS", "MODEL", "FAULT"];

/// The environment's part of the configuration.
pub(super) struct Variables {
    pub(super) config: Option<PathBuf>,
    pub(super) settings: Vec<Variable>,
}

/// One variable that is a setting.
#[derive(Debug, Clone)]
pub(super) struct Variable {
    name: String,
    key: String,
    value: Value,
}

impl Provider for Variable {
    fn metadata(&self) -> Metadata {
        Metadata::named(format!("environment variable {}", self.name))
    }

    fn data(&self) -> std::result::Result<Map<Profile, Dict>, figment::Error> {
        let mut dict = Dict::new();
        known::insert(&mut dict, &self.key, self.value.clone());
        Ok(Profile::Default.collect(dict))
    }
}

impl Variables {
    /// The data directory, if a variable names it.
    pub(super) fn data(&self) -> Option<PathBuf> {
        let data = self.settings.iter().find(|variable| variable.key == "data")?;
        data.value.as_str().map(PathBuf::from)
    }
}

/// Reads the variables that concern us.
pub(super) fn read(variables: impl Iterator<Item = (String, OsString)>) -> Result<Variables> {
    let mut found = Variables { config: None, settings: Vec::new() };
    for (name, value) in variables {
        let Some(rest) = name.strip_prefix(PREFIX) else { continue };
        if rest == "CONFIG" {
            found.config = Some(value.into());
            continue;
        }
        if OTHERS.iter().any(|other| rest.starts_with(other)) {
            continue;
        }
        let key = if rest == "LOG" { "log.level".to_owned() } else { rest.to_lowercase().replace("__", ".") };
        let variable = || format!("environment variable {name}");
        known::check(&key).map_err(|error| error.context(variable()))?;
        let text = value.into_string().map_err(|_| Error::invalid("is not UTF-8").context(variable()))?;
        let value = typed(&key, &text).map_err(|error| error.context(variable()))?;
        found.settings.push(Variable { name, key, value });
    }
    Ok(found)
}

/// The text as the type the setting has.
fn typed(key: &str, text: &str) -> Result<Value> {
    match known::default_of(key) {
        serde_json::Value::Bool(_) => match text {
            "true" | "1" | "yes" | "on" => Ok(Value::from(true)),
            "false" | "0" | "no" | "off" | "" => Ok(Value::from(false)),
            _ => Err(Error::invalid(format!("{key} is true or false, not {text:?}"))),
        },
        serde_json::Value::Number(_) => text
            .parse::<u64>()
            .map(Value::from)
            .map_err(|_| Error::invalid(format!("{key} is a whole number, not {text:?}"))),
        serde_json::Value::Array(_) => {
            let items: Vec<String> =
                text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(ToOwned::to_owned).collect();
            Ok(Value::from(items))
        }
        _ => Ok(Value::from(text)),
    }
}
