//! Files and folders as a zip.

use super::Failures;
use super::batches::{PlaceRef, check_count, numbered};
use super::nodes::end_of;
use crate::Api;
use crate::archive::{Root, archive, safe_name};
use crate::extract::{At, Caller, Form};
use crate::problem::Failure;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use holdfast_auth::Session;
use holdfast_base::{Error, Result};
use holdfast_drive::{Location, Node, NodeKind};
use holdfast_http::{AnswerBody, attachment};
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use serde::Deserialize;
use std::collections::HashSet;
use utoipa::ToSchema;

/// A folder as a zip.
///
/// It is made while it is sent, so its length is not known before. What cannot be read is named in a file at its end.
#[utoipa::path(get, path = "/archive/{space}/{path}", tag = "files",
    params(("space" = String, Path), ("path" = String, Path)),
    responses((status = 200, body = [u8], content_type = "application/zip"), Failures))]
pub(crate) async fn folder(State(api): State<Api>, caller: Caller, At(at): At) -> Result<Response, Failure> {
    let (root, title) = root(&api, &caller.0, at).await?;
    answer(api, caller, vec![root], &title).await
}

/// What is to be in an archive.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SelectionForm {
    /// JSON: a list of `{"space": …, "path": …}`, 1,000 at most.
    items: String,
}

/// A selection as a zip.
///
/// Takes a form, so that a browser saves the answer while it comes.
#[utoipa::path(post, path = "/archive", tag = "files",
    request_body(content = SelectionForm, content_type = "application/x-www-form-urlencoded"),
    responses((status = 200, body = [u8], content_type = "application/zip"), Failures))]
pub(crate) async fn selection(
    State(api): State<Api>,
    caller: Caller,
    Form(form): Form<SelectionForm>,
) -> Result<Response, Failure> {
    let items: Vec<PlaceRef> =
        serde_json::from_str(&form.items).map_err(|error| Error::invalid(format!("items: {error}")))?;
    check_count(items.len())?;
    let (mut roots, mut taken, mut title) = (Vec::new(), HashSet::new(), None);
    let is_alone = items.len() == 1;
    for item in items {
        let (mut root, name) = root(&api, &caller.0, item.read()?).await?;
        if !is_alone {
            // What is of different folders may have one name.
            let is_file = root.node.kind == NodeKind::File;
            let names = std::iter::once(name.clone()).chain((2..).map(|number| numbered(&name, number, is_file)));
            root.name = names.into_iter().find(|name| taken.insert(name.clone())).unwrap_or(name.clone());
        }
        title = title.or_else(|| is_alone.then_some(name));
        roots.push(root);
    }
    if roots.is_empty() {
        return Err(Error::invalid("an archive of nothing").into());
    }
    answer(api, caller, roots, title.as_deref().unwrap_or("selection")).await
}

/// One thing of an archive, and what to call the archive if it is the only one.
async fn root(api: &Api, who: &Session, at: Location) -> Result<(Root, String)> {
    let node: Node = end_of(&api.drive.walk(who, &at).await?, &at)?.clone();
    let name = if at.path.is_root() { at.space.clone() } else { safe_name(&node) };
    Ok((Root { at, node, name: name.clone() }, name))
}

async fn answer(api: Api, caller: Caller, roots: Vec<Root>, title: &str) -> Result<Response, Failure> {
    for root in &roots {
        api.accounts.count_download(&caller.0, root.node.id, root.node.seq).await?;
    }
    let pieces = archive(api, caller.0, roots).await?;
    let name = HeaderValue::try_from(attachment(&format!("{title}.zip")))
        .map_err(|error| Error::internal("an archive's name cannot be a header").with_source(error))?;
    let mut response = Response::new(Body::new(AnswerBody::stream(pieces, None)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/zip"));
    headers.insert(CONTENT_DISPOSITION, name);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
