//! Another policy for a program that runs.

use crate::brokered::Decider;
use crate::copy::Copy;
use crate::gates::Gates;
use crate::plan::{Plan, access_of};
use crate::revoke::{self, Revoked, Rights};
use crate::run::{Confined, Mechanism, failed, refused, with_copies};
use holdfast_base::{Error, ErrorKind, Result};
use holdfast_policy::{Access, Policy};
use holdfast_sandbox::{Mount, Root, Source};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

impl Confined {
    /// Puts another policy in the place of this one, without stopping it. What is open stays open as it was opened. Environment, network, UNIX sockets, devices and limits
    /// stay those of the start.
    ///
    /// # Errors
    /// `Unsupported` if the new policy cannot be held, or not by a running sandbox; then the old one holds, except where an entry that is named could not be
    /// changed after others were.
    pub fn set_policy(&self, policy: impl Into<Arc<Policy>>) -> Result<()> {
        self.set(policy.into()).map_err(NotSet::into_error)
    }

    /// As [`Self::set_policy`], and takes back what is open and the new policy refuses: whoever has such a thing is killed. Meanwhile all of it is stopped; it
    /// goes on afterwards unless it is to `stay_frozen`.
    ///
    /// # Errors
    /// As of [`Self::set_policy`]; then nothing was ended, but where it is said. `Unavailable` if it is not known that all of it was taken back.
    pub fn set_policy_and_revoke(&self, policy: impl Into<Arc<Policy>>, stay_frozen: bool) -> Result<Revoked> {
        let policy = policy.into();
        revoke::is_possible()?;
        self.freeze()?;
        let revoked = self.set_and_revoke(&policy);
        if !stay_frozen {
            // Whoever was to go on may have been ended, and all else with it.
            let _ = self.thaw();
        }
        revoked
    }

    fn set_and_revoke(&self, policy: &Arc<Policy>) -> Result<Revoked> {
        let moving = revoke::wait_until_still(&self.running);
        let decider = Decider::new(policy.clone(), false);
        let asked_each_call = |path: &Path| match &self.mechanism {
            Mechanism::Gates { gated, .. } => gated.asks_each_call(path),
            _ => false,
        };
        let rights = Rights { judge: &decider, asked_each_call: &asked_each_call };
        let end = || revoke::revoke(&self.running, &moving, &rights);
        let first = match self.set(policy.clone()) {
            Ok(()) => Revoked::default(),
            Err(NotSet::Busy(_)) => {
                // Whoever writes is in the way of a tree that is to be read-only, and is to be ended anyway.
                let ended = end()?;
                let said = |error: Error| error.context(format!("{} processes were ended before", ended.count()));
                self.set(policy.clone()).map_err(|error| said(error.into_error()))?;
                ended
            }
            Err(NotSet::Refused(error)) => return Err(error),
        };
        let rest = end().map_err(|error| error.context("the policy holds, but not for all that is open"))?;
        if let Mechanism::Gates { gated, .. } = &self.mechanism {
            gated.revoked(policy.clone());
        }
        Ok(first.and(rest))
    }

    fn set(&self, policy: Arc<Policy>) -> Result<(), NotSet> {
        match &self.mechanism {
            Mechanism::View { root, copies, view } => {
                let plan = Plan::of(&policy).map_err(|unheld| refused(&policy, &unheld))?;
                self.set_view(plan.root, plan.view, (*root, copies, view))
            }
            Mechanism::Gates { gated, folders, root, copies, view } => {
                let gates = Gates::before(&policy, folders).map_err(|unheld| refused(&policy, &unheld))?;
                self.set_view(gates.around.root, gates.view(), (*root, copies, view))?;
                gated.set(policy);
                Ok(())
            }
            Mechanism::Broker(Some(brokered)) => Ok(brokered.set(policy)?),
            Mechanism::Broker(None) => {
                let why = "it was started without anybody to ask: that takes a new start";
                Err(Error::new(ErrorKind::Unsupported, why).into())
            }
        }
    }

    fn set_view(
        &self,
        new_root: Root,
        new: Vec<Mount>,
        (root, copies, view): (Root, &[Copy], &Mutex<Vec<Mount>>),
    ) -> Result<(), NotSet> {
        if new_root != root {
            let why = "its default allows what the other one refused, or the other way round: that takes a new start";
            return Err(Error::new(ErrorKind::Unsupported, why).into());
        }
        let wanted = with_copies(new, copies)?;
        let mut view = view.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let wanted = with_gone(&view, wanted);
        // What cannot change is not named. What did not change is, since others may have lost it.
        let named = |entry: &&Mount| entry.source == Source::Same || !view.contains(entry);
        let changes: Vec<_> = wanted.iter().filter(named).cloned().collect();
        self.running.change_view(&changes).map_err(|error| match error {
            busy @ holdfast_sandbox::Error::Busy(_) => NotSet::Busy(failed(busy)),
            other => NotSet::Refused(failed(other)),
        })?;
        *view = wanted;
        Ok(())
    }
}

/// Why another policy was not put in the place of one.
enum NotSet {
    /// Something is open to be written that is to be read-only.
    Busy(Error),
    Refused(Error),
}

impl From<Error> for NotSet {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl NotSet {
    fn into_error(self) -> Error {
        let (Self::Busy(error) | Self::Refused(error)) = self;
        error
    }
}

/// A view that follows another one, in which entries of that one are still mounts: those that it does not have get the access of what is around them now.
fn with_gone(before: &[Mount], mut after: Vec<Mount>) -> Vec<Mount> {
    let new: HashMap<_, _> = after.iter().map(|entry| (entry.path.clone(), entry.access)).collect();
    for gone in before.iter().filter(|entry| !new.contains_key(&entry.path)) {
        let around = gone.path.ancestors().skip(1).find_map(|above| new.get(above).copied());
        after.push(Mount { access: around.unwrap_or_else(|| access_of(Access::Hidden)), ..gone.clone() });
    }
    after
}
