//! From a request to the face that answers it: routing, sign-in, and what every answer gets.
//!
//! | path | answered by | sign-in |
//! |---|---|---|
//! | anything, on a host that is a published site's | that site ([`crate::sites`]) | as the site asks |
//! | `/dav`, `/dav/…` | WebDAV | always |
//! | `/api/v1/openapi.json`, `/api/v1/reference`, `/api/v1/sign-in` | the API's description, for programs and for people; ways to sign in | none |
//! | `POST /api/v1/session` and below | the JSON API | by what it sends |
//! | `GET /api/v1/session`, from a page | the JSON API | a session, if there is one |
//! | `/api/v1/links/{id}/…` | the JSON API, for the visitor of a link ([`links`]) | by what it sends, or the link's own cookie |
//! | `/api/…` | the JSON API | always |
//! | `/wire/v1/…` | mounts on other machines ([`holdfast_remote::face`]) | always |
//! | `/healthz`, `/readyz` | this module | none |
//! | `/` | the pages, and for what is no browser the landing page; `OPTIONS` for clients that probe the root before they ask for a password | none |
//! | `/files/…`, `/assets/…` and so on | the pages ([`holdfast_pages`]) | none |
//!
//! Answers that a person's file may be part of get `Content-Security-Policy: sandbox`: a page kept in the drive must not run
//! scripts as the drive.

mod browser;
pub(crate) mod gate;
mod landing;
pub(crate) mod links;
pub(crate) mod record;
pub(crate) mod reply;

use crate::conn::{AnyBody, Handler, Peer, RequestBody, ResponseBody, Tally};
use crate::meter::Meter;
use crate::monitor::{Monitor, file_action};
use crate::peer::{Client, Network, client};
use crate::sites;
use crate::telemetry::AccessLog;
use axum::Router;
use futures_util::future::BoxFuture;
use holdfast_api::cookie::Visitor;
use holdfast_auth::{Credential, Journal, Session};
use holdfast_base::{Error, ErrorKind, Result, Uid};
use holdfast_meta::{AuditNote, Catalogue};
use holdfast_remote::face::{Did, WireFace};
use holdfast_site::serve::{Door, Serving};
use http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, VARY,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, Request, Response, StatusCode, Version};
use http_body_util::BodyExt;
use links::Shown;
use parking_lot::Mutex;
use record::{Face, Record, RequestIds};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tower::ServiceExt;

/// An answer about readiness is used again for this long, so that probes cannot keep the disk busy.
const READY_FOR: Duration = Duration::from_secs(1);

/// A catalogue that does not answer a probe within this is not ready.
const READY_WITHIN: Duration = Duration::from_secs(5);

/// How long a node that has just started waits for its sites before it says that it is ready for the drive: they may have host
/// names on the drive's listeners, but a store that does not answer must not keep names and properties from being served.
const SITES_WITHIN: Duration = Duration::from_secs(10);

/// Checks a credential sent from an address.
pub(crate) type SignIn = Arc<dyn Fn(Credential, IpAddr) -> BoxFuture<'static, Result<Arc<Session>>> + Send + Sync>;

/// Checks what the visitor of a link shows.
pub(crate) type Visiting = Arc<dyn Fn(Uid, Shown) -> BoxFuture<'static, Result<Arc<Session>>> + Send + Sync>;

/// Answers a WebDAV request of a signed-in account.
pub(crate) type Dav =
    Arc<dyn Fn(Arc<Session>, Request<RequestBody>) -> BoxFuture<'static, Response<AnyBody>> + Send + Sync>;

/// Everything that answers on the public listeners.
pub(crate) struct Web {
    pub(crate) sign_in: SignIn,
    pub(crate) visit: Visiting,
    pub(crate) dav: Dav,
    pub(crate) api: Router,
    pub(crate) wire: WireFace,
    pub(crate) catalogue: Arc<dyn Catalogue>,
    pub(crate) sites: Serving,
    pub(crate) trusted_proxies: Vec<Network>,
    pub(crate) allow_plain_http: bool,
    pub(crate) access_log: AccessLog,
    pub(crate) meter: Arc<Meter>,
    pub(crate) monitor: Monitor,
    pub(crate) journal: Journal,
    pub(crate) room: Arc<Semaphore>,
    pub(crate) ids: RequestIds,
    pub(crate) draining: AtomicBool,
    pub(crate) started: Instant,
    pub(crate) readiness: Mutex<Option<(Instant, bool)>>,
}

