//! A worker, seen from inside.

use crate::confine::confine;
use crate::render::render;
use crate::wire::{HEAD_BYTES, Head, NONE, PICTURE, READY};
use holdfast_base::{Error, Result};
use std::io::{Read, Write};

/// Gives up everything but the pipes, and then draws what comes in until nothing comes any more.
///
/// Must be called first thing in a process of its own: it closes every descriptor above the standard ones.
pub fn work() -> Result<()> {
    confine()?;
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    output.write_all(&[READY])?;
    output.flush()?;
    while let Some(head) = next(&mut input)? {
        let mut file = Vec::new();
        // A length that the memory is not there for ends the worker, not the machine.
        file.try_reserve_exact(usize::try_from(head.length).unwrap_or(usize::MAX))
            .map_err(|error| Error::internal("no memory for the file").with_source(error))?;
        (&mut input).take(head.length).read_to_end(&mut file)?;
        if file.len() as u64 != head.length {
            return Ok(());
        }
        match render(&file, head.edge) {
            Some(picture) => {
                let length = u32::try_from(picture.len()).unwrap_or(u32::MAX);
                output.write_all(&[PICTURE])?;
                output.write_all(&length.to_le_bytes())?;
                output.write_all(&picture)?;
            }
            None => output.write_all(&[NONE])?,
        }
        output.flush()?;
    }
    Ok(())
}

/// The next head; none at the end.
fn next(input: &mut impl Read) -> Result<Option<Head>> {
    let mut bytes = [0; HEAD_BYTES];
    match input.read_exact(&mut bytes) {
        Ok(()) => Head::read(bytes).map(Some).ok_or_else(|| Error::internal("what came in is not from the server")),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error.into()),
    }
}
