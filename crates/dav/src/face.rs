//! The face itself: options, and the way from a request to its method.

use crate::DavBody;
use crate::call::{Call, RequestBody, drain, empty};
use crate::fault::{Answer, Fault, METHODS};
use crate::limits::INFINITY_NODES_MAX;
use crate::methods::{self, PutInto};
use crate::parse::{self, Target};
use crate::smart::{self, Answers};
use bytes::Bytes;
use holdfast_auth::Session;
use holdfast_base::{Clock, SystemClock};
use holdfast_drive::Drive;
use http::header::{ALLOW, CONTENT_LENGTH, HeaderName};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use std::sync::Arc;

/// How a face is set up.
#[derive(Clone)]
pub struct DavOptions {
    /// The path all of it is below, without a slash at its end.
    pub prefix: String,
    /// Further names (`host` or `host:port`) under which the drive is reached: a `Destination` header may name them. The name
    /// a request was sent to always counts.
    pub hosts: Vec<String>,
    /// Nodes a PROPFIND of depth infinity may meet.
    pub infinity_nodes_max: usize,
    /// Time, for the seconds a lock still has.
    pub clock: Arc<dyn Clock>,
}

impl Default for DavOptions {
    /// Below `/dav`, no further names, [`INFINITY_NODES_MAX`], the machine's clock.
    fn default() -> Self {
        Self {
            prefix: "/dav".into(),
            hosts: Vec::new(),
            infinity_nodes_max: INFINITY_NODES_MAX,
            clock: Arc::new(SystemClock),
        }
    }
}

/// WebDAV over a drive. Cheap to clone.
#[derive(Clone)]
pub struct DavFace {
    drive: Arc<dyn Drive>,
    options: Arc<DavOptions>,
    answers: Arc<Answers>,
}

impl DavFace {
    /// Makes a face.
    pub fn new(drive: Arc<dyn Drive>, options: DavOptions) -> Self {
        Self { drive, options: Arc::new(options), answers: Arc::default() }
    }

    /// Answers a request whose path is the prefix or below it. Every outcome is a response; a body of a stream that fails
    /// later ends with an error, on which the server must break the connection off (hyper does).
    pub async fn handle<B>(&self, who: Arc<Session>, request: Request<B>) -> Response<DavBody>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (head, body) = request.into_parts();
        let (drive, options, answers) = (self.drive.clone(), self.options.clone(), self.answers.clone());
        let call = Call { drive, options, who, head: Arc::new(head), answers, aliases: Vec::new() };
        let body = body.map_err(Into::into).boxed_unsync();
        match dispatch(&call, body).await {
            Ok(response) => response,
            Err(fault) => fault.into_response(&call.head.method),
        }
    }
}

async fn dispatch(call: &Call, body: RequestBody) -> Answer {
    let target = match target(call) {
        Ok(target) => target,
        Err(fault) => {
            drain(call, body).await;
            return Err(fault);
        }
    };
    if let Target::At { at, slash } = &target
        && smart::is_saved(at)
        && call.head.method != Method::OPTIONS
    {
        return smart::handle(call, at, *slash, body).await;
    }
    match call.head.method.as_str() {
        "OPTIONS" => Ok(options()),
        "GET" | "HEAD" => methods::get(call, &target).await,
        "PUT" => methods::put(call, target, body, PutInto::default()).await,
        "DELETE" => methods::delete(call, &target).await,
        "MKCOL" => methods::mkcol(call, &target, body).await,
        "COPY" => methods::transfer(call, target, true).await,
        "MOVE" => methods::transfer(call, target, false).await,
        "PROPFIND" => methods::propfind(call, target, body).await,
        "PROPPATCH" => methods::proppatch(call, &target, body).await,
        "LOCK" => methods::lock(call, &target, body).await,
        "UNLOCK" => methods::unlock(call, &target).await,
        _ => {
            drain(call, body).await;
            Err(Fault::new(StatusCode::METHOD_NOT_ALLOWED, format!("this address understands {METHODS}")))
        }
    }
}

/// The request's target. A query is ignored when reading and refused when writing: it most likely is the end of a name
/// with an unencoded question mark, and then the request would change another file than its sender meant.
fn target(call: &Call) -> Result<Target, Fault> {
    let reads = matches!(call.head.method, Method::GET | Method::HEAD | Method::OPTIONS)
        || call.head.method.as_str() == "PROPFIND";
    if !reads && call.head.uri.query().is_some() {
        return Err(Fault::bad_request("an address with a query cannot be changed; write ? in a name as %3F"));
    }
    parse::target(&call.options.prefix, call.head.uri.path()).map_err(Fault::of_path)
}

fn options() -> Response<DavBody> {
    let mut response = empty(StatusCode::OK);
    let headers = response.headers_mut();
    headers.insert(HeaderName::from_static("dav"), HeaderValue::from_static("1, 2, 3"));
    headers.insert(HeaderName::from_static("ms-author-via"), HeaderValue::from_static("DAV"));
    headers.insert(http::header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(ALLOW, HeaderValue::from_static(METHODS));
    headers.insert(CONTENT_LENGTH, 0.into());
    response
}
