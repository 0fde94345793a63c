//! Pieces of `DAV:multistatus` that more than one method writes.

use crate::parse::PropName;
use crate::xml::escape::{push_attribute, push_text};

/// The document up to its first response. `oc:` is declared once here and used only where it was asked for.
pub(crate) const PROLOGUE: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
    <D:multistatus xmlns:D=\"DAV:\" xmlns:oc=\"http://owncloud.org/ns\">\n";

/// The document's end.
pub(crate) const EPILOGUE: &str = "</D:multistatus>\n";

/// Appends `DAV:href`.
pub(crate) fn push_href(out: &mut String, href: &str) {
    out.push_str("<D:href>");
    push_text(out, href);
    out.push_str("</D:href>");
}

/// Appends `DAV:status`.
pub(crate) fn push_status(out: &mut String, status: &str) {
    out.push_str("<D:status>HTTP/1.1 ");
    out.push_str(status);
    out.push_str("</D:status>");
}

/// Appends an element without content that declares its own namespace.
pub(crate) fn push_empty_element(out: &mut String, name: &PropName) {
    if name.namespace.is_empty() {
        out.push('<');
        out.push_str(&name.name);
        out.push_str(" xmlns=\"\"/>");
    } else {
        out.push_str("<x:");
        out.push_str(&name.name);
        out.push_str(" xmlns:x=\"");
        push_attribute(out, &name.namespace);
        out.push_str("\"/>");
    }
}
