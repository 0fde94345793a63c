//! The options of an address: taken one by one, by name; what is left over at the end is unknown.

use holdfast_base::{Error, Result};
use percent_encoding::percent_decode_str;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

/// Longest address: what fits a line of a configuration, many times over.
pub(super) const URL_BYTES_MAX: usize = 8 << 10;

/// Names that would be secrets.
const SECRETS: [&str; 8] =
    ["key", "secret", "password", "token", "secret_key", "access_key", "secret_access_key", "access_key_id"];

/// Options that were given and not yet taken.
#[derive(Debug)]
pub(super) struct Query {
    values: BTreeMap<String, String>,
    /// Every name that was asked for: the options there are.
    known: Vec<&'static str>,
}

impl Query {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut values = BTreeMap::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| Error::invalid(format!("{pair:?} is no option: options are name=value")))?;
            let value = percent_decode_str(value).decode_utf8();
            let value = value.map_err(|_| Error::invalid(format!("the value of {name:?} is not UTF-8")))?;
            if values.insert(name.to_owned(), value.into_owned()).is_some() {
                return Err(Error::invalid(format!("{name:?} is given twice")));
            }
        }
        Ok(Self { values, known: Vec::new() })
    }

    /// An option's value.
    pub(super) fn take(&mut self, name: &'static str) -> Option<String> {
        self.known.push(name);
        self.values.remove(name)
    }

    /// An option's value, which must be there.
    pub(super) fn need(&mut self, name: &'static str) -> Result<String> {
        self.take(name).filter(|value| !value.is_empty()).ok_or_else(|| Error::invalid(format!("{name} is missing")))
    }

    pub(super) fn path(&mut self, name: &'static str) -> Option<PathBuf> {
        self.take(name).map(PathBuf::from)
    }

    pub(super) fn flag(&mut self, name: &'static str) -> Result<Option<bool>> {
        match self.take(name).as_deref() {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(other) => Err(Error::invalid(format!("{name}={other}: it is true or false"))),
        }
    }

    /// A number within limits.
    pub(super) fn number<N: Copy + FromStr + PartialOrd + std::fmt::Display>(
        &mut self,
        name: &'static str,
        least: N,
        most: N,
    ) -> Result<Option<N>> {
        let Some(text) = self.take(name) else { return Ok(None) };
        match text.parse::<N>() {
            Ok(number) if number >= least && number <= most => Ok(Some(number)),
            _ => Err(Error::invalid(format!("{name}={text}: it is a number from {least} to {most}"))),
        }
    }

    /// Refuses what nobody has asked for.
    pub(super) fn finish(self) -> Result<()> {
        let Some(name) = self.values.into_keys().next() else { return Ok(()) };
        if SECRETS.contains(&name.to_ascii_lowercase().as_str()) {
            let files = self.known.iter().filter(|known| known.ends_with("_file") && **known != "ca_file");
            let files: Vec<&str> = files.copied().collect();
            return Err(Error::invalid(format!(
                "secrets do not belong in an address, which is printed and logged: put it in a file and say {}=FILE, or use the environment",
                files.join(" or ")
            )));
        }
        let distance = |known: &&&str| strsim::damerau_levenshtein(&name, known);
        let nearest = self.known.iter().min_by_key(distance);
        Err(Error::invalid(match nearest {
            Some(nearest) if strsim::damerau_levenshtein(&name, nearest) <= name.len().div_ceil(2) => {
                format!("there is no option {name:?}; do you mean {nearest:?}?")
            }
            _ => format!("there is no option {name:?}; there are {}", self.known.join(", ")),
        }))
    }
}
