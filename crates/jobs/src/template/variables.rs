//! Variables of a job, and all combinations of those that have several values.

use holdfast_base::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Values that a variable may have, and combinations that a job may have.
const VALUES_MAX: usize = 10_000;
/// Longest value.
const VALUE_MAX: usize = 1_024;
/// Digits that a number is padded to at most.
const WIDTH_MAX: usize = 20;

/// What a variable may be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Variable {
    /// A number.
    Number(i64),
    /// Text.
    Text(String),
    /// Several texts, each of which is used.
    List(Vec<String>),
    /// Several numbers.
    Range(Range),
}

/// Numbers from one to another, both included, with zeros before them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// The first.
    pub from: i64,
    /// The last.
    pub to: i64,
    /// Between two of them; 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<i64>,
    /// Digits that each has at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<usize>,
}

/// A value for each variable.
pub type Combination = BTreeMap<String, String>;

impl Variable {
    /// Checks its size.
    pub fn check(&self) -> Result<()> {
        let values = self.values()?;
        match values.iter().find(|value| value.len() > VALUE_MAX || value.chars().any(char::is_control)) {
            Some(_) => Err(Error::invalid(format!("a value has {VALUE_MAX} bytes at most, and no control characters"))),
            None => Ok(()),
        }
    }

    /// Its values.
    pub fn values(&self) -> Result<Vec<String>> {
        let few = |count: usize| match count {
            0 => Err(Error::invalid("a variable has a value at least")),
            1..=VALUES_MAX => Ok(()),
            _ => Err(Error::new(ErrorKind::TooLarge, format!("a variable has {VALUES_MAX} values at most"))),
        };
        match self {
            Self::Number(number) => Ok(vec![number.to_string()]),
            Self::Text(text) => Ok(vec![text.clone()]),
            Self::List(list) => few(list.len()).map(|()| list.clone()),
            Self::Range(Range { from, to, step, width }) => {
                let (step, width) = (step.unwrap_or(1), width.unwrap_or(0));
                if step < 1 || from > to || width > WIDTH_MAX {
                    let what = format!(
                        "a range goes from a number up to another by steps of 1 or more, with a width of {WIDTH_MAX} digits at most"
                    );
                    return Err(Error::invalid(what));
                }
                let count =
                    to.checked_sub(*from).map(|span| span / step + 1).and_then(|count| usize::try_from(count).ok());
                few(count.unwrap_or(usize::MAX))?;
                let step = usize::try_from(step).unwrap_or(usize::MAX);
                Ok((*from..=*to).step_by(step).map(|number| padded(number, width)).collect())
            }
        }
    }
}

fn padded(number: i64, width: usize) -> String {
    format!("{number:0width$}")
}

/// All combinations of the variables that are named.
pub fn combinations<'n>(
    variables: &BTreeMap<String, Variable>,
    used: impl Iterator<Item = &'n str>,
) -> Result<Vec<Combination>> {
    let mut all = vec![Combination::new()];
    let mut names: Vec<&str> = used.filter(|name| variables.contains_key(*name)).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let values = variables[name].values()?;
        if all.len().saturating_mul(values.len()) > VALUES_MAX {
            let what = format!("the variables have more than {VALUES_MAX} combinations");
            return Err(Error::new(ErrorKind::TooLarge, what));
        }
        let with = |value: &String, one: &Combination| {
            let mut one = one.clone();
            one.insert(name.to_owned(), value.clone());
            one
        };
        all = all.iter().flat_map(|one| values.iter().map(move |value| with(value, one))).collect();
    }
    Ok(all)
}

impl<'de> Deserialize<'de> for Variable {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Variable;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a text, a number, a list of texts, or a range like { from = 1, to = 12, width = 2 }")
            }
            fn visit_i64<E>(self, number: i64) -> Result<Variable, E> {
                Ok(Variable::Number(number))
            }
            fn visit_str<E>(self, text: &str) -> Result<Variable, E> {
                Ok(Variable::Text(text.to_owned()))
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, list: A) -> Result<Variable, A::Error> {
                Deserialize::deserialize(serde::de::value::SeqAccessDeserializer::new(list)).map(Variable::List)
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Variable, A::Error> {
                Deserialize::deserialize(serde::de::value::MapAccessDeserializer::new(map)).map(Variable::Range)
            }
        }
        let variable = deserializer.deserialize_any(Visitor)?;
        variable.check().map_err(|error| serde::de::Error::custom(error.message()))?;
        Ok(variable)
    }
}
