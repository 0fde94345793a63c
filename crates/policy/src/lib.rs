//! What a confined program may do: policies, the two forms they are written in, and the decision.

mod ask;
mod operation;

pub use ask::{Arguments, Judge, Request, Verdict};
pub use operation::Operation;
