//! Locks as XML (RFC 4918 sections 14.1, 15.8 and 15.10).

use crate::xml::escape::push_text;
use holdfast_drive::Lock;
use std::fmt::Write;

/// The inside of `DAV:supportedlock`: the same for every resource.
pub(crate) const SUPPORTED: &str = "<D:lockentry><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>\
<D:lockentry><D:lockscope><D:shared/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>";

/// Appends one `DAV:activelock`.
pub(crate) fn push_active_lock(out: &mut String, lock: &Lock, root_href: &str, now_ms: i64) {
    let scope = if lock.exclusive { "exclusive" } else { "shared" };
    let depth = if lock.deep { "infinity" } else { "0" };
    let seconds = lock.expires_ms.saturating_sub(now_ms).max(0) / 1_000;
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        "<D:activelock><D:locktype><D:write/></D:locktype><D:lockscope><D:{scope}/></D:lockscope>\
         <D:depth>{depth}</D:depth>{}<D:timeout>Second-{seconds}</D:timeout><D:locktoken><D:href>",
        lock.owner_xml
    );
    push_text(out, &lock.token);
    out.push_str("</D:href></D:locktoken><D:lockroot><D:href>");
    push_text(out, root_href);
    out.push_str("</D:href></D:lockroot></D:activelock>");
}
