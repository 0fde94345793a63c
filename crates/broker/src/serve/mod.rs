//! Serving calls: `table` says which call is which deed, the other modules do it.

pub(crate) mod attributes;
pub(crate) mod change;
pub(crate) mod files;
pub(crate) mod held;
pub(crate) mod names;
pub(crate) mod open;
pub(crate) mod sockets;
pub(crate) mod table;
pub(crate) mod xattr;

use crate::core::Core;
use crate::job::{Job, Outcome};
use crate::listener::{Notice, Reply};

/// Serves one call.
pub(crate) fn serve(core: &Core, notice: Notice) -> Outcome {
    let job = Job::new(core, notice);
    if held::is_the_start(core, &notice)? {
        return Ok(Reply::Continue);
    }
    if job.target.identity()? != core.identity {
        // What the broker does is done by its own user, who may do more.
        return Err(core.unserved());
    }
    core.learn_root(job.target, notice.id)?;
    match table::find(notice.number) {
        Some(entry) => (entry.serve)(&job),
        None => Err(core.unserved()),
    }
}
