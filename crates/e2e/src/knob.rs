//! Sizes of tests. Each has a default that fits a build machine, and a variable for a longer run; the Makefile names those
//! that have a target.

use std::str::FromStr;

/// The value of the environment variable `name`, or `default`.
///
/// # Panics
/// When the variable is there and no number: a long run with a misspelt size would prove less than it seems to.
pub fn knob<T: FromStr>(name: &str, default: T) -> T {
    let Ok(text) = std::env::var(name) else { return default };
    text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number"))
}
