//! Configuration: defaults, then a TOML file, then the environment, then flags; the later wins, key by key.
//!
//! The file is `--config`, or `HOLDFAST_CONFIG`, or `holdfast.toml` in the data directory if it is there. A key's variable is its
//! name in capitals with `__` between table and key: `tls.cert` is `HOLDFAST_TLS__CERT`. Lists are separated by commas.
//! `HOLDFAST_LOG` is short for `log.level`.
//!
//! A key nobody knows is an error that names the nearest one, wherever it comes from: a limit that is misspelt must not
//! be silently absent. The known keys are those of [`ServerConfig`] itself, so they cannot fall behind.

mod environment;
mod known;

use figment::providers::{Format, Serialized, Toml};
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};
use holdfast_base::{Error, Result};
use holdfast_server::ServerConfig;
use std::path::{Path, PathBuf};

pub(crate) use known::known_keys;

/// The merged configuration, with where each value came from.
pub(crate) struct Merged {
    figment: Figment,
    pub(crate) config: ServerConfig,
}

/// One key of the merged configuration.
pub(crate) struct Setting {
    pub(crate) key: String,
    pub(crate) value: serde_json::Value,
    pub(crate) origin: String,
}

/// Values given as flags: keys with dots, and values.
#[derive(Debug, Default, Clone)]
pub(crate) struct Flags(Dict);

impl Flags {
    /// Notes a flag, if it was given.
    pub(crate) fn set(&mut self, key: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            known::insert(&mut self.0, key, value.into());
        }
    }
}

impl Provider for Flags {
    fn metadata(&self) -> Metadata {
        Metadata::named("command line")
    }

    fn data(&self) -> std::result::Result<Map<Profile, Dict>, figment::Error> {
        Ok(Profile::Default.collect(self.0.clone()))
    }
}

/// Merges everything. `data` is the data directory as far as flags and environment name it.
pub(crate) fn load(file: Option<&Path>, data: Option<&Path>, flags: Flags) -> Result<Merged> {
    load_with(file, data, flags, std::env::vars_os().filter_map(|(key, value)| Some((key.into_string().ok()?, value))))
}

fn load_with(
    file: Option<&Path>,
    data: Option<&Path>,
    flags: Flags,
    variables: impl Iterator<Item = (String, std::ffi::OsString)>,
) -> Result<Merged> {
    let mut figment = Figment::from(Serialized::defaults(ServerConfig::default()));
    let variables = environment::read(variables)?;
    let named = file.map(Path::to_owned).or_else(|| variables.config.clone());
    let data = data.map(Path::to_owned).or_else(|| variables.data());
    let implied = data.map(|data| data.join("holdfast.toml")).filter(|path| path.is_file());
    if let Some(path) = named.or(implied) {
        figment = figment.merge(read_file(&path)?);
    }
    for variable in variables.settings {
        figment = figment.merge(variable);
    }
    figment = figment.merge(flags);
    let config = figment.extract().map_err(|error| explain(&error))?;
    Ok(Merged { figment, config })
}

fn read_file(path: &PathBuf) -> Result<figment::providers::Data<Toml>> {
    if !path.is_file() {
        return Err(Error::not_found(format!("there is no configuration file {}", path.display())));
    }
    let provider = Toml::file_exact(path);
    let data = provider.data().map_err(|error| Error::invalid(format!("{}: {error}", path.display())))?;
    for dict in data.values() {
        for key in known::flatten(dict) {
            known::check(&key).map_err(|error| error.context(path.display()))?;
        }
    }
    Ok(provider)
}

/// A wrong type or value, with its key and where it was set.
fn explain(error: &figment::Error) -> Error {
    let messages: Vec<String> = error
        .clone()
        .into_iter()
        .map(|error| {
            let origin =
                error.metadata.as_ref().map_or_else(String::new, |metadata| format!(" ({})", origin_of(metadata)));
            format!("{}: {}{origin}", error.path.join("."), error.kind)
        })
        .collect();
    Error::invalid(format!("configuration: {}", messages.join("; ")))
}

fn origin_of(metadata: &Metadata) -> String {
    match &metadata.source {
        Some(figment::Source::File(path)) => path.display().to_string(),
        _ if metadata.name.contains("ServerConfig") => "default".into(),
        _ => metadata.name.to_string(),
    }
}

impl Merged {
    /// Every key with its value and origin, in the order of the struct's keys.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let all = serde_json::to_value(&self.config).unwrap_or_default();
        known_keys()
            .into_iter()
            .map(|key| {
                let value = key.split('.').fold(&all, |value, part| &value[part]).clone();
                let origin = self.figment.find_metadata(&key).map_or_else(|| "default".into(), origin_of);
                Setting { key, value, origin }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
