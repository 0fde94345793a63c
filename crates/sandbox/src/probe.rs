//! What this kernel has of what a sandbox needs, found out by trying.

use crate::child;
use crate::child::build;
use crate::error::Step;
use crate::plan::account_maps;
use crate::sys::{self, Forked};
use crate::wire::{Failure, Message, hear, in_step, pair, tell};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use std::io;
use std::os::fd::AsFd;

/// What there is.
#[derive(Debug)]
pub struct Kernel {
    /// Namespaces of users, and of mounts inside of them; or why not.
    pub namespaces: Result<(), crate::Error>,
    /// Overlays in user namespaces, which copy-on-write needs.
    pub overlay: bool,
    /// The version of Landlock's interface; 0 where there is none. Ports need 4, the caller's terminal needs 6.
    pub landlock_abi: u32,
    /// Whether somebody can be asked about calls ([`crate::Sandbox::notify`]).
    pub notify: bool,
}

/// Finds out. It takes about as long as a start.
pub fn probe() -> Kernel {
    let namespaces = namespaces();
    Kernel {
        overlay: matches!(namespaces, Ok(true)),
        namespaces: namespaces.map(|_| ()).map_err(|failure| crate::Error::Step {
            step: failure.step,
            path: None,
            why: io::Error::from(failure.errno),
        }),
        landlock_abi: sys::landlock_abi(),
        notify: sys::can_notify(),
    }
}

/// Whether there are overlays, if there are namespaces.
fn namespaces() -> Result<bool, Failure> {
    let fail = in_step(Step::Namespaces);
    let maps = account_maps();
    let (mine, theirs) = pair().map_err(&fail)?;
    let before = sys::block_signals();
    let flags = u64::from((libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWPID).unsigned_abs());
    // SAFETY: the child only makes system calls until it ends.
    #[allow(unsafe_code)]
    let forked = unsafe { sys::fork(flags, 0) };
    if let Ok(Forked::Child) = forked {
        let message =
            match child::map_account(&maps).map_err(in_step(Step::Account)).and_then(|()| build::has_overlay()) {
                Ok(overlay) => Message::Done(i32::from(overlay)),
                Err(failure) => Message::Failed(failure),
            };
        let _ = tell(theirs.as_fd(), message, &[]);
        sys::exit(0);
    }
    sys::restore_signals(&before);
    let Forked::Parent(_, process) = forked.map_err(&fail)? else { unreachable!("the child never returns") };
    drop(theirs);
    let heard = hear(mine.as_fd(), RecvFlags::empty());
    let _ = sys::wait_for(process.as_fd(), true);
    match heard.map_err(&fail)? {
        Some((Message::Done(overlay), _)) => Ok(overlay != 0),
        Some((Message::Failed(failure), _)) => Err(failure),
        _ => Err(fail(Errno::SRCH)),
    }
}
