//! Calls on open files: seeking and syncing. They are made on the very open file that was asked about, whatever its number means a moment later.

use crate::job::{Job, Outcome};
use crate::listener::Reply;
use crate::sys::call;
use holdfast_policy::{Arguments, Operation};

/// `lseek`.
pub(crate) fn seek(job: &Job<'_>) -> Outcome {
    let object = job.open_file(job.int(0))?;
    let (offset, whence) = (job.register(1), job.int(2));
    let asked = Arguments {
        offset: Some(i64::from_ne_bytes(offset.to_ne_bytes())),
        whence: Some(whence),
        ..Arguments::default()
    };
    job.ask_of(Operation::Llseek, &object.kind, asked)?;
    job.still_there()?;
    Ok(Reply::Value(call(libc::SYS_lseek, &mut [(&object.fd).into(), offset.into(), whence.into()])?))
}

/// `fsync`, `fdatasync`, `sync_file_range`, `syncfs`: the same call on the same open file.
pub(crate) fn sync(job: &Job<'_>) -> Outcome {
    let object = job.open_file(job.int(0))?;
    let is_range = job.notice.number == libc::SYS_sync_file_range;
    let length = is_range.then(|| job.register(2));
    job.ask_of(Operation::Fsync, &object.kind, Arguments { length, ..Arguments::default() })?;
    job.still_there()?;
    let [_, second, third, fourth, ..] = job.notice.arguments;
    let arguments = &mut [(&object.fd).into(), second.into(), third.into(), fourth.into()];
    Ok(Reply::Value(call(job.notice.number, arguments)?))
}

/// `sync`, of everything: asked of the root.
pub(crate) fn sync_all(job: &Job<'_>) -> Outcome {
    job.ask(Operation::Fsync, std::path::Path::new("/"), Arguments::default())?;
    Ok(Reply::Value(call(libc::SYS_sync, &mut [])?))
}
