//! GET on a folder: a plain page for people with a browser, streamed like every listing.
//!
//! The page needs no script and nothing from elsewhere, follows the system's light or dark setting, and fits a phone. Links
//! are relative to the address as it was asked for, with its slash or without: absolute ones would repeat a deep path in
//! every row.

use crate::DavBody;
use crate::call::Call;
use crate::fault::Answer;
use crate::href;
use crate::limits::LIST_PAGE_NODES;
use crate::smart::{self, Shown};
use crate::xml::escape::{push_attribute, push_text};
use bytes::Bytes;
use futures_util::stream;
use holdfast_base::size::format_bytes;
use holdfast_base::{NodeName, Result};
use holdfast_drive::{Location, Node, NodeKind, SavedView};
use holdfast_http::dates;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use http::{HeaderValue, Method, Response};

const STYLE: &str = "\
:root{color-scheme:light dark;--fg:#1b1f24;--bg:#fff;--dim:#59636e;--line:#d1d9e0;--link:#0757b5}\
@media(prefers-color-scheme:dark){:root{--fg:#e6e8eb;--bg:#15181c;--dim:#9aa4af;--line:#33393f;--link:#7ab7ff}}\
body{font:16px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:60rem;margin:0 auto;padding:1rem}\
h1{font-size:1.25rem;overflow-wrap:anywhere}table{width:100%;border-collapse:collapse}\
th,td{text-align:left;padding:.5rem .25rem;border-bottom:1px solid var(--line)}td:first-child{overflow-wrap:anywhere}\
.n{text-align:right;white-space:nowrap}.d{white-space:nowrap;color:var(--dim)}a{color:var(--link)}\
@media(max-width:32rem){.d{display:none}}";

/// The page loads nothing, runs nothing and sends nothing.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

/// The page of a folder.
pub(crate) async fn folder(call: &Call, at: &Location, folder: Node) -> Answer {
    let mut out = String::with_capacity(16 * 1_024);
    open_page(&mut out, &at.to_string());
    push_row(&mut out, &call.href_above(at), "..", NodeKind::Folder, None);
    let rows = Rows { call: call.clone(), base: base(call, at), folder, after: None, out, done: false };
    if call.head.method == Method::HEAD {
        return Ok(page(DavBody::empty()));
    }
    // The first members are read before the answer begins: a folder that cannot be read is a status.
    let Some((first, rows)) = next(rows).await? else { return Ok(page(DavBody::empty())) };
    if rows.done {
        return Ok(whole(first));
    }
    let rest = stream::try_unfold(Some((first, rows)), |held| async move {
        match held {
            None => Ok(None),
            Some((piece, rows)) => Ok(Some((piece, next(rows).await?))),
        }
    });
    Ok(page(DavBody::stream(rest, None)))
}

/// The page of spaces.
pub(crate) async fn spaces(call: &Call) -> Answer {
    let mut out = String::new();
    open_page(&mut out, "Spaces");
    for space in call.drive.spaces(&call.who).await? {
        let link = href::of_names(&call.options.prefix, &space.name, std::iter::empty(), true);
        push_row(&mut out, &link, &space.name, NodeKind::Folder, Some(&space.root));
    }
    if !call.drive.saved_searches(&call.who).await?.is_empty() {
        push_row(&mut out, &call.href(&smart::top(), true), smart::SAVED_SEARCHES, NodeKind::Folder, None);
    }
    Ok(finished(call, out))
}

/// The page of saved searches.
pub(crate) async fn saved_searches_page(call: &Call) -> Answer {
    let mut out = String::new();
    open_page(&mut out, smart::SAVED_SEARCHES);
    push_row(&mut out, &call.href_above(&smart::top()), "..", NodeKind::Folder, None);
    for saved in call.drive.saved_searches(&call.who).await? {
        push_row(&mut out, &call.href(&smart::place(&saved), true), saved.name.as_str(), NodeKind::Folder, None);
    }
    Ok(finished(call, out))
}

