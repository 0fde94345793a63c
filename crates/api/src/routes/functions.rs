//! Functions that this server calls. What they are is deployed by whoever runs the server (`holdfast function deploy`); here they are called.
//!
//! An answer of a function is never something that a browser shows as a page of the drive: it is bytes, in a sandbox of their own.

use super::Failures;
use super::functions_bodies::{CallBody, CallsBody, FunctionBody, FunctionsBody, Input};
use crate::Api;
use crate::extract::{Caller, Path, Query};
use crate::problem::{Failure, Problem};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use holdfast_auth::{Scope, Session};
use holdfast_base::{Error, ErrorKind};
use holdfast_function::{Call, End, Host, Manifest, Name, Reached};
use holdfast_http::incoming;
use holdfast_meta::audit::amend;
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::Deserialize;
use utoipa::IntoParams;

/// Calls of a page, unless another number is asked for, and the most.
const CALLS: usize = 50;
const CALLS_MAX: usize = 1_000;

/// The call's id, for its record.
const CALL: HeaderName = HeaderName::from_static("holdfast-call");
/// `cold` or `warm`.
const START: HeaderName = HeaderName::from_static("holdfast-start");
/// Microseconds it ran.
const RAN: HeaderName = HeaderName::from_static("holdfast-ran-us");

fn host(api: &Api) -> Result<&Host, Failure> {
    let none = || {
        Error::not_found(
            "this server calls no functions: name a folder of them in its configuration, as functions.folder",
        )
    };
    api.functions.as_ref().ok_or_else(|| Failure(none()))
}

/// Reads files, so aside.
async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> holdfast_base::Result<T> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    Ok(done.map_err(|error| Error::internal(error.to_string()))??)
}

fn may(session: &Session, manifest: &Manifest) -> bool {
    session.admin || manifest.invoke.contains(&session.name)
}

/// A token that is limited to a space, or to reading, is limited to that.
fn whole(session: &Session) -> Result<(), Error> {
    if session.scope == Scope::default() {
        return Ok(());
    }
    Err(Error::forbidden("this token is limited to files, and calls no functions"))
}

/// Functions that the caller may call; for administrators all.
///
/// Without functions in the configuration of the node that answers, `configured` is false.
#[utoipa::path(get, path = "/functions", tag = "functions", responses((status = 200, body = FunctionsBody), Failures))]
pub(crate) async fn list(State(api): State<Api>, caller: Caller) -> Result<axum::Json<FunctionsBody>, Failure> {
    whole(&caller.0)?;
    let Some(host) = api.functions else {
        return Ok(axum::Json(FunctionsBody { configured: false, functions: Vec::new() }));
    };
    let session = caller.0;
    let functions = aside(move || {
        let seen = |one: holdfast_function::Listed| {
            let is_seen = session.admin || one.manifest.as_ref().is_ok_and(|manifest| may(&session, manifest));
            is_seen.then(|| FunctionBody::of(&one, host.state(&one.name), session.admin))
        };
        Ok(host.store().list()?.into_iter().filter_map(seen).collect())
    })
    .await?;
    Ok(axum::Json(FunctionsBody { configured: true, functions }))
}

/// Call a function: the request's body is its input, the answer's its output.
///
/// Administrators may, and the accounts that its manifest names. As many calls run at a time as it allows; some more wait, and the next is answered by 429. The header
/// `Holdfast-Call` has the id of the call's record, `Holdfast-Start` is `cold` or `warm`, and `Holdfast-Ran-Us` has the microseconds it ran. The input is handed on as it comes; if
/// it breaks off, the call is ended.
#[utoipa::path(post, path = "/functions/{name}/invoke", tag = "functions", params(("name" = String, Path)),
    request_body(content = [u8], content_type = "application/octet-stream"), responses(
    (status = 200, description = "its output", body = [u8], content_type = "application/octet-stream",
        headers(("holdfast-call" = String), ("holdfast-start" = String), ("holdfast-ran-us" = u64))),
    (status = 408, description = "the input came too slowly", body = Problem, content_type = "application/problem+json"),
    (status = 502, description = "it failed; its record says how", body = Problem, content_type = "application/problem+json"),
    (status = 504, description = "it took longer than it may", body = Problem, content_type = "application/problem+json"), Failures))]
