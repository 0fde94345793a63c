//! PROPPATCH (RFC 4918 section 9.2): all instructions or none.
//!
//! Everything but the live properties is dead: kept as it came. Three names also set the modification time: `getlastmodified`
//! (an HTTP date), `lastmodified` (seconds, as rclone sends it) and Microsoft's `Win32LastModifiedTime`, which is kept as a
//! dead property besides.

use super::{changed, place};
use crate::call::{self, Call, RequestBody, read_xml};
use crate::fault::{Answer, Fault};
use crate::guard;
use crate::multistatus::{PROLOGUE, push_empty_element, push_href, push_status};
use crate::parse::{self, Fragment, PropName, PropPatch, Target};
use crate::props::is_protected;
use crate::xml::DAV;
use holdfast_drive::{NodeKind, Property, PropertyChange};
use http::StatusCode;

const MICROSOFT: &str = "urn:schemas-microsoft-com:";

/// Picks instructions by what they came to.
type Test = fn(&Verdict) -> bool;

/// What one instruction comes to before the drive is asked.
enum Verdict {
    Do(Vec<PropertyChange>),
    Protected,
    BadValue,
}

/// PROPPATCH.
pub(crate) async fn proppatch(call: &Call, target: &Target, body: RequestBody) -> Answer {
    let at = place(target)?;
    let updates = parse::property_update(&read_xml(body).await?)?;
    let guard = guard::conditions(call, at).await?;
    let judged: Vec<(PropName, Verdict)> = updates.into_iter().map(judge).collect();
    let refused = judged.iter().any(|(_, verdict)| !matches!(verdict, Verdict::Do(_)));
    let node = if refused {
        call.drive.walk(&call.who, at).await?.node().cloned().ok_or_else(Fault::not_found)?
    } else {
        let changes: Vec<_> = judged.iter().flat_map(|(_, verdict)| wanted(verdict)).cloned().collect();
        changed(call, &[at], call.drive.change_properties(&call.who, at, &changes, guard).await).await?
    };
    Ok(call::xml(StatusCode::MULTI_STATUS, answer(&call.href(at, node.kind == NodeKind::Folder), &judged, refused)))
}

fn wanted(verdict: &Verdict) -> &[PropertyChange] {
    match verdict {
        Verdict::Do(changes) => changes,
        Verdict::Protected | Verdict::BadValue => &[],
    }
}

fn judge(update: PropPatch) -> (PropName, Verdict) {
    match update {
        PropPatch::Remove(name) if is_protected(&name) => (name, Verdict::Protected),
        PropPatch::Remove(name) => {
            let change = PropertyChange::Remove { namespace: name.namespace.clone(), name: name.name.clone() };
            (name, Verdict::Do(vec![change]))
        }
        PropPatch::Set(fragment) => {
            let name = PropName { namespace: fragment.namespace.clone(), name: fragment.name.clone() };
            let verdict = judge_set(&name, fragment);
            (name, verdict)
        }
    }
}

fn judge_set(name: &PropName, fragment: Fragment) -> Verdict {
    let time = match (name.namespace.as_str(), name.name.as_str()) {
        (DAV, "getlastmodified") => Some(parse::win32_time_ms(&fragment.text)),
        (DAV, "lastmodified") => Some(parse::mtime_ms(&fragment.text).ok()),
        _ => None,
    };
    if let Some(time) = time {
        return time.map_or(Verdict::BadValue, |ms| Verdict::Do(vec![PropertyChange::Modified(ms)]));
    }
    if is_protected(name) {
        return Verdict::Protected;
    }
    let mut changes = Vec::new();
    if name.namespace == MICROSOFT && name.name == "Win32LastModifiedTime" {
        changes.extend(parse::win32_time_ms(&fragment.text).map(PropertyChange::Modified));
    }
    let Fragment { namespace, name, xml, .. } = fragment;
    changes.push(PropertyChange::Set(Property { namespace, name, xml }));
    Verdict::Do(changes)
}

/// One response with a propstat for each outcome there was. When something is refused, the rest failed with it (424).
fn answer(href: &str, judged: &[(PropName, Verdict)], refused: bool) -> String {
    let mut out = String::from(PROLOGUE);
    out.push_str("<D:response>");
    push_href(&mut out, href);
    let groups: [(Test, &str, &str); 3] = [
        (
            |verdict| matches!(verdict, Verdict::Protected),
            "403 Forbidden",
            "<D:error><D:cannot-modify-protected-property/></D:error>",
        ),
        (
            |verdict| matches!(verdict, Verdict::BadValue),
            "409 Conflict",
            "<D:responsedescription>the value is not a date of the form this property has</D:responsedescription>",
        ),
        (|verdict| matches!(verdict, Verdict::Do(_)), if refused { "424 Failed Dependency" } else { "200 OK" }, ""),
    ];
    for (test, status, explanation) in groups {
        let mut names: Vec<&PropName> =
            judged.iter().filter(|(_, verdict)| test(verdict)).map(|(name, _)| name).collect();
        names.dedup();
        if names.is_empty() {
            continue;
        }
        out.push_str("<D:propstat><D:prop>");
        for name in names {
            push_empty_element(&mut out, name);
        }
        out.push_str("</D:prop>");
        push_status(&mut out, status);
        out.push_str(explanation);
        out.push_str("</D:propstat>");
    }
    out.push_str("</D:response></D:multistatus>\n");
    out
}
