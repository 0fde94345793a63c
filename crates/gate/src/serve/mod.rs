//! What is done, once it was asked about.

pub(crate) mod attributes;
pub(crate) mod files;
pub(crate) mod names;