impl Handler for Web {
    async fn handle(
        self: Arc<Self>,
        peer: Peer,
        tally: Arc<Tally>,
        mut request: Request<RequestBody>,
    ) -> Response<ResponseBody> {
        let client = client(peer, request.headers(), &self.trusted_proxies);
        let is_site = self.sites.is_for_a_site(request.headers(), request.uri());
        let face = if is_site { Face::Site } else { face(request.uri().path()) };
        let trusted = self.trusted_proxies.iter().any(|network| network.contains(peer.address.ip()));
        let id = self.ids.next(request.headers(), trusted);
        let version = request.version();
        let room = self.room.clone().try_acquire_owned().ok();
        // nginx passes an early answer on, closes the client's connection for the rest of the upload, and does not say so.
        let rest = (trusted && version < Version::HTTP_2).then(|| request.body_mut().over());
        let full = room.is_none() && face != Face::Page;
        let log = self.access_log;
        let counts = (self.meter.clone(), self.monitor.clone());
        let mut record = Record::begin(&request, (id, face, client.address), tally.clone(), counts, log, room);
        let mut answer = if full {
            drop(request);
            metrics::counter!("holdfast_requests_refused_total").increment(1);
            reply::error(
                &Error::unavailable("too many requests are being worked on; try again shortly"),
                face == Face::Api,
            )
        } else {
            self.route(&client, &mut record, request).await
        };
        if let Some(rest) = rest {
            // Nobody sends anything; it ends with the body.
            let _ = rest.await;
        }
        record.status = answer.status();
        dress(&mut answer, &record);
        self.end_connection(version, &mut answer);
        answer.map(|body| ResponseBody::new(body, tally, Some(Box::new(record))))
    }
}

/// Which part of the server a path belongs to.
fn face(path: &str) -> Face {
    let below = |root: &str| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if below("/dav") {
        Face::Dav
    } else if below("/api") {
        Face::Api
    } else if below("/wire") {
        Face::Wire
    } else {
        Face::Page
    }
}