pub(crate) async fn invoke(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Failure> {
    whole(&caller.0)?;
    let host = host(&api)?;
    let name: Name = name.parse()?;
    let length = request
        .headers()
        .get(http::header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    let session = &caller.0;
    let allowed = |manifest: &Manifest| {
        if !may(session, manifest) {
            // As if it were not there, as it is in the list.
            return Err(Error::not_found(format!("there is no function {name} that this account may call")));
        }
        if length.is_some_and(|length| length > manifest.limits.input) {
            let most = manifest.limits.input;
            return Err(Error::new(ErrorKind::TooLarge, format!("{name} takes {most} bytes of input at most")));
        }
        Ok(())
    };
    let input = Input::new(incoming(request.into_body()));
    let call = host.invoke(&name, &session.name, allowed, input).await?;
    amend(|note| note.detail = format!("call {}", call.id));
    Ok(answer(&name, call))
}

fn answer(name: &Name, call: Call) -> Response {
    let mut headers = HeaderMap::new();
    headers.insert(START, HeaderValue::from_static(if call.cold { "cold" } else { "warm" }));
    headers.insert(RAN, call.ran_us.into());
    if let Ok(id) = HeaderValue::try_from(call.id.to_string()) {
        headers.insert(CALL, id);
    }
    let status = match &call.end {
        End::Done => {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
            headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
            return (headers, call.output).into_response();
        }
        End::Reached(Reached::Seconds(_)) => StatusCode::GATEWAY_TIMEOUT,
        End::InputTooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
        End::InputBroken(_) => StatusCode::REQUEST_TIMEOUT,
        End::Stopped => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_GATEWAY,
    };
    let problem = Problem::new(status, format!("{name}: {} (call {})", call.end, call.id));
    (headers, problem).into_response()
}

/// Which calls.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Page {
    /// Calls at most; 1,000 is the most.
    limit: Option<usize>,
}

fn known(host: &Host, name: &Name) -> holdfast_base::Result<()> {
    let current = host.store().current(name)?;
    current.map(drop).ok_or_else(|| Error::not_found(format!("there is no function {name}")))
}

/// What the last calls of a function did, the latest first, without their logs and outputs. For administrators.
#[utoipa::path(get, path = "/functions/{name}/calls", tag = "functions", params(("name" = String, Path), Page),
    responses((status = 200, body = CallsBody), Failures))]
pub(crate) async fn calls(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
    Query(page): Query<Page>,
) -> Result<axum::Json<CallsBody>, Failure> {
    caller.require_admin()?;
    whole(&caller.0)?;
    let (host, name) = (host(&api)?.clone(), name.parse::<Name>()?);
    let limit = page.limit.unwrap_or(CALLS).clamp(1, CALLS_MAX);
    let calls = aside(move || {
        known(&host, &name)?;
        let last = host.store().records(&name).last(limit, |_| true)?;
        Ok(last.into_iter().rev().map(|record| CallBody::of(record, false)).collect())
    })
    .await?;
    Ok(axum::Json(CallsBody { calls }))
}

/// What a call did, with its log, and its output if that was kept. For administrators.
#[utoipa::path(get, path = "/functions/{name}/calls/{call}", tag = "functions", params(("name" = String, Path), ("call" = String, Path)),
    responses((status = 200, body = CallBody), Failures))]
pub(crate) async fn call(
    State(api): State<Api>,
    caller: Caller,
    Path((name, id)): Path<(String, String)>,
) -> Result<axum::Json<CallBody>, Failure> {
    caller.require_admin()?;
    whole(&caller.0)?;
    let (host, name, id) = (host(&api)?.clone(), name.parse::<Name>()?, id.parse()?);
    let record = aside(move || {
        known(&host, &name)?;
        host.store().records(&name).one(id)
    })
    .await?;
    Ok(axum::Json(CallBody::of(record, true)))
}
