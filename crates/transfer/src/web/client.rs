//! Asking a web server.

use super::answer::refused;
use crate::other::Login;
use crate::signs;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use holdfast_base::{ByteRange, Error, ErrorKind, Result};
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderValue, IF_RANGE, LOCATION, RANGE, USER_AGENT};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroizing;

/// After this, a server that takes no connection is tried again.
const CONNECT_TIME: Duration = Duration::from_secs(20);
/// Times that a server may send one on.
const REDIRECTS_MAX: usize = 5;

pub(super) struct Client {
    pool: Pool<HttpsConnector<HttpConnector>, Empty<Bytes>>,
    /// What is shown to one server, and to no other.
    basic: Option<(Uri, HeaderValue)>,
}

impl Client {
    pub(super) fn new(ca: Option<&Path>) -> Result<Self> {
        let mut tcp = HttpConnector::new();
        tcp.set_connect_timeout(Some(CONNECT_TIME));
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::internal("TLS could not be set up").with_source(error))?;
        let tls = builder.with_root_certificates(roots(ca)?).with_no_client_auth();
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().wrap_connector(tcp);
        let pool = Pool::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
        Ok(Self { pool, basic: None })
    }

    /// Signs in at the server of an address by name and password (RFC 7617), if there are such.
    pub(super) fn signed_in(self, at: &Uri, login: &Login) -> Result<Self> {
        let (user, password) = match (&login.user, &login.password) {
            (None, None) => return Ok(self),
            (Some(user), Some(password)) if !user.contains(':') => (user, password),
            _ => {
                return Err(Error::invalid(
                    "web servers want both --user NAME, without a colon, and --password-file FILE",
                ));
            }
        };
        let here = at.host().is_some_and(|host| matches!(host, "localhost" | "127.0.0.1" | "[::1]"));
        if at.scheme_str() != Some("https") && !here {
            return Err(Error::invalid("a password is sent over https alone: over http others can read it"));
        }
        let pair = Zeroizing::new(format!("{user}:{}", password.expose()));
        let shown = Zeroizing::new(format!("Basic {}", BASE64_STANDARD.encode(pair.as_bytes())));
        let mut shown =
            HeaderValue::from_str(&shown).map_err(|_| Error::internal("a password could not be written down"))?;
        shown.set_sensitive(true);
        Ok(Self { basic: Some((at.clone(), shown)), ..self })
    }

    /// A page or a list, of so many bytes at most, and where it came from in the end.
    pub(super) async fn page(&self, url: &Uri, bytes_max: usize) -> Result<Option<Page>> {
        let (url, answer) = self.follow(url, None, None).await?;
        match answer.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND | StatusCode::GONE => return Ok(None),
            status => return Err(refused(status, answer.headers())),
        }
        let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let is_json = kind.is_some_and(|kind| kind.starts_with("application/json"));
        let (mut body, mut bytes, signs) = (answer.into_body(), Vec::new(), signs::current());
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| Error::unavailable("the answer broke off").with_source(error))?;
            bytes.extend_from_slice(&frame.into_data().unwrap_or_default());
            if bytes.len() > bytes_max {
                return Err(Error::new(ErrorKind::TooLarge, format!("{url} has more than {bytes_max} bytes")));
            }
            signs.alive();
        }
        Ok(Some(Page { url, bytes, is_json }))
    }

    /// Asks for a file, or for a part of it, on a condition. Goes where it is sent, but not from https to http.
    pub(super) async fn get(
        &self,
        url: &Uri,
        range: Option<ByteRange>,
        condition: Option<&HeaderValue>,
    ) -> Result<Response<Incoming>> {
        self.follow(url, range, condition).await.map(|(_, answer)| answer)
    }

    async fn follow(
        &self,
        url: &Uri,
        range: Option<ByteRange>,
        condition: Option<&HeaderValue>,
    ) -> Result<(Uri, Response<Incoming>)> {
        let mut url = url.clone();
        for _ in 0..=REDIRECTS_MAX {
            let mut request = Request::get(url.clone())
                .header(ACCEPT_ENCODING, "identity")
                .header("want-repr-digest", "sha-256=5, sha-512=3")
                .header(USER_AGENT, concat!("holdfast/", env!("CARGO_PKG_VERSION")));
            let basic = self.basic.as_ref().filter(|(at, _)| same_origin(at, &url)).map(|(_, shown)| shown);
            if let Some(shown) = basic {
                request = request.header(AUTHORIZATION, shown);
            }
            if let Some(range) = range {
                request = request.header(RANGE, format!("bytes={}-{}", range.start, range.end.saturating_sub(1)));
            }
            if let Some(condition) = condition {
                request = request.header(IF_RANGE, condition);
            }
            let request = request
                .body(Empty::new())
                .map_err(|error| Error::invalid(format!("{url} cannot be asked for")).with_source(error))?;
            let answer = self.pool.request(request).await.map_err(|error| unreachable(&url, error))?;
            match answer.status() {
                StatusCode::MOVED_PERMANENTLY
                | StatusCode::FOUND
                | StatusCode::SEE_OTHER
                | StatusCode::TEMPORARY_REDIRECT
                | StatusCode::PERMANENT_REDIRECT => {
                    url = sent_on(&url, &answer)?;
                }
                StatusCode::UNAUTHORIZED if basic.is_some() => {
                    let what = "the server does not take that name and password";
                    return Err(Error::new(ErrorKind::Unauthenticated, what));
                }
                _ => return Ok((url, answer)),
            }
        }
        Err(Error::new(ErrorKind::Unsupported, "the server sends one on and on"))
    }
}

