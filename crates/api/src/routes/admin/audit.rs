//! The log of who did what.

use crate::extract::{Caller, Query};
use crate::problem::Failure;
use crate::routes::Failures;
use crate::{Api, LIST_MAX};
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use holdfast_base::{Error, Result};
use holdfast_meta::{AuditEntry, AuditQuery};
use http::HeaderValue;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Entries of a page if nothing else was asked for.
const LIMIT: usize = 100;

/// An entry.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditBody {
    /// Its number.
    id: i64,
    /// When.
    at_ms: i64,
    /// Who: the account's name at that time; empty if nobody was signed in.
    account: String,
    /// From which address; empty for a command on the drive's own machine.
    address: String,
    /// Through which node.
    node: String,
    /// What: `signin.password`, `session.begin`, `account.change`, `site.publish`, …
    action: String,
    /// On what.
    object: String,
    /// More of it.
    detail: String,
    /// `ok`, or the status of the refusal.
    result: String,
}

impl From<AuditEntry> for AuditBody {
    fn from(entry: AuditEntry) -> Self {
        let AuditEntry { id, note } = entry;
        let holdfast_meta::AuditNote { at_ms, account, address, node, action, object, detail, result } = note;
        Self { id, at_ms, account, address, node, action, object, detail, result }
    }
}

/// Which entries.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Filter {
    /// Of this account alone.
    account: Option<String>,
    /// Actions that begin so: `account`, `signin.password`.
    action: Option<String>,
    /// From this address alone.
    address: Option<String>,
    /// Then or later.
    from_ms: Option<i64>,
    /// Before then.
    to_ms: Option<i64>,
    /// Go on where the page before ended: its `next`.
    before: Option<String>,
    /// Entries at most; 1,000 is the most.
    limit: Option<usize>,
}

impl Filter {
    fn query(self, limit: usize) -> Result<AuditQuery> {
        let before = self.before.as_deref().map(cursor).transpose()?;
        let Self { account, action, address, from_ms, to_ms, .. } = self;
        for text in [&account, &action, &address].into_iter().flatten() {
            if text.contains('\0') {
                return Err(Error::invalid("a filter is text without control characters"));
            }
        }
        Ok(AuditQuery { account, action, address, from_ms, to_ms, before, limit })
    }
}

fn cursor(text: &str) -> Result<(i64, i64)> {
    let parts = text.split_once('-').and_then(|(at, id)| Some((at.parse().ok()?, id.parse().ok()?)));
    parts.ok_or_else(|| Error::invalid("before is what a page gave as next"))
}

/// A page of the log.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditPage {
    /// The newest first.
    entries: Vec<AuditBody>,
    /// What to ask for as `before` to get the next page; absent if this is the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Who did what. For administrators.
#[utoipa::path(get, path = "/admin/audit", tag = "administration", params(Filter),
    responses((status = 200, body = AuditPage), Failures))]
pub(crate) async fn list(
    State(api): State<Api>,
    caller: Caller,
    Query(filter): Query<Filter>,
) -> Result<axum::Json<AuditPage>, Failure> {
    caller.require_admin()?;
    let limit = filter.limit.unwrap_or(LIMIT).clamp(1, LIST_MAX);
    let mut entries = api.catalogue.audit(filter.query(limit + 1)?).await?;
    let more = entries.len() > limit;
    entries.truncate(limit);
    let next = entries.last().filter(|_| more).map(|last| format!("{}-{}", last.note.at_ms, last.id));
    Ok(axum::Json(AuditPage { entries: entries.into_iter().map(Into::into).collect(), next }))
}

/// How the log is written out.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Form {
    /// Comma-separated values, with a heading.
    Csv,
    /// One JSON object a line.
    Jsonl,
}

/// Which entries, in which form.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExportFilter {
    /// `csv` or `jsonl`.
    #[param(inline)]
    format: Form,
    /// Of this account alone.
    account: Option<String>,
    /// Actions that begin so.
    action: Option<String>,
    /// From this address alone.
    address: Option<String>,
    /// Then or later.
    from_ms: Option<i64>,
    /// Before then.
    to_ms: Option<i64>,
}

/// The whole log, or a part, as a file. For administrators.
///
/// It is written while it is sent. A cell that a spreadsheet would take for a formula begins with an apostrophe.
#[utoipa::path(get, path = "/admin/audit/export", tag = "administration", params(ExportFilter), responses(
    (status = 200, content((String = "text/csv"), (String = "application/x-ndjson"))), Failures))]
pub(crate) async fn export(
    State(api): State<Api>,
    caller: Caller,
    Query(filter): Query<ExportFilter>,
) -> Result<Response, Failure> {
    caller.require_admin()?;
    let ExportFilter { format, account, action, address, from_ms, to_ms } = filter;
    let filter = Filter { account, action, address, from_ms, to_ms, before: None, limit: None };
    let query = filter.query(LIST_MAX)?;
    let pieces = stream::try_unfold((api, Some(query), true), move |(api, query, first)| async move {
        let Some(query) = query else { return Ok(None) };
        let entries = api.catalogue.audit(query.clone()).await?;
        let last = entries.last().filter(|_| entries.len() == LIST_MAX).map(|last| (last.note.at_ms, last.id));
        let next = last.map(|before| AuditQuery { before: Some(before), ..query });
        let mut text = if first && matches!(format, Form::Csv) { HEADING.to_owned() } else { String::new() };
        for entry in entries {
            write(&mut text, format, &entry.into())?;
        }
        Ok::<_, Error>(Some((Bytes::from(text), (api, next, false))))
    });
    let (kind, name) = match format {
        Form::Csv => ("text/csv; charset=utf-8", "attachment; filename=\"audit.csv\""),
        Form::Jsonl => ("application/x-ndjson", "attachment; filename=\"audit.jsonl\""),
    };
    let mut response = Response::new(Body::from_stream(pieces));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(CONTENT_DISPOSITION, HeaderValue::from_static(name));
    Ok(response)
}

const HEADING: &str = "at_ms,account,address,node,action,object,detail,result\r\n";

fn write(text: &mut String, format: Form, entry: &AuditBody) -> Result<()> {
    match format {
        Form::Csv => {
            let AuditBody { at_ms, account, address, node, action, object, detail, result, .. } = entry;
            text.push_str(&at_ms.to_string());
            for field in [account, address, node, action, object, detail, result] {
                text.push(',');
                text.push_str(&cell(field));
            }
            text.push_str("\r\n");
        }
        Form::Jsonl => {
            let line = serde_json::to_string(entry)
                .map_err(|error| Error::internal("an entry cannot be written").with_source(error))?;
            text.push_str(&line);
            text.push('\n');
        }
    }
    Ok(())
}

/// A cell of CSV, always quoted; what a spreadsheet would compute is made text.
fn cell(text: &str) -> String {
    let harmful = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    format!("\"{}{}\"", if harmful { "'" } else { "" }, text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_text_whatever_it_says() {
        assert_eq!(cell("a \"b\", c"), "\"a \"\"b\"\", c\"");
        for bad in ["=1+1", "+1", "-1", "@x", "\tx"] {
            assert_eq!(cell(bad), format!("\"'{bad}\""));
        }
    }

    #[test]
    fn a_cursor_is_what_a_page_gave() {
        assert_eq!(cursor("5-7").expect("reads"), (5, 7));
        for bad in ["", "5", "5-", "a-b", "5-7-9", "99999999999999999999-1"] {
            assert!(cursor(bad).is_err(), "{bad}");
        }
    }
}
