//! GET and HEAD of a file, answered by [`holdfast_http::file`], and of a folder, as a page.

use super::listing;
use crate::DavBody;
use crate::call::{Call, set};
use crate::fault::{Answer, Fault};
use crate::guard;
use crate::parse::{self, DigestField, Target};
use futures_util::future::BoxFuture;
use holdfast_drive::{Node, NodeKind, Walk};
use holdfast_http::{FileAnswer, Pieces, mime_of_name};
use http::header::{CONTENT_SECURITY_POLICY, HeaderName, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Response, StatusCode};

/// GET, and HEAD, which is the same without content.
pub(crate) async fn get(call: &Call, target: &Target) -> Answer {
    let at = match target {
        Target::Spaces => return listing::spaces(call).await,
        Target::At { at, .. } => at,
    };
    guard::if_header_holds(call, at).await?;
    let walk = call.drive.walk(&call.who, at).await?;
    let node = walk.node().ok_or_else(Fault::not_found)?.clone();
    match node.kind {
        NodeKind::Folder => listing::folder(call, at, node).await,
        NodeKind::File => file(call, &node, walk).await,
    }
}

async fn file(call: &Call, node: &Node, walk: Walk) -> Answer {
    let (kind, charset) = mime_of_name(&node.name);
    let (tag, kind) = (node.entity_tag(), format!("{kind}{charset}"));
    let what = holdfast_http::File { tag: &tag, modified_ms: node.modified_ms, size: node.size, kind: &kind };
    let reader = (call.clone(), walk.clone());
    let open = move |range| -> BoxFuture<'static, holdfast_base::Result<Pieces>> {
        let (call, walk) = reader.clone();
        Box::pin(async move { call.drive.read(&call.who, &walk, range).await })
    };
    let mut response = match holdfast_http::file(&call.head.method, &call.head.headers, what, open).await? {
        FileAnswer::Answer(response) => response,
        FileAnswer::Failed(header) => {
            return Err(Fault::precondition_failed(format!("{header} does not hold: the file changed")));
        }
        FileAnswer::Unsatisfiable => {
            let message = format!("the file has {} bytes; no range asked for is inside it", node.size);
            let mut fault = Fault::new(StatusCode::RANGE_NOT_SATISFIABLE, message);
            fault.size = Some(node.size);
            return Err(fault);
        }
    };
    if response.status() != StatusCode::NOT_MODIFIED {
        guard_browser(&mut response, &kind);
        add_digest(call, &walk, &mut response).await?;
    }
    Ok(response)
}

/// Somebody's file must not act as a page of this drive: its type is not guessed anew, and what can carry scripts runs
/// in a sandbox without an origin.
fn guard_browser(response: &mut Response<DavBody>, kind: &str) {
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if ["html", "xml", "svg", "javascript"].iter().any(|active| kind.contains(active)) {
        response.headers_mut().insert(
            CONTENT_SECURITY_POLICY,
            HeaderValue::from_static("sandbox; default-src 'none'; style-src 'unsafe-inline'"),
        );
    }
}

/// A digest of the whole file, if the client asks for one.
async fn add_digest(call: &Call, walk: &Walk, response: &mut Response<DavBody>) -> Result<(), Fault> {
    let wanted = [
        ("want-repr-digest", DigestField::ReprDigest, HeaderName::from_static("repr-digest")),
        ("want-digest", DigestField::Digest, HeaderName::from_static("digest")),
    ];
    for (header, field, answer) in wanted {
        let Some(text) = call.header(header)? else { continue };
        let algorithm = match field {
            DigestField::Digest => parse::want_digest(&text),
            DigestField::ReprDigest => parse::want_repr_digest(&text),
        };
        if let Some(algorithm) = algorithm {
            let digest = call.drive.digest(&call.who, walk, algorithm).await?;
            set(response, answer, field.write(algorithm, &digest));
        }
    }
    Ok(())
}
