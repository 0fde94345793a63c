//! LOCK and UNLOCK (RFC 4918 sections 9.10 and 9.11). The drive keeps the locks; this writes and reads their XML.

use super::{changed, place};
use crate::call::{self, Call, RequestBody, empty, read_xml, set};
use crate::fault::{Answer, Code, Fault};
use crate::guard;
use crate::parse::{self, Depth, Target};
use crate::props::push_active_lock;
use holdfast_base::ErrorKind;
use holdfast_drive::{Location, Lock, LockRequest, NodeKind};
use http::header::{ETAG, HeaderName};
use http::{Response, StatusCode};

/// LOCK: with a body a new lock, without one a longer life for the lock named in the `If` header.
pub(crate) async fn lock(call: &Call, target: &Target, body: RequestBody) -> Answer {
    let at = place(target)?;
    let body = read_xml(body).await?;
    if body.iter().all(u8::is_ascii_whitespace) {
        return refresh(call, at).await;
    }
    let info = parse::lock_info(&body)?;
    let deep = match call.depth(Depth::Infinity)? {
        Depth::Zero => false,
        Depth::Infinity => true,
        Depth::One => return Err(Fault::bad_request("the Depth of a LOCK is 0 or infinity")),
    };
    let seconds = parse::timeout_s(&call.header("timeout")?.unwrap_or_default());
    let request = LockRequest { exclusive: info.exclusive, deep, owner_xml: info.owner_xml, seconds };
    let guard = guard::conditions(call, at).await?;
    let (lock, change) = match call.drive.lock(&call.who, at, request, guard).await {
        Ok(taken) => taken,
        Err(error) if error.kind() == ErrorKind::Locked => {
            let hrefs = guard::locked_hrefs(call, &[at]).await;
            return Err(Fault::from(error).with(Code::NoConflictingLock(hrefs)));
        }
        // A parent that is a file is as bad as one that is missing (RFC 4918 section 9.10.6).
        Err(error) if error.kind() == ErrorKind::WrongKind => return Err(Fault::conflict(error.message())),
        Err(error) => return Err(error.into()),
    };
    let status = if change.created { StatusCode::CREATED } else { StatusCode::OK };
    let folder = change.node.kind == NodeKind::Folder;
    let mut response = answer(call, at, &lock, folder, status);
    set(&mut response, HeaderName::from_static("lock-token"), format!("<{}>", lock.token));
    if !folder {
        set(&mut response, ETAG, change.node.entity_tag());
    }
    Ok(response)
}

/// Extends the first lock of the `If` header that covers the target.
async fn refresh(call: &Call, at: &Location) -> Answer {
    let guard = guard::conditions(call, at).await?;
    if guard.tokens.is_empty() {
        return Err(Fault::bad_request("a LOCK without a body extends a lock: name its token in an If header"));
    }
    let walk = call.drive.walk(&call.who, at).await?;
    let end = walk.node().ok_or_else(Fault::not_found)?;
    let locks = call.drive.locks(&call.who, &walk.chain).await?;
    let covers = |lock: &&Lock| guard.tokens.contains(&lock.token) && (lock.deep || lock.node == end.id);
    let Some(found) = locks.iter().find(covers) else { return Err(no_such_lock(StatusCode::PRECONDITION_FAILED)) };
    let folder = found.node != end.id || end.kind == NodeKind::Folder;
    let token = found.token.clone();
    let seconds = parse::timeout_s(&call.header("timeout")?.unwrap_or_default());
    let outcome = call.drive.refresh_lock(&call.who, at, &token, seconds, guard).await;
    let lock = changed(call, &[at], outcome).await?;
    Ok(answer(call, at, &lock, folder, StatusCode::OK))
}

/// UNLOCK.
pub(crate) async fn unlock(call: &Call, target: &Target) -> Answer {
    let at = place(target)?;
    let header = call
        .header("lock-token")?
        .ok_or_else(|| Fault::bad_request("UNLOCK needs a Lock-Token header that names the lock"))?;
    let token = parse::lock_token(&header)?;
    guard::if_header_holds(call, at).await?;
    match call.drive.unlock(&call.who, at, token).await {
        Ok(()) => Ok(empty(StatusCode::NO_CONTENT)),
        Err(error) if error.kind() == ErrorKind::Conflict => Err(no_such_lock(StatusCode::CONFLICT)),
        Err(error) => Err(error.into()),
    }
}

fn no_such_lock(status: StatusCode) -> Fault {
    Fault::new(status, "no lock with this token covers the address; it may have lapsed")
        .with(Code::LockTokenMatchesRequestUri)
}

fn answer(call: &Call, at: &Location, lock: &Lock, folder: bool, status: StatusCode) -> Response<crate::DavBody> {
    let mut xml =
        String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:prop xmlns:D=\"DAV:\"><D:lockdiscovery>");
    let root = Location { space: at.space.clone(), path: lock.path.clone() };
    push_active_lock(&mut xml, lock, &call.href(&root, folder), call.options.clock.now_ms());
    xml.push_str("</D:lockdiscovery></D:prop>\n");
    call::xml(status, xml)
}