/// Whether a request to this address of the API is one to sign in, which says itself who it is.
fn is_sign_in(path: &str) -> bool {
    path.strip_prefix("/api/v1/session").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whoever was let in, and nobody in place of a failure to be somebody.
fn nobody(admitted: Result<Arc<Session>>) -> Result<Option<Arc<Session>>> {
    match admitted {
        Ok(session) => Ok(Some(session)),
        Err(error) if error.kind() == ErrorKind::Unauthenticated => Ok(None),
        Err(error) => Err(error),
    }
}

/// Headers every answer gets.
fn dress(answer: &mut Response<AnyBody>, record: &Record) {
    let headers = answer.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&record.id) {
        headers.insert(HeaderName::from_static("x-request-id"), id);
    }
    if record.face == Face::Site {
        return;
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    if record.face == Face::Api {
        headers
            .insert(HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin"));
        headers.insert(HeaderName::from_static("x-robots-tag"), HeaderValue::from_static("noindex, nofollow"));
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    }
    if !headers.contains_key(CONTENT_SECURITY_POLICY) {
        let policy = if record.face == Face::Dav { "sandbox" } else { "default-src 'none'; frame-ancestors 'none'" };
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    }
}

impl Web {
    async fn route(&self, client: &Client, record: &mut Record, request: Request<RequestBody>) -> Response<AnyBody> {
        match record.face {
            Face::Page => self.page(client, &request).await,
            Face::Site => {
                let visitor = sites::visitor(client, self.allow_plain_http);
                sites::any(self.sites.answer(Door::Drive, visitor, request).await)
            }
            Face::Dav => match self.admit(client, gate::credential(request.headers())).await {
                Ok(session) => {
                    record.account = Some((session.account, session.name.clone()));
                    self.call_dav(client, session, request).await
                }
                Err(error) => refuse(record, client, &error),
            },
            Face::Api => self.api(client, record, request).await,
            Face::Wire => match self.admit(client, gate::credential(request.headers())).await {
                Ok(session) => {
                    record.account = Some((session.account, session.name.clone()));
                    self.call_wire(client, session, request).await
                }
                Err(error) => refuse(record, client, &error),
            },
        }
    }

    async fn api(&self, client: &Client, record: &mut Record, mut request: Request<RequestBody>) -> Response<AnyBody> {
        let visitor = Visitor { address: client.address, encrypted: client.encrypted };
        request.extensions_mut().insert(visitor);
        if let Some(link) = links::of(request.uri().path()) {
            return self.link(client, record, request, link).await;
        }
        let admitted = match (request.method(), request.uri().path()) {
            (&Method::GET | &Method::HEAD, path) if holdfast_api::is_public(path) => Ok(None),
            // A page that begins asks who is signed in; that nobody is, is no failure.
            (&Method::GET, "/api/v1/session") if browser::is_a_page(request.headers(), client.encrypted) => {
                nobody(self.admit(client, browser::credential(&request, client.encrypted)).await)
            }
            (&Method::POST, path) if is_sign_in(path) => browser::check_origin(&request, client.encrypted, false)
                .and_then(|()| gate::check_transport(client, self.allow_plain_http))
                .map(|()| None),
            _ => self.admit(client, browser::credential(&request, client.encrypted)).await.map(Some),
        };
        match admitted {
            Ok(session) => {
                if let Some(session) = session {
                    record.account = Some((session.account, session.name.clone()));
                    request.extensions_mut().insert(session);
                }
                self.call_api(request).await
            }
            Err(error) => {
                let answer = refuse(record, client, &error);
                if browser::is_a_page(request.headers(), client.encrypted) && error.kind() == ErrorKind::Unauthenticated
                {
                    return reply::with(answer, WWW_AUTHENTICATE, holdfast_api::SESSION_CHALLENGE);
                }
                answer
            }
        }
    }

    /// Tells whoever keeps the connection to make the next one elsewhere, while this server is about to stop.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    pub(crate) fn end_connection(&self, version: Version, answer: &mut Response<AnyBody>) {
        // HTTP/2 has no such header; its connections are told when the listeners close.
        if version < Version::HTTP_2 && self.is_draining() {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }

    async fn admit(&self, client: &Client, credential: Result<Option<Credential>>) -> Result<Arc<Session>> {
        let credential = credential?;
        gate::check_transport(client, self.allow_plain_http)?;
        let credential = credential
            .ok_or_else(|| Error::new(ErrorKind::Unauthenticated, "Sign in with your account's name and password."))?;
        (self.sign_in)(credential, client.address).await
    }

    async fn call_dav(
        &self,
        client: &Client,
        session: Arc<Session>,
        request: Request<RequestBody>,
    ) -> Response<AnyBody> {
        let action = file_action(request.method()).filter(|_| self.journal.keeps_files());
        let note = action.map(|action| {
            let note = self.journal.note(&session.name, Some(client.address), action);
            AuditNote { object: request.uri().path().trim_start_matches("/dav/").to_owned(), ..note }
        });
        let answer = (self.dav)(session, request).await;
        if let Some(mut note) = note {
            if !answer.status().is_success() {
                answer.status().as_str().clone_into(&mut note.result);
            }
            self.journal.add(note);
        }
        answer
    }

    async fn call_wire(
        &self,
        client: &Client,
        session: Arc<Session>,
        request: Request<RequestBody>,
    ) -> Response<AnyBody> {
        let note = self.journal.keeps_files().then(|| self.journal.note(&session.name, Some(client.address), ""));
        let mut answer = self.wire.handle(session, request).await;
        // What the call was about is known when it was read.
        if let (Some(note), Some(all)) = (note, answer.extensions_mut().remove::<Vec<Did>>()) {
            for Did { action, object, refused } in all {
                let mut note = AuditNote { action: action.into(), object, ..note.clone() };
                let status = answer.status();
                if let Some(status) = refused.or_else(|| (!status.is_success()).then(|| status.as_u16())) {
                    note.result = status.to_string();
                }
                self.journal.add(note);
            }
        }
        answer.map(|body| body.map_err(Into::into).boxed_unsync())
    }

    async fn call_api(&self, request: Request<RequestBody>) -> Response<AnyBody> {
        let request = request.map(axum::body::Body::new);
        // A router's error type is `Infallible`.
        let Ok(answer) = self.api.clone().oneshot(request).await;
        answer.map(|body| body.map_err(Into::into).boxed_unsync())
    }

    async fn page(&self, client: &Client, request: &Request<RequestBody>) -> Response<AnyBody> {
        let reading = matches!(*request.method(), Method::GET | Method::HEAD);
        match request.uri().path() {
            "/" | "*" if request.method() == Method::OPTIONS => root_options(),
            "/" if reading && !(holdfast_pages::are_built() && landing::is_for_a_browser(request.headers())) => {
                let answer = landing::page(request.headers(), request.uri(), client.encrypted);
                reply::with(answer, VARY, HeaderValue::from_static("accept"))
            }
            "/healthz" if reading => reply::text(StatusCode::OK, "ok\n"),
            "/readyz" if reading && !self.sites.is_settled() && self.started.elapsed() < SITES_WITHIN => {
                reply::text(StatusCode::SERVICE_UNAVAILABLE, "sites are not loaded yet\n")
            }
            "/readyz" if reading => self.readiness().await,
            "/" | "/healthz" | "/readyz" if !reading => {
                let answer = reply::text(StatusCode::METHOD_NOT_ALLOWED, "Only GET and HEAD. Files are below /dav/.\n");
                reply::with(answer, ALLOW, HeaderValue::from_static("GET, HEAD, OPTIONS"))
            }
            path if holdfast_pages::is_page(path) && !reading => {
                let answer = reply::text(StatusCode::METHOD_NOT_ALLOWED, "Only GET and HEAD. Files are below /dav/.\n");
                reply::with(answer, ALLOW, HeaderValue::from_static("GET, HEAD"))
            }
            path => match holdfast_pages::answer(path, request.headers()).filter(|_| reading) {
                Some(mut answer) => {
                    if path == "/" {
                        answer.headers_mut().insert(VARY, HeaderValue::from_static("accept, accept-encoding"));
                    }
                    sites::any(answer)
                }
                None if holdfast_pages::is_page(path) => reply::text(StatusCode::NOT_FOUND, landing::NOT_BUILT),
                None => reply::text(
                    StatusCode::NOT_FOUND,
                    "There is nothing here. Files are below /dav/, the API below /api/v1/.\n",
                ),
            },
        }
    }

    pub(crate) async fn readiness(&self) -> Response<AnyBody> {
        if self.draining.load(Ordering::Relaxed) {
            return reply::text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n");
        }
        let known = self.readiness.lock().filter(|(at, _)| at.elapsed() < READY_FOR);
        let ready = if let Some((_, ready)) = known {
            ready
        } else {
            let answer = tokio::time::timeout(READY_WITHIN, self.catalogue.ping()).await;
            let ready = matches!(answer, Ok(Ok(())));
            if !ready {
                tracing::warn!(?answer, "not ready: the catalogue does not answer");
            }
            *self.readiness.lock() = Some((Instant::now(), ready));
            ready
        };
        if ready {
            reply::text(StatusCode::OK, "ready\n")
        } else {
            reply::text(StatusCode::SERVICE_UNAVAILABLE, "the catalogue does not answer\n")
        }
    }
}

fn refuse(record: &Record, client: &Client, error: &Error) -> Response<AnyBody> {
    tracing::debug!(id = %record.id, client = %client.address, %error, "not let in");
    reply::error(error, record.face == Face::Api)
}

/// Windows and some libraries ask the server's root whether it speaks WebDAV before they ask for a password.
fn root_options() -> Response<AnyBody> {
    let mut answer = reply::text(StatusCode::OK, "");
    let headers = answer.headers_mut();
    headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD, OPTIONS"));
    headers.insert(HeaderName::from_static("dav"), HeaderValue::from_static("1, 2, 3"));
    headers.insert(HeaderName::from_static("ms-author-via"), HeaderValue::from_static("DAV"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_belong_to_the_face_whose_whole_first_segment_they_have() {
        assert_eq!([face("/dav"), face("/dav/x"), face("/davenport")], [Face::Dav, Face::Dav, Face::Page]);
        assert_eq!([face("/wire/v1/call"), face("/wired")], [Face::Wire, Face::Page]);
        assert_eq!(
            [face("/api/v1/me"), face("/apis"), face("/"), face("*")],
            [Face::Api, Face::Page, Face::Page, Face::Page]
        );
    }
}
