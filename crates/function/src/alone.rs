//! A single call in a process that ends with it: no server, nothing warm, nobody to wait behind.
//!
//! Calls of this kind are counted across processes: each holds one of the function's places, files that are locked. If all are taken, it is refused at once.

use crate::call::{Call, Turn};
use crate::id::Id;
use crate::instance::Instance;
use crate::record::Record;
use crate::store::Function;
use holdfast_base::{Error, ErrorKind, Result};
use rustix::fs::{FlockOperation, flock};
use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::AsyncRead;
use tokio::sync::watch;

/// Calls a function once. `stop` ends it early. The call is recorded before it is told.
///
/// # Errors
/// `TooManyRequests` if as many calls of this kind are under way as the function allows. What went wrong with the call itself is in what is told.
pub async fn invoke_alone(
    function: Arc<Function>,
    input: &mut (dyn AsyncRead + Send + Unpin),
    mut stop: watch::Receiver<bool>,
) -> Result<Call> {
    let place = place(&function)?;
    let limits = function.manifest.limits;
    let turn = Turn { id: Id::new(), limits: &limits, began: Instant::now(), waited: Duration::ZERO, cold: true };
    let call = match Instance::start(Arc::clone(&function)).await {
        Ok(instance) => turn.run(instance, input, &mut stop, place).await,
        Err(error) => turn.not_started(&error),
    };
    function.records.add(&Record::of(&call, function.version, "", limits.kept))?;
    Ok(call)
}

/// One of the places. It is let go of by unlocking it, and not by its end alone: a process that this one is starting has a copy of it until it begins.
struct Place(File);

impl Drop for Place {
    fn drop(&mut self) {
        // It ends with its last copy in any case.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// Takes one of the places.
fn place(function: &Function) -> Result<Place> {
    let folder = function.places();
    let at = |error: std::io::Error| Error::from(error).context(folder.display());
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(at(error)),
        _ => {}
    }
    let most = function.manifest.limits.concurrency;
    for number in 0..most {
        let file = open(&folder.join(number.to_string())).map_err(at)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return Ok(Place(file));
        }
    }
    let why =
        format!("{} has {most} calls under way from the command line, which is as many as it allows", function.name);
    Err(Error::new(ErrorKind::TooManyRequests { retry_after_s: 1 }, why))
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}
