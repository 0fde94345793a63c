//! What administrators look at and do. Nothing here opens content: keys stay with the accounts.

pub(crate) mod audit;
pub(crate) mod drive;
pub(crate) mod jobs;
mod jobs_bodies;
pub(crate) mod monitor;
pub(crate) mod spaces;
