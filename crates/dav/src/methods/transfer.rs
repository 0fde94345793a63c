//! COPY and MOVE (RFC 4918 sections 9.8 and 9.9): one atomic operation of the drive, whatever the size of the tree.

use super::{PutInto, changed, place};
use crate::call::{Call, empty};
use crate::fault::{Answer, Fault};
use crate::guard;
use crate::parse::{self, Depth, Resolved, Target};
use crate::smart;
use holdfast_base::ErrorKind;
use holdfast_drive::{Expect, Location, Transfer};
use http::StatusCode;

/// COPY if `copy`, else MOVE.
pub(crate) async fn transfer(call: &Call, target: Target, copy: bool) -> Answer {
    let from = place(&target)?.clone();
    if from.path.is_root() && !copy {
        return Err(Fault::forbidden("a space cannot be moved"));
    }
    let (call, to, into) = destination(call).await?;
    let call = &call;
    let overwrite = call.header("overwrite")?.map_or(Ok(true), |text| parse::overwrite(&text))?;
    let deep = match call.depth(Depth::Infinity)? {
        Depth::Infinity => true,
        Depth::Zero if copy => false,
        _ if copy => return Err(Fault::bad_request("the Depth of a COPY is 0 or infinity")),
        _ => return Err(Fault::bad_request("the Depth of a MOVE is infinity")),
    };
    refuse_loops(&from, &to, copy && !deep)?;
    let (mut guard, mut source_expect) = guard::transfer_conditions(call, &from, &to).await?;
    if into.own {
        let source = call.drive.walk(&call.who, &from).await?;
        let source = source.node().ok_or_else(Fault::not_found)?;
        smart::refuse_folder(source)?;
        if source_expect == Expect::Any {
            // It stays a file until the transaction.
            source_expect = Expect::Seq(source.seq);
        }
    }
    if guard.expect == Expect::Any {
        guard.expect = into.expect;
    }
    if !overwrite {
        if matches!(guard.expect, Expect::Present | Expect::Seq(_)) {
            return Err(exists());
        }
        guard.expect = Expect::Absent;
    }
    let order = Transfer { from: from.clone(), to: to.clone(), copy, overwrite, deep, source_expect, tags: into.tags };
    let outcome = call.drive.relocate(&call.who, &order, guard).await;
    if let Err(error) = &outcome {
        match error.kind() {
            ErrorKind::AlreadyExists => return Err(exists()),
            // The target's folder is a file: there is no such folder.
            ErrorKind::WrongKind => return Err(Fault::conflict(error.message())),
            _ => {}
        }
    }
    let places: &[&Location] = if copy { &[&to] } else { &[&from, &to] };
    let created = changed(call, places, outcome).await?.created;
    Ok(empty(if created { StatusCode::CREATED } else { StatusCode::NO_CONTENT }))
}

fn exists() -> Fault {
    Fault::precondition_failed("there is something at the destination, and Overwrite is F")
}

/// Where it goes, told to the call, and what it gets there.
async fn destination(call: &Call) -> Result<(Call, Location, PutInto), Fault> {
    let uri =
        call.header("destination")?.ok_or_else(|| Fault::bad_request("COPY and MOVE need a Destination header"))?;
    match call.resolve(&uri)? {
        Resolved::Here(Target::At { at, .. }) if smart::is_saved(&at) => smart::destination(call, &at).await,
        Resolved::Here(Target::At { at, .. }) if !at.path.is_root() => Ok((call.clone(), at, PutInto::default())),
        Resolved::Here(_) => Err(Fault::forbidden("the destination is a space; name a place inside it")),
        Resolved::Elsewhere => Err(Fault::new(
            StatusCode::BAD_GATEWAY,
            "the destination is not in this drive; copy to another server by downloading and uploading",
        )),
    }
}

/// A node cannot replace itself (403, RFC 4918 section 9.8.5), a folder it is in, or go below itself.
fn refuse_loops(from: &Location, to: &Location, shallow: bool) -> Result<(), Fault> {
    if from.space != to.space {
        return Ok(());
    }
    if from.path == to.path {
        return Err(Fault::forbidden("source and destination are the same"));
    }
    if to.path.contains(&from.path) {
        return Err(Fault::forbidden("the destination is a folder that the source is in"));
    }
    if from.path.contains(&to.path) && !shallow {
        return Err(Fault::forbidden("the destination is below the source"));
    }
    Ok(())
}
