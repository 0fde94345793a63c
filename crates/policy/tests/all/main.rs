//! What policies decide, asked of the crate from outside.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod corpus;
mod decisions;
mod intents;
mod learning;
mod odd;
mod oracle;
mod random;
mod reference;
mod views;
mod written;
