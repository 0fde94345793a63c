//! One module a method, or a few that belong together. Each takes the call and the parsed target and answers a response or
//! a [`crate::fault::Fault`].

mod folder;
mod get;
mod listing;
mod lock;
mod propfind;
mod proppatch;
mod put;
mod transfer;

pub(crate) use folder::{delete, mkcol};
pub(crate) use get::get;
pub(crate) use listing::{saved_search_page, saved_searches_page};
pub(crate) use lock::{lock, unlock};
pub(crate) use propfind::{propfind, propfind_searches};
pub(crate) use proppatch::proppatch;
pub(crate) use put::{PutInto, put};
pub(crate) use transfer::transfer;

use crate::call::Call;
use crate::fault::{Code, Fault};
use crate::guard;
use crate::parse::Target;
use holdfast_base::{ErrorKind, Result};
use holdfast_drive::Location;

/// The place a changing method works on: not the list of spaces.
fn place(target: &Target) -> Result<&Location, Fault> {
    match target {
        Target::At { at, .. } => Ok(at),
        Target::Spaces => Err(Fault::forbidden("the list of spaces cannot be changed here; work inside a space")),
    }
}

/// The outcome of a change at one place or two: a lock in the way is named.
async fn changed<T>(call: &Call, places: &[&Location], outcome: Result<T>) -> Result<T, Fault> {
    match outcome {
        Ok(value) => Ok(value),
        Err(error) if error.kind() == ErrorKind::Locked => {
            let hrefs = guard::locked_hrefs(call, places).await;
            Err(Fault::from(error).with(Code::LockTokenSubmitted(hrefs)))
        }
        Err(error) => Err(error.into()),
    }
}
