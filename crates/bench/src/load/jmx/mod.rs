//! JMeter test plans (`.jmx`): a plan of simple shape is read into a [`Plan`], and a [`Plan`] is written as one.
//!
//! Understood: one enabled thread group with its loop controller and scheduler, HTTP requests, simple and loop controllers
//! around them, HTTP request defaults, header managers, Basic credentials of authorization managers, constant, uniform and
//! gaussian timers, user defined variables, `${name}`, `${__P(name,default)}`. Configuration and timers hold for the
//! elements beside and below them, as in JMeter; what is disabled is left out. An element that would change the load and is
//! not understood is an error that names it; what changes nothing that is measured (listeners) is a warning.
//!
//! A plan may come from anybody, so reading is bounded: [`FILE_BYTES_MAX`], [`DEPTH_MAX`], [`ELEMENTS_MAX`], no document type
//! declaration and so no entities, [`EXPANDED_BYTES_MAX`]; then the limits of [`Plan::check`].
//!
//! Source of names and meanings: plans as JMeter 2.3 to 5.6 writes them, and its component reference.

mod elements;
mod read;
mod sampler;
#[cfg(test)]
mod tests;
mod tree;
mod variables;
mod write;

use std::collections::BTreeMap;

pub use write::write;

use super::Plan;

/// Longest plan file.
pub const FILE_BYTES_MAX: usize = 4 << 20;
/// Elements inside each other: JMeter nests two for each level of its tree.
pub const DEPTH_MAX: usize = 64;
/// Elements of a file.
pub const ELEMENTS_MAX: usize = 20_000;
/// Attributes of an element; JMeter writes five.
pub const ATTRIBUTES_MAX: usize = 16;
/// Longest text after its variables are put in.
pub const EXPANDED_BYTES_MAX: usize = 64 * 1024;
/// All of them together: a default that each of many requests repeats is kept for each.
pub const EXPANDED_TOTAL_BYTES_MAX: usize = 64 << 20;

/// Values for `${__P(name)}`.
pub type Properties = BTreeMap<String, String>;

/// What a file says.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The plan's name.
    pub name: String,
    /// The load. Not checked: a number of loops or a duration may still be missing.
    pub plan: Plan,
    /// What was passed over.
    pub warnings: Vec<String>,
}

/// Reads a plan.
pub fn read(file: &[u8], properties: &Properties) -> anyhow::Result<Found> {
    read::read(&tree::parse(file)?, properties)
}