/// A page, and where it is.
pub(super) struct Page {
    pub(super) url: Uri,
    pub(super) bytes: Vec<u8>,
    pub(super) is_json: bool,
}

/// Whether two addresses are of the same server (RFC 6454 section 5).
fn same_origin(a: &Uri, b: &Uri) -> bool {
    let port = |url: &Uri| url.port_u16().unwrap_or(if url.scheme_str() == Some("https") { 443 } else { 80 });
    let host = |url: &Uri| url.host().unwrap_or_default().to_ascii_lowercase();
    a.scheme() == b.scheme() && host(a) == host(b) && port(a) == port(b)
}

/// Where a server sends one: another address, or another path of its own.
fn sent_on(from: &Uri, answer: &Response<Incoming>) -> Result<Uri> {
    let refuse =
        || refused(answer.status(), answer.headers()).context("it sends one on to no address that can be used");
    let to: Uri = answer.headers().get(LOCATION).and_then(|to| to.to_str().ok()?.parse().ok()).ok_or_else(refuse)?;
    let mut parts = to.into_parts();
    if parts.authority.is_none() {
        parts.scheme = from.scheme().cloned();
        parts.authority = from.authority().cloned();
    }
    let to = Uri::from_parts(parts).map_err(|_| refuse())?;
    match (from.scheme_str(), to.scheme_str()) {
        (_, Some("https")) | (Some("http"), Some("http")) => Ok(to),
        _ => Err(refuse()),
    }
}

/// A certificate that is not believed will not be believed later either; all else may go by itself.
fn unreachable(url: &Uri, error: hyper_util::client::legacy::Error) -> Error {
    let host = url.host().unwrap_or_default();
    if let Some(rustls::Error::InvalidCertificate(why)) = of_tls(&error) {
        return Error::forbidden(format!("the certificate of {host} is not believed: {why:?}"));
    }
    Error::unavailable(format!("{host} cannot be reached")).with_source(error)
}

/// The error of TLS among the causes of another. One of input and output hides what is in it from its causes.
pub(crate) fn of_tls<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e rustls::Error> {
    let inside = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    let inside = inside.and_then(|inside| of_tls(inside));
    error.downcast_ref().or(inside).or_else(|| error.source().and_then(of_tls))
}

pub(crate) fn roots(ca: Option<&Path>) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let Some(path) = ca else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    let unreadable = |error: String| Error::invalid(format!("--ca {}: {error}", path.display()));
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| unreadable(error.to_string()))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
    }
    Ok(roots)
}