/// The page of what a saved search finds.
pub(crate) async fn saved_search_page(call: &Call, saved: &SavedView) -> Answer {
    let mut out = String::new();
    open_page(&mut out, &smart::place(saved).to_string());
    push_row(&mut out, &call.href(&smart::top(), true), "..", NodeKind::Folder, None);
    let base = call.href(&smart::place(saved), true);
    for Shown { name, found } in smart::hits(call, saved).await?.iter() {
        let mut link = base.clone();
        href::push_segment(&mut link, name.as_str());
        if found.node.kind == NodeKind::Folder {
            link.push('/');
        }
        push_row(&mut out, &link, name.as_str(), found.node.kind, Some(&found.node));
    }
    Ok(finished(call, out))
}

fn finished(call: &Call, mut out: String) -> Response<DavBody> {
    close_page(&mut out);
    if call.head.method == Method::HEAD { page(DavBody::empty()) } else { whole(out.into()) }
}

/// What links to members begin with.
fn base(call: &Call, at: &Location) -> String {
    if call.head.uri.path().ends_with('/') {
        return String::new();
    }
    let href = call.href(at, true);
    let (_, last) = href.trim_end_matches('/').rsplit_once('/').unwrap_or_default();
    format!("{last}/")
}

struct Rows {
    call: Call,
    base: String,
    folder: Node,
    after: Option<NodeName>,
    out: String,
    done: bool,
}

/// The next members as rows; after the last of them, the page's end.
async fn next(mut rows: Rows) -> Result<Option<(Bytes, Rows)>> {
    if rows.done {
        return Ok(None);
    }
    let call = &rows.call;
    let nodes = call.drive.list(&call.who, &rows.folder, rows.after.as_ref(), LIST_PAGE_NODES).await?;
    for node in &nodes {
        let mut link = rows.base.clone();
        href::push_segment(&mut link, &node.name);
        if node.kind == NodeKind::Folder {
            link.push('/');
        }
        push_row(&mut rows.out, &link, &node.name, node.kind, Some(node));
    }
    match nodes.last() {
        Some(last) if nodes.len() == LIST_PAGE_NODES => rows.after = Some(NodeName::new(&last.name)?),
        _ => {
            close_page(&mut rows.out);
            rows.done = true;
        }
    }
    let piece = std::mem::take(&mut rows.out);
    Ok(Some((piece.into(), rows)))
}

fn open_page(out: &mut String, title: &str) {
    out.push_str("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>");
    push_text(out, title);
    out.push_str("</title><style>");
    out.push_str(STYLE);
    out.push_str("</style></head><body><main><h1>");
    push_text(out, title);
    out.push_str("</h1>\n<table><thead><tr><th scope=\"col\">Name</th><th scope=\"col\" class=\"n\">Size</th>");
    out.push_str("<th scope=\"col\" class=\"d\">Modified (UTC)</th></tr></thead><tbody>\n");
}

fn close_page(out: &mut String) {
    out.push_str("</tbody></table></main></body></html>\n");
}

fn push_row(out: &mut String, link: &str, name: &str, kind: NodeKind, node: Option<&Node>) {
    out.push_str("<tr><td><a href=\"");
    push_attribute(out, link);
    out.push_str("\">");
    push_text(out, name);
    if kind == NodeKind::Folder {
        out.push('/');
    }
    out.push_str("</a></td><td class=\"n\">");
    if let Some(node) = node.filter(|_| kind == NodeKind::File) {
        out.push_str(&format_bytes(node.size));
    }
    out.push_str("</td><td class=\"d\">");
    if let Some(node) = node {
        dates::push_minute(out, node.modified_ms);
    }
    out.push_str("</td></tr>\n");
}

fn whole(bytes: Bytes) -> Response<DavBody> {
    let length = bytes.len();
    let mut response = page(DavBody::full(bytes));
    response.headers_mut().insert(CONTENT_LENGTH, length.into());
    response
}

fn page(body: DavBody) -> Response<DavBody> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}
