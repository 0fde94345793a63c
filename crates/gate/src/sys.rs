//! What a thread that serves does to itself.

#![allow(unsafe_code)]

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags, set_capabilities, unshare_unsafe};
use std::cell::Cell;

thread_local! {
    static SETTLED: Cell<bool> = const { Cell::new(false) };
}

/// Gives the calling thread a umask of its own, and takes its capabilities away for good: what the account may not do itself, nobody does for it. Threads that were
/// settled before are left as they are.
pub(crate) fn settle_thread() -> Result<(), Errno> {
    if SETTLED.get() {
        return Ok(());
    }
    // SAFETY: descriptors stay shared, which is all that memory safety asks for.
    unsafe { unshare_unsafe(UnshareFlags::FS) }?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    SETTLED.set(true);
    Ok(())
}
