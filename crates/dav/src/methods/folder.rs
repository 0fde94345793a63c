//! MKCOL and DELETE (RFC 4918 sections 9.3 and 9.6).

use super::{changed, place};
use crate::call::{Call, RequestBody, drain, empty, is_empty};
use crate::fault::{Answer, Fault};
use crate::guard;
use crate::parse::{Depth, Target};
use holdfast_base::ErrorKind;
use http::StatusCode;

/// MKCOL: a folder; a body is not understood, whatever it is.
pub(crate) async fn mkcol(call: &Call, target: &Target, mut body: RequestBody) -> Answer {
    let at = place(target)?;
    if at.path.is_root() {
        return match call.drive.walk(&call.who, at).await {
            Ok(_) => Err(Fault::new(StatusCode::METHOD_NOT_ALLOWED, "there is a folder of this name already")),
            Err(_) => Err(Fault::forbidden("spaces are made by the administrator, not by MKCOL")),
        };
    }
    if !is_empty(&mut body).await? {
        drain(call, body).await;
        return Err(Fault::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "MKCOL takes no body"));
    }
    let guard = guard::conditions(call, at).await?;
    let outcome = call.drive.make_folder(&call.who, at, guard).await;
    // A parent that is a file is as bad as one that is missing (RFC 4918 section 9.3.1).
    if let Err(error) = &outcome
        && error.kind() == ErrorKind::WrongKind
    {
        return Err(Fault::conflict(error.message()));
    }
    changed(call, &[at], outcome).await?;
    Ok(empty(StatusCode::CREATED))
}

/// DELETE: the node with everything below it, or nothing.
pub(crate) async fn delete(call: &Call, target: &Target) -> Answer {
    let at = place(target)?;
    if at.path.is_root() {
        return Err(Fault::forbidden("a space cannot be deleted here; its administrator removes it"));
    }
    if call.depth(Depth::Infinity)? == Depth::One {
        return Err(Fault::bad_request("DELETE takes everything below a folder: its Depth is infinity"));
    }
    let guard = guard::conditions(call, at).await?;
    changed(call, &[at], call.drive.remove(&call.who, at, guard).await).await?;
    Ok(empty(StatusCode::NO_CONTENT))
}
